//! `remaining` in the answers of modes `leased` and `async`, on a real server.

use crate::common::server::Server;
use crate::common::{PATIENT, limiter, named, nodes, started, store};
use tollgate_redis::{Mode, RedisDecision, RedisLimiter, Settings, check_all, peek_all};

fn left(decision: &RedisDecision) -> u64 {
    assert!(decision.is_allowed() && !decision.is_degraded());
    decision.decision().remaining()
}

/// The units of a report are counted exactly once, at every moment from its beginning to its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_during_a_report_neither_forgets_its_units_nor_counts_them_twice() {
    let server = Server::start();
    let settings = Settings::new("60/h".parse().unwrap()).mode(Mode::Async);
    let settings = settings.interval(std::time::Duration::from_millis(5));
    let limiter = RedisLimiter::new(&store(&server).await, settings).unwrap();
    for n in 0..200 {
        let key = format!("key {n}");
        assert_eq!(left(&limiter.check(&key).await), 59);
        assert_eq!(left(&limiter.check_n(&key, 19).await), 40);
        for look in 0..20 {
            assert_eq!(left(&limiter.entry(&key).peek(1).await), 40, "look {look} of {key}");
        }
    }
}

/// Leases of every size, in one pool and in a pool for each lane.
#[tokio::test]
async fn every_answer_of_a_lone_node_is_the_limit_less_what_was_admitted() {
    for (burst, cost) in [(50, 1), (1_000, 1), (1_000, 7), (20_000, 3), (20_000, 40)] {
        let server = Server::start();
        let policy = format!("1/h burst {burst}");
        let limiter = limiter(&store(&server).await, &policy, Mode::Leased, 1);
        let mut admitted = 0;
        while burst - admitted >= cost {
            let decision = limiter.check_n("key", cost).await;
            // After a denial, the node does not ask the store for a moment, although units may be left.
            if !decision.is_allowed() {
                let wait = decision.into_result().unwrap_err().retry_after().unwrap();
                tokio::time::sleep(wait).await;
                continue;
            }
            admitted += cost;
            assert_eq!(left(&decision), burst - admitted, "{policy}, {cost} at a time");
            if admitted % 50 == 0 {
                let peeked = limiter.entry("key").peek(1).await.decision().remaining();
                assert_eq!(peeked, burst - admitted, "{policy}, {cost} at a time");
            }
        }
    }
}

#[tokio::test]
async fn units_of_a_lease_that_has_expired_are_left_again() {
    let (_server, store) = started().await;
    let limiter = limiter(&store, "fixed-window 1000/30d from-first", Mode::Leased, 1);
    assert_eq!(left(&limiter.check_n("key", 100).await), 900);
    let expired = async {
        while store.stats().expired == 0 {
            assert_eq!(left(&limiter.entry("key").peek(1).await), 900);
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENT, expired).await.expect("a lease lives for a second");
    assert_eq!(left(&limiter.entry("key").peek(1).await), 900);
    assert_eq!(left(&limiter.check_n("key", 900).await), 0);
}

/// The cost fits in the node's and the store's units together, but in neither of them alone.
#[tokio::test]
async fn a_look_counts_units_that_are_held_as_a_request_does() {
    let server = Server::start();
    let limiter = limiter(&store(&server).await, "1/h burst 1000", Mode::Leased, 1);
    assert_eq!(left(&limiter.check_n("key", 100).await), 900);
    let peeked = limiter.entry("key").peek(900).await;
    assert_eq!((peeked.is_allowed(), peeked.decision().remaining()), (true, 900));
    let refused = limiter.entry("key").peek(901).await;
    assert_eq!((refused.is_allowed(), refused.decision().remaining()), (false, 900));
    // The service asks with `peek_all`.
    let peeked = peek_all(&[limiter.entry("key").cost(1)]).await;
    assert_eq!(peeked.decisions()[0].remaining(), 900);
    assert!(limiter.check_n("key", 900).await.is_allowed());
}

#[tokio::test]
async fn of_several_nodes_none_tells_more_than_is_left() {
    let server = Server::start();
    let nodes = nodes(&server, "1/h burst 1000", Mode::Leased, 3).await;
    let (mut admitted, mut told) = (0, [1_000; 3]);
    for n in 0..3_000_usize {
        let (limiter, told) = (&nodes[n % 3], &mut told[n % 3]);
        admitted += u64::from(limiter.check("key").await.is_allowed());
        // Units in leases of other nodes are not left for this node.
        let peeked = limiter.entry("key").peek(1).await.decision().remaining();
        assert!(peeked <= 1_000 - admitted, "{peeked} after {admitted}");
        // The number grows only by units that other nodes give back.
        assert!(peeked <= *told + 250, "{peeked} after {told}");
        *told = peeked;
    }
    assert!(admitted > 900, "{admitted}");
}

/// The store charges a request under several limits directly, without a lease.
#[tokio::test]
async fn what_a_request_under_several_limits_took_is_not_told_as_left() {
    let (_server, store) = started().await;
    let [one, other] =
        ["one", "other"].map(|name| named(&store, name, "1/h burst 1000", Mode::Leased));
    assert_eq!(left(&one.check_n("key", 100).await), 900);
    assert_eq!(left(&one.check("key").await), 899);
    let joint = check_all(&[one.entry("key").cost(50), other.entry("key").cost(50)]).await;
    assert!(joint.is_allowed());
    assert_eq!(left(&one.check("key").await), 848);
    assert_eq!(left(&one.entry("key").peek(1).await), 848);
    let peeked = peek_all(&[one.entry("key").cost(1), other.entry("key").cost(1)]).await;
    assert_eq!(
        peeked.decisions().iter().map(|one| one.remaining()).collect::<Vec<_>>(),
        [848, 950]
    );
}
