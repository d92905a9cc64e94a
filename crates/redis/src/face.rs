//! [`Face`]: what of a key is found without a lock.
//!
//! Of a small lease all units are in one [`Purse`]. Of a large one, which is of a key that many threads ask for,
//! every lane has a purse of its own besides: for threads that take units from one word a decision takes as long
//! as a cache line takes from core to core. Which purse a unit is in changes nothing but that: all are closed
//! before anything else is done with the lease, and filled anew with what was left in them.

use std::sync::OnceLock;

use crate::counters::{LANES, lane};
use crate::lease::{Beyond, Lent};
use crate::purse::{Purse, Spent};

/// From so many units on they are divided: then each lane has as many as make up for the turn that divided them.
const MANY: u64 = 64 * (LANES as u64 + 1);

/// A purse on cache lines of its own: two, since some processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane(Purse);

#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) key: Box<[u8]>,
    purse: Purse,
    /// Made when the key first has many units.
    lanes: OnceLock<Box<[Lane; LANES]>>,
}

impl Face {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self { key: key.into(), purse: Purse::default(), lanes: OnceLock::new() }
    }

    /// Takes units from this thread's purse, or from the one that all have; not from both.
    #[inline]
    pub(crate) fn spend(&self, cost: u64, now_ns: u64) -> Option<Spent> {
        // `lane` is below LANES.
        let own = self.lanes.get().and_then(|lanes| lanes[lane()].0.spend(cost, now_ns));
        own.or_else(|| self.purse.spend(cost, now_ns))
    }

    /// Takes back what is left. From here on nobody spends. For the holder of the lock.
    pub(crate) fn close(&self) -> u64 {
        let lanes = self.lanes.get().into_iter().flat_map(|lanes| lanes.iter());
        self.purse.close() + lanes.map(|lane| lane.0.close()).sum::<u64>()
    }

    /// Puts units in, after [`close`](Face::close). For the holder of the lock.
    pub(crate) fn fill(&self, lent: Lent, beyond: Beyond) {
        let part = if lent.units < MANY { 0 } else { lent.units / (LANES as u64 + 1) };
        if part > 0 {
            for Lane(purse) in self.lanes.get_or_init(Box::default).iter() {
                put(purse, Lent { units: part, ..lent }, lent.units - part, beyond);
            }
        }
        let rest = LANES as u64 * part;
        put(&self.purse, Lent { units: lent.units - rest, ..lent }, rest, beyond);
    }
}

/// Fills one of several purses: who is answered out of it hears what is left in the others, too.
fn put(purse: &Purse, lent: Lent, elsewhere: u64, beyond: Beyond) {
    purse.fill(lent, Beyond { remaining: beyond.remaining.saturating_add(elsewhere), ..beyond });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    fn lent(units: u64) -> Lent {
        Lent { units, until_ns: 10, stamp: 3 }
    }

    /// As `Settings::keys` and docs/scale.md tell.
    #[test]
    fn lanes_take_1024_bytes_from_576_units_on() {
        assert_eq!((size_of::<[Lane; LANES]>(), MANY), (1_024, 576));
    }

    #[test]
    fn few_units_are_in_one_purse_and_many_in_one_of_each_lane() {
        let face = Face::new(b"key");
        face.fill(lent(MANY - 1), Beyond::default());
        assert!(face.lanes.get().is_none());
        assert_eq!(face.close(), MANY - 1);
        face.fill(lent(MANY + 5), Beyond { remaining: 100, reset_ns: 0 });
        let spent = face.spend(1, 0).map(|spent| (spent.left, spent.beyond_remaining));
        assert_eq!(spent, Some((63, MANY + 5 - 64 + 100)), "of this thread's lane");
        // 63 more of the lane and all 69 of the common purse.
        assert_eq!((0..1_000).filter(|_| face.spend(1, 0).is_some()).count(), 63 + 69);
        assert_eq!(face.close(), 7 * 64);
        assert_eq!(face.spend(1, 0), None);
        // Few again: the lanes stay empty, and their threads find the common purse.
        face.fill(lent(10), Beyond::default());
        assert_eq!((0..1_000).filter(|_| face.spend(1, 0).is_some()).count(), 10);
        assert_eq!(face.close(), 0);
    }

    /// Threads spend while another closes and fills all the time, the lanes or, `forgetful`, only the common
    /// purse. How many units were put in first, are left, and were spent.
    fn spend_on_threads(forgetful: bool) -> (u64, u64, u64) {
        const UNITS: u64 = 300_000;
        let (face, stop, spent) = (Face::new(b"key"), AtomicBool::new(false), AtomicU64::new(0));
        let left = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        spent.fetch_add(u64::from(face.spend(1, 0).is_some()), Ordering::Relaxed);
                    }
                });
            }
            let mut held = UNITS;
            while held > UNITS / 2 {
                face.fill(lent(held), Beyond::default());
                for _ in 0..200 {
                    std::hint::spin_loop();
                }
                held = if forgetful { face.purse.close() } else { face.close() };
            }
            stop.store(true, Ordering::Relaxed);
            *left.lock().unwrap() = held;
        });
        (UNITS, left.into_inner().unwrap(), spent.into_inner())
    }

    #[test]
    fn every_unit_is_spent_once_whichever_purse_it_is_in() {
        let (units, left, spent) = spend_on_threads(false);
        assert_eq!(left + spent, units);
    }

    #[test]
    fn lanes_that_are_not_closed_are_caught() {
        let (units, left, spent) = spend_on_threads(true);
        assert_ne!(left + spent, units);
    }
}
