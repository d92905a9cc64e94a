//! Mode `leased` on a real server: the store charges units before a node spends them.

use std::time::Duration;

use crate::common::server::Server;
use crate::common::{left, limiter, named, nodes, spend, started, store, until};
use tollgate_redis::{Mode, RedisLimiter, Settings, Source, Weight, check_all, peek_all};

/// A unit comes back in six minutes, so no unit comes back while a test runs.
const POLICY: &str = "10/h burst 1000";

/// Asks until the store has no units left. A reported wait above a second shows this, since shorter waits may only mean
/// that the node does not ask the store yet.
async fn exhaust(limiter: &RedisLimiter) -> u64 {
    let mut admitted = 0;
    loop {
        match limiter.check("key").await.into_result() {
            Ok(_) => admitted += 1,
            Err(denial) => {
                let wait = denial.retry_after().unwrap();
                if wait > Duration::from_secs(1) {
                    return admitted;
                }
                tokio::time::sleep(wait).await;
            }
        }
    }
}

#[tokio::test]
async fn three_nodes_admit_exactly_the_limit_from_the_start() {
    let server = Server::start();
    let nodes = nodes(&server, POLICY, Mode::Leased, 3).await;
    let [a, b, c] = &nodes[..] else { panic!() };
    let (a, b, c) = tokio::join!(exhaust(a), exhaust(b), exhaust(c));
    assert_eq!(a + b + c, 1_000);
}

#[tokio::test]
async fn bad_input_117_a_hot_key_costs_few_calls() {
    let (_server, store) = started().await;
    let limiter = limiter(&store, POLICY, Mode::Leased, 1);
    assert_eq!(exhaust(&limiter).await, 1_000);
    let stats = store.stats();
    assert!(stats.calls < 100, "{} calls for 1,000 units", stats.calls);
    assert_eq!((stats.leased, stats.allowed(Source::Lease)), (1_000, 1_000));
    // The node denies because of the store's earlier denial, without asking again.
    let before = store.stats().calls;
    for _ in 0..1_000 {
        assert!(!limiter.check("key").await.is_allowed());
    }
    assert!(store.stats().calls - before < 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_of_a_cold_key_wait_for_one_lease() {
    let (_server, store) = started().await;
    let limiter = limiter(&store, POLICY, Mode::Leased, 1);
    let tasks: Vec<_> = (0..600)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.check("key").await.is_allowed() })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += usize::from(task.await.unwrap());
    }
    assert_eq!(admitted, 600);
    let calls = store.stats().calls;
    assert!(calls < 60, "{calls} calls");
}

#[tokio::test]
async fn units_that_are_returned_can_be_had_by_others() {
    let server = Server::start();
    let nodes = nodes(&server, "fixed-window 1000/d from-first", Mode::Leased, 2).await;
    spend(&nodes[0], "key", 40).await;
    assert!(left(&nodes[1], "key").await < 960);
    // A lease that is on its way arrives, and the next call returns it.
    let all_back = async || {
        nodes[0].return_leases().await;
        left(&nodes[1], "key").await >= 960
    };
    until("all units are back", all_back).await;
    assert_eq!(left(&nodes[1], "key").await, 960);
}

#[tokio::test]
async fn a_refund_of_leased_units_goes_to_the_store() {
    let server = Server::start();
    let policy = "fixed-window 1000/d from-first".parse().unwrap();
    // If `max_held` is 1, a node leases only what a request asks for.
    let settings = Settings::new(policy).max_held(1);
    let limiter = RedisLimiter::new(&store(&server).await, settings).unwrap();
    let permit = limiter.check_n("key", 700).await.into_result().unwrap();
    assert_eq!(limiter.entry("key").refund(permit.portion(600)).await, Ok(600));
    assert_eq!(left(&limiter, "key").await, 900);
}

/// Most of 10,000 units are spent. Of the rest, some are in this node's lease, and the store has less than a sixteenth
/// of a lease.
#[tokio::test]
async fn a_cost_that_the_lease_and_the_store_have_together_is_admitted_as_in_mode_exact() {
    for spent in [9_633, 9_700, 9_999] {
        let server = Server::start();
        let limiter = limiter(&store(&server).await, "10000/30d", Mode::Leased, 1);
        // Units are spent quickly, so that leases grow large.
        spend(&limiter, "key", spent).await;
        let left = 10_000 - spent;
        let cost = left.min(300);
        assert!(!limiter.check_n("key", left + 1).await.is_allowed());
        assert!(limiter.check_n("key", cost).await.is_allowed(), "{cost} of {left}");
    }
}

/// The store decides requests under several limits and places in the queue. Units in this node's leases must not make
/// the store deny them.
#[tokio::test]
async fn what_a_node_holds_is_no_reason_to_deny_it_under_several_limits_or_a_place() {
    let (_server, store) = started().await;
    let [tight, wide] = [("tight", "100/30d"), ("wide", "1000/30d")]
        .map(|(name, policy)| named(&store, name, policy, Mode::Leased));
    spend(&tight, "key", 40).await;
    let both = [tight.entry("key").cost(60), wide.entry("key").cost(60)];
    assert!(peek_all(&both).await.is_allowed());
    spend(&tight, "key", 2).await;
    let over = [tight.entry("key").cost(59), wide.entry("key").cost(59)];
    assert!(!check_all(&over).await.is_allowed());
    assert!(tight.check("key").await.is_allowed());
    let wait = tollgate::Wait::at_most(Duration::ZERO);
    assert!(tight.entry("key").acquire(20, wait).await.is_ok());
    spend(&tight, "key", 17).await;
    let rest = [tight.entry("key").cost(20), wide.entry("key").cost(20)];
    assert!(check_all(&rest).await.is_allowed());
    assert!(!tight.check("key").await.is_allowed());
}

/// A request is under a limit that admits and a limit that only counts, which is over. The store charges the request,
/// and is not asked again, although this node holds units of the second limit.
#[tokio::test]
async fn a_request_that_a_trial_would_deny_is_charged_once() {
    let server = Server::start();
    let [here, there] = [store(&server).await, store(&server).await];
    let of = |store, policy, mode| named(store, policy, policy, mode);
    let (limit, trial) = (of(&here, "1000/30d", Mode::Exact), of(&here, "100/30d", Mode::Leased));
    spend(&trial, "alice", 25).await;
    // This takes all units of the second limit that are left in the store.
    let other = of(&there, "100/30d", Mode::Exact);
    while other.check("alice").await.is_allowed() {}
    let tried = trial.entry("alice").cost(1).in_group(1, Weight::Counts);
    let decision = check_all(&[limit.entry("alice").cost(1), tried]).await;
    assert!(decision.is_allowed());
    assert!(!decision.decisions()[1].is_allowed());
    assert_eq!(left(&limit, "alice").await, 999);
    // The node still holds its units of the second limit.
    assert!(trial.check("alice").await.is_allowed());
}
