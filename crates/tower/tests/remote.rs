//! A layer whose limit is kept elsewhere waits for the decision, and reports it as any layer does.

use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{from, gate, inner, named, one, telling, text};
use bytes::Bytes;
use http::{Request, Response};
use tollgate::{Decision, Denial, Limiter, ManualClock, Permit, Policy, check_all};
use tollgate_redis::{OnError, RedisLimiter, Settings, Store};
use tollgate_tower::gates::{Settle, Shadowed};
use tollgate_tower::keys::{Key, NoKey, from_fn};
use tollgate_tower::limits::{GateLimit, Lend, LimitAnswer, LimitAsk, Loan};
use tollgate_tower::services::LayerError;
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::{Layer, Service, ServiceExt};

/// A limit that answers later, and counts how often it is asked. It answers requests of an even cost at once.
struct Elsewhere {
    limiter: Arc<Limiter>,
    asked: Arc<AtomicU64>,
}

impl GateLimit for Elsewhere {
    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.limiter.policy())
    }

    fn check(&self, _: &Key, cost: u64) -> LimitAnswer {
        if cost.is_multiple_of(2) {
            return LimitAnswer::Now(self.limiter.check_n(cost));
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        let limiter = Arc::clone(&self.limiter);
        LimitAnswer::later(async move {
            tokio::task::yield_now().await;
            limiter.check_n(cost)
        })
    }
}

fn elsewhere(policy: &str) -> (Elsewhere, Arc<AtomicU64>, ManualClock) {
    let (clock, asked) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
    (Elsewhere { limiter: Arc::new(one(policy, &clock)), asked: Arc::clone(&asked) }, asked, clock)
}

async fn ask<S>(service: &S, request: Request<()>) -> Response<Bytes>
where
    S: Service<Request<()>, Response = Response<Bytes>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

/// The statuses of this many requests, one after the other.
async fn statuses<S>(service: &S, requests: usize) -> Vec<u16>
where
    S: Service<Request<()>, Response = Response<Bytes>, Error = Infallible> + Clone,
{
    let mut statuses = Vec::new();
    for _ in 0..requests {
        statuses.push(ask(service, from("203.0.113.7")).await.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn a_client_is_told_what_was_decided_elsewhere() {
    let (remote, asked, clock) = elsewhere("60/m burst 2");
    let service = RateLimitLayer::new(remote, ClientAddress::peer()).layer(inner());
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

#[tokio::test]
async fn what_can_be_decided_at_once_is_and_each_request_is_decided_once() {
    let (remote, asked, _clock) = elsewhere("60/m burst 10");
    let layer = RateLimitLayer::of(gate("two", remote).cost(2));
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
    let by = from_fn(|_, _| Err(NoKey::NotConcerned));
    let service = RateLimitLayer::new(remote, by).layer(inner());
    assert_eq!(statuses(&service, 3).await, [200; 3]);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_gate_that_is_only_tried_denies_no_request() {
    let (remote, asked, _clock) = elsewhere("60/m burst 1");
    let layer = RateLimitLayer::all([Gate::new(remote, ClientAddress::peer()).shadow()]).unwrap();
    let service = layer.layer(inner());
    assert_eq!(statuses(&service, 3).await, [200; 3]);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_request_without_a_key_shares_one_limit_elsewhere_or_nothing_is_asked_for_it() {
    for (passes, expected, times) in [(false, [200, 429], 2), (true, [200, 200], 0)] {
        let (remote, asked, _clock) = elsewhere("1/h");
        let gate = Gate::new(remote, from_fn(|_, _| Err(NoKey::Missing)));
        let gate = if passes { gate.pass_without_key() } else { gate };
        let service = RateLimitLayer::all([gate]).unwrap().layer(inner());
        assert_eq!(statuses(&service, 2).await, expected, "{passes}");
        assert_eq!(asked.load(Ordering::Relaxed), times, "{passes}");
    }
}

/// By default a limit that is kept elsewhere charges nothing afterwards, and reports that.
#[tokio::test]
async fn what_cannot_be_charged_elsewhere_is_told() {
    let (remote, _asked, _clock) = elsewhere("10/h");
    let layer = RateLimitLayer::new(remote, ClientAddress::peer()).settle_later();
    let service = layer.layer(telling(|request| {
        let settle: &Settle = request.extensions().get().unwrap();
        let told = [settle.charge(7), settle.charge_at("default", 3).unwrap()];
        assert!(settle.charge_at("another", 3).is_none());
        format!("{:?}", told.map(|told| told.now().unwrap()))
    }));
    for left in [9, 8] {
        let answer = ask(&service, from("203.0.113.7")).await;
        assert_eq!(answer.body(), "[7, 3]");
        let told = text(answer.headers(), "ratelimit").unwrap();
        assert!(told.starts_with(&format!("\"default\";r={left};")), "{told}");
    }
}

/// Limits that are charged together, since they are of one kind.
#[derive(Clone)]
struct Together(Arc<Limiter>);

impl GateLimit for Together {
    fn policy_of(&self, tier: usize) -> Option<Policy> {
        (tier == 0).then(|| self.0.policy())
    }

    fn check(&self, _: &Key, cost: u64) -> LimitAnswer {
        let limiter = Arc::clone(&self.0);
        LimitAnswer::later(async move { limiter.check_n(cost) })
    }

    fn is_charged_with(&self, other: &dyn GateLimit) -> bool {
        (other as &dyn Any).is::<Self>()
    }

    fn check_all(&self, asks: &[LimitAsk<'_>]) -> LimitAnswer<(usize, Decision)> {
        let owned = |ask: &LimitAsk<'_>| {
            let limit: &dyn Any = ask.limit;
            (limit.downcast_ref::<Self>().unwrap().clone(), ask.cost)
        };
        let asks: Vec<(Self, u64)> = asks.iter().map(owned).collect();
        LimitAnswer::later(async move {
            tokio::task::yield_now().await;
            let mut claims: Vec<_> =
                asks.iter().map(|(limit, cost)| limit.0.entry().cost(*cost)).collect();
            let joint = check_all(&mut claims);
            (joint.reported_by().unwrap(), joint.into_decision().unwrap())
        })
    }

    fn charge(&self, _: &Key, cost: u64) -> LimitAnswer<u64> {
        let limiter = Arc::clone(&self.0);
        LimitAnswer::later(async move { limiter.entry().charge(cost) })
    }
}

fn together(policy: &str) -> Together {
    Together(Arc::new(one(policy, &ManualClock::new())))
}

#[tokio::test]
async fn several_limits_elsewhere_are_charged_together_or_not_at_all_and_settled() {
    let (requests, tokens) = (together("4/h"), together("20/h"));
    let gates = [
        gate("requests", requests.clone()),
        gate("tokens", tokens.clone()).cost(6),
        gate("tried", together("1/h")).shadow(),
    ];
    let layer = RateLimitLayer::all(gates).unwrap().settle_later();
    let service = layer.layer(tower::service_fn(async |request: Request<()>| {
        let settle: &Settle = request.extensions().get().unwrap();
        let tried = request.extensions().get::<Shadowed>().map(|tried| tried.by.len());
        let told = Some(settle.charge_at("tokens", 1).unwrap().wait().await);
        Ok::<_, Infallible>(Response::new(Bytes::from(format!("{told:?} {tried:?}"))))
    }));
    let mut told = Vec::new();
    for _ in 0..4 {
        let answer = ask(&service, from("203.0.113.7")).await;
        let standing = text(answer.headers(), "ratelimit").unwrap().to_owned();
        told.push((answer.status().as_u16(), standing, answer.into_body()));
    }
    let passed = |standing: &str, body: &'static str| {
        (200, standing.to_owned(), Bytes::from_static(body.as_bytes()))
    };
    assert_eq!(told[0], passed("\"requests\";r=3;t=900", "Some(0) None"));
    assert_eq!(told[1], passed("\"requests\";r=2;t=1800", "Some(0) Some(1)"));
    // 14 tokens were charged before. The third request takes the last six, and one more is charged into debt.
    assert_eq!(told[2], passed("\"tokens\";r=0;t=3600", "Some(0) Some(1)"));
    // Seven tokens must drain, at 20 an hour. The denied request is not charged to the limit of requests.
    assert_eq!((told[3].0, &*told[3].1), (429, "\"tokens\";r=0;t=1260"));
    let left = [&requests, &tokens].map(|limit| limit.0.entry().peek(1).remaining());
    assert_eq!(left, [1, 0]);
}

/// Lends from a limiter of this process.
struct Account(Arc<Limiter>);

impl Lend for Account {
    fn lend(&self, denial: &Denial) -> LimitAnswer<Option<Loan>> {
        let (account, denial) = (Arc::clone(&self.0), *denial);
        LimitAnswer::later(async move {
            tokio::task::yield_now().await;
            let loan = account.check_n(denial.cost()).into_result().ok()?;
            Some(Loan::later(async move {
                account.entry().refund(loan);
            }))
        })
    }

    fn give_back(&self, _: Permit) {
        panic!("a loan of another process goes back by itself");
    }
}

#[tokio::test]
async fn what_a_limit_elsewhere_denies_is_borrowed_also_where_it_is_decided_at_once() {
    for cost in [1, 2] {
        let (remote, _asked, clock) = elsewhere("4/h");
        let account = Arc::new(one("6/h", &clock));
        let gate = gate("client", remote).cost(cost).or(Account(Arc::clone(&account)));
        let service = RateLimitLayer::all([gate]).unwrap().layer(inner());
        let mut told = Vec::new();
        for _ in 0..12 / cost {
            let answer = ask(&service, from("203.0.113.7")).await;
            let standing = text(answer.headers(), "ratelimit").unwrap().to_owned();
            told.push((answer.status().as_u16(), standing));
        }
        let count = |status| told.iter().filter(|(found, _)| *found == status).count() as u64;
        assert_eq!([count(200), count(429)], [10 / cost, 2 / cost]);
        // The figures of a loan are those of the gate's own limit.
        let borrowed = (200, "\"client\";r=0;t=3600".to_owned());
        assert_eq!(told.iter().filter(|told| **told == borrowed).count() as u64, 1 + 6 / cost);
    }
}

/// The second of two gates that borrow finds nothing, or a third gate denies: the loans are given back.
#[tokio::test]
async fn a_loan_beside_a_limit_elsewhere_that_denies_is_given_back() {
    let clock = ManualClock::new();
    let limit = |policy: &str| Arc::new(one(policy, &clock));
    for (second, third, admitted) in [("0", "9/h", 1), ("9/h", "2/h", 2), ("9/h", "9/h", 5)] {
        let accounts = [limit("4/h"), limit(if second == "0" { "1/h" } else { second })];
        if second == "0" {
            assert!(accounts[1].check_n(1).is_allowed());
        }
        let left = || [0, 1].map(|n: usize| accounts[n].entry().peek(1).remaining());
        let (before, wide) = (left(), together("9/h"));
        let lends = |n: usize| Account(Arc::clone(&accounts[n]));
        let gates = [
            gate("first", together("1/h")).or(lends(0)),
            gate("wide", wide.clone()),
            gate("second", together("1/h")).or(lends(1)),
            gate("third", together(third)),
        ];
        let service = RateLimitLayer::all(gates).unwrap().layer(inner());
        let statuses = statuses(&service, 7).await;
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), admitted);
        let lent = admitted as u64 - 1;
        assert_eq!(left(), before.map(|units| units - lent));
        assert_eq!(wide.0.entry().peek(1).remaining(), 9 - admitted as u64);
    }
}

#[test]
fn limits_that_cannot_be_charged_together_are_refused_by_name() {
    let (remote, _asked, _clock) = elsewhere("1/h");
    let gates = [gate("first", together("1/h")), gate("other", remote)];
    let error = RateLimitLayer::all(gates).unwrap_err();
    assert!(
        error.to_string().starts_with("the limit of gate PolicyName(\"other\") cannot"),
        "{error}"
    );
    let (remote, _asked, _clock) = elsewhere("1/h");
    let gates = [gate("first", together("1/h")), gate("tried", remote).shadow()];
    assert!(RateLimitLayer::all(gates).is_ok());
}

/// While a store is asked, a limit of this process could be charged for a request that is then denied.
#[test]
fn a_limit_of_this_process_and_one_elsewhere_are_refused_in_one_layer() {
    let here = || gate("here", one("1/h", &ManualClock::new()));
    let there = || gate("there", together("1/h"));
    for (gates, name) in [
        ([here(), there()], "there"),
        ([there(), here()], "here"),
        ([here(), there().shadow()], "there"),
        ([here().shadow(), there()], "there"),
    ] {
        let error = RateLimitLayer::all(gates).unwrap_err();
        assert_eq!(error, LayerError::Apart { name: named(name) });
    }
}

/// The limit of a gate may be of this process while its lender is elsewhere, or the reverse.
#[tokio::test]
async fn a_gate_borrows_across_processes_and_gives_back_what_another_gate_denies() {
    let clock = ManualClock::new();
    for is_lender_elsewhere in [false, true] {
        let account = Arc::new(one("4/h", &clock));
        let borrowing = match is_lender_elsewhere {
            true => gate("borrowing", one("1/h", &clock)).or(Account(Arc::clone(&account))),
            false => gate("borrowing", together("1/h")).or(Arc::clone(&account)),
        };
        let denying = match is_lender_elsewhere {
            true => gate("denying", one("3/h", &clock)),
            false => gate("denying", together("3/h")),
        };
        let service = RateLimitLayer::all([borrowing, denying]).unwrap().layer(inner());
        let statuses = statuses(&service, 5).await;
        assert_eq!(statuses, [200, 200, 200, 429, 429], "{is_lender_elsewhere}");
        assert_eq!(account.entry().peek(1).remaining(), 2, "{is_lender_elsewhere}");
    }
}

/// No server listens at that address. Each node decides by its share, and charges both limits or neither.
#[tokio::test]
async fn several_limits_of_a_store_are_asked_together() {
    let store = Store::open("redis://127.0.0.1:1/").unwrap();
    let limit = |policy: &str, name: &str| {
        let settings = Settings::new(policy.parse().unwrap()).name(name);
        RedisLimiter::new(&store, settings).unwrap()
    };
    let (wide, tight) = (limit("10/h", "wide"), limit("3/h", "tight"));
    // A limit may be in an `Arc`, of its own type or of `dyn GateLimit`; this one is in both.
    let tight: Arc<dyn GateLimit> = Arc::new(Arc::new(tight));
    let gates = [gate("wide", wide.clone()), gate("tight", tight)];
    let service = RateLimitLayer::all(gates).unwrap().layer(inner());
    let statuses = statuses(&service, 9).await;
    assert_eq!(statuses, [[200; 3], [429; 3], [429; 3]].concat());
    // The wide limit was not charged for requests that the tight one denied.
    let mut key = Key::new();
    key.push(&[203, 0, 113, 7]);
    assert_eq!(wide.entry(key.as_bytes()).peek(1).await.decision().remaining(), 7);
}

/// No server listens at that address: the failure policy decides.
#[tokio::test]
async fn without_a_store_a_share_of_the_limit_is_admitted_or_all_or_nothing() {
    let store = Store::open("redis://127.0.0.1:1/").unwrap();
    for (on_error, admitted) in [(OnError::Local, 3), (OnError::Allow, 20), (OnError::Deny, 0)] {
        let settings = Settings::new("10/h".parse().unwrap()).nodes(3).on_error(on_error);
        let limiter = RedisLimiter::new(&store, settings).unwrap();
        let service = RateLimitLayer::new(limiter, ClientAddress::peer()).layer(inner());
        let statuses = statuses(&service, 20).await;
        let passed = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(passed, admitted, "{on_error:?}");
        let other = ask(&service, from("203.0.113.8")).await;
        assert_eq!(other.status() == 200, on_error != OnError::Deny);
    }
}
