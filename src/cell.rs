//! [`Cell`]: one atomic word and the loop that changes it.
//!
//! # Orderings
//! All `Relaxed`. The word is the whole state and publishes nothing but itself, so the coherence of one
//! location carries the proof: every charge is a compare-and-swap on the newest value, hence the words
//! of all admissions form one chain. A denial is decided on a value the word really had. The price is a
//! non-guarantee that [`Permit`](crate::Permit) states: a decision orders no other memory.
//!
//! # Denials that are written
//! A denial writes nothing, so that a client that floods a limit only reads a line that all may share. A policy
//! with `count-denied` or `penalty` asks for the opposite: there a denial is itself a charge, and the
//! same loop carries it, as one compare-and-swap on the word that the denial was decided on. So it too
//! is part of the one chain of words: counted once, and with its place before or after each admission.
//! What leaves the word as it was (a peek, a cost that never fits, a denial within a granule of the stop of a charge or
//! during a penalty) still writes nothing; how often a flood of denials writes is said in `algorithm/at_limit.rs`. The loop stays lock-free: a thread that fails lost to another's write.

use std::hint::select_unpredictable;

use crate::algorithm::{Decides, Gcra, Held, Kernel, Ruled};
use crate::clock::{LATEST_NS, Timestamp};
use crate::decision::{Decision, View};
use crate::meter::{Meter, Step};
use crate::refund::Amendment;
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::verb::Verb;
use crate::verdict::Verdict;
use crate::word::{Fields, Word};

#[derive(Debug)]
pub(crate) struct Cell(AtomicU64);

/// A call, so that the comparison with it is a branch that is foreseen, and no decision waits for it.
#[cold]
#[inline(never)]
fn latest_ns() -> u64 {
    std::hint::black_box(LATEST_NS)
}

impl Cell {
    pub(crate) fn new(word: Word) -> Self {
        Self(AtomicU64::new(word.to_bits()))
    }

    #[inline]
    pub(crate) fn load(&self) -> Word {
        // Relaxed: see the header. A stale word can only be an older one, which holds less; the
        // compare-and-swap then fails and the loop sees the newer.
        Word::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Decides and charges.
    #[inline(always)]
    pub(crate) fn check(&self, meter: &Meter, now: Timestamp, cost: u64) -> Decision {
        // The Decision is built in each arm: merging the arms first would spill the step to the stack.
        match &meter.kernel {
            Kernel::Gcra(gcra) => self.check_plain(gcra, meter.kernel, now, cost),
            _ => self.check_laid_out(meter, now, cost),
        }
    }

    /// The same by the code that is laid out for its policy.
    #[inline(never)]
    pub(crate) fn check_laid_out(&self, meter: &Meter, now: Timestamp, cost: u64) -> Decision {
        if meter.rules.are_none() {
            let (step, _) = self.charge(&meter.kernel, meter.fields, now, cost);
            return step.decision(meter.kernel, 0);
        }
        let (step, _) = self.charge_ruled(meter, now, cost);
        step.decision(meter.kernel, meter.rules.soft_bp)
    }

    /// The same under plain GCRA, whose arithmetic is given twice: to compute with, and to be told with the decision.
    #[inline(always)]
    pub(crate) fn check_plain(
        &self,
        gcra: &Gcra,
        kernel: Kernel,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        self.charge_plain(gcra, now, cost).0.decision(kernel, 0)
    }

    /// Charges. The words are the one that was found and the one that was left; they are the same if nothing was written.
    #[inline(always)]
    pub(crate) fn charge_traced(
        &self,
        meter: &Meter,
        now: Timestamp,
        cost: u64,
    ) -> (Step, [Word; 2]) {
        // The same two ways as in `check`; a policy's rules are told in the slow one.
        let (step, found) = match &meter.kernel {
            Kernel::Gcra(gcra) => self.charge_plain(gcra, now, cost),
            _ => self.charge_slowly(meter, now, cost),
        };
        let words = [found, step.word];
        (step, words)
    }

    /// [`charge_traced`](Self::charge_traced), told as a decision.
    pub(crate) fn check_traced(
        &self,
        meter: &Meter,
        now: Timestamp,
        cost: u64,
    ) -> (Decision, [Word; 2]) {
        let (step, words) = self.charge_traced(meter, now, cost);
        (step.decision(meter.kernel, meter.rules.soft_bp), words)
    }

    /// [`charge`](Self::charge) laid out for plain GCRA, whose word is a time and nothing else: between the clock and
    /// the compare-and-swap there is only what that needs.
    #[inline(always)]
    pub(crate) fn charge_plain(&self, gcra: &Gcra, now: Timestamp, cost: u64) -> (Step, Word) {
        let now_ns = if now.as_nanos() > LATEST_NS { latest_ns() } else { now.as_nanos() };
        let unit = gcra.moment(now_ns).unit;
        let mut word = self.load().to_bits();
        let step = |verdict, word: u64, after: u64| {
            let held = |time: u64| Held {
                ahead: time.saturating_sub(unit),
                behind: unit.saturating_sub(time),
                counts: 0,
            };
            let held = [held(word), held(after)];
            let after = Word::from_bits(after);
            (Step::plain(verdict, held, after, now_ns, cost), Word::from_bits(word))
        };
        // A cost above the burst never fits.
        let Some((ticks, room)) = gcra.room_for(cost) else {
            return step(Verdict::Denied, word, word);
        };
        loop {
            // Both sums are below 2^64: see `Quota`.
            if word > unit + room {
                return step(Verdict::Denied, word, word);
            }
            // A peek: nothing to write.
            if cost == 0 {
                return step(Verdict::Allowed, word, word);
            }
            // An idle word counts as now. Which of the two it is cannot be foreseen, so no branch depends on it.
            let next = select_unpredictable(word < unit, unit, word) + ticks;
            // As in `charge`.
            match self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return step(Verdict::Allowed, word, next),
                Err(found) => word = found,
            }
        }
    }

    /// For windows, and for policies that say what happens at their limit. One call for both: two would cost
    /// the plain path a register.
    #[inline(never)]
    fn charge_slowly(&self, meter: &Meter, now: Timestamp, cost: u64) -> (Step, Word) {
        if meter.rules.are_none() {
            self.charge(&meter.kernel, meter.fields, now, cost)
        } else {
            self.charge_ruled(meter, now, cost)
        }
    }

    #[inline(never)]
    fn charge_ruled(&self, meter: &Meter, now: Timestamp, cost: u64) -> (Step, Word) {
        let ruled = meter.ruled();
        // GCRA by its own code, as in `charge_plain`.
        let (step, found) = match &meter.kernel {
            Kernel::RuledGcra(kernel) => {
                self.charge(&Ruled { kernel, rules: &meter.rules }, meter.fields, now, cost)
            }
            _ => self.charge(&ruled, meter.fields, now, cost),
        };
        (step.told(&ruled, 0), found)
    }

    #[inline(always)]
    fn charge(
        &self,
        algorithm: &impl Decides,
        fields: Fields,
        now: Timestamp,
        cost: u64,
    ) -> (Step, Word) {
        let mut word = self.load();
        loop {
            let step = Step::of(algorithm, fields, word, now, cost);
            if step.word == word {
                return (step, word); // denied, or a cost of 0: nothing to write, unless denials are counted
            }
            // A failure means that another thread's charge came first (or a spurious failure of the weak form): look
            // again. Lock-free: another thread charged.
            match self.swap(word, step.word) {
                Ok(()) => return (step, word),
                Err(found) => word = found,
            }
        }
    }

    /// Every other verb.
    #[inline(never)]
    pub(crate) fn wish(&self, meter: &Meter, now: Timestamp, verb: Verb, cost: u64) -> Decision {
        let step = self.update(|word| {
            let step = Step::wished(meter, word, now, meter.wish(verb, cost));
            (step.word, step.told(&meter.ruled(), 0))
        });
        step.decision(meter.kernel, meter.rules.soft_bp)
    }

    /// The same, only asked for: nothing is charged.
    pub(crate) fn look(&self, meter: &Meter, now: Timestamp, verb: Verb, cost: u64) -> Decision {
        let step = Step::wished(meter, self.load(), now, meter.wish(verb, cost)).asked();
        step.told(&meter.ruled(), cost).decision(meter.kernel, meter.rules.soft_bp)
    }

    /// Amends the word, and says how many units that gave back, rounded up.
    ///
    /// `now` is read only after the word: so it is no earlier than the clock of any thread that has charged it.
    /// An earlier one would take for undrained what drained before they came.
    pub(crate) fn amend(
        &self,
        meter: &Meter,
        now: impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> u64 {
        self.update(|word| match amendment {
            Amendment::Refund(charge) if planted(Fault::ReturnTwice) => {
                let charge = View { cost: charge.cost * 2, ..*charge };
                meter.amended(word, Amendment::Refund(&charge), now())
            }
            _ => meter.amended(word, amendment, now()),
        })
    }

    /// Replaces the word by a function of it. Ends when the word of the result stands, or is the word
    /// that was found.
    fn update<T>(&self, turn: impl Fn(Word) -> (Word, T)) -> T {
        let mut word = self.load();
        loop {
            let (next, result) = turn(word);
            if next == word {
                return result;
            }
            // Lock-free: a thread that fails lost to another's change.
            match self.swap(word, next) {
                Ok(()) => return result,
                Err(found) => word = found,
            }
        }
    }

    /// Replaces the exact word that was read. The weak form: it may fail for no reason.
    #[inline]
    pub(crate) fn replace(&self, word: Word, next: Word) -> bool {
        // Nothing is made of the word found on failure: the caller looks again.
        self.swap(word, next).is_ok()
    }

    /// Replaces the exact word that was read, or gives the one that is there. The weak form, as above.
    #[inline(always)]
    fn swap(&self, word: Word, next: Word) -> Result<(), Word> {
        // Relaxed on both sides: see the header.
        let (word, next) = (word.to_bits(), next.to_bits());
        let swapped =
            self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed);
        swapped.map(|_| ()).map_err(Word::from_bits)
    }

    #[inline]
    pub(crate) fn peek(&self, meter: &Meter, now: Timestamp, cost: u64) -> Decision {
        meter.peek(self.load(), now, cost)
    }
}
