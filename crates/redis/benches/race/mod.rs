//! Contenders that ask one redis-server by turns, and a table of their results. No time is asserted; every request
//! must be admitted.
#![allow(unreachable_pub, reason = "each benchmark includes this module for itself")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails loudly")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use redis::aio::MultiplexedConnection;
use tollgate_redis::{Mode, RedisLimiter, Settings, Store};

/// A token bucket as many tutorials write it: it reads the server's clock, and makes one call with one key.
const PLAIN: &str = "
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(state[1]) or burst, tonumber(state[2]) or now
tokens = math.min(burst, tokens + (now - at) * rate)
local allowed = tokens >= cost
if allowed then tokens = tokens - cost end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], math.ceil(burst / rate) + 1)
return allowed and 1 or 0
";

const TASKS: u64 = 128;
/// No contender can use up this limit, so every request is admitted.
const POLICY: &str = "100000000/s burst 10000000";
/// One request in this many is timed: reading the clock takes as long as half a decision within a lease.
const TIMED: u64 = 16;

type AdmittedFuture = Pin<Box<dyn Future<Output = bool> + Send>>;

#[derive(Clone)]
pub enum RaceContender {
    Plain(MultiplexedConnection, String),
    Ours(RedisLimiter),
    /// The limiter of another crate.
    #[allow(dead_code, reason = "not every benchmark has one")]
    Other(Arc<dyn Fn(&str) -> AdmittedFuture + Send + Sync>),
}

impl RaceContender {
    /// The plain limiter, on a connection of its own.
    pub async fn plain(address: &str) -> Self {
        let client = redis::Client::open(address).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        connection.set_response_timeout(Duration::from_secs(60));
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(PLAIN);
        let digest = load.query_async(&mut connection).await.unwrap();
        Self::Plain(connection, digest)
    }

    /// This crate's limiter, and its store.
    pub async fn ours(address: &str, mode: Mode) -> (Self, Store) {
        let store = Store::with(address, Duration::from_secs(10), "bench").unwrap();
        store.ready().await;
        let settings = Settings::new(POLICY.parse().unwrap()).mode(mode).keys(1_000);
        (Self::Ours(RedisLimiter::new(&store, settings).unwrap()), store)
    }

    async fn check(&mut self, key: &str) -> bool {
        match self {
            Self::Plain(connection, digest) => {
                let mut call = redis::cmd("EVALSHA");
                call.arg(&*digest).arg(1).arg(key).arg(100_000_000).arg(10_000_000).arg(1);
                call.query_async::<u64>(connection).await.unwrap() == 1
            }
            Self::Ours(limiter) => limiter.check(key).await.is_allowed(),
            Self::Other(check) => check(key).await,
        }
    }
}

/// One line of the table.
pub struct RaceRow {
    pub name: &'static str,
    pub contender: RaceContender,
    /// The requests of each task in each round.
    pub requests: u64,
    pub keys: u64,
    /// The row that this one is compared with.
    pub beside: usize,
}

/// The results of a row in all rounds.
struct RaceRun {
    rates: Vec<f64>,
    waits: Histogram<u64>,
    took: Duration,
}

/// Runs one round. Returns the decisions per second, and the times that some of them took, in nanoseconds.
async fn round(row: &RaceRow) -> (f64, Histogram<u64>) {
    let names: Arc<[String]> = (0..row.keys).map(|n| n.to_string()).collect();
    let (requests, keys) = (row.requests, row.keys);
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (mut contender, names) = (row.contender.clone(), Arc::clone(&names));
            tokio::spawn(async move {
                let mut waits = Histogram::<u64>::new(3).unwrap();
                for n in 0..requests {
                    let key = &names[usize::try_from((task * requests + n) % keys).unwrap()];
                    let asked = (n % TIMED == 0).then(Instant::now);
                    assert!(contender.check(key).await, "the limit is out of reach");
                    if let Some(asked) = asked {
                        waits.record(u64::try_from(asked.elapsed().as_nanos()).unwrap()).unwrap();
                    }
                    if n % 64 == 63 {
                        tokio::task::yield_now().await; // a task that decides from memory never waits
                    }
                }
                waits
            })
        })
        .collect();
    let mut waits = Histogram::<u64>::new(3).unwrap();
    for task in tasks {
        waits.add(task.await.unwrap()).unwrap();
    }
    ((TASKS * requests) as f64 / start.elapsed().as_secs_f64(), waits)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Lets the contenders ask by turns and prints the table. Returns how long each row took in all.
pub async fn race(rows: &[RaceRow]) -> Vec<Duration> {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().position(|argument| argument == "--rounds");
    let rounds: usize = rounds.map_or(5, |at| arguments[at + 1].parse().unwrap());
    let run =
        || RaceRun { rates: Vec::new(), waits: Histogram::new(3).unwrap(), took: Duration::ZERO };
    let mut runs: Vec<RaceRun> = rows.iter().map(|_| run()).collect();
    for _ in 0..rounds {
        for (row, run) in rows.iter().zip(&mut runs) {
            let begun = Instant::now();
            let (rate, waits) = round(row).await;
            run.took += begun.elapsed();
            run.rates.push(rate);
            run.waits.add(waits).unwrap();
        }
    }
    println!("{rounds} rounds, {TASKS} tasks, medians\n");
    println!("{:<40} {:>12} {:>8} {:>10} {:>10}", "", "decisions/s", "ratio", "p50 us", "p99 us");
    for (row, run) in rows.iter().zip(&runs) {
        let others = &runs[row.beside].rates;
        let ratios = run.rates.iter().zip(others).map(|(rate, other)| rate / other).collect();
        let micros = |share| run.waits.value_at_quantile(share) as f64 / 1_000.0;
        let (name, rate, ratio) = (row.name, median(run.rates.clone()), median(ratios));
        let [p50, p99] = [micros(0.5), micros(0.99)];
        println!("{name:<40} {rate:>12.0} {ratio:>7.1}x {p50:>10.1} {p99:>10.1}");
    }
    println!();
    runs.into_iter().map(|run| run.took).collect()
}
