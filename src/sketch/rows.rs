//! [`Rows`]: the cells of a sketch, and how a request is decided on those of its key.
//!
//! # How
//! ```text
//! read the key's cell in every row, and take the one with the least load
//! it denies               -> denied, nothing written
//! it admits               -> add the cost to every other row's cell,
//!                            then decide by a compare-and-swap loop on this one
//! its window has turned   -> begin again
//! ```
//! So a decision is one compare-and-swap of one word, as everywhere. But a sketch does not know which key has made a
//! charge. So a charge must be in *every* word that may decide for the key later, and the other words are charged
//! before the decision. For this reason a denied request may have written. If another request is faster in the last
//! step, the denied request leaves its cost in the other rows, where it can only deny. An undo would have to know that
//! none of the cost has drained since.
//!
//! # Why a key never gets more than its quota
//! Take the admissions of one key in the order of their last steps, e1, e2, ... Each e charged all of the key's cells:
//! its deciding cell by its last step, and the other cells by adds before that step.
//!
//! **Each finds all earlier ones.** When e takes its last step, its cell has been charged by every e' before it. This
//! follows from the program order and from the single order of changes of each cell; [`super::cell`] argues how the
//! memory orderings carry it from cell to cell.
//!
//! **No charge lowers a word** ([`crate::algorithm::Adds`]). So other keys' traffic can only raise what e finds. It
//! remains to show that no charge is *lost* in a cell that e decides on, although an add stops at some height.
//!
//! ## Windows
//! Time: if the window of a word lies ahead of `now` (another thread's clock is ahead, or this request is late), the
//! request is decided at the start of that window, as in a [`Limiter`](crate::Limiter). The cells of one key may be in
//! different windows, since other keys turn them. The request is decided in the *earliest* of these windows, x(e), on a
//! cell that is in this window. If that cell turns before the last step, the request begins again. Every other cell is
//! in x(e) or in a later window, hence:
//!
//! * a charge of e' with x(e') = x is found by every later e with x(e) = x, in the count of that same window, because
//!   e's cell never was beyond x until now; a charge with x(e') < x is found in its own window or in a later window,
//!   where it counts for no less; and there is no charge with x(e') > x, because e's cell would have turned.
//! * An add stops at the limit of a window (of a ring: of every sum of its last segments). A count that has stopped at
//!   the limit admits nothing, and the count of a single key is never above the limit, so the units that were cut off
//!   change no decision.
//!
//! So each e would have been admitted by a limiter of the key's own that had decided e1, e2, ... at `now`, or
//! at the start of the window x(e) if that is later. That holds for any threads and any times, and it is the
//! contract of the window algorithms: the bound of each, with late requests raised to a window in force.
//!
//! Windows *from the first request* are refused: each cell's window opens with the first request of *any* of its keys,
//! so the windows of one key's cells do not coincide. A key that is decided on one cell and then on another finds that
//! its charges have ended early, and gets up to d + 1 limits in the length of a window.
//!
//! ## GCRA
//! Claim, in ticks: for every admission e at n and every time a, the costs of e and of all before it with a `now` of a
//! or later come to at most `n + burst - a`. (So in any interval `[a, b]` of `now` values the key is admitted at most
//! `burst + (b - a)`: take for e the last admission of the interval.)
//!
//! Let T be the time in e's cell just before e's last step. If no add was cut short there, each raised the cell by its
//! cost from a or above, in whatever order they came: `T >= a + (costs of the admissions before e)`. And e was
//! admitted: `T + cost <= n + burst`. Together these two give the claim. The argument needs no order of the times.
//!
//! An add at m is cut short only at `m + 2 * burst`. Let e' be the last admission whose add to this cell was cut short,
//! and P those (with a `now` of a or later) whose charge came to this cell up to then, e' among them. Then the cell
//! held at least `m + 2 * burst`, and later charges were added in full. So it is enough to show that `costs of P <= m +
//! 2 * burst - a`. Those of P whose last step was before that of e', and e' itself, are at most `m + burst - a`, by the
//! claim for e'. The rest of P had charged this cell before e' did, and took their last steps after that of e': they
//! were *in flight* when e' was decided. So the claim holds for e if
//!
//! * the requests of one key that are in flight at one moment ask for no more than a burst in all: they are covered by
//!   the second burst; or
//! * their `now` values are no further apart than the time in which a burst comes back: then the last admission of P
//!   has a `now` of at most `m + burst`, and the claim for this admission gives the bound.
//!
//! So a key can get more than the claim only if more than a burst's worth of its requests are in flight at the same
//! moment *and* their clocks are further apart than the burst's time. Requests that follow one another, as in one
//! thread, may have any times in any order. If adds did not stop, this condition would not be needed, but a cell that
//! many keys charge would run far ahead of now and not drain.

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
/// Cells are not padded: a sketch is chosen to save memory, and its keys are spread over many lines of 8 cells, so
/// two threads meet on a line only by chance. Threads that share a hot key contend for its cells in any layout.
#[derive(Debug)]
pub(crate) struct Cells(Box<[SketchCell]>);

impl Cells {
    /// Makes `count` cells that were never charged. Returns `None` if there is no memory for them.
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

    /// Decides, and charges every cell of the key if the request is admitted. Returns `None` if one of them is
    /// counted in another quota than the request's. Charges that were added to other cells by then can only deny.
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
            // All cells but the one that decides.
            let others = || places.cells().iter().filter(|&&place| place != least);
            let late = planted(Fault::OthersChargedLate);
            let charge_others = || others().all(|&place| self.at(place).add(ask));
            if !late && !planted(Fault::OthersNotCharged) && !charge_others() {
                return None;
            }
            // The deciding cell comes after all others: see the header.
            if let Some(step) = self.at(least).decide(ask, word) {
                if late {
                    charge_others();
                }
                return Some(step);
            }
            // A request with a later time has turned the window, so this request begins again.
        }
    }

    /// The key's cell with the least load (the first of equals), and its word. Returns `None` if one of the cells is
    /// counted in another quota.
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
                // The first of several equal loads is kept.
                if planted(Fault::FullestRowDecides) { load > than } else { load < than }
            });
            if is_less {
                least = Some((place, word, load));
            }
        }
        // The default is never used, since `SketchSize` has at least one row.
        Some(least.map_or((0, Word::UNUSED), |(place, word, _)| (place, word)))
    }

    /// Adds the cost to every cell of the key, without deciding. Returns `false` if one of them is counted in another
    /// quota.
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

    /// All words, each the newest in its cell. Reading them adds no step to a model.
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

    /// Prefetches the lines of all cells of a key. Here and below, the places were computed for this sketch's size,
    /// so there is a cell at each.
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
            // This fast path is only for plain GCRA, whose words are only a time and whose permits have no marks.
            Some(gcra) => self
                .decide(&SketchRequest::new(gcra, Fields::TIME_ALONE, now, cost), places)
                .decision(Kernel::Gcra(*gcra), 0),
            None => self.check_marked(places, now, cost),
        }
    }

    /// Decides under a window, or under a soft limit.
    #[inline(never)]
    fn check_marked(&self, places: &Places, now: Timestamp, cost: u64) -> Decision {
        let meter = &self.meter;
        let step = self.decide(&SketchRequest::new(&meter.kernel, meter.fields, now, cost), places);
        step.told(&meter.ruled()).decision(meter.kernel, meter.rules.soft_bp)
    }

    #[inline(always)]
    fn decide<A: Adds>(&self, ask: &SketchRequest<'_, A>, places: &Places) -> Step {
        loop {
            // This succeeds in the first round, since all cells are counted in the only quota.
            if let Some(step) = self.cells.decide(ask, places) {
                return step;
            }
        }
    }

    /// Takes as much as fits, or charges into debt. The key's least loaded cell says how much that is.
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
        // An add stops at two bursts, so units beyond are not charged.
        let wish = Wish::of(verb, cost, true, longest_debt(&meter.kernel));
        loop {
            // This succeeds in the first round, since all cells are counted in the only quota.
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
            // Lock-free: if this check is denied, another request's charge was faster, and the next round finds less.
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

    /// Tells whether every cell of the key is live.
    #[inline(always)]
    pub(super) fn is_live(&self, places: &Places, now: Timestamp) -> bool {
        // A cell is idle if the whole limit remains. A cell whose window lies ahead of now is live: it holds the
        // charge that turned it.
        let whole = self.meter.limit();
        places
            .cells()
            .iter()
            .all(|&place| self.meter.peek(self.cells.word(place), now, 0).remaining() < whole)
    }
}
