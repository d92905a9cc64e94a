//! Gates whose queue is kept elsewhere, such as in Redis, and charges that are made there after the decision.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{from, gate, inner, one};
use bytes::Bytes;
use http::{Request, Response};
use tollgate::{Decision, Limiter, ManualClock, Policy};
use tollgate_redis::{RedisLimiter, Settings, Store};
use tollgate_tower::gates::Settle;
use tollgate_tower::keys::Key;
use tollgate_tower::limits::{GateLimit, LimitAnswer};
use tollgate_tower::services::LayerError;
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::{Layer, ServiceExt};

fn queued(policy: &str) -> Queued {
    Queued(Arc::new(one(policy, &ManualClock::new())))
}

/// A limit whose queue is elsewhere.
struct Queued(Arc<Limiter>);

impl GateLimit for Queued {
    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.0.policy())
    }

    fn check(&self, _: &Key, _: u64) -> LimitAnswer {
        panic!("a gate that delays asks the queue")
    }

    fn acquire(&self, _: &Key, cost: u64, max_wait: Duration) -> LimitAnswer {
        let limiter = Arc::clone(&self.0);
        LimitAnswer::later(async move {
            let wait = tollgate::Wait::at_most(max_wait);
            match limiter.entry().acquire(cost, wait, tokio::time::sleep).await {
                Ok(permit) => Decision::Allowed(permit),
                Err(denial) => Decision::Denied(denial),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_delays_lets_requests_wait_for_their_turn_elsewhere() {
    let limiter = Arc::new(one("2/s burst 1", &ManualClock::new()));
    let gate = gate("queued", Queued(Arc::clone(&limiter)))
        .delay(Duration::from_secs(1), tokio::time::sleep);
    let service = RateLimitLayer::all([gate]).unwrap().layer(inner());
    let start = tokio::time::Instant::now();
    let calls: Vec<_> =
        (0..4).map(|_| tokio::spawn(service.clone().oneshot(from("203.0.113.7")))).collect();
    let mut answers = Vec::new();
    for call in calls {
        let answer = call.await.unwrap().unwrap();
        answers.push((answer.status().as_u16(), start.elapsed().as_millis()));
    }
    // The fourth request would wait 1.5 s, so it is denied at once; the test looks at its answer last.
    assert_eq!(answers, [(200, 0), (200, 500), (200, 1_000), (429, 1_000)]);
    // A client that gives up gives its place back.
    let place = || limiter.entry().reserve(1, Duration::from_secs(60)).unwrap();
    let (kept, free) = (place(), place());
    let wait = free.wait();
    assert!(limiter.entry().cancel(free));
    let gone = Queued(Arc::clone(&limiter));
    let minute = RateLimitLayer::all([gate_of(gone)]).unwrap().layer(inner());
    let call = minute.oneshot(from("203.0.113.7"));
    assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());
    assert_eq!((place().wait(), kept.wait() < wait), (wait, true));
}

fn gate_of(limit: Queued) -> Gate {
    gate("queued", limit).delay(Duration::from_secs(60), tokio::time::sleep)
}

#[test]
fn a_gate_that_delays_elsewhere_is_alone() {
    let error = RateLimitLayer::all([gate_of(queued("2/s burst 1")), gate("other", queued("1/h"))]);
    assert!(matches!(error, Err(LayerError::DelayAmongSeveral { .. })));
}

/// No server listens at that address. A later charge counts in this node's share, and is reported as not charged.
#[tokio::test]
async fn what_a_request_turned_out_to_cost_is_charged_to_a_store() {
    let store = Store::open("redis://127.0.0.1:1/").unwrap();
    let settings = Settings::new("10/h".parse().unwrap());
    let limiter = RedisLimiter::new(&store, settings).unwrap();
    let layer = RateLimitLayer::new(limiter, ClientAddress::peer()).settle_later();
    let service = layer.layer(tower::service_fn(async |request: Request<()>| {
        let settle: &Settle = request.extensions().get().unwrap();
        let told = settle.charge(4).wait().await;
        Ok::<_, Infallible>(Response::new(Bytes::from(told.to_string())))
    }));
    let mut answers = Vec::new();
    for _ in 0..4 {
        let answer = service.clone().oneshot(from("203.0.113.7")).await.unwrap();
        answers.push((answer.status().as_u16(), answer.body().len()));
    }
    // Each request costs five units of ten.
    assert_eq!(answers.iter().filter(|answer| **answer == (200, 1)).count(), 2, "{answers:?}");
    assert_eq!((answers[2].0, answers[3].0), (429, 429));
}
