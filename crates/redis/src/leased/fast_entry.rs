//! [`FastEntry`]: the units of a key that threads take without a lock. They are lent from the key's holding.
//!
//! All units of a small lease are in one [`UnitPool`]. If a lease is large, many threads ask for the key. If all of
//! them took units from one word, each decision would wait for a cache line to move from one core to another. So a key
//! with a large lease also has a pool for each *lane*, a group of threads. The pool that a unit is in matters only for
//! speed: before anything else is done with the lease, all pools are closed, and afterwards they are filled again with
//! the units that were left.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

use crate::leased::holding::Lent;
use crate::leased::unit_pool::{Filling, PoolContent, SpentUnits, UnitPool};
use crate::store::counter::{LANES, lane};

/// A lease of at least this many units is divided among the lanes and the common pool. Each of them gets at least 64
/// units, which saves more time than it takes to divide the lease under the lock.
const MANY: u64 = 64 * (LANES as u64 + 1);

/// A pool that has two cache lines to itself, since some processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct UnitLane(UnitPool);

#[derive(Debug)]
pub(crate) struct FastEntry {
    pub(crate) key: Box<[u8]>,
    pool: UnitPool,
    /// The pools of the lanes, which are made when the key first has a lease of [`MANY`] units.
    lanes: OnceLock<Box<[UnitLane; LANES]>>,
}

/// The units of a key that a decision took, and the units that the limit has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeySpend {
    pub(crate) spent: SpentUnits,
    /// The units that the limit has left, in all pools and elsewhere.
    pub(crate) remaining: u64,
}

impl FastEntry {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self { key: key.into(), pool: UnitPool::default(), lanes: OnceLock::new() }
    }

    /// Takes units from the pool of this thread's lane or from the common pool, but never from both.
    #[inline]
    pub(crate) fn spend(&self, cost: u64, now_ns: u64, era: u64) -> Option<KeySpend> {
        let filling = self.pool.look().map(|content| content.filling);
        // `lane` is below LANES.
        let own = self.lanes.get().and_then(|lanes| lanes[lane()].0.spend(cost, now_ns, era));
        let spent = own.or_else(|| self.pool.spend(cost, now_ns, era))?;
        Some(KeySpend { spent, remaining: self.remaining(&spent, filling) })
    }

    /// The units that the limit has left, in all pools and elsewhere. If the pools were closed meanwhile, it returns
    /// only the units that were left in the pool of `spent`: the units of the other pools may have been moved to
    /// another pool, and a sum could count them twice.
    ///
    /// The common pool is closed before the others and filled after them. So while the common pool is in one filling,
    /// all other pools are in the same filling. So the units of the other pools are read between two looks at the
    /// common pool, and count only if both looks find the same filling.
    fn remaining(&self, spent: &SpentUnits, filling: Option<Filling>) -> u64 {
        let lanes = self.lanes.get().into_iter().flat_map(|lanes| lanes.iter());
        let others = lanes.filter_map(|UnitLane(pool)| pool.look()).map(|content| content.units);
        let in_lanes = others.fold(0, u64::saturating_add);
        // Acquire: the units of a later filling are stored (with Release) after the common pool was closed. If the loop
        // above has read such units, then after this fence the look below finds the common pool closed or in a later
        // filling.
        fence(Ordering::Acquire);
        match (filling, self.pool.look()) {
            (Some(before), Some(PoolContent { filling, units })) if before == filling => {
                in_lanes.saturating_add(units).saturating_add(spent.beyond_remaining)
            }
            _ => spent.left,
        }
    }

    /// Takes back the units that are left. Until the next `fill` no thread can spend a unit. The caller holds the lock.
    pub(crate) fn close(&self) -> u64 {
        // The common pool is closed first: see `remaining`.
        let common = self.pool.close();
        let lanes = self.lanes.get().into_iter().flat_map(|lanes| lanes.iter());
        common + lanes.map(|lane| lane.0.close()).sum::<u64>()
    }

    /// Fills the pools with units, after [`close`](FastEntry::close). The caller holds the lock.
    pub(crate) fn fill(&self, lent: Lent) {
        let part = if lent.units < MANY { 0 } else { lent.units / (LANES as u64 + 1) };
        if part > 0 {
            for UnitLane(pool) in self.lanes.get_or_init(Box::default).iter() {
                pool.fill(Lent { units: part, ..lent });
            }
        }
        // The common pool is filled last: see `remaining`.
        let units = lent.units - LANES as u64 * part;
        self.pool.fill(Lent { units, ..lent });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::leased::holding::Beyond;

    fn lent(units: u64) -> Lent {
        let beyond = Beyond { remaining: 100, reset_ns: 0 };
        Lent { units, until_ns: 10, stamp: 3, era: 0, beyond }
    }

    /// `Settings::keys` and docs/scale.md name these sizes.
    #[test]
    fn lanes_take_1024_bytes_from_576_units_on() {
        assert_eq!(size_of::<[UnitLane; LANES]>(), 1_024);
        let has_lanes = |units| {
            let entry = FastEntry::new(b"key");
            entry.fill(lent(units));
            entry.lanes.get().is_some()
        };
        assert_eq!([has_lanes(575), has_lanes(576)], [false, true]);
    }

    #[test]
    fn few_units_are_in_one_pool_and_many_in_one_of_each_lane() {
        let entry = FastEntry::new(b"key");
        entry.fill(lent(MANY - 1));
        assert!(entry.lanes.get().is_none());
        assert_eq!(entry.close(), MANY - 1);
        entry.fill(lent(MANY + 5));
        let spent = entry.spend(1, 0, 0).map(|spend| (spend.spent.left, spend.remaining));
        assert_eq!(
            spent,
            Some((63, MANY + 4 + 100)),
            "of this thread's lane, and all that is left"
        );
        // A thread takes 63 more from its lane's pool and all 69 from the common pool.
        assert_eq!((0..1_000).filter(|_| entry.spend(1, 0, 0).is_some()).count(), 63 + 69);
        assert_eq!(entry.close(), 7 * 64);
        assert_eq!(entry.spend(1, 0, 0), None);
        // When the lease is small again, the lanes' pools stay empty, and all threads take from the common pool.
        entry.fill(lent(10));
        assert_eq!((0..1_000).filter(|_| entry.spend(1, 0, 0).is_some()).count(), 10);
        assert_eq!(entry.close(), 0);
    }

    /// If another thread closes the pools and fills them again during the sum, the sum could count units twice.
    #[test]
    fn of_a_filling_that_has_ended_a_spender_is_told_what_its_pool_had() {
        let entry = FastEntry::new(b"key");
        entry.fill(lent(10));
        let filling = || entry.pool.look().map(|content| content.filling);
        let before = filling();
        let spent = entry.pool.spend(1, 0, 0).unwrap();
        assert_eq!((spent.left, entry.remaining(&spent, before)), (9, 9 + 100));
        let left = entry.close();
        assert_eq!(entry.remaining(&spent, before), 9);
        entry.fill(lent(left + 20));
        assert_eq!(entry.remaining(&spent, before), 9);
        assert_eq!(entry.remaining(&spent, filling()), 29 + 100);
    }

    /// Threads spend while another thread keeps closing and filling the pools: all pools or, if `forgetful`, only the
    /// common pool. Returns three numbers of units: filled in at first, left at the end, and spent.
    fn spend_on_threads(forgetful: bool) -> (u64, u64, u64) {
        const UNITS: u64 = 300_000;
        let (entry, stop, spent) =
            (FastEntry::new(b"key"), AtomicBool::new(false), AtomicU64::new(0));
        let left = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        spent.fetch_add(
                            u64::from(entry.spend(1, 0, 0).is_some()),
                            Ordering::Relaxed,
                        );
                    }
                });
            }
            let mut held = UNITS;
            while held > UNITS / 2 {
                entry.fill(lent(held));
                for _ in 0..200 {
                    std::hint::spin_loop();
                }
                held = if forgetful { entry.pool.close() } else { entry.close() };
            }
            stop.store(true, Ordering::Relaxed);
            *left.lock().unwrap() = held;
        });
        (UNITS, left.into_inner().unwrap(), spent.into_inner())
    }

    #[test]
    fn every_unit_is_spent_once_whichever_pool_it_is_in() {
        let (units, left, spent) = spend_on_threads(false);
        assert_eq!(left + spent, units);
    }

    #[test]
    fn lanes_that_are_not_closed_are_caught() {
        let (units, left, spent) = spend_on_threads(true);
        assert_ne!(left + spent, units);
    }
}
