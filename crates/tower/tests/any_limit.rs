//! Every kind of limit in a gate. Some layers combine limits that take no charge back (sketches, stripes) with limits
//! that do.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::common::{
    Answer, ask, from, gate, inner, keyed, named, one, policy, served, status, statuses, telling,
    text,
};
use tollgate::{
    Changing, KeyedLimiter, Limiter, ManualClock, SketchLimiter, SketchSize, StripedLimiter,
};
use tollgate_elastic::SparePool;
use tollgate_tower::gates::Settle;
use tollgate_tower::headers::HeaderStyle;
use tollgate_tower::keys::{Everyone, Key};
use tollgate_tower::limits::{GateLimit, LimitAnswer};
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tower::{Layer, ServiceExt};

const PEER: &str = "203.0.113.7";

fn sketch(text: &str, clock: &ManualClock) -> SketchLimiter<Key> {
    let size = SketchSize::new(4, 1_000).unwrap();
    SketchLimiter::builder(policy(text)).clock(clock.clone()).build(size).unwrap()
}

fn striped(text: &str, clock: &ManualClock) -> StripedLimiter {
    StripedLimiter::builder(policy(text)).stripes(1).clock(clock.clone()).build().unwrap()
}

/// A pool of units that the server can spare.
fn spare(text: &str, headroom: f64, clock: &ManualClock) -> Arc<SparePool> {
    let pool = SparePool::with_clock(policy(text).quota(), clock.clone());
    pool.report_headroom(headroom).unwrap();
    Arc::new(pool)
}

/// One policy in every kind of limit that can have it.
fn kinds(text: &str, clock: &ManualClock) -> Vec<(&'static str, Arc<dyn GateLimit>)> {
    let tiers = KeyedLimiter::builder(policy(text)).tier(policy("1/d"));
    let tiers: Changing<KeyedLimiter<Key>> = tiers.clock(clock.clone()).build(1_000).unwrap();
    vec![
        ("one", Arc::new(one(text, clock))),
        ("keyed", Arc::new(keyed(text, clock))),
        ("tiers", Arc::new(tiers)),
        (
            "changing",
            Arc::new(
                Limiter::builder(policy(text)).clock(clock.clone()).changing().build().unwrap(),
            ),
        ),
        ("striped", Arc::new(striped(text, clock))),
        ("sketch", Arc::new(sketch(text, clock))),
    ]
}

/// The answers to three requests of a client under a limit of two, and the time after which it may return.
fn told(limit: Arc<dyn GateLimit>, clock: &ManualClock) -> Vec<(u16, String)> {
    let mut service = served(&RateLimitLayer::new(limit, ClientAddress::peer()));
    let mut told = Vec::new();
    for wait in [0, 0, 0, 1_800] {
        clock.advance(Duration::from_secs(wait));
        let answer = ask(&mut service, from(PEER));
        let fields =
            ["ratelimit-policy", "ratelimit"].map(|it| text(answer.headers(), it).unwrap());
        told.push((answer.status().as_u16(), fields.join(" ")));
    }
    told
}

#[test]
fn every_kind_of_limit_decides_and_is_told_alike() {
    let expected = [(200, 1, 1_800), (200, 0, 3_600), (429, 0, 1_800), (200, 0, 3_600)];
    let expected = expected.map(|(status, left, reset)| {
        (status, format!("\"default\";q=2;w=3600 \"default\";r={left};t={reset}"))
    });
    for index in 0..6 {
        let clock = ManualClock::new();
        let (kind, limit) = kinds("gcra 2/h", &clock).swap_remove(index);
        assert_eq!(told(limit, &clock), expected, "{kind}");
    }
}

/// If either gate denies, nothing is charged at the other.
#[test]
fn what_cannot_be_given_back_is_charged_with_the_others_or_not_at_all() {
    let apart = |clock: &ManualClock| -> [Arc<dyn GateLimit>; 2] {
        [Arc::new(sketch("3/h", clock)), Arc::new(striped("3/h", clock))]
    };
    for which in 0..2 {
        // The limit is first that of the layer's first gate, and then that of its last gate.
        for turned in [false, true] {
            let clock = ManualClock::new();
            let [tight, wide] = ["2/h", "9/h"].map(|text| Arc::new(keyed(text, &clock)));
            let limit = Arc::clone(&apart(&clock)[which]);
            let service = |word: Arc<dyn GateLimit>| {
                let mut gates = vec![gate("word", word), gate("apart", Arc::clone(&limit))];
                if turned {
                    gates.reverse();
                }
                served(&RateLimitLayer::all(gates).unwrap())
            };
            assert_eq!(statuses(&mut service(tight), PEER, 4), [200, 200, 429, 429]);
            // Two of three units are spent: requests that the other gate denied were charged nothing.
            let mut second = service(Arc::clone(&wide) as Arc<dyn GateLimit>);
            let answer = ask(&mut second, from(PEER));
            assert_eq!(text(answer.headers(), "ratelimit"), Some("\"apart\";r=0;t=3600"));
            for _ in 0..5 {
                let denied = ask(&mut second, from(PEER));
                assert_eq!(denied.status(), 429);
                assert_eq!(text(denied.headers(), "ratelimit"), Some("\"apart\";r=0;t=1200"));
            }
            assert_eq!(wide.entry(&from_peer()).peek(1).remaining(), 8);
        }
    }
}

#[test]
fn of_several_that_deny_the_longest_wait_is_told_also_beside_a_sketch() {
    let clock = ManualClock::new();
    let gates = [
        gate("sketch", sketch("1/m", &clock)),
        gate("word", keyed("1/h", &clock)),
        Gate::new(striped("1/s", &clock), Everyone).named(named("stripes")),
    ];
    let mut service = served(&RateLimitLayer::all(gates).unwrap());
    assert_eq!(status(&mut service, from(PEER)), 200);
    let denied = ask(&mut service, from(PEER));
    assert_eq!(text(denied.headers(), "ratelimit"), Some("\"word\";r=0;t=3600"));
    assert_eq!(text(denied.headers(), "retry-after"), Some("3600"));
}

/// A limit that admits when it is peeked at, and denies afterwards. It stands for another thread that takes units in
/// between.
#[test]
fn what_was_charged_is_refunded_if_a_limit_apart_denies_after_all() {
    struct Fickle(SketchLimiter<Key>);
    impl GateLimit for Fickle {
        fn policy_of(&self, tier: usize) -> Option<tollgate::Policy> {
            GateLimit::policy_of(&self.0, tier)
        }
        fn check(&self, key: &Key, cost: u64) -> LimitAnswer {
            let _ = self.0.check_n(key, 1);
            LimitAnswer::Now(self.0.check_n(key, cost))
        }
        fn peek(&self, key: &Key, cost: u64) -> Option<tollgate::Decision> {
            GateLimit::peek(&self.0, key, cost)
        }
        fn check_or(
            &self,
            key: &Key,
            cost: u64,
            or: &mut dyn FnMut(&tollgate::Denial) -> bool,
        ) -> Option<tollgate::Decision> {
            self.0.check_or(key, cost, or)
        }
        fn claim<'l>(&'l self, key: &Key, cost: u64) -> Option<tollgate::Claim<'l>> {
            Some(self.0.entry(key).cost(cost))
        }
    }
    let clock = ManualClock::new();
    let word = Arc::new(one("9/h", &clock));
    let gates = [
        Gate::new(Arc::clone(&word), Everyone).named(named("word")).cost(4),
        Gate::new(Fickle(sketch("1/h", &clock)), Everyone).named(named("fickle")),
        Gate::new(one("9/h", &clock), Everyone).named(named("lent")).or(spare("9/h", 0.0, &clock)),
    ];
    let denied = ask(&mut served(&RateLimitLayer::all(gates).unwrap()), from(PEER));
    assert_eq!(text(denied.headers(), "ratelimit"), Some("\"fickle\";r=0;t=3600"));
    assert_eq!(word.entry().peek(1).remaining(), 9);
}

#[test]
fn a_quota_that_changes_is_told_as_it_is_now() {
    let clock = ManualClock::new();
    let one = Arc::new(
        Limiter::builder(policy("fixed-window 9/m"))
            .clock(clock.clone())
            .changing()
            .build()
            .unwrap(),
    );
    let tiers =
        KeyedLimiter::builder(policy("fixed-window 9/m")).headroom(policy("fixed-window 9/h"));
    let keyed: Arc<Changing<KeyedLimiter<Key>>> =
        Arc::new(tiers.clock(clock.clone()).build(100).unwrap());
    let limits: [Arc<dyn GateLimit>; 2] = [Arc::clone(&one) as _, Arc::clone(&keyed) as _];
    let styles = [HeaderStyle::Draft10, HeaderStyle::Draft3];
    let service = |limit| RateLimitLayer::new(limit, ClientAddress::peer()).headers(styles.clone());
    let mut services = limits.map(|limit| served(&service(limit)));
    let stated = |service: &mut _| {
        let answer: Answer = ask(service, from(PEER));
        ["ratelimit-policy", "ratelimit-limit"]
            .map(|it| text(answer.headers(), it).unwrap().to_owned())
    };
    for service in &mut services {
        assert_eq!(stated(service), ["\"default\";q=9;w=60", "9, 9;w=60"]);
    }
    one.set_quota(policy("fixed-window 9/h")).unwrap();
    keyed.set_quota(policy("fixed-window 9/h")).unwrap();
    for service in &mut services {
        assert_eq!(stated(service), ["\"default\";q=9;w=3600", "9, 9;w=3600"]);
    }
}

/// Stripes and sketches give nothing back, and report that.
#[test]
fn what_is_shared_goes_into_debt_and_gives_nothing_back() {
    let clock = ManualClock::new();
    let limits: [Arc<dyn GateLimit>; 2] =
        [Arc::new(sketch("9/h", &clock)), Arc::new(striped("9/h", &clock))];
    for limit in limits {
        let handler = telling(|request| {
            let settle: &Settle = request.extensions().get().unwrap();
            format!("{} {}", settle.refund(1), settle.charge(7).now().unwrap())
        });
        let layer = RateLimitLayer::new(limit, Everyone).settle_later();
        assert_eq!(ask(&mut layer.layer(handler), from(PEER)).body(), "0 0");
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_no_queue_denies_at_once() {
    let clock = ManualClock::new();
    let gate = Gate::new(sketch("1/s", &clock), ClientAddress::peer());
    let layer = RateLimitLayer::of(gate.delay(Duration::from_secs(9), tokio::time::sleep));
    let service = layer.layer(inner());
    let mut statuses = Vec::new();
    for _ in 0..2 {
        statuses.push(service.clone().oneshot(from(PEER)).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429]);
}

/// A limit of a user's own making loses its entry in the middle of a decision, at each point in turn. A limit without an
/// entry from the start has no queue and is asked at once.
#[tokio::test(start_paused = true)]
async fn a_request_whose_limit_loses_its_entry_is_denied_and_not_let_through() {
    struct Forgetful(Limiter, AtomicUsize);
    impl GateLimit for Forgetful {
        fn policy_of(&self, tier: usize) -> Option<tollgate::Policy> {
            GateLimit::policy_of(&self.0, tier)
        }
        fn check(&self, _: &Key, cost: u64) -> LimitAnswer {
            LimitAnswer::Now(self.0.check_n(cost))
        }
        fn claim<'l>(&'l self, _: &Key, cost: u64) -> Option<tollgate::Claim<'l>> {
            Some(self.0.entry().cost(cost))
        }
        fn full_entry(&self, _: &Key) -> Option<tollgate::Entry<'_>> {
            let left = self.1.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            left.is_ok().then(|| self.0.entry())
        }
    }
    let clock = ManualClock::new();
    for (entries, expected) in [(0, 429), (1, 503), (2, 429)] {
        // The limit has no room, so only a request that no limit has decided could pass.
        let limit = one("1/h", &clock);
        assert!(limit.check().is_allowed());
        let limit = Forgetful(limit, AtomicUsize::new(entries));
        let gate = Gate::new(limit, Everyone).delay(Duration::from_secs(9), tokio::time::sleep);
        let service = RateLimitLayer::of(gate).layer(inner());
        let status = service.oneshot(from(PEER)).await.unwrap().status();
        assert_eq!(status, expected, "{entries}");
    }
}

#[test]
fn clients_over_their_quota_borrow_what_the_server_can_spare() {
    let clock = ManualClock::new();
    let own: [Arc<dyn GateLimit>; 3] = [
        Arc::new(keyed("2/h", &clock)),
        Arc::new(sketch("2/h", &clock)),
        Arc::new(keyed("sliding-log 2/h", &clock)),
    ];
    for own in own {
        let pool = spare("4/h", 0.0, &clock);
        let gate = Gate::new(own, ClientAddress::peer()).or(Arc::clone(&pool));
        let mut service = served(&RateLimitLayer::of(gate));
        assert_eq!(statuses(&mut service, PEER, 3), [200, 200, 429]);
        pool.report_headroom(0.5).unwrap();
        let borrowed = ask(&mut service, from(PEER));
        assert_eq!(borrowed.status(), 200);
        assert_eq!(text(borrowed.headers(), "ratelimit"), Some("\"default\";r=0;t=3600"));
        assert_eq!(statuses(&mut service, PEER, 2), [200, 429]);
        // Another client has a limit of its own.
        assert_eq!(statuses(&mut service, "203.0.113.8", 3), [200, 200, 429]);
    }
}

/// The pool is asked only if all other gates would admit.
#[test]
fn what_another_gate_denies_borrows_nothing() {
    let clock = ManualClock::new();
    let pool = spare("9/h", 1.0, &clock);
    let gates = [
        gate("client", keyed("1/h", &clock)).or(Arc::clone(&pool)),
        Gate::new(one("3/h", &clock), Everyone).named(named("service")),
        Gate::new(sketch("4/h", &clock), Everyone).named(named("sketch")),
    ];
    let mut service = served(&RateLimitLayer::all(gates).unwrap());
    assert_eq!(statuses(&mut service, PEER, 5), [200, 200, 200, 429, 429]);
    assert_eq!(pool.remaining(), 7);
}

/// If the pool denies too, the charges of the other gates are refunded.
#[test]
fn what_no_pool_lends_is_charged_nowhere() {
    let clock = ManualClock::new();
    let everyone = Arc::new(one("9/h", &clock));
    let [sketched, in_stripes]: [Arc<dyn GateLimit>; 2] =
        [Arc::new(sketch("9/h", &clock)), Arc::new(striped("9/h", &clock))];
    let gates = [
        Gate::new(Arc::clone(&sketched), Everyone).named(named("sketch")),
        gate("client", keyed("1/h", &clock)).or(spare("9/h", 0.0, &clock)),
        Gate::new(Arc::clone(&everyone), Everyone).named(named("service")),
        Gate::new(Arc::clone(&in_stripes), Everyone).named(named("stripes")),
    ];
    let mut service = served(&RateLimitLayer::all(gates).unwrap());
    assert_eq!(statuses(&mut service, PEER, 4), [200, 429, 429, 429]);
    let everyone: Arc<dyn GateLimit> = everyone;
    let left =
        [sketched, everyone, in_stripes].map(|it| it.peek(&Key::new(), 1).unwrap().remaining());
    assert_eq!(left, [8, 8, 8]);
}

/// One gate borrows a unit, and a later gate finds its pool empty. Neither the first pool nor any limit remains
/// charged.
#[test]
fn a_loan_is_given_back_if_a_second_pool_has_nothing() {
    let clock = ManualClock::new();
    let key = from_peer();
    for is_first_in_a_table in [true, false] {
        let first: Arc<dyn GateLimit> = match is_first_in_a_table {
            true => Arc::new(keyed("1/h", &clock)),
            false => Arc::new(sketch("1/h", &clock)),
        };
        let (second, third) = (keyed("1/h", &clock), Arc::new(keyed("9/h", &clock)));
        let (pool, empty) = (spare("9/h", 1.0, &clock), spare("9/h", 0.0, &clock));
        // The gate `third` is charged before the gate `second` finds its pool empty.
        let gates = [
            gate("first", first).or(Arc::clone(&pool)),
            gate("third", Arc::clone(&third)).or(spare("9/h", 1.0, &clock)),
            gate("second", second).or(Arc::clone(&empty)),
        ];
        let mut service = served(&RateLimitLayer::all(gates).unwrap());
        assert_eq!(statuses(&mut service, PEER, 4), [200, 429, 429, 429]);
        assert_eq!((pool.remaining(), third.entry(&key).peek(1).remaining()), (9, 8));
        empty.report_headroom(1.0).unwrap();
        assert_eq!(statuses(&mut service, PEER, 1), [200]);
        assert_eq!((pool.remaining(), empty.remaining()), (8, 8));
        assert_eq!(third.entry(&key).peek(1).remaining(), 7);
    }
}

/// A larger account: a limiter lends if it admits the cost itself.
#[test]
fn a_limiter_lends_what_it_admits() {
    let clock = ManualClock::new();
    let account = Arc::new(one("2/h", &clock));
    let gates =
        ["one", "two"].map(|name| gate(name, keyed("1/h", &clock)).or(Arc::clone(&account)));
    // A request beyond the client's own units borrows one unit for each gate.
    let mut service = served(&RateLimitLayer::all(gates).unwrap());
    assert_eq!(statuses(&mut service, PEER, 3), [200, 200, 429]);
    clock.advance(Duration::from_secs(1_800));
    // One unit has come back. It is lent, and given back, since the other gate finds no unit to borrow.
    assert_eq!(statuses(&mut service, "203.0.113.8", 2), [200, 429]);
    assert_eq!(account.entry().peek(1).remaining(), 1);
}

fn from_peer() -> Key {
    let mut key = Key::new();
    key.push(&[203, 0, 113, 7]);
    key
}
