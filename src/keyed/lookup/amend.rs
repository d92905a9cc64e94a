//! Refunds, cancellations and resets, which change the word of a key. A key without a word owes nothing, so it is not
//! installed for an amendment.
//!
//! Unlike a charge, an amendment may write a time that is *earlier* than the word's, though never below the floor that
//! it read. Suppose that the amending thread reads the floor, sleeps while the floor advances twice, and then finds the
//! word unchanged, so that its CAS succeeds. The time that the thread writes is then out of the range that the floor
//! dates. It is read as a time far ahead, and the key is denied until that time has passed. This is excluded by an
//! assumption: no thread sleeps there for two epochs. In a table of one quota, two epochs are at least the time in
//! which twice the burst drains; in a table of several quotas, at least a quarter of that time (see
//! `Layout::epoch_units`). A hit relies on a similar assumption: no thread sleeps until a word's time wraps around.

use crate::clock::Timestamp;
use crate::refund::Amendment;

use crate::keyed::table::words::Key;

impl Key<'_> {
    /// Amends the key's word, and returns the number of units given back, rounded up. The number is 0 if the key has no
    /// word, or if the charge cannot be given back any more.
    pub(in crate::keyed) fn amend(
        &self,
        now: &impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> u64 {
        // The word is amended in the first shard that has the key. If no shard has the key, it was forgotten, never got
        // a cell, or has just moved between shards. In these cases nothing is given back.
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

    /// If the caller's clock is behind the shard's floor, the amendment is made at the floor.
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
        // Other threads are eight seconds ahead. By their clock the first five units have drained. These threads charge
        // one more unit.
        let later = start + Duration::from_secs(8);
        assert!(one.entry(&7).at(later).check().is_allowed());
        assert!(tiers.entry(&7).at(later).check().is_allowed());
        for limiter in [&one, &tiers] {
            let now_ns = later.as_nanos() + LAG_NS;
            let Ok(words) = limiter.table.words() else { panic!("a table of logs") };
            (0..words.shards()).for_each(|index| words.advance(index, now_ns));
        }
        let [permit, tiers_permit] = first.map(|decision| decision.into_result().expect("fits"));
        assert_eq!(one.entry(&7).at(start).refund(permit), 0);
        assert_eq!(tiers.entry(&7).at(start).refund(tiers_permit), 0);
        let left = [one.entry(&7).at(later).peek(0), tiers.entry(&7).at(later).peek(0)];
        assert_eq!(left.map(|decision| decision.remaining()), [9, 9]);
    }
}
