//! Changes to the word of a key that is there: refunds, cancellations, resets. A key that is not there
//! owes nothing, so nothing is installed.
//!
//! Unlike a charge, an amendment may write a time that is *earlier* than the time that it found, though never below the
//! floor that it read. Suppose that its thread sleeps between this reading and its CAS while the floor advances twice,
//! and that the word stays unchanged. Then the time that it writes lies out of the word's range and is read as a time
//! far ahead, so the key is denied until that time has passed. Two epochs are two minutes, or the time in which twice
//! the burst comes back if that is less. In the same way, a hit assumes that no thread sleeps for as long as the time
//! takes to wrap around.

use crate::clock::Timestamp;
use crate::refund::Amendment;

use crate::keyed::table::words::Key;

impl Key<'_> {
    /// Amends the key's word, and returns how many units this gave back, rounded up: 0 if the key has no word, or if a
    /// charge cannot be undone any more.
    pub(in crate::keyed) fn amend(
        &self,
        now: &impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> u64 {
        // The word is amended in the first shard that has the key. If no shard has it, the key was forgotten, never got
        // a cell, or has just moved between shards. Then nothing is given back.
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
        // Other threads are eight seconds ahead: for them five units have drained, and they have charged one unit.
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
