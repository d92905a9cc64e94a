//! Follows one key of a table with the model.
//!
//! The table must answer as the model does while the key is not idle, and also while time runs forward. If a time runs
//! backward, the table may have forgotten the key. A late request of a forgotten key starts at the floor of the shard,
//! and this floor cannot be seen from outside. From then on the key is *out of step* until it is idle again. Meanwhile
//! only its bound is checked.

use tollgate::{Algorithm, CountDenied, Decision, DenialReason, Policy, Rounding};

use crate::bound::{self, Admitted};
use crate::expect::{Expectation, TimedRequest};
use crate::plant::Plant;
use crate::rules::ceiling;

#[derive(Debug)]
pub(crate) struct Follower {
    expected: Expectation,
    in_step: bool,
    /// The time at which the key was last found idle after it had been out of step. The state is known only from then
    /// on.
    known_from_ns: u64,
    admitted: Vec<Admitted>,
}

impl Follower {
    /// `in_step`: whether the model knows the state of the key in the table at the beginning.
    pub(crate) fn new(policy: Policy, plant: Plant, in_step: bool) -> Self {
        let expected = Expectation::keyed(policy, plant);
        Self { expected, in_step, known_from_ns: 0, admitted: Vec::new() }
    }

    /// Whether the model knows the state of the key in the table.
    pub(crate) fn in_step(&self) -> bool {
        self.in_step
    }

    pub(crate) fn is_idle(&self, now_ns: u64) -> bool {
        self.expected.is_idle(now_ns)
    }

    pub(crate) fn may_be_live(&self, now_ns: u64) -> bool {
        self.expected.may_be_live(now_ns)
    }

    /// Notes that the key is idle, at a time that is not below any floor.
    pub(crate) fn found_idle(&mut self, now_ns: u64) {
        if !self.in_step && self.forgets_without_a_trace() {
            self.expected.renew();
            self.in_step = true;
            self.known_from_ns = now_ns;
        }
    }

    fn counts_denials(&self) -> bool {
        let at_limit = self.expected.policy.at_limit();
        at_limit.count_denied != CountDenied::No || at_limit.penalty.is_some()
    }

    /// True if an idle key behaves like a forgotten one. It does not if a sliding window rounds down: the share of the
    /// last window may be 0 now and above 0 at an earlier time, unless the key was forgotten.
    fn forgets_without_a_trace(&self) -> bool {
        self.expected.policy.algorithm() != Algorithm::SlidingWindow { rounding: Rounding::Down }
    }

    /// Compares a decision. `high_ns` is the latest time that the table was given before, so no floor is above it.
    pub(crate) fn follow(
        &mut self,
        ask: TimedRequest,
        high_ns: u64,
        decision: &Decision,
    ) -> Result<(), String> {
        let TimedRequest { now_ns, cost, charge, .. } = ask;
        let known_ns = high_ns.max(self.known_from_ns);
        if let Decision::Denied(denial) = decision
            && denial.reason() == DenialReason::TableFull
        {
            return self.found_no_cell(now_ns.max(known_ns), denial.remaining());
        }
        let forgotten =
            now_ns < known_ns && (self.is_idle(known_ns) || !self.forgets_without_a_trace());
        if self.in_step && !forgotten {
            self.expected.agrees(ask, decision)?;
        } else if decision.is_allowed() {
            // Under GCRA the floor only makes the table stricter. But a penalty that is over at the floor is over for
            // late requests, too.
            let policy = self.expected.policy;
            if policy.algorithm() == Algorithm::Gcra && policy.at_limit().penalty.is_none() {
                self.expected.admits(ask)?;
            }
            self.in_step &= !charge || cost == 0;
        }
        // The table may or may not have counted two kinds of denials: a late denial of a key that may be forgotten, and
        // a denial so late that a word cannot hold the lateness.
        if !decision.is_allowed() && charge && cost > 0 && (forgotten || !ask.exact) {
            self.in_step &= !self.counts_denials();
        }
        if decision.is_allowed() && charge && cost > 0 {
            self.admitted.push(Admitted { now_ns, high_ns: high_ns.max(now_ns), cost });
        }
        Ok(())
    }

    /// A table may deny a key for lack of a cell only if the key is idle.
    fn found_no_cell(&self, high_ns: u64, remaining: u64) -> Result<(), String> {
        let planted = self.expected.plant == Plant::Cell;
        if self.in_step && (planted || !self.is_idle(high_ns)) {
            return Err("a live key lost its cell".to_string());
        }
        if remaining != 0 {
            return Err(format!("no cell, and yet {remaining} units remain"));
        }
        Ok(())
    }

    /// Checks everything that was admitted, over every interval.
    pub(crate) fn keeps_its_bound(&self) -> Result<(), String> {
        let Expectation { policy, plant, .. } = self.expected;
        let most = ceiling(policy) - u64::from(plant == Plant::Bound);
        bound::is_kept(policy, most, self.expected.coarsest_tick(), &self.admitted)
    }
}
