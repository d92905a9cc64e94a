//! [`DenialLog`]: logs denials, but no more of them than a limit for the log admits.
//!
//! A [`Limiter`] decides whether a denial is written, so in a flood each denial costs one read of one word. A separate
//! thread writes the lines: if standard error is a pipe that nothing reads, that thread waits and no request does. A
//! denial is left out if the limit refuses it, or if too many lines wait. The next line says how many denials were left
//! out.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::{mpsc, oneshot};
use tollgate::{Clock, Limiter, Policy};
use tollgate_rules::{Answer, PacedAnswer};
use tracing::{Level, dispatcher};

use super::asked::{InWords, RequestText, hits_of, rules_of, word};
use crate::metrics::{Protocol, ServiceTotal, encode_total};

/// The maximum number of lines that wait to be written: a megabyte or so.
const MAX_LINES: usize = 1_024;

/// Writes a line.
type WriteLine = Box<dyn FnOnce() + Send>;

/// Writes denials to the log.
#[derive(Debug)]
pub(crate) struct DenialLog {
    limiter: Limiter,
    /// Whether the level of the log includes lines about denials.
    is_heard: bool,
    lines: mpsc::Sender<WriteLine>,
    /// The number of denials left out since the last line.
    pending: AtomicU64,
    logged: ServiceTotal,
    suppressed: ServiceTotal,
}

/// The protocol and the address that a denied request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeniedFrom {
    pub(crate) protocol: Protocol,
    pub(crate) peer: Option<IpAddr>,
}

impl DenialLog {
    /// Opens the log and starts its thread. The thread ends when the log is dropped.
    pub(crate) fn open(policy: Policy, clock: Clock) -> io::Result<Self> {
        let (lines, mut taken) = mpsc::channel::<WriteLine>(MAX_LINES);
        let subscriber = dispatcher::get_default(Clone::clone);
        thread::Builder::new().name("tollgate-denials".to_owned()).spawn(move || {
            dispatcher::with_default(&subscriber, || {
                while let Some(write) = taken.blocking_recv() {
                    write();
                }
            });
        })?;
        Ok(Self {
            limiter: Limiter::builder(policy).clock(clock).build(),
            is_heard: tracing::enabled!(Level::INFO),
            lines,
            pending: AtomicU64::new(0),
            logged: ServiceTotal::default(),
            suppressed: ServiceTotal::default(),
        })
    }

    /// Queues a line to be written if the limit admits it and there is room for it. `line` gets the number of denials
    /// left out since the last line.
    fn put(&self, line: impl FnOnce(u64) -> WriteLine) {
        let is_admitted = self.is_heard && self.limiter.check().is_allowed();
        let room = is_admitted.then(|| self.lines.try_reserve().ok()).flatten();
        if let Some(room) = room {
            self.logged.add(1);
            // Relaxed: no other memory is published with this count, and each addition is reported by exactly one line.
            room.send(line(self.pending.swap(0, Ordering::Relaxed)));
        } else {
            self.suppressed.add(1);
            // Relaxed, for the same reason as the swap.
            self.pending.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the lines that are in the queue at the call are written.
    pub(crate) async fn flush(&self) {
        let (tell, told) = oneshot::channel();
        // The thread drops the sender after it has written the earlier lines. If the thread has ended, the sender is
        // dropped at once.
        let _ = self.lines.send(Box::new(move || drop::<oneshot::Sender<()>>(tell))).await;
        let _ = told.await;
    }

    /// Logs a request that rules denied. `asked` is read only if a line is logged.
    pub(crate) fn by_rules(&self, asked: &impl InWords, answer: &Answer, from: DeniedFrom) {
        self.put(|suppressed| {
            let (text, hits) = (RequestText::of(asked), hits_of(asked, answer));
            let (rules, retry_after_ms) = (rules_of(answer), answer.retry_after().map(whole_ms));
            Box::new(move || {
                tracing::info!(
                    domain = text.domain,
                    descriptors = text.descriptors,
                    rules,
                    hits,
                    retry_after_ms,
                    protocol = from.protocol.name(),
                    peer = from.peer.map(tracing::field::display),
                    suppressed,
                    "denied"
                );
            })
        });
    }

    /// Logs a request that was denied by the limit that came with it.
    pub(crate) fn by_pace(&self, key: &[u8], hits: u64, answer: &PacedAnswer, from: DeniedFrom) {
        self.put(|suppressed| {
            let (key, retry_after_ms) = (word(key), answer.retry_after.map(whole_ms));
            Box::new(move || {
                tracing::info!(
                    key,
                    hits,
                    retry_after_ms,
                    protocol = from.protocol.name(),
                    peer = from.peer.map(tracing::field::display),
                    suppressed,
                    "denied"
                );
            })
        });
    }
}

/// A wait in whole milliseconds, rounded up.
fn whole_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Reports how many denials were logged, and how many were left out.
#[derive(Debug)]
pub(crate) struct OfDenials(pub(crate) Arc<DenialLog>);

impl Collector for OfDenials {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(log) = self;
        let help = "Denials that were logged";
        encode_total(&mut encoder, "denials_logged", help, log.logged.get())?;
        let help = "Denials that were not logged: the log of denials was at its limit, nothing took its lines, or the log's \
                    level leaves them out";
        encode_total(&mut encoder, "denials_suppressed", help, log.suppressed.get())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn open_at(level: Level, policy: Policy) -> DenialLog {
        let subscriber = tracing_subscriber::fmt().with_max_level(level).finish();
        let open = || DenialLog::open(policy, Clock::unix()).unwrap();
        tracing::subscriber::with_default(subscriber, open)
    }

    #[test]
    fn what_the_level_of_the_log_leaves_out_is_counted_as_left_out() {
        let log = open_at(Level::WARN, "1/s".parse().unwrap());
        log.put(|_| Box::new(|| panic!("no line is written")));
        assert_eq!((log.logged.get(), log.suppressed.get()), (0, 1));
    }

    #[tokio::test]
    async fn a_log_that_nothing_reads_holds_up_no_request_and_what_it_loses_is_told() {
        let policy = "1000000/s burst 1000000".parse().unwrap();
        let log = open_at(Level::INFO, policy);
        let ((begin, begun), (read, is_read)) = (channel(), channel::<()>());
        log.put(|_| {
            Box::new(move || {
                begin.send(()).unwrap();
                let _ = is_read.recv();
            })
        });
        // The thread has taken the first line from the queue, and is blocked in writing it.
        begun.recv().unwrap();
        for _ in 0..MAX_LINES + 10 {
            log.put(|_| Box::new(|| ()));
        }
        assert_eq!((log.logged.get(), log.suppressed.get()), (MAX_LINES as u64 + 1, 10));
        drop(read);
        log.flush().await;
        let (tell, told) = channel();
        log.put(|suppressed| Box::new(move || tell.send(suppressed).unwrap()));
        assert_eq!(told.recv(), Ok(10));
    }
}
