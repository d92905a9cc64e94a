//! [`Meter`]: a policy compiled to arithmetic on one [`Word`].

use crate::algorithm::{Decides, Gcra, Held, Kernel, Moment, Ruled, Rules, unsoftened};
use crate::clock::Timestamp;
use crate::decision::{Decision, Outcome};
use crate::error::BuildError;
use crate::policy::{Policy, no_word};
use crate::verb::{Asked, Check, HeldAt, plan};
use crate::verdict::Verdict;
use crate::word::{Fields, Reads, Word};

/// The longest debt that a word without counts can hold, in ticks. The time itself stays below 2^63 until the latest
/// time. If a word also holds counts, the time and the longest debt each lose as many bits as the counts take.
const MOST: u64 = 1 << 63;

/// A policy compiled to arithmetic: a pure function from (word, now, cost) to (decision, word).
///
/// It has no clock and no shared state. [`Limiter`](crate::Limiter) is this function and an atomic word; simulators,
/// replays, tests and your own stores can use the function directly.
///
/// ```
/// use tollgate::{Meter, Policy, Timestamp, Word};
/// let meter = Meter::new("fixed-window 2/m".parse::<Policy>()?)?;
/// let mut word = Word::UNUSED;
/// let mut admitted = 0;
/// for second in [0, 10, 20, 59, 60] {
///     let (decision, next) = meter.check(word, Timestamp::from_secs(second), 1);
///     admitted += u32::from(decision.is_allowed());
///     word = next;
/// }
/// assert_eq!(admitted, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    pub(crate) kernel: Kernel,
    pub(crate) fields: Fields,
    /// The rules about what happens at the limit.
    pub(crate) rules: Rules,
    /// A copy of the kernel if the policy is GCRA without rules for its limit, else `None`. A decision compares this
    /// field once to choose the code for plain GCRA.
    pub(crate) plain: Option<Gcra>,
}

impl Meter {
    /// Compiles a policy.
    ///
    /// # Errors
    /// Returns an error if the policy is a sliding log, which is stored in slots and not in a word.
    pub fn new(policy: impl Into<Policy>) -> Result<Self, BuildError> {
        let policy = policy.into();
        Self::of(&policy).ok_or_else(|| no_word(&policy))
    }

    /// `None` if the policy is stored in slots.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        let (kernel, fields, rules) = policy.compile()?;
        let plain = kernel.gcra().filter(|_| rules.are_none()).copied();
        Some(Self { kernel, fields, rules, plain })
    }

    /// The meter of plain GCRA in a word that holds nothing but the time.
    pub(crate) fn plain(gcra: Gcra) -> Self {
        let (fields, rules) = (Fields::TIME_ALONE, Rules::default());
        Self { kernel: Kernel::Gcra(gcra), fields, rules, plain: Some(gcra) }
    }

    /// The largest number of units that can be admitted at one instant: the burst, or the window's limit. For a soft
    /// policy it is the limit in the policy's text, without the soft share.
    #[must_use]
    pub fn limit(&self) -> u64 {
        unsoftened(self.kernel.limit(), self.rules.soft_bp)
    }

    /// Decides a request of `cost` units at `now`, and returns the word afterwards. A cost of 0 leaves the word as it
    /// was, bit for bit. So does a denial, unless the policy counts denials.
    ///
    /// ```
    /// use tollgate::{Meter, Quota, Timestamp, Word};
    /// let meter = Meter::new(Quota::per_second(1))?;
    /// let now = Timestamp::from_secs(5);
    /// let (first, word) = meter.check(Word::UNUSED, now, 1);
    /// let (second, same) = meter.check(word, now, 1);
    /// assert!(first.is_allowed() && !second.is_allowed());
    /// assert_eq!(same, word);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check(&self, word: Word, now: Timestamp, cost: u64) -> (Decision, Word) {
        // For a policy without rules for its limit, there is code that does not test for rules.
        if self.rules.are_none() {
            let step = Step::of(&self.kernel, self.fields, word, now, Check::of(cost));
            return (step.decision(self.kernel, 0), step.word);
        }
        let step = Step::of(&self.ruled(), self.fields, word, now, Check::of(cost));
        (step.decision(self.kernel, self.rules.soft_bp), step.word)
    }

    /// Decides without charging: would a request of `cost` units be admitted at `now`?
    ///
    /// ```
    /// use tollgate::{Meter, Quota, Timestamp, Word};
    /// let meter = Meter::new(Quota::per_second(3))?;
    /// let answer = meter.peek(Word::UNUSED, Timestamp::default(), 2);
    /// assert!(answer.is_allowed());
    /// assert_eq!(answer.remaining(), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn peek(&self, word: Word, now: Timestamp, cost: u64) -> Decision {
        let question = Check { cost, charge: false };
        if self.rules.are_none() {
            let step = Step::of(&self.kernel, self.fields, word, now, question);
            return step.decision(self.kernel, 0);
        }
        let step = Step::of(&self.ruled(), self.fields, word, now, question);
        step.decision(self.kernel, self.rules.soft_bp)
    }

    /// The largest distance by which the time may lie ahead in a word without an index of a quota.
    pub(crate) fn most(&self) -> u64 {
        // Counts in the word shorten the time, and so the distance by which it may lie ahead.
        MOST >> self.fields.count_bits
    }

    pub(crate) fn ruled(&self) -> Ruled<'_> {
        Ruled { kernel: &self.kernel, rules: &self.rules }
    }
}

/// The outcome of a request on a word, and the word afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) outcome: Outcome,
    /// The word afterwards.
    pub(crate) word: Word,
    now_ns: u64,
}

impl Step {
    /// A step of plain GCRA: its verdict, the states before and after it, the word afterwards, the time and the cost.
    #[inline(always)]
    pub(crate) fn plain(
        verdict: Verdict,
        [before, held]: [Held; 2],
        word: Word,
        now_ns: u64,
        cost: u64,
    ) -> Self {
        Self { outcome: Outcome::plain(verdict, before, held, now_ns, cost), word, now_ns }
    }

    /// A decision on a whole word.
    #[inline(always)]
    pub(crate) fn of<A: Decides>(
        algorithm: &A,
        fields: impl Reads,
        word: Word,
        now: Timestamp,
        asked: impl Asked<A>,
    ) -> Self {
        // A time after the latest time is replaced by the latest time.
        let now_ns = now.as_nanos().min(algorithm.latest_ns());
        Self::at(algorithm, fields, word, now_ns, algorithm.moment(now_ns), asked)
    }

    /// The same as [`of`](Self::of), for a caller that already has the moment of `now_ns`.
    #[inline(always)]
    pub(crate) fn at<A: Decides>(
        algorithm: &A,
        fields: impl Reads,
        word: Word,
        now_ns: u64,
        moment: Moment,
        asked: impl Asked<A>,
    ) -> Self {
        let held = fields.unpack(word, moment);
        let seen = HeldAt { held, at_ns: now_ns, moment, late: 0 };
        // A request that writes nothing keeps `word`, bit for bit.
        let written = |next| fields.pack(word, next, moment);
        let (outcome, word) = plan(algorithm, asked, seen, word, written);
        Self { outcome, word, now_ns }
    }

    #[inline(always)]
    pub(crate) fn decision(self, kernel: Kernel, soft_bp: u16) -> Decision {
        self.outcome.told(kernel, self.now_ns, soft_bp)
    }

    /// The same step, with the answer that a policy with these rules gives.
    pub(crate) fn told(self, ruled: &Ruled<'_>) -> Self {
        let Outcome { verdict, held, .. } = self.outcome;
        let (mark, held, at_ns) = ruled.tell(verdict, held, self.now_ns, 0, 0);
        Self { outcome: Outcome { mark, held, at_ns, ..self.outcome }, ..self }
    }
}
