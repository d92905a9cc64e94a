//! Calls every verb of every limiter, in any order, at any times, under any policy. The reference has its own ways to
//! undo, give back and forget.
//!
//! Three things are compared after each step, separately for each key (`book.rs`):
//!
//! * *The ledger* (`tollgate_oracle::Ledger`) compares, in every interval of the callers' own times, the units
//!   admitted, less those *reported* as given back, with `burst + rate * t`. Windows are checked against their own
//!   bound.
//! * *The debt* is compared with that of `tollgate_oracle::Oracle` at each step. It falls by exactly the units that are
//!   reported as given back. The decision, the units left, the wait and the reset are those of the definition, to the
//!   nanosecond.
//! * *Consistency*: a peek equals the answer to the request after it. A request that waits as long as its denial says
//!   is admitted, and one that waits a nanosecond less is not. No more is given back than was charged.
//!
//! Some refunds forgive units of other requests: a permit that is refunded twice, a permit of another limiter, and a
//! refund at a time before that of another charge. The ledger cannot judge such a step. From then on a second ledger
//! checks that those units stay within the bound of every interval, and the first ledger begins anew.

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

/// Target `mixed_ops`: operations on some keys of one limiter, with permits that are given back elsewhere, leases, and
/// quotas that change. The head of this module says what must hold.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct MixedCase {
    /// The policy.
    pub policy: PolicyCase,
    /// The policy's behaviour at its limit.
    pub rules: RulesCase,
    /// The kind of limiter.
    pub kind: SubjectKind,
    /// Whether the limiter reads its own clock, which each step sets. Otherwise each call is given the time.
    pub own_clock: bool,
    /// The operations.
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

    /// Follows a limiter with this fault. Returns the number of steps that were compared.
    ///
    /// # Errors
    ///
    /// Returns the failure and its step.
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
