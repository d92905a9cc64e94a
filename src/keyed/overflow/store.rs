//! [`Spill`]: the sketch of a table, its *marks* (instants until which charges in the sketch matter), and how the
//! sketch decides a request.

use crate::algorithm::{Decides, Former, Held, Kernel};
use crate::clock::Timestamp;
use crate::error::BuildError;
use crate::keyed::memory::shard::OwnBits;
use crate::meter::Meter;
use crate::policy::{Algorithm, Policy};
use crate::sketch::{Cells, GOLDEN, Lens, Places, SketchSize, mix};
use crate::sync::{AtomicU64, Ordering};
use crate::verb::{Charged, Verb, Verbs, Wish};
use crate::verdict::Verdict;
use crate::word::{Fields, Word};

use crate::hash::{Identity, lower};
use crate::keyed::memory::ask::Ask;
use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::points;
use crate::keyed::quotas::book::Quotas;
use crate::keyed::quotas::book::{Book, Lane};

use super::reach::reach_ns;

/// The number of cells that a key has in the sketch, one in each row. One cell per key would be enough for floods of
/// keys that come once. With two cells, a few keys that spend all their units cause hardly any denials of other keys:
/// see the measurements in `tests/spill/flood.rs`.
const ROWS_OF_SKETCH: usize = 2;

/// The cells of the sketch for each shard. A shard is a line of eight words, so the sketch takes an eighth of the
/// table's memory.
const CELLS_PER_SHARD: usize = 1;

/// The fewest cells of a row, for all tiers together. An eighth of a tiny table would be next to nothing, so the cells
/// of both rows take 1 KiB there, less what remains when a row is divided by the number of tiers.
const CELLS_PER_ROW_MIN: usize = if cfg!(loom) { 2 } else { 64 };

/// The number of shards that share a mark. It is small, so that a full region of the table does not raise the marks of
/// the other regions. The marks take 1/512 of the table's memory.
// While a mark lies in the future, each install in its 64 shards reads two cells of the sketch, mostly for nothing. But
// one mark per shard would take an eighth of the table's memory.
const SHARDS_PER_MARK: usize = 64;

/// A sketch for keys that have no cell.
#[derive(Debug)]
pub(in crate::keyed) struct Spill {
    pub(in crate::keyed) cells: Cells,
    /// The size of one tier's part.
    size: SketchSize,
    pub(in crate::keyed) marks: Box<[AtomicU64]>,
    pub(in crate::keyed) words: SpillWords,
}

/// The quotas that the words of the sketch are counted in.
#[derive(Debug)]
pub(in crate::keyed) enum SpillWords {
    One(Lens),
    /// The quotas of a book. A mark reaches `reach_ns` beyond its charge.
    Several {
        reach_ns: u64,
    },
}

/// The decision on a request in the sketch.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct SpillTold {
    pub(in crate::keyed) verdict: Verdict,
    /// The units that were charged, or the cost of the denial.
    pub(in crate::keyed) cost: u64,
    pub(in crate::keyed) held: Held,
}

/// A request for the sketch.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct Asked<'a> {
    pub(in crate::keyed) places: &'a Places,
    pub(in crate::keyed) mark: &'a AtomicU64,
    pub(in crate::keyed) at_ns: u64,
    pub(in crate::keyed) ask: &'a Ask,
}

/// True if a sketch can keep the bound of a policy.
pub(in crate::keyed) fn can_spill(policy: &Policy) -> bool {
    // A window that opens with its first request starts at a different time for each key, but a cell that keys share
    // has only one start. A log has no word to share.
    let is_apart =
        matches!(policy.algorithm(), Algorithm::FixedWindowFromFirst | Algorithm::SlidingLog);
    !is_apart && policy.at_limit().is_plain()
}

impl Spill {
    /// The spill of a table with this number of shards, or `None` if no sketch can keep the bound of the policy.
    pub(in crate::keyed) fn new(
        policy: Policy,
        layout: &Layout,
        shards: usize,
    ) -> Result<Option<Self>, BuildError> {
        // Without a sketch the table denies keys that find no cell.
        if !can_spill(&policy) {
            return Ok(None);
        }
        let words = SpillWords::One(sole(policy, layout)?);
        Self::of(words, shards, 1).map(Some)
    }

    /// The spill of a table of these quotas. Returns `None` if callers bring their own quotas, if no sketch can keep
    /// the bound of any of the quotas, or if the words of one quota do not fit beside an index.
    pub(in crate::keyed) fn of_book(
        book: &Book,
        shards: usize,
    ) -> Result<Option<Self>, BuildError> {
        // Keys that share a cell could have different quotas.
        if book.takes_own() {
            return Ok(None);
        }
        let tiers = book.tiers();
        // This is `None` if the words of one tier do not fit. Then there is no spill at all.
        let lenses: Option<Vec<Lens>> = (0..tiers).map(|tier| book.lens_of(tier)).collect();
        // A spill is made if any tier can use it. Requests in the other tiers are denied when there is no cell.
        let Some(lenses) = lenses.filter(|lenses| lenses.iter().any(Lens::is_shared)) else {
            return Ok(None);
        };
        // Each cell starts as an unused word of its tier, with the index of the tier's quota.
        let mut spill = Self::of(SpillWords::Several { reach_ns: reach_ns(book) }, shards, tiers)?;
        let part = spill.part();
        // In bounds: the parts are as many as the tiers, and each tier has a lens.
        let unused = |place: usize| Ok(lenses[place / part].unused());
        // This cannot fail, since these words are not read from a file.
        let filled: Result<(), BuildError> = spill.cells.fill(unused);
        filled.map(|()| Some(spill))
    }

    fn of(words: SpillWords, shards: usize, tiers: usize) -> Result<Self, BuildError> {
        // A size that overflows is an error: there would be no memory for such a sketch.
        let Some((size, count)) = Self::plan(shards, tiers) else {
            return Err(BuildError::OutOfMemory { bytes: usize::MAX });
        };
        let bytes = size.bytes() * tiers; // no more than a table of one tier would plan
        let cells = Cells::new(size.rows() * size.cells_per_row() * tiers)
            .ok_or(BuildError::OutOfMemory { bytes })?;
        let mut marks = Vec::new();
        let bytes = count * size_of::<AtomicU64>();
        // The memory is reserved first, so that a lack of it is an error of the build and no abort.
        marks.try_reserve_exact(count).map_err(|_| BuildError::OutOfMemory { bytes })?;
        marks.resize_with(count, || AtomicU64::new(0));
        Ok(Self { cells, size, marks: marks.into_boxed_slice(), words })
    }

    /// The size of each tier's sketch in a table with this number of shards, and the table's number of marks; `None` if
    /// there is no such sketch.
    fn plan(shards: usize, tiers: usize) -> Option<(SketchSize, usize)> {
        // The number of cells is rounded down, but it is never less than the minimum.
        let cells_per_row = (shards * CELLS_PER_SHARD / ROWS_OF_SKETCH).max(CELLS_PER_ROW_MIN);
        // Each tier has an equal share of the cells, and at least one cell in each row, however many keys it may have.
        let size = SketchSize::new(ROWS_OF_SKETCH, (cells_per_row / tiers).max(1)).ok()?;
        Some((size, shards.div_ceil(SHARDS_PER_MARK)))
    }

    /// The number of words that a snapshot holds for the spill of a table with this number of shards and tiers.
    pub(in crate::keyed) fn words_of(shards: usize, tiers: usize) -> u64 {
        // A table for which no sketch can be planned was never built with one.
        Self::plan(shards, tiers).map_or(0, |(size, marks)| {
            (size.rows() * size.cells_per_row() * tiers) as u64 + marks as u64
        })
    }

    pub(in crate::keyed) fn bytes(&self) -> usize {
        self.cells.bytes() + size_of_val::<[AtomicU64]>(&self.marks)
    }

    /// The number of cells of one tier.
    pub(in crate::keyed) fn part(&self) -> usize {
        self.size.rows() * self.size.cells_per_row()
    }

    /// The marks, and then the sketch's words, as a snapshot has them.
    ///
    /// A mark is read before the words whose charges it covers. So the result has the mark and the words of every
    /// charge that was made before this call. It may have a part of a charge that is made during this call, which can
    /// only lead to denials.
    pub(in crate::keyed) fn words(&self) -> impl Iterator<Item = u64> {
        // Acquire: the words are loaded after the marks.
        let marks = self.marks.iter().map(|mark| mark.load(Ordering::Acquire));
        marks.chain(self.cells.words().map(Word::to_bits))
    }

    /// Takes over the spill's words of a snapshot, in their order. Returns the first word that belongs to no quota of
    /// its tier, with its index among these words, marks included.
    pub(in crate::keyed) fn fill<E>(
        &mut self,
        book: Option<&Book>,
        mut next: impl FnMut() -> Result<u64, E>,
    ) -> Result<Option<(usize, u64)>, E> {
        for mark in &mut self.marks {
            // A restore owns the spill alone, so no order is needed.
            *mark = AtomicU64::new(next()?);
        }
        self.cells.fill(|_| next().map(Word::from_bits))?;
        // Under a single quota every word is a valid state: see `restore`.
        let Some(book) = book else { return Ok(None) };
        // Places are numbered through the parts of all tiers, so a place divided by the size of a part is the tier.
        let part = self.part();
        // A word with an index that is not of its own tier would be read by the wrong arithmetic.
        let is_foreign = |(place, word): &(usize, Word)| {
            book.lens_of(place / part).is_none_or(|lens| !lens.reads(*word))
        };
        let foreign = self.cells.words().enumerate().find(is_foreign);
        Ok(foreign.map(|(place, word)| (self.marks.len() + place, word.to_bits())))
    }

    /// The cells of a key, which do not depend on which of its shards is its home.
    pub(in crate::keyed) fn places(&self, identity: Identity, second: usize, tier: u16) -> Places {
        // The tag and the shard are parts of hashes that no client can foresee. They are multiplied by odd numbers that
        // look random, and folded, so that all bits of both affect every bit of the two hashes made here. It does not
        // matter which unit holds the key's home: the table cannot distinguish two keys with the same tag and units,
        // and neither can the sketch.
        let lower = lower(identity, second) as u64;
        let hashes =
            [mix(identity.tag.to_bits() ^ GOLDEN, SPREAD[0]), mix(lower ^ SPREAD[0], SPREAD[1])];
        let places = Places::of(hashes, self.size.rows(), self.size.cells_per_row());
        // The parts of the tiers follow one another.
        places.starting_at(usize::from(tier) * self.part())
    }

    pub(in crate::keyed) fn mark(&self, identity: Identity, second: usize) -> &AtomicU64 {
        // In bounds: `lower` is the number of a shard, and the marks are rounded up to cover all shards.
        &self.marks[lower(identity, second) / SHARDS_PER_MARK]
    }

    /// The quota that the key's cells are counted in, and how they are read. In a table of several quotas the cells'
    /// words name the quota. Returns `None` if the words have no room for the quota, which does not happen in a table
    /// with a spill.
    pub(in crate::keyed) fn lens(
        &self,
        quotas: Quotas<'_>,
        places: &Places,
    ) -> Option<(Lens, Layout, OwnBits)> {
        match (&self.words, quotas) {
            // The cells are always counted in the one quota, and carry no index.
            (SpillWords::One(lens), Quotas::One(layout)) => {
                Some((*lens, *layout, OwnBits::default()))
            }
            (_, Quotas::Several(book)) => {
                let Lane { layout, own } = self.settled(book, places);
                Some((book.lens(&layout, own)?, layout, own))
            }
            // This does not happen: a table of one quota has a spill of that quota.
            (SpillWords::Several { .. }, Quotas::One(_)) => None,
        }
    }

    /// The state of the key as its cells have it; `None` if one of them is counted in another quota.
    pub(in crate::keyed) fn estimate(
        &self,
        lens: &Lens,
        places: &Places,
        at_ns: u64,
    ) -> Option<Held> {
        lens.estimate(&self.cells, places, Timestamp::from_nanos(at_ns))
    }

    /// The surplus of the key as its cells have it; `None` if one of them is counted in another quota.
    pub(in crate::keyed) fn surplus(
        &self,
        lens: &Lens,
        places: &Places,
        at_ns: u64,
        former: &Former,
    ) -> Option<u64> {
        lens.surplus(&self.cells, places, Timestamp::from_nanos(at_ns), former)
    }

    /// Decides a request, and charges its cost if the request is admitted and asks to be charged. Returns `None` if one
    /// of the key's cells is counted in another quota.
    pub(in crate::keyed) fn decide(&self, lens: &Lens, asked: Asked<'_>) -> Option<SpillTold> {
        let Asked { places, at_ns, ask, .. } = asked;
        let (kernel, at) = (&lens.kernel, Timestamp::from_nanos(at_ns));
        let late = points::lateness(kernel.lateness(ask.now_ns, at_ns));
        // The first look writes nothing. It is enough for a request that does not charge, and for most denials. A
        // request that charges is decided again, by what the cells then contain, unless it may go into debt.
        let held = self.estimate(lens, places, at_ns)?;
        let verb = match ask.verb {
            // A sketch promises no place in the future, so a reservation is admitted only if it can be used at once.
            Verb::Reserve { .. } => Verb::Check,
            verb => verb,
        };
        let wish = Wish::of(verb, ask.cost, ask.charge, lens.longest_debt());
        let denied = SpillTold { verdict: Verdict::Denied, cost: wish.denied_cost(), held };
        // The estimate denies the request, and nothing has been written.
        let Some(Charged { cost, .. }) = kernel.apply(wish, held, kernel.moment(at_ns), late)
        else {
            return Some(denied);
        };
        let verdict = Verdict::Allowed;
        // The request does not charge, or it costs nothing.
        if !ask.charge || cost == 0 {
            return Some(SpillTold { verdict, cost: 0, held });
        }
        // The key's debt after the charge is not known yet, so the mark reaches as far as a debt under any quota of the
        // table.
        if let SpillWords::Several { reach_ns } = self.words {
            // The mark is written before the charge: see `settle`. If the request is denied after all, the mark is too
            // high, which is harmless.
            note(asked.mark, at_ns, at_ns.saturating_add(reach_ns));
        }
        // A charge into debt is made whatever the cells hold, so no cell has to decide it.
        let told = if verb == Verb::Charge {
            // The cost is added to the key's cells one after the other, up to the most that a cell can hold.
            if !lens.add(&self.cells, places, at, cost) {
                // A cell was brought over to a new quota meanwhile. The charges that other cells have got by then can
                // only lead to denials.
                return None;
            }
            SpillTold { verdict, cost, held: self.estimate(lens, places, at_ns)? }
        } else {
            // The request is decided and charged in one step of the deciding cell.
            match lens.check_late(&self.cells, places, at, late, cost)? {
                (Verdict::Allowed, held) => SpillTold { verdict, cost, held },
                // Other requests have taken what was left.
                (Verdict::Denied, held) => SpillTold { held, ..denied },
            }
        };
        // Under a single quota the mark is computed from the key's debt after the charge, so it is written after the
        // charge. Both orders are sound: the charging thread looks at the key's shards next, after a fence that follows
        // both writes. If an installer sees neither the mark nor the charge, that look sees the installer's claim.
        if matches!(self.words, SpillWords::One(_)) && told.verdict == verdict {
            note(asked.mark, at_ns, kernel.idle_ns(told.held, at_ns));
        }
        Some(told)
    }

    /// All words as they are at one moment, which no thread could read. A model does not count this reading as a step.
    #[cfg(any(loom, shuttle))]
    pub(in crate::keyed) fn newest(&self) -> impl Iterator<Item = Word> {
        self.cells.newest()
    }
}

/// Raises a mark to the instant until which a charge matters.
fn note(mark: &AtomicU64, now_ns: u64, until_ns: u64) {
    // Relaxed, here and below: this thread's next fence and the installer's fence order the mark with the claim (see
    // the header of `insert/spill.rs`). The same fences are enough if the mark is already high enough and this thread
    // only reads it: an installer whose fence comes later reads no older mark.
    if points::raises_mark(mark.load(Ordering::Relaxed) < until_ns) {
        // The mark is raised by a quarter more than needed, so that not every charge writes it. The excess only costs a
        // look at the sketch.
        let more_ns = until_ns.saturating_sub(now_ns) / 4;
        // A mark never falls, so a thread that comes late with a lower instant changes nothing.
        mark.fetch_max(until_ns.saturating_add(more_ns), Ordering::Relaxed);
    }
}

/// Two odd numbers that look random: the fractional parts of the square roots of 2 and 3, as in SHA-512 (FIPS 180-4,
/// 5.3.5). The lowest bit of the first was set to make it odd.
const SPREAD: [u64; 2] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b];

/// The lens of a sketch for one quota. It uses the arithmetic of the table's own words, if that arithmetic fits into 64
/// bits until the latest time. Then a state that moves between the table and the sketch is not rounded.
fn sole(policy: Policy, layout: &Layout) -> Result<Lens, BuildError> {
    // This is the finest arithmetic that fits into 64 bits until the latest time.
    let whole = Meter::new(policy)?;
    let has_room = match (&whole.kernel, &layout.kernel) {
        (Kernel::Gcra(finest), Kernel::Gcra(own)) => own.unit_ticks() <= finest.unit_ticks(),
        _ => layout.count_bits <= whole.fields.count_bits,
    };
    Ok(if has_room {
        Lens::sole(layout.kernel, Fields { count_bits: layout.count_bits })
    } else {
        Lens::sole(whole.kernel, whole.fields)
    })
}

#[cfg(test)]
mod tests;
