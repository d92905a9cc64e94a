//! Bad inputs 108 to 120: a store that dies, hangs, forgets, refuses or crawls, under load.
//!
//! Three nodes in both modes ask for one key all the time. In every fault bound D1 must hold: of each mode
//! no more is admitted than
//!
//! ```text
//! burst + rate * t + burst for each loss of the store's memory
//!       + for each node: max(1, burst / nodes) + rate / nodes * its time in isolation
//! ```
//!
//! decisions must go on meanwhile, no caller may wait past the deadline, and all nodes must come back by
//! themselves. `TOLLGATE_CYCLES` is how often each fault is repeated; `TOLLGATE_PAUSE_MS` how long a server
//! is stopped.
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::proxy::Proxy;
use common::server::Server;
use tollgate_redis::{Fault, Mode, OnError, RedisLimiter, Settings, Source, Stats, Store};

const RATE: u64 = 60;
const BURST: u64 = 90;
const NODES: u64 = 3;
const DEADLINE: Duration = Duration::from_millis(30);
/// The machine may be busy: what a thread may come late, on top of the deadline.
const LATE: Duration = Duration::from_millis(400);
/// All nodes are back by then: a backoff of a second at most, and the attempts themselves.
const RECOVERY: Duration = Duration::from_secs(10);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What the callers of one mode have seen.
#[derive(Debug, Default)]
struct Seen {
    admitted: AtomicU64,
    decisions: AtomicU64,
    degraded: AtomicU64,
    slowest_us: AtomicU64,
}

/// Nodes under load.
struct Load {
    stores: Vec<Store>,
    seen: [Arc<Seen>; 2],
    start: Instant,
    stop: Arc<AtomicBool>,
    losses: u64,
}

async fn ask(limiter: RedisLimiter, seen: Arc<Seen>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let decision = limiter.check("hot", 1).await;
        let waited_us = u64::try_from(asked.elapsed().as_micros()).unwrap();
        seen.slowest_us.fetch_max(waited_us, Ordering::Relaxed);
        seen.admitted.fetch_add(u64::from(decision.is_allowed()), Ordering::Relaxed);
        seen.degraded.fetch_add(u64::from(decision.is_degraded()), Ordering::Relaxed);
        seen.decisions.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

impl Load {
    /// Three nodes; each mode on a connection of its own, so that its time in isolation is its own.
    async fn on(port: u16) -> Self {
        Self::ruled(port, OnError::Local).await
    }

    async fn ruled(port: u16, on_error: OnError) -> Self {
        let address = format!("redis://127.0.0.1:{port}/");
        let stop = Arc::new(AtomicBool::new(false));
        let seen: [Arc<Seen>; 2] = Default::default();
        let start = Instant::now();
        let mut stores = Vec::new();
        for (mode, seen) in [Mode::Exact, Mode::Leased].into_iter().zip(&seen) {
            for _ in 0..NODES {
                let store = Store::with(&address, DEADLINE, "test").unwrap();
                let policy = format!("{RATE}/s burst {BURST}").parse().unwrap();
                let settings = Settings::new(policy).name(format!("{mode:?}")).mode(mode);
                let settings = settings.nodes(NODES).keys(10).on_error(on_error);
                let limiter = RedisLimiter::new(&store, settings).unwrap();
                for _ in 0..3 {
                    tokio::spawn(ask(limiter.clone(), Arc::clone(seen), Arc::clone(&stop)));
                }
                stores.push(store);
            }
        }
        let load = Self { stores, seen, start, stop, losses: 0 };
        load.recovered().await;
        load
    }

    /// All nodes are back, and decide with the store again.
    async fn recovered(&self) {
        for store in &self.stores {
            tokio::time::timeout(RECOVERY, store.ready()).await.expect("a node does not come back");
        }
        let by_store = || {
            let decided = |stats: Stats| {
                [Source::Store, Source::Lease]
                    .map(|by| stats.allowed(by) + stats.denied(by))
                    .iter()
                    .sum::<u64>()
            };
            self.stores.iter().map(|store| decided(store.stats())).collect::<Vec<_>>()
        };
        let before = by_store();
        let start = Instant::now();
        while by_store().iter().zip(&before).any(|(now, before)| now <= before) {
            assert!(start.elapsed() < RECOVERY, "a node decides nothing with the store");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn degraded(&self) -> u64 {
        self.seen.iter().map(|seen| seen.degraded.load(Ordering::Relaxed)).sum()
    }

    fn faults(&self, fault: Fault) -> u64 {
        self.stores.iter().map(|store| store.stats().faults(fault)).sum()
    }

    /// Waits until some decisions of both modes were made without the store.
    async fn falls_back(&self) {
        let before = self.seen.each_ref().map(|seen| seen.degraded.load(Ordering::Relaxed));
        let start = Instant::now();
        loop {
            let now = self.seen.each_ref().map(|seen| seen.degraded.load(Ordering::Relaxed));
            if now.iter().zip(&before).all(|(now, before)| *now > before + 20) {
                return;
            }
            assert!(start.elapsed() < RECOVERY, "no decision goes on without the store");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn wait(ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Bound D1, with all that is known by now, and the deadline.
    fn audit(&self, what: &str) {
        for n in 0..self.seen.len() {
            let (admitted, bound) = self.admitted(n);
            assert!(admitted <= bound, "{what}: {admitted} admitted, {bound} at most");
            let slowest_us = self.seen[n].slowest_us.load(Ordering::Relaxed);
            let slowest = Duration::from_micros(slowest_us);
            assert!(slowest <= DEADLINE + LATE, "{what}: a caller waited {slowest:?}");
        }
    }

    /// What one mode has admitted, and the most that it may have.
    fn admitted(&self, mode: usize) -> (u64, u64) {
        // What is admitted is read first, so that time is on the safe side.
        let admitted = self.seen[mode].admitted.load(Ordering::Relaxed);
        let nodes = usize::try_from(NODES).unwrap();
        let stores = &self.stores[mode * nodes..][..nodes];
        let isolated: Duration = stores.iter().map(|store| store.stats().degraded_for).sum();
        let units = |count: u64, time: Duration| {
            let ms = u64::try_from(time.as_millis()).unwrap() + 1;
            (count * ms).div_ceil(1_000)
        };
        let from_store = BURST * (1 + self.losses) + units(RATE, self.start.elapsed());
        let from_shares = BURST / NODES * NODES + units(RATE, isolated).div_ceil(NODES);
        (admitted, from_store + from_shares)
    }

    fn end(self, what: &str, cycles: u64) {
        self.audit(what);
        self.stop.store(true, Ordering::Relaxed);
        let sum = |of: fn(&Seen) -> &AtomicU64| {
            self.seen.each_ref().map(|seen| of(seen).load(Ordering::Relaxed))
        };
        println!(
            "{what}: {cycles} cycles in {:.1} s, decisions {:?}, admitted {:?}, without the store {:?}, \
             slowest {:?} us, connections {}",
            self.start.elapsed().as_secs_f64(),
            sum(|seen| &seen.decisions),
            sum(|seen| &seen.admitted),
            sum(|seen| &seen.degraded),
            sum(|seen| &seen.slowest_us),
            self.stores.iter().map(|store| store.stats().connections).sum::<u64>(),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_inputs_108_and_111_a_server_that_is_killed_and_comes_back_empty() {
    let cycles = number("TOLLGATE_CYCLES", 7);
    let mut server = Server::start();
    let mut load = Load::on(server.port).await;
    for _ in 0..cycles {
        Load::wait(200).await;
        server.kill();
        load.losses += 1;
        load.falls_back().await;
        load.audit("killed");
        tokio::task::block_in_place(|| server.restart());
        load.recovered().await;
        load.audit("restarted empty");
    }
    assert!(load.faults(Fault::Unreachable) > 0 && load.faults(Fault::Disconnected) > 0);
    load.end("kill -9 and restart", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_109_a_server_that_takes_connections_and_never_answers() {
    let cycles = number("TOLLGATE_CYCLES", 5);
    let server = Server::start();
    let load = Load::on(server.port).await;
    for _ in 0..cycles {
        Load::wait(100).await;
        server.signal("-STOP");
        load.falls_back().await;
        Load::wait(number("TOLLGATE_PAUSE_MS", 3_000)).await;
        load.audit("stopped");
        server.signal("-CONT");
        load.recovered().await;
        load.audit("continued");
    }
    assert!(load.faults(Fault::Deadline) > 0);
    load.end("SIGSTOP", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_110_replies_that_come_too_late_open_the_breaker() {
    let cycles = number("TOLLGATE_CYCLES", 6);
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let load = Load::on(proxy.port).await;
    for n in 0..cycles {
        Load::wait(100).await;
        proxy.delay(Duration::from_millis([100, 300, 1_000][usize::try_from(n % 3).unwrap()]));
        load.falls_back().await;
        Load::wait(300).await;
        // Open: nobody waits for the store any more.
        assert!(load.stores.iter().all(Store::is_degraded));
        load.audit("slow");
        proxy.delay(Duration::ZERO);
        load.recovered().await;
        load.audit("fast again");
    }
    load.end("slow proxy", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_112_a_replica_refuses_until_it_is_promoted() {
    let cycles = number("TOLLGATE_CYCLES", 6);
    let server = Server::start();
    let load = Load::on(server.port).await;
    for _ in 0..cycles {
        Load::wait(100).await;
        server.run::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
        load.falls_back().await;
        load.audit("replica");
        server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
        load.recovered().await;
        load.audit("promoted");
    }
    assert!(load.faults(Fault::ReadOnly) > 0);
    load.end("READONLY and promotion", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_114_a_server_without_memory_and_one_that_is_busy() {
    let cycles = number("TOLLGATE_CYCLES", 6);
    let server = Server::start_with(&["--busy-reply-threshold", "20"]);
    let load = Load::on(server.port).await;
    for _ in 0..cycles {
        Load::wait(100).await;
        server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        load.falls_back().await;
        load.audit("out of memory");
        server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        load.recovered().await;
        load.audit("memory again");
    }
    assert!(load.faults(Fault::OutOfMemory) > 0);
    for _ in 0..cycles.min(4) {
        Load::wait(100).await;
        let mut connection = server.connection();
        let endless = std::thread::spawn(move || {
            let stopped =
                redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection);
            assert!(stopped.is_err());
        });
        load.falls_back().await;
        Load::wait(300).await;
        load.audit("busy");
        server.run::<()>(&["SCRIPT", "KILL"]);
        endless.join().unwrap();
        load.recovered().await;
        load.audit("idle again");
    }
    load.end("OOM and BUSY", cycles + cycles.min(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_114_scripts_flushed_under_load_cost_no_decision() {
    let cycles = number("TOLLGATE_CYCLES", 8);
    let server = Server::start();
    let load = Load::on(server.port).await;
    Load::wait(100).await;
    for _ in 0..cycles {
        server.run::<()>(&["SCRIPT", "FLUSH"]);
        Load::wait(100).await;
        load.audit("flushed");
    }
    assert!(load.stores.iter().map(|store| store.stats().reloads).sum::<u64>() > 0);
    assert_eq!(load.faults(Fault::NoScript), 0);
    load.end("SCRIPT FLUSH", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_inputs_119_and_120_a_link_that_flaps_grants_nothing_and_is_not_stormed() {
    let cycles = number("TOLLGATE_CYCLES", 12);
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let load = Load::on(proxy.port).await;
    for n in 0..cycles {
        Load::wait(100).await;
        proxy.cut(n % 2 == 0);
        Load::wait(100).await;
        load.audit("cut");
        proxy.cut(false);
    }
    load.recovered().await;
    let connections: u64 = load.stores.iter().map(|store| store.stats().connections).sum();
    let most = load.stores.len() as u64 * (2 * cycles + 1);
    assert!(connections <= most, "{connections} connections, {most} at most");
    assert!(load.degraded() > 0);
    load.end("flapping link", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_on_without_a_share_is_caught() {
    let mut server = Server::start();
    let load = Load::ruled(server.port, OnError::Allow).await;
    server.kill();
    let start = Instant::now();
    while (0..2).any(|mode| load.admitted(mode).0 <= load.admitted(mode).1) {
        assert!(start.elapsed() < RECOVERY, "nothing exceeds the bound");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    load.stop.store(true, Ordering::Relaxed);
}
