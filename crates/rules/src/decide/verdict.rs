//! What one or several limits say about one descriptor.

use std::time::Duration;

use tollgate::Decision;

use crate::full::{NoCell, OnFull};

/// What was decided, by the limit that speaks for all of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub(crate) is_over: bool,
    /// Which of the rule's limits.
    pub(crate) limit: usize,
    /// The most that is admitted at once.
    pub(crate) burst: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_after: Duration,
    /// Of a denial: `None` if it never fits.
    pub(crate) retry_after: Option<Duration>,
    /// If the client had no cell.
    pub(crate) no_cell: Option<NoCell>,
}

impl Verdict {
    /// By a rule that does this with a client that has no cell.
    pub(crate) fn of(decision: &Decision, limit: usize, on_full: OnFull) -> Self {
        let no_cell = NoCell::of(decision, on_full);
        let is_over = !decision.is_allowed() && no_cell != Some(NoCell::Allowed);
        let retry_after = match decision {
            Decision::Denied(denial) if is_over => denial.retry_after(),
            _ => None,
        };
        Self {
            is_over,
            limit,
            burst: decision.limit(),
            remaining: decision.remaining(),
            reset_after: decision.reset_after(),
            retry_after,
            no_cell,
        }
    }

    /// Of a limit that lets nothing pass.
    pub(crate) fn blocked(limit: usize, cost: u64, reset_after: Duration) -> Self {
        let (burst, remaining, retry_after, no_cell) = (0, 0, None, None);
        Self { is_over: cost > 0, limit, burst, remaining, reset_after, retry_after, no_cell }
    }

    /// What is left after an admission is no denial, even if others have gone into debt meanwhile.
    pub(crate) fn admitted(self) -> Self {
        Self { is_over: false, retry_after: None, ..self }
    }

    /// The one that denies longest; if none does, the one with the least left.
    pub(crate) fn or(self, other: Self) -> Self {
        let wait = |verdict: &Self| verdict.retry_after.unwrap_or(Duration::MAX);
        let other_weighs_more = match (self.is_over, other.is_over) {
            (true, true) => wait(&other) > wait(&self),
            (false, true) => true,
            (true, false) => false,
            (false, false) => other.remaining < self.remaining,
        };
        if other_weighs_more { other } else { self }
    }

    /// Of an admitted request: how much of its cost lies above this share of the limit.
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
