//! Three `tollgate serve` share one Redis. The test counts the requests that all three together admit.
//!
//! There is one key at 100 requests per second, burst 100, in each mode. Clients count admissions. In a time t from the
//! start, at most `burst + rate * t` requests may be admitted. In the mode `async`, requests that one node has admitted
//! but the other nodes have not heard of yet are added to this bound. Between any two moments the bound is the same,
//! except that with leases it also includes the units that the nodes may hold. Nearly all of the limit must be used.
//!
//! `TOLLGATE_SECONDS` is the time for which each mode runs: 4 by default.

mod common;
#[path = "common/connection.rs"]
mod connection;
#[path = "common/processes.rs"]
mod processes;
#[path = "common/serving.rs"]
mod serving;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Scratch;
use connection::Connection;
use processes::{Process, free_address, redis_at, until};
use serving::{Serving, serve_rules};

const NODES: usize = 3;
/// The number of clients of each node.
const CLIENTS: usize = 4;
const RATE: u64 = 100;
const BURST: u64 = 100;
/// The units that each node may hold in leases: half of the burst divided among the nodes.
const HELD: u64 = BURST / NODES as u64 / 2;

/// The requests that each node may admit by its own counts in six intervals of 100 ms: as many as one limiter would.
const OVER: u64 = BURST + RATE * 6 / 10;

const RULES: &str = "
domain: shop
descriptors:
  - {key: exact, accuracy: exact, rate_limit: {window: 1s, requests_per_unit: 100, algorithm: gcra, burst: 100}}
  - {key: async, accuracy: async, rate_limit: {window: 1s, requests_per_unit: 100, algorithm: gcra, burst: 100}}
  - {key: leased, accuracy: leased, rate_limit: {window: 1s, requests_per_unit: 100, algorithm: gcra, burst: 100}}
";

/// The results of one client: requests, and the moments between which each admission lies.
#[derive(Debug, Default)]
struct Seen {
    asked: u64,
    admitted: Vec<(Instant, Instant)>,
}

fn ask_all_the_time(node: SocketAddr, key: &str, stop: &AtomicBool) -> Seen {
    let mut connection = Connection::to(node);
    let body = format!("{{\"domain\": \"shop\", \"descriptors\": [{{\"{key}\": \"hot\"}}]}}");
    let mut seen = Seen::default();
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let (status, answer) = connection.ask("POST /v1/check", &body);
        assert!(matches!(status, 200 | 429), "{status}: {answer}");
        seen.asked += 1;
        if status == 200 {
            seen.admitted.push((asked, Instant::now()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    seen
}

/// Returns the maximum that the nodes may admit in this time. The server's clock counts whole microseconds.
fn most(time: Duration) -> u64 {
    let micros = u64::try_from(time.as_micros()).expect("a short time") + 2;
    BURST + RATE * micros / 1_000_000
}

/// `held` is the number of units in leases, and `over` the number of admitted requests that the other nodes may not
/// have heard of.
fn run(nodes: &[Serving], key: &'static str, [held, over]: [u64; 2], time: Duration) -> String {
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let metric = |node: &Serving, name| node.metric(name).expect("the metric is there");
    let calls =
        || -> u64 { nodes.iter().map(|node| metric(node, "tollgate_store_calls_total")).sum() };
    let calls_before = calls();
    let seen: Vec<Vec<Seen>> = std::thread::scope(|scope| {
        let of = |node| {
            let stop = Arc::clone(&stop);
            scope.spawn(move || ask_all_the_time(node, key, &stop))
        };
        let clients: Vec<Vec<_>> =
            nodes.iter().map(|node| (0..CLIENTS).map(|_| of(node.http)).collect()).collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let joined = |of_node: Vec<std::thread::ScopedJoinHandle<'_, Seen>>| {
            of_node.into_iter().map(|client| client.join().expect("no panic")).collect()
        };
        clients.into_iter().map(joined).collect()
    });
    let took = begun.elapsed();
    let calls = calls() - calls_before;
    let asked: u64 = seen.iter().flatten().map(|seen| seen.asked).sum();
    let per_node: Vec<usize> =
        seen.iter().map(|of_node| of_node.iter().map(|seen| seen.admitted.len()).sum()).collect();
    let admitted = per_node.iter().sum::<usize>() as u64;
    let bound = most(took) + over;
    assert!(admitted <= bound, "{key}: {admitted} in {took:?}, {bound} at most");
    // Units in leases are not lost, but may be unused. The clients stop a little before `took` ends.
    let least = (most(took) - held) * 95 / 100;
    assert!(admitted >= least, "{key}: {admitted} in {took:?}, {least} at least");
    let mut all: Vec<_> = seen.iter().flatten().flat_map(|seen| &seen.admitted).copied().collect();
    all.sort_unstable();
    // For any two moments, only admissions that certainly lie in between are counted.
    let mut closest = 0;
    for (n, (from, _)) in all.iter().enumerate() {
        let mut ends: Vec<Instant> = all[n..].iter().map(|(_, until)| *until).collect();
        ends.sort_unstable();
        for (count, until) in (1..).zip(&ends) {
            let bound = most(*until - *from) + held + over;
            assert!(count <= bound, "{key}: {count} in {:?}, {bound} at most", *until - *from);
            closest = closest.max(count * 1_000 / bound);
        }
    }
    for node in nodes {
        assert_eq!(metric(node, "tollgate_store_degraded"), 0);
    }
    format!(
        "{key}: {asked} asked in {:.2} s, {admitted} admitted ({per_node:?} by node), {bound} at most from \
         the start; at most {}.{} % of the bound between any two moments; {calls} calls of Redis",
        took.as_secs_f64(),
        closest / 10,
        closest % 10,
    )
}

/// Starts a Redis, and nodes that use it, each under its own prefix.
fn nodes(test: &str, prefixes: [&str; NODES]) -> (Process, Vec<Serving>) {
    let rules = Scratch::new(test).file("shop.yaml", RULES).at("shop.yaml");
    let address = free_address();
    let redis = redis_at(address, &[]);
    let (store, count) = (format!("redis://{address}/"), NODES.to_string());
    // A busy machine may be slow, and no node should fall back here.
    let flags = ["--redis", &store, "--nodes", &count, "--redis-deadline", "2000"];
    let node = |prefix| {
        let flags = [&flags[..], &["--redis-prefix", prefix]].concat();
        let (serving, _) = serve_rules(&rules, "", &flags, &[]);
        until("Redis", || serving.metric("tollgate_store_degraded") == Some(0));
        serving
    };
    (redis, prefixes.map(node).into())
}

#[test]
fn three_nodes_that_share_nothing_are_caught() {
    let (_redis, nodes) = nodes("nodes_apart", ["one", "two", "three"]);
    let run = || run(&nodes, "exact", [0, 0], Duration::from_secs(1));
    let run = std::panic::AssertUnwindSafe(run);
    let panic = std::panic::catch_unwind(run).expect_err("nobody notices");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.ends_with("at most"), "{message}");
}

#[test]
fn three_nodes_together_admit_what_one_limit_allows() {
    let seconds = std::env::var("TOLLGATE_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(4));
    let (_redis, nodes) = nodes("nodes_together", ["tollgate"; NODES]);
    println!("{NODES} nodes, {CLIENTS} clients each, {RATE}/s burst {BURST}");
    let (held, over) = (HELD * NODES as u64, OVER * NODES as u64);
    for (key, slack) in [("exact", [0, 0]), ("leased", [held, 0]), ("async", [0, over])] {
        println!("{}", run(&nodes, key, slack, time));
    }
}
