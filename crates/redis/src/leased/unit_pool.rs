//! [`UnitPool`]: units of a lease that threads spend without a lock.
//!
//! A thread that holds the lock of a key's [`Holding`](crate::leased::holding::Holding) *fills* the pool with units of
//! the holding's first lease. Before anything else is done with that lease, the pool is *closed*, and the rest of the
//! units is taken back. In between, a decision is one compare-and-swap on one word, which contains a *generation* and
//! the units. The generation is even while the pool is closed and odd while it is filled, and every filling has another
//! generation.
//!
//! The end of the lease, its stamp and its policy are in separate words. These words are written only while the pool is
//! closed, and each filling has a new generation. So the compare-and-swap fails if one of the words that the thread has
//! read belongs to another filling. A thread that gets units has therefore read the words of the filling from which it
//! takes them. (The compare-and-swap could succeed wrongly only if the thread slept through 2^31 fillings after its
//! load.)

use std::sync::atomic::{AtomicU64, Ordering};

use crate::leased::terms::Lent;

/// The number of bits of the word that contain the units.
const UNIT_BITS: u32 = 32;
/// The maximum number of units in a pool.
pub(crate) const MAX_UNITS: u64 = (1 << UNIT_BITS) - 1;

#[derive(Debug, Default)]
pub(crate) struct UnitPool {
    /// The generation in the upper bits, and the units in the lower bits.
    word: AtomicU64,
    until_ns: AtomicU64,
    stamp: AtomicU64,
    era: AtomicU64,
    /// The units of the limit that are in no pool, for the answers. Whoever reads this number must then check that the
    /// generation has not changed.
    remaining: AtomicU64,
    reset_ns: AtomicU64,
}

/// The units that a decision took, and the figures for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpentUnits {
    /// The units that were left in this pool afterwards.
    pub(crate) left: u64,
    pub(crate) stamp: u64,
    /// The units of the limit that are in no pool.
    pub(crate) beyond_remaining: u64,
    pub(crate) reset_ns: u64,
}

/// One filling of a pool, from `fill` until the pool is closed, identified by its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filling(u64);

/// What a pool held at one moment: which filling it was in, and how many units were left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolContent {
    pub(crate) filling: Filling,
    pub(crate) units: u64,
}

impl UnitPool {
    /// Takes units, if the pool has enough, belongs to this policy, and its lease has not ended.
    pub(crate) fn spend(&self, cost: u64, now_ns: u64, era: u64) -> Option<SpentUnits> {
        // Acquire: the words that are read below belong to this filling or a later one (Release in `fill`).
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let left = (word & MAX_UNITS).checked_sub(cost)?;
            // Acquire: if one of these words belongs to a later filling (Release in `fill`), this thread also sees that
            // the pool was closed before that filling. So `self.word` has changed, and the compare-and-swap fails.
            let until_ns = self.until_ns.load(Ordering::Acquire);
            let stamp = self.stamp.load(Ordering::Acquire);
            let of = self.era.load(Ordering::Acquire);
            if now_ns >= until_ns || of != era {
                return None;
            }
            // Relaxed on success: a thread that takes units back reads this word itself, and no other memory of this
            // thread. Acquire on failure: as in the load above.
            let swap = self.word.compare_exchange_weak(
                word,
                word - cost,
                Ordering::Relaxed,
                Ordering::Acquire,
            );
            match swap {
                Ok(_) => {
                    // Relaxed: this is only a figure for the answer. `FastEntry::remaining` finds out whether it
                    // belongs to this filling.
                    let beyond_remaining = self.remaining.load(Ordering::Relaxed);
                    let reset_ns = self.reset_ns.load(Ordering::Relaxed);
                    return Some(SpentUnits { left, stamp, beyond_remaining, reset_ns });
                }
                Err(found) => word = found,
            }
        }
    }

    /// The present filling, and the units that are left in it; `None` while the pool is closed.
    pub(crate) fn look(&self) -> Option<PoolContent> {
        // Acquire: words that are read afterwards belong to this filling or a later one (Release in `fill`).
        let word = self.word.load(Ordering::Acquire);
        let generation = word >> UNIT_BITS;
        let content = PoolContent { filling: Filling(generation), units: word & MAX_UNITS };
        (generation % 2 == 1).then_some(content)
    }

    /// Takes back the units that are left. Until the next `fill` no thread can spend a unit. The caller holds the lock.
    pub(crate) fn close(&self) -> u64 {
        // Relaxed: the generation changes only under the lock.
        let generation = self.word.load(Ordering::Relaxed) >> UNIT_BITS;
        // The generation becomes the next even number, even if the pool was closed already.
        let next = (generation | 1).wrapping_add(1) << UNIT_BITS;
        // Release: a thread that finds this pool closed (Acquire in `look`) also finds the pools closed that were
        // closed before it. Acquire: the swaps of pools that are closed later do not come before this swap (see
        // `FastEntry::remaining`).
        self.word.swap(next, Ordering::AcqRel) & MAX_UNITS
    }

    /// Fills the pool with units, [`MAX_UNITS`] at most. The pool must be closed, and the caller holds the lock.
    pub(crate) fn fill(&self, lent: Lent) {
        // Release: see `spend`.
        self.until_ns.store(lent.until_ns, Ordering::Release);
        self.stamp.store(lent.stamp, Ordering::Release);
        self.era.store(lent.era, Ordering::Release);
        // Release: a thread that reads one of these numbers, and then executes an Acquire fence, finds that the
        // generation has changed (see `FastEntry::remaining`).
        self.remaining.store(lent.beyond.remaining, Ordering::Release);
        self.reset_ns.store(lent.beyond.reset_ns, Ordering::Release);
        // Relaxed: as in `close`. Release: a thread that loads this word with Acquire (in `spend` and `look`) sees the
        // words that this filling wrote above.
        let generation = ((self.word.load(Ordering::Relaxed) >> UNIT_BITS) | 1) << UNIT_BITS;
        self.word.store(generation | lent.units.min(MAX_UNITS), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::leased::holding::Beyond;

    fn lent(units: u64, until_ns: u64) -> Lent {
        let beyond = Beyond { remaining: 7, reset_ns: 9 };
        Lent { units, until_ns, stamp: until_ns * 10, era: 3, beyond }
    }

    #[test]
    fn what_is_put_in_is_spent_or_taken_back() {
        let pool = UnitPool::default();
        assert_eq!(pool.spend(1, 0, 3), None);
        pool.close();
        pool.fill(lent(10, 5));
        let spent = SpentUnits { left: 6, stamp: 50, beyond_remaining: 7, reset_ns: 9 };
        assert_eq!(pool.spend(4, 4, 3), Some(spent));
        assert_eq!(pool.spend(7, 4, 3), None);
        assert_eq!(pool.spend(1, 4, 2), None, "of another policy");
        assert_eq!(pool.spend(1, 5, 3), None);
        assert_eq!(pool.close(), 6);
        assert_eq!(pool.spend(1, 4, 3), None);
        assert_eq!(pool.close(), 0);
    }

    #[test]
    fn each_filling_is_of_another_generation_and_a_closed_pool_of_none() {
        let pool = UnitPool::default();
        let mut generations = Vec::new();
        for units in [0, 5, 0, 9] {
            pool.fill(lent(units, 1));
            let content = pool.look().expect("it is filled");
            assert_eq!(content.units, units);
            generations.push(content.filling.0);
            pool.close();
            assert_eq!(pool.look(), None);
        }
        assert_eq!(generations, [1, 3, 5, 7]);
    }

    #[test]
    fn generations_begin_anew_without_touching_units() {
        let pool = UnitPool { word: AtomicU64::new(u64::MAX), ..UnitPool::default() };
        assert_eq!(pool.close(), MAX_UNITS);
        pool.fill(lent(u64::MAX, 1));
        assert_eq!(pool.close(), MAX_UNITS);
    }

    /// Threads spend while another thread keeps filling and closing the pool. Checks that no unit is spent twice, none
    /// is lost, and none has the stamp of another filling. With `fill_early` the pool is filled without being closed.
    fn spend_on_threads(fill_early: bool) -> Result<(), String> {
        let (pool, stop) = (UnitPool::default(), AtomicBool::new(false));
        // For each stamp: the units filled in minus the units taken back, and the units spent.
        let books = Mutex::new(vec![[0_u64; 2]; 3_000]);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut own = vec![0_u64; 3_000];
                    while !stop.load(Ordering::Relaxed) {
                        if let Some(spent) = pool.spend(1, 0, 3) {
                            own[usize::try_from(spent.stamp / 10).unwrap()] += 1;
                        }
                    }
                    let mut books = books.lock().unwrap();
                    own.iter().zip(books.iter_mut()).for_each(|(own, book)| book[1] += own);
                });
            }
            let mut put_in = vec![0_u64; 3_000];
            for n in 1..2_999_u64 {
                pool.fill(lent(500, n));
                put_in[usize::try_from(n).unwrap()] += 500;
                for _ in 0..200 {
                    std::hint::spin_loop();
                }
                if !fill_early || n == 2_998 {
                    put_in[usize::try_from(n).unwrap()] -= pool.close();
                }
            }
            stop.store(true, Ordering::Relaxed);
            let mut books = books.lock().unwrap();
            put_in.iter().zip(books.iter_mut()).for_each(|(put_in, book)| book[0] += put_in);
        });
        let books = books.into_inner().unwrap();
        let wrong = books.iter().enumerate().find(|(_, [put_in, spent])| put_in != spent);
        wrong.map_or(Ok(()), |(n, book)| Err(format!("filling {n}: {book:?}")))
    }

    #[test]
    fn every_unit_is_spent_once_and_with_the_stamp_of_its_filling() {
        assert_eq!(spend_on_threads(false), Ok(()));
    }

    #[test]
    fn a_pool_that_is_filled_before_it_is_closed_is_caught() {
        assert!(spend_on_threads(true).is_err());
    }
}
