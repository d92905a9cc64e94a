//! What a new key starts from: the floors of its shards, the instant that follows from them, and the quota in force.

use super::ask::Fresh;
use super::book::Lane;
use super::layout::Layout;
use super::points;
use super::shard::Header;
use super::table::Table;
use crate::hash::{UNIT, all_shards_of};

/// The headers of a key's shards.
pub(super) type UnitHeaders = [Header; 2 * UNIT];

/// The headers of all shards of a key; of small units the last ones again.
pub(super) fn headers(table: &Table, first: usize, second: usize) -> UnitHeaders {
    // Acquire, by `header`: a thread that has seen a cell without its key sees the floor below
    // which that was forgotten, for it was published before the cell was vacated.
    all_shards_of(first, second).map(|index| table.shard(index).header())
}

/// The instant that a new key starts at: now, or the highest floor of its shards if that is later.
#[inline(always)] // its callers are out of line, and cold
pub(super) fn base_ns<const N: usize>(headers: [Header; N], fresh: &mut Fresh<'_>) -> u64 {
    let floor_ns = points::highest(headers.map(Header::floor_ns));
    // A thread with a later time moved the floor. This request may just have read its clock a while ago: it is
    // read once more, and only once.
    if floor_ns > fresh.ask.now_ns
        && let Some(clock) = fresh.clock.take()
    {
        fresh.ask.now_ns = fresh.ask.now_ns.max(clock.now().as_nanos());
    }
    // A key that owes nothing starts at the request's own time. Only a floor may be later than
    // that.
    floor_ns.max(fresh.ask.now_ns)
}

/// The quota of a tier, as new words of the table are counted in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TierQuota<'a> {
    pub(super) tier: u8,
    pub(super) layout: &'a Layout,
    /// Its index where it stands in words; 0 in a table of one quota, whose words carry none.
    pub(super) mark: u64,
}

impl Table {
    /// The quota in force for a tier. In a table of several it is read now, and `lane` holds it.
    pub(super) fn quota_of<'a>(&'a self, tier: u8, lane: &'a mut Option<Lane>) -> TierQuota<'a> {
        // The words of one quota carry no index.
        let Some(book) = &self.book else {
            return TierQuota { tier, layout: &self.layout, mark: 0 };
        };
        // Kept by the caller, since the layout is borrowed from it.
        let lane = lane.insert(book.in_force(tier.into()));
        TierQuota { tier, layout: &lane.layout, mark: lane.mark }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::Ask;
    use super::super::shard::GRANULE_BITS;
    use super::*;
    use crate::verb::Verb;
    use crate::{ManualClock, Timestamp};

    #[test]
    fn the_clock_is_read_again_only_if_a_floor_is_ahead() {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(9 << GRANULE_BITS));
        let clock = clock.into();
        for (floors, base, read_again) in
            [([7, 0], 9, true), ([0, 12], 12, true), ([5, 4], 5, false)]
        {
            let now_ns = 5 << GRANULE_BITS;
            let ask = Ask { now_ns, cost: 1, charge: true, verb: Verb::Check, tier: 0 };
            let mut fresh = Fresh::new(ask, Some(&clock));
            assert_eq!(base_ns(floors.map(Header::first), &mut fresh), base << GRANULE_BITS);
            assert_eq!(fresh.clock.is_none(), read_again, "{floors:?}");
            assert_eq!(fresh.ask.now_ns, (if read_again { 9 } else { 5 }) << GRANULE_BITS);
        }
    }
}
