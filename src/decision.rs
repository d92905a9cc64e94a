//! [`Decision`]: the answer to one request. It is small, and each of its figures is computed on demand.

mod denial;
mod permit;
mod summary;

use std::fmt;
use std::time::Duration;

use crate::algorithm::{Answers, Figures, Held, Kernel, unsoftened};
use crate::verdict::{Mark, Verdict};

pub use denial::{Denial, DenialReason};
pub use permit::Permit;
pub use summary::DecisionSummary;

/// The answer to one request.
///
/// Two decisions are equal if their [summaries](Decision::summary) are equal, even if different limiters made them at
/// different times. With the feature `serde` a decision is read and written as its summary.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Decision, Limiter, ManualClock, Quota};
/// let limiter = Limiter::builder(Quota::per_minute(6)).clock(ManualClock::new()).build();
/// let decision = limiter.check_n(2);
/// assert!(decision.is_allowed() && !decision.is_denied());
/// assert_eq!((decision.limit(), decision.remaining()), (6, 4));
/// assert_eq!(decision.reset_after(), Duration::from_secs(20));
/// match limiter.check_n(5) {
///     Decision::Allowed(permit) => unreachable!("{permit:?}"),
///     Decision::Denied(denial) => assert_eq!(denial.retry_after(), Some(Duration::from_secs(10))),
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub enum Decision {
    // This variant is first, so that the discriminant itself says if a request is allowed: this saves an instruction.
    /// The request must not proceed. Nothing was charged, unless the policy counts denials
    /// ([`AtLimit`](crate::AtLimit)), or another request was faster in a [`SketchLimiter`](crate::SketchLimiter) or a
    /// spill, whose cells may then keep the cost.
    Denied(Denial),
    /// The request may proceed. Its cost was charged, unless this was a peek or another source admitted the request
    /// ([`check_or`](crate::Entry::check_or)).
    Allowed(Permit),
}

impl Decision {
    #[inline]
    pub(crate) fn new(verdict: Verdict, view: View) -> Self {
        match verdict {
            Verdict::Allowed => Self::Allowed(Permit { view }),
            Verdict::Denied => Self::Denied(Denial { view }),
        }
    }

    /// Takes a decision apart: see [`Place::decide`](crate::keyed::Place).
    #[inline]
    pub(crate) fn into_parts(self) -> (Verdict, View) {
        match self {
            Self::Allowed(permit) => (Verdict::Allowed, permit.view),
            Self::Denied(denial) => (Verdict::Denied, denial.view),
        }
    }

    /// True if the request may proceed.
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// True if the request must not proceed.
    #[inline]
    #[must_use]
    pub fn is_denied(&self) -> bool {
        !self.is_allowed()
    }

    /// How long a denied request has to wait: [`Denial::retry_after`]. `None` if it was allowed, or if its cost never
    /// fits.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::builder(Quota::per_minute(6).burst(1)).clock(ManualClock::new()).build();
    /// assert_eq!(limiter.check().retry_after(), None);
    /// assert_eq!(limiter.check().retry_after(), Some(Duration::from_secs(10)));
    /// assert_eq!(limiter.check_n(2).retry_after(), None);
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Allowed(_) => None,
            Self::Denied(denial) => denial.retry_after(),
        }
    }

    /// True if the spill made the decision, because the key was new and the keyed table had no cell for it: see
    /// [`WhenFull::Spill`](crate::WhenFull::Spill). It is also true if there was a cell for a new key, but the key was
    /// denied because of its charges in the spill. In both cases the figures may include other keys' traffic.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::builder(Quota::per_hour(5)).clock(ManualClock::new()).build(1)?;
    /// assert!(!limiter.check(&0_u64).is_spilled());
    /// let spilled = (1..100).filter(|key| limiter.check(key).is_spilled()).count();
    /// assert_eq!(spilled as u64, limiter.stats().spilled);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        self.view().is_spilled()
    }

    /// The decision as a `Result`, for `?`.
    ///
    /// # Errors
    /// The [`Denial`], if the request was denied.
    ///
    /// ```
    /// use tollgate::{Denial, Limiter, Quota};
    /// fn serve(limiter: &Limiter) -> Result<&'static str, Denial> {
    ///     limiter.check().into_result()?;
    ///     Ok("served")
    /// }
    /// let limiter = Limiter::new(Quota::per_hour(1));
    /// assert!(serve(&limiter).is_ok());
    /// assert!(serve(&limiter).is_err());
    /// ```
    #[inline]
    pub fn into_result(self) -> Result<Permit, Denial> {
        match self {
            Self::Allowed(permit) => Ok(permit),
            Self::Denied(denial) => Err(denial),
        }
    }

    /// The denial, if the decision is a denial.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(5));
    /// assert!(limiter.check_n(5).denial().is_none());
    /// assert_eq!(limiter.check_n(2).denial().map(|denial| denial.cost()), Some(2));
    /// ```
    #[inline]
    #[must_use]
    pub fn denial(&self) -> Option<&Denial> {
        match self {
            Self::Allowed(_) => None,
            Self::Denied(denial) => Some(denial),
        }
    }

    /// The permit, if the request was admitted.
    #[inline]
    #[must_use]
    pub fn permit(&self) -> Option<&Permit> {
        match self {
            Self::Allowed(permit) => Some(permit),
            Self::Denied(_) => None,
        }
    }

    /// A copy of the decision, including its permit, for undos and reports inside this crate. No caller ever gets both
    /// copies.
    pub(crate) fn twin(&self) -> Self {
        match self {
            Self::Allowed(permit) => Self::Allowed(permit.twin()),
            Self::Denied(denial) => Self::Denied(*denial),
        }
    }

    pub(crate) fn view(&self) -> &View {
        match self {
            Self::Allowed(permit) => &permit.view,
            Self::Denied(denial) => &denial.view,
        }
    }

    /// The largest number of units that can be admitted at one instant: the burst, or the window's limit. Under a soft
    /// policy it is the limit that the policy names, not the softened one.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.view().limit()
    }

    /// The number of units that are left just after the decision: the largest cost that would then be admitted. Under a
    /// soft policy this number is counted up to the limit that the policy names, and is 0 beyond that limit.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        match self {
            Self::Allowed(permit) => permit.remaining(),
            Self::Denied(denial) => denial.remaining(),
        }
    }

    /// The time from the decision until the whole [`limit`](Decision::limit) is available again (under a soft policy,
    /// the whole softened limit), if no other request is charged. It is rounded up to the nanosecond.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.view().reset_after()
    }
}

impl Decision {
    /// The number of units that were charged: 0 for a denial or a peek.
    pub(crate) fn charged(&self) -> u64 {
        if self.is_allowed() { self.view().cost } else { 0 }
    }

    /// The same answer, but for a charge of `cost` units in total, with this mark.
    pub(crate) fn charging(self, cost: u64, mark: Mark) -> Self {
        match self {
            // The other figures stay, since they describe the word after the last charge.
            Self::Allowed(_) => Self::new(Verdict::Allowed, View { cost, mark, ..*self.view() }),
            // Nothing was charged, so the cost stays the cost that was denied.
            denied => denied,
        }
    }

    /// The number of ticks by which the word's debt is too high for the cost, or 0 if the decision was not made on a
    /// word of GCRA. Among several denials under GCRA at one rate, the denial with the smallest number has the shortest
    /// wait.
    pub(crate) fn shortage(&self) -> u64 {
        let View { figures, cost, .. } = self.view();
        match figures {
            // Only a word of GCRA has a debt in ticks.
            Figures::Word { kernel: Kernel::Gcra(gcra), held } => gcra.shortage(*held, *cost),
            _ => 0,
        }
    }
}

/// The data of a decision, from which each answer is computed on demand.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) figures: Figures,
    /// The instant from which the state of the word is measured: the caller's `now`, or the shard's time floor if that
    /// is later. For a penalty or a full table it is the end of the wait.
    pub(crate) at_ns: u64,
    /// The caller's `now`.
    pub(crate) now_ns: u64,
    pub(crate) cost: u64,
    /// The share by which the kernel's limit has been softened, in hundredths of a percent.
    pub(crate) soft_bp: u16,
    pub(crate) mark: Mark,
}

impl View {
    pub(crate) fn limit(&self) -> u64 {
        unsoftened(self.figures.limit(), self.soft_bp)
    }

    #[inline]
    fn remaining(&self) -> u64 {
        // This is a shortcut for the most common policy: GCRA without a soft limit needs no moment here.
        if let (Figures::Word { kernel: Kernel::Gcra(gcra), held }, 0) =
            (&self.figures, self.soft_bp)
            && self.at_ns <= self.now_ns
        {
            return gcra.remaining(*held, 0);
        }
        self.remaining_of_any()
    }

    #[inline(never)]
    fn remaining_of_any(&self) -> u64 {
        let left = self.figures.remaining(self.at_ns, self.now_ns);
        // `left` is counted up to S, the softened limit, and the answer is counted up to L, the limit that the policy
        // names. So the answer is `left` less S - L, but at least 0.
        left.saturating_sub(self.figures.limit() - self.limit())
    }

    /// Prints the answers, and not the state from which they are computed.
    fn describe<'s, 'a, 'b>(
        &self,
        shown: &'s mut fmt::DebugStruct<'a, 'b>,
        remaining: u64,
    ) -> &'s mut fmt::DebugStruct<'a, 'b> {
        shown
            .field("cost", &self.cost)
            .field("limit", &self.limit())
            .field("remaining", &remaining)
            .field("reset_after", &self.reset_after())
    }

    /// The answers of a log that was charged.
    pub(crate) fn of_charged_log(&self) -> Option<&Answers> {
        match &self.figures {
            Figures::Known(answers) if answers.slots.is_some() => Some(answers),
            // The decision was made on a word, by a spill, elsewhere, or on a log that was not charged.
            _ => None,
        }
    }

    fn is_spilled(&self) -> bool {
        matches!(self.figures, Figures::Known(Answers { spilled: true, .. }))
    }

    fn until(&self, instant_ns: u64) -> Duration {
        Duration::from_nanos(instant_ns.saturating_sub(self.now_ns))
    }

    fn reset_after(&self) -> Duration {
        self.until(self.figures.idle_ns(self.at_ns))
    }
}

/// The outcome of a request, and the state of its word as measured from `at_ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// The state before the request, which is needed to undo the charge.
    pub(crate) before: Held,
    pub(crate) mark: Mark,
    pub(crate) held: Held,
    pub(crate) at_ns: u64,
    /// The number of units that were charged, or the cost that was denied.
    pub(crate) cost: u64,
}

impl Outcome {
    /// The outcome under a policy with none of the options of [`AtLimit`](crate::AtLimit). The state of the word was
    /// `before`, and is `held` now.
    #[inline(always)]
    pub(crate) fn plain(verdict: Verdict, before: Held, held: Held, at_ns: u64, cost: u64) -> Self {
        // Only a policy with rules for its limit, or a full table, sets a mark.
        Self { verdict, mark: Mark::None, before, held, at_ns, cost }
    }

    /// The outcome of a request whose key was idle.
    pub(crate) fn of_idle(verdict: Verdict, held: Held, at_ns: u64, cost: u64) -> Self {
        // An undo restores the idle state, since an idle key owes nothing.
        Self { verdict, mark: Mark::None, before: Held::IDLE, held, at_ns, cost }
    }

    /// The decision on a request at `now_ns`, with answers that `kernel` computes.
    #[inline(always)]
    pub(crate) fn told(self, kernel: Kernel, now_ns: u64, soft_bp: u16) -> Decision {
        // `before` is for an undo, and is no part of the answer.
        let Self { verdict, mark, held, at_ns, cost, .. } = self;
        let figures = Figures::Word { kernel, held };
        Decision::new(verdict, View { figures, at_ns, now_ns, cost, soft_bp, mark })
    }
}
