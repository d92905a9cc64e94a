//! Compares a small table with one model for each key.

use std::collections::BTreeMap;

use ahash::RandomState;
use arbitrary::Arbitrary;
use tollgate::{
    Algorithm, Decision, DenialReason, KeyedLimiter, ManualClock, Policy, Timestamp, WhenFull,
};

use crate::expect::TimedRequest;
use crate::follow::Follower;
use crate::ops::{Observed, Op};
use crate::plant::Plant;
use crate::policy::{PolicyCase, period_ns};
use crate::rules::{RulesCase, ceiling, least_penalty_ns, penalty_ns};
use crate::step::{STEPS_MAX, Span, StepCost, StepPace, Steps, nanos_of};

/// Target `keyed_ops`: many keys in a table that is too small for them.
///
/// The table must answer as one model per key does, and only an idle key may find no cell. Every key keeps its bound in
/// every interval and is never shut out for good, even if times run backward.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct KeyedCase {
    /// The policy.
    pub policy: PolicyCase,
    /// This number modulo 40, plus 1, is the number of keys for which the table is built. If this number is 200 or
    /// more, the table has a spill.
    pub capacity: u8,
    /// Whether the limiter reads its own clock. Otherwise each call is given the time.
    pub own_clock: bool,
    /// The operations.
    pub ops: Steps<Op>,
    /// The behaviour at the limit.
    pub rules: RulesCase,
}

impl KeyedCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        if let Some(observed) = self.play(plant) {
            observed.finish();
        }
    }

    /// Applies all operations, and returns the table. Panics if an answer is not the one expected.
    pub(crate) fn play(&self, plant: Plant) -> Option<ObservedTable> {
        let policy = self.rules.apply(self.policy.policy()?);
        let capacity = usize::from(self.capacity % 40) + 1;
        let full = if self.capacity < 200 { WhenFull::Deny } else { WhenFull::Spill };
        let mut observed = ObservedTable::new(policy, (capacity, full), 0, plant)?;
        observed.own_clock = self.own_clock;
        observed.play(&self.ops.0);
        Some(observed)
    }
}

/// Applies operations to a table under one policy, and expects the answers of another policy.
///
/// Panics if an answer differs.
pub fn run_beside([policy, expected]: [Policy; 2], ops: &[Op]) {
    let table = ObservedTable::new(policy, (4, WhenFull::Deny), 0, Plant::Nothing);
    let mut observed = table.expect("a policy that fits a word");
    observed.expected = expected;
    observed.play(ops);
}

/// A table, and the answers that are expected of it.
#[derive(Debug)]
pub(crate) struct ObservedTable {
    policy: Policy,
    /// The policy whose answers are expected. It differs from `policy` only in negative controls.
    expected: Policy,
    plant: Plant,
    table: KeyedLimiter<u8>,
    clock: ManualClock,
    own_clock: bool,
    /// Whether keys without a cell are decided in a spill. The units that the spill admits, and the debt that a key
    /// takes from there to its cell, depend on other keys. So the test only checks that a key gets no more than its
    /// model.
    spilling: bool,
    pace: StepPace,
    followers: BTreeMap<u8, Follower>,
    /// The latest time at which something may have been charged. No floor is above it.
    high_ns: u64,
    /// Whether time never ran backward.
    forward: bool,
    requests: usize,
}

impl ObservedTable {
    /// `None` if a word cannot hold the policy and a tag.
    pub(crate) fn new(
        policy: Policy,
        (capacity, full): (usize, WhenFull),
        start_ns: u64,
        plant: Plant,
    ) -> Option<Self> {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(start_ns));
        let table = KeyedLimiter::builder(policy)
            .clock(clock.clone())
            .hasher(hasher())
            .build(capacity)
            .ok()?;
        let table = match full {
            WhenFull::Spill if ticks_are_known(policy) => table, // if the policy can be spilled
            _ => table.when_full(WhenFull::Deny).ok()?,
        };
        let stats = table.stats();
        let epoch_ns = nanos_of(stats.epoch);
        let mut pace = StepPace::new(policy, epoch_ns, turn_ns(policy, stats.state_bits));
        pace.now_ns = start_ns;
        Some(Self {
            policy,
            expected: policy,
            plant,
            table,
            clock,
            own_clock: false,
            spilling: stats.spill_bytes > 0,
            pace,
            followers: BTreeMap::new(),
            high_ns: start_ns,
            forward: true,
            requests: 0,
        })
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn table(&self) -> &KeyedLimiter<u8> {
        &self.table
    }

    fn decide(&mut self, key: u8, cost: u64, charge: bool) -> Decision {
        let now_ns = self.pace.now_ns;
        let now = Timestamp::from_nanos(now_ns);
        let limit = ceiling(self.policy);
        let (policy, plant, spilling) = (self.expected, self.plant, self.spilling);
        let follower =
            self.followers.entry(key).or_insert_with(|| Follower::new(policy, plant, !spilling));
        if !follower.in_step()
            && !spilling
            && now_ns >= self.high_ns
            && self.table.entry(&key).at(now).peek(limit).is_allowed()
        {
            follower.found_idle(now_ns);
        }
        self.clock.set(now);
        let looked = self.table.entry(&key).at(now).peek(cost).is_allowed();
        let decision = match (self.own_clock, charge) {
            (false, true) => self.table.entry(&key).at(now).check_n(cost),
            (false, false) => self.table.entry(&key).at(now).peek(cost),
            (true, true) => self.table.check_n(&key, cost),
            (true, false) => self.table.entry(&key).peek(cost),
        };
        // Nothing has happened between the peek and the request, so they must agree.
        let told = decision.is_allowed();
        assert_eq!(looked, told, "{policy}, key {key} at {now_ns} ns, cost {cost}: a look");
        let exact = is_told_exactly(policy, self.high_ns.saturating_sub(now_ns));
        let ask = TimedRequest { now_ns, cost, charge, exact };
        if let Err(reason) = follower.follow(ask, self.high_ns, &decision) {
            panic!("{policy}, request {}, key {key}, {ask:?}: {reason}", self.requests);
        }
        if charge && cost > 0 && cost <= limit {
            self.high_ns = self.high_ns.max(now_ns);
        }
        decision
    }

    /// Checks that a key without a cell finds one after the wait in its denial, if nothing else happens.
    fn a_cell_is_free_in_time(&self, key: u8, decision: &Decision) {
        let Decision::Denied(denial) = decision else { return };
        if denial.reason() != DenialReason::TableFull || self.spilling {
            return;
        }
        let wait = denial.retry_after().expect("the cost was not too high");
        let then = Timestamp::from_nanos(self.pace.now_ns) + wait;
        if then.as_nanos() < u64::MAX {
            let just_before = Timestamp::from_nanos(then.as_nanos().saturating_sub(1));
            let ready =
                [then, just_before].map(|at| self.table.entry(&key).at(at).peek(1).is_allowed());
            let (policy, number) = (self.policy, self.requests);
            assert_eq!(ready, [true, false], "{policy}, request {number}, key {key}, {wait:?}");
        }
    }

    /// Checks the keys that are left and everything that was admitted, and that every key is admitted again.
    pub(crate) fn finish(mut self) {
        self.count_what_lives();
        self.no_key_is_shut_out();
        for (key, follower) in &self.followers {
            if let Err(reason) = follower.keeps_its_bound() {
                panic!("{}, key {key}: {reason}", self.policy);
            }
        }
    }

    fn count_what_lives(&self) {
        let now_ns = self.pace.now_ns.max(self.high_ns);
        if now_ns == u64::MAX {
            return; // what would be idle later is taken to be idle now
        }
        self.clock.set(Timestamp::from_nanos(now_ns));
        let stats = self.table.stats();
        let in_step = || self.followers.values().filter(|follower| follower.in_step());
        let surely = in_step().filter(|follower| !follower.is_idle(now_ns)).count();
        assert!(stats.live >= surely, "{} live, expected {surely}", stats.live);
        if self.forward && !self.spilling {
            let at_most = in_step().filter(|follower| follower.may_be_live(now_ns)).count();
            assert!(stats.live <= at_most, "{} live, expected {at_most}", stats.live);
            assert_eq!(stats.contended, 0, "there is one thread");
        }
    }

    /// Checks that each key is admitted again when everything has drained.
    fn no_key_is_shut_out(&mut self) {
        let Some(drain_ns) = drain_ns(self.policy) else { return };
        // A debt in a cell of the spill takes twice as long to drain, and the mark for it lasts a quarter longer.
        let times = if self.spilling { 3 } else { 1 };
        let drain_ns = drain_ns.saturating_mul(times);
        self.pace.now_ns = self.pace.now_ns.max(self.high_ns);
        let keys: Vec<u8> = self.followers.keys().copied().collect();
        for key in keys {
            match self.pace.now_ns.checked_add(drain_ns) {
                Some(later_ns) => self.pace.now_ns = later_ns,
                None => return, // the end of time
            }
            let decision = self.decide(key, 1, true);
            assert!(decision.is_allowed(), "{}, key {key}: denied for ever", self.policy);
        }
    }
}

impl Observed for ObservedTable {
    fn move_by(&mut self, span: Span, fine: i8, backward: bool) {
        let before_ns = self.pace.now_ns;
        self.pace.move_by(span, fine, backward);
        self.forward &= self.pace.now_ns >= before_ns;
    }

    /// Makes a request, or peeks.
    fn request(&mut self, key: u8, cost: StepCost, charge: bool) {
        if self.requests == STEPS_MAX {
            return;
        }
        self.requests += 1;
        let now = Timestamp::from_nanos(self.pace.now_ns);
        let remaining = self.table.entry(&key).at(now).peek(0).remaining();
        let cost = cost.units(ceiling(self.policy), remaining);
        let decision = self.decide(key, cost, charge);
        self.pace.heard(&decision);
        if self.forward {
            self.a_cell_is_free_in_time(key, &decision);
        }
    }
}

/// A hasher that gives the same places and tags on every run.
pub(crate) fn hasher() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

/// Whether the model tries the ticks in which a spill counts. At rates above 100,000 per second the ticks of the spill
/// may be coarser than all that the model tries.
fn ticks_are_known(policy: Policy) -> bool {
    policy.quota().count() <= period_ns(policy) / 10_000
}

/// A time after which everything charged before is forgotten. `None` if that would be after the end of time.
fn drain_ns(policy: Policy) -> Option<u64> {
    let period = u128::from(period_ns(policy));
    let drained = match policy.algorithm() {
        Algorithm::Gcra => u128::from(least_penalty_ns(policy)),
        _ => 2 * period,
    };
    // Ends of penalties are rounded up by less than a thousandth of a window.
    let penalty = match penalty_ns(policy) {
        0 => 0,
        length_ns => u128::from(length_ns) + period / 1_000,
    };
    u64::try_from(drained + penalty + (4 << 20)).ok()
}

/// Whether the answer to a request this late has exact waits. GCRA counts the lateness in 64 bits of ticks.
fn is_told_exactly(policy: Policy, late_ns: u64) -> bool {
    let (count, period_ns) = (policy.quota().count(), period_ns(policy));
    let units = u128::from(late_ns) * u128::from(count) / u128::from(period_ns);
    policy.algorithm() != Algorithm::Gcra || units < 1 << (63 - 12)
}

/// The approximate time after which the time in a word of this many bits wraps. It only leads requests to times at
/// which something might go wrong.
fn turn_ns(policy: Policy, state_bits: u32) -> u64 {
    let (limit, window_ns) = (policy.quota().count(), period_ns(policy));
    let (unit_ns, counters) = match policy.algorithm() {
        // Here the word counts time in ticks of 2^-12 units.
        Algorithm::Gcra => ((u128::from(window_ns) / u128::from(limit)) >> 12, 0),
        Algorithm::FixedWindow => (window_ns.into(), 1),
        Algorithm::FixedWindowFromFirst => (10_u128.pow((window_ns >> 16).max(1).ilog10()), 1),
        Algorithm::SegmentedWindow { segments } => {
            (u128::from(window_ns / u64::from(segments)), u32::from(segments))
        }
        _ => (window_ns.into(), 2),
    };
    let count_bits = counters * (u64::BITS - limit.leading_zeros());
    let time_bits = state_bits.checked_sub(count_bits).filter(|bits| *bits > 3).unwrap_or(8);
    u64::try_from(unit_ns << time_bits).unwrap_or(u64::MAX)
}
