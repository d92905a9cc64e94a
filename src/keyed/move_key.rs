//! Moving what a key has spent from one tier to another.
//!
//! The debt is charged to the key's new identity first, and only then is the old word cleared, by a
//! compare-and-swap from the exact word that was read. So at every moment the debt stands somewhere: a request
//! that comes between the two may find it in both, never in neither. What another thread charges
//! to the old word meanwhile is moved after it.

use std::hash::{BuildHasher, Hash};

use crate::change::ChangeError;
use crate::clock::Timestamp;
use crate::verb::Verb;

use super::KeyedLimiter;
use super::ask::Ask;
use super::points;
use super::price::spent::Spent;
use super::spill::owed_units;

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// Moves what a key has spent from one tier to another, as when a customer's plan changes, and says
    /// how many units that were. In its old tier the key is then as never used.
    ///
    /// The units are rounded up; what goes beyond what a word remembers, twice the new burst or the new
    /// window's limit, is dropped. Requests of the key that go on in the old tier meanwhile are moved as long as
    /// they come before the end of this call. What a key without a cell owes in the spill
    /// ([`Full::Spill`](crate::Full::Spill)) is charged in its new tier, and stays in the old one, too, until it has
    /// drained there.
    ///
    /// # Errors
    /// No such tier; the table is full of live keys, and has no spill. Then the key has kept what it has spent.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Quota, Tiers};
    /// let tiers = Tiers::of(Quota::per_hour(10)).and(Quota::per_hour(100));
    /// let limiter: KeyedLimiter<str> = tiers.build_with_clock(1_000, ManualClock::new())?;
    /// let [free, paid] = [limiter.tier(0)?, limiter.tier(1)?];
    /// assert!(free.check("alice", 8).is_allowed());
    /// assert_eq!(limiter.move_key("alice", 0, 1)?, 8);
    /// assert_eq!(paid.peek("alice", 1).remaining(), 92);
    /// assert_eq!(free.peek("alice", 1).remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn move_key(&self, key: &K, from: usize, to: usize) -> Result<u64, ChangeError> {
        self.move_key_at(key, from, to, self.clock.now())
    }

    /// [`move_key`](KeyedLimiter::move_key) at a time of the caller's.
    ///
    /// # Errors
    /// As [`move_key`](KeyedLimiter::move_key).
    ///
    /// ```
    /// use tollgate::{ChangeError, KeyedLimiter, Quota, Tiers, Timestamp};
    /// let tiers = Tiers::of(Quota::per_minute(6)).and(Quota::per_minute(60));
    /// let limiter: KeyedLimiter<str> = tiers.build(1_000)?;
    /// let at = Timestamp::from_secs;
    /// assert!(limiter.entry("alice").at(at(7)).check(6).is_allowed());
    /// assert_eq!(limiter.move_key_at("alice", 0, 1, at(27))?, 4);
    /// let error = limiter.move_key_at("alice", 1, 2, at(27));
    /// assert_eq!(error, Err(ChangeError::NoSuchTier { tier: 2, tiers: 2 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn move_key_at(
        &self,
        key: &K,
        from: usize,
        to: usize,
        now: Timestamp,
    ) -> Result<u64, ChangeError> {
        // Both are looked up first: a tier that does not exist leaves everything as it is.
        let [from, to] = [self.tier(from)?.number(), self.tier(to)?.number()];
        // Charging first would double what it owes.
        if from == to {
            return Ok(0);
        }
        // The tier is part of the identity: in its new one the key has other shards, and another
        // tag.
        let old = self.find_in(key, from);
        let second = self.second(old);
        // What this call has charged in the new tier so far: a turn in vain must not charge it
        // twice.
        let mut moved = 0;
        // Lock-free: another turn means that another thread has changed the word.
        loop {
            // Read anew in each turn: what the word says, and the word that says it.
            let spent = Spent::of(&self.table, old, second, now.as_nanos());
            // False, but in a model that plants it: cleared first, the debt would stand nowhere for
            // a while.
            let cleared = points::clears_first(|| {
                spent.as_ref().is_some_and(|spent| spent.clear(&self.table))
            });
            let units = spent.as_ref().map_or_else(
                // No cell in its old tier: what it owes stands in the spill, if anywhere.
                || {
                    let (now_ns, verb) = (now.as_nanos(), Verb::Check);
                    // A question: it is asked what the key owes, and nothing is charged.
                    let ask = Ask { now_ns, cost: 0, charge: false, verb, tier: from };
                    owed_units(&self.table, old, second, ask)
                },
                |spent| spent.units,
            );
            // An earlier turn has moved its part; another thread has charged the rest since.
            let more = units.saturating_sub(moved);
            if more > 0 {
                // A charge is made whatever the key owes there already: debt is not refused.
                let charged = self.place_in(key, to).ask(Verb::Charge, more, Some(now), more > 0);
                if !charged.is_allowed() {
                    // The old word has not been cleared, so the debt stays where it was.
                    return Err(ChangeError::NoCell);
                }
                // From here on it stands in both tiers, until the old word is cleared.
                moved += more;
            }
            // What stands in the spill stays there until it has drained. A word that owes nothing is left as it is:
            // written anew it would be idle only from now on, and its cell lost to newcomers until a floor says so.
            let is_clear = |spent: Spent| spent.units == 0 || spent.clear(&self.table);
            // If the CAS fails, another thread has charged the old word: what it charged is moved
            // in the next turn.
            if cleared || spent.is_none_or(is_clear) {
                return Ok(moved);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shard::cells;
    use crate::{KeyedLimiter, ManualClock, Quota, Tiers, Timestamp};

    #[test]
    fn a_move_of_a_key_that_owes_nothing_writes_nothing() {
        let tiers = Tiers::of(Quota::per_second(1)).and(Quota::per_second(1));
        let limiter: KeyedLimiter<u64> =
            tiers.build_with_clock(1, ManualClock::new()).expect("it fits");
        let words = || -> Vec<u64> {
            let shards = (0..limiter.table.shards()).map(|index| limiter.table.shard(index));
            shards.flat_map(|shard| cells().map(|cell| shard.load(cell))).collect()
        };
        let at = Timestamp::from_millis;
        assert!(limiter.tier(0).expect("the first").entry(&7).at(at(0)).check(1).is_allowed());
        let before = words();
        assert_eq!(before.iter().filter(|&&word| word != 0).count(), 1);
        // Idle since one second, in a shard whose floor stands where it stood.
        assert_eq!(limiter.move_key_at(&7, 0, 1, at(1_500)), Ok(0));
        assert_eq!(words(), before);
    }
}
