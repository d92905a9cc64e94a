//! Moves what a key has spent from one tier to another.
//!
//! The debt is charged to the key's new identity first, and only then is the old word cleared, by a compare-and-swap
//! from the exact word that was read. So a request that comes between the two steps may find the debt in both tiers,
//! and always finds it in at least one. If another thread charges the old word meanwhile, that charge is moved next.

use crate::change::ChangeError;
use crate::clock::Timestamp;
use crate::verb::Verb;
use crate::verdict::Mark;

use crate::keyed::Place;
use crate::keyed::lookup::price::spent::Spent;
use crate::keyed::memory::ask::Ask;
use crate::keyed::memory::points;

impl Place<'_> {
    /// Moves what the key has spent in its tier to another, at `at`, or else at the time of the table's clock: see
    /// [`Entry::move_to`](crate::Entry::move_to).
    pub(crate) fn move_to(&self, tier: usize, at: Option<Timestamp>) -> Result<u64, ChangeError> {
        // The tier is looked up first: if there is no such tier, everything stays as it is.
        let there = self.in_tier(tier)?;
        // A move to the same tier would double the key's debt.
        if there.quota == self.quota || self.table.takes_own() {
            return Ok(0);
        }
        // In its new tier the key has other shards and another tag. Only a table of words has a second tier.
        let Ok(old) = self.key() else { return Ok(0) };
        let now = at.unwrap_or_else(|| self.clock().now());
        // The units that this call has charged in the new tier so far. A further turn of the loop must not charge them
        // twice.
        let mut moved = 0;
        // Lock-free: another turn means that another thread has changed the word.
        loop {
            // The word and its debt are read anew in each turn.
            let spent = Spent::of(&old, now.as_nanos());
            // This is false, except in a model that plants the fault. If the word were cleared first, the debt would be
            // in neither tier for a while.
            let cleared = points::clears_first(|| {
                spent.as_ref().is_some_and(|spent| spent.clear(&old.words))
            });
            let units = spent.as_ref().map_or_else(
                // The key has no cell in its old tier. Its debt stands in the spill, if it has any.
                || {
                    let (now_ns, verb) = (now.as_nanos(), Verb::Check);
                    // This request reads the key's debt, and charges nothing.
                    let ask = Ask { now_ns, cost: 0, charge: false, verb, quota: self.quota };
                    old.owed_units(ask)
                },
                |spent| spent.units,
            );
            // An earlier turn may have moved a part. The rest was charged by another thread since.
            let more = units.saturating_sub(moved);
            if more > 0 {
                // The charge is made whatever the key already owes in the new tier.
                let charged = there.ask(Verb::Charge, more, Some(now), more > 0);
                if !charged.is_allowed() {
                    // The old word has not been cleared, so the debt stays where it was.
                    return Err(ChangeError::NoCell);
                }
                // A penalty in the new tier lets no charge in, so the debt stays where it was, too.
                if charged.view().mark == Mark::Penalty {
                    return Err(ChangeError::Penalty);
                }
                // From here on the debt stands in both tiers, until the old word is cleared.
                moved += more;
            }
            // A debt in the spill stays there until it has drained. A word that owes nothing is left as it is. If it
            // were written anew, it would be idle only from now on, and newcomers could not take its cell until a later
            // floor.
            let is_clear = |spent: Spent| spent.units == 0 || spent.clear(&old.words);
            // If the CAS fails, another thread has charged the old word. That charge is moved in the next turn.
            if cleared || spent.is_none_or(is_clear) {
                return Ok(moved);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::keyed::memory::shard::{TableWord, cells};
    use crate::{Changing, KeyedLimiter, ManualClock, Quota, Timestamp};

    #[test]
    fn a_move_of_a_key_that_owes_nothing_writes_nothing() {
        let tiers = KeyedLimiter::builder(Quota::per_second(1)).tier(Quota::per_second(1));
        let limiter: Changing<KeyedLimiter<u64>> =
            tiers.clock(ManualClock::new()).build(1).expect("it fits");
        let words = || -> Vec<TableWord> {
            let shards = (0..limiter.table.shards()).map(|index| limiter.table.shard(index));
            shards.flat_map(|shard| cells().map(|cell| shard.load(cell))).collect()
        };
        let at = Timestamp::from_millis;
        assert!(limiter.entry(&7).at(at(0)).check().is_allowed());
        let before = words();
        assert_eq!(before.iter().filter(|&&word| word != TableWord::VACANT).count(), 1);
        // The key has been idle for one second, and the floor of its shard has not moved.
        assert_eq!(limiter.entry(&7).at(at(1_500)).move_to(1), Ok(0));
        assert_eq!(words(), before);
    }
}
