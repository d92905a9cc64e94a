//! [`Limiter`]: one limit that many threads share.

use std::fmt;
use std::io::Read;
use std::marker::PhantomData;

use crossbeam_utils::CachePadded;

use crate::algorithm::Gcra;
use crate::cell::Cell;
use crate::change::{ChangeError, Changeable, Changing, Fixed, in_a_word};
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::keyed::ChangingCell;
use crate::log::{Log, LogRule};
use crate::meter::Meter;
use crate::policy::Policy;
use crate::refund::Amendment;
use crate::snapshot::RestoreError;
use crate::verb::Verb;
use crate::word::Word;

/// One limit, shared by all threads that have a reference to it.
///
/// The state is a single atomic word on its own cache line. A decision is one load and, if admitted,
/// one compare-and-swap; a denial writes nothing, unless the policy counts denials
/// ([`AtLimit`](crate::AtLimit)). No thread ever waits for another.
///
/// The times that a limiter is given may jump or run backward. A decision never lowers the stored time, so no spent
/// unit comes back because a `now` is late or is repeated. (Under a window, a late `now` is treated as the start of the
/// window in force.)
///
/// The quota is fixed, unless the limiter is built as [`changing`](LimiterBuilder::changing).
///
/// A sliding log ([`Policy::sliding_log`]) is stored in slots instead of a word: see [`Algorithm`](crate::Algorithm).
///
/// ```
/// use tollgate::{Limiter, Quota};
/// let limiter = Limiter::new(Quota::per_second(100).burst(20));
/// assert!(limiter.check().is_allowed());
/// assert_eq!(limiter.entry().peek(1).remaining(), 19);
/// ```
pub struct Limiter {
    pub(crate) state: State,
    pub(crate) clock: Clock,
    /// The policy with which the limiter was built.
    pub(crate) policy: Policy,
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("policy", &self.policy())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Changing<Limiter> {
    /// Changes the quota of the limiter. Decisions that begin after this call has returned use the new quota. A
    /// decision that is under way uses either the old or the new quota, never a mixture. The change takes place at the
    /// time of the limiter's clock. If the clock reads earlier than at the last change, the time of the last change is
    /// used.
    ///
    /// Spent units stay spent. Across a change, the bound is the same as for [a keyed limiter](Changing): the larger of
    /// the two bursts, plus the units that come back under each quota while it is in force.
    ///
    /// In a sliding log, units that were admitted before a change are counted after it for the rest of their window,
    /// even if the limit was higher then. A request is admitted if these units and its cost are at most the limit in
    /// force. A permit from before a change of the count gives back nothing, even if the count is changed back. While a
    /// change is under way, no units are given back except by a reset. After the count has been lowered,
    /// [`uncharge`](crate::Entry::uncharge) first gives back the units beyond the lower limit. A change of the count
    /// reads all slots up to some 70 times, or more often if other threads write slots meanwhile.
    ///
    /// # Errors
    /// Returns an error if the limiter could not have been built as [`changing`](LimiterBuilder::changing) with the new
    /// quota, if the new policy is a sliding log and the limiter is not, or if another change is under way. For a
    /// sliding log there are three more cases: the new policy differs in more than its count; the count is above the
    /// count of the first policy; or another thread is in the middle of a request of several units or of a refund.
    /// After an error nothing has changed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder(Quota::per_second(10).burst(100)).clock(clock.clone()).changing().build()?;
    /// assert!(limiter.check_n(100).is_allowed());
    /// clock.advance(Duration::from_secs(2));
    /// // 80 are owed, and 20 of them more than the new burst.
    /// limiter.set_quota(Quota::per_second(1).burst(60))?;
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(limiter.entry().peek(1).remaining(), 5);
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn set_quota(&self, policy: impl Into<Policy>) -> Result<(), ChangeError> {
        self.0.change(policy.into(), self.clock.now())
    }
}

/// Builds a [`Limiter`]. [`Limiter::builder`] makes this builder, and [`build`](LimiterBuilder::build) or
/// [`restore`](LimiterBuilder::restore) makes the limiter.
///
/// ```
/// use tollgate::{Limiter, ManualClock, Quota};
/// let limiter = Limiter::builder(Quota::per_hour(2)).clock(ManualClock::new()).build();
/// assert!(limiter.check_n(2).is_allowed());
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct LimiterBuilder<Q = Fixed> {
    policy: Policy,
    clock: Option<Clock>,
    quota: PhantomData<Q>,
}

impl<Q> LimiterBuilder<Q> {
    /// The clock from which the limiter reads the time. By default this is the machine's fastest clock
    /// ([`Clock::monotonic`]), or [`Clock::unix`] if the policy needs the date.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota, Timestamp};
    /// let limiter = Limiter::builder(Quota::per_second(5)).clock(ManualClock::new()).build();
    /// assert_eq!(limiter.now(), Timestamp::default());
    /// ```
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// The policy, and the clock that the caller gave. If the caller gave none, it is the fastest clock that the policy
    /// can use.
    fn parts(self) -> (Policy, Clock) {
        let Self { policy, clock, quota: _ } = self;
        (policy, clock.unwrap_or_else(|| Policy::clock_for([&policy])))
    }
}

impl LimiterBuilder {
    /// A limiter whose quota can be [changed](Changing::set_quota) while other threads decide.
    ///
    /// No thread ever waits for another, and nothing is allocated after the limiter has been built. Spent units stay
    /// spent across a change, and across changes back and forth (as in [a keyed limiter](Changing)). Each decision
    /// takes a few nanoseconds longer, and the time in a word has fewer bits. At 10 units per second a tick is 1/4096
    /// of the time in which a unit comes back, at 1,000 units 1/512, and at a million units 1/16. Rates above 140
    /// million units per second do not fit. (With a fixed quota without options at its limit, 2.2 billion units per
    /// second fit, and a tick is shorter than 1 ns unless a burst takes more than a century to come back.)
    ///
    /// One thing is assumed: no thread sleeps in the middle of a decision while four changes are made at one instant of
    /// the clock. Such a thread might mistake a new word for the word that it had read, and then a charge would be
    /// lost.
    ///
    /// A sliding log gets its slots when it is built, so its count can never be higher than the count with which it is
    /// built. After the count has been lowered once, each decision may read all slots.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(100)).changing().build()?;
    /// assert!(limiter.check_n(70).is_allowed());
    /// limiter.set_quota(Quota::per_hour(80))?;
    /// assert_eq!(limiter.entry().peek(1).remaining(), 10);
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn changing(self) -> LimiterBuilder<Changeable> {
        LimiterBuilder { policy: self.policy, clock: self.clock, quota: PhantomData }
    }

    /// The limiter.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// assert!(Limiter::builder(Quota::per_second(5)).build().check().is_allowed());
    /// ```
    #[must_use]
    pub fn build(self) -> Limiter {
        let (policy, clock) = self.parts();
        Limiter::holding(Word::UNUSED, policy, clock)
    }

    /// Builds the limiter from its [`snapshot`](Limiter::snapshot), with the charges of the snapshot.
    ///
    /// Charges drain for the time that has passed by the wall clock. Give the limiter the same kind of clock as before.
    /// A clock with an origin of its own is continued from the reading of the old clock: see [`Clock::resumed_at`].
    ///
    /// # Errors
    /// Returns an error if the reader fails, if the file is damaged, or if it is not a snapshot of a limiter with this
    /// policy and this kind of clock.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, RestoreError};
    /// let mut file = Vec::new();
    /// Limiter::new(Quota::per_hour(2)).snapshot(&mut file)?;
    /// let refused = Limiter::builder(Quota::per_hour(3)).restore(&file[..]);
    /// assert!(matches!(refused, Err(RestoreError::Policy(_))));
    /// # Ok::<(), tollgate::SnapshotError>(())
    /// ```
    pub fn restore(self, reader: impl Read) -> Result<Limiter, RestoreError> {
        let (policy, clock) = self.parts();
        Limiter::read(policy, clock, reader)
    }
}

impl LimiterBuilder<Changeable> {
    /// The limiter.
    ///
    /// # Errors
    /// Returns an error if the policy does not fit in a word beside the index of its quota, or if it needs the date and
    /// the clock does not give it.
    ///
    /// ```
    /// use tollgate::{ChangeError, Limiter, Quota};
    /// let refused = Limiter::builder(Quota::per_second(2_000_000_000)).changing().build();
    /// assert!(matches!(refused, Err(ChangeError::DoesNotFit { .. })));
    /// ```
    pub fn build(self) -> Result<Changing<Limiter>, ChangeError> {
        let (policy, clock) = self.parts();
        // A change of a log's count only changes its slots. For every other policy the quotas are stored beside the
        // word, and the word contains the index of its quota.
        let state = match LogRule::of(&policy) {
            Some(rule) => State::Log(Box::new(Log::changing(rule, policy))),
            None => State::Changing(Box::new(ChangingCell::new(in_a_word(policy, &clock)?)?)),
        };
        Ok(Changing(Limiter { state, clock, policy }))
    }
}

/// The state of a limiter.
#[derive(Debug)]
#[repr(u8)] // so that one comparison tells the first case from all others
pub(crate) enum State {
    /// A word of plain GCRA, which is the case for nearly all limiters. Its decisions are inline.
    Plain { cell: CachePadded<Cell>, gcra: Gcra },
    /// A word of any other policy than plain GCRA.
    Word { cell: CachePadded<Cell>, meter: Meter },
    /// A word whose quota may change.
    Changing(Box<ChangingCell>),
    /// A sliding log, with a fixed count or a count that may change.
    Log(Box<Log>),
}

impl Limiter {
    /// A limiter with the machine's fastest clock ([`Clock::monotonic`]; [`Clock::unix`] for windows of the calendar).
    /// For other settings use a [`builder`](Limiter::builder).
    ///
    /// A limiter needs no memory besides its own size. Only a sliding log allocates memory, in this call: a little more
    /// than 8 bytes for each unit, so about 8 MiB at most.
    ///
    /// ```
    /// use tollgate::{Limiter, Policy};
    /// let limiter = Limiter::new("fixed-window 100/m".parse::<Policy>()?);
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn new(policy: impl Into<Policy>) -> Self {
        Self::builder(policy).build()
    }

    /// Makes a builder for a limiter of this policy. Use it to choose the clock, to have a quota that may change, or to
    /// restore a limiter from a file.
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder(Quota::per_second(5)).clock(clock.clone()).build();
    /// assert!(limiter.check_n(5).is_allowed());
    /// assert!(!limiter.check().is_allowed());
    /// ```
    pub fn builder(policy: impl Into<Policy>) -> LimiterBuilder {
        LimiterBuilder { policy: policy.into(), clock: None, quota: PhantomData }
    }

    /// A limiter that starts with the state in a word.
    pub(crate) fn holding(word: Word, policy: Policy, clock: Clock) -> Self {
        let state = match Meter::of(&policy) {
            Some(meter) => {
                let cell = CachePadded::new(Cell::new(word));
                match meter.plain {
                    Some(gcra) => State::Plain { cell, gcra },
                    None => State::Word { cell, meter },
                }
            }
            None => State::Log(Box::new(Log::new(LogRule::in_slots(&policy)))),
        };
        Self { state, clock, policy }
    }

    fn change(&self, policy: Policy, now: Timestamp) -> Result<(), ChangeError> {
        match &self.state {
            State::Changing(changing) => changing.set_quota(in_a_word(policy, &self.clock)?, now),
            State::Log(log) => log.set_quota(policy),
            // This never happens: only a limiter that was built as changing has a `set_quota`, and it has neither of
            // these states.
            State::Plain { .. } | State::Word { .. } => {
                Err(ChangeError::DoesNotFit { state_bits: 0 })
            }
        }
    }

    /// [`set_quota`](Changing::set_quota) at a time that a model chooses. Reading a clock would add a step to the
    /// model.
    ///
    /// # Errors
    /// As [`set_quota`](Changing::set_quota).
    #[cfg(any(loom, shuttle))]
    #[doc(hidden)]
    pub fn set_quota_at(
        &self,
        policy: impl Into<Policy>,
        now: Timestamp,
    ) -> Result<(), ChangeError> {
        self.change(policy.into(), now)
    }

    /// The longest wait of a request under the policy in force, and the largest number of units behind which it may
    /// wait. Returns `None` if the policy has no queue.
    pub(crate) fn queue(&self) -> Option<[u64; 2]> {
        match &self.state {
            // A queue does not change how a check is decided, so plain GCRA may have a queue.
            State::Plain { .. } => self.policy.queue_bounds(),
            State::Word { meter, .. } => meter.rules.queue,
            State::Changing(changing) => changing.rules().queue,
            State::Log(log) => log.rule().queue,
        }
    }

    /// True if the policy in force counts denials.
    #[inline(always)]
    pub(crate) fn counts_denials(&self) -> bool {
        match &self.state {
            State::Plain { .. } => false,
            State::Word { meter, .. } => meter.rules.count_denials(),
            State::Changing(changing) => changing.rules().count_denials(),
            State::Log(log) => log.rule().counts_denials,
        }
    }

    /// The policy that the limiter enforces now: the policy with which it was built, or the policy of the last change.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.changed().unwrap_or(self.policy)
    }

    /// The policy in force, if the limiter's quota may change.
    fn changed(&self) -> Option<Policy> {
        match &self.state {
            State::Plain { .. } | State::Word { .. } => None,
            State::Changing(changing) => changing.policy(),
            State::Log(log) => log.policy(),
        }
    }

    /// The present reading of the limiter's clock, which is the time that [`check`](Limiter::check) would use.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides a request of one unit now, and charges it if it is admitted: the short form of
    /// [`check_n`](Limiter::check_n).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(2));
    /// assert!(limiter.check().is_allowed());
    /// ```
    #[inline]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Decides a request of `cost` units now, and charges it if it is admitted. A request of 0 units charges nothing.
    /// To decide without charging, use [`peek`](crate::Entry::peek).
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(2));
    /// assert!(limiter.check_n(2).is_allowed());
    /// assert!(!limiter.check().is_allowed());
    /// ```
    #[inline]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.decide(self.clock.now(), cost)
    }

    #[inline(always)]
    fn decide(&self, now: Timestamp, cost: u64) -> Decision {
        match &self.state {
            State::Plain { cell, gcra } => cell.check_plain(gcra, now, cost),
            _ => self.decide_apart(now, cost),
        }
    }

    /// Decides a check for all limiters other than plain GCRA. These checks share one function, since a second call
    /// would cost the plain path a register. Each arm is a tail call, so this function only jumps to the code that
    /// decides.
    #[inline(never)]
    fn decide_apart(&self, now: Timestamp, cost: u64) -> Decision {
        match &self.state {
            State::Changing(changing) => changing.check(cost, now),
            // The code of a log is behind a call, since it would need a stack frame here. Plain GCRA does not get here,
            // since `decide` has its code inline.
            State::Log(_) | State::Plain { .. } => {
                self.ask_slowly(Verb::Check, cost, now, cost > 0)
            }
            // All other fixed policies are decided by code for the layout of their word.
            State::Word { cell, meter } => cell.check_laid_out(meter, now, cost),
        }
    }

    #[inline(always)]
    fn look(&self, now: Timestamp, cost: u64) -> Decision {
        match &self.state {
            State::Plain { cell, gcra } => cell.peek(&Meter::plain(*gcra), now, cost),
            State::Word { cell, meter } => cell.peek(meter, now, cost),
            _ => self.ask_slowly(Verb::Check, cost, now, false),
        }
    }

    /// Decides requests of every verb for logs and for limiters whose quota may change. For the other limiters it
    /// decides requests of every verb except checks.
    #[inline(never)]
    fn ask_slowly(&self, verb: Verb, cost: u64, now: Timestamp, charge: bool) -> Decision {
        match &self.state {
            // The quota in force decides. The word has the index of the quota under which it is counted.
            State::Changing(changing) => match verb {
                // Only peeks come here: checks that charge have a path of their own.
                Verb::Check => changing.check_by_code(cost, now, charge),
                _ => changing.ask(verb, cost, now, charge),
            },
            State::Log(log) => log.ask(verb, cost, now, charge),
            // Checks do not come here, since they have an inline path.
            State::Plain { cell, gcra } => cell.ask(&Meter::plain(*gcra), now, verb, cost, charge),
            State::Word { cell, meter } => cell.ask(meter, now, verb, cost, charge),
        }
    }

    #[inline(always)]
    pub(crate) fn ask(&self, verb: Verb, cost: u64, now: Timestamp, charge: bool) -> Decision {
        match verb {
            Verb::Check if charge => self.decide(now, cost),
            Verb::Check => self.look(now, cost),
            _ => self.ask_slowly(verb, cost, now, charge),
        }
    }

    pub(crate) fn amend(&self, now: impl Fn() -> Timestamp, amendment: Amendment<'_>) -> u64 {
        match &self.state {
            // The word may now belong to another quota than at the time of the charge.
            State::Changing(changing) => changing.amend(now, amendment),
            State::Log(log) => log.amend(now(), amendment),
            State::Plain { cell, gcra } => cell.amend(&Meter::plain(*gcra), now, amendment),
            State::Word { cell, meter } => cell.amend(meter, now, amendment),
        }
    }
}
