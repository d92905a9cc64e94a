//! The combined decision of one or several limits about one descriptor.

use std::time::Duration;

use tollgate::Decision;

use crate::counts::full::NoCell;
use crate::counts::rule_counts::HitSplit;
use crate::language::on_full::OnFull;

/// The combined decision of all limits of a rule. Most fields are those of the limit at the index `limit`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleVerdict {
    pub(crate) is_over: bool,
    /// Whether the request was admitted above the limit, within what a soft policy adds.
    pub(crate) is_within_soft: bool,
    /// Whether the pool of the domain admitted the request or, if nothing is charged, would admit it.
    pub(crate) is_borrowed: bool,
    /// The index in the rule of the limit that is reported.
    pub(crate) limit: usize,
    /// The burst of the limit that is reported.
    pub(crate) burst: u64,
    pub(crate) remaining: u64,
    /// The units that were left when the request was decided. Unlike `remaining`, it stays the same if a denial uses
    /// these units up.
    pub(crate) left: u64,
    /// Whether the request was denied without asking the store, because of an earlier answer of the store.
    pub(crate) is_remembered: bool,
    pub(crate) reset_after: Duration,
    /// The wait after a denial; `None` if the cost never fits.
    pub(crate) retry_after: Option<Duration>,
    /// The time that an admitted request waits for its turn in a queue.
    pub(crate) wait: Duration,
    /// How the client was treated, if it had no cell.
    pub(crate) no_cell: Option<NoCell>,
    /// Whether the request was decided without the store that keeps the limit.
    pub(crate) is_without_store: bool,
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
            left: decision.remaining(),
            is_remembered: false,
            reset_after: decision.reset_after(),
            retry_after,
            wait: Duration::ZERO,
            no_cell,
            is_without_store: false,
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
            left: 0,
            is_remembered: false,
            reset_after,
            retry_after,
            wait,
            no_cell,
            is_without_store: false,
        }
    }

    /// Turns this verdict into an admission. The request was admitted, even if this later look finds the key in debt.
    pub(crate) fn admitted(self) -> Self {
        Self { is_over: false, retry_after: None, ..self }
    }

    /// The verdict to report for a cost that is not denied. Its `retry_after` is the time until one more unit fits.
    pub(crate) fn not_over(self) -> Self {
        Self { is_over: false, is_borrowed: false, ..self }
    }

    /// Combines two verdicts. A denial takes precedence over an admission. Of two denials the one with the longer wait
    /// is reported, and of two admissions the one with fewer units left.
    pub(crate) fn or(self, other: Self) -> Self {
        let wait = |verdict: &Self| verdict.retry_after.unwrap_or(Duration::MAX);
        let other_weighs_more = match (self.is_over, other.is_over) {
            (true, true) => wait(&other) > wait(&self),
            (false, true) => true,
            (true, false) => false,
            (false, false) => other.remaining < self.remaining,
        };
        let reported = if other_weighs_more { other } else { self };
        // If one limit denies the request, no limit has used its soft share or borrowed.
        let is_within_soft = !reported.is_over && (self.is_within_soft || other.is_within_soft);
        let is_borrowed = !reported.is_over && (self.is_borrowed || other.is_borrowed);
        let wait = if reported.is_over { Duration::ZERO } else { self.wait.max(other.wait) };
        // A denial is explained by the limit that denies; an admission, by any limit in which the client has no cell.
        let others = self.no_cell.or(other.no_cell).filter(|_| !reported.is_over);
        let no_cell = reported.no_cell.or(others);
        Self { is_within_soft, is_borrowed, wait, no_cell, ..reported }
    }

    /// Splits the units of the request into units within the limit, units above the share `ratio` of the limit, and
    /// units beyond the limit. As in envoyproxy/ratelimit, a denied request is split as if it had been charged as well.
    pub(crate) fn split(&self, cost: u64, ratio: f64) -> HitSplit {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a statistic, of which envoyproxy/ratelimit has single precision"
        )]
        let near = (self.burst as f32 * ratio as f32) as u64;
        if !self.is_over {
            let used = self.burst.saturating_sub(self.remaining);
            return HitSplit { within: cost, near: used.saturating_sub(near).min(cost), beyond: 0 };
        }
        let before = self.burst.saturating_sub(self.left);
        // All units of a request count as beyond the limit if it was denied although it would fit: during a penalty,
        // without a cell, or because another request came in between. The same holds if the request was denied
        // because of an earlier answer, without asking the store, as by envoyproxy/ratelimit's local cache.
        if self.is_remembered || cost <= self.left {
            return HitSplit { within: 0, near: 0, beyond: cost };
        }
        let near = self.burst.saturating_sub(before.max(near));
        HitSplit { within: 0, near, beyond: cost - self.left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A verdict of the limit with this index, whose `retry_after` is `seconds`.
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

    /// The cases are those of envoyproxy/ratelimit, which charges what it denies. Each case has the count before the
    /// request, the request's hits and the limit; then the expected hits within, near and over the limit.
    #[test]
    fn hits_are_split_at_the_near_limit_share_and_at_the_limit() {
        let million = 4_294_967_000;
        for (before, hits, limit, expected) in [
            // Requests of one hit, with counts below, at and above the near-limit share of 80 %, and at the limit.
            (0, 1, 10, (1, 0, 0)),
            (7, 1, 10, (1, 0, 0)),
            (8, 1, 10, (1, 1, 0)),
            (9, 1, 10, (1, 1, 0)),
            (10, 1, 10, (0, 0, 1)),
            // Requests that reach across the share.
            (0, 10, 10, (10, 2, 0)),
            (5, 3, 10, (3, 0, 0)),
            (5, 4, 10, (4, 1, 0)),
            (8, 2, 10, (2, 2, 0)),
            // Requests that reach across the limit, first from below the share and then from above it.
            (5, 10, 10, (0, 2, 5)),
            (8, 3, 10, (0, 2, 1)),
            (9, 3, 10, (0, 1, 2)),
            (0, 11, 10, (0, 2, 1)),
            (0, 100, 10, (0, 2, 90)),
            (10, 5, 10, (0, 0, 5)),
            // 80 % of a small limit is rounded down: to 0 for a limit of 1, to 1 for 2, and to 5 for 7.
            (0, 1, 1, (1, 1, 0)),
            (1, 1, 1, (0, 0, 1)),
            (0, 3, 2, (0, 1, 1)),
            (0, 7, 7, (7, 2, 0)),
            (0, 0, 10, (0, 0, 0)),
            (10, 0, 10, (0, 0, 0)),
            // 80 % of this limit is more in single precision than in double precision.
            (0, million, million, (million, million - 3_435_973_632, 0)),
            (0, 1, 0, (0, 0, 1)),
        ] {
            let is_over = before + hits > limit;
            let verdict = RuleVerdict {
                is_over,
                burst: limit,
                left: limit - before,
                remaining: if is_over { limit - before } else { limit - before - hits },
                ..RuleVerdict::blocked(0, hits, Duration::ZERO)
            };
            let HitSplit { within, near, beyond } = verdict.split(hits, 0.8);
            assert_eq!((within, near, beyond), expected, "{before} {hits} {limit}");
        }
    }

    #[test]
    fn what_is_denied_though_it_would_fit_and_what_the_store_is_not_asked_is_over_whole() {
        let penalized = RuleVerdict { burst: 10, left: 5, ..verdict(0, true, 5, Some(1)) };
        assert_eq!(penalized.split(5, 0.8), HitSplit { within: 0, near: 0, beyond: 5 });
        assert_eq!(penalized.split(6, 0.8), HitSplit { within: 0, near: 2, beyond: 1 });
        let remembered = RuleVerdict { is_remembered: true, ..penalized };
        assert_eq!(remembered.split(6, 0.8), HitSplit { within: 0, near: 0, beyond: 6 });
    }
}
