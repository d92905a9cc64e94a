//! [`Log`]: an exact sliding log for one limit, which many threads share.
//!
//! It keeps a time for each unit of the limit. While times rise, a request is admitted if its units and the units that
//! were admitted in `(now - period, now]` are together at most the limit. A unit whose age equals the period does not
//! count any more. No algorithm that has only one word can be this exact.
//!
//! # What it guarantees
//! * Measured by the times that the callers gave, no half-open window `[t, t + period)` ever holds more than the limit,
//!   no matter in which order the times came. No unit comes back because a `now` is late or is repeated. A closed
//!   window may contain twice the limit, since its two ends are a period apart.
//! * A request of several units gets all of them or none.
//! * No thread waits for another, and nothing is allocated after construction.
//! * A denial takes nothing, unless the policy counts denials. Then denied units are recorded like admitted units, and
//!   of all recorded units the log keeps the newest, one in each slot. (In a log of more than 64 units, a denial may
//!   also write a bound that shortens later searches.) If a request for several units loses a race for the last free
//!   slots, it may cause the denial of another request at the same moment. It cannot cause an admission.
//! * In a log of more than 64 units, a unit that is given back, or that a reset forgets, may become free up to a period
//!   late, if another thread reads its slot at the same moment. If a reset forgets a unit that was taken for a time
//!   further ahead, the unit may become free even later; then another reset frees it.
//!
//! # What it costs
//! A log takes 8 bytes for each unit of the (softened) limit. Above 64 units the slots lie in rows, with 16 bytes for
//! each row. A row has 64 slots for limits up to 4,096, and beyond that about the square root of the limit, up to
//! 1,024.
//!
//! A request of one unit takes one compare-and-swap, usually on the first slot that it reads. A request of several
//! units takes one compare-and-swap and one store for each unit. After that, the number of remaining units and the wait
//! are computed from one or two rows and from the two bounds of every other row. While times rise, as they do with a
//! clock, a request of one unit reads at most 170 words if the limit is 100, and at most 750 words if the limit is
//! 10,000. In the worst case, when the callers' times jump back and forth, all slots are read, and computing the wait
//! for a denied cost of several units takes up to 64 rounds. A request for all 2^20 units takes a third of a megabyte
//! of stack.
//!
//! A `now` far in the future is accepted: the units of its request are available again only a period after that time.

mod changing;
#[cfg(test)]
mod cost;
mod ring;
mod rule;
mod slots;
mod survey;
mod take;

use crate::change::ChangeError;
use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::policy::Policy;
use crate::refund::Amendment;
use crate::sync::AtomicU64;
use crate::verb::Verb;

pub(crate) use rule::{LogRequest, LogRule};
pub(crate) use slots::{ROW_MOST, Slots, is_marked, load, raise, time};

use changing::ChangingCount;
use ring::Ring;

/// The log of one limit.
#[derive(Debug)]
pub(crate) struct Log {
    ring: Ring,
    /// The rule with which the log was built.
    rule: LogRule,
    changing: Option<Box<ChangingCount>>,
}

impl Log {
    /// All memory is allocated here: about 8 MiB at most.
    pub(crate) fn new(rule: LogRule) -> Self {
        Self { ring: Ring::new(rule.slots), rule, changing: None }
    }

    /// Continues from the words of [`saved`](Self::saved): one word for the cursor, and one word for each slot of the
    /// rule.
    pub(crate) fn holding(rule: LogRule, mut words: impl Iterator<Item = u64>) -> Self {
        // The cursor is restored, so that the next search begins at the same slot as it would have before.
        let cursor = words.next().unwrap_or(0);
        let ring = Ring::holding(cursor, words.map(AtomicU64::new).collect());
        Self { ring, rule, changing: None }
    }

    /// A log of this policy, whose count may change.
    pub(crate) fn changing(rule: LogRule, policy: Policy) -> Self {
        Self { changing: Some(Box::new(ChangingCount::new(policy))), ..Self::new(rule) }
    }

    /// The policy in force, if the count may change.
    pub(crate) fn policy(&self) -> Option<Policy> {
        self.changing.as_ref().map(|changing| changing.policy())
    }

    pub(crate) fn set_quota(&self, policy: Policy) -> Result<(), ChangeError> {
        // This is called only for a log that was built as changing.
        let changing = self.changing.as_ref().ok_or(ChangeError::Log { policy })?;
        changing.set_quota(&self.ring, policy)
    }

    /// The rule in force.
    pub(crate) fn rule(&self) -> LogRule {
        // Only the count can change, so the policy is still a sliding log, and there is always a rule.
        self.changing.as_ref().and_then(|changing| changing.rule()).unwrap_or(self.rule)
    }

    /// The state of the log for a file: the position of the cursor, and the instant from which each slot is free. A
    /// mark belongs to a request that has not been admitted yet, so the time under the mark is saved.
    pub(crate) fn saved(&self) -> impl ExactSizeIterator<Item = u64> {
        let (cursor, slots) = self.ring.saved();
        (0..slots.len() + 1)
            .map(move |n| n.checked_sub(1).map_or(cursor, |at| time(load(&slots[at]))))
    }

    pub(crate) fn ask(&self, verb: Verb, cost: u64, now: Timestamp, charge: bool) -> Decision {
        let (rule, ask) = (self.rule(), LogRequest::new(verb, cost, now.as_nanos(), charge));
        loop {
            // The first call always returns a decision, since a ring has only one owner.
            if let Some(decision) = rule.decide(&self.ring, ask) {
                return decision;
            }
        }
    }

    pub(crate) fn amend(&self, now: Timestamp, amendment: Amendment<'_>) -> u64 {
        // The count does not change while this right is held. This is needed since a refund lowers the times of slots
        // (see `changing.rs`).
        let right = self.changing.as_ref().map(|changing| changing.giving_back());
        // During a change of the count everything but a reset is refused. A reset during a change may also forget units
        // that are admitted meanwhile.
        if matches!(right, Some(None)) && !matches!(amendment, Amendment::Reset) {
            return 0;
        }
        self.rule().amend(&self.ring, now.as_nanos(), amendment)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_reset_mends_the_bounds_that_a_stalled_reader_has_raised_behind_another() {
        let policy = "sliding-log 65/s".parse().expect("a policy");
        let log = Log::new(LogRule::of(&policy).expect("a log"));
        let at = Timestamp::from_nanos;
        let (now, far) = (at(1_000_000_000), at(1_000_000_000_000_000));
        assert!(log.ask(Verb::Check, 65, far, true).is_allowed());
        assert_eq!(log.amend(now, Amendment::Reset), 65);
        // A thread that read the slots before the reset raises the bounds only now.
        (0..log.ring.rows()).for_each(|row| log.ring.raise_low(row, far.as_nanos()));
        assert!(!log.ask(Verb::Check, 1, now, true).is_allowed());
        // The first reset has already given the slots back, so this second reset only lowers the bounds.
        assert_eq!(log.amend(now, Amendment::Reset), 0);
        assert!(log.ask(Verb::Check, 65, now, true).is_allowed());
        assert!(!log.ask(Verb::Check, 1, now, true).is_allowed());
    }
}
