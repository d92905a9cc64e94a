//! [`Ledger`]: the holdings of many keys, in fixed memory.
//!
//! Sets of eight places, each behind a mutex. A request locks one set for the time of a lookup and a
//! subtraction and never while it waits, so no thread holds up another for more than a few dozen
//! nanoseconds. One word and one compare-and-swap, as in the core, would not do: a holding is two leases,
//! their ends, and what the store said last, and must change as one. What is decided here is anyhow
//! decided a batch at a time by the store.
//!
//! A key that finds no place, because its set is full of keys that hold units, is decided by the store.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::RandomState;
use tokio::sync::Notify;

use crate::lease::Holding;

/// Places in a set.
const WAYS: usize = 8;

#[derive(Debug)]
struct Place {
    key: Box<[u8]>,
    holding: Holding,
}

/// A few keys, and who waits for a lease of one of them.
#[derive(Debug, Default)]
pub(crate) struct Set {
    places: Mutex<[Option<Place>; WAYS]>,
    pub(crate) answered: Notify,
}

/// The holdings of one limit.
#[derive(Debug)]
pub(crate) struct Ledger {
    sets: Box<[Set]>,
    hashes: RandomState,
}

impl Ledger {
    /// Room for `keys` that hold units at the same time, and half as many again.
    pub(crate) fn new(keys: usize) -> Self {
        let sets = (keys.saturating_add(keys / 2) / WAYS).max(1).next_power_of_two();
        Self { sets: (0..sets).map(|_| Set::default()).collect(), hashes: RandomState::new() }
    }

    pub(crate) fn set(&self, key: &[u8]) -> &Set {
        // The hash only places; the key itself is compared.
        let hash = self.hashes.hash_one(key);
        let index = usize::try_from(hash >> 32).unwrap_or_default() & (self.sets.len() - 1);
        &self.sets[index]
    }

    pub(crate) fn sets(&self) -> impl Iterator<Item = &Set> {
        self.sets.iter()
    }
}

impl Set {
    /// Does something with the key's holding; `None` if there is no place for the key.
    pub(crate) fn with<T>(
        &self,
        key: &[u8],
        now_ns: u64,
        turn: impl FnOnce(&mut Holding) -> T,
    ) -> Option<T> {
        let mut places = self.places();
        let known = places.iter().position(|place| place.as_ref().is_some_and(|p| *p.key == *key));
        let index = known.or_else(|| {
            let vacant = places.iter_mut().position(|place| match place {
                None => true,
                Some(place) => place.holding.is_idle(now_ns),
            })?;
            places[vacant] = Some(Place { key: key.into(), holding: Holding::default() });
            Some(vacant)
        })?;
        places[index].as_mut().map(|place| turn(&mut place.holding))
    }

    /// Takes out every key and its holding.
    pub(crate) fn drain(&self) -> Vec<(Box<[u8]>, Holding)> {
        let mut places = self.places();
        places.iter_mut().filter_map(Option::take).map(|place| (place.key, place.holding)).collect()
    }

    fn places(&self) -> MutexGuard<'_, [Option<Place>; WAYS]> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use crate::lease::{Beyond, Grant, Spend, Terms};

    const TERMS: Terms = Terms { most: 8, poll_ns: 0 };

    /// Gives the key units that last until a second.
    fn take(ledger: &Ledger, key: &[u8]) -> Option<()> {
        ledger.set(key).with(key, 0, |holding| {
            assert!(matches!(holding.spend(TERMS, 1, [0, 0]), Spend::Ask(_)));
            let (turns_ns, beyond) = (None, Beyond::default());
            holding.granted(TERMS, Grant { units: 2, asked_ns: 0, turns_ns, stamp: 0, beyond }, 0);
        })
    }

    #[test]
    fn keys_keep_their_units_and_a_full_set_takes_no_more_until_they_end() {
        let ledger = Ledger::new(1);
        let keys: Vec<[u8; 1]> = (0..9).map(|n| [n]).collect();
        for key in &keys[..8] {
            assert_eq!(take(&ledger, key), Some(()));
        }
        assert_eq!(take(&ledger, &keys[8]), None);
        for key in &keys[..8] {
            let left = ledger.set(key).with(key, 0, |holding| holding.left());
            assert_eq!(left, Some(2));
        }
        let later = crate::lease::LIFE_NS;
        assert_eq!(ledger.set(&keys[8]).with(&keys[8], later, |holding| holding.left()), Some(0));
    }

    #[test]
    fn a_key_that_waits_for_the_store_is_not_forgotten() {
        let ledger = Ledger::new(1);
        let set = ledger.set(b"key");
        set.with(b"key", 0, |holding| holding.spend(TERMS, 1, [0, 0]));
        for n in 0..20_u8 {
            set.with(&[n], 0, |_| ());
        }
        let again = set.with(b"key", 0, |holding| holding.spend(TERMS, 1, [0, 0]));
        assert_eq!(again, Some(Spend::Wait));
        set.with(b"key", 0, |holding| holding.failed(Fault::Deadline, 0));
        assert!(set.drain().iter().any(|(key, _)| **key == *b"key"));
        assert!(set.drain().is_empty());
    }
}
