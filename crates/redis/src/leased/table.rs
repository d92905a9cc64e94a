//! [`LeaseTable`]: the holdings of many keys, in fixed memory.
//!
//! The table consists of sets of eight places. Most requests find units in the [`FastEntry`] of their key, and take
//! them with one compare-and-swap. The other requests lock the set for a lookup and a subtraction, but never while they
//! wait for the store, so a thread is held up for a few dozen nanoseconds at most. These requests need the lock because
//! a holding consists of two leases, their ends, and the store's last answer, which must change together. Only a few
//! requests of each lease are decided under the lock.
//!
//! If all places of a key's set are in use (their keys hold units, wait for a lease, or were denied lately), the key
//! has no place, and the store decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::RandomState;
use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use crate::leased::fast_entry::{FastEntry, KeySpend};
use crate::leased::holding::Holding;

/// Places in a set.
const WAYS: usize = 8;

#[derive(Debug)]
struct LeasePlace {
    fast: Arc<FastEntry>,
    /// The units of the key, except those that are in the pools of the fast entry.
    holding: Holding,
}

impl LeasePlace {
    fn new(key: &[u8]) -> Box<Self> {
        Box::new(Self { fast: Arc::new(FastEntry::new(key)), holding: Holding::default() })
    }

    /// Runs `turn` on the holding with all units of the key. It takes the units out of the pools before, and fills the
    /// pools again afterwards.
    fn turn<T>(&mut self, turn: impl FnOnce(&mut Holding) -> T) -> T {
        let Self { fast, holding } = self;
        holding.put_back(fast.close());
        let result = turn(holding);
        if let Some(lent) = holding.lend() {
            fast.fill(lent);
        }
        result
    }
}

/// Up to eight keys, and the notification for callers that wait for a lease of one of these keys.
#[derive(Debug, Default)]
pub(crate) struct Set {
    fast_entries: [ArcSwapOption<FastEntry>; WAYS],
    places: Mutex<[Option<Box<LeasePlace>>; WAYS]>,
    pub(crate) answered: Notify,
}

/// The holdings of one limit.
#[derive(Debug)]
pub(crate) struct LeaseTable {
    sets: Box<[Set]>,
    hashes: RandomState,
}

impl LeaseTable {
    /// Makes a table with room for one and a half times `keys`, the number of keys that have units at the same time.
    pub(crate) fn new(keys: usize) -> Self {
        let sets = (keys.saturating_add(keys / 2) / WAYS).max(1).next_power_of_two();
        Self { sets: (0..sets).map(|_| Set::default()).collect(), hashes: RandomState::new() }
    }

    pub(crate) fn set(&self, key: &[u8]) -> &Set {
        // The hash only chooses the set; the keys in it are compared.
        let hash = self.hashes.hash_one(key);
        let index = usize::try_from(hash >> 32).unwrap_or_default() & (self.sets.len() - 1);
        &self.sets[index]
    }

    pub(crate) fn sets(&self) -> impl Iterator<Item = &Set> {
        self.sets.iter()
    }

    /// Whether the table can be dropped without loss.
    pub(crate) fn is_idle(&self, now_ns: u64) -> bool {
        self.sets().all(|set| {
            let mut places = set.places();
            places.iter_mut().flatten().all(|place| place.turn(|holding| holding.is_idle(now_ns)))
        })
    }
}

impl Set {
    /// Spends units of the key without a lock. `era` is the number of the caller's policy.
    #[inline]
    pub(crate) fn spend(&self, key: &[u8], cost: u64, now_ns: u64, era: u64) -> Option<KeySpend> {
        self.fast_entries.iter().find_map(|fast| {
            let fast = fast.load();
            let fast = fast.as_deref().filter(|fast| *fast.key == *key)?;
            fast.spend(cost, now_ns, era)
        })
    }

    /// Runs `turn` on the key's holding, if it has one.
    pub(crate) fn look<T>(&self, key: &[u8], turn: impl FnOnce(&mut Holding) -> T) -> Option<T> {
        let mut places = self.places();
        let place = places.iter_mut().flatten().find(|place| *place.fast.key == *key)?;
        Some(place.turn(turn))
    }

    /// Runs `turn` on the key's holding; `None` if there is no place for the key.
    pub(crate) fn with<T>(
        &self,
        key: &[u8],
        now_ns: u64,
        turn: impl FnOnce(&mut Holding) -> T,
    ) -> Option<T> {
        let mut places = self.places();
        let is_keys = |place: &Option<Box<LeasePlace>>| {
            place.as_ref().is_some_and(|place| *place.fast.key == *key)
        };
        let index = places.iter().position(is_keys).or_else(|| {
            let vacant = places.iter_mut().position(|place| match place {
                None => true,
                Some(place) => place.turn(|holding| holding.is_idle(now_ns)),
            })?;
            let place = LeasePlace::new(key);
            self.fast_entries[vacant].store(Some(Arc::clone(&place.fast)));
            places[vacant] = Some(place);
            Some(vacant)
        })?;
        places[index].as_mut().map(|place| place.turn(turn))
    }

    /// Removes every key from the table, and returns the keys and their holdings.
    pub(crate) fn drain(&self) -> Vec<(Box<[u8]>, Holding)> {
        let mut places = self.places();
        let mut drained = Vec::new();
        for (place, fast) in places.iter_mut().zip(&self.fast_entries) {
            if let Some(mut place) = place.take() {
                fast.store(None);
                place.holding.put_back(place.fast.close());
                drained.push((place.fast.key.clone(), place.holding));
            }
        }
        drained
    }

    fn places(&self) -> MutexGuard<'_, [Option<Box<LeasePlace>>; WAYS]> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use crate::leased::holding::{Beyond, Grant, Spend, Terms};

    const TERMS: Terms = Terms { most: 8, poll_ns: 0, era: 0 };

    const MANY: Terms = Terms { most: 1_000, ..TERMS };

    fn grant(units: u64, asked_ns: u64, remaining: u64) -> Grant {
        let beyond = Beyond { remaining, reset_ns: 0 };
        Grant { units, asked_ns, turns_ns: None, stamp: 7, charged_us: 0, beyond }
    }

    /// Gives the key a lease. The lease was asked for at time 0, so it ends within the first second.
    fn take(table: &LeaseTable, key: &[u8]) -> Option<()> {
        table.set(key).with(key, 0, |holding| {
            assert!(matches!(holding.spend(TERMS, 1, 0, 0), Spend::Ask(_)));
            holding.granted(TERMS, grant(2, 0, 0), 0);
        })
    }

    #[test]
    fn keys_keep_their_units_and_a_full_set_takes_no_more_until_they_end() {
        let table = LeaseTable::new(1);
        let keys: Vec<[u8; 1]> = (0..9).map(|n| [n]).collect();
        for key in &keys[..8] {
            assert_eq!(take(&table, key), Some(()));
        }
        assert_eq!(take(&table, &keys[8]), None);
        for key in &keys[..8] {
            let left = table.set(key).with(key, 0, |holding| holding.left());
            assert_eq!(left, Some(2));
        }
        let later = crate::leased::terms::LIFE_NS;
        assert_eq!(table.set(&keys[8]).with(&keys[8], later, |holding| holding.left()), Some(0));
    }

    #[test]
    fn units_that_are_spent_without_a_lock_are_those_of_the_lease() {
        let table = LeaseTable::new(1);
        let set = table.set(b"key");
        set.with(b"key", 0, |holding| {
            assert!(matches!(holding.spend(MANY, 100, 0, 0), Spend::Ask(_)));
            holding.granted(MANY, grant(100, 0, 900), 0);
        });
        let spent = (0..200).filter(|_| set.spend(b"key", 1, 0, 0).is_some()).count();
        assert_eq!(spent, 99);
        assert!(set.spend(b"another", 1, 0, 0).is_none());
        // The last unit is spent from the holding, which then notices that the lease is spent.
        assert_eq!(set.with(b"key", 0, |holding| holding.left()), Some(1));
        let last = set.with(b"key", 0, |holding| holding.spend(MANY, 1, 0, 0));
        assert!(matches!(last, Some(Spend::Spent { stamp: 7, .. })));
        assert_eq!(set.with(b"key", 0, |holding| holding.left()), Some(0));
    }

    #[test]
    fn units_in_a_pool_end_with_their_lease_and_are_drained_with_it() {
        let table = LeaseTable::new(1);
        let set = table.set(b"key");
        let fill = |asked_ns| {
            let grant = grant(50, asked_ns, 0);
            set.with(b"key", asked_ns, |holding| holding.granted(MANY, grant, asked_ns))
        };
        fill(0);
        let life_ns = crate::leased::terms::LIFE_NS;
        assert!(set.spend(b"key", 1, life_ns - life_ns / 1_000 - 1, 0).is_some());
        assert!(set.spend(b"key", 1, life_ns, 0).is_none());
        assert_eq!(set.with(b"key", life_ns, |holding| holding.is_idle(life_ns)), Some(true));
        fill(life_ns);
        assert!(set.spend(b"key", 3, life_ns, 0).is_some());
        let drained = set.drain();
        assert_eq!(drained.iter().map(|(_, holding)| holding.left()).collect::<Vec<_>>(), [47]);
        assert!(set.spend(b"key", 1, life_ns, 0).is_none());
    }

    #[test]
    fn a_key_that_waits_for_the_store_is_not_forgotten() {
        let table = LeaseTable::new(1);
        let set = table.set(b"key");
        set.with(b"key", 0, |holding| holding.spend(TERMS, 1, 0, 0));
        for n in 0..20_u8 {
            set.with(&[n], 0, |_| ());
        }
        let again = set.with(b"key", 0, |holding| holding.spend(TERMS, 1, 0, 0));
        assert_eq!(again, Some(Spend::Wait));
        set.with(b"key", 0, |holding| holding.failed(Fault::Deadline, 0));
        assert!(set.drain().iter().any(|(key, _)| **key == *b"key"));
        assert!(set.drain().is_empty());
    }

    #[test]
    fn a_key_that_holds_nothing_takes_66_bytes_at_most() {
        // tollgate-service relies on the bound of 66 bytes. The bound holds from 8 keys on, and every rule has room for
        // more keys.
        for keys in (8..300).chain([43_691, 65_536, 100_000]) {
            let bytes = LeaseTable::new(keys).sets.len() * size_of::<Set>();
            assert!(bytes <= 66 * keys, "{bytes} for {keys}");
        }
    }
}
