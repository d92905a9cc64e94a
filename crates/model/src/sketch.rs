//! Compares a sketch that is too small for its keys with one model for each key.
//!
//! A key that is alone must be decided exactly as its model decides. A key that shares cells with others may get less,
//! but never more: every request that the sketch grants, the key's own model must grant, too. A window policy counts a
//! late request in the current window, which other keys may have started; that cannot be seen from outside. After such
//! a request, and until its key is idle again, the only check is that the key keeps its bound over all windows.

use std::collections::BTreeMap;

use ahash::RandomState;
use arbitrary::Arbitrary;
use tollgate::{
    Algorithm, Decision, DenialReason, ManualClock, Policy, Rounding, SketchLimiter, SketchSize,
    Timestamp,
};

use crate::bound::{self, Admitted};
use crate::expect::{Expectation, TimedRequest};
use crate::fineness::TimeFineness;
use crate::fineness::{LATEST_NS, latest_ns};
use crate::keyed::hasher;
use crate::ops::{Observed, Op};
use crate::plant::Plant;
use crate::policy::PolicyCase;
use crate::step::{STEPS_MAX, Span, StepCost, StepPace, Steps};

/// Target `sketch_ops`: many keys in a sketch that is too small for them.
///
/// A key alone is decided as the model decides, and a key among others is never admitted more. Each wait in a denial is
/// long enough. The sketch contains every key that was charged and is not idle.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct SketchCase {
    /// The policy.
    pub policy: PolicyCase,
    /// This number modulo 8, plus 1, is the number of rows of the sketch.
    pub rows: u8,
    /// This number modulo 64, plus 1, is the number of cells of each row.
    pub cells: u8,
    /// The operations.
    pub ops: Steps<Op>,
}

impl SketchCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        let Some(policy) = self.policy.policy() else { return };
        let size =
            SketchSize::new(usize::from(self.rows % 8) + 1, usize::from(self.cells % 64) + 1)
                .expect("a size");
        let sketch =
            SketchLimiter::builder(policy).clock(ManualClock::new()).hasher(hasher()).build(size);
        let is_refused = policy.algorithm() == Algorithm::FixedWindowFromFirst;
        assert_eq!(sketch.is_err(), is_refused, "{policy}: {sketch:?}");
        let Ok(sketch) = sketch else { return };
        let mut observed = ObservedSketch::new(policy, sketch, plant);
        observed.play(&self.ops.0);
        observed.finish();
    }
}

/// The requests that a key was granted.
#[derive(Debug)]
struct Granted {
    own: Expectation,
    /// Whether the model knows in which windows the key was charged.
    in_step: bool,
    admitted: Vec<Admitted>,
}

/// A sketch, and the answers that are expected of it.
#[derive(Debug)]
struct ObservedSketch {
    policy: Policy,
    plant: Plant,
    sketch: SketchLimiter<u8, RandomState>,
    pace: StepPace,
    keys: BTreeMap<u8, Granted>,
    /// The latest time at which something was charged. No later window has begun.
    high_ns: u64,
    requests: usize,
}

impl ObservedSketch {
    fn new(policy: Policy, sketch: SketchLimiter<u8, RandomState>, plant: Plant) -> Self {
        // A sketch has no floor, and its times do not wrap. Spans that are named after these are just long times.
        let pace = StepPace::new(policy, LATEST_NS / 64, LATEST_NS / 4);
        Self { policy, plant, sketch, pace, keys: BTreeMap::new(), high_ns: 0, requests: 0 }
    }

    /// `is_whole` says whether the whole limit remained before the request.
    fn follow(
        &mut self,
        key: u8,
        ask: TimedRequest,
        is_whole: bool,
        decision: &Decision,
    ) -> Result<(), String> {
        let (policy, plant, high_ns) = (self.policy, self.plant, self.high_ns);
        let of_key = self.keys.entry(key).or_insert_with(|| Granted {
            own: Expectation::unkeyed(policy, plant),
            in_step: true,
            admitted: Vec::new(),
        });
        let charged = ask.charge && ask.cost > 0 && decision.is_allowed();
        if charged {
            let TimedRequest { now_ns, cost, .. } = ask;
            of_key.admitted.push(Admitted { now_ns, high_ns: high_ns.max(now_ns), cost });
        }
        let alone = self.keys.len() == 1;
        let of_key = self.keys.get_mut(&key).expect("entered above");
        if alone {
            return of_key.own.agrees(ask, decision);
        }
        let is_late = policy.algorithm() != Algorithm::Gcra && ask.now_ns < high_ns;
        if !of_key.in_step && !is_late && is_whole {
            of_key.own.renew();
            // If the share of the last window is rounded down, it may be 0 now and more than 0 at an earlier time.
            of_key.in_step =
                policy.algorithm() != Algorithm::SlidingWindow { rounding: Rounding::Down };
        }
        if is_late {
            of_key.in_step &= !charged;
        } else if of_key.in_step && decision.is_allowed() && ask.cost > 0 {
            // A cost of 0 may fit although the model, at an earlier time, is over its limit. A full cell has no room
            // for a unit, but it does not store by how much the key is above the limit.
            return of_key.own.admits(ask);
        }
        Ok(())
    }

    /// Checks that a request is admitted after the wait in its denial, if nothing else happens.
    fn a_wait_is_enough(&self, key: u8, ask: TimedRequest, decision: &Decision) {
        let Decision::Denied(denial) = decision else { return };
        assert_eq!(
            denial.reason() == DenialReason::NeverFits,
            ask.cost > self.policy.quota().max_burst()
        );
        let Some(wait) = denial.retry_after() else { return };
        let then = Timestamp::from_nanos(ask.now_ns) + wait;
        if then.as_nanos() < LATEST_NS {
            let is_enough = self.sketch.entry(&key).at(then).peek(ask.cost).is_allowed();
            assert!(is_enough, "{}, key {key}, {ask:?}: told retry {wait:?}", self.policy);
        }
    }

    /// Checks that the sketch contains every key whose model is not idle.
    fn nothing_is_forgotten(&self, key: u8, now_ns: u64) {
        let of_key = &self.keys[&key];
        if of_key.in_step && of_key.own.may_be_live(now_ns) {
            let is_there = self.sketch.entry(&key).at(Timestamp::from_nanos(now_ns)).is_live();
            assert!(is_there, "{}, key {key} is forgotten at {now_ns}", self.policy);
        }
    }

    /// Checks everything that was admitted, over every interval, and that every key is admitted again.
    fn finish(self) {
        let most = self.policy.quota().max_burst() - u64::from(self.plant == Plant::Bound);
        let tick = TimeFineness::unkeyed(self.policy).tick;
        for (key, of_key) in &self.keys {
            if let Err(reason) = bound::is_kept(self.policy, most, tick, &of_key.admitted) {
                panic!("{}, key {key}: {reason}", self.policy);
            }
            let now = Timestamp::from_nanos(self.high_ns);
            let reset = self.sketch.entry(key).at(now).peek(0).reset_after();
            let then = now + reset;
            if then.as_nanos() < LATEST_NS {
                let limit = self.policy.quota().max_burst();
                let is_whole = self.sketch.entry(key).at(then).peek(limit).is_allowed();
                assert!(is_whole, "{}, key {key}: told reset {reset:?}", self.policy);
            }
        }
    }
}

impl Observed for ObservedSketch {
    fn move_by(&mut self, span: Span, fine: i8, backward: bool) {
        self.pace.move_by(span, fine, backward);
    }

    fn request(&mut self, key: u8, cost: StepCost, charge: bool) {
        if self.requests == STEPS_MAX {
            return;
        }
        self.requests += 1;
        let now = Timestamp::from_nanos(self.pace.now_ns);
        let limit = self.policy.quota().max_burst();
        let cost = cost.units(limit, self.sketch.entry(&key).at(now).peek(0).remaining());
        let asked = self.sketch.entry(&key).at(now).peek(cost);
        let is_whole = self.sketch.entry(&key).at(now).peek(limit).is_allowed();
        let entry = self.sketch.entry(&key).at(now);
        let decision = if charge { entry.check_n(cost) } else { entry.peek(cost) };
        assert_eq!(asked.is_allowed(), decision.is_allowed(), "asked first, {asked:?}");
        self.pace.heard(&decision);
        // For a word, time stops at the latest instant.
        let now_ns = self.pace.now_ns.min(latest_ns(self.policy));
        let ask = TimedRequest { now_ns, cost, charge, exact: true };
        if let Err(reason) = self.follow(key, ask, is_whole, &decision) {
            panic!("{}, request {}, key {key}, {ask:?}: {reason}", self.policy, self.requests);
        }
        self.a_wait_is_enough(key, ask, &decision);
        if charge && cost > 0 && decision.is_allowed() {
            self.high_ns = self.high_ns.max(now_ns);
        }
        self.nothing_is_forgotten(key, now_ns);
    }
}
