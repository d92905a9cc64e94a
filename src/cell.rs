//! [`Cell`]: one atomic word and the loop that changes it.
//!
//! # Orderings
//! All are `Relaxed`. The word is the whole state and publishes nothing but itself, so the coherence of one
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
use crate::refund::{Amendment, Found};
use crate::slot::{Reading, Slot, amend, decide_there};
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::verb::{Check, Verb};
use crate::verdict::Verdict;
use crate::word::{Fields, Word};

#[derive(Debug)]
pub(crate) struct Cell(AtomicU64);

/// This is a call, so that the comparison with it is a branch that the machine foresees, and no decision waits for it.
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
        // The decision is built in each arm, since merging the arms first would spill the step to the stack.
        match &meter.plain {
            Some(gcra) => self.check_plain(gcra, now, cost),
            None => self.check_laid_out(meter, now, cost),
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

    /// The same under plain GCRA.
    #[inline(always)]
    pub(crate) fn check_plain(&self, gcra: &Gcra, now: Timestamp, cost: u64) -> Decision {
        self.charge_plain(gcra, now, cost).0.decision(Kernel::Gcra(*gcra), 0)
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
        let (step, found) = match &meter.plain {
            Some(gcra) => self.charge_plain(gcra, now, cost),
            None => self.charge_slowly(meter, now, cost),
        };
        let words = [found, step.word];
        (step, words)
    }

    /// [`charge_traced`](Self::charge_traced), with a decision as its answer.
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
            // An idle word counts as now. The machine cannot foresee if a word is idle, so no branch depends on it.
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
        // GCRA is decided by its own code, as in `charge_plain`.
        match &meter.kernel {
            Kernel::Gcra(kernel) => {
                self.charge(&Ruled { kernel, rules: &meter.rules }, meter.fields, now, cost)
            }
            _ => self.charge(&meter.ruled(), meter.fields, now, cost),
        }
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
            let step = Step::of(algorithm, fields, word, now, Check::of(cost));
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

    /// Every verb; `charge` is false for a question.
    #[inline(never)]
    pub(crate) fn ask(
        &self,
        meter: &Meter,
        now: Timestamp,
        verb: Verb,
        cost: u64,
        charge: bool,
    ) -> Decision {
        let read = || MeteredWord::of(meter, self.load(), now);
        let (read, outcome) = decide_there(self, verb, cost, charge, read);
        outcome.told(meter.kernel, read.at_ns, meter.rules.soft_bp)
    }

    /// Amends the word, and says how many units that gave back, rounded up.
    pub(crate) fn amend(
        &self,
        meter: &Meter,
        now: impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> u64 {
        let read = || {
            // In this order: see `slot::amend`.
            let word = self.load();
            let read = MeteredWord::of(meter, word, now());
            Some((read, read.at_ns))
        };
        let amended = match amendment {
            Amendment::Refund(charge) if planted(Fault::ReturnTwice) => {
                let charge = View { cost: charge.cost * 2, ..*charge };
                amend(self, Amendment::Refund(&charge), read)
            }
            _ => amend(self, amendment, read),
        };
        amended.unwrap_or(0)
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

/// A word as it was read from a cell.
#[derive(Clone, Copy)]
pub(crate) struct MeteredWord<'a> {
    meter: &'a Meter,
    word: Word,
    held: Held,
    at_ns: u64,
}

impl<'a> MeteredWord<'a> {
    pub(crate) fn of(meter: &'a Meter, word: Word, now: Timestamp) -> Self {
        let ruled = meter.ruled();
        // After the latest time the clock stands still.
        let at_ns = now.as_nanos().min(ruled.latest_ns());
        Self { meter, word, held: meter.fields.unpack(word, ruled.moment(at_ns)), at_ns }
    }

    fn found(&self) -> Found {
        Found { held: self.held, at_ns: self.at_ns, now_ns: self.at_ns }
    }

    /// The word after as much of a charge is given back as has not drained.
    pub(crate) fn refunded(&self, charge: &View) -> Word {
        let (next, units) = self.meter.ruled().given_back(self.found(), charge);
        // If nothing is given back, the bits stay: packed again, a word of the past would differ.
        if units == 0 { self.word } else { self.with(next) }
    }

    /// The word after the charge that left it is rolled back. `before` is the word that the charge found.
    pub(crate) fn rolled_back(&self, before: Word, charge: &View) -> Word {
        let ruled = self.meter.ruled();
        let held_before = self.meter.fields.unpack(before, ruled.moment(self.at_ns));
        let held = ruled.rolled_back(self.found(), held_before, charge);
        // The word from before the charge is put back, bit for bit.
        if held == held_before { before } else { self.with(held) }
    }

    /// The word with this state instead.
    fn with(&self, next: Held) -> Word {
        self.meter.fields.pack(next, self.meter.ruled().moment(self.at_ns))
    }
}

impl Reading for MeteredWord<'_> {
    fn ruled(&self) -> Ruled<'_> {
        self.meter.ruled()
    }

    fn seen(&self) -> (Held, u64) {
        (self.held, self.at_ns)
    }

    fn most(&self) -> u64 {
        self.meter.most()
    }

    fn is_left(&self, charge: &View) -> bool {
        // Others have charged on top: their places are promised behind this one.
        let ruled = self.meter.ruled();
        let left = self.meter.fields.pack(ruled.left(charge), ruled.moment(charge.at_ns));
        self.word == left || planted(Fault::UndoWhatChanged)
    }
}

impl<'a> Slot<MeteredWord<'a>> for Cell {
    fn write(&self, read: &MeteredWord<'a>, next: Held) -> bool {
        self.replace(read.word, read.with(next))
    }
}
