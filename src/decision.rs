//! [`Decision`]: the answer to one request. Small, `Copy`, and computed only as far as it is asked.

mod late;
mod marks;

use std::fmt;
use std::time::Duration;

use crate::algorithm::{Answers, Decides, Held, Kernel, unsoftened};
use crate::clock::Timestamp;

/// The answer to one request.
///
/// ```
/// use tollgate::{Decision, Limiter, Quota};
/// let limiter = Limiter::new(Quota::per_hour(1));
/// assert!(limiter.check(1).is_allowed());
/// match limiter.check(1) {
///     Decision::Allowed(permit) => unreachable!("{permit:?}"),
///     Decision::Denied(denial) => assert!(denial.retry_after().unwrap().as_secs() > 3_590),
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub enum Decision {
    // First, so that whether a request is allowed is the discriminant itself: an instruction less.
    /// The request must not go; nothing was charged or written, unless the policy counts denials
    /// ([`AtLimit`](crate::AtLimit)).
    Denied(Denial),
    /// The request may go; its cost is charged (a peek charges nothing).
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

    /// Whether the request may go.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// assert!(Limiter::new(Quota::per_second(5)).check(1).is_allowed());
    /// ```
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Whether it was made in the spill, because the key was new and a keyed table had no cell for it: see
    /// [`Full::Spill`](crate::Full::Spill). The figures may then show others' traffic.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::with_clock(Quota::per_hour(5), 1, ManualClock::new())?;
    /// assert!(!limiter.check(&0_u64, 1).is_spilled());
    /// let spilled = (1..100).filter(|key| limiter.check(key, 1).is_spilled()).count();
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
    /// The [`Denial`], if denied.
    ///
    /// ```
    /// use tollgate::{Denial, Limiter, Quota};
    /// fn serve(limiter: &Limiter) -> Result<&'static str, Denial> {
    ///     limiter.check(1).into_result()?;
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

    fn view(&self) -> &View {
        match self {
            Self::Allowed(permit) => &permit.view,
            Self::Denied(denial) => &denial.view,
        }
    }

    /// The most units that can be admitted at one instant: the burst, or the window's limit. Under a
    /// soft policy the limit as it is named, not what it is softened to.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// assert_eq!(Limiter::new(Quota::per_second(100).burst(20)).check(1).limit(), 20);
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.view().limit()
    }

    /// Units left at the time of the decision, after it: the largest cost that would then be admitted.
    /// Under a soft policy up to the limit as it is named, and 0 beyond.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// assert_eq!(Limiter::new(Quota::per_hour(10)).check(3).remaining(), 7);
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        match self {
            Self::Allowed(permit) => permit.remaining(),
            Self::Denied(denial) => denial.remaining(),
        }
    }

    /// How long after the decision the whole [`limit`](Decision::limit) is there again, if nothing else
    /// happens. Rounded up to the nanosecond.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_minute(6), ManualClock::new());
    /// assert_eq!(limiter.check(2).reset_after(), Duration::from_secs(20));
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.view().reset_after()
    }
}

impl Decision {
    /// How much more than the cost allows the word holds: the least of several denials is the first to
    /// be admitted. In ticks, so only for decisions under GCRA at one rate.
    pub(crate) fn shortage(&self) -> u64 {
        let View { kernel, held, cost, .. } = self.view();
        match kernel {
            Kernel::Gcra(gcra) | Kernel::RuledGcra(gcra) => gcra.shortage(*held, *cost),
            _ => 0,
        }
    }
}

/// How a decision went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Denied,
    Allowed,
}

/// What else is to be said of it. Apart from the verdict, which is asked for every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    /// Admitted, but above the limit that a soft policy names.
    Over,
    /// Denied because the key was new and the table had no cell; the view is of an idle word at the
    /// instant at which the first cell can be had.
    TableFull,
    /// Denied because the word is penalised; the view is of an idle word at the end of the penalty.
    Penalty,
    /// Admitted by something else than the word of this view, which was charged nothing.
    Lent,
}

/// What is known at the moment of a decision, from which every answer is computed on demand.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) kernel: Kernel,
    /// What the word holds, seen from `at_ns`.
    pub(crate) held: Held,
    /// The instant that the word was seen from: the caller's now, or the time floor above it.
    pub(crate) at_ns: u64,
    /// The caller's now.
    pub(crate) now_ns: u64,
    pub(crate) cost: u64,
    /// By how much the kernel's limit has been softened, in hundredths of a percent.
    pub(crate) soft_bp: u16,
    pub(crate) mark: Mark,
}

impl View {
    /// Of a policy that says nothing of its limit.
    pub(crate) fn plain(kernel: Kernel, held: Held, at_ns: u64, now_ns: u64, cost: u64) -> Self {
        Self { kernel, held, at_ns, now_ns, cost, soft_bp: 0, mark: Mark::None }
    }

    fn limit(&self) -> u64 {
        unsoftened(self.kernel.limit(), self.soft_bp)
    }

    #[inline]
    fn remaining(&self) -> u64 {
        // A shortcut for the most common policy: no moment is looked at, and nothing is softened.
        if let (Kernel::Gcra(gcra), 0) = (&self.kernel, self.soft_bp)
            && self.at_ns <= self.now_ns
        {
            return gcra.remaining(self.held, 0);
        }
        self.remaining_of_any()
    }

    #[inline(never)]
    fn remaining_of_any(&self) -> u64 {
        let late = self.kernel.lateness(self.now_ns, self.at_ns);
        let left = self.kernel.remaining(self.held, self.kernel.moment(self.at_ns), late);
        left.saturating_sub(self.kernel.limit() - self.limit())
    }

    /// The answers, not what they are computed from.
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

    fn is_spilled(&self) -> bool {
        matches!(self.kernel, Kernel::Log(Answers { spilled: true, .. }))
    }

    fn until(&self, instant_ns: u64) -> Duration {
        Duration::from_nanos(instant_ns.saturating_sub(self.now_ns))
    }

    fn reset_after(&self) -> Duration {
        self.until(self.kernel.idle_ns(self.held, self.at_ns))
    }
}

/// An admitted request.
///
/// A permit orders no other memory: what one thread wrote before its decision is not thereby visible to
/// a thread that decides later.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// let permit = Limiter::new(Quota::per_hour(10)).check(3).into_result()?;
/// assert_eq!((permit.cost(), permit.limit(), permit.remaining()), (3, 10, 7));
/// # Ok::<(), tollgate::Denial>(())
/// ```
#[derive(Clone, Copy)]
pub struct Permit {
    view: View,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view
            .describe(&mut f.debug_struct("Permit"), self.remaining())
            .field("is_over", &self.is_over())
            .finish()
    }
}

impl Permit {
    /// The units that were charged. A peek charges none.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let permit = Limiter::new(Quota::per_hour(10)).check(3).into_result()?;
    /// assert_eq!(permit.cost(), 3);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.view.cost
    }

    /// This permit for at most so many of its units: to refund what was charged and not used.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_hour(10), ManualClock::new());
    /// let permit = limiter.check(8).into_result()?;
    /// // Three were enough.
    /// assert_eq!(limiter.refund(permit.portion(5)), 5);
    /// assert_eq!(limiter.peek(1).remaining(), 7);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn portion(mut self, units: u64) -> Self {
        self.view.cost = self.view.cost.min(units);
        self
    }

    /// The now of the request.
    pub(crate) fn asked_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.view.now_ns)
    }

    /// The first instant at which the debt that it left is no more than the burst. What a window admits
    /// it admits at once, also when it has begun later than the request's time.
    pub(crate) fn ready_at(&self) -> Timestamp {
        let View { kernel, held, at_ns, now_ns, .. } = self.view;
        Timestamp::from_nanos(if kernel.is_gcra() {
            kernel.ready_ns(held, at_ns, 0)
        } else {
            now_ns
        })
    }

    /// What this permit has charged, if it has charged anything.
    pub(crate) fn charge(&self) -> Option<&View> {
        (self.view.cost > 0 && self.view.mark != Mark::Lent).then_some(&self.view)
    }

    /// As [`Decision::is_spilled`]. Such a permit gives nothing back: what was charged in the spill drains.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota};
    /// let limiter = KeyedLimiter::with_clock(Quota::per_hour(5), 1, ManualClock::new())?;
    /// for key in 0..100_u64 {
    ///     let permit = limiter.check(&key, 1).into_result().expect("the spill holds a hundred");
    ///     assert_eq!(limiter.refund(&key, permit), u64::from(!permit.is_spilled()));
    /// }
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        self.view.is_spilled()
    }

    /// As [`Decision::limit`].
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let permit = Limiter::new(Quota::per_hour(10)).check(3).into_result()?;
    /// assert_eq!(permit.limit(), 10);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.view.limit()
    }

    /// As [`Decision::remaining`].
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let permit = Limiter::new(Quota::per_hour(10)).check(3).into_result()?;
    /// assert_eq!(permit.remaining(), 7);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.view.remaining()
    }

    /// As [`Decision::reset_after`].
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_minute(6), ManualClock::new());
    /// let permit = limiter.check(2).into_result()?;
    /// assert_eq!(permit.reset_after().as_secs(), 20);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.view.reset_after()
    }
}

/// A denied request. As an error it says when to return.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Quota};
/// let limiter = Limiter::with_clock(Quota::per_minute(6).burst(1), ManualClock::new());
/// assert!(limiter.check(1).is_allowed());
/// let denial = limiter.check(1).into_result().unwrap_err();
/// assert_eq!(denial.retry_after(), Some(Duration::from_secs(10)));
/// assert_eq!(denial.to_string(), "rate limited: retry after 10s");
/// ```
#[derive(Clone, Copy)]
pub struct Denial {
    view: View,
}

impl Denial {
    /// A permit that was given by something else than what this denies; its figures stay.
    #[inline]
    pub(crate) fn into_permit(self) -> Permit {
        Permit { view: View { mark: Mark::Lent, ..self.view } }
    }

    /// How long to wait until the same cost would be admitted if nothing else happens: waiting exactly
    /// that long succeeds. Rounded up to the nanosecond. `None` if it never would.
    ///
    /// If the table was full ([`is_table_full`](Denial::is_table_full)), the time until the first cell
    /// that the key could take becomes free. Under a penalty ([`is_penalty`](Denial::is_penalty)), the
    /// time until its end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_second(4).burst(1), ManualClock::new());
    /// assert!(limiter.check(1).is_allowed());
    /// let denial = limiter.check(1).into_result().unwrap_err();
    /// assert_eq!(denial.retry_after(), Some(Duration::from_millis(250)));
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.is_never() {
            return None;
        }
        let View { kernel, held, at_ns, cost, .. } = self.view;
        let by_limit = self.view.mark == Mark::None;
        let ready_ns = if by_limit { kernel.ready_ns(held, at_ns, cost) } else { at_ns };
        Some(self.view.until(ready_ns))
    }

    /// [`retry_after`](Denial::retry_after) in whole seconds, rounded up and at least 1: what an HTTP
    /// `Retry-After` header says. A client that obeys it is not sent away again for coming early.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let limiter = Limiter::with_clock(Quota::per_second(4).burst(1), ManualClock::new());
    /// assert!(limiter.check(1).is_allowed());
    /// let denial = limiter.check(1).into_result().unwrap_err();
    /// assert_eq!(denial.retry_after_secs(), Some(1));
    /// ```
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        let wait = self.retry_after()?;
        Some((wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1))
    }

    /// Whether this cost is above the limit (under a soft policy, above what it is softened to), so that
    /// it never fits. Nothing was charged.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let denial = Limiter::new(Quota::per_hour(10)).check(11).into_result().unwrap_err();
    /// assert!(denial.is_never());
    /// assert_eq!(denial.retry_after(), None);
    /// ```
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.view.cost > self.view.kernel.limit()
    }

    /// Whether the key was denied not by its quota but because it was new and the table had no cell
    /// for it, or other installs of the same key got in its way 8 times. Where the table has a spill
    /// ([`Full::Spill`](crate::Full::Spill)) that decides instead, unless the request's time is far from what
    /// others have told the table.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let denial = Limiter::new(Quota::per_hour(10)).check(11).into_result().unwrap_err();
    /// assert!(!denial.is_table_full());
    /// ```
    #[must_use]
    pub fn is_table_full(&self) -> bool {
        self.view.mark == Mark::TableFull
    }

    /// As [`Decision::is_spilled`]. Others' traffic may be the reason; waiting for
    /// [`retry_after`](Denial::retry_after) succeeds all the same, if nothing else happens.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let denial = Limiter::new(Quota::per_hour(10)).check(11).into_result().unwrap_err();
    /// assert!(!denial.is_spilled());
    /// ```
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        self.view.is_spilled()
    }

    /// The units that were asked for.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let denial = Limiter::new(Quota::per_hour(10)).check(11).into_result().unwrap_err();
    /// assert_eq!(denial.cost(), 11);
    /// ```
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.view.cost
    }

    /// As [`Decision::limit`].
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let denial = Limiter::new(Quota::per_hour(10)).check(11).into_result().unwrap_err();
    /// assert_eq!(denial.limit(), 10);
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.view.limit()
    }

    /// As [`Decision::remaining`]: a smaller cost may still fit. 0 if the table was full, and under a
    /// penalty.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let denial = Limiter::new(Quota::per_hour(10)).check(11).into_result().unwrap_err();
    /// assert_eq!(denial.remaining(), 10);
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        if self.view.mark == Mark::None { self.view.remaining() } else { 0 }
    }

    /// As [`Decision::reset_after`].
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let denial = Limiter::new(Quota::per_hour(10)).check(11).into_result().unwrap_err();
    /// assert!(denial.reset_after().is_zero());
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.view.reset_after()
    }
}

impl fmt::Debug for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view
            .describe(&mut f.debug_struct("Denial"), self.remaining())
            .field("retry_after", &self.retry_after())
            .field("is_table_full", &self.is_table_full())
            .field("is_penalty", &self.is_penalty())
            .finish()
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after().map(round_up_to_millis) {
            Some(wait) if self.is_table_full() => {
                write!(f, "no room for a new key in a full table: retry after {wait:?}")
            }
            Some(wait) if self.is_penalty() => {
                write!(f, "rate limited, and now refused for a while: retry after {wait:?}")
            }
            Some(wait) => write!(f, "rate limited: retry after {wait:?}"),
            None => write!(
                f,
                "rate limited: a cost of {} never fits in a limit of {}",
                self.cost(),
                self.view.kernel.limit(),
            ),
        }
    }
}

impl std::error::Error for Denial {}

/// For people to read: nobody wants to see the nanoseconds of a wait.
fn round_up_to_millis(wait: Duration) -> Duration {
    let millis = wait.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
