//! Tests limits in Redis, on a redis-server that the test starts: two services that share limits, rules of every kind
//! in one call, and the decisions after the server is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{PATIENT, World, descriptor, request};
use crate::server::Server;
use serde_json::{Value, json};
use tollgate_rules::Timing;
use tollgate_service::protocol::rls::rate_limit_response::Code;
use tollgate_service::{Global, Options};

const RULES: &str = "
domain: shop
descriptors:
  - {key: exact, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 20}}
  - {key: leased, rate_limit: {unit: year, requests_per_unit: 200, algorithm: gcra}}
  - {key: stacked, accuracy: exact, limits: [{unit: year, requests_per_unit: 9}, {unit: month, requests_per_unit: 4}]}
  - {key: shadow, accuracy: exact, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: one, accuracy: exact, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: two, accuracy: exact, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: never, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: local, rate_limit: {unit: year, requests_per_unit: 30}}
  - {key: allow, on_error: allow, rate_limit: {unit: year, requests_per_unit: 30}}
  - {key: deny, on_error: deny, rate_limit: {unit: year, requests_per_unit: 30}}
";

/// The deadline of requests in the test that kills the server. A busy machine does not miss it while the server runs.
const DEADLINE: Duration = Duration::from_millis(200);

fn global(server: &Server, deadline: Duration) -> Global {
    Global { nodes: 3, deadline, ..Global::new(server.address()) }
}

async fn serve(test: &str, server: &Server) -> World {
    let global = global(server, Duration::from_secs(2));
    crate::serve_connected(test, RULES, global, |options| options).await
}

/// Whether the request is admitted, and the status of each descriptor.
async fn check(world: &World, descriptors: Value, cost: u64) -> (bool, Value) {
    world.check("shop", &descriptors, cost).await
}

/// Asks for these units of one client, and returns whether they are admitted.
async fn passes(world: &World, rule: &str, client: &str, cost: u64) -> bool {
    check(world, json!([{rule: client}]), cost).await.0
}

#[tokio::test]
async fn two_services_share_the_limits_of_one_redis() {
    let server = Server::start();
    let worlds = [serve("two_services_a", &server).await, serve("two_services_b", &server).await];
    for (key, limit) in [("exact", 20), ("leased", 200)] {
        let mut admitted = 0;
        for n in 0..limit * 2 {
            admitted += u64::from(passes(&worlds[n % 2], key, "x", 1).await);
        }
        // With leases, the other service may still hold units when one service denies.
        let least = if key == "exact" { 20 } else { 100 };
        assert!((least..=limit as u64).contains(&admitted), "{key}: {admitted}");
    }
    // Clients, rules and domains have separate limits.
    assert!(passes(&worlds[0], "exact", "y", 20).await);
    assert!(!passes(&worlds[1], "exact", "y", 1).await);
    // After one service resets the client, both services admit it again.
    let body = r#"{"domain": "shop", "descriptors": [{"exact": "y"}]}"#;
    let reset = worlds[1].admin("POST", "/v1/reset", body).await;
    assert_eq!(reset, (200, r#"{"reset":1}"#.to_owned()));
    assert!(passes(&worlds[0], "exact", "y", 20).await);
    assert!(!passes(&worlds[1], "exact", "y", 1).await);
    assert_eq!(worlds[1].admin("POST", "/v1/reset", "{}").await.0, 422);
}

#[tokio::test]
async fn row_100_a_service_that_stops_gives_back_what_it_holds_in_leases() {
    let server = Server::start();
    let [first, second] = [serve("row_100_a", &server).await, serve("row_100_b", &server).await];
    let mut spent = 0;
    // The second service holds no lease of this client, so it tells what the store has left. The loop ends when the
    // first service holds units that it has not spent, because the second service then finds fewer units left.
    let left = || second.left("shop", "leased", "x");
    while left().await == 200 - spent {
        assert!(passes(&first, "leased", "x", 1).await, "{spent}");
        spent += 1;
    }
    assert!(left().await < 200 - spent);
    // If a lease is still under way to the first service, it arrives before this answer.
    check(&first, json!([{"exact": "x"}]), 1).await;
    first.running.stop().await;
    assert_eq!(left().await, 200 - spent);
}

#[tokio::test]
async fn all_descriptors_are_charged_in_one_call_or_none() {
    let server = Server::start();
    let world = serve("all_descriptors_are_charged", &server).await;
    // The limit of the month has only 4 units. So nothing is charged to the limit of the year, nor to the other rule.
    let both = json!([{"exact": "x"}, {"stacked": "x"}]);
    let before = world.count("tollgate_store_calls_total").await;
    let (allowed, statuses) = check(&world, both.clone(), 5).await;
    assert_eq!(world.count("tollgate_store_calls_total").await - before, 1);
    assert!(!allowed);
    assert_eq!([&statuses[0]["allowed"], &statuses[1]["allowed"]], [&json!(true), &json!(false)]);
    assert_eq!(world.left("shop", "exact", "x").await, 20);
    let (allowed, statuses) = check(&world, both, 3).await;
    assert!(allowed);
    assert_eq!([&statuses[0]["remaining"], &statuses[1]["remaining"]], [&json!(17), &json!(1)]);
    // The same descriptor twice is charged twice.
    assert!(check(&world, json!([{"exact": "x"}, {"exact": "x"}]), 8).await.0);
    assert_eq!(world.left("shop", "exact", "x").await, 1);
    assert!(!check(&world, json!([{"exact": "x"}, {"exact": "x"}]), 1).await.0);
    // A rule in shadow mode denies no request; a rule with a limit of 0 denies all.
    assert!(check(&world, json!([{"shadow": "x"}, {"exact": "y"}]), 2).await.0);
    assert!(!check(&world, json!([{"never": "x"}, {"exact": "y"}]), 1).await.0);
    assert_eq!(world.left("shop", "exact", "y").await, 18);
    // Rules in quota mode deny a request only if none of them has room.
    let quotas = json!([{"one": "x"}, {"two": "x"}]);
    let allowed = [
        check(&world, quotas.clone(), 1).await.0,
        check(&world, quotas.clone(), 1).await.0,
        check(&world, quotas, 1).await.0,
    ];
    assert_eq!(allowed, [true, true, false]);
}

#[tokio::test]
async fn what_redis_cannot_keep_is_refused_with_its_rule() {
    let server = Server::start();
    let rules = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 5, \
                 count_rejected: true}}\n";
    let global = Some(crate::one_of_two(server.address()));
    let more = |options| Options { global, ..options };
    let world = crate::common::serve_with("what_redis_cannot_keep", rules, more);
    let (_, config) = world.await.admin("GET", "/rlconfig", "").await;
    let reason = "refused: shop.user: fixed-window 5/d count-denied needs mode exact (in a rule `accuracy: exact`): a \
                  node that decides by itself does not know in which order other nodes admit and deny, and to tell the \
                  store of every denial takes as many calls as mode exact";
    assert_eq!(config.trim_end(), reason);
}

/// The results that the client of one rule has seen.
#[derive(Debug, Default)]
struct Seen {
    admitted: AtomicU64,
    denied: AtomicU64,
    slowest_ms: AtomicU64,
}

/// Tests row 108 of the bad inputs: Redis is killed under load, and restarts empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_108_answers_go_on_by_on_error_and_recover_without_a_restart() {
    const KEYS: [&str; 3] = ["local", "allow", "deny"];
    let mut server = Server::start();
    let global = global(&server, DEADLINE);
    let world = crate::serve_connected("bad_input_108", RULES, global, |options| options).await;
    let stop = Arc::new(AtomicBool::new(false));
    let seen: [Arc<Seen>; 3] = Default::default();
    let mut tasks = Vec::new();
    for (key, seen) in KEYS.into_iter().zip(&seen) {
        let (mut client, seen, stop) = (world.client().await, Arc::clone(seen), Arc::clone(&stop));
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let descriptors = [descriptor(&[(key, "x")])];
                let answer = client.should_rate_limit(request("shop", &descriptors)).await;
                let answer = answer.expect("an answer, whatever Redis does").into_inner();
                let waited = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                seen.slowest_ms.fetch_max(waited, Ordering::Relaxed);
                let is_ok = answer.overall_code() == Code::Ok;
                let count = if is_ok { &seen.admitted } else { &seen.denied };
                count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }));
    }
    let counts = || {
        let of = |seen: &Arc<Seen>| {
            [&seen.admitted, &seen.denied].map(|count| count.load(Ordering::Relaxed))
        };
        seen.each_ref().map(of)
    };
    // Whether the rule `n` has used up its limit. Some units may be missing, if their lease ended before a request
    // came.
    let is_spent = |before: [[u64; 2]; 3], n: usize| {
        let [admitted, denied] = counts()[n];
        admitted - before[n][0] >= 24 && denied - before[n][1] > 40
    };
    wait_until(|| (0..3).all(|n| is_spent([[0; 2]; 3], n))).await;
    let spent = counts();
    assert!(spent.iter().all(|[admitted, _]| *admitted <= 30), "{spent:?}");
    server.kill();
    world.until("tollgate_store_degraded 1").await;
    // The rule `local` admits the 10 units of this node's share, `allow` admits every request, and `deny` none.
    wait_until(|| {
        let since = |n: usize, of: usize| counts()[n][of] - spent[n][of];
        since(0, 0) >= 9 && since(0, 1) > 20 && since(1, 0) > 50 && since(2, 1) > 50
    })
    .await;
    let killed = counts();
    assert!(killed[0][0] - spent[0][0] <= 10, "{killed:?} after {spent:?}");
    assert_eq!(killed[2][0], spent[2][0]);
    tokio::task::block_in_place(|| server.restart());
    world.until("tollgate_store_degraded 0").await;
    // Redis has lost all counts, so a whole limit can be admitted again, and no more.
    wait_until(|| is_spent(killed, 0) && is_spent(killed, 2)).await;
    for n in [0, 2] {
        assert!(counts()[n][0] - killed[n][0] <= 30, "{:?} after {killed:?}", counts());
    }
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no panic");
    }
    let by_share = "tollgate_store_decisions_total{by=\"share\",outcome=\"allowed\"}";
    assert!(world.count(by_share).await >= 9);
    assert!(world.count("tollgate_store_faults_total{kind=\"unreachable\"}").await > 0);
    assert!(world.count("tollgate_store_connections_total").await >= 2);
    for seen in &seen {
        // The bound is the deadline, and a second by which a thread may be late on a busy machine.
        let slowest = Duration::from_millis(seen.slowest_ms.load(Ordering::Relaxed));
        assert!(slowest < DEADLINE + Duration::from_secs(1), "{seen:?}");
    }
}

async fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENT, "it does not come to pass");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// When 92 of 100 units are spent, the limit changes to 110, so 18 units are left, with every accuracy.
#[tokio::test]
async fn a_rule_that_changes_leaves_what_was_spent_in_redis() {
    let rules = |unit: &str, requests: u64, more: &str| {
        let rule = |accuracy: &str| {
            format!(
                "  - {{key: {accuracy}, accuracy: {accuracy}, rate_limit: {{unit: {unit}, \
                 requests_per_unit: {requests}{more}}}}}\n"
            )
        };
        let rules = ["exact", "leased", "async"].map(rule).concat();
        format!("domain: shop\ndescriptors:\n{rules}")
    };
    let server = Server::start();
    let before = rules("year", 100, "");
    let global = global(&server, Duration::from_secs(2));
    let timing = Timing { poll: Duration::from_secs(3_600), settle: Duration::ZERO };
    let more = |options| Options { timing, ..options };
    let mut world = crate::serve_connected("a_rule_that_changes", &before, global, more).await;
    assert!(world.reloaded().await.is_empty());
    let ask = async |world: &World, accuracy: &str| {
        let (allowed, statuses) = check(world, json!([{accuracy: "x"}]), 1).await;
        allowed.then(|| statuses[0]["remaining"].as_u64().expect("a number"))
    };
    for accuracy in ["exact", "leased", "async"] {
        for n in 0..92 {
            assert_eq!(ask(&world, accuracy).await, Some(99 - n), "{accuracy}");
        }
    }
    // The rule changes within the same window, to another window, and to another algorithm.
    let changes =
        [("year", 110, "", 17), ("month", 120, "", 26), ("month", 120, ", algorithm: gcra", 25)];
    for (unit, requests, more, left) in changes {
        world.put("basic.yaml", &rules(unit, requests, more));
        assert!(world.reloaded().await.is_empty());
        for accuracy in ["exact", "leased", "async"] {
            let found = ask(&world, accuracy).await;
            assert_eq!(found, Some(left), "{requests} in a {unit}{more}, {accuracy}");
        }
    }
}
