//! Runs nodes under load while their store has faults, and computes the most units that they may have admitted.
//!
//! In every mode, three nodes keep asking for one key. Under every fault a bound must hold (`docs/failures.md`): in
//! each mode no more units are admitted than
//!
//! ```text
//! burst + rate * t + burst for each loss of the store's memory
//!       + for each node: max(1, burst / nodes) + rate / nodes * its time in isolation
//! ```
//!
//! In mode `async` the bound has one more term, once for the start and once for each loss: the units that the nodes may
//! admit in six intervals.
//!
//! Meanwhile decisions must go on, no caller may wait past the deadline, and all nodes must recover by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate_redis::{Fault, Mode, OnError, RedisLimiter, Settings, Source, Store, StoreStats};

pub const RATE: u64 = 60;
pub const BURST: u64 = 90;
pub const NODES: u64 = 3;
/// The modes, in the order of all arrays with a figure for each mode.
pub const MODES: [Mode; 3] = [Mode::Exact, Mode::Leased, Mode::Async];
/// How often nodes report in mode `async`.
const INTERVAL: Duration = Duration::from_millis(20);
/// The number of tasks that ask each node. `PAUSE` is the pause of a task between two requests.
const CALLERS: u64 = 3;
const PAUSE: Duration = Duration::from_millis(2);
pub const DEADLINE: Duration = Duration::from_millis(30);
/// The time by which an answer may be later than the deadline, in addition to the delay of a thread that only sleeps.
const LATE: Duration = Duration::from_millis(400);
/// A test gives up if a node has not recovered by then. Recovering takes a backoff of at most a second, as the unit tests
/// show, and the attempts to connect. A busy machine may miss their deadlines for a long time.
pub const RECOVERY: Duration = Duration::from_secs(60);

/// The faults of the store in one run of the tests, and how often each fault happens unless `TOLLGATE_CYCLES` says
/// otherwise. A killed server comes back empty, and a read-only server is promoted again.
pub const PLAN: [(&str, u64); 10] = [
    ("kill -9 and restart empty", 7),
    ("SIGSTOP", 5),
    ("slow proxy", 6),
    ("READONLY and promotion", 6),
    ("OOM", 6),
    ("BUSY", 4),
    ("SCRIPT FLUSH", 8),
    ("flapping link", 12),
    ("Cluster slot move", 4),
    ("failover to a replica", 3),
];

/// How often this fault is to happen.
pub fn planned(what: &str) -> u64 {
    let (_, cycles) = PLAN.iter().find(|(planned, _)| *planned == what).unwrap();
    number("TOLLGATE_CYCLES", *cycles)
}

pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The totals of the callers in one mode.
#[derive(Debug, Default)]
pub struct Seen {
    admitted: AtomicU64,
    decisions: AtomicU64,
    degraded: AtomicU64,
    slowest_us: AtomicU64,
}

/// Nodes under load.
pub struct Load {
    pub stores: Vec<Store>,
    seen: [Arc<Seen>; MODES.len()],
    start: Instant,
    pub stop: Arc<AtomicBool>,
    pub losses: u64,
    /// The longest delay with which a thread that only sleeps woke up. It shows how busy the machine is.
    slowest_pulse_us: Arc<AtomicU64>,
    /// The faults that the nodes have survived so far.
    survived: Vec<&'static str>,
}

/// Measures how busy the machine is, on a thread of its own that the code under test cannot hold up.
fn pulse(stop: Arc<AtomicBool>) -> Arc<AtomicU64> {
    let slowest_us = Arc::new(AtomicU64::new(0));
    let slowest = Arc::clone(&slowest_us);
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            std::thread::sleep(Duration::from_millis(2));
            slowest
                .fetch_max(u64::try_from(begun.elapsed().as_micros()).unwrap(), Ordering::Relaxed);
        }
    });
    slowest_us
}

/// The units that all nodes together can ask for in six intervals. At most this many admitted units may be unknown to
/// the store.
fn unheard() -> u64 {
    let requests = u64::try_from(6 * INTERVAL.as_micros() / PAUSE.as_micros()).unwrap() + 1;
    NODES * CALLERS * requests
}

async fn ask(limiter: RedisLimiter, seen: Arc<Seen>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let decision = limiter.check("hot").await;
        let waited_us = u64::try_from(asked.elapsed().as_micros()).unwrap();
        seen.slowest_us.fetch_max(waited_us, Ordering::Relaxed);
        seen.admitted.fetch_add(u64::from(decision.is_allowed()), Ordering::Relaxed);
        seen.degraded.fetch_add(u64::from(decision.is_degraded()), Ordering::Relaxed);
        seen.decisions.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
}

impl Load {
    /// Starts three nodes. On each node, each mode has its own connection, and so its own isolation time.
    pub async fn on(address: &str) -> Self {
        Self::ruled(address, OnError::Local).await
    }

    pub async fn ruled(address: &str, on_error: OnError) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen: [Arc<Seen>; MODES.len()] = Default::default();
        let start = Instant::now();
        let mut stores = Vec::new();
        for (mode, seen) in MODES.into_iter().zip(&seen) {
            for _ in 0..NODES {
                let store = Store::with(address, DEADLINE, "test").unwrap();
                let policy = format!("{RATE}/s burst {BURST}").parse().unwrap();
                let settings = Settings::new(policy).name(format!("{mode:?}")).mode(mode);
                let settings = settings.nodes(NODES).keys(10).on_error(on_error).interval(INTERVAL);
                let limiter = RedisLimiter::new(&store, settings).unwrap();
                for _ in 0..CALLERS {
                    tokio::spawn(ask(limiter.clone(), Arc::clone(seen), Arc::clone(&stop)));
                }
                stores.push(store);
            }
        }
        let slowest_pulse_us = pulse(Arc::clone(&stop));
        let survived = Vec::new();
        let load = Self { stores, seen, start, stop, losses: 0, slowest_pulse_us, survived };
        load.recovered().await;
        load
    }

    /// Waits until all nodes are back, and decide with the store again.
    pub async fn recovered(&self) {
        for store in &self.stores {
            tokio::time::timeout(RECOVERY, store.ready()).await.expect("a node does not come back");
        }
        let by_store = || {
            let decided = |stats: StoreStats| {
                [Source::Store, Source::Lease, Source::Count]
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

    pub fn degraded(&self) -> u64 {
        self.seen.iter().map(|seen| seen.degraded.load(Ordering::Relaxed)).sum()
    }

    pub fn faults(&self, fault: Fault) -> u64 {
        self.stores.iter().map(|store| store.stats().faults(fault)).sum()
    }

    /// Waits until some decisions of every mode were made without the store.
    pub async fn falls_back(&self) {
        let degraded = || self.seen.each_ref().map(|seen| seen.degraded.load(Ordering::Relaxed));
        let (before, start) = (degraded(), Instant::now());
        while degraded().iter().zip(before).any(|(now, before)| *now <= before + 20) {
            assert!(start.elapsed() < RECOVERY, "no decision goes on without the store");
            Self::wait(5).await;
        }
    }

    pub async fn wait(ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Checks the bound and the deadline, for all requests so far.
    pub fn audit(&self, what: &str) {
        for n in 0..self.seen.len() {
            let (admitted, bound) = self.admitted(n);
            assert!(admitted <= bound, "{what}: {admitted} admitted, {bound} at most");
            let slowest_us = self.seen[n].slowest_us.load(Ordering::Relaxed);
            let slowest = Duration::from_micros(slowest_us);
            let busy = Duration::from_micros(self.slowest_pulse_us.load(Ordering::Relaxed));
            let most = DEADLINE + LATE + busy;
            assert!(slowest <= most, "{what}: a caller waited {slowest:?}, and a sleeper {busy:?}");
        }
    }

    /// The units that the nodes of one mode have admitted, and the most that they may have admitted.
    pub fn admitted(&self, mode: usize) -> (u64, u64) {
        // The admitted units are read first. The time is read later, so the bound is slightly too high rather than too
        // low.
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
        let unheard = if MODES[mode] == Mode::Async { unheard() * (1 + self.losses) } else { 0 };
        (admitted, from_store + from_shares + unheard)
    }

    /// Checks after a fault that all nodes come back, and that the bound holds.
    pub async fn survives(&mut self, what: &'static str) {
        self.recovered().await;
        self.goes_on(what);
    }

    /// Checks after a fault that the bound holds, without waiting until the nodes are back.
    pub fn goes_on(&mut self, what: &'static str) {
        self.audit(what);
        self.survived.push(what);
    }

    /// Checks that each of these faults has happened as often as planned.
    pub fn end(self, befallen: &[&str]) {
        let what = befallen.join(", ");
        self.audit(&what);
        self.stop.store(true, Ordering::Relaxed);
        for one in befallen {
            let times = self.survived.iter().filter(|survived| *survived == one).count() as u64;
            assert_eq!(times, planned(one), "{one}");
        }
        let cycles = self.survived.len();
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
