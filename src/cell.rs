//! [`Cell`]: one atomic word and the loop that changes it.
//!
//! # Orderings
//! All accesses are `Relaxed`. The word is the whole state, and no other memory is published with it. So all threads
//! only have to agree on the order of the values of this one word, and `Relaxed` is enough for this. Every charge is a
//! compare-and-swap on the newest value, so the words of all admissions form one chain. A denial is decided on a value
//! that the word had at some time. As [`Permit`](crate::Permit) says, a decision does not order any other memory.
//!
//! # Denials that are written
//! A denial usually writes nothing, so a client that floods a limit only reads a cache line that all cores can share.
//! Under a policy with `count-denied` or `penalty` a denial is written. The loop that writes charges also writes the
//! denial, by one compare-and-swap on the word on which the denial was decided. So each such denial is counted once,
//! and has its own place in the chain of words. Some requests still write nothing: a peek, a cost that never fits, a
//! denial whose charge would raise the debt by less than a granule, and a denial during a penalty.
//! `algorithm/at_limit.rs` says how often a flood of denials writes. The loop stays lock-free: a compare-and-swap fails
//! only if another thread has written, or spuriously, since it is the weak form.

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

/// The latest time is returned by a call, so that the compiler makes the comparison a branch. The processor predicts
/// the branch, so no decision waits for the result of the comparison.
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
        // Relaxed: see the top of this file. If the load returns an older word, the compare-and-swap fails, and the
        // loop gets the newer word.
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

    /// [`check`](Self::check) for all policies other than plain GCRA.
    #[inline(never)]
    pub(crate) fn check_laid_out(&self, meter: &Meter, now: Timestamp, cost: u64) -> Decision {
        if meter.rules.are_none() {
            let (step, _) = self.charge(&meter.kernel, meter.fields, now, cost);
            return step.decision(meter.kernel, 0);
        }
        let (step, _) = self.charge_ruled(meter, now, cost);
        step.decision(meter.kernel, meter.rules.soft_bp)
    }

    /// [`check`](Self::check) for plain GCRA.
    #[inline(always)]
    pub(crate) fn check_plain(&self, gcra: &Gcra, now: Timestamp, cost: u64) -> Decision {
        self.charge_plain(gcra, now, cost).0.decision(Kernel::Gcra(*gcra), 0)
    }

    /// Charges, and also returns the words before and after the charge, which are the same if nothing was written.
    #[inline(always)]
    pub(crate) fn charge_traced(
        &self,
        meter: &Meter,
        now: Timestamp,
        cost: u64,
    ) -> (Step, [Word; 2]) {
        // There are two paths, as in `check`. The slow path tests whether the policy has rules for its limit.
        let (step, found) = match &meter.plain {
            Some(gcra) => self.charge_plain(gcra, now, cost),
            None => self.charge_slowly(meter, now, cost),
        };
        let words = [found, step.word];
        (step, words)
    }

    /// [`charge_traced`](Self::charge_traced), but with a decision in place of the step.
    pub(crate) fn check_traced(
        &self,
        meter: &Meter,
        now: Timestamp,
        cost: u64,
    ) -> (Decision, [Word; 2]) {
        let (step, words) = self.charge_traced(meter, now, cost);
        (step.decision(meter.kernel, meter.rules.soft_bp), words)
    }

    /// [`charge`](Self::charge) for plain GCRA, whose word is only a time. So between the reading of the clock and the
    /// compare-and-swap there are only the instructions that the decision needs.
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
            // A cost of 0 is a peek and writes nothing.
            if cost == 0 {
                return step(Verdict::Allowed, word, word);
            }
            // If the word is idle, its time is replaced by now. The processor cannot predict whether a word is idle, so
            // this is a select and not a branch.
            let next = select_unpredictable(word < unit, unit, word) + ticks;
            // The CAS may fail for the same reasons as in `charge`.
            match self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return step(Verdict::Allowed, word, next),
                Err(found) => word = found,
            }
        }
    }

    /// Charges under a window, or under a policy with rules for its limit. Both cases are in one function, since a
    /// second call would cost the plain path a register.
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
        // GCRA has code of its own here, as in `charge_plain`.
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
            // The CAS fails if another thread has charged first, or spuriously. Then the loop decides again with the
            // word that it found. If a CAS fails because of another thread, that thread has made progress, so the loop
            // is lock-free.
            match self.swap(word, step.word) {
                Ok(()) => return (step, word),
                Err(found) => word = found,
            }
        }
    }

    /// Decides a request of any verb. `charge` is false for a peek.
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

    /// Amends the word, and returns how many units were given back, rounded up.
    pub(crate) fn amend(
        &self,
        meter: &Meter,
        now: impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> u64 {
        let read = || {
            // The word is read before the clock: see `slot::amend`.
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

    /// Replaces the exact word that was read. It uses a weak CAS, so it may fail spuriously.
    #[inline]
    pub(crate) fn replace(&self, word: Word, next: Word) -> bool {
        // On failure the caller reads the word again, so the word that was found is dropped.
        self.swap(word, next).is_ok()
    }

    /// Replaces the exact word that was read, by a weak CAS. On failure it returns the present word.
    #[inline(always)]
    fn swap(&self, word: Word, next: Word) -> Result<(), Word> {
        // Relaxed for success and for failure: see the top of this file.
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
        // A time after the latest time is replaced by the latest time.
        let at_ns = now.as_nanos().min(ruled.latest_ns());
        Self { meter, word, held: meter.fields.unpack(word, ruled.moment(at_ns)), at_ns }
    }

    fn found(&self) -> Found {
        Found { held: self.held, at_ns: self.at_ns, now_ns: self.at_ns }
    }

    /// The word after a refund, which gives back the part of a charge that has not drained.
    pub(crate) fn refunded(&self, charge: &View) -> Word {
        let (next, units) = self.meter.ruled().given_back(self.found(), charge);
        // If nothing is given back, the old word is returned unchanged, since packing the same state again could give
        // other bits.
        if units == 0 { self.word } else { self.with(next) }
    }

    /// The word after a roll-back of its last charge. `before` is the word from before that charge.
    pub(crate) fn rolled_back(&self, before: Word, charge: &View) -> Word {
        let ruled = self.meter.ruled();
        let held_before = self.meter.fields.unpack(before, ruled.moment(self.at_ns));
        let held = ruled.rolled_back(self.found(), held_before, charge);
        // If the state is the same as before the charge, the word is restored bit for bit.
        if held == held_before { before } else { self.with(held) }
    }

    /// The word with its state replaced by `next`.
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
        // If the bits differ, other requests have been charged since this charge, and their places behind it have been
        // promised.
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
