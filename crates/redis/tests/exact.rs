//! Mode `exact` on a real server: the store makes every decision, whichever node asks.

use std::time::Duration;

use crate::common::server::Server;
use crate::common::{
    PATIENT, admitted, degraded_by, left, limiter, named, nodes, started, store, store_at,
};
use tollgate::DenialReason;
use tollgate_redis::{Fault, Mode, Source, Store, check_all};

#[tokio::test]
async fn three_nodes_admit_what_one_would() {
    let server = Server::start();
    let nodes = nodes(&server, "10/h", Mode::Exact, 3).await;
    let [a, b, c] = &nodes[..] else { panic!() };
    let counts = tokio::join!(admitted(a, "key", 9), admitted(b, "key", 9), admitted(c, "key", 9));
    assert_eq!(counts.0 + counts.1 + counts.2, 10);
    assert_eq!(admitted(a, "other", 11).await, 10);
}

#[tokio::test]
async fn a_decision_tells_what_is_left_and_when_to_return() {
    let server = Server::start();
    let limiter = limiter(&store(&server).await, "6/m", Mode::Exact, 1);
    let first = limiter.check_n("key", 2).await;
    assert_eq!((first.source(), first.fault()), (Source::Store, None));
    assert_eq!((first.decision().limit(), first.decision().remaining()), (6, 4));
    assert_eq!(first.decision().reset_after(), Duration::from_secs(20));
    let denial = limiter.check_n("key", 5).await.into_result().unwrap_err();
    let wait = denial.retry_after().unwrap();
    assert!(wait <= Duration::from_secs(10) && wait > Duration::from_secs(1), "{wait:?}");
    let never = limiter.check_n("key", 7).await.into_result().unwrap_err();
    assert!(never.reason() == DenialReason::NeverFits && never.retry_after().is_none());
    // Neither a denial nor a peek has charged anything.
    assert_eq!(left(&limiter, "key").await, 4);
    assert!(limiter.check_n("key", 0).await.is_allowed());
    assert!(limiter.check_n("key", 4).await.is_allowed());
}

#[tokio::test]
async fn a_refund_gives_back_what_was_charged() {
    let (_server, store) = started().await;
    for policy in [
        "10/h",
        "fixed-window 10/d from-first",
        "sliding-window 10/60d exact",
        "segmented-window 10/60d x4",
        "sliding-log 10/d",
    ] {
        let limiter = limiter(&store, policy, Mode::Exact, 1);
        let permit = limiter.check_n(policy, 8).await.into_result().unwrap();
        // Under GCRA a part of the fifth unit has drained, but the number of returned units is rounded up.
        assert_eq!(limiter.entry(policy).refund(permit.portion(5)).await, Ok(5), "{policy}");
        assert_eq!(left(&limiter, policy).await, 7, "{policy}");
        let peeked = limiter.entry(policy).peek(1).await.into_result().unwrap();
        assert_eq!(limiter.entry(policy).refund(peeked).await, Ok(0), "{policy}");
    }
}

#[tokio::test]
async fn several_limits_are_charged_together_or_not_at_all() {
    let (_server, store) = started().await;
    let posts = named(&store, "posts", "fixed-window 2/60d", Mode::Leased);
    let friends = named(&store, "friends", "150/d", Mode::Leased);
    let both =
        async || check_all(&[friends.entry("alice").cost(1), posts.entry("alice").cost(1)]).await;
    assert!(both().await.is_allowed());
    let second = both().await.into_joint();
    // If both limits admit, the joint answer is the permit with fewer units left.
    assert_eq!(second.decision().unwrap().remaining(), 0);
    assert_eq!((second.reported_by(), second.denied_by()), (Some(1), None));
    let third = both().await;
    assert_eq!((third.is_allowed(), third.fault()), (false, None));
    let denied = third.into_joint().into_result().unwrap_err();
    assert!(denied.index() == 1 && denied.denial().retry_after().is_some());
    assert_eq!(left(&friends, "alice").await, 148);
    // A limit that is named twice is charged the sum of both costs.
    let twice = check_all(&[posts.entry("bob").cost(1), posts.entry("bob").cost(2)]).await;
    assert!(!twice.is_allowed());
    let twice = check_all(&[posts.entry("bob").cost(1), posts.entry("bob").cost(1)]).await;
    assert!(twice.is_allowed());
    assert_eq!(left(&posts, "bob").await, 0);
}

#[tokio::test]
async fn limits_of_two_stores_are_no_request() {
    let server = Server::start();
    let (one, other) = (store(&server).await, store(&server).await);
    let limits = [&one, &other].map(|store| limiter(store, "9/h", Mode::Exact, 1));
    let joint = check_all(&[limits[0].entry("key").cost(1), limits[1].entry("key").cost(1)]).await;
    assert_eq!(joint.fault(), Some(Fault::MixedStores));
    assert_eq!(left(&limits[0], "key").await, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_share_calls_and_each_gets_its_own_answer() {
    let (_server, store) = started().await;
    let limiter = limiter(&store, "10/h burst 500", Mode::Exact, 1);
    let before = store.stats().calls;
    let tasks: Vec<_> = (0..2_000)
        .map(|n| {
            let limiter = limiter.clone();
            // Every second request has a key of its own, and is admitted.
            let key = if n % 2 == 0 { "hot".to_string() } else { n.to_string() };
            tokio::spawn(async move { (n % 2, limiter.check(key).await) })
        })
        .collect();
    let mut counts = [0; 2];
    for task in tasks {
        let (kind, decision) = task.await.unwrap();
        assert_eq!(decision.source(), Source::Store);
        counts[kind] += usize::from(decision.is_allowed());
    }
    assert_eq!(counts, [500, 1_000]);
    let calls = store.stats().calls - before;
    assert!(calls < 1_000, "{calls} calls for 2,000 requests");
}

#[tokio::test]
async fn names_and_keys_never_meet() {
    let (_server, store) = started().await;
    let limits = [("a", "1/h"), ("ab", "1/h"), ("b", "1/d")]
        .map(|(name, policy)| named(&store, name, policy, Mode::Exact));
    for limiter in &limits {
        for key in ["", "b", "b:", "}:", "1/h:", "\u{0}", "a b"] {
            assert!(limiter.check(key).await.is_allowed(), "{key:?}");
            assert!(!limiter.check(key).await.is_allowed(), "{key:?}");
        }
    }
}

/// One of the faults of bad input 114: the server has forgotten the script.
#[tokio::test]
async fn bad_input_114_a_forgotten_script_is_brought_along_once() {
    let (server, store) = started().await;
    let limiter = limiter(&store, "10/h", Mode::Exact, 1);
    for n in 0..3 {
        assert_eq!(limiter.check("key").await.decision().remaining(), 9 - n);
        server.run::<()>(&["SCRIPT", "FLUSH"]);
    }
    assert_eq!(limiter.check("key").await.source(), Source::Store);
    assert_eq!(limiter.check("key").await.source(), Source::Store);
    let stats = store.stats();
    assert_eq!((stats.reloads, stats.connections), (3, 1));
}

/// Bad input 123: a user with no rights but to run this script on the store's keys.
#[tokio::test]
async fn bad_input_123_a_user_with_few_rights_is_enough() {
    let server = Server::start();
    let rules = "ACL SETUSER limiter on >secret ~test:* -@all +script|load +evalsha +eval +time +get +set +hello +client";
    server.run::<()>(&rules.split(' ').collect::<Vec<_>>());
    let address = format!("redis://limiter:secret@127.0.0.1:{}/", server.port);
    let limiter = limiter(&store_at(&address).await, "10/h", Mode::Exact, 1);
    assert_eq!(limiter.check("key").await.source(), Source::Store);
    // The user has no right to other keys, such as those of another prefix.
    let foreign = Store::with(&address, PATIENT, "other").unwrap();
    degraded_by(&foreign, &[Fault::Forbidden]).await;
}
