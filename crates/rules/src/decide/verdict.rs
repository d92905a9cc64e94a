//! The combined decision of one or several limits about one descriptor.

use std::time::Duration;

use tollgate::Decision;

use crate::full::{NoCell, OnFull};

/// The decision of the limit that represents all limits of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleVerdict {
    pub(crate) is_over: bool,
    /// Admitted above the limit, within what a soft policy adds.
    pub(crate) is_within_soft: bool,
    /// Admitted by the pool of its domain (of a question: it would be).
    pub(crate) is_borrowed: bool,
    /// The index of that limit in the rule.
    pub(crate) limit: usize,
    /// Its burst.
    pub(crate) burst: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_after: Duration,
    /// For a denial: `None` if the cost never fits.
    pub(crate) retry_after: Option<Duration>,
    /// For an admission: how long to wait for its turn.
    pub(crate) wait: Duration,
    /// Set if the client had no cell.
    pub(crate) no_cell: Option<NoCell>,
}

impl RuleVerdict {
    /// The verdict of a limit whose rule treats clients without a cell as `on_full` says.
    pub(crate) fn of(decision: &Decision, limit: usize, on_full: OnFull) -> Self {
        let no_cell = NoCell::of(decision, on_full);
        let is_over = !decision.is_allowed() && no_cell != Some(NoCell::Allowed);
        let retry_after = match decision {
            Decision::Denied(denial) if is_over => denial.retry_after(),
            _ => None,
        };
        Self {
            is_over,
            is_within_soft: matches!(decision, Decision::Allowed(permit) if permit.is_over()),
            is_borrowed: false,
            limit,
            burst: decision.limit(),
            remaining: decision.remaining(),
            reset_after: decision.reset_after(),
            retry_after,
            wait: Duration::ZERO,
            no_cell,
        }
    }

    /// The verdict of a limit of 0.
    pub(crate) fn blocked(limit: usize, cost: u64, reset_after: Duration) -> Self {
        let (burst, remaining, retry_after, no_cell) = (0, 0, None, None);
        let (is_over, is_within_soft, is_borrowed) = (cost > 0, false, false);
        let wait = Duration::ZERO;
        Self {
            is_over,
            is_within_soft,
            is_borrowed,
            limit,
            burst,
            remaining,
            reset_after,
            retry_after,
            wait,
            no_cell,
        }
    }

    /// This verdict as an admission, even if the key has gone into debt meanwhile.
    pub(crate) fn admitted(self) -> Self {
        Self { is_over: false, retry_after: None, ..self }
    }

    /// The verdict with the longest wait; if neither denies, the one with the least left.
    pub(crate) fn or(self, other: Self) -> Self {
        let wait = |verdict: &Self| verdict.retry_after.unwrap_or(Duration::MAX);
        let other_weighs_more = match (self.is_over, other.is_over) {
            (true, true) => wait(&other) > wait(&self),
            (false, true) => true,
            (true, false) => false,
            (false, false) => other.remaining < self.remaining,
        };
        let told = if other_weighs_more { other } else { self };
        // A request that one limit denies is within no other's soft share, and borrows nothing.
        let is_within_soft = !told.is_over && (self.is_within_soft || other.is_within_soft);
        let is_borrowed = !told.is_over && (self.is_borrowed || other.is_borrowed);
        let wait = if told.is_over { Duration::ZERO } else { self.wait.max(other.wait) };
        Self { is_within_soft, is_borrowed, wait, ..told }
    }

    /// For an admitted request: how many of its units lie above this share of the limit.
    pub(crate) fn near(&self, cost: u64, ratio: f64) -> u64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a statistic: rounding moves where it begins, not what is decided"
        )]
        let near = (self.burst as f64 * ratio) as u64;
        let used = self.burst.saturating_sub(self.remaining);
        used.saturating_sub(near).min(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A verdict of the limit with this index.
    fn verdict(limit: usize, is_over: bool, remaining: u64, seconds: Option<u64>) -> RuleVerdict {
        let retry_after = seconds.map(Duration::from_secs);
        RuleVerdict {
            is_over,
            remaining,
            retry_after,
            ..RuleVerdict::blocked(limit, 1, Duration::ZERO)
        }
    }

    #[test]
    fn the_longest_denial_answers_or_else_the_least_left_and_of_equals_the_first() {
        let (over, room) = (true, false);
        for (one, other, expected) in [
            ((over, 0, Some(5)), (over, 0, Some(6)), 1),
            ((over, 0, Some(6)), (over, 0, Some(5)), 0),
            ((over, 0, Some(5)), (over, 0, Some(5)), 0),
            // A cost that never fits has the longest wait.
            ((over, 0, Some(5)), (over, 0, None), 1),
            ((over, 0, None), (over, 0, Some(5)), 0),
            ((over, 3, Some(5)), (room, 1, None), 0),
            ((room, 1, None), (over, 3, Some(5)), 1),
            ((room, 3, None), (room, 2, None), 1),
            ((room, 2, None), (room, 3, None), 0),
            ((room, 2, None), (room, 2, None), 0),
        ] {
            let of = |limit, (is_over, left, wait)| verdict(limit, is_over, left, wait);
            assert_eq!(of(0, one).or(of(1, other)).limit, expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_was_admitted_is_not_over_and_has_nothing_to_wait_for() {
        let admitted = verdict(0, true, 2, Some(5)).admitted();
        assert_eq!((admitted.is_over, admitted.remaining, admitted.retry_after), (false, 2, None));
    }
}
