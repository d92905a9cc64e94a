//! One cell of a sketch: a word that several keys charge.
//!
//! # Orderings
//! A decision of [`Limiter`](crate::Limiter) needs one word, and so no ordering. Here a request charges
//! several, and the proof in [`super::rows`] leans on one thing: of any two requests of a key, one finds the
//! other's charge in the cell that it is decided on. Each charges the other's deciding cell before it is
//! decided itself. Had neither found the other's charge, A's decision would come before B's add in one cell,
//! B's add before B's decision in B's program, B's decision before A's add in the other cell, and A's add
//! before A's decision: a circle. What makes it one:
//!
//! * Every change is a read-modify-write that is `AcqRel`. So a thread that changes a cell later has *seen* all that
//!   the earlier ones did before (all changes being such, the release sequence never breaks), in whichever
//!   cells, and happens-before has no circles. With `Relaxed` a processor may let a request's decision be seen
//!   before its add to another cell, and both requests would miss each other.
//! * An add that finds nothing to change writes nothing, but has read: its load, and the load of a failed
//!   CAS, are `Acquire`, for the same reason, from the reader's end alone.
//!
//! loom does not reorder such changes (see `loom-tests/src/lib.rs`), so this is argued, not modelled. On
//! x86-64 all of it is free.

use crate::algorithm::{Adds, Kernel, Load, Moment};
use crate::clock::Timestamp;
use crate::meter::Step;
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::verb::Check;
use crate::word::{Fields, Reads, Word};

/// One request, and how words are read for it.
pub(super) struct SketchRequest<'a, A, F = Fields> {
    pub(super) algorithm: &'a A,
    fields: F,
    now_ns: u64,
    moment: Moment,
    pub(super) cost: u64,
}

impl<'a, A: Adds, F: Reads> SketchRequest<'a, A, F> {
    #[inline(always)]
    pub(super) fn new(algorithm: &'a A, fields: F, now: Timestamp, cost: u64) -> Self {
        // As `Step` does: past the latest time the clock stands still.
        let now_ns = now.as_nanos().min(algorithm.latest_ns());
        Self { algorithm, fields, now_ns, moment: algorithm.moment(now_ns), cost }
    }

    /// Whether the word is counted in the quota of this request.
    #[inline(always)]
    pub(super) fn reads(&self, word: Word) -> bool {
        self.fields.reads(word)
    }

    /// What the word holds against this request.
    #[inline(always)]
    pub(super) fn load(&self, word: Word) -> Load {
        self.algorithm.load(self.fields.unpack(word, self.moment), self.moment)
    }

    /// How the request goes on this word.
    #[inline(always)]
    pub(super) fn step(&self, word: Word) -> Step {
        let asked = Check::of(self.cost);
        Step::at(self.algorithm, self.fields, word, self.now_ns, self.moment, asked)
    }

    /// The word once the request's cost is added, whether or not it fits.
    #[inline(always)]
    fn added(&self, word: Word) -> Word {
        let word = if planted(Fault::AddLowersRow) { Word::UNUSED } else { word };
        let held =
            self.algorithm.add(self.fields.unpack(word, self.moment), self.moment, self.cost);
        self.fields.pack(word, held, self.moment)
    }
}

/// The longest debt that a cell remembers: where an add stops.
pub(super) fn longest_debt(kernel: &Kernel) -> u64 {
    match kernel {
        Kernel::Gcra(gcra) => 2 * gcra.burst_ticks(), // which is below 2^63
        _ => 0,                                       // windows have no debt
    }
}

#[derive(Debug)]
pub(super) struct SketchCell(AtomicU64);

impl SketchCell {
    pub(super) fn new() -> Self {
        Self::holding(Word::UNUSED)
    }

    pub(super) fn holding(word: Word) -> Self {
        Self(AtomicU64::new(word.to_bits()))
    }

    #[inline(always)]
    pub(super) fn word(&self) -> Word {
        // Acquire: for an add that finds nothing to change, see the header; and for an estimate, whose reader
        // then knows all that the threads did before that charged what it has read.
        Word::from_bits(self.0.load(Ordering::Acquire))
    }

    #[cfg(any(loom, shuttle))]
    pub(super) fn newest(&self) -> Word {
        Word::from_bits(self.0.newest())
    }

    /// Another word in place of this one, if it still is this one.
    pub(super) fn replace(&self, word: Word, next: Word) -> bool {
        let (word, next) = (word.to_bits(), next.to_bits());
        // AcqRel: see the header. Relaxed if it fails: nothing was changed, and the caller reads again.
        self.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The weak form, which gives the word that is there if it is another, or for no reason.
    #[inline(always)]
    fn swap(&self, word: Word, next: Word) -> Result<(), Word> {
        let (word, next) = (word.to_bits(), next.to_bits());
        // AcqRel and Acquire: see the header.
        let swapped = self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire);
        swapped.map(|_| ()).map_err(Word::from_bits)
    }

    /// Adds the cost, whether or not it fits. Lock-free: a thread that tries again lost to another's charge.
    /// `false` if the cell is counted in another quota.
    #[inline(always)]
    pub(super) fn add<A: Adds, F: Reads>(&self, ask: &SketchRequest<'_, A, F>) -> bool {
        let mut word = self.word();
        loop {
            // Of another quota: the caller brings the cell over, or takes the newer quota.
            if !ask.reads(word) {
                return false;
            }
            let next = ask.added(word);
            if next == word {
                return true; // it holds so much already that nothing can be added
            }
            match self.swap(word, next) {
                Ok(()) => return true,
                Err(found) => word = found,
            }
        }
    }

    /// Decides on this cell, which held `word` when it was chosen, and charges it if the request is
    /// admitted. `None` if the cell's window has turned since: then it is no longer the one to decide; or if
    /// the cell is counted in another quota by now.
    #[inline(always)]
    pub(super) fn decide<A: Adds, F: Reads>(
        &self,
        ask: &SketchRequest<'_, A, F>,
        mut word: Word,
    ) -> Option<Step> {
        let chosen = ask.load(word).windows_ahead;
        loop {
            let step = ask.step(word);
            if step.word == word {
                return Some(step); // lost to others: denied
            }
            match self.swap(word, step.word) {
                Ok(()) => return Some(step),
                Err(found) => word = found,
            }
            // Brought over to another quota meanwhile.
            if !ask.reads(word) {
                return None;
            }
            // The window has turned: this cell is no longer the one with the least load in the earliest window.
            if ask.load(word).windows_ahead > chosen && !planted(Fault::TurnedRowDecides) {
                return None;
            }
        }
    }
}
