//! Changes to the word of a key that is there: refunds, cancellations, resets. A key that is not there
//! owes nothing, so nothing is installed.
//!
//! Unlike a charge, an amendment may write a time *below* the one that it found, though never below the
//! floor that it read. Should its thread then sleep, between that reading and its CAS, while the
//! floor advances twice, and the word stay as it was all the while, what it writes lies out of the
//! word's reach and is read as far ahead: the key is denied until that has passed (fail closed). Two
//! epochs are two minutes, or what twice the burst takes to come back if that is less; a hit rests on a
//! sleep shorter than a whole wrap in the same way.

use crate::clock::Timestamp;
use crate::refund::Amendment;

use crate::keyed::table::words::Key;

impl Key<'_> {
    /// Amends the key's word, and says how many units that gave back, rounded up: none if the key has no
    /// word, or a charge cannot be undone any more.
    pub(in crate::keyed) fn amend(
        &self,
        now: &impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> u64 {
        // In the first shard that has the key. In none of them: it was forgotten, was never given a cell, or has
        // just moved between them, and nothing is given back.
        let amended =
            self.shards().find_map(|index| self.words.amend_in(self, index, now, amendment));
        amended.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::keyed::KeyedLimiter;
    use crate::keyed::floors::floor::LAG_NS;
    use crate::keyed::memory::shard::GRANULE_BITS;
    use crate::{ManualClock, Quota};

    /// The time of a shard is the floor, if the caller's clock is behind it.
    #[test]
    fn the_floor_tells_a_refund_what_has_drained_where_the_clock_is_behind() {
        let start = Timestamp::from_nanos(1_000 << GRANULE_BITS);
        let quota = Quota::per_second(1).burst(10);
        let one = KeyedLimiter::builder(quota).clock(ManualClock::new()).build(1).expect("it fits");
        let tiers = KeyedLimiter::builder(quota)
            .changing()
            .clock(ManualClock::new())
            .build(1)
            .expect("it fits");
        let first =
            [one.entry(&7_u64).at(start).check_n(5), tiers.entry(&7_u64).at(start).check_n(5)];
        // Others are eight seconds ahead: five units have drained, and one is owed to them.
        let later = start + Duration::from_secs(8);
        assert!(one.entry(&7).at(later).check().is_allowed());
        assert!(tiers.entry(&7).at(later).check().is_allowed());
        for limiter in [&one, &tiers] {
            let now_ns = later.as_nanos() + LAG_NS;
            let Ok(words) = limiter.table.words() else { panic!("logs") };
            (0..words.shards()).for_each(|index| words.advance(index, now_ns));
        }
        let [permit, tiers_permit] = first.map(|decision| decision.into_result().expect("fits"));
        assert_eq!(one.entry(&7).at(start).refund(permit), 0);
        assert_eq!(tiers.entry(&7).at(start).refund(tiers_permit), 0);
        let left = [one.entry(&7).at(later).peek(0), tiers.entry(&7).at(later).peek(0)];
        assert_eq!(left.map(|decision| decision.remaining()), [9, 9]);
    }
}
