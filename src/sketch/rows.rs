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
//! So a decision is one compare-and-swap of one word, as everywhere; but a sketch forgets who charged what,
//! so the charge must be in *every* word that may decide for the key later, and those are charged first. That
//! is why a denied request may have written here: who loses the last step to another leaves its cost in the
//! other rows, where it can only deny. An undo would have to know that nothing has drained of it since.
//!
//! # Why a key never gets more than its quota
//! Take the admissions of one key in the order of their last steps, e1, e2, ... Each e charged all of the
//! key's cells: the others by an add before its last step, its own by that step.
//!
//! **Each finds all earlier ones.** When e takes its last step, its cell has been charged by every e' before
//! it. That is the program order and one place in each cell's order of changes; the orderings that carry it
//! from cell to cell are argued in [`super::cell`].
//!
//! **No charge lowers a word** ([`crate::algorithm::Adds`]). So other keys' traffic can only raise what e
//! finds. What is left is that no charge is *lost* in a cell that e decides on: an add stops somewhere.
//!
//! ## Windows
//! Time: a word whose window lies ahead of `now` (another thread's clock is ahead, or this request is late)
//! places the request at its own window's start, as it does in a [`Limiter`](crate::Limiter). The cells of
//! one key may stand in different windows, since others turn them. So the request is placed in the
//! *earliest* window that any of its cells places it in, and decided on a cell in that window, x(e); if that
//! cell turns before the last step, it begins again. Every other cell stands at x(e) or later, hence:
//!
//! * a charge of e' with x(e') = x is found by every later e with x(e) = x, in the count of that same window,
//!   because e's cell never was beyond x until now; one with x(e') < x is found in its own window or in one
//!   after it, where it weighs no less; and there is none with x(e') > x, because e's cell would have turned.
//! * An add stops at the limit of a window (of a ring: of every sum of its last segments). A count that has
//!   stopped admits nothing, and no key's own count is above the limit: nothing that stops is missed.
//!
//! So each e would have been admitted by a limiter of the key's own that had decided e1, e2, ... at `now`, or
//! at the start of the window x(e) if that is later. That holds for any threads and any times, and it is the
//! contract of the window algorithms: the bound of each, with late requests raised to a window in force.
//!
//! Windows *from the first request* are refused: each cell's window opens with the first request of *any* of
//! its keys, so the windows of one key's cells do not coincide. A key decided now on one and now on another
//! finds that its charges have ended early, and gets up to d + 1 limits in a window's length.
//!
//! ## GCRA
//! Claim, in ticks: for every admission e at n and every time a, the costs of e and of all before it with a
//! `now` of a or later come to at most `n + burst - a`. (So in any interval `[a, b]` of `now` values the key
//! is admitted at most `burst + (b - a)`: take the last of the interval for e.)
//!
//! Let T be what e's cell holds just before e's last step. If no add was cut short there, each raised the
//! cell by its cost from a or above, in whatever order they came: `T >= a + (costs of those before)`. And e
//! was admitted: `T + cost <= n + burst`. Together that is the claim. It needs no order of the times.
//!
//! An add at m is cut short only at `m + 2 * burst`. Let e' be the last admission whose add to this cell was
//! cut short, and P those (with a `now` of a or later) whose charge came to this cell up to then, e' among
//! them. Then the cell held `m + 2 * burst` at least, and what came after counts in full. So it is enough
//! that `costs of P <= m + 2 * burst - a`. Those of P whose last step was before that of e', and e' itself, are
//! at most `m + burst - a`, by the claim for e'. The rest of P had come to this cell before e' did and took
//! their last steps after it: they were *in flight* when e' was decided. So the claim holds for e if
//!
//! * the requests of one key that are in flight at one moment ask for no more than a burst in all: that is
//!   the other burst; or
//! * their `now` values are no further apart than the time in which a burst comes back: then the last of P
//!   has a `now` of at most `m + burst`, and the claim for it is what is wanted.
//!
//! So it takes more than a burst's worth of requests of one key, all between their first and their last step
//! at the same moment, *and* with clocks further apart than the burst's time, to get more than the claim.
//! One after the other, as in one thread, requests may come with any times in any order. Without a stop there
//! would be no condition; but a cell that many keys charge would run away from the time and never drain.

use crate::algorithm::{Adds, Kernel};
use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::keyed::prefetch::prefetch;
use crate::meter::{Meter, Step};
use crate::policy::{Algorithm, AtLimit, Policy};
use crate::sync::{Fault, planted};
use crate::word::{Fields, Word};

use super::cell::{Ask, Cell};
use super::error::SketchError;
use super::place::Places;
use super::size::SketchSize;

/// All cells of a sketch, row after row, and the policy of their words. Allocated once; never grows.
///
/// Cells are not padded: memory is what a sketch is chosen for, and with keys spread over many lines two
/// threads meet on one by chance only, 8 keys to a line. A hot key's cells are its own lines' affair, in any
/// layout.
#[derive(Debug)]
pub(crate) struct Rows {
    cells: Box<[Cell]>,
    meter: Meter,
}

impl Rows {
    pub(super) fn new(policy: Policy, size: SketchSize) -> Result<Self, SketchError> {
        Self::read_by(Meter::new(policy), policy, size)
    }

    /// [`new`](Self::new) with words that are read by a meter of this policy, which may count more coarsely.
    pub(crate) fn read_by(
        meter: Meter,
        policy: Policy,
        size: SketchSize,
    ) -> Result<Self, SketchError> {
        if policy.at_limit() != AtLimit::default() {
            return Err(SketchError::AtLimit { policy });
        }
        if policy.algorithm() == Algorithm::FixedWindowFromFirst {
            return Err(SketchError::FromFirst { policy });
        }
        let count = size.rows() * size.cells_per_row(); // the size was checked to be addressable
        let mut cells = Vec::new();
        cells
            .try_reserve_exact(count)
            .map_err(|_| SketchError::OutOfMemory { bytes: size.bytes() })?;
        cells.resize_with(count, Cell::new);
        Ok(Self { cells: cells.into_boxed_slice(), meter })
    }

    /// Asks for the lines of a key's cells, all at once. Here and below, places are those of this sketch's size, so
    /// there is a cell at each.
    #[inline(always)]
    pub(super) fn fetch(&self, places: &Places) {
        for &place in places.cells() {
            prefetch(&self.cells[place]);
        }
    }

    /// Decides, and charges every row if the request is admitted.
    #[inline(always)]
    pub(super) fn check(&self, places: &Places, now: Timestamp, cost: u64) -> Decision {
        match &self.meter.kernel {
            Kernel::Gcra(gcra) => self
                .decide(&Ask::new(gcra, Fields::TIME_ALONE, now, cost), places)
                .decision(self.meter.kernel, 0),
            _ => self.check_window(places, now, cost).decision(self.meter.kernel, 0),
        }
    }

    #[inline(never)]
    fn check_window(&self, places: &Places, now: Timestamp, cost: u64) -> Step {
        self.decide(&Ask::new(&self.meter.kernel, self.meter.fields, now, cost), places)
    }

    #[inline(always)]
    pub(super) fn decide<A: Adds>(&self, ask: &Ask<'_, A>, places: &Places) -> Step {
        loop {
            let (least, word) = self.least(ask, places);
            let step = ask.step(word);
            if step.word == word {
                return step; // denied, or a cost of 0: nothing to write
            }
            let others = || places.cells().iter().filter(|&&place| place != least);
            let late = planted(Fault::OthersChargedLate);
            if !late && !planted(Fault::OthersNotCharged) {
                others().for_each(|&place| self.cells[place].add(ask));
            }
            if let Some(step) = self.cells[least].decide(ask, word) {
                if late {
                    others().for_each(|&place| self.cells[place].add(ask));
                }
                return step;
            }
            // Somebody with a later time has turned the window: whoever begins again was overtaken.
        }
    }

    /// The key's cell with the least load, the first of equals, and what it held.
    #[inline(always)]
    fn least<A: Adds>(&self, ask: &Ask<'_, A>, places: &Places) -> (usize, Word) {
        let mut least = None;
        for &place in places.cells() {
            let word = self.cells[place].word();
            let load = ask.load(word);
            let is_less = least.is_none_or(|(_, _, than)| {
                if planted(Fault::FullestRowDecides) { load > than } else { load < than }
            });
            if is_less {
                least = Some((place, word, load));
            }
        }
        // There is a row: `SketchSize` has at least one.
        least.map_or((0, Word::UNUSED), |(place, word, _)| (place, word))
    }

    /// Would the request be admitted? Charges nothing.
    #[inline(always)]
    pub(super) fn peek(&self, places: &Places, now: Timestamp, cost: u64) -> Decision {
        self.meter.peek(self.estimate(places, now), now, cost)
    }

    /// The word of the key as far as the sketch knows it at this instant: the one with the least load.
    ///
    /// It holds no less than a word that only the key had charged, with every charge whose adds happened
    /// before this call. So whoever goes on from it (a limiter that takes the key over) admits no more than
    /// if it had followed the key from the start. It may hold more, by what others have left in *all* of
    /// the key's cells. To be read only by this policy's [`Meter`], at this instant or later.
    #[inline(always)]
    pub(crate) fn estimate(&self, places: &Places, now: Timestamp) -> Word {
        match &self.meter.kernel {
            Kernel::Gcra(gcra) => self.least(&Ask::new(gcra, Fields::TIME_ALONE, now, 0), places).1,
            kernel => self.least(&Ask::new(kernel, self.meter.fields, now, 0), places).1,
        }
    }

    /// Adds a cost to every cell of the key without deciding: for a request that was admitted elsewhere.
    ///
    /// When it returns, every estimate that happens after it holds the charge, as it stands at `now`, until it
    /// has drained. Never lowers a cell; a cell that holds two bursts (GCRA) or the limit (windows) already
    /// stays as it is. The bound of the key then includes what is added here only if whoever adds has tested
    /// it against an estimate.
    pub(crate) fn add(&self, places: &Places, now: Timestamp, cost: u64) {
        let ask = Ask::new(&self.meter.kernel, self.meter.fields, now, cost);
        for &place in places.cells() {
            self.cells[place].add(&ask);
        }
    }

    /// Whether every cell of the key is live.
    #[inline(always)]
    pub(super) fn contains(&self, places: &Places, now: Timestamp) -> bool {
        // Idle is: the whole limit remains. A window ahead of now is not: it holds what turned it.
        let whole = self.meter.limit();
        places
            .cells()
            .iter()
            .all(|&place| self.meter.peek(self.cells[place].word(), now, 0).remaining() < whole)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[Cell]>(&self.cells)
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// All words, row after row.
    pub(crate) fn words(&self) -> impl Iterator<Item = Word> {
        self.cells.iter().map(Cell::word)
    }

    /// Puts words in all cells, in the order of [`words`](Self::words). For who has just made them.
    pub(crate) fn fill<E>(&mut self, mut next: impl FnMut() -> Result<Word, E>) -> Result<(), E> {
        self.cells.iter_mut().try_for_each(|cell| {
            *cell = Cell::holding(next()?);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use ahash::RandomState;

    use super::super::place::Placer;
    use super::*;

    fn rows(policy: &str) -> (Rows, Placer<RandomState>) {
        let policy: Policy = policy.parse().expect("a policy");
        let size = SketchSize::new(3, 100).expect("a size");
        let seeds = |n| RandomState::with_seeds(n, n + 1, n + 2, n + 3);
        let placer = Placer::new([seeds(1), seeds(11)], size.rows(), size.cells_per_row());
        (Rows::new(policy, size).expect("it fits"), placer)
    }

    const POLICIES: [&str; 4] =
        ["gcra 5/m", "fixed-window 5/m", "sliding-window 5/m", "segmented-window 5/m x6"];

    #[test]
    fn an_estimate_is_the_keys_own_word_while_nobody_shares_all_of_its_cells() {
        for policy in POLICIES {
            let (rows, placer) = rows(policy);
            let key = placer.places("alice");
            let mut word = Word::UNUSED;
            for second in [100, 100, 107, 119, 160, 250] {
                let now = Timestamp::from_secs(second);
                assert_eq!(rows.estimate(&key, now), word, "{policy}");
                assert!(rows.check(&key, now, 1).is_allowed());
                word = rows.meter.check(word, now, 1).1;
                // Others, who share a cell with the key in some row but not in all.
                for other in 0..10_u64 {
                    let places = placer.places(&other);
                    let shared = key.cells().iter().zip(places.cells()).filter(|(a, b)| a == b);
                    assert!(shared.count() < 3);
                    let _ = rows.check(&places, now, 1);
                }
            }
        }
    }

    #[test]
    fn what_is_added_without_deciding_is_found_by_every_decision() {
        for policy in POLICIES {
            let (rows, placer) = rows(policy);
            let (key, now) = (placer.places("alice"), Timestamp::from_secs(300));
            rows.add(&key, now, 3);
            assert!(rows.contains(&key, now));
            assert_eq!(rows.peek(&key, now, 1).remaining(), 2, "{policy}");
            assert!(!rows.check(&key, now, 3).is_allowed());
            // More than fits is added all the same, and never lowers what is there.
            rows.add(&key, now, 100);
            let full = rows.estimate(&key, now);
            assert_eq!(rows.peek(&key, now, 1).remaining(), 0, "{policy}");
            rows.add(&key, Timestamp::from_secs(299), 1);
            assert_eq!(rows.estimate(&key, now), full, "{policy}");
        }
    }

    #[test]
    fn an_add_beyond_two_bursts_has_drained_after_two() {
        let (rows, placer) = rows("gcra 5/m");
        let key = placer.places("alice");
        rows.add(&key, Timestamp::from_secs(100), u64::MAX);
        let answer = rows.peek(&key, Timestamp::from_secs(100), 1);
        assert_eq!(answer.reset_after().as_secs(), 120);
    }
}
