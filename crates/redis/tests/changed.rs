//! Tests of a limit whose policy changes, on a real server: spent units stay spent, in every mode.

use crate::common::load::MODES;
use crate::common::server::Server;
use crate::common::{left, named, spend, started, store};
use tollgate_redis::{Mode, RedisLimiter, Store, check_all};

/// The limit `api`, under the given policy.
fn api(store: &Store, policy: &str, mode: Mode) -> RedisLimiter {
    named(store, "api", policy, mode)
}

/// 92 of 100 units are spent. The rate is so low that no unit comes back while a test runs.
#[tokio::test]
async fn a_changed_limit_gives_no_key_a_fresh_quota_in_any_mode() {
    for mode in MODES {
        for (before, now, expected) in [
            ("100/h", "110/h", Some(17)),
            ("100/h", "gcra 100/d", Some(7)),
            ("fixed-window 100/d from-first", "fixed-window 110/d from-first", Some(17)),
            ("fixed-window 100/d from-first", "gcra 110/h", Some(17)),
            ("100/h", "sliding-window 110/30d exact", Some(17)),
            ("sliding-window 100/30d exact", "segmented-window 120/30d x6", Some(27)),
            ("100/h", "90/h", None),
            ("100/h", "fixed-window 92/d from-first", None),
        ] {
            for is_replaced in [false, true] {
                let (_server, store) = started().await;
                let old = api(&store, before, mode);
                spend(&old, "key", 92).await;
                // The old limiter still exists in one case, and was dropped in the other.
                let old = (!is_replaced).then_some(old);
                let limiter = api(&store, now, mode);
                let decision = limiter.check("key").await;
                let found = decision.is_allowed().then(|| decision.decision().remaining());
                assert_eq!(found, expected, "{before} to {now}, {mode:?}, {is_replaced}");
                let peeked = left(&limiter, "key").await;
                assert_eq!(peeked, expected.unwrap_or(0), "{before} to {now}, {mode:?}");
                drop(old);
            }
        }
    }
}

/// The nodes load the new rules one after the other.
#[tokio::test]
async fn nodes_with_the_old_and_the_new_policy_together_admit_no_more_than_the_larger() {
    let policies = ["fixed-window 60/30d from-first", "100/h", "segmented-window 80/30d x6"];
    for mode in [Mode::Exact, Mode::Leased] {
        let server = Server::start();
        let mut nodes = Vec::new();
        for policy in policies {
            nodes.push(api(&store(&server).await, policy, mode));
        }
        let mut admitted = [0; 3];
        for n in 0..900 {
            let decision = nodes[n % 3].check("key").await;
            admitted[n % 3] += u64::from(decision.is_allowed());
        }
        let total: u64 = admitted.iter().sum();
        if mode == Mode::Exact {
            assert_eq!(total, 100, "{admitted:?}");
        }
        assert!(total <= 100 && admitted.iter().all(|one| *one > 0), "{admitted:?}");
    }
}

#[tokio::test]
async fn one_limit_under_two_policies_in_one_request_is_asked_for_the_sum() {
    let (_server, store) = started().await;
    let [wide, tight] = ["9/h", "5/h"].map(|policy| api(&store, policy, Mode::Exact));
    let joint = check_all(&[wide.entry("key").cost(1), tight.entry("key").cost(5)]).await;
    assert_eq!((joint.is_allowed(), joint.into_joint().denied_by()), (false, Some(1)));
    assert!(check_all(&[wide.entry("key").cost(1), tight.entry("key").cost(4)]).await.is_allowed());
    assert_eq!((left(&wide, "key").await, left(&tight, "key").await), (4, 0));
}

#[tokio::test]
async fn a_key_stores_the_states_of_four_policies_at_most_and_expires() {
    let (server, store) = started().await;
    for requests in 5..15 {
        let limiter = api(&store, &format!("{requests}/h"), Mode::Exact);
        let _ = limiter.check("key").await;
    }
    let text = server.run::<String>(&["GET", "test:api:{key}"]);
    assert_eq!(text.split(';').count(), 4, "{text}");
    assert!(text.starts_with("1 1 7 1800000000 25200000000 "), "{text}");
    // A state whose debt has drained is not written back.
    let limiter = api(&store, "5/h", Mode::Exact);
    server.run::<()>(&["DEL", "test:api:{key}"]);
    assert!(limiter.check("key").await.is_allowed());
    let text = server.run::<String>(&["GET", "test:api:{key}"]);
    server.run::<()>(&["SET", "test:api:{key}", &format!("{text};1 1 1 1 1 7 0")]);
    assert!(limiter.check("key").await.is_allowed());
    let text = server.run::<String>(&["GET", "test:api:{key}"]);
    assert_eq!(text.split(';').count(), 1, "{text}");
    assert!(server.run::<i64>(&["PTTL", "test:api:{key}"]) > 0);
}
