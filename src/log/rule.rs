//! [`LogRule`]: a quota as a log reads it, and the decision on any slots.

use crate::algorithm::{Held, Kernel};
use crate::clock::LATEST_NS;
use crate::decision::{Decision, View};
use crate::error::BuildError;
use crate::quota::Quota;
use crate::sync::scale;
use crate::verdict::{Mark, Verdict};

use super::slots::Slots;
use super::survey::answers;
use super::take::{Taken, Want, take};
use crate::algorithm::Answers;

/// The largest limit: 2^20 units, 8 MiB of slots.
///
/// What bounds it is not the memory but a request for all of them: it marks a million slots one by one,
/// and remembers which in up to a thousand small frames of the stack.
const LIMIT_MOST: u64 = 1 << 20;

/// So many units in each window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRule {
    pub(crate) limit: u64,
    pub(crate) slots: usize,
    window_ns: u64,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRequest {
    pub(crate) now_ns: u64,
    pub(crate) cost: u64,
    /// Whether the cost is charged if it is admitted.
    pub(crate) charge: bool,
}

impl LogRequest {
    /// Past the latest time the clock stands still, as in every limiter.
    pub(crate) fn new(now_ns: u64, cost: u64, charge: bool) -> Self {
        Self { now_ns: now_ns.min(LATEST_NS), cost, charge: charge && cost > 0 }
    }

    /// The decision that gives these answers.
    pub(crate) fn decision(self, verdict: Verdict, answers: Answers, at_ns: u64) -> Decision {
        Decision::new(verdict, self.view(verdict, answers, at_ns))
    }

    /// The denial of a key for which there is no room before `at_ns`.
    pub(crate) fn no_room(self, answers: Answers, at_ns: u64) -> Decision {
        let view = self.view(Verdict::Denied, answers, at_ns);
        Decision::new(Verdict::Denied, View { mark: Mark::TableFull, ..view })
    }

    fn view(self, verdict: Verdict, answers: Answers, at_ns: u64) -> View {
        let kernel = Kernel::Log(answers);
        let now_ns = self.now_ns;
        // A peek that would be admitted has charged nothing.
        let is_peeked = verdict == Verdict::Allowed && !self.charge;
        let cost = if is_peeked { 0 } else { self.cost };
        let (held, mark) = (Held::IDLE, Mark::None);
        View { kernel, held, at_ns, now_ns, cost, soft_bp: 0, mark }
    }
}

impl LogRule {
    pub(crate) fn new(quota: Quota) -> Result<Self, BuildError> {
        let (limit, burst) = (quota.count(), quota.max_burst());
        // A log admits its whole count at once: it has no other burst.
        if burst != limit {
            return Err(BuildError::burst_on_log(limit, burst));
        }
        let slots = usize::try_from(limit).ok().filter(|_| limit <= LIMIT_MOST);
        let slots = slots.ok_or_else(|| BuildError::log_too_large(limit, LIMIT_MOST))?;
        Ok(Self { limit, slots, window_ns: quota.period_ns() })
    }

    /// Decides one request, or says that the slots are not the key's any more.
    pub(crate) fn decide(&self, slots: &impl Slots, ask: LogRequest) -> Option<Decision> {
        let LogRequest { now_ns, cost, charge } = ask;
        // Only asked, or never fits: nothing is taken.
        let taken = if charge && cost <= self.limit {
            take(slots, Want { now_ns, window_ns: self.window_ns, units: cost })
        } else {
            Taken::TooFew
        };
        // The entry is another key's by now: the caller finds it anew.
        if taken == Taken::Lost {
            return None;
        }
        // A model that does not look at answers saves their reads.
        let answers = if charge && !scale::tells_answers() {
            let (limit, ready_ns, idle_ns) = (self.limit, now_ns, now_ns);
            Answers { limit, remaining: 0, ready_ns, idle_ns, spilled: false }
        } else {
            answers(slots, self.limit, now_ns, cost)
        };
        let is_allowed = taken == Taken::All || (!charge && cost <= answers.remaining);
        // What was read is of another key. A unit that was taken was confirmed with it.
        if taken != Taken::All && !slots.is_same() {
            return None;
        }
        let verdict = if is_allowed { Verdict::Allowed } else { Verdict::Denied };
        Some(ask.decision(verdict, answers, now_ns))
    }
}
