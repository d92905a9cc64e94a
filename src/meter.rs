//! [`Meter`]: a policy compiled to arithmetic on one [`Word`].

use crate::algorithm::{Decides, Held, Kernel, Moment, Ruled, Rules, unsoftened};
use crate::clock::Timestamp;
use crate::decision::{Decision, View};
use crate::error::BuildError;
use crate::policy::{Policy, of_one_word};
use crate::verb::{Charged, Verb, Verbs, Wish};
use crate::verdict::{Mark, Verdict};
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
    /// What happens at the limit. The kernel is plain GCRA only if nothing does.
    pub(crate) rules: Rules,
}

impl Meter {
    /// Compiles a policy.
    ///
    /// # Errors
    /// A sliding log, which is kept in slots and not in a word.
    pub fn new(policy: impl Into<Policy>) -> Result<Self, BuildError> {
        of_one_word(policy.into()).map(Self::of)
    }

    /// Of a sliding log there is no arithmetic, only what it has in common with the others: such a meter is asked by no
    /// path that is laid out for a word (see [`Answers::NONE`](crate::algorithm::Answers::NONE)).
    pub(crate) fn of(policy: Policy) -> Self {
        let (kernel, fields, rules) = policy.compile();
        Self { kernel, fields, rules }
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
        // A policy without words for its limit: nothing of them is on its way.
        if self.rules.are_none() {
            let step = Step::of(&self.kernel, self.fields, word, now, cost);
            return (step.decision(self.kernel, 0), step.word);
        }
        let ruled = self.ruled();
        let step = Step::of(&ruled, self.fields, word, now, cost).told(&ruled, 0);
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
        if self.rules.are_none() {
            let step = Step::of(&self.kernel, self.fields, word, now, cost).asked();
            return step.decision(self.kernel, 0);
        }
        let ruled = self.ruled();
        let step = Step::of(&ruled, self.fields, word, now, cost).asked().told(&ruled, cost);
        step.decision(self.kernel, self.rules.soft_bp)
    }

    /// What is asked of a word of its own.
    pub(crate) fn wish(&self, verb: Verb, cost: u64) -> Wish {
        // Counts beside the time take their bits from both: from the time, and from how far ahead it may lie.
        Wish { verb, cost, most: MOST >> self.fields.count_bits }
    }

    pub(crate) fn ruled(&self) -> Ruled<'_> {
        Ruled { kernel: &self.kernel, rules: &self.rules }
    }
}

/// How a request went on a whole word.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) verdict: Verdict,
    mark: Mark,
    /// What the word held, and what it holds afterwards.
    before: Held,
    held: Held,
    /// The word afterwards.
    pub(crate) word: Word,
    /// The instant that what it holds is seen from: now, or the end of a penalty.
    at_ns: u64,
    now_ns: u64,
    cost: u64,
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
        Self { verdict, mark: Mark::None, before, held, word, at_ns: now_ns, now_ns, cost }
    }

    /// A decision on a whole word.
    #[inline(always)]
    pub(crate) fn of(
        algorithm: &impl Decides,
        fields: impl Reads,
        word: Word,
        now: Timestamp,
        cost: u64,
    ) -> Self {
        // Past the latest time the clock stands still.
        let now_ns = now.as_nanos().min(algorithm.latest_ns());
        Self::at(algorithm, fields, word, now_ns, algorithm.moment(now_ns), cost)
    }

    /// The one function behind every decision on a whole word, at an instant that the caller has in the algorithm's unit.
    #[inline(always)]
    pub(crate) fn at(
        algorithm: &impl Decides,
        fields: impl Reads,
        word: Word,
        now_ns: u64,
        moment: Moment,
        cost: u64,
    ) -> Self {
        let held = fields.unpack(word, moment);
        let (verdict, mark, at_ns) = (Verdict::Denied, Mark::None, now_ns);
        // What the word holds, and its bits, unless the request changes them.
        let denied = Self { verdict, mark, before: held, held, word, at_ns, now_ns, cost };
        match algorithm.step(held, moment, 0, cost) {
            // A question: it would fit.
            Some(_) if cost == 0 => Self { verdict: Verdict::Allowed, ..denied },
            Some(next) => Self {
                verdict: Verdict::Allowed,
                held: next,
                word: fields.pack(word, next, moment),
                ..denied
            },
            // Denied; where denials count, that is a charge, too.
            None => match algorithm.refuse(held, now_ns, cost) {
                Some(next) => Self { held: next, word: fields.pack(word, next, moment), ..denied },
                None => denied,
            },
        }
    }

    /// The same for every other verb.
    pub(crate) fn wished(meter: &Meter, word: Word, now: Timestamp, wish: Wish) -> Self {
        let (ruled, fields) = (meter.ruled(), meter.fields);
        let now_ns = now.as_nanos().min(ruled.latest_ns());
        let moment = ruled.moment(now_ns);
        let held = fields.unpack(word, moment);
        let (verdict, mark, at_ns) = (Verdict::Denied, Mark::None, now_ns);
        let same = Self { verdict, mark, before: held, held, word, at_ns, now_ns, cost: wish.cost };
        match ruled.apply(wish, held, moment, 0) {
            // Admitted, and nothing charged: not a bit of the word changes.
            Some(Charged { cost: 0, .. }) => Self { verdict: Verdict::Allowed, cost: 0, ..same },
            Some(Charged { held, cost }) => Self {
                verdict: Verdict::Allowed,
                held,
                word: fields.pack(held, moment),
                cost,
                ..same
            },
            None => {
                let same = Self { cost: wish.denied_cost(), ..same };
                match ruled.refuse(held, now_ns, same.cost) {
                    // A try leaves the counting to the refusal that follows it.
                    Some(next) if wish.counts_its_denial() => {
                        Self { held: next, word: fields.pack(next, moment), ..same }
                    }
                    _ => same,
                }
            }
        }
    }

    /// The same request, only asked for: nothing is charged.
    #[inline(always)]
    pub(crate) fn asked(self) -> Self {
        // What was allowed has cost nothing; a denial still tells of the cost that it was asked for.
        let cost = if self.verdict == Verdict::Allowed { 0 } else { self.cost };
        Self { held: self.before, cost, ..self }
    }

    #[inline(always)]
    pub(crate) fn decision(self, kernel: Kernel, soft_bp: u16) -> Decision {
        let Self { verdict, mark, held, at_ns, now_ns, cost, .. } = self;
        Decision::new(verdict, View { kernel, held, at_ns, now_ns, cost, soft_bp, mark })
    }

    /// As it is reported under a policy with rules for its limit; `unpaid` is what was only asked for.
    pub(crate) fn told(self, ruled: &Ruled<'_>, unpaid: u64) -> Self {
        let (mark, held, at_ns) = ruled.tell(self.verdict, self.held, self.now_ns, 0, unpaid);
        Self { mark, held, at_ns, ..self }
    }
}
