//! A sketch at times in any order: a key gets no more than a limit of its own would give it at the request's time. For
//! windows, this holds at the request's time or at the start of a window that has begun since. The target `sketch_ops`
//! covers single keys and times in order.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use common::{drawn, policy, seeds};
use proptest::prelude::*;
use tollgate::{Algorithm, Decision, ManualClock, Policy, SketchLimiter, SketchSize, Timestamp};
use tollgate_model::{Plant, PolicyCase, TimeFineness};
use tollgate_oracle::{Oracle, Verdict};

/// Keys of the random worlds.
const KEYS: u64 = 8;

fn sketch(policy: Policy, size: SketchSize) -> SketchLimiter<u64> {
    SketchLimiter::builder(policy).clock(ManualClock::new()).hasher(seeds()).build(size).unwrap()
}

fn small(rows: usize, cells_per_row: usize) -> SketchSize {
    SketchSize::new(rows, cells_per_row).unwrap()
}

fn period_ns(policy: Policy) -> u64 {
    u64::try_from(policy.quota().period().as_nanos()).unwrap()
}

/// Every policy that a sketch takes, with windows on the clock's grid.
fn policies() -> impl Strategy<Value = Policy> {
    drawn::<PolicyCase>().prop_filter_map("does not fit", |policy| {
        let policy = policy.policy()?;
        let is_short = period_ns(policy) < 1 << 46 && policy.quota().max_burst() <= 1_000;
        let is_on_grid =
            !matches!(policy.algorithm(), Algorithm::FixedWindowFromFirst | Algorithm::Calendar(_));
        (is_short && is_on_grid).then_some(policy)
    })
}

/// A request for some sixths of the limit. Time first goes on by thousandths of a period; for this request alone it may
/// also go back.
#[derive(Clone, Copy, Debug)]
struct Request {
    on: u64,
    back: u64,
    key: u64,
    sixths: u64,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let on = prop_oneof![3 => Just(0), 4 => 0_u64..300, 1 => 0_u64..3_000];
    let back = prop_oneof![5 => Just(0), 2 => 0_u64..1_500];
    let request = (on, back, 0..KEYS, 0_u64..8).prop_map(|(on, back, key, sixths)| Request {
        on,
        back,
        key,
        sixths,
    });
    prop::collection::vec(request, 1..120)
}

impl Request {
    fn cost(self, limit: u64) -> u64 {
        match self.sixths {
            0 => 0,
            7 => limit + 1,
            sixths => (limit * sixths / 6).max(1),
        }
    }
}

/// The times for which a request may be counted: its own time, or the start of a window that began since.
fn placements(policy: Policy, now_ns: u64, latest_ns: u64) -> Vec<u64> {
    let grid_ns = match policy.algorithm() {
        Algorithm::Gcra => return vec![now_ns],
        Algorithm::SegmentedWindow { segments } => period_ns(policy) / u64::from(segments),
        _ => period_ns(policy),
    };
    let starts = (now_ns / grid_ns + 1..=latest_ns / grid_ns).map(|window| window * grid_ns);
    std::iter::once(now_ns).chain(starts).collect()
}

/// Runs the requests. Each key has a model that is charged for the requests that the sketch admits. The model must
/// admit them, too. The sketch must contain each charge that the model remembers, and waits must be right.
fn follow(
    granted: Policy,
    sketch: &SketchLimiter<u64>,
    requests: &[Request],
) -> Result<usize, String> {
    let mut models: Vec<Oracle> =
        (0..KEYS).map(|_| TimeFineness::unkeyed(granted).model(granted, Plant::Nothing)).collect();
    let thousandth = |n: u64| n * period_ns(granted) / 1_000;
    let (mut at_ns, mut latest_ns, mut admitted) = (period_ns(granted) * 50, 0, 0);
    for request in requests {
        at_ns += thousandth(request.on);
        let now_ns = at_ns - thousandth(request.back);
        let now = Timestamp::from_nanos(now_ns);
        let (key, own) = (request.key, &mut models[usize::try_from(request.key).unwrap()]);
        let cost = request.cost(granted.quota().max_burst());
        let asked = sketch.entry(&key).at(now).peek(cost);
        let decision = sketch.entry(&key).at(now).check_n(cost);
        if asked.is_allowed() != decision.is_allowed() {
            return Err(format!("{request:?}: {asked:?} and then {decision:?}"));
        }
        match decision {
            // A cell that is full of other keys' units has no room for one unit, but admits a cost of 0. If this
            // request's time runs back, the model of the key alone may owe more than the limit at that time, and then
            // denies even a cost of 0.
            Decision::Allowed(_) if cost == 0 => {}
            Decision::Allowed(_) => {
                let places = placements(granted, now_ns, latest_ns);
                if !places.iter().any(|&place_ns| own.check(place_ns, cost) == Verdict::Allowed) {
                    return Err(format!("{request:?} at {now_ns}: more than the key's quota"));
                }
                admitted += 1;
            }
            Decision::Denied(denial) => {
                if let Some(wait) = denial.retry_after() {
                    if !sketch.entry(&key).at(now + wait).peek(cost).is_allowed() {
                        return Err(format!("{request:?} at {now_ns}: {wait:?} is not enough"));
                    }
                } else if cost <= own.limit() {
                    return Err(format!("{request:?}: never?"));
                }
            }
        }
        if cost > 0 && decision.is_allowed() {
            latest_ns = latest_ns.max(now_ns);
        }
        for (key, own) in (0..).zip(&models) {
            if !own.is_idle(now_ns) && !sketch.entry(&key).at(now).is_live() {
                return Err(format!("{request:?} at {now_ns}: {key} is forgotten"));
            }
        }
    }
    Ok(admitted)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Eight keys in a few cells, at times in any order.
    #[test]
    fn no_key_gets_more_than_its_quota_whatever_others_do_and_none_is_forgotten(
        policy in policies(),
        rows in 1_usize..5,
        cells_per_row in 1_usize..6,
        requests in requests(),
    ) {
        let sketch = sketch(policy, small(rows, cells_per_row));
        let followed = follow(policy, &sketch, &requests);
        prop_assert!(followed.is_ok(), "{policy}: {followed:?}");
    }
}

#[test]
fn one_unit_too_many_is_caught() {
    let requests: Vec<_> =
        (0..400).map(|n| Request { on: 7, back: 0, key: n % 4, sixths: 1 }).collect();
    for (quota, options) in [
        ("gcra ", ""),
        ("fixed-window ", ""),
        ("sliding-window ", " round-down"),
        ("segmented-window ", " x2"),
    ] {
        let [granted, more] = [5, 6].map(|limit| policy(&format!("{quota}{limit}/m{options}")));
        let size = small(3, 20);
        assert!(follow(granted, &sketch(granted, size), &requests).unwrap() > 20);
        let found = follow(granted, &sketch(more, size), &requests).unwrap_err();
        assert!(found.contains("more than the key's quota"), "{found}");
    }
}
