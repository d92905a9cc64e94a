//! One key whose word wraps: its times are near the epoch, whole wraps away, and at the end of time.

use arbitrary::Arbitrary;
use tollgate::WhenFull;

use crate::keyed::ObservedTable;
use crate::ops::Observed;
use crate::plant::Plant;
use crate::policy::PolicyCase;
use crate::rules::RulesCase;
use crate::step::{RequestStep, Steps};

/// Target `layout_roundtrip`: the state that a keyed word of any policy holds is read back unchanged. Times lie around
/// the epoch, whole wraps of the word's time later, and at the end of time.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct LayoutCase {
    /// The policy.
    pub policy: PolicyCase,
    /// The time at which the table is built.
    pub start_ns: u64,
    /// The requests.
    pub steps: Steps<RequestStep>,
    /// The behaviour at the limit.
    pub rules: RulesCase,
}

impl LayoutCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        let Some(policy) = self.policy.policy() else { return };
        let policy = self.rules.apply(policy);
        let Some(mut observed) =
            ObservedTable::new(policy, (1, WhenFull::Deny), self.start_ns, plant)
        else {
            return;
        };
        for step in &self.steps.0 {
            observed.move_by(step.span, step.fine, step.backward);
            observed.request(0, step.cost, false);
            observed.request(0, step.cost, true);
        }
        observed.finish();
    }
}
