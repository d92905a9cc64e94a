//! A quota chosen for each request: the plan of a client, found by its API key.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    Answer, ask, gate, inner, keyed, named, one, policy, served, telling, text, with,
};
use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use tollgate::{Changing, KeyedLimiter, Limiter, ManualClock, Policy};
use tollgate_tower::gates::Settle;
use tollgate_tower::headers::{HeaderStyle, Headers};
use tollgate_tower::keys::{ApiKey, Everyone, Extract, Key, NoKey, from_fn};
use tollgate_tower::limits::{GateLimit, LimitAnswer};
use tollgate_tower::{Gate, RateLimitLayer};
use tower::{Layer, ServiceExt};

/// The quotas of the free and of the paid plan.
fn plans(clock: &ManualClock) -> Changing<KeyedLimiter<Key>> {
    let tiers = KeyedLimiter::builder(policy("fixed-window 2/m")).tier(policy("fixed-window 4/h"));
    tiers.clock(clock.clone()).build(1_000).unwrap()
}

/// The key is the value of one header, and the tier that of another.
fn by() -> impl Extract {
    ApiKey::new(HeaderName::from_static("x-api-key")).tier(|head| {
        let plan = head.headers.get("x-plan")?;
        ["free", "paid", "no such tier"].iter().position(|known| plan == known)
    })
}

fn of(api_key: &str, plan: &str) -> Request<()> {
    with("203.0.113.7", &[("x-api-key", api_key), ("x-plan", plan)])
}

fn told(answer: &Answer) -> (u16, Option<String>, Option<String>) {
    let field = |name| text(answer.headers(), name).map(str::to_owned);
    (answer.status().as_u16(), field("ratelimit-policy"), field("ratelimit"))
}

fn as_told(status: u16, policy: &str, standing: &str) -> (u16, Option<String>, Option<String>) {
    (status, Some(format!("\"default\";{policy}")), Some(format!("\"default\";{standing}")))
}

#[test]
fn each_client_has_the_quota_of_its_plan_and_headers_tell_that_one() {
    let clock = ManualClock::new();
    let mut service = served(&RateLimitLayer::new(plans(&clock), by()));
    for left in [3, 2, 1, 0] {
        let answer = ask(&mut service, of("alice", "paid"));
        assert_eq!(told(&answer), as_told(200, "q=4;w=3600", &format!("r={left};t=3600")));
    }
    assert_eq!(
        told(&ask(&mut service, of("alice", "paid"))),
        as_told(429, "q=4;w=3600", "r=0;t=3600")
    );
    for (status, left) in [(200, 1), (200, 0), (429, 0)] {
        let answer = ask(&mut service, of("bob", "free"));
        assert_eq!(told(&answer), as_told(status, "q=2;w=60", &format!("r={left};t=60")));
    }
    // A client whose plan has changed has a separate count in the new plan.
    assert_eq!(ask(&mut service, of("alice", "free")).status(), 200);
}

#[test]
fn every_style_of_headers_tells_the_quota_of_the_tier() {
    let clock = ManualClock::new();
    let styles = [HeaderStyle::Draft10, HeaderStyle::Draft3, HeaderStyle::XRateLimit];
    let layer = RateLimitLayer::new(plans(&clock), by());
    let answer = ask(&mut served(&layer.clone().headers(styles)), of("alice", "paid"));
    assert_eq!(text(answer.headers(), "ratelimit-limit"), Some("4, 4;w=3600"));
    assert_eq!(text(answer.headers(), "x-ratelimit-limit"), Some("4"));
    let answer = ask(&mut served(&layer.clone().headers(HeaderStyle::Draft7)), of("bob", "paid"));
    assert_eq!(text(answer.headers(), "ratelimit"), Some("limit=4, remaining=3, reset=3600"));
    let answer = ask(&mut served(&layer.headers(Headers::NONE)), of("bob", "paid"));
    assert_eq!(answer.headers().len(), 0);
}

#[test]
fn beside_other_gates_each_states_the_quota_in_force_for_the_request() {
    let clock = ManualClock::new();
    let gates = [
        Gate::new(plans(&clock), by()).named(named("plan")),
        Gate::new(one("100/s", &clock), Everyone).named(named("service")),
        gate("tried", keyed("9/s", &clock)).shadow(),
    ];
    let mut service = served(&RateLimitLayer::all(gates).unwrap());
    for (plan, quota) in [("paid", "q=4;w=3600"), ("free", "q=2;w=60")] {
        let answer = ask(&mut service, of("alice", plan));
        let stated = format!("\"plan\";{quota}, \"service\";q=100;w=1");
        assert_eq!(text(answer.headers(), "ratelimit-policy"), Some(&*stated));
    }
}

#[test]
fn a_client_of_no_known_plan_is_denied_or_passes_as_the_gate_says() {
    let clock = ManualClock::new();
    let requests = || {
        [
            of("alice", "gold"),
            of("alice", "no such tier"),
            with("203.0.113.7", &[("x-api-key", "a")]),
        ]
    };
    let mut closed = served(&RateLimitLayer::new(plans(&clock), by()));
    for request in requests() {
        let denied = ask(&mut closed, request);
        assert_eq!(denied.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            denied.body(),
            "{\"type\":\"about:blank\",\"title\":\"The server has no quota for this client\",\
             \"status\":503,\"violated-policies\":[\"default\"]}"
        );
        // No limit was asked, so none is reported.
        assert_eq!(text(denied.headers(), "ratelimit"), None);
        assert_eq!(text(denied.headers(), "retry-after"), None);
    }
    let gate = || Gate::new(plans(&clock), by()).pass_unknown_tier();
    let mut open = served(&RateLimitLayer::of(gate()));
    let mut tried = served(&RateLimitLayer::of(Gate::new(plans(&clock), by()).shadow()));
    for request in requests().into_iter().chain(requests()) {
        assert_eq!(ask(&mut open, request.clone()).status(), 200);
        assert_eq!(ask(&mut tried, request).status(), 200, "a gate that is tried denies nothing");
    }
    // Beside another gate, a request with an unknown tier is either denied and charged nothing, or left to the other
    // gate.
    let other = Arc::new(one("9/h", &clock));
    let service = |gate: Gate| {
        let other = Gate::new(Arc::clone(&other), Everyone);
        let gates = [other.named(named("other")), gate];
        served(&RateLimitLayer::all(gates).unwrap())
    };
    assert_eq!(
        ask(&mut service(Gate::new(plans(&clock), by())), of("alice", "gold")).status(),
        503
    );
    assert_eq!(other.entry().peek(1).remaining(), 9);
    assert_eq!(ask(&mut service(gate()), of("alice", "gold")).status(), 200);
    assert_eq!(other.entry().peek(1).remaining(), 8);
}

#[test]
fn a_limit_without_tiers_knows_the_first_alone() {
    let clock = ManualClock::new();
    let mut service = served(&RateLimitLayer::new(keyed("9/h", &clock), by()));
    let plans = ["free", "paid"].map(|plan| ask(&mut service, of("alice", plan)).status().as_u16());
    assert_eq!(plans, [200, 503]);
}

#[test]
fn your_own_answer_can_tell_an_unknown_plan_from_a_spent_quota() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(plans(&clock), by()).deny_with(|denied| {
        let body = if denied.denial.is_none() { "which plan?" } else { "later" };
        Response::builder().status(denied.status()).body(Bytes::from(body)).unwrap()
    });
    let mut service = served(&layer);
    assert_eq!(ask(&mut service, of("alice", "gold")).body(), "which plan?");
    let denied = [1, 2, 3].map(|_| ask(&mut service, of("bob", "free")));
    assert_eq!(denied[2].body(), "later");
}

#[cfg(feature = "grpc")]
#[test]
fn grpc_tells_an_unknown_plan_as_unavailable() {
    let clock = ManualClock::new();
    let layer = RateLimitLayer::new(plans(&clock), by()).grpc();
    let denied = ask(&mut served(&layer), of("alice", "gold"));
    assert_eq!(text(denied.headers(), "grpc-status"), Some("14"));
    assert_eq!(text(denied.headers(), "grpc-message"), Some("default: no quota for this client"));
}

#[test]
fn a_request_without_a_key_is_under_the_first_tier() {
    let clock = ManualClock::new();
    let by = || Everyone.tier(|_| Some(1));
    let none = from_fn(|_, key: &mut Key| {
        key.set_tier(Some(1));
        Err(NoKey::Missing)
    });
    let gate = Gate::new(plans(&clock), (by(), none));
    let answer = ask(&mut served(&RateLimitLayer::of(gate)), Request::new(()));
    assert_eq!(text(answer.headers(), "ratelimit-policy"), Some("\"default\";q=2;w=60"));
}

#[test]
fn what_a_request_turned_out_to_cost_is_settled_in_its_tier() {
    let clock = ManualClock::new();
    let limit = Arc::new(plans(&clock));
    let layer = RateLimitLayer::new(Arc::clone(&limit), by()).settle_later();
    let mut service = layer.layer(telling(|request| {
        let settle: &Settle = request.extensions().get().unwrap();
        format!("{} {}", settle.refund(1), settle.charge(3).now().unwrap())
    }));
    assert_eq!(ask(&mut service, of("alice", "paid")).body(), "1 0");
    // The window of the other plan still has room for two requests.
    assert_eq!(ask(&mut service, of("alice", "free")).body(), "1 1");
    let mut key = Key::new();
    key.push_digest(b"alice");
    let left = [0, 1].map(|tier| {
        let entry = KeyedLimiter::entry(&limit, &key).tier(tier).unwrap();
        entry.peek(0).remaining()
    });
    assert_eq!(left, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn requests_of_each_tier_wait_for_the_turn_of_theirs() {
    let clock = ManualClock::new();
    let tiers = KeyedLimiter::builder(policy("1/s burst 1")).tier(policy("10/s burst 1"));
    let limit: Changing<KeyedLimiter<Key>> = tiers.clock(clock.clone()).build(1_000).unwrap();
    let gate = Gate::new(limit, by()).delay(Duration::from_secs(5), tokio::time::sleep);
    let service = RateLimitLayer::of(gate).layer(inner());
    for (plan, wait) in [("free", 1_000), ("paid", 100)] {
        for wait in [0, wait] {
            let start = tokio::time::Instant::now();
            let answer = service.clone().oneshot(of("alice", plan)).await.unwrap();
            assert_eq!((answer.status().as_u16(), start.elapsed().as_millis()), (200, wait));
        }
    }
}

/// A limit that is kept elsewhere also gets the tier.
#[tokio::test]
async fn a_limit_that_is_kept_elsewhere_is_asked_for_the_tier_of_the_key() {
    struct Plans([Arc<Limiter>; 2]);
    impl GateLimit for Plans {
        fn policy_of(&self, tier: usize) -> Option<Policy> {
            Some(self.0.get(tier)?.policy())
        }

        fn check(&self, key: &Key, cost: u64) -> LimitAnswer {
            let limiter = Arc::clone(&self.0[key.tier().unwrap()]);
            LimitAnswer::later(async move { limiter.check_n(cost) })
        }
    }
    let clock = ManualClock::new();
    let plans =
        Plans(["fixed-window 2/m", "fixed-window 4/h"].map(|text| Arc::new(one(text, &clock))));
    let service = RateLimitLayer::new(plans, by()).layer(inner());
    let mut seen = Vec::new();
    for plan in ["paid", "free", "gold"] {
        seen.push(told(&service.clone().oneshot(of("alice", plan)).await.unwrap()));
    }
    assert_eq!(seen[0], as_told(200, "q=4;w=3600", "r=3;t=3600"));
    assert_eq!(seen[1], as_told(200, "q=2;w=60", "r=1;t=60"));
    assert_eq!(seen[2], (503, None, None));
}
