//! Tests rules that change hundreds of times while requests are answered. The test is alone in its process, because it
//! measures the memory of the process.
#![cfg(target_os = "linux")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{World, descriptor, request, serve_with};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tollgate_rules::{Refresh, RuleSettings, Timing};
use tollgate_service::Options;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::rls::RateLimitResponse;
use tollgate_service::protocol::rls::rate_limit_response::{Code, DescriptorStatus};

/// The limit of each client for a year. No client reaches it.
const OWN: u32 = 1_000_000_000;
/// The limit of all clients together for a year. It is spent before the test ends.
const SHARED: u64 = 1_000;
/// The number of clients that send requests without pause, each on its own connection.
const CLIENTS: usize = 4;
/// The number of loads over which the growth of memory is measured, after `WARM_LOADS` loads.
const LOADS: u32 = 200;
const WARM_LOADS: u32 = 50;
/// The bytes of the two tables that each load builds: 14.1 bytes for each of 20,000 clients, and an eighth more.
const BYTES_OF_A_LOAD: u64 = 2 * 318_000;
/// The time limit of the whole test, long enough for a busy machine. Without it the test would wait for ever for a load
/// that never comes.
const PATIENCE: Duration = Duration::from_secs(900);
/// The tables in force take 3 MB. The rest is for lingering tables.
const MAX_TABLE_BYTES: u64 = 4 << 20;
/// The allocator may keep this much memory. If loads leaked, the growth would be ten times as large.
const MAX_GROWTH: u64 = 12 << 20;

/// The tables of `a` and `b` have another size in each version, so each load builds them anew. The other rules stay
/// unchanged.
fn rules(version: u32) -> String {
    let capacity = 20_000 + version;
    format!(
        "
domain: d
descriptors:
  - {{key: own, rate_limit: {{unit: year, requests_per_unit: {OWN}}}}}
  - {{key: shared, rate_limit: {{unit: year, requests_per_unit: {SHARED}}}}}
  - {{key: a, capacity: {capacity}, rate_limit: {{unit: year, requests_per_unit: {version}}}}}
  - {{key: b, capacity: {capacity}, rate_limit: {{unit: year, requests_per_unit: {version}}}}}
"
    )
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    let kib = line.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number") << 10
}

fn limit(status: &DescriptorStatus) -> u32 {
    status.current_limit.as_ref().expect("a limit").requests_per_unit
}

/// The version of the rules that now limits `a`.
async fn in_force(world: &World) -> u32 {
    let peek = RateLimitDescriptor { hits_addend: Some(0), ..descriptor(&[("a", "x")]) };
    limit(&world.ask(request("d", &[peek])).await.statuses[0])
}

async fn loads_counted(world: &World) -> u32 {
    let count = world.metric("tollgate_config_load_success_total").await;
    count.and_then(|count| count.parse().ok()).expect("a number")
}

/// Sends requests until it is told to stop; panics at the first wrong answer.
async fn client(
    world: Arc<World>,
    n: usize,
    stop: Arc<AtomicBool>,
    admitted: Arc<AtomicU64>,
) -> u32 {
    let mut client = world.client().await;
    let name = format!("client {n}");
    let peek = |key| RateLimitDescriptor { hits_addend: Some(0), ..descriptor(&[(key, "x")]) };
    let own = [descriptor(&[("own", &name)]), peek("a"), peek("b")];
    let mut calls = 0;
    // Relaxed, for both: at worst, the client stops a call later.
    while !stop.load(Ordering::Relaxed) || admitted.load(Ordering::Relaxed) < SHARED {
        let answer = client.should_rate_limit(request("d", &own)).await.expect("an answer");
        let answer: RateLimitResponse = answer.into_inner();
        calls += 1;
        assert_eq!(answer.overall_code(), Code::Ok);
        let [own, a, b] = &answer.statuses[..] else { panic!("three statuses") };
        assert_eq!((limit(own), own.limit_remaining), (OWN, OWN - calls), "nothing is forgotten");
        assert_eq!(limit(a), limit(b), "by the rules of one load");
        let shared = request("d", &[descriptor(&[("shared", "x")])]);
        let answer = client.should_rate_limit(shared).await.expect("an answer").into_inner();
        admitted.fetch_add(u64::from(answer.overall_code() == Code::Ok), Ordering::Relaxed);
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_reloads_under_load_spoil_no_answer_and_keep_no_memory() {
    let storm = tokio::time::timeout(PATIENCE, storm()).await;
    assert!(storm.is_ok(), "a load, an answer or a client's end did not come in {PATIENCE:?}");
}

async fn storm() {
    let timing = Timing { poll: Duration::from_secs(3_600), settle: Duration::ZERO };
    let settings = RuleSettings { max_table_bytes: MAX_TABLE_BYTES, ..RuleSettings::default() };
    let options = |options| Options { timing, settings, ..options };
    let mut world = serve_with("storm", &rules(1), options).await;
    assert!(world.reloaded().await.is_empty());
    let mut told = std::mem::replace(&mut world.told, unbounded_channel().1);
    let world = Arc::new(world);
    let (stop, admitted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for n in 0..CLIENTS {
        clients.spawn(client(Arc::clone(&world), n, Arc::clone(&stop), Arc::clone(&admitted)));
    }
    let mut before = 0;
    let (loads, counted_before) = (WARM_LOADS + LOADS, loads_counted(&world).await);
    let begun = Instant::now();
    for version in 2..2 + loads {
        world.put("basic.yaml", &rules(version));
        assert!(matches!(told.recv().await, Some(Refresh::Loaded(_))));
        if version == 1 + WARM_LOADS {
            before = resident_bytes();
        }
    }
    let (grown, took) = (resident_bytes().saturating_sub(before), begun.elapsed());
    stop.store(true, Ordering::Relaxed);
    let calls: u32 = clients.join_all().await.into_iter().sum();
    let counted = loads_counted(&world).await - counted_before;
    eprintln!(
        "{counted} loads in {took:?}, {:.0} a second, beside {calls} calls; \
         {grown} bytes more over {LOADS} loads",
        f64::from(counted) / took.as_secs_f64()
    );
    assert!(counted >= loads, "{counted} loads of {loads}");
    assert_eq!(in_force(&world).await, 1 + loads, "the last one");
    assert_eq!(admitted.load(Ordering::Relaxed), SHARED, "exactly, over all loads");
    assert!(grown < MAX_GROWTH, "{grown} bytes");
    // The negative control: if loads are kept alive, the growth shows.
    let (before, mut kept) = (resident_bytes(), Vec::new());
    for version in 0..40 {
        world.put("basic.yaml", &rules(1_000 + version));
        kept.push(told.recv().await);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown > MAX_GROWTH && grown < 80 * BYTES_OF_A_LOAD, "{grown} bytes of {}", kept.len());
}
