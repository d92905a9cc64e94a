//! [`Spill`]: the sketch of a table, the marks that say how long it matters, and how a request is decided
//! there.

use crate::algorithm::{Decides, Held, Kernel};
use crate::clock::Timestamp;
use crate::decision::Verdict;
use crate::error::BuildError;
use crate::meter::Meter;
use crate::policy::Policy;
use crate::sketch::{GOLDEN, Places, Rows, SketchError, SketchSize, mix};
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::verb::{Charged, Verb, Verbs, Wish};
use crate::word::{Fields, Word};

use crate::keyed::hash::Identity;
use crate::keyed::layout::Layout;
use crate::keyed::table::Ask;

/// A key's cells in the sketch. One would be enough for a flood of keys that come once; with two a few keys
/// that spend all they have refuse hardly any others: see the measurements in `tests/spill/flood.rs`.
const ROWS_OF_SKETCH: usize = 2;

/// A cell of the sketch for each shard, which is a line of eight words: an eighth of the table's memory.
const CELLS_PER_SHARD: usize = 1;

/// In a tiny table, where an eighth is nothing: 1 KiB in all.
const CELLS_PER_ROW_MIN: usize = if cfg!(loom) { 2 } else { 64 };

/// Near enough to tell full regions from others; 1/512 of the table's memory.
const SHARDS_PER_MARK: usize = 64;

/// A sketch for keys that have no cell.
#[derive(Debug)]
pub(in crate::keyed) struct Spill {
    pub(super) rows: Rows,
    size: SketchSize,
    marks: Box<[AtomicU64]>,
}

/// How a request was decided in the sketch.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) verdict: Verdict,
    /// What was charged, or the cost that a denial speaks of.
    pub(super) cost: u64,
    pub(super) held: Held,
}

impl Spill {
    /// The spill of a table with so many shards, or `None` if no sketch can keep the bound of the policy.
    pub(in crate::keyed) fn new(
        policy: Policy,
        layout: &Layout,
        shards: usize,
    ) -> Result<Option<Self>, BuildError> {
        let Some((size, marks)) = Self::plan(shards) else {
            return Err(BuildError::OutOfMemory { bytes: usize::MAX });
        };
        let rows = match Rows::read_by(meter(policy, layout), policy, size) {
            Ok(rows) => rows,
            Err(SketchError::OutOfMemory { bytes }) => {
                return Err(BuildError::OutOfMemory { bytes });
            }
            Err(_) => return Ok(None),
        };
        let (count, mut marks) = (marks, Vec::new());
        let bytes = count * size_of::<AtomicU64>();
        marks.try_reserve_exact(count).map_err(|_| BuildError::OutOfMemory { bytes })?;
        marks.resize_with(count, || AtomicU64::new(0));
        Ok(Some(Self { rows, size, marks: marks.into_boxed_slice() }))
    }

    /// The sketch of a table with so many shards, and the number of its marks; `None` if there is no such
    /// sketch.
    fn plan(shards: usize) -> Option<(SketchSize, usize)> {
        let cells_per_row = (shards * CELLS_PER_SHARD / ROWS_OF_SKETCH).max(CELLS_PER_ROW_MIN);
        let size = SketchSize::new(ROWS_OF_SKETCH, cells_per_row).ok()?;
        Some((size, shards.div_ceil(SHARDS_PER_MARK)))
    }

    /// The words that a snapshot has of the spill of a table with so many shards.
    pub(in crate::keyed) fn words_of(shards: usize) -> u64 {
        Self::plan(shards)
            .map_or(0, |(size, marks)| (size.rows() * size.cells_per_row()) as u64 + marks as u64)
    }

    pub(in crate::keyed) fn bytes(&self) -> usize {
        self.rows.bytes() + size_of_val::<[AtomicU64]>(&self.marks)
    }

    /// The marks, and then the sketch's words: as a snapshot has them.
    ///
    /// A mark is read before the words that it stands for. So if a charge was made before this call, both
    /// are here; and of one that is made meanwhile there may be a part, which can only deny.
    pub(in crate::keyed) fn words(&self) -> impl Iterator<Item = u64> {
        // Acquire: the words' loads stay behind the marks'.
        let marks = self.marks.iter().map(|mark| mark.load(Ordering::Acquire));
        marks.chain(self.rows.words().map(Word::to_bits))
    }

    /// Takes over the words of a snapshot, in their order.
    pub(in crate::keyed) fn fill<E>(
        &mut self,
        mut next: impl FnMut() -> Result<u64, E>,
    ) -> Result<(), E> {
        for mark in &mut self.marks {
            *mark = AtomicU64::new(next()?);
        }
        self.rows.fill(|| next().map(Word::from_bits))
    }

    /// The cells of a key. Its two shards are one pair, whichever of them is looked at first.
    pub(super) fn places(&self, identity: Identity, second: usize) -> Places {
        // The tag and the shard are parts of hashes that nobody can foresee. Multiplied by odd numbers that
        // look random, and folded, all bits of both are in every bit of these.
        let lower = lower(identity, second) as u64;
        let hashes = [mix(identity.tag ^ GOLDEN, SPREAD[0]), mix(lower ^ SPREAD[0], SPREAD[1])];
        Places::of(hashes, self.size.rows(), self.size.cells_per_row())
    }

    pub(super) fn mark(&self, identity: Identity, second: usize) -> &AtomicU64 {
        &self.marks[lower(identity, second) / SHARDS_PER_MARK]
    }

    pub(super) fn held(&self, word: Word, at_ns: u64) -> Held {
        let Meter { kernel, fields, .. } = self.rows.meter();
        fields.unpack(word, kernel.moment(at_ns))
    }

    /// Decides at `at`, and charges if the request is admitted and is to be charged.
    pub(super) fn decide(&self, places: &Places, at_ns: u64, ask: &Ask) -> Told {
        let (kernel, at) = (&self.rows.meter().kernel, Timestamp::from_nanos(at_ns));
        let late = kernel.lateness(ask.now_ns, at_ns);
        let late = if planted(Fault::LateTestedAtFloor) { 0 } else { late };
        let held = self.held(self.rows.estimate(places, at), at_ns);
        let verb = match ask.verb {
            Verb::Reserve { .. } => Verb::Check,
            verb => verb,
        };
        let wish = Wish { verb, cost: ask.cost, most: most(kernel) };
        let denied = Told { verdict: Verdict::Denied, cost: wish.denied_cost(), held };
        let Some(Charged { cost, .. }) = kernel.apply(wish, held, kernel.moment(at_ns), late)
        else {
            return denied;
        };
        let verdict = Verdict::Allowed;
        if !ask.charge || cost == 0 {
            return Told { verdict, cost: 0, held };
        }
        if verb == Verb::Charge {
            self.rows.add(places, at, cost);
            let held = self.held(self.rows.estimate(places, at), at_ns);
            return Told { verdict, cost, held };
        }
        let step = self.rows.check_late(places, at, late, cost);
        let held = self.held(step.word, at_ns);
        // Denied: others were faster with what was left.
        if step.verdict == verdict { Told { verdict, cost, held } } else { Told { held, ..denied } }
    }

    /// Notes that what a key was charged counts until then.
    pub(super) fn note(&self, mark: &AtomicU64, now_ns: u64, until_ns: u64) {
        // Relaxed, here and below: the fence behind it and the installer's fence order it with the claim, see
        // the header. Who finds it high enough leans on him who wrote it, in the same order.
        if mark.load(Ordering::Relaxed) < until_ns && !planted(Fault::SpillUnmarked) {
            // A quarter more, so that it is not written by every charge: it costs only a look.
            let more_ns = until_ns.saturating_sub(now_ns) / 4;
            mark.fetch_max(until_ns.saturating_add(more_ns), Ordering::Relaxed);
        }
    }
}

/// Two odd numbers that look random: the fractional parts of the square roots of 2 and 3, as in SHA-512
/// (FIPS 180-4, 5.3.5).
const SPREAD: [u64; 2] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b];

/// The lower shard of a key's two: with the tag it tells the key, whichever is looked at first.
fn lower(identity: Identity, second: usize) -> usize {
    identity.first.min(second)
}

/// The longest debt that a cell of the sketch remembers: it stops there.
fn most(kernel: &Kernel) -> u64 {
    match kernel {
        Kernel::Gcra(gcra) => 2 * gcra.burst_ticks(), // which is below 2^63
        _ => 0,                                       // windows have no debt
    }
}

/// The arithmetic of the sketch: that of the table's own words where 64 bits have room for it until the
/// latest time, so that what is carried over need not be rounded.
fn meter(policy: Policy, layout: &Layout) -> Meter {
    let whole = Meter::new(policy);
    let has_room = match (&whole.kernel, &layout.kernel) {
        (Kernel::Gcra(finest), Kernel::Gcra(own)) => own.unit_ticks() <= finest.unit_ticks(),
        _ => layout.count_bits <= whole.fields.count_bits,
    };
    if !has_room {
        return whole;
    }
    Meter { kernel: layout.kernel, fields: Fields { count_bits: layout.count_bits }, ..whole }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn plan(text: &str, shards: usize) -> (Policy, Layout, Option<Spill>) {
        let policy: Policy = text.parse().expect("a policy");
        let layout = Layout::plan(&policy).expect("a layout");
        let spill = Spill::new(policy, &layout, shards).expect("little memory");
        (policy, layout, spill)
    }

    #[test]
    fn a_key_has_the_same_cells_whichever_of_its_shards_is_looked_at_first() {
        let (_, layout, spill) = plan("gcra 1/s burst 10", 100_000);
        let spill = spill.expect("a spill");
        let mut all = HashSet::new();
        for number in 1..10_000_u64 {
            let tag = number << layout.state_bits();
            for [one, other] in [[0, 1], [1, 2], [4_711, 99_999]] {
                let places = spill.places(Identity { first: one, tag }, other);
                assert_eq!(places, spill.places(Identity { first: other, tag }, one));
                all.insert(format!("{places:?}"));
            }
        }
        // Two of 30,000 others share both of their cells, of 50,000 in each row, in one of six tables.
        assert!(all.len() >= 3 * 9_999 - 2, "{}", all.len());
    }

    #[test]
    fn rows_are_filled_evenly() {
        let (_, layout, spill) = plan("gcra 1/s burst 10", 2_048);
        let spill = spill.expect("a spill");
        let mut counts = vec![0_i64; 2_048];
        for number in 0..262_144_u64 {
            let identity = Identity {
                first: (number % 64) as usize,
                tag: (number / 64 + 1) << layout.state_bits(),
            };
            for &cell in spill.places(identity, 1_000).cells() {
                counts[cell] += 1;
            }
        }
        // 256 keys for a cell; chi-square within 6 standard deviations of its mean, in each row.
        for row in counts.chunks(1_024) {
            let squares: i64 = row.iter().map(|count| (count - 256).pow(2)).sum();
            let (degrees, chi_square) = (1_023.0, squares as f64 / 256.0);
            assert!(
                (chi_square - degrees).abs() < 6.0 * (2.0_f64 * degrees).sqrt(),
                "{chi_square}"
            );
        }
    }

    #[test]
    fn the_sketch_counts_as_the_table_does_where_it_can() {
        for (text, is_same) in [
            ("gcra 10/m burst 10", true),
            ("gcra 1/d burst 1000", true),
            // Ticks of 2^-11 units are the finest that 64 bits count until 2100.
            ("gcra 1000000/s burst 50000", false),
            ("fixed-window 100/m", true),
            ("sliding-window 100/m strict", true),
            ("segmented-window 20/m x4", true),
            ("segmented-window 31/m x6", true),
            ("segmented-window 100/m x6", true),
            // Side by side in the table, which counts on from a floor; ranked where all of the time is told.
            ("segmented-window 2045/1ms x2", false),
        ] {
            let (_, layout, spill) = plan(text, 2);
            let spill = spill.expect("a spill");
            assert_eq!(spill.rows.meter().kernel == layout.kernel, is_same, "{text}");
        }
        assert!(plan("fixed-window 5/m from-first", 2).2.is_none());
    }

    #[test]
    fn a_mark_only_grows_and_is_seldom_written() {
        let (.., spill) = plan("gcra 1/s burst 10", 1_000);
        let spill = spill.expect("a spill");
        let identity = Identity { first: 700, tag: 1 << 40 };
        let mark = spill.mark(identity, 70);
        assert!(std::ptr::eq(mark, spill.mark(Identity { first: 70, ..identity }, 700)));
        assert!(!std::ptr::eq(mark, spill.mark(Identity { first: 700, ..identity }, 701)));
        let read = || mark.load(Ordering::Relaxed);
        spill.note(mark, 1_000, 1_400);
        assert_eq!(read(), 1_500);
        spill.note(mark, 1_100, 1_500);
        assert_eq!(read(), 1_500);
        spill.note(mark, 1_101, 1_501);
        assert_eq!(read(), 1_601);
        spill.note(mark, 0, u64::MAX);
        assert_eq!(read(), u64::MAX);
    }

    #[test]
    fn a_snapshot_has_as_many_words_as_is_said() {
        for shards in [1, 2, 63, 64, 65, 1_000, 100_001] {
            let (.., spill) = plan("gcra 1/s burst 10", shards);
            let spill = spill.expect("a spill");
            assert_eq!(spill.words().count() as u64, Spill::words_of(shards));
            assert_eq!(spill.bytes() as u64, 8 * Spill::words_of(shards));
        }
    }
}
