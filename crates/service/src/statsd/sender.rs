//! [`StatsdSender`]: reads the page at intervals, and sends what is new.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::line::LineForm;
use super::page::{LineAmount, series};
use super::settings::Statsd;
use crate::host_port::HostPort;
use crate::metrics::{ServiceTotal, encode_total};
use crate::options::MetricsNames;

/// The maximum size of a datagram: what an Ethernet frame carries, with room for headers of tunnels.
const MAX_DATAGRAM_BYTES: usize = 1_432;

/// How long a resolved name is taken for right: a server that has moved causes no error. Also the longest pause after
/// errors.
const RESOLVED_FOR: Duration = Duration::from_secs(60);

/// The time within which a name must be resolved.
const RESOLVED_WITHIN: Duration = Duration::from_secs(5);

/// Datagrams, by what became of them here.
#[derive(Debug, Default)]
pub(crate) struct StatsdCounts {
    sent: ServiceTotal,
    failed: ServiceTotal,
}

/// Sends metrics.
#[derive(Debug)]
pub(crate) struct StatsdSender {
    address: HostPort,
    every: Duration,
    form: LineForm,
    socket: Option<UdpSocket>,
    /// From when on the address is to be looked up again; and the pause before that after the last error, or 0.
    look_up: (Instant, Duration),
    /// What each counter had when it was last sent.
    before: HashMap<String, LineAmount>,
    /// Whether the last report met an error, which is logged once.
    is_failing: bool,
    counts: Arc<StatsdCounts>,
}

/// What a datagram carries: its lines, and the counters whose gains they tell.
#[derive(Default)]
struct Datagram {
    text: String,
    counters: Vec<(String, LineAmount)>,
}

impl StatsdSender {
    pub(crate) fn new(statsd: &Statsd, names: MetricsNames) -> (Self, OfStatsd) {
        let counts = Arc::new(StatsdCounts::default());
        let sender = Self {
            address: statsd.address.clone(),
            every: statsd.every.max(Duration::from_secs(1)),
            form: LineForm::new(statsd, names),
            socket: None,
            look_up: (Instant::now(), Duration::ZERO),
            before: HashMap::new(),
            is_failing: false,
            counts: Arc::clone(&counts),
        };
        (sender, OfStatsd(counts))
    }

    /// Reports at intervals until `stopped` is set, and then once more. To make a page is to read whole tables, and
    /// keeps no thread from requests.
    pub(crate) async fn run(
        mut self,
        page: impl Fn() -> Result<String, fmt::Error> + Clone + Send + 'static,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut ticks = interval_at(Instant::now() + self.every, self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Dropped before the next await: what a channel gives is locked while it is held.
        let ends = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        let mut ends = std::pin::pin!(ends);
        loop {
            let is_over = tokio::select! {
                _ = ticks.tick() => false,
                () = ends.as_mut() => true,
            };
            if let Ok(Ok(page)) = spawn_blocking(page.clone()).await {
                self.report(&page).await;
            }
            if is_over {
                return;
            }
        }
    }

    async fn report(&mut self, page: &str) {
        let is_due = Instant::now() >= self.look_up.0;
        let mut error = if is_due { self.connect().await.err() } else { None };
        let (mut now, mut failed) = (HashMap::new(), 0);
        for datagram in self.datagrams(page) {
            let sent = self.socket.as_ref().map(|socket| send(socket, &datagram.text));
            if let Some(Ok(is_sent)) = sent {
                self.counts.sent.add(u64::from(is_sent));
                now.extend(datagram.counters);
                continue;
            }
            failed += 1;
            // What it would have told is told by the next.
            let as_before = |(key, _): (String, LineAmount)| {
                let before = self.before.get(&key).copied();
                before.map(|amount| (key, amount))
            };
            now.extend(datagram.counters.into_iter().filter_map(as_before));
            error = error.or(sent.and_then(Result::err));
        }
        self.before = now;
        self.counts.failed.add(failed);
        if is_due || self.socket.is_some() {
            self.tried(error.as_ref());
        }
    }

    /// Looks the address up; a socket that is there is kept if that fails. Returns why there is none.
    async fn connect(&mut self) -> io::Result<()> {
        self.look_up.0 = Instant::now() + RESOLVED_FOR;
        let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "the name is not resolved");
        let found = timeout(RESOLVED_WITHIN, connect(&self.address)).await;
        match found.unwrap_or_else(|_| Err(timed_out())) {
            Ok(socket) => self.socket = Some(socket),
            Err(error) if self.socket.is_none() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// Logs that it fails, and that it does no more; and decides when to look the address up again.
    fn tried(&mut self, error: Option<&io::Error>) {
        let address = &self.address;
        match error {
            Some(error) if !self.is_failing => tracing::warn!(
                "metrics not sent to StatsD at {address}: {error}; counters are kept for the next report"
            ),
            None if self.is_failing => {
                tracing::info!("metrics are sent to StatsD at {address} again");
            }
            _ => {}
        }
        self.is_failing = error.is_some();
        let (due, pause) = self.look_up;
        self.look_up = match error {
            // It may have moved.
            Some(_) => {
                let pause = (2 * pause).clamp(self.every.min(RESOLVED_FOR), RESOLVED_FOR);
                (due.min(Instant::now() + pause), pause)
            }
            None => (due, Duration::ZERO),
        };
    }

    /// The datagrams of a report: all gauges, and the counters that have gained something.
    fn datagrams(&self, page: &str) -> Vec<Datagram> {
        let mut all = vec![Datagram::default()];
        for series in series(page) {
            let before = self.before.get(series.id).copied();
            let amount =
                if series.is_counter { series.amount.gained(before) } else { series.amount };
            let is_news = !series.is_counter || !amount.is_zero();
            let lines = if is_news { self.form.lines(&series, amount) } else { Vec::new() };
            let text = lines.join("\n");
            let used = all.last().map_or(0, |last| last.text.len());
            // All names of a series go together: they are told, or none is.
            if used > 0 && used + 1 + text.len() > MAX_DATAGRAM_BYTES {
                all.push(Datagram::default());
            }
            let Some(last) = all.last_mut() else { continue };
            // No server would take it whole: a rule whose name is that long is not sent.
            if text.len() <= MAX_DATAGRAM_BYTES && !text.is_empty() {
                if !last.text.is_empty() {
                    last.text.push('\n');
                }
                last.text.push_str(&text);
            }
            if series.is_counter {
                last.counters.push((series.id.to_owned(), series.amount));
            }
        }
        all.retain(|datagram| !datagram.text.is_empty() || !datagram.counters.is_empty());
        all
    }
}

/// Whether there was anything to send. A socket that is connected reports that nothing listens at its address; one whose
/// buffer is full does not delay the other datagrams.
fn send(socket: &UdpSocket, text: &str) -> io::Result<bool> {
    if text.is_empty() {
        return Ok(false);
    }
    socket.try_send(text.as_bytes()).map(|_| true)
}

async fn connect(address: &HostPort) -> io::Result<UdpSocket> {
    let found = address.addresses().await?;
    // There is at least one.
    let first = found.first().ok_or(io::ErrorKind::NotFound)?;
    let any = if first.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(first).await?;
    socket.writable().await?;
    Ok(socket)
}

/// Shows how many datagrams were sent, and were not.
#[derive(Debug)]
pub(crate) struct OfStatsd(Arc<StatsdCounts>);

impl Collector for OfStatsd {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(counts) = self;
        let help = "Datagrams that were sent to StatsD";
        encode_total(&mut encoder, "statsd_sent", help, counts.sent.get())?;
        let help = "Datagrams that could not be sent to StatsD";
        encode_total(&mut encoder, "statsd_failed", help, counts.failed.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(address: &str) -> StatsdSender {
        StatsdSender::new(&Statsd::new(address.parse().unwrap()), MetricsNames::Own).0
    }

    fn page(hits: u64, live: u64) -> String {
        format!(
            "# TYPE tollgate_hits counter\ntollgate_hits_total{{r=\"x\"}} {hits}\n# TYPE tollgate_live gauge\ntollgate_live {live}\n"
        )
    }

    async fn told(socket: &UdpSocket) -> String {
        let mut datagram = [0; 65_536];
        let received = timeout(Duration::from_secs(30), socket.recv(&mut datagram));
        let size = received.await.expect("a datagram").unwrap();
        String::from_utf8(datagram[..size].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn counters_are_told_as_gains_and_gauges_as_they_are() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut sender = sender(&socket.local_addr().unwrap().to_string());
        for (page, expected) in [
            (page(3, 1), "tollgate.hits.x:3|c\ntollgate.live:1|g"),
            (page(3, 1), "tollgate.live:1|g"),
            (page(8, 0), "tollgate.hits.x:5|c\ntollgate.live:0|g"),
            // The rule was gone for a while.
            (page(0, 0), "tollgate.live:0|g"),
            (page(2, 0), "tollgate.hits.x:2|c\ntollgate.live:0|g"),
        ] {
            sender.report(&page).await;
            assert_eq!(told(&socket).await, expected);
        }
        assert_eq!((sender.counts.sent.get(), sender.counts.failed.get()), (5, 0));
    }

    /// What is told after a report that could not be sent.
    async fn told_after_a_failure(keeps_what_failed: bool) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let mut sender = sender(&address.to_string());
        // It is sent, and nothing takes it: the system says so when the next is sent.
        sender.report(&page(3, 1)).await;
        sender.report(&page(5, 1)).await;
        assert_eq!((sender.counts.sent.get(), sender.counts.failed.get()), (1, 1));
        if !keeps_what_failed {
            sender.before.values_mut().for_each(|before| *before = LineAmount::Whole(5));
        }
        let socket = UdpSocket::bind(address).await.unwrap();
        sender.report(&page(6, 1)).await;
        assert_eq!((sender.counts.sent.get(), sender.counts.failed.get()), (2, 1));
        told(&socket).await
    }

    #[tokio::test]
    async fn what_the_system_refuses_to_send_is_counted_and_told_by_the_next_report() {
        assert_eq!(told_after_a_failure(true).await, "tollgate.hits.x:3|c\ntollgate.live:1|g");
    }

    #[tokio::test]
    async fn a_report_that_forgets_what_was_not_sent_is_caught() {
        assert_eq!(told_after_a_failure(false).await, "tollgate.hits.x:1|c\ntollgate.live:1|g");
    }

    #[test]
    fn datagrams_are_small_and_no_line_is_lost_or_cut() {
        let mut page = String::from("# TYPE tollgate_hits counter\n");
        for n in 1..=500 {
            page += &format!("tollgate_hits_total{{r=\"rule{n}\"}} {n}\n");
        }
        page += &format!("tollgate_hits_total{{r=\"{}\"}} 1\n", "x".repeat(MAX_DATAGRAM_BYTES));
        let datagrams = sender("127.0.0.1:1").datagrams(&page);
        assert!(datagrams.iter().all(|one| one.text.len() <= MAX_DATAGRAM_BYTES));
        let fits = |one: &&[Datagram]| {
            let longest = "\ntollgate.hits.rule500:500|c".len();
            one[0].text.len() + longest <= MAX_DATAGRAM_BYTES && !one[1].text.is_empty()
        };
        assert_eq!(datagrams.windows(2).filter(fits).count(), 0, "each but the last is full");
        let lines: Vec<&str> = datagrams.iter().flat_map(|one| one.text.lines()).collect();
        let expected: Vec<String> =
            (1..=500).map(|n| format!("tollgate.hits.rule{n}:{n}|c")).collect();
        assert_eq!(lines, expected);
    }

    /// After how many seconds a name that does not exist is looked up, if reports are due every 5 s for 5 minutes.
    async fn look_ups(keeps_its_pause: bool) -> Vec<u64> {
        // Longer than a part of a name may be, so that no server is asked.
        let mut sender = sender(&format!("{}:8125", "x".repeat(64)));
        let (start, mut due, mut look_ups) = (Instant::now(), sender.look_up.0, Vec::new());
        for _ in 0..60 {
            sender.report(&page(3, 1)).await;
            if !keeps_its_pause {
                sender.look_up.1 = Duration::ZERO;
            }
            if sender.look_up.0 != due {
                due = sender.look_up.0;
                look_ups.push(start.elapsed().as_secs());
            }
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        assert_eq!((sender.counts.sent.get(), sender.counts.failed.get()), (0, 60));
        look_ups
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_is_not_resolved_is_looked_up_ever_more_seldom() {
        assert_eq!(look_ups(true).await, [0, 5, 15, 35, 75, 135, 195, 255]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_looks_a_name_up_for_each_report_is_caught() {
        assert_eq!(look_ups(false).await.len(), 60);
    }
}
