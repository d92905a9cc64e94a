//! [`Cell`]: one atomic word and the loop that changes it.
//!
//! # Orderings
//! All `Relaxed`. The word is the whole state and publishes nothing but itself, so the coherence of one
//! location carries the proof: every charge is a compare-and-swap on the newest value, hence the words
//! of all admissions form one chain. A denial is decided on a value the word really had. The price is a
//! non-guarantee that [`Permit`](crate::Permit) states: a decision orders no other memory.

use crate::algorithm::{Decides, Kernel};
use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::meter::{Meter, Step};
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::word::{Fields, Word};

#[derive(Debug)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Word::UNUSED.to_bits()))
    }

    #[inline]
    fn load(&self) -> Word {
        // Relaxed: see the header. A stale word can only be an older one, which holds less; the
        // compare-and-swap then fails and the loop sees the newer.
        Word::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Decides and charges.
    #[inline(always)]
    pub(crate) fn check(&self, meter: &Meter, now: Timestamp, cost: u64) -> Decision {
        // Each arm makes its own decision of its step: joined before, both would go through memory.
        match &meter.kernel {
            Kernel::Gcra(gcra) => {
                self.charge(gcra, Fields::TIME_ALONE, now, cost).decision(meter.kernel)
            }
            _ => self.charge_window(meter, now, cost).decision(meter.kernel),
        }
    }

    #[inline(never)]
    fn charge_window(&self, meter: &Meter, now: Timestamp, cost: u64) -> Step {
        self.charge(&meter.kernel, meter.fields, now, cost)
    }

    #[inline(always)]
    fn charge(&self, algorithm: &impl Decides, fields: Fields, now: Timestamp, cost: u64) -> Step {
        let mut word = self.load();
        loop {
            let step = Step::of(algorithm, fields, word, now, cost);
            if step.word == word {
                return step; // denied, or a cost of 0: nothing to write
            }
            // Relaxed on both sides: see the header. A failure means that another thread's charge came
            // first (or a spurious failure of the weak form): look again. Lock-free: somebody charged.
            match self.0.compare_exchange_weak(
                word.to_bits(),
                step.word.to_bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return step,
                Err(found) => word = Word::from_bits(found),
            }
        }
    }

    /// Gives back units that were charged at `taken` and not used.
    pub(crate) fn give_back(&self, meter: &Meter, units: u64, taken: Timestamp, now: Timestamp) {
        let units = if planted(Fault::ReturnTwice) { 2 * units } else { units };
        let mut word = self.load();
        loop {
            let next = meter.give_back(word, units, taken, now);
            if next == word {
                return;
            }
            // Relaxed on both sides: see the header. Lock-free: who failed lost to another's charge.
            match self.0.compare_exchange_weak(
                word.to_bits(),
                next.to_bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(found) => word = Word::from_bits(found),
            }
        }
    }

    #[inline]
    pub(crate) fn peek(&self, meter: &Meter, now: Timestamp, cost: u64) -> Decision {
        meter.peek(self.load(), now, cost)
    }
}
