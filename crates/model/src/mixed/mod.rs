//! Every verb of every limiter, in any order, at any times, under any policy: against a reference that undoes, gives
//! back and forgets in ways of its own.
//!
//! Three things are compared after each step, for each key by itself (`book.rs`):
//!
//! * *The ledger* (`tollgate_oracle::Ledger`): what was admitted, less what was *reported* given back of it, in
//!   every interval of the callers' own times, against `burst + rate * t`. Windows: against their own bound.
//! * *The debt*, step by step (`tollgate_oracle::Oracle`): it falls by exactly what was reported given back, and
//!   decision, rest, wait and reset are those of the definition, to the nanosecond.
//! * *What it tells of itself*: a peek says what the request after it is told; a request that waits as long as told
//!   is admitted, and one that waits a nanosecond less is not; never more is given back than was charged.
//!
//! What the ledger cannot judge is said where it is left out: a permit that is refunded twice, or to a limiter that
//! has not made it, forgives units of other requests, and so does a refund at a time before that of another charge.
//! Those units stay within the bound of every interval from then on, in a second ledger; the first one begins anew.

macro_rules! ensure {
    ($condition:expr, $($words:tt)*) => {
        if !$condition {
            return Err(format!($($words)*));
        }
    };
}

mod acts;
mod book;
mod charge;
mod debt;
mod faults;
mod leases;
mod live_log;
mod random;
mod subject;
mod world;

use arbitrary::Arbitrary;

use crate::plant::Plant;
use crate::policy::PolicyCase;
use crate::rules::RulesCase;
use crate::step::Steps;

pub use live_log::{LogFault, hunt_log_changes};
pub use random::{FoundFailure, Hunt, hunt};
pub use subject::{SubjectFault, SubjectKind};
pub use world::{Judges, Mixed};

use subject::MixedSubject;
use world::MixedWorld;

/// Target `mixed_ops`: some keys of one limiter.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct MixedCase {
    /// The policy.
    pub policy: PolicyCase,
    /// What happens at its limit.
    pub rules: RulesCase,
    /// What decides.
    pub kind: SubjectKind,
    /// Whether times are those of the limiter's own clock, which is set.
    pub own_clock: bool,
    /// What happens.
    pub ops: Steps<Mixed>,
}

impl MixedCase {
    /// Panics if an answer is wrong.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if an answer is not the one expected.
    pub fn run_against(&self, plant: Plant) {
        if let Err(found) = self.follow(plant, SubjectFault::None, Judges::ALL) {
            panic!("{found}");
        }
    }

    /// The failure of a limiter with this fault, if there is one; else how many steps were compared.
    ///
    /// # Errors
    ///
    /// The failure, and its step.
    pub fn follow(&self, plant: Plant, fault: SubjectFault, judges: Judges) -> Result<u64, String> {
        let Some(policy) = self.policy.policy() else { return Ok(0) };
        let policy = self.kind.owing(self.rules.apply(policy));
        let subject = MixedSubject::new(policy, self.kind, self.own_clock, fault);
        let Some(subject) = subject else { return Ok(0) };
        let mut world = MixedWorld::new(policy, &subject, (plant, judges));
        let by = self.kind;
        let mut steps = 0;
        for op in &self.ops.0 {
            let compared = world.apply(*op);
            compared.map_err(|found| {
                let now_ns = world.now_ns();
                format!("{policy} by {by:?}, step {steps}, {op:?}, now {now_ns} ns: {found}")
            })?;
            steps += 1;
        }
        world.finish().map_err(|found| format!("{policy} by {by:?}: {found}"))?;
        Ok(steps)
    }
}
