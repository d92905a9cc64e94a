//! Decisions per second against one redis-server, rounds interleaved: a plain limiter in Lua, one call
//! per check, as users write it; `exact`; and `leased` on a hot key. No time is asserted; what was admitted is.
//!
//! `cargo bench -p tollgate-redis --features redis-tests -- --rounds 5`

#![allow(clippy::unwrap_used, reason = "a benchmark fails loudly")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::server::Server;
use hdrhistogram::Histogram;
use redis::aio::MultiplexedConnection;
use tollgate_redis::{Mode, RedisLimiter, Source};

/// A token bucket as it stands in many tutorials: its own clock, one key, one call.
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
/// More than any contender can use up, so that every request is admitted.
const POLICY: &str = "100000000/s burst 10000000";

#[derive(Clone)]
enum Contender {
    Plain(MultiplexedConnection, String),
    Ours(RedisLimiter),
}

impl Contender {
    async fn check(&mut self, key: &str) -> bool {
        match self {
            Self::Plain(connection, digest) => {
                let mut call = redis::cmd("EVALSHA");
                call.arg(&*digest).arg(1).arg(key).arg(100_000_000).arg(10_000_000).arg(1);
                call.query_async::<u64>(connection).await.unwrap() == 1
            }
            Self::Ours(limiter) => limiter.check(key, 1).await.is_allowed(),
        }
    }
}

/// Of so many requests one is timed: reading the clock takes as long as half a decision within a lease.
const TIMED: u64 = 16;

/// One round: so many requests of each task; how long some took, in nanoseconds.
async fn round(contender: &Contender, requests: u64, keys: u64) -> (f64, Histogram<u64>) {
    let names: Arc<[String]> = (0..keys).map(|n| n.to_string()).collect();
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (mut contender, names) = (contender.clone(), Arc::clone(&names));
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
                        tokio::task::yield_now().await; // a lease never waits
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

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().position(|argument| argument == "--rounds");
    let rounds: usize = rounds.map_or(5, |at| arguments[at + 1].parse().unwrap());
    let server = Server::start();
    let client = redis::Client::open(server.address()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    connection.set_response_timeout(Duration::from_secs(60));
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(PLAIN);
    let digest: String = load.query_async(&mut connection).await.unwrap();
    let (exact_store, leased_store) = (common::store(&server).await, common::store(&server).await);
    let contenders = [
        (
            "plain, one call per check, 1,000 keys",
            Contender::Plain(connection.clone(), digest.clone()),
            500,
            1_000,
        ),
        (
            "exact, 1,000 keys",
            Contender::Ours(common::limiter(&exact_store, POLICY, Mode::Exact, 1)),
            500,
            1_000,
        ),
        ("plain, one hot key", Contender::Plain(connection, digest), 500, 1),
        (
            "exact, one hot key",
            Contender::Ours(common::limiter(&exact_store, POLICY, Mode::Exact, 1)),
            500,
            1,
        ),
        (
            "leased, one hot key",
            Contender::Ours(common::limiter(&leased_store, POLICY, Mode::Leased, 1)),
            100_000,
            1,
        ),
    ];
    let mut leased_for = Duration::ZERO;
    let mut rates = vec![Vec::new(); contenders.len()];
    let mut waits = vec![Histogram::<u64>::new(3).unwrap(); contenders.len()];
    for _ in 0..rounds {
        for (n, (_, contender, requests, keys)) in contenders.iter().enumerate() {
            let begun = Instant::now();
            let (rate, waited) = round(contender, *requests, *keys).await;
            if n == contenders.len() - 1 {
                leased_for += begun.elapsed();
            }
            rates[n].push(rate);
            waits[n].add(waited).unwrap();
        }
    }
    println!("{rounds} rounds, {TASKS} tasks, medians\n");
    println!("{:<40} {:>12} {:>8} {:>10} {:>10}", "", "decisions/s", "ratio", "p50 us", "p99 us");
    for (n, (name, ..)) in contenders.iter().enumerate() {
        let plain = if n < 2 { 0 } else { 2 };
        let ratios = rates[n].iter().zip(&rates[plain]).map(|(rate, plain)| rate / plain).collect();
        let micros = |share| waits[n].value_at_quantile(share) as f64 / 1_000.0;
        let (rate, ratio) = (median(rates[n].clone()), median(ratios));
        println!(
            "{name:<40} {rate:>12.0} {ratio:>7.1}x {:>10.1} {:>10.1}",
            micros(0.5),
            micros(0.99)
        );
    }
    let stats = exact_store.stats();
    let decisions = stats.allowed(Source::Store);
    println!("\nexact: {} calls for {decisions} decisions", stats.calls);
    let stats = leased_store.stats();
    let (decisions, seconds) = (stats.allowed(Source::Lease), leased_for.as_secs_f64());
    println!(
        "leased: {} leases of {} units in all, {} calls for {decisions} decisions, {:.1} calls/s",
        stats.leases,
        stats.leased,
        stats.calls,
        stats.calls as f64 / seconds,
    );
}
