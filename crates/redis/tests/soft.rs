//! Soft limits on a real server, in every mode: more than the limit has a mark, and more than the softened limit is
//! denied.
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use common::server::Server;
use common::{limiter, store};
use tollgate::{KeyedLimiter, Policy};
use tollgate_redis::{Mode, check_all};

/// What an answer tells: admitted, over, the limit, and what is left of it.
type Shown = (bool, bool, u64, u64);

fn shown(decision: tollgate::Decision) -> Shown {
    let is_over = decision.into_result().is_ok_and(|permit| permit.is_over());
    (decision.is_allowed(), is_over, decision.limit(), decision.remaining())
}

#[tokio::test]
async fn each_mode_tells_of_a_soft_limit_what_one_process_does() {
    let server = Server::start();
    let store = store(&server).await;
    for policy in
        ["10/h soft 50%", "fixed-window 10/60d soft 50%", "sliding-window 10/60d soft 50%"]
    {
        let local = KeyedLimiter::<str>::new(policy.parse::<Policy>().unwrap(), 10).unwrap();
        let expected: Vec<Shown> = (0..17).map(|_| shown(local.check("key"))).collect();
        assert_eq!(expected.iter().filter(|shown| shown.1).count(), 5, "{policy}");
        for mode in [Mode::Exact, Mode::Leased, Mode::Async] {
            let key = format!("{policy} {mode:?}");
            let limiter = limiter(&store, policy, mode, 1);
            for (n, expected) in expected.iter().enumerate() {
                let decision = limiter.check(&key).await;
                assert!(!decision.is_degraded(), "{key}");
                assert_eq!(shown(decision.decision()), *expected, "{key}, request {n}");
            }
            let denial = |cost| {
                let (limiter, key) = (&limiter, &key);
                async move { limiter.check_n(key, cost).await.into_result().unwrap_err() }
            };
            assert!(denial(15).await.retry_after().is_some(), "{key}");
            assert!(denial(16).await.is_never(), "{key}");
        }
    }
}

#[tokio::test]
async fn several_limits_are_all_soft_or_none() {
    let server = Server::start();
    let store = store(&server).await;
    let soft = limiter(&store, "4/h soft 50%", Mode::Exact, 1);
    let ask = async |cost| check_all(&[soft.toll("one", cost), soft.toll("other", 1)]).await;
    assert_eq!(shown(ask(4).await.decision().unwrap()), (true, false, 4, 0));
    assert_eq!(shown(ask(2).await.decision().unwrap()), (true, true, 4, 0));
    assert!(!ask(1).await.is_allowed());
}
