//! [`JointDecision`]: one answer for several limits.

use crate::decision::{Decision, Denial};

/// The answer of several limits to one request: see [`check_all`](crate::check_all).
///
/// ```
/// use tollgate::{Limiter, ManualClock, Quota, check_all};
/// let limit = |quota| Limiter::with_clock(quota, ManualClock::new());
/// let [posts, friends] = [limit(Quota::per_minute(60).burst(1)), limit(Quota::per_day(150))];
/// let both = || check_all(&mut [friends.entry().cost(1), posts.entry().cost(1)]);
/// let admitted = both();
/// assert!(admitted.is_allowed());
/// // None is left of the posts: the answer is that of the limit with the fewest units left.
/// assert_eq!(admitted.decision().map(|decision| decision.remaining()), Some(0));
/// let denied = both();
/// assert_eq!(denied.index(), Some(1));
/// assert_eq!(denied.into_result().unwrap_err().retry_after_secs(), Some(1));
/// assert_eq!(friends.entry().peek(1).remaining(), 149);
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct JointDecision {
    pub(super) answer: Option<(usize, Decision)>,
}

impl JointDecision {
    /// Whether the request may go. If so, every limit was charged; if not, none was.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.answer.is_none_or(|(_, decision)| decision.is_allowed())
    }

    /// Which of the tolls, from 0, the [`decision`](JointDecision::decision) is of. `None` only if there
    /// were no tolls: nothing denies then.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, check_all};
    /// let [wide, tight] = [9, 5].map(|count| Limiter::new(Quota::per_hour(count)));
    /// assert_eq!(check_all(&mut [wide.entry().cost(1), tight.entry().cost(1)]).index(), Some(1));
    /// assert_eq!(check_all(&mut []).index(), None);
    /// ```
    #[must_use]
    pub fn index(&self) -> Option<usize> {
        self.answer.map(|(index, _)| index)
    }

    /// The one decision that answers for all: of the limits that denied, the one with the longest wait;
    /// if none did, the one with the fewest units left.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        self.answer.map(|(_, decision)| decision)
    }

    /// The answer as a `Result`, for `?`.
    ///
    /// # Errors
    /// The [`Denial`] with the longest wait, if denied.
    ///
    /// ```
    /// use tollgate::{Denial, Limiter, Quota, check_all};
    /// fn serve(limits: &[Limiter; 2]) -> Result<&'static str, Denial> {
    ///     check_all(&mut [limits[0].entry().cost(1), limits[1].entry().cost(1)]).into_result()?;
    ///     Ok("served")
    /// }
    /// let limits = [1, 2].map(|count| Limiter::new(Quota::per_hour(count)));
    /// assert!(serve(&limits).is_ok());
    /// assert!(serve(&limits).is_err());
    /// ```
    pub fn into_result(self) -> Result<(), Denial> {
        match self.answer {
            Some((_, Decision::Denied(denial))) => Err(denial),
            _ => Ok(()),
        }
    }

    /// The later of two denials.
    pub(super) fn or(self, index: usize, decision: Decision) -> Self {
        // Of equal waits the first; a denial always before an admission.
        let weightier = match (self.answer, decision) {
            (Some((_, Decision::Denied(longest))), Decision::Denied(denial)) => {
                wait(&denial) > wait(&longest)
            }
            _ => true,
        };
        if weightier { Self { answer: Some((index, decision)) } } else { self }
    }
}

/// What never fits is waited for longest.
fn wait(denial: &Denial) -> std::time::Duration {
    denial.retry_after().unwrap_or(std::time::Duration::MAX)
}
