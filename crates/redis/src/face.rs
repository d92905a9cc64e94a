//! [`Face`]: the part of a key's holding that threads use without a lock.
//!
//! All units of a small lease are in one [`Purse`]. A key with a large lease is one that many threads ask for, so
//! every lane has a purse of its own besides: when threads take units from one word, each decision takes as long as a
//! cache line takes from core to core. It makes no other difference which purse a unit is in: all purses are closed
//! before anything else is done with the lease, and filled anew with what was left in them.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

use crate::counter::{LANES, lane};
use crate::lease::Lent;
use crate::purse::{Filling, Purse, Spent};

/// A lease of at least so many units is divided: each lane then has 64, enough to be worth the lock that divided
/// them.
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

    /// Takes units from the purse of this thread's lane or from the common purse, but never from both.
    #[inline]
    pub(crate) fn spend(&self, cost: u64, at: [u64; 2]) -> Option<(Spent, u64)> {
        let filling = self.purse.look();
        // `lane` is below LANES.
        let own = self.lanes.get().and_then(|lanes| lanes[lane()].0.spend(cost, at));
        let spent = own.or_else(|| self.purse.spend(cost, at))?;
        Some((spent, self.total(&spent, filling)))
    }

    /// What the limit has left: in all purses, and beyond them. If the filling has ended meanwhile, only what this
    /// purse had: the units of the other purses may have been moved, and would be counted twice.
    ///
    /// The common purse is closed before the others and filled after them, so while it is in one filling all others
    /// are in that filling, too. Their figures are read between two looks at the common purse.
    fn total(&self, spent: &Spent, filling: Option<(Filling, u64)>) -> u64 {
        let lanes = self.lanes.get().into_iter().flat_map(|lanes| lanes.iter());
        let others = lanes.filter_map(|Lane(purse)| purse.look()).map(|(_, units)| units);
        let in_lanes = others.fold(0, u64::saturating_add);
        // Acquire: if a figure above was of a later filling, it was written (with Release) after the common purse was
        // closed, and this fence makes the look below see that closing.
        fence(Ordering::Acquire);
        match (filling, self.purse.look()) {
            (Some((before, _)), Some((after, common))) if before == after => {
                in_lanes.saturating_add(common).saturating_add(spent.beyond_remaining)
            }
            _ => spent.left,
        }
    }

    /// Takes back what is left; no thread spends from here on. The caller holds the lock.
    pub(crate) fn close(&self) -> u64 {
        // The common purse first: see `total`.
        let common = self.purse.close();
        let lanes = self.lanes.get().into_iter().flat_map(|lanes| lanes.iter());
        common + lanes.map(|lane| lane.0.close()).sum::<u64>()
    }

    /// Puts units in, after [`close`](Face::close). The caller holds the lock.
    pub(crate) fn fill(&self, lent: Lent) {
        let part = if lent.units < MANY { 0 } else { lent.units / (LANES as u64 + 1) };
        if part > 0 {
            for Lane(purse) in self.lanes.get_or_init(Box::default).iter() {
                purse.fill(Lent { units: part, ..lent });
            }
        }
        // The common purse last: see `total`.
        let units = lent.units - LANES as u64 * part;
        self.purse.fill(Lent { units, ..lent });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::lease::Beyond;

    fn lent(units: u64) -> Lent {
        let beyond = Beyond { remaining: 100, reset_ns: 0 };
        Lent { units, until_ns: 10, stamp: 3, era: 0, beyond }
    }

    /// The sizes that `Settings::keys` and docs/scale.md name.
    #[test]
    fn lanes_take_1024_bytes_from_576_units_on() {
        assert_eq!(size_of::<[Lane; LANES]>(), 1_024);
        let has_lanes = |units| {
            let face = Face::new(b"key");
            face.fill(lent(units));
            face.lanes.get().is_some()
        };
        assert_eq!([has_lanes(575), has_lanes(576)], [false, true]);
    }

    #[test]
    fn few_units_are_in_one_purse_and_many_in_one_of_each_lane() {
        let face = Face::new(b"key");
        face.fill(lent(MANY - 1));
        assert!(face.lanes.get().is_none());
        assert_eq!(face.close(), MANY - 1);
        face.fill(lent(MANY + 5));
        let spent = face.spend(1, [0, 0]).map(|(spent, total)| (spent.left, total));
        assert_eq!(
            spent,
            Some((63, MANY + 4 + 100)),
            "of this thread's lane, and all that is left"
        );
        // A thread takes 63 more from its lane's purse and all 69 from the common purse.
        assert_eq!((0..1_000).filter(|_| face.spend(1, [0, 0]).is_some()).count(), 63 + 69);
        assert_eq!(face.close(), 7 * 64);
        assert_eq!(face.spend(1, [0, 0]), None);
        // Few units again: the lanes' purses stay empty, and all threads take from the common purse.
        face.fill(lent(10));
        assert_eq!((0..1_000).filter(|_| face.spend(1, [0, 0]).is_some()).count(), 10);
        assert_eq!(face.close(), 0);
    }

    /// Units that another thread took back and put in anew could be counted twice.
    #[test]
    fn of_a_filling_that_has_ended_a_spender_is_told_what_its_purse_had() {
        let face = Face::new(b"key");
        face.fill(lent(10));
        let before = face.purse.look();
        let spent = face.purse.spend(1, [0, 0]).unwrap();
        assert_eq!((spent.left, face.total(&spent, before)), (9, 9 + 100));
        let left = face.close();
        assert_eq!(face.total(&spent, before), 9);
        face.fill(lent(left + 20));
        assert_eq!(face.total(&spent, before), 9);
        assert_eq!(face.total(&spent, face.purse.look()), 29 + 100);
    }

    /// Threads spend while another thread closes and fills all the time, the lanes too or, if `forgetful`, only the
    /// common purse. Returns how many units were put in first, are left, and were spent.
    fn spend_on_threads(forgetful: bool) -> (u64, u64, u64) {
        const UNITS: u64 = 300_000;
        let (face, stop, spent) = (Face::new(b"key"), AtomicBool::new(false), AtomicU64::new(0));
        let left = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        spent.fetch_add(
                            u64::from(face.spend(1, [0, 0]).is_some()),
                            Ordering::Relaxed,
                        );
                    }
                });
            }
            let mut held = UNITS;
            while held > UNITS / 2 {
                face.fill(lent(held));
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
