//! [`Lens`]: reads the words of a sketch for one quota of a keyed table, which uses the sketch for keys without a cell.
//!
//! A request has two times: its own `now`, and the time floor of its shard if that is later. The cells are read and
//! charged at the later of the two times, so that no earlier charge is forgotten. The admission test uses the request's
//! own `now`, as for a late key that gets a cell in the table. The proof in [`super::rows`] still holds: a charge from
//! a later instant is no smaller, an add stops no earlier than two bursts after the request's own `now`, and the test
//! is stricter.
//!
//! In a table with several quotas, each word of the sketch contains the index of its quota, as the words of the table
//! do. A lens reads only words of its own quota. If it finds a word of another quota, it returns `None` or false. The
//! caller then converts the cell ([`Lens::rebased`]) or uses the newer lens. The cost may have been added to other
//! cells before that, which can only cause denials.

use crate::algorithm::{
    Adds, Change, Decides, Former, Held, Kernel, Load, Moment, Rebased, SURPLUS_BITS_MAX,
    SurplusScale,
};
use crate::clock::Timestamp;
use crate::verdict::Verdict;
use crate::word::{Fields, Marked, Reads, Word};

use super::cell::{SketchRequest, longest_debt};
use super::place::Places;
use super::rows::Cells;

/// The largest distance by which a word's time may lie ahead of `now` without a debt, in its unit of time: a window, a
/// quantum, and their rounding.
const SLACK: u64 = 4;

/// A quota, and the layout of a sketch's word for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lens {
    pub(crate) kernel: Kernel,
    words: Marked,
    surplus_bits: u32,
    is_shared: bool,
}

/// The algorithm for a request whose `now` is `late` behind the time of the cells: see [`Kernel::lateness`].
struct Late<'a> {
    kernel: &'a Kernel,
    late: u64,
}

impl Decides for Late<'_> {
    const COUNTS: bool = true;

    fn moment(&self, at_ns: u64) -> Moment {
        self.kernel.moment(at_ns)
    }

    fn latest_ns(&self) -> u64 {
        self.kernel.latest_ns()
    }

    fn step(&self, held: Held, moment: Moment, _: u64, cost: u64) -> Option<Held> {
        // The state is measured from the later instant, and the admission test uses the request's own `now`.
        self.kernel.step(held, moment, self.late, cost)
    }
}

impl Adds for Late<'_> {
    fn load(&self, held: Held, moment: Moment) -> Load {
        self.kernel.load(held, moment)
    }

    fn add(&self, held: Held, moment: Moment, cost: u64) -> Held {
        self.kernel.add(held, moment, cost)
    }
}

impl Lens {
    /// The lens for a sketch with only one quota, whose times fit in a word.
    pub(crate) fn sole(kernel: Kernel, fields: Fields) -> Self {
        Self::over(kernel, Marked::new(fields, 0, 0, 0), 0)
    }

    fn over(kernel: Kernel, words: Marked, surplus_bits: u32) -> Self {
        // Keys cannot share words under windows from the first request: see [`super::rows`].
        Self { kernel, words, surplus_bits, is_shared: !matches!(kernel, Kernel::FromFirst(_)) }
    }

    /// The same lens for words that keys must not share.
    pub(crate) fn of_one_key(self) -> Self {
        Self { is_shared: false, ..self }
    }

    /// The lens for one of several quotas, whose words also hold an index of `index_bits` bits. Its ticks are the ticks
    /// of this kernel. Under GCRA they are longer if a word cannot count the kernel's ticks until the latest time, or
    /// if these ticks leave too few bits for a surplus. Returns `None` if nothing fits.
    pub(crate) fn fitting(
        kernel: Kernel,
        fields: Fields,
        index: u64,
        index_bits: u32,
    ) -> Option<Self> {
        // The bits that are left beside the index, the counts, and one bit for the surplus.
        let widest = u64::BITS.checked_sub(index_bits + u32::from(fields.count_bits) + 1)?;
        let fitting = |kernel: Kernel| {
            // A time is at most the number of ticks until the latest time, plus a debt.
            let ahead = longest_debt(&kernel).saturating_add(SLACK);
            let most = kernel.passed(0, kernel.latest_ns()).checked_add(ahead)?;
            let time_bits = u64::BITS - most.leading_zeros();
            // The surplus takes the remaining bits, but no more than it can use.
            let surplus_bits = (widest.checked_sub(time_bits)? + 1).min(SURPLUS_BITS_MAX);
            let words = Marked::new(fields, index, index_bits, surplus_bits);
            Some(Self::over(kernel, words, surplus_bits))
        };
        // Only the ticks of GCRA can be made longer. The counts of a window need all of their bits.
        let longer = |kernel: &Kernel| match kernel {
            Kernel::Gcra(gcra) => gcra.halved().map(Kernel::Gcra),
            _ => None,
        };
        let all = std::iter::successors(Some(kernel), longer).filter_map(fitting);
        // If several lenses have the same merit, the lens with the finest ticks is taken.
        all.reduce(|best, lens| if lens.merit() > best.merit() { lens } else { best })
    }

    /// The number of bits for the fineness of the word's time or of its surplus, whichever has fewer bits, but at
    /// most 8.
    fn merit(&self) -> u32 {
        // 8 is the number of `SURPLUS_BITS_ENOUGH` in `keyed/memory/layout/shared.rs`.
        let ticks = if self.kernel.is_gcra() { self.kernel.fineness().ilog2() } else { u32::MAX };
        ticks.min(self.surplus_bits).min(8)
    }

    /// True if shared words may decide requests under this quota. A word that was converted from another quota keeps
    /// its charges even if shared words may not decide.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The largest debt that a word can hold, in ticks. An add stops there.
    pub(crate) fn longest_debt(&self) -> u64 {
        longest_debt(&self.kernel)
    }

    /// The state of a word of this quota, measured from `at`.
    fn held(&self, word: Word, at: Timestamp) -> Held {
        let at_ns = at.as_nanos().min(self.kernel.latest_ns());
        self.words.unpack(word, self.kernel.moment(at_ns))
    }

    /// The word of an empty cell.
    pub(crate) fn unused(&self) -> Word {
        self.words.pack(Word::UNUSED, Held::IDLE, self.kernel.moment(0))
    }

    /// True if a word belongs to this quota.
    pub(crate) fn reads(&self, word: Word) -> bool {
        self.words.reads(word)
    }

    /// The sketch's estimate of the key's state at this instant: the state of the key's word with the least load.
    /// Returns `None` if one of the cells belongs to another quota.
    ///
    /// Consider a separate word of the key that was charged with everything that was added for the key before this
    /// call. The estimate owes no less than that word. So a table that gives the key a cell with this estimate admits
    /// no more than if the key had had the cell from the start. The estimate may owe more, by the units that other keys
    /// have charged to *all* of the key's cells.
    pub(crate) fn estimate(&self, cells: &Cells, places: &Places, at: Timestamp) -> Option<Held> {
        // With a cost of 0 the request only reads the state.
        let (_, word) =
            cells.least(&SketchRequest::new(&self.kernel, self.words, at, 0), places)?;
        Some(self.held(word, at))
    }

    /// The sketch's estimate of the key's surplus: the units that it spent under an earlier quota and that this quota
    /// does not count. The surplus is read from the key's word with the least load, whose surplus is at least that of a
    /// separate word of the key. Returns `None` if one of the cells belongs to another quota.
    pub(crate) fn surplus(
        &self,
        cells: &Cells,
        places: &Places,
        at: Timestamp,
        former: &Former,
    ) -> Option<u64> {
        let (_, word) =
            cells.least(&SketchRequest::new(&self.kernel, self.words, at, 0), places)?;
        Some(self.surplus_of(word, former))
    }

    fn surplus_of(&self, word: Word, former: &Former) -> u64 {
        let scale = SurplusScale::new(self.surplus_bits, former.most);
        scale.map_or(0, |scale| scale.units(self.words.surplus(word)))
    }

    /// Adds the cost of a request that was admitted elsewhere to every cell of the key, without a decision.
    ///
    /// Every estimate after this call includes what has not drained of the charge. The charge drains from `at` on. An
    /// add never lowers a cell. A cell that already holds two bursts (GCRA) or the limit (windows) stays as it is. The
    /// bound of the key holds for this cost only if the caller has tested the cost against an estimate.
    pub(crate) fn add(&self, cells: &Cells, places: &Places, at: Timestamp, cost: u64) -> bool {
        cells.add(&SketchRequest::new(&self.kernel, self.words, at, cost), places)
    }

    /// Decides a request by cells that are read at `at`. The request's own `now` is `late` before `at`. If it is
    /// admitted, every row is charged. Returns the verdict and the state of the deciding cell, or `None` if one of the
    /// cells belongs to another quota.
    pub(crate) fn check_late(
        &self,
        cells: &Cells,
        places: &Places,
        at: Timestamp,
        late: u64,
        cost: u64,
    ) -> Option<(Verdict, Held)> {
        let algorithm = Late { kernel: &self.kernel, late };
        let step = cells.decide(&SketchRequest::new(&algorithm, self.words, at, cost), places)?;
        Some((step.outcome.verdict, self.held(step.word, at)))
    }

    /// The change to this quota from `old`. Words that keys share have no queue.
    fn change<'a>(&'a self, old: &'a Kernel, at_ns: u64) -> Change<'a> {
        let (new, most) = (&self.kernel, self.longest_debt());
        Change {
            old,
            new,
            at_ns,
            old_queue_ticks: 0,
            queue_ticks: 0,
            most,
            max_counts: new.limit(),
        }
    }

    /// Converts a word of `old` to this quota, which replaced `old` at `changed_ns`.
    ///
    /// A cell owes no less than a separate word of any of its keys. It is converted like a separate word
    /// ([`Change::rebased_shared`]), so it still owes no less after the change. An empty cell also gets the time of the
    /// change, so that its new word differs from every earlier word with this index.
    pub(crate) fn rebased(
        &self,
        word: Word,
        (old, old_former): (&Self, Option<&Former>),
        former: Option<&Former>,
        changed_ns: u64,
    ) -> Word {
        // A time after the latest time is replaced by the latest time.
        let at_ns = changed_ns.min(old.kernel.latest_ns()).min(self.kernel.latest_ns());
        let kept = old_former.map(|former| (former, old.surplus_of(word, former)));
        let held = old.held(word, Timestamp::from_nanos(at_ns));
        let kept = kept.filter(|(_, units)| *units > 0);
        let Rebased { held, surplus } = self.change(&old.kernel, at_ns).rebased_shared(held, kept);
        let scale = former.and_then(|former| SurplusScale::new(self.surplus_bits, former.most));
        let code = scale.map_or(0, |scale| scale.code(surplus));
        let next = self.words.pack(Word::UNUSED, held, self.kernel.moment(at_ns));
        self.words.with_surplus(next, code)
    }
}

#[cfg(test)]
mod tests {
    use ahash::RandomState;

    use super::super::place::Placer;
    use super::*;
    use crate::clock::LATEST_NS;
    use crate::{Meter, Policy};

    const POLICIES: [&str; 4] =
        ["gcra 5/m", "fixed-window 5/m", "sliding-window 5/m exact", "segmented-window 5/m x6"];

    fn meter(policy: &str) -> Meter {
        Meter::new(policy.parse::<Policy>().expect("a policy")).expect("a word")
    }

    fn sole(policy: &str) -> (Lens, Cells, Placer<RandomState>) {
        let Meter { kernel, fields, .. } = meter(policy);
        let seeds = |n| RandomState::with_seeds(n, n + 1, n + 2, n + 3);
        let placer = Placer::new(seeds(1), 3, 100);
        (Lens::sole(kernel, fields), Cells::new(300).expect("little memory"), placer)
    }

    impl Lens {
        fn left(&self, cells: &Cells, key: &Places, now: Timestamp) -> u64 {
            let held = self.estimate(cells, key, now).expect("its own words");
            self.kernel.remaining(held, self.kernel.moment(now.as_nanos()), 0)
        }
    }

    #[test]
    fn a_late_request_is_charged_at_the_later_instant_and_tested_at_its_own() {
        let (lens, cells, _) = sole("gcra 1/s burst 10");
        let places = Places::of([3, 5], 2, 10);
        let [now, at] = [100, 104].map(Timestamp::from_secs);
        let late = lens.kernel.lateness(now.as_nanos(), at.as_nanos());
        // The request is four seconds late, so six of ten units are left.
        let check = |late, cost| {
            lens.check_late(&cells, &places, at, late, cost).map(|(verdict, _)| verdict)
        };
        assert_eq!(check(late, 7), Some(Verdict::Denied));
        assert_eq!(check(late, 6), Some(Verdict::Allowed));
        assert_eq!(check(late, 1), Some(Verdict::Denied));
        // The charge counts from the later instant.
        assert_eq!(lens.left(&cells, &places, at), 4);
        assert_eq!(check(0, 4), Some(Verdict::Allowed));
    }

    #[test]
    fn an_estimate_is_the_keys_own_word_while_no_other_key_shares_all_of_its_cells() {
        for policy in POLICIES {
            let (lens, cells, placer) = sole(policy);
            let key = placer.places("alice");
            let (meter, mut word) = (meter(policy), Word::UNUSED);
            for second in [100, 100, 107, 119, 160, 250] {
                let now = Timestamp::from_secs(second);
                let check = |places: &Places| lens.check_late(&cells, places, now, 0, 1);
                assert_eq!(
                    lens.estimate(&cells, &key, now),
                    Some(lens.held(word, now)),
                    "{policy}"
                );
                assert_eq!(check(&key).map(|(verdict, _)| verdict), Some(Verdict::Allowed));
                word = meter.check(word, now, 1).1;
                // These other keys share a cell with the key in some rows, but not in all rows.
                for other in 0..10_u64 {
                    let places = placer.places(&other);
                    let shared = key.cells().iter().zip(places.cells()).filter(|(a, b)| a == b);
                    assert!(shared.count() < 3);
                    check(&places);
                }
            }
        }
    }

    #[test]
    fn what_is_added_without_deciding_is_found_by_every_decision() {
        for policy in POLICIES {
            let (lens, cells, placer) = sole(policy);
            let (key, now) = (placer.places("alice"), Timestamp::from_secs(300));
            assert!(lens.add(&cells, &key, now, 3));
            assert_eq!(lens.left(&cells, &key, now), 2, "{policy}");
            let denied = lens.check_late(&cells, &key, now, 0, 3);
            assert_eq!(denied.map(|(verdict, _)| verdict), Some(Verdict::Denied));
            // A cost is added even if it does not fit, and an add never lowers a cell.
            assert!(lens.add(&cells, &key, now, 100));
            let full = lens.estimate(&cells, &key, now);
            assert_eq!(lens.left(&cells, &key, now), 0, "{policy}");
            assert!(lens.add(&cells, &key, Timestamp::from_secs(299), 1));
            assert_eq!(lens.estimate(&cells, &key, now), full, "{policy}");
        }
    }

    #[test]
    fn an_add_beyond_two_bursts_has_drained_after_two() {
        let (lens, cells, placer) = sole("gcra 5/m");
        let (key, now) = (placer.places("alice"), Timestamp::from_secs(100));
        assert!(lens.add(&cells, &key, now, u64::MAX));
        let held = lens.estimate(&cells, &key, now).expect("its own words");
        assert_eq!(lens.kernel.idle_ns(held, now.as_nanos()), 220_000_000_000);
    }

    fn fitting(policy: &str, index: u64) -> Option<Lens> {
        let Meter { kernel, fields, .. } = meter(policy);
        Lens::fitting(kernel, fields, index, 5)
    }

    #[test]
    fn beside_an_index_ticks_are_as_long_as_they_must_be_and_what_does_not_fit_is_refused() {
        // The word has 59 bits beside the index. Counting units at 1,000,000/s until 2100 takes 52 bits, the ticks of a
        // unit take 4 bits, and a surplus takes 3 bits.
        let Some(Lens { kernel: Kernel::Gcra(gcra), .. }) = fitting("gcra 1000000/s burst 9", 0)
        else {
            panic!("it fits")
        };
        assert_eq!(gcra.unit_ticks(), 1 << 4);
        assert!(fitting("sliding-window 8191/s exact", 0).is_some());
        assert!(fitting("sliding-window 16384/s exact", 0).is_none());
        let last = Timestamp::from_nanos(LATEST_NS);
        for policy in ["gcra 1000000/s burst 9", "gcra 1/d burst 3", "sliding-window 8191/s exact"]
        {
            let (lens, cells) = (fitting(policy, 0).expect("it fits"), Cells::new(1));
            let (cells, place) = (cells.expect("a cell"), Places::of([0, 0], 1, 1));
            let limit = lens.kernel.limit();
            assert!(lens.add(&cells, &place, last, 5 * limit));
            assert!(lens.reads(cells.word(0)), "{policy}");
            assert_eq!(lens.left(&cells, &place, last), 0);
        }
    }

    #[test]
    fn a_word_of_another_quota_is_neither_read_nor_charged_until_it_is_brought_over() {
        let [old, new] = [("gcra 1/s burst 10", 3), ("gcra 1/m burst 6", 4)]
            .map(|(policy, index)| fitting(policy, index).expect("it fits"));
        let (mut cells, place) = (Cells::new(1).expect("a cell"), Places::of([0, 0], 1, 1));
        let filled: Result<(), ()> = cells.fill(|_| Ok(old.unused()));
        filled.expect("a word");
        let at = Timestamp::from_secs(100);
        assert!(old.add(&cells, &place, at, 4));
        let word = cells.word(0);
        assert!(new.estimate(&cells, &place, at).is_none() && !new.add(&cells, &place, at, 1));
        assert!(new.check_late(&cells, &place, at, 0, 1).is_none());
        assert_eq!(cells.word(0), word);
        assert!(cells.replace(0, word, new.rebased(word, (&old, None), None, 102_000_000_000)));
        assert!(old.estimate(&cells, &place, at).is_none());
        // Two of the four units had drained by the change. After it, one unit drains in each minute.
        assert_eq!(
            [102, 161, 162, 222].map(|s| new.left(&cells, &place, Timestamp::from_secs(s))),
            [4, 4, 5, 6]
        );
        // An idle cell gets the time of the change, so its word differs from all words that it had before.
        let idle = new.rebased(old.unused(), (&old, None), None, 102_000_000_000);
        assert_ne!(idle, new.unused());
        assert_ne!(idle, new.rebased(old.unused(), (&old, None), None, 104_000_000_000));
    }
}
