//! [`Ring`]: the slots of one log, and the bounds that keep a search among them short.
//!
//! The slots are a ring. The next search begins at a cursor, one past the slot that was taken last. While
//! the callers' times rise, the slot at the cursor is the one that is free first. Threads that find it free
//! each draw a number from the cursor, so they do not fight for one slot. The cursor is a hint: wherever it
//! stands, a search that finds nothing has looked at every slot.
//!
//! A search can leave out rows. In a log of n slots a row has about the square root of n, and two bounds: one below and
//! one above all of its times. A thread that has read the whole row raises the lower bound. A thread that is about to
//! take a slot in it raises the upper one. So an empty log, a full one, and one whose times rise are decided by the
//! bounds and a row or two. At worst, when callers' times leap to and fro, all slots are read.
//!
//! A denial and a peek take no slot, but they may write such a bound, so that no other request has to read the row
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
    /// Empty if there is one row, which is read as quickly as its bounds would be.
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
    /// A ring of `count` slots, at least one, none of which was ever taken.
    pub(crate) fn new(count: usize) -> Self {
        Self::holding(0, (0..count).map(|_| AtomicU64::new(0)).collect())
    }

    /// A ring of these slots, at least one, with the cursor at one of them.
    pub(crate) fn holding(cursor: u64, slots: Box<[AtomicU64]>) -> Self {
        let count = slots.len();
        // A row has about the square root of the number of slots, so there are as many rows as a row has slots.
        let enough = |&bits: &u32| (1 << (2 * bits)) >= count;
        let row_bits = (ROW_BITS_LEAST..ROW_BITS_MOST).find(enough).unwrap_or(ROW_BITS_MOST);
        let row_bits = scale::row_bits(row_bits);
        let rows = count.div_ceil(1 << row_bits);
        let bounds = if rows > 1 { rows } else { 0 };
        let (unused, cursor) = (|| AtomicU64::new(0), CachePadded::new(AtomicU64::new(cursor)));
        let unread = || Bounds { low_ns: unused(), high_ns: unused() };
        // Lower bounds begin at 0, which is true of any row; the first search of a row raises it.
        let ring =
            Self { slots, bounds: (0..bounds).map(|_| unread()).collect(), row_bits, cursor };
        // Until a row is read, only the instant is known at which all of it is free.
        for row in 0..bounds {
            ring.raise_high(row, ring.row(row).iter().map(load).max().unwrap_or(0));
        }
        ring
    }

    /// The slot at which the cursor stands, and all slots.
    pub(crate) fn saved(&self) -> (u64, &[AtomicU64]) {
        // Relaxed: as in `start`.
        (self.slot_at(self.cursor.load(Ordering::Relaxed)) as u64, &self.slots)
    }

    fn split(&self, slot: usize) -> (usize, usize) {
        (slot >> self.row_bits, slot & ((1 << self.row_bits) - 1))
    }

    /// The slot that a number of the cursor stands for.
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
        // Relaxed, here and below: a hint orders nothing.
        let mut slot = self.slot_at(self.cursor.load(Ordering::Relaxed));
        // The slot is probably free, so a thread draws a number, which keeps threads apart. If it is not free, the
        // cursor stays.
        if is_free(load(&self.slots[slot]), now_ns) {
            slot = self.slot_at(self.cursor.fetch_add(1, Ordering::Relaxed));
        }
        self.split(slot)
    }

    fn taken(&self, row: usize, index: usize) {
        // Relaxed, here and below: a hint orders nothing.
        let number = self.cursor.load(Ordering::Relaxed);
        let (here, count) = (self.slot_at(number), self.slots.len());
        // The cursor moves to one past the slot that was taken, forward around the ring.
        let next = (row << self.row_bits) + index + 1;
        let ahead = if next >= here { next - here } else { next + count - here };
        // It moves only if the search had to go on from the slot that it began at. Otherwise the cursor is there
        // already, or other threads have moved it on, which looks like almost a whole round.
        if ahead > 0 && ahead <= count / 2 + 1 {
            // Relaxed: as above. A number that another thread drew meanwhile is lost, which costs a search.
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
        // While times rise, slots are free in the order of the cursor.
        let nth = oldest.wrapping_add(units.saturating_sub(1));
        Some(time(load(&self.slots[self.slot_at(nth)])))
    }
}
