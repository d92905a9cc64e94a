//! A layer whose limit is kept elsewhere: it waits for the decision, and reports it as any layer does.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{Never, from, inner, is_ready, one, text};
use http::{Request, Response};
use tollgate::{Decision, Limiter, ManualClock, Policy};
use tollgate_redis::{OnError, RedisLimiter, Settings, Store};
use tollgate_tower::{
    Answering, ClientAddress, Cost, FromFn, Key, MissingKey, NoKey, PolicyName, RateLimitLayer,
    RemoteLayer, RemoteLimit, Settle,
};
use tower::{Layer, Service, ServiceExt};

/// Answers later, and counts how often it is asked. It decides even costs at once.
struct Elsewhere {
    limiter: Limiter,
    asked: Arc<AtomicU64>,
}

impl RemoteLimit for Elsewhere {
    fn policy(&self) -> Policy {
        self.limiter.policy()
    }

    fn check_now(&self, _: &Key, cost: u64) -> Option<Decision> {
        cost.is_multiple_of(2).then(|| self.limiter.check_n(cost))
    }

    fn check<'a>(&'a self, _: &'a Key, cost: u64) -> Answering<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.limiter.check_n(cost)
        })
    }
}

fn elsewhere(policy: &str) -> (Elsewhere, Arc<AtomicU64>, ManualClock) {
    let (clock, asked) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
    (Elsewhere { limiter: one(policy, &clock), asked: Arc::clone(&asked) }, asked, clock)
}

async fn ask<S>(service: &S, request: Request<()>) -> Response<Bytes>
where
    S: Service<Request<()>, Response = Response<Bytes>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn a_client_is_told_what_was_decided_elsewhere() {
    let (remote, asked, clock) = elsewhere("60/m burst 2");
    let service = RemoteLayer::new(remote, ClientAddress::peer()).layer(inner());
    for left in [1, 0] {
        let answer = ask(&service, from("203.0.113.7")).await;
        assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (200, &b"hello"[..]));
        let told = text(answer.headers(), "ratelimit").unwrap();
        assert!(told.starts_with(&format!("\"default\";r={left};")), "{told}");
    }
    let denied = ask(&service, from("203.0.113.7")).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(text(denied.headers(), "retry-after"), Some("1"));
    clock.advance(Duration::from_secs(1));
    assert_eq!(ask(&service, from("203.0.113.7")).await.status(), 200);
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[test]
fn a_service_is_ready_when_the_inner_one_is_wherever_its_limit_is_kept() {
    let (remote, _asked, _clock) = elsewhere("60/m");
    let layer = RemoteLayer::new(remote, ClientAddress::peer());
    assert!(is_ready(&mut layer.layer(inner())));
    assert!(!is_ready(&mut layer.layer(Never)));
}

#[tokio::test]
async fn what_can_be_decided_at_once_is_and_each_request_is_decided_once() {
    let (remote, asked, _clock) = elsewhere("60/m burst 10");
    let layer = RemoteLayer::of(remote, ClientAddress::peer(), |gate| {
        gate.named(PolicyName::new("two").unwrap()).cost(Cost::constant(2))
    });
    let service = layer.layer(inner());
    for left in [8, 6, 4, 2, 0] {
        let answer = ask(&service, from("203.0.113.7")).await;
        let told = text(answer.headers(), "ratelimit").unwrap();
        assert!(told.starts_with(&format!("\"two\";r={left};")), "{told}");
    }
    assert_eq!(ask(&service, from("203.0.113.7")).await.status(), 429);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_request_that_is_not_concerned_is_not_asked_for_and_passes() {
    let (remote, asked, _clock) = elsewhere("60/m burst 1");
    let by = FromFn::new(|_, _| Err(NoKey::NotConcerned));
    let service = RemoteLayer::new(remote, by).layer(inner());
    for _ in 0..3 {
        assert_eq!(ask(&service, from("203.0.113.7")).await.status(), 200);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_gate_that_is_only_tried_denies_no_request() {
    let (remote, asked, _clock) = elsewhere("60/m burst 1");
    let layer = RemoteLayer::of(remote, ClientAddress::peer(), |gate| gate.shadow());
    let service = layer.layer(inner());
    for _ in 0..3 {
        assert_eq!(ask(&service, from("203.0.113.7")).await.status(), 200);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_waits_is_taken_for_one_that_denies() {
    let (remote, asked, _clock) = elsewhere("1/h");
    let hours = Duration::from_secs(7_200);
    let layer = RemoteLayer::of(remote, ClientAddress::peer(), |gate| {
        gate.delay(hours, tokio::time::sleep)
    });
    let service = layer.layer(inner());
    assert_eq!(ask(&service, from("203.0.113.7")).await.status(), 200);
    let denied = ask(&service, from("203.0.113.7")).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(text(denied.headers(), "retry-after"), Some("3600"));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_request_without_a_key_shares_one_limit_elsewhere_or_nothing_is_asked_for_it() {
    let expected = [(MissingKey::Share, [200, 429], 2), (MissingKey::Pass, [200, 200], 0)];
    for (missing, statuses, times) in expected {
        let (remote, asked, _clock) = elsewhere("1/h");
        let by = FromFn::new(|_, _| Err(NoKey::Missing));
        let layer = RemoteLayer::of(remote, by, |gate| gate.without_key(missing));
        let service = layer.layer(inner());
        for status in statuses {
            assert_eq!(ask(&service, from("203.0.113.7")).await.status(), status, "{missing:?}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), times, "{missing:?}");
    }
}

/// The remote limit has no such call, and a charge here would limit nothing.
#[tokio::test]
async fn what_is_charged_elsewhere_is_not_settled_here_and_that_is_told() {
    let (remote, _asked, _clock) = elsewhere("10/h");
    let layer =
        RemoteLayer::new(remote, ClientAddress::peer()).telling(RateLimitLayer::settle_later);
    let service = layer.layer(tower::service_fn(|request: Request<()>| {
        let settle: &Settle = request.extensions().get().unwrap();
        let settled = format!("{} {}", settle.refund(1), settle.charge(7));
        std::future::ready(Ok::<_, Infallible>(Response::new(Bytes::from(settled))))
    }));
    for left in [9, 8] {
        let answer = ask(&service, from("203.0.113.7")).await;
        assert_eq!(answer.body(), "0 7");
        let told = text(answer.headers(), "ratelimit").unwrap();
        assert!(told.starts_with(&format!("\"default\";r={left};")), "{told}");
    }
}

/// No server listens at that address: the failure policy decides.
#[tokio::test]
async fn without_a_store_a_share_of_the_limit_is_admitted_or_all_or_nothing() {
    let store = Store::open("redis://127.0.0.1:1/").unwrap();
    for (on_error, admitted) in [(OnError::Local, 3), (OnError::Allow, 20), (OnError::Deny, 0)] {
        let settings = Settings::new("10/h".parse().unwrap()).nodes(3).on_error(on_error);
        let limiter = RedisLimiter::new(&store, settings).unwrap();
        let service = RemoteLayer::new(limiter, ClientAddress::peer()).layer(inner());
        let mut passed = 0;
        for _ in 0..20 {
            passed += u32::from(ask(&service, from("203.0.113.7")).await.status() == 200);
        }
        assert_eq!(passed, admitted, "{on_error:?}");
        let other = ask(&service, from("203.0.113.8")).await;
        assert_eq!(other.status() == 200, on_error != OnError::Deny);
    }
}
