//! Tests whether the words of a shard are idle. All words of a shard are tested at the same instants, so everything
//! that depends on the instants is computed once.

use super::Layout;
use crate::algorithm::{Decides, Kernel};
use crate::keyed::memory::shard::TableWord;

impl Layout {
    /// Prepares a test of live words that are read under the floor `floor_ns`. The test tells whether a sweep under the
    /// floor `swept_ns` forgets a word: it does if the word has been idle for an epoch by then.
    pub(in crate::keyed) fn staleness(&self, floor_ns: u64, swept_ns: u64) -> Staleness<'_> {
        Staleness(
            // Before the first epoch has passed, no word can have been idle for an epoch.
            swept_ns
                .checked_sub(self.division.epoch_ns())
                .map(|at_ns| self.idleness(floor_ns, [at_ns])),
        )
    }

    /// Prepares a test of live words that are read under this floor. The test tells at which of these instants a word
    /// is idle. One preparation serves all words of a shard.
    pub(in crate::keyed) fn idleness<const N: usize>(
        &self,
        floor_ns: u64,
        instants_ns: [u64; N],
    ) -> Idleness<'_, N> {
        let times = match &self.kernel {
            // The word is only a time, so one comparison with a bound shows whether it is idle. The bound is the same
            // for all words.
            Kernel::Gcra(gcra) if self.rules.are_none() => {
                // A word's time is counted from the earliest time that it may have, as in `unpack`.
                let earliest = gcra.moment(floor_ns).unit.wrapping_sub(self.back);
                let bounds = instants_ns.map(|at_ns| {
                    // `later` is the distance of the instant above the floor. If the instant lies below the floor,
                    // `later` is 0, and the distance below the floor is subtracted.
                    let later = gcra.passed(floor_ns, at_ns);
                    // A word is idle at an instant if its time is not later than the instant. The bound is the first
                    // later time.
                    let bound = self.back.saturating_add(later).saturating_add(1);
                    bound.saturating_sub(gcra.passed(at_ns, floor_ns))
                });
                Some((earliest, bounds))
            }
            // Counts have to be unpacked for each word.
            _ => None,
        };
        Idleness { layout: self, floor_ns, instants_ns, times }
    }
}

/// See [`Layout::idleness`].
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Idleness<'a, const N: usize> {
    layout: &'a Layout,
    floor_ns: u64,
    instants_ns: [u64; N],
    /// Only for plain GCRA, whose word is a time: the earliest time that a word may have, and for each instant the
    /// first time that is not idle then, counted from the earliest time.
    times: Option<(u64, [u64; N])>,
}

impl<const N: usize> Idleness<'_, N> {
    #[inline]
    pub(in crate::keyed) fn of(&self, word: TableWord) -> [bool; N] {
        let Self { layout, floor_ns, instants_ns, times } = self;
        if let Some((earliest, bounds)) = times {
            // There is no branch and no division: the bounds are the same for all words of the shard.
            let since = word.to_bits().wrapping_sub(*earliest) & layout.time_mask;
            return bounds.map(|bound| since < bound);
        }
        let ruled = layout.ruled();
        // Read the word at the floor, since every word can be read there, and then carry its state to each instant.
        let held = layout.unpack(word, &ruled, ruled.moment(*floor_ns));
        instants_ns.map(|at_ns| {
            // One of the two steps is 0, since the instant lies on one side of the floor.
            let held = held.seen_later(layout.kernel.passed(*floor_ns, at_ns));
            let held = held.seen_earlier(layout.kernel.passed(at_ns, *floor_ns));
            ruled.is_idle(held, ruled.moment(at_ns))
        })
    }
}

/// See [`Layout::staleness`]. No word is stale before an epoch has passed.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Staleness<'a>(Option<Idleness<'a, 1>>);

impl Staleness<'_> {
    #[inline]
    pub(in crate::keyed) fn of(&self, word: TableWord) -> bool {
        self.0.is_some_and(|idle| idle.of(word)[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The comparison with the bound of plain GCRA gives the same answer as reading the word and carrying it to the
    /// instant.
    #[test]
    fn a_time_is_judged_by_its_bound_as_by_what_it_holds() {
        for policy in ["gcra 10/s burst 3", "gcra 1000000/s burst 1000", "gcra 1/h burst 9"] {
            let layout = Layout::plan(&policy.parse().expect("a policy")).expect("a layout");
            let gcra = layout.kernel;
            let floor_ns = 1 << 60;
            let epoch_ns = layout.division.epoch_ns();
            let spans_ns = [0, 1, epoch_ns / 2, epoch_ns, 2 * epoch_ns, 1 << 59];
            let instants_ns =
                spans_ns.into_iter().flat_map(|span| [floor_ns - span, floor_ns + span]);
            for at_ns in instants_ns.chain([0, u64::MAX]) {
                let bounded = layout.idleness(floor_ns, [at_ns]);
                let read = Idleness { times: None, ..bounded };
                let unit = gcra.moment(at_ns).unit;
                let words = [unit, gcra.moment(floor_ns).unit]
                    .into_iter()
                    .flat_map(|unit| (0..7).map(move |off| unit.wrapping_add(off).wrapping_sub(3)));
                for word in words.map(|time| TableWord::from_bits(time & layout.time_mask)) {
                    assert_eq!(bounded.of(word), read.of(word), "{policy}: {word:?} at {at_ns}");
                }
            }
        }
    }
}
