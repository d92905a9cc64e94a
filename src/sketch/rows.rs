//! [`Rows`]: the cells of a sketch, and the decision of a request on the cells of its key.
//!
//! # How
//! ```text
//! read the key's cell in every row, and take the one with the least load
//! it denies               -> denied, nothing written
//! it admits               -> add the cost to every other row's cell,
//!                            then decide by a compare-and-swap loop on this one
//! its window has turned   -> begin again
//! ```
//! So a decision is one compare-and-swap of one word, as in all limiters. But a cell does not show which keys have
//! charged it. So a charge must be in *every* word that may decide for the key later, and the cells other than the
//! deciding cell are charged before the decision. So a denied request may have written: if another request is faster in
//! the last step, the cost of the denied request stays in the other rows. There it can only cause denials. This cost
//! cannot be subtracted again, since some of it may have drained already.
//!
//! # Why a key never gets more than its quota
//! Consider the admissions of one key in the order of their last steps: e1, e2, ... Each admission e has charged all of
//! the key's cells: its deciding cell by its last step, and the other cells by adds before that step.
//!
//! **Each admission finds all earlier ones.** When e takes its last step, every earlier e' has already charged e's
//! deciding cell. This follows from the program order and from the single order of changes of each cell;
//! [`super::cell`] explains how the memory orderings carry this order from cell to cell.
//!
//! **No charge lowers a word** ([`crate::algorithm::Adds`]). So other keys' traffic can only raise the word that e
//! finds. What remains to be shown is that no charge is *lost* in the deciding cell of e, although an add does not
//! raise a cell above a bound.
//!
//! ## Windows
//! The window of a word may lie ahead of `now`, because another thread's clock is ahead or because this request is
//! late. Then the request is decided at the start of that window, as in a [`Limiter`](crate::Limiter). The cells of one
//! key may be in different windows, since other keys move them to later windows. The request is decided in the
//! *earliest* of these windows, x(e), on a cell that is in this window. If that cell moves to a later window before the
//! last step, the request begins again. Every other cell is in x(e) or in a later window. Therefore:
//!
//! * Let e be decided in the window x, and let e' be an earlier admission. If x(e') = x, e finds the charge in the
//!   count of that window, because e's cell was never beyond x until now. If x(e') < x, e finds the charge in its own
//!   window or in a later window, where it counts for no less. The case x(e') > x does not occur, because e's cell
//!   would have left x.
//! * An add does not raise the count of a window above the limit (in a ring, no add raises a sum of the last segments
//!   above the limit). A count that has stopped at the limit admits nothing, and the count of a single key is never
//!   above the limit, so the units that were not added change no decision.
//!
//! Now consider a separate limiter for the key that decides e1, e2, ... at `now`, or at the start of the window x(e) if
//! that is later. This limiter would also admit each e. This is true for all threads and times. So the bound of each
//! window algorithm holds, with late requests counted in a window in force.
//!
//! Windows *from the first request* are refused: each cell's window opens with the first request of *any* of its keys,
//! so the windows of one key's cells do not coincide. If a key were decided first on one cell and then on another, its
//! charges would end too early. Then a key could be admitted up to d + 1 times its limit within one window's length,
//! where d is the number of rows.
//!
//! ## GCRA
//! Claim, in ticks: let e be an admission with `now` = n, and let a be any time. Take the cost of e, and the costs of
//! all earlier admissions whose `now` is at a or later. They sum to at most `n + burst - a`. (So in any interval `[a,
//! b]` of `now` values the key is admitted at most `burst + (b - a)`: let e be the last admission of the interval.)
//!
//! Let T be the time in e's cell just before e's last step. Suppose first that every add to this cell was made in full.
//! Then each of these admissions raised the cell by its cost, from a or above. So `T >= a + (costs of the admissions
//! before e)`. This is true for any order of their times. Since e was admitted, `T + cost <= n + burst`. Together these
//! two give the claim.
//!
//! An add with `now` = m is cut only at `m + 2 * burst`. Let e' be the last admission whose add to this cell was cut.
//! Let P be the admissions, including e', that have a `now` of a or later, and whose charge had reached this cell by
//! then. Then the cell held at least `m + 2 * burst`, and later charges were added in full. So it is enough to show
//! that `costs of P <= m + 2 * burst - a`. Consider e' and the admissions of P that took their last steps before e'. By
//! the claim for e', they cost at most `m + burst - a`. The others of P had charged this cell before e' did, but took
//! their last steps after e': they were *in flight* when e' was decided. So the claim holds for e if
//!
//! * the requests of one key that are in flight at one moment cost together no more than a burst: then the second burst
//!   covers them; or
//! * their `now` values are no further apart than the time in which a burst comes back: then the last admission of P
//!   has a `now` of at most `m + burst`, and the claim for this admission gives the bound.
//!
//! So the claim can fail only under two conditions together: the requests of the key that are in flight at the same
//! moment cost more than a burst, *and* their clocks are further apart than the time in which a burst comes back.
//! Requests that follow one another, as in one thread, may have any times in any order. Without the bound on adds this
//! condition would not be needed, but the time of a cell that many keys charge would run far ahead of now, and the cell
//! would not drain.

use crate::algorithm::{Adds, Kernel};
use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::error::BuildError;
use crate::hash::prefetch;
use crate::meter::{Meter, Step};
use crate::policy::{Algorithm, Policy, is_soft_at_most};
use crate::sync::{Fault, planted};
use crate::verb::{Verb, Wish};
use crate::word::{Fields, Reads, Word};

use super::cell::{SketchCell, SketchRequest, longest_debt};
use super::place::Places;
use super::size::SketchSize;

/// All cells of a sketch, row after row, and the policy of their words.
#[derive(Debug)]
pub(crate) struct Rows {
    cells: Cells,
    meter: Meter,
}

/// The cells of a sketch, for words of any quota. They are allocated once and never grow.
///
/// Cells are not padded: a sketch is chosen to save memory, and its keys are spread over many lines of 8 cells, so two
/// threads use the same line only by chance. Threads that share a hot key would contend for its cells in any layout.
#[derive(Debug)]
pub(crate) struct Cells(Box<[SketchCell]>);

impl Cells {
    /// Makes `count` cells that were never charged. Returns `None` if the memory cannot be allocated.
    pub(crate) fn new(count: usize) -> Option<Self> {
        let mut cells = Vec::new();
        cells.try_reserve_exact(count).ok()?;
        cells.resize_with(count, SketchCell::new);
        Some(Self(cells.into_boxed_slice()))
    }

    #[inline(always)]
    fn at(&self, place: usize) -> &SketchCell {
        &self.0[place]
    }

    /// Decides, and charges every cell of the key if the request is admitted. Returns `None` if one of the cells does
    /// not belong to the quota of the request. The cost may have been added to other cells before that, which can only
    /// cause denials.
    #[inline(always)]
    pub(super) fn decide<A: Adds, F: Reads>(
        &self,
        ask: &SketchRequest<'_, A, F>,
        places: &Places,
    ) -> Option<Step> {
        loop {
            let (least, word) = self.least(ask, places)?;
            let step = ask.step(word);
            if step.word == word {
                return Some(step); // the request is denied or costs 0: there is nothing to write
            }
            let others = || places.cells().iter().filter(|&&place| place != least);
            let late = planted(Fault::OthersChargedLate);
            let charge_others = || others().all(|&place| self.at(place).add(ask));
            if !late && !planted(Fault::OthersNotCharged) && !charge_others() {
                return None;
            }
            // The deciding cell is charged last: see the top of this file.
            if let Some(step) = self.at(least).decide(ask, word) {
                if late {
                    charge_others();
                }
                return Some(step);
            }
            // The cell is in a later window or belongs to another quota by now, so this request begins again.
        }
    }

    /// The key's cell with the least load, and its word. If several cells have this load, it is the first of them.
    /// Returns `None` if one of the cells belongs to another quota.
    #[inline(always)]
    pub(super) fn least<A: Adds, F: Reads>(
        &self,
        ask: &SketchRequest<'_, A, F>,
        places: &Places,
    ) -> Option<(usize, Word)> {
        let mut least = None;
        for &place in places.cells() {
            let word = self.at(place).word();
            if !ask.reads(word) {
                return None;
            }
            let load = ask.load(word);
            let is_less = least.is_none_or(|(_, _, than)| {
                // If loads are equal, the first cell is kept.
                if planted(Fault::FullestRowDecides) { load > than } else { load < than }
            });
            if is_less {
                least = Some((place, word, load));
            }
        }
        // The default is never used, since `SketchSize` has at least one row.
        Some(least.map_or((0, Word::UNUSED), |(place, word, _)| (place, word)))
    }

    /// Adds the cost to every cell of the key, without a decision. Returns `false` if one of the cells belongs to
    /// another quota.
    pub(super) fn add<A: Adds, F: Reads>(
        &self,
        ask: &SketchRequest<'_, A, F>,
        places: &Places,
    ) -> bool {
        places.cells().iter().all(|&place| self.at(place).add(ask))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[SketchCell]>(&self.0)
    }

    /// The word of a cell.
    pub(crate) fn word(&self, place: usize) -> Word {
        self.at(place).word()
    }

    /// Replaces `word` by `next` if the cell still holds `word`.
    pub(crate) fn replace(&self, place: usize, word: Word, next: Word) -> bool {
        self.at(place).replace(word, next)
    }

    /// All words, row after row.
    pub(crate) fn words(&self) -> impl Iterator<Item = Word> {
        self.0.iter().map(SketchCell::word)
    }

    /// The newest word of each cell. Reading them adds no step to a model.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn newest(&self) -> impl Iterator<Item = Word> {
        self.0.iter().map(SketchCell::newest)
    }

    /// Puts words in all cells, in the order of [`words`](Self::words), for a caller that has just made the cells.
    pub(crate) fn fill<E>(
        &mut self,
        mut next: impl FnMut(usize) -> Result<Word, E>,
    ) -> Result<(), E> {
        self.0.iter_mut().enumerate().try_for_each(|(place, cell)| {
            *cell = SketchCell::holding(next(place)?);
            Ok(())
        })
    }
}

impl Rows {
    pub(super) fn new(policy: Policy, size: SketchSize) -> Result<Self, BuildError> {
        is_soft_at_most(policy, "the keys of a sketch share its cells", "KeyedLimiter")?;
        if policy.algorithm() == Algorithm::FixedWindowFromFirst {
            return Err(BuildError::Policy(format!(
                "a sketch cannot keep the bound of {policy}: cells are shared, and those of one key \
                 would open their windows at different times; leave out from-first, or use gcra"
            )));
        }
        let meter = Meter::new(policy)?;
        let count = size.rows() * size.cells_per_row(); // the size was checked to be addressable
        let cells = Cells::new(count).ok_or(BuildError::OutOfMemory { bytes: size.bytes() })?;
        Ok(Self { cells, meter })
    }

    /// Prefetches the lines of all cells of a key. Here and below, `places` was computed for the size of this sketch,
    /// so each place has a cell.
    #[inline(always)]
    pub(super) fn fetch(&self, places: &Places) {
        for &place in places.cells() {
            prefetch(self.cells.at(place));
        }
    }

    /// Decides, and charges every row if the request is admitted.
    #[inline(always)]
    pub(super) fn check(&self, places: &Places, now: Timestamp, cost: u64) -> Decision {
        match &self.meter.plain {
            // This is the fast path for plain GCRA: its words contain only a time, and its permits have no marks.
            Some(gcra) => self
                .decide(&SketchRequest::new(gcra, Fields::TIME_ALONE, now, cost), places)
                .decision(Kernel::Gcra(*gcra), 0),
            None => self.check_marked(places, now, cost),
        }
    }

    /// Decides for all policies other than plain GCRA.
    #[inline(never)]
    fn check_marked(&self, places: &Places, now: Timestamp, cost: u64) -> Decision {
        let meter = &self.meter;
        let step = self.decide(&SketchRequest::new(&meter.kernel, meter.fields, now, cost), places);
        step.told(&meter.ruled()).decision(meter.kernel, meter.rules.soft_bp)
    }

    #[inline(always)]
    fn decide<A: Adds>(&self, ask: &SketchRequest<'_, A>, places: &Places) -> Step {
        loop {
            // This succeeds in the first round, since all cells belong to the only quota.
            if let Some(step) = self.cells.decide(ask, places) {
                return step;
            }
        }
    }

    /// Takes as much as fits, or charges into debt. The key's least loaded cell determines how much that is.
    #[cold]
    pub(super) fn gather(
        &self,
        verb: Verb,
        places: &Places,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        let Self { cells, meter } = self;
        let ask = |cost| SketchRequest::new(&meter.kernel, meter.fields, now, cost);
        // An add stops at two bursts, so units beyond them are not charged.
        let wish = Wish::of(verb, cost, true, longest_debt(&meter.kernel));
        loop {
            // This succeeds in the first round, since all cells belong to the only quota.
            let Some((_, word)) = cells.least(&ask(0), places) else { continue };
            let step = Step::of(&meter.ruled(), meter.fields, word, now, wish);
            let told = step.decision(meter.kernel, meter.rules.soft_bp);
            // Nothing fits, or there is nothing to charge.
            if step.word == word {
                return told;
            }
            let cost = told.charged();
            if verb == Verb::Charge {
                cells.add(&ask(cost), places);
                return told;
            }
            // Lock-free: if this check is denied, another request's charge was faster, and the next round finds fewer
            // units.
            let told = self.check(places, now, cost);
            if told.is_allowed() {
                return told;
            }
        }
    }

    /// Decides whether the request would be admitted, and charges nothing.
    #[inline(always)]
    pub(super) fn peek(&self, places: &Places, now: Timestamp, cost: u64) -> Decision {
        let least = match &self.meter.kernel {
            Kernel::Gcra(gcra) => {
                self.cells.least(&SketchRequest::new(gcra, Fields::TIME_ALONE, now, 0), places)
            }
            kernel => {
                self.cells.least(&SketchRequest::new(kernel, self.meter.fields, now, 0), places)
            }
        };
        self.meter.peek(least.map_or(Word::UNUSED, |(_, word)| word), now, cost)
    }

    /// True if every cell of the key is live.
    #[inline(always)]
    pub(super) fn is_live(&self, places: &Places, now: Timestamp) -> bool {
        // A cell is idle if the whole limit remains. A cell whose window lies ahead of now is live, since it contains
        // the charge that moved it there.
        let whole = self.meter.limit();
        places
            .cells()
            .iter()
            .all(|&place| self.meter.peek(self.cells.word(place), now, 0).remaining() < whole)
    }
}
