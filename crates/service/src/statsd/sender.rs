//! [`StatsdSender`]: reads the metrics at intervals, and sends all gauges, and the counters that have changed.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::datagrams::{Datagram, StatsdReport};
use super::line::LineForm;
use super::series::SeriesId;
use super::settings::Statsd;
use crate::apart;
use crate::backoff::Backoff;
use crate::host_port::HostPort;
use crate::metrics::{ServiceTotal, encode_total};
use crate::metrics_names::MetricsNames;

/// The time after which a name is resolved again even without an error, because sending to a server that has moved may
/// cause none. It is also the longest pause after errors.
const RESOLVED_FOR: Duration = Duration::from_secs(60);

/// The time within which a name must be resolved.
const RESOLVED_WITHIN: Duration = Duration::from_secs(5);

/// The number of datagrams that are sent before other tasks of the thread get a turn. Sending them takes a few hundred
/// microseconds.
const IN_A_ROW: usize = 64;

/// The number of reports without an error, one after the other, after which the log says that metrics are sent again.
/// If nothing listens, the error of a datagram shows only when the next datagram is sent, so every second report seems
/// to succeed.
const CLEAN_REPORTS: u8 = 2;

/// The numbers of datagrams sent and failed, and of series that are too long for a datagram.
#[derive(Debug, Default)]
pub(crate) struct StatsdCounts {
    sent: ServiceTotal,
    failed: ServiceTotal,
    too_long: ServiceTotal,
}

/// Sends metrics.
#[derive(Debug)]
pub(crate) struct StatsdSender {
    address: HostPort,
    every: Duration,
    form: Arc<LineForm>,
    socket: Option<UdpSocket>,
    /// The time when the address is to be looked up again.
    look_up_due: Instant,
    /// The pauses between an error and the next lookup.
    look_ups: Backoff,
    /// The value of each counter when it was last sent.
    before: Arc<HashMap<SeriesId, f64>>,
    /// `Some` from an error until the log says that sending works again. The number counts the reports without an error
    /// since the last error.
    clean: Option<u8>,
    counts: Arc<StatsdCounts>,
}

impl StatsdSender {
    pub(crate) fn new(statsd: &Statsd, names: MetricsNames) -> (Self, OfStatsd) {
        let counts = Arc::new(StatsdCounts::default());
        let every = statsd.every.max(Duration::from_secs(1));
        let sender = Self {
            address: statsd.address.clone(),
            every,
            form: Arc::new(LineForm::new(statsd, names)),
            socket: None,
            look_up_due: Instant::now(),
            look_ups: Backoff::new(every.min(RESOLVED_FOR), RESOLVED_FOR, 0.0),
            before: Arc::default(),
            clean: None,
            counts: Arc::clone(&counts),
        };
        (sender, OfStatsd(counts))
    }

    /// Reports at intervals until `stopped` is set, and then once more.
    pub(crate) async fn run(
        mut self,
        metrics: impl Fn() -> Result<Vec<MetricFamily>, fmt::Error> + Clone + Send + 'static,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut ticks = interval_at(Instant::now() + self.every, self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The guard that the channel returns is dropped before the next await, since it holds a lock.
        let ends = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        let mut ends = std::pin::pin!(ends);
        loop {
            let is_over = tokio::select! {
                _ = ticks.tick() => false,
                () = ends.as_mut() => true,
            };
            self.report(metrics.clone()).await;
            if is_over {
                return;
            }
        }
    }

    async fn report(
        &mut self,
        metrics: impl FnOnce() -> Result<Vec<MetricFamily>, fmt::Error> + Send + 'static,
    ) {
        let (form, before) = (Arc::clone(&self.form), Arc::clone(&self.before));
        // Collecting the metrics reads whole tables, and writing the lines takes about as long. Both run on a thread
        // that decides no requests.
        let made = apart::make(move || {
            metrics().map(|families| StatsdReport::of(families, &before, &form))
        });
        let Some(Ok(report)) = made.await else { return };
        if report.too_long > 0 && self.counts.too_long.get() == 0 {
            tracing::warn!("{} series are too long for StatsD, and not sent", report.too_long);
        }
        self.counts.too_long.add(report.too_long);
        let is_due = Instant::now() >= self.look_up_due;
        let error = if is_due { self.connect().await.err() } else { None };
        let error = self.send_all(report.datagrams).await.or(error);
        if is_due || self.socket.is_some() {
            self.tried(error.as_ref());
        }
    }

    /// Sends as many datagrams as possible; returns the first error, if there is one.
    async fn send_all(&mut self, datagrams: Vec<Datagram>) -> Option<io::Error> {
        let (mut now, mut failed, mut error) = (HashMap::new(), 0, None);
        for (n, datagram) in datagrams.into_iter().enumerate() {
            if n % IN_A_ROW == IN_A_ROW - 1 {
                yield_now().await;
            }
            let sent = self.socket.as_ref().map(|socket| send(socket, &datagram.text));
            if let Some(Ok(is_sent)) = sent {
                self.counts.sent.add(u64::from(is_sent));
                now.extend(datagram.counters);
                continue;
            }
            failed += 1;
            // The values before this report are kept, so that the next report contains the gains of this datagram.
            let as_before = |(key, _): (SeriesId, f64)| {
                let before = self.before.get(&key).copied();
                before.map(|amount| (key, amount))
            };
            now.extend(datagram.counters.into_iter().filter_map(as_before));
            error = error.or(sent.and_then(Result::err));
        }
        self.before = Arc::new(now);
        self.counts.failed.add(failed);
        error
    }

    /// Looks the address up. If that fails, the existing socket is kept. After an error in sending, the name's next
    /// address is used: the first address of `localhost` may belong to an IP version that the server does not listen
    /// on. Returns an error if there is no socket.
    async fn connect(&mut self) -> io::Result<()> {
        self.look_up_due = Instant::now() + RESOLVED_FOR;
        let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "the name is not resolved");
        let found = timeout(RESOLVED_WITHIN, self.address.addresses()).await;
        let found = match found.unwrap_or_else(|_| Err(timed_out())) {
            Ok(found) => found,
            Err(error) if self.socket.is_none() => return Err(error),
            Err(_) => return Ok(()),
        };
        let peer = self.socket.as_ref().and_then(|socket| socket.peer_addr().ok());
        let next = next_of(&found, peer, self.clean == Some(0));
        // If the address is the same, the socket is kept, because a new socket would not report that nothing has
        // received the last datagrams.
        if peer != Some(next) || self.socket.is_none() {
            self.socket = Some(connect(next).await?);
        }
        Ok(())
    }

    /// Logs when sending begins to fail and when it works again, and decides when to look the address up again.
    fn tried(&mut self, error: Option<&io::Error>) {
        let address = &self.address;
        let Some(error) = error else {
            self.clean = self.clean.map(|clean| clean + 1).filter(|clean| {
                let is_over = *clean >= CLEAN_REPORTS;
                if is_over {
                    tracing::info!("metrics are sent to StatsD at {address} again");
                }
                !is_over
            });
            if self.clean.is_none() {
                self.look_ups.reset();
            }
            return;
        };
        if self.clean.is_none() {
            tracing::warn!(
                "metrics not sent to StatsD at {address}: {error}; counters are kept for the next report"
            );
        }
        self.clean = Some(0);
        // The server may have moved.
        self.look_up_due = self.look_up_due.min(Instant::now() + self.look_ups.next());
    }
}

/// Chooses among the addresses of a name: returns the address in use, or the next one if sending has failed. `found`
/// must not be empty.
fn next_of(found: &[SocketAddr], peer: Option<SocketAddr>, has_failed: bool) -> SocketAddr {
    let at = found.iter().position(|address| Some(*address) == peer);
    found[at.map_or(0, |at| (at + usize::from(has_failed)) % found.len())]
}

/// Sends a datagram; returns false if it is empty. A connected socket returns an error if nothing listens at its
/// address. A full buffer is also an error, so it does not delay the other datagrams.
fn send(socket: &UdpSocket, text: &str) -> io::Result<bool> {
    if text.is_empty() {
        return Ok(false);
    }
    socket.try_send(text.as_bytes()).map(|_| true)
}

async fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    socket.writable().await?;
    Ok(socket)
}

/// Reports as metrics how many datagrams were sent, and how many were not.
#[derive(Debug)]
pub(crate) struct OfStatsd(Arc<StatsdCounts>);

impl Collector for OfStatsd {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(counts) = self;
        let help = "Datagrams that were sent to StatsD";
        encode_total(&mut encoder, "statsd_sent", help, counts.sent.get())?;
        let help = "Datagrams that could not be sent to StatsD";
        encode_total(&mut encoder, "statsd_failed", help, counts.failed.get())?;
        let help = "Series that are too long for a datagram, in each report that had them";
        encode_total(&mut encoder, "statsd_too_long", help, counts.too_long.get())
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::families;
    use super::*;

    fn sender(address: &str) -> StatsdSender {
        StatsdSender::new(&Statsd::new(address.parse().unwrap()), MetricsNames::Own).0
    }

    fn metrics(hits: u64, live: i64) -> Vec<MetricFamily> {
        families(&[("x", hits)], Some(live))
    }

    async fn report(sender: &mut StatsdSender, metrics: Vec<MetricFamily>) {
        sender.report(move || Ok(metrics)).await;
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
        for (metrics, expected) in [
            (metrics(3, 1), "tollgate.hits.x:3|c\ntollgate.live:1|g"),
            (metrics(3, 1), "tollgate.live:1|g"),
            (metrics(8, 0), "tollgate.hits.x:5|c\ntollgate.live:0|g"),
            // The rule was gone for a while.
            (metrics(0, 0), "tollgate.live:0|g"),
            (metrics(2, 0), "tollgate.hits.x:2|c\ntollgate.live:0|g"),
        ] {
            report(&mut sender, metrics).await;
            assert_eq!(told(&socket).await, expected);
        }
        assert_eq!((sender.counts.sent.get(), sender.counts.failed.get()), (5, 0));
    }

    /// The text of the first report that arrives after a report that could not be sent.
    async fn told_after_a_failure(keeps_what_failed: bool) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let mut sender = sender(&address.to_string());
        // The first report is sent, but nothing receives it. The system returns the error for it when the next report
        // is sent.
        report(&mut sender, metrics(3, 1)).await;
        report(&mut sender, metrics(5, 1)).await;
        assert_eq!((sender.counts.sent.get(), sender.counts.failed.get()), (1, 1));
        if !keeps_what_failed {
            let before = Arc::get_mut(&mut sender.before).expect("no report is made");
            before.values_mut().for_each(|before| *before = 5.0);
        }
        let socket = UdpSocket::bind(address).await.unwrap();
        report(&mut sender, metrics(6, 1)).await;
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

    #[tokio::test]
    async fn a_server_that_is_gone_is_logged_once_however_many_reports_seem_to_be_sent() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let mut sender = sender(&address.to_string());
        for n in 1..=6 {
            // The address is looked up again for each report.
            sender.look_up_due = Instant::now();
            report(&mut sender, metrics(n, 1)).await;
            assert_eq!(sender.clean.is_some(), n > 1, "report {n}");
        }
        assert_eq!((sender.counts.sent.get(), sender.counts.failed.get()), (3, 3));
        let socket = UdpSocket::bind(address).await.unwrap();
        for is_failing in [true, false] {
            report(&mut sender, metrics(7, 1)).await;
            assert_eq!(sender.clean.is_some(), is_failing);
        }
        assert_eq!(told(&socket).await, "tollgate.hits.x:2|c\ntollgate.live:1|g");
    }

    #[test]
    fn after_an_error_the_next_address_of_a_name_is_tried() {
        let [v6, v4, gone] = ["[::1]:8125", "127.0.0.1:8125", "10.0.0.1:8125"]
            .map(|address| address.parse::<SocketAddr>().unwrap());
        for (peer, has_failed, expected) in [
            (None, false, v6),
            (Some(v6), false, v6),
            (Some(v6), true, v4),
            (Some(v4), false, v4),
            (Some(v4), true, v6),
            (Some(gone), true, v6),
        ] {
            assert_eq!(next_of(&[v6, v4], peer, has_failed), expected, "{peer:?} {has_failed}");
        }
        assert_eq!(next_of(&[v4], Some(v4), true), v4);
    }

    /// The times in seconds at which a name that does not exist is looked up, while reports are due every 5 s for 5
    /// minutes.
    async fn look_ups(keeps_its_pause: bool) -> Vec<u64> {
        // The first part of the name is longer than DNS allows, so no DNS server is asked.
        let mut sender = sender(&format!("{}:8125", "x".repeat(64)));
        let (start, mut due, mut look_ups) = (Instant::now(), sender.look_up_due, Vec::new());
        for _ in 0..60 {
            report(&mut sender, metrics(3, 1)).await;
            if !keeps_its_pause {
                sender.look_ups.reset();
            }
            if sender.look_up_due != due {
                due = sender.look_up_due;
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
