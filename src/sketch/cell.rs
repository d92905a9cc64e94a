//! One cell of a sketch: a word that several keys charge.
//!
//! # Orderings
//! A decision of [`Limiter`](crate::Limiter) reads and writes only one word, so `Relaxed` is enough for it. Here a
//! request charges several words. The *deciding cell* of a request is the cell whose word decides it. The proof in
//! [`super::rows`] needs one fact: if A and B are requests of one key, at least one of them finds the other's charge in
//! its deciding cell. Each request adds its cost to the other's deciding cell before it is decided itself. If both have
//! the same deciding cell, the later one finds the other's charge there. Suppose that they have different deciding
//! cells, and that neither found the other's charge. Then A's decision came before B's add in one cell, and B's
//! decision before A's add in the other cell. But each request makes its add before its own decision. So this order is
//! a circle. The orderings make a circle impossible, for two reasons:
//!
//! * Every change is a read-modify-write that is `AcqRel`. So a thread that changes a cell has *seen* everything that
//!   earlier writers of the cell did before their changes, in any cell. Every change is such an operation, so no
//!   release sequence is broken, and happens-before has no circles. With `Relaxed`, a request's decision could become
//!   visible before its add to another cell, and both requests would miss each other's charge.
//! * An add to a cell that cannot be raised any further only reads the cell. The load of such an add, and the load of a
//!   failed CAS, are `Acquire`. So the add has also seen everything that earlier writers did.
//!
//! The model checker loom does not reorder such changes (see `loom-tests/src/lib.rs`), so this is proved here and not
//! tested by a model. On x86-64 these orderings cost nothing.

use crate::algorithm::{Adds, Kernel, Load, Moment};
use crate::clock::Timestamp;
use crate::meter::Step;
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::verb::Check;
use crate::word::{Fields, Reads, Word};

/// One request, with the algorithm and the layout by which words are read for it.
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
        // As in `Step`, a time after the latest time is replaced by the latest time.
        let now_ns = now.as_nanos().min(algorithm.latest_ns());
        Self { algorithm, fields, now_ns, moment: algorithm.moment(now_ns), cost }
    }

    /// True if the word belongs to the quota of this request.
    #[inline(always)]
    pub(super) fn reads(&self, word: Word) -> bool {
        self.fields.reads(word)
    }

    /// The load of the word for this request.
    #[inline(always)]
    pub(super) fn load(&self, word: Word) -> Load {
        self.algorithm.load(self.fields.unpack(word, self.moment), self.moment)
    }

    /// Decides the request on this word.
    #[inline(always)]
    pub(super) fn step(&self, word: Word) -> Step {
        let asked = Check::of(self.cost);
        Step::at(self.algorithm, self.fields, word, self.now_ns, self.moment, asked)
    }

    /// The word after the request's cost is added, whether or not it fits.
    #[inline(always)]
    fn added(&self, word: Word) -> Word {
        let word = if planted(Fault::AddLowersRow) { Word::UNUSED } else { word };
        let held =
            self.algorithm.add(self.fields.unpack(word, self.moment), self.moment, self.cost);
        self.fields.pack(word, held, self.moment)
    }
}

/// The largest debt that an add gives to a cell, in ticks.
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
        // Acquire for an add that finds nothing to change: see the top of this file. An estimate needs Acquire, too, to
        // see everything that other threads did before the charges that it reads.
        Word::from_bits(self.0.load(Ordering::Acquire))
    }

    #[cfg(any(loom, shuttle))]
    pub(super) fn newest(&self) -> Word {
        Word::from_bits(self.0.newest())
    }

    /// Replaces `word` by `next` if the cell still holds `word`.
    pub(super) fn replace(&self, word: Word, next: Word) -> bool {
        let (word, next) = (word.to_bits(), next.to_bits());
        // AcqRel: see the top of this file. Relaxed on failure: nothing was changed, and the caller reads the cell
        // again.
        self.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The weak form of [`replace`](Self::replace). The error is the word in the cell: another word, or `word` itself
    /// after a spurious failure.
    #[inline(always)]
    fn swap(&self, word: Word, next: Word) -> Result<(), Word> {
        let (word, next) = (word.to_bits(), next.to_bits());
        // AcqRel and Acquire: see the top of this file.
        let swapped = self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire);
        swapped.map(|_| ()).map_err(Word::from_bits)
    }

    /// Adds the cost, whether or not it fits. Returns `false` if the cell belongs to another quota. Lock-free: a thread
    /// has to try again only if another thread has changed the cell, or after a spurious failure.
    #[inline(always)]
    pub(super) fn add<A: Adds, F: Reads>(&self, ask: &SketchRequest<'_, A, F>) -> bool {
        let mut word = self.word();
        loop {
            // The cell belongs to another quota. The caller then converts the cell to its quota, or uses the newer
            // quota.
            if !ask.reads(word) {
                return false;
            }
            let next = ask.added(word);
            if next == word {
                return true; // nothing can be added to the cell's load
            }
            match self.swap(word, next) {
                Ok(()) => return true,
                Err(found) => word = found,
            }
        }
    }

    /// Decides on this cell, which held `word` when it was chosen, and charges it if the request is admitted. Returns
    /// `None` in two cases: if the cell is in a later window now, so that another cell may have to decide, and if the
    /// cell belongs to another quota now.
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
                return Some(step); // denied: others have charged the cell meanwhile
            }
            match self.swap(word, step.word) {
                Ok(()) => return Some(step),
                Err(found) => word = found,
            }
            // The cell was converted to another quota meanwhile.
            if !ask.reads(word) {
                return None;
            }
            // The cell is in a later window now, so it may no longer be the cell with the least load.
            if ask.load(word).windows_ahead > chosen && !planted(Fault::TurnedRowDecides) {
                return None;
            }
        }
    }
}
