//! [`Meter`]: a policy compiled to arithmetic on one [`Word`].

use crate::algorithm::{Decides, Gcra, Held, Kernel, Moment, Ruled, Rules, unsoftened};
use crate::clock::Timestamp;
use crate::decision::{Decision, Outcome};
use crate::error::BuildError;
use crate::policy::{Policy, no_word};
use crate::verb::{Asked, Check, HeldAt, plan};
use crate::verdict::Verdict;
use crate::word::{Fields, Reads, Word};

/// The longest debt in a whole word, in ticks: the time itself stays below 2^63 until the latest. Counts beside it
/// take as many bits of both.
const MOST: u64 = 1 << 63;

/// A policy compiled to arithmetic: a pure function from (word, now, cost) to (decision, word).
///
/// It has no clock and shares nothing. [`Limiter`](crate::Limiter) is this function and an atomic word;
/// simulators, replays, stores of your own and tests use it directly.
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
    /// The rules for what happens at the limit.
    pub(crate) rules: Rules,
    /// The arithmetic of plain GCRA once more, if the policy is that and has no rules. So the code that decides is chosen here,
    /// once, and found by one comparison.
    pub(crate) plain: Option<Gcra>,
}

impl Meter {
    /// Compiles a policy.
    ///
    /// # Errors
    /// A sliding log, which is kept in slots and not in a word.
    pub fn new(policy: impl Into<Policy>) -> Result<Self, BuildError> {
        let policy = policy.into();
        Self::of(&policy).ok_or_else(|| no_word(&policy))
    }

    /// `None` if the policy is kept in slots.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        let (kernel, fields, rules) = policy.compile()?;
        let plain = kernel.gcra().filter(|_| rules.are_none()).copied();
        Some(Self { kernel, fields, rules, plain })
    }

    /// That of plain GCRA in a word of its own.
    pub(crate) fn plain(gcra: Gcra) -> Self {
        let (fields, rules) = (Fields::TIME_ALONE, Rules::default());
        Self { kernel: Kernel::Gcra(gcra), fields, rules, plain: Some(gcra) }
    }

    /// The most units that can be admitted at one instant: the burst, or the window's limit. Of a soft
    /// policy the limit that it names.
    #[must_use]
    pub fn limit(&self) -> u64 {
        unsoftened(self.kernel.limit(), self.rules.soft_bp)
    }

    /// Decides a request of `cost` units at `now` and says what the word is afterwards. A denial, and
    /// a cost of 0, leave it bit for bit as it was; unless the policy counts denials.
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
        // The policy has no rules for its limit, so the code for them is left out.
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

    /// The furthest that the time of a word of its own may lie ahead.
    pub(crate) fn most(&self) -> u64 {
        // Counts beside the time take their bits from both: from the time, and from how far ahead it may lie.
        MOST >> self.fields.count_bits
    }

    pub(crate) fn ruled(&self) -> Ruled<'_> {
        Ruled { kernel: &self.kernel, rules: &self.rules }
    }
}

/// How a request went on a whole word.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) outcome: Outcome,
    /// The word afterwards.
    pub(crate) word: Word,
    now_ns: u64,
}

impl Step {
    /// A step of plain GCRA: what the word held before and holds after, the word then, the time and the cost.
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
        // After the latest time the clock stands still.
        let now_ns = now.as_nanos().min(algorithm.latest_ns());
        Self::at(algorithm, fields, word, now_ns, algorithm.moment(now_ns), asked)
    }

    /// The same at an instant that the caller has in the algorithm's unit, too.
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
        // If nothing is written, the bits stay.
        let written = |next| fields.pack(word, next, moment);
        let (outcome, word) = plan(algorithm, asked, seen, word, written);
        Self { outcome, word, now_ns }
    }

    #[inline(always)]
    pub(crate) fn decision(self, kernel: Kernel, soft_bp: u16) -> Decision {
        self.outcome.told(kernel, self.now_ns, soft_bp)
    }

    /// The same of an algorithm that knows no rules, as it is reported under a policy that has some.
    pub(crate) fn told(self, ruled: &Ruled<'_>) -> Self {
        let Outcome { verdict, held, .. } = self.outcome;
        let (mark, held, at_ns) = ruled.tell(verdict, held, self.now_ns, 0, 0);
        Self { outcome: Outcome { mark, held, at_ns, ..self.outcome }, ..self }
    }
}
