//! The instant at which a new key starts: it follows from the floors of the key's shards.

use crate::keyed::memory::ask::Fresh;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::Header;

/// The instant at which a new key starts: the request's time, or the highest floor of its shards if that is later.
#[inline(always)] // its callers are out of line, and cold
pub(in crate::keyed) fn base_ns<const N: usize>(
    headers: [Header; N],
    fresh: &mut Fresh<'_>,
) -> u64 {
    let floor_ns = points::highest(headers.map(Header::floor_ns));
    // If a floor is later than this request's time, a thread with a later time has moved it. This request may have read
    // its clock a while ago, so it reads the clock once more, but not a third time.
    if floor_ns > fresh.ask.now_ns
        && let Some(clock) = fresh.clock.take()
    {
        fresh.ask.now_ns = fresh.ask.now_ns.max(clock.now().as_nanos());
    }
    floor_ns.max(fresh.ask.now_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::memory::ask::Ask;
    use crate::keyed::memory::shard::GRANULE_BITS;
    use crate::keyed::quotas::book::own::QuotaId;
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
            let ask =
                Ask { now_ns, cost: 1, charge: true, verb: Verb::Check, quota: QuotaId::tier(0) };
            let mut fresh = Fresh::new(ask, Some(&clock));
            assert_eq!(base_ns(floors.map(Header::first), &mut fresh), base << GRANULE_BITS);
            assert_eq!(fresh.clock.is_none(), read_again, "{floors:?}");
            assert_eq!(fresh.ask.now_ns, (if read_again { 9 } else { 5 }) << GRANULE_BITS);
        }
    }
}
