//! Tests of requests at the limit, on a real server: soft limits in every mode, and the changes that a denial causes in
//! mode `exact`. The answers must be those of a limiter in one process.

use crate::common::load::MODES;
use crate::common::server::Server;
use crate::common::{limiter, started, store};
use tollgate::{DenialReason, KeyedLimiter, Policy};
use tollgate_redis::{Mode, check_all};

/// The compared figures of an answer: whether the request was admitted, whether it went over the named limit, the
/// limit, and the units left.
type Shown = (bool, bool, u64, u64);

fn shown(decision: &tollgate::Decision) -> Shown {
    let is_over = decision.permit().is_some_and(|permit| permit.is_over());
    (decision.is_allowed(), is_over, decision.limit(), decision.remaining())
}

#[tokio::test]
async fn each_mode_tells_of_a_soft_limit_what_one_process_does() {
    let (_server, store) = started().await;
    for policy in
        ["10/h soft 50%", "fixed-window 10/60d soft 50%", "sliding-window 10/60d soft 50%"]
    {
        let local = KeyedLimiter::<str>::new(policy.parse::<Policy>().unwrap(), 10).unwrap();
        let expected: Vec<Shown> = (0..17).map(|_| shown(&local.check("key"))).collect();
        assert_eq!(expected.iter().filter(|shown| shown.1).count(), 5, "{policy}");
        for mode in MODES {
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
            assert_eq!(denial(16).await.reason(), DenialReason::NeverFits, "{key}");
        }
    }
}

#[tokio::test]
async fn several_limits_are_all_soft_or_none() {
    let (_server, store) = started().await;
    let soft = limiter(&store, "4/h soft 50%", Mode::Exact, 1);
    let ask =
        async |cost| check_all(&[soft.entry("one").cost(cost), soft.entry("other").cost(1)]).await;
    assert_eq!(shown(ask(4).await.into_joint().decision().unwrap()), (true, false, 4, 0));
    assert_eq!(shown(ask(2).await.into_joint().decision().unwrap()), (true, true, 4, 0));
    assert!(!ask(1).await.is_allowed());
}

/// The compared figures of a denial: whether a penalty is the reason, and the wait in minutes, rounded up.
fn denied(decision: &tollgate::Decision) -> Option<(bool, u64)> {
    let denial = decision.denial()?;
    let wait = denial.retry_after()?;
    Some((denial.reason() == DenialReason::Penalty, wait.as_secs().div_ceil(60)))
}

/// Waiting requests of one unit are merged only under policies for which a denial changes nothing. This policy counts
/// each denial, so the requests are not merged.
#[tokio::test]
async fn of_requests_that_wait_together_each_denial_counts() {
    let server = Server::start();
    let limiter = limiter(
        &store(&server).await,
        "fixed-window 10/60d from-first penalty 90d after 5",
        Mode::Exact,
        1,
    );
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..14 {
        let limiter = limiter.clone();
        tasks.spawn(async move { limiter.check("key").await.into_decision() });
    }
    let answers = tasks.join_all().await;
    assert_eq!(answers.iter().filter(|decision| decision.is_allowed()).count(), 10);
    assert!(answers.iter().all(|decision| denied(decision).is_none_or(|(penalty, _)| !penalty)));
    assert_eq!(denied(limiter.check("key").await.decision()), Some((true, 90 * 24 * 60)));
}
