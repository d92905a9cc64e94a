//! Measures how long decisions of mode `exact` take. A deadline for the store is chosen by these times.
//!
//! Tasks ask one redis-server on this machine, as fast as they can or at a rate. In some rounds other threads use up
//! the processors meanwhile. The measured time is the wait of a caller for its answer, which includes waits in this
//! process. No time is asserted.
//!
//! Then the same load runs under several deadlines, and the benchmark counts the decisions that were made without the
//! store, by their reasons.
//!
//! `cargo bench -p tollgate-redis --bench round_trips -- --seconds 5`

#![allow(clippy::unwrap_used, reason = "a benchmark fails loudly")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::server::Server;
use hdrhistogram::Histogram;
use tollgate_redis::{Fault, Mode, RedisLimiter, Source, Store};

/// This limit is more than any load can use up.
const POLICY: &str = "100000000/s burst 10000000";
const KEYS: u64 = 1_000;
/// Deadlines to choose from.
const DEADLINES_MS: [u64; 5] = [5, 10, 15, 20, 50];

/// The number of tasks, and the requests that all of them together make in a second. `None` means as many as they can.
const LOADS: [(u64, Option<u64>); 5] =
    [(16, Some(1_000)), (128, Some(10_000)), (1, None), (16, None), (128, None)];

async fn ask(
    limiter: RedisLimiter,
    task: u64,
    every: Option<Duration>,
    stop: Arc<AtomicBool>,
) -> Histogram<u64> {
    let mut took_us = Histogram::new(3).unwrap();
    let mut next = Instant::now();
    for n in task.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(every) = every {
            next += every;
            tokio::time::sleep_until(next.into()).await;
        }
        let asked = Instant::now();
        // While the store is away a check never waits: this gives other tasks their turn.
        tokio::task::consume_budget().await;
        _ = limiter.check((n % KEYS).to_string()).await;
        took_us.record(u64::try_from(asked.elapsed().as_micros()).unwrap()).unwrap();
    }
    took_us
}

/// Runs a load, and returns how long its decisions took, with the store and without it.
async fn load(store: &Store, (tasks, rate): (u64, Option<u64>), time: Duration) -> Histogram<u64> {
    let limiter = common::limiter(store, POLICY, Mode::Exact, 1);
    let stop = Arc::new(AtomicBool::new(false));
    let number = |number: u64| u32::try_from(number).unwrap();
    let every = rate.map(|rate| Duration::from_secs(1) * number(tasks) / number(rate));
    let asking: Vec<_> = (0..tasks)
        .map(|task| tokio::spawn(ask(limiter.clone(), task * 7, every, Arc::clone(&stop))))
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let mut took_us = Histogram::<u64>::new(3).unwrap();
    for task in asking {
        took_us.add(task.await.unwrap()).unwrap();
    }
    took_us
}

fn name((tasks, rate): (u64, Option<u64>)) -> String {
    let rate = rate.map_or("all they can".to_string(), |rate| format!("{rate}/s"));
    format!("{tasks} tasks, {rate}")
}

async fn round_trips(server: &Server, time: Duration) {
    let late = DEADLINES_MS.map(|ms| format!("after {ms} ms")).join(" | ");
    println!("| load | decisions/s | p50 ms | p99 ms | p99.9 ms | max ms | {late} |");
    println!("|---|{}", "--:|".repeat(5 + DEADLINES_MS.len()));
    for asked in LOADS {
        let store = common::store(server).await;
        let took_us = load(&store, asked, time).await;
        assert_eq!(took_us.len(), store.stats().allowed(Source::Store));
        let ms = |quantile| took_us.value_at_quantile(quantile) as f64 / 1_000.0;
        let late = DEADLINES_MS.map(|deadline| {
            let within = took_us.count_between(0, deadline * 1_000);
            format!("{:.3} %", (took_us.len() - within) as f64 * 100.0 / took_us.len() as f64)
        });
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.1} | {} |",
            name(asked),
            took_us.len() as f64 / time.as_secs_f64(),
            ms(0.5),
            ms(0.99),
            ms(0.999),
            took_us.max() as f64 / 1_000.0,
            late.join(" | "),
        );
    }
}

async fn deadlines(server: &Server, time: Duration) {
    println!(
        "| load, deadline | decisions | without the store | in line | sent | unreachable | connections |"
    );
    println!("|---|{}", "--:|".repeat(6));
    for asked in LOADS {
        for deadline in DEADLINES_MS.into_iter().filter(|deadline| *deadline <= 20) {
            let deadline = Duration::from_millis(deadline);
            let store = Store::with(&server.address(), deadline, "bench").unwrap();
            store.ready().await;
            let took_us = load(&store, asked, time).await;
            let stats = store.stats();
            let share =
                |count: u64| format!("{:.3} %", count as f64 * 100.0 / took_us.len() as f64);
            println!(
                "| {}, {deadline:?} | {} | {} | {} | {} | {} | {} |",
                name(asked),
                took_us.len(),
                share(took_us.len() - stats.allowed(Source::Store)),
                share(stats.missed_in_line),
                share(stats.missed_sent),
                share(stats.faults(Fault::Unreachable)),
                stats.connections,
            );
        }
    }
}

/// Threads that use up the processors until this is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn threads(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..count {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The number behind a flag.
fn flag(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|number| number.parse().ok()).unwrap_or(default)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let time = Duration::from_secs(flag("--seconds", 5));
    let cores = std::thread::available_parallelism().unwrap().get();
    for busy in [0, cores, 4 * cores] {
        let server = Server::start();
        let _busy = Busy::threads(busy);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        println!(
            "\n{busy} busy threads on {cores} cores; load of the machine before: {}",
            load.trim_end()
        );
        round_trips(&server, time).await;
        deadlines(&server, time).await;
    }
}
