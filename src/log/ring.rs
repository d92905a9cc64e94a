//! [`Ring`]: the slots of one log, with bounds that keep searches short.
//!
//! The slots are a ring. The next search begins at a cursor, which is one past the last taken slot. While the callers'
//! times rise, the slot at the cursor is the first slot to become free. If this slot is free, each thread that reads it
//! advances the cursor and gets a different slot, so the threads do not compete for one slot. The cursor is only a
//! hint: a search that finds no free slot has read every slot, no matter where it began.
//!
//! A search can skip rows. In a log of n slots a row has about the square root of n slots, but at least 64 and at most
//! 1,024. Each row has two bounds: a lower bound and an upper bound of the times in the row. A thread that has read the
//! whole row raises the lower bound. A thread that is about to take a slot of the row raises the upper bound. So if the
//! log is empty or full, or if times rise, a decision reads only the bounds and one or two rows. In the worst case,
//! when the callers' times jump back and forth, all slots are read.
//!
//! A denial and a peek take no slot, but they may write such a bound, so that other requests need not read the row
//! again.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Fault, Ordering, planted, scale};

use super::slots::{ROW_MOST, Slots, is_free, load, raise, time};

/// In a small log a row has 64 slots, which are 8 lines of 64 bytes.
const ROW_BITS_LEAST: u32 = 6;
const ROW_BITS_MOST: u32 = ROW_MOST.trailing_zeros();

#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[AtomicU64]>,
    /// The bounds of each row. Empty if there is only one row, which can be read as quickly as its bounds.
    bounds: Box<[Bounds]>,
    row_bits: u32,
    cursor: CachePadded<AtomicU64>,
}

#[derive(Debug)]
struct Bounds {
    low_ns: AtomicU64,
    high_ns: AtomicU64,
}

impl Ring {
    /// A ring of `count` new slots, at least one.
    pub(crate) fn new(count: usize) -> Self {
        Self::holding(0, (0..count).map(|_| AtomicU64::new(0)).collect())
    }

    /// A ring of the given slots, at least one, with the cursor at the slot of this number.
    pub(crate) fn holding(cursor: u64, slots: Box<[AtomicU64]>) -> Self {
        let count = slots.len();
        // The number of slots in a row is about the square root of the number of all slots, so that the number of rows
        // is about the number of slots in a row.
        let enough = |&bits: &u32| (1 << (2 * bits)) >= count;
        let row_bits = (ROW_BITS_LEAST..ROW_BITS_MOST).find(enough).unwrap_or(ROW_BITS_MOST);
        let row_bits = scale::row_bits(row_bits);
        let rows = count.div_ceil(1 << row_bits);
        let bounds = if rows > 1 { rows } else { 0 };
        let (unused, cursor) = (|| AtomicU64::new(0), CachePadded::new(AtomicU64::new(cursor)));
        let unread = || Bounds { low_ns: unused(), high_ns: unused() };
        // The lower bounds begin at 0, which is right for any row. The first search of a row raises its lower bound.
        let ring =
            Self { slots, bounds: (0..bounds).map(|_| unread()).collect(), row_bits, cursor };
        // The upper bound of a row is the latest time of its slots.
        for row in 0..bounds {
            ring.raise_high(row, ring.row(row).iter().map(load).max().unwrap_or(0));
        }
        ring
    }

    /// The index of the slot at the cursor, and all slots.
    pub(crate) fn saved(&self) -> (u64, &[AtomicU64]) {
        // Relaxed: as in `start`.
        (self.slot_at(self.cursor.load(Ordering::Relaxed)) as u64, &self.slots)
    }

    fn split(&self, slot: usize) -> (usize, usize) {
        (slot >> self.row_bits, slot & ((1 << self.row_bits) - 1))
    }

    /// The index of the slot for a value of the cursor, which counts beyond the end of the ring.
    #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
    fn slot_at(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }
}

impl Slots for Ring {
    fn rows(&self) -> usize {
        self.bounds.len().max(1)
    }

    fn row(&self, row: usize) -> &[AtomicU64] {
        let first = row << self.row_bits;
        let last = (first + (1 << self.row_bits)).min(self.slots.len());
        &self.slots[first..last]
    }

    fn low_ns(&self, row: usize) -> u64 {
        // Relaxed: see `raise`.
        self.bounds.get(row).map_or(0, |bounds| bounds.low_ns.load(Ordering::Relaxed))
    }

    fn high_ns(&self, row: usize) -> u64 {
        // Relaxed: see `raise`.
        self.bounds.get(row).map_or(u64::MAX, |bounds| bounds.high_ns.load(Ordering::Relaxed))
    }

    fn raise_low(&self, row: usize, to_ns: u64) {
        if let Some(bounds) = self.bounds.get(row) {
            let to_ns = if planted(Fault::RowPassedOver) { to_ns + 1 } else { to_ns };
            raise(&bounds.low_ns, to_ns);
        }
    }

    fn lower_low(&self, row: usize, to_ns: u64) {
        if let Some(bounds) = self.bounds.get(row) {
            // Relaxed: see `raise`.
            bounds.low_ns.fetch_min(to_ns, Ordering::Relaxed);
        }
    }

    fn raise_high(&self, row: usize, to_ns: u64) {
        if let Some(bounds) = self.bounds.get(row) {
            raise(&bounds.high_ns, to_ns);
        }
    }

    fn start(&self, now_ns: u64) -> (usize, usize) {
        // Relaxed, here and below: the cursor is a hint and orders no other memory.
        let mut slot = self.slot_at(self.cursor.load(Ordering::Relaxed));
        // If the slot is free, the thread advances the cursor, so that each thread tries another slot. If it is not
        // free, the cursor stays.
        if is_free(load(&self.slots[slot]), now_ns) {
            slot = self.slot_at(self.cursor.fetch_add(1, Ordering::Relaxed));
        }
        self.split(slot)
    }

    fn taken(&self, row: usize, index: usize) {
        // Relaxed, here and below: the cursor is a hint and orders no other memory.
        let number = self.cursor.load(Ordering::Relaxed);
        let (here, count) = (self.slot_at(number), self.slots.len());
        // The cursor should point to the slot after the slot that was taken. `ahead` is the distance from the cursor to
        // that slot, forward around the ring.
        let next = (row << self.row_bits) + index + 1;
        let ahead = if next >= here { next - here } else { next + count - here };
        // The cursor moves only if the search went beyond the slot at which it began. Otherwise `ahead` is 0, because
        // the cursor is already there, or almost a whole round, because other threads have moved the cursor further.
        if ahead > 0 && ahead <= count / 2 + 1 {
            // Relaxed: as above. If another thread has advanced the cursor meanwhile, this store undoes that step,
            // which only makes a later search longer.
            self.cursor.store(number.wrapping_add(ahead as u64), Ordering::Relaxed);
        }
    }

    fn oldest(&self) -> usize {
        // Relaxed: as in `start`.
        self.split(self.slot_at(self.cursor.load(Ordering::Relaxed))).0
    }

    fn guess_ns(&self, units: u64) -> Option<u64> {
        // Relaxed: as in `start`.
        let oldest = self.cursor.load(Ordering::Relaxed);
        // While times rise, slots become free in the order of the cursor.
        let nth = oldest.wrapping_add(units.saturating_sub(1));
        Some(time(load(&self.slots[self.slot_at(nth)])))
    }
}
