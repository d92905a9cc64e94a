//! The time slots of a sliding log, and how one slot is read.
//!
//! A slot is one atomic word. It holds the instant from which it is free again, in nanoseconds: the time of the unit
//! for which it was last taken, plus a window. A slot that was never taken holds 0. The topmost bit of a slot is a
//! *mark*: a request of several units has taken the slot, but may not get all of its other slots. The bits under the
//! mark are still the old time, so the request can restore the old time without storing it elsewhere.
//!
//! The changes of a slot:
//!
//! | from | to | by |
//! |---|---|---|
//! | a time, free for the caller | the caller's now and a window | compare-and-swap: a unit is admitted |
//! | a time, free for the caller | the same time, marked | compare-and-swap: one of several units |
//! | marked | now and a window, or the old time | a store, by the thread that marked it: no other may |
//! | an instant and a window | that instant | compare-and-swap: the unit taken for it is given back |
//! | a time after now | now | compare-and-swap: a reset, or an uncharge |
//! | a time | a later one: now and a window | compare-and-swap: a denied unit is recorded |
//! | a time | the same, *closed* | compare-and-swap: a limit that may change is lowered (`changing.rs`) |
//! | closed | the time under it | compare-and-swap: such a limit is raised |
//! | closed, a time after now | closed, now | compare-and-swap: a reset, or an uncharge |
//!
//! In the table, "now" is a later time for two kinds of request. A reservation uses its *turn*: the instant at which
//! all of its slots are free. A charge into debt uses for each slot the instant at which that slot is free.
//!
//! # The bound
//! A slot is taken only for an instant not before the slot's time, and then holds that instant plus a window. So the
//! instants for which one slot was taken rise, and each is at least a window after the instant before it. This is true
//! no matter in which order the callers' times come. A half-open window of length W contains at most one of the
//! instants of each slot, so L slots admit at most L units in it. A closed window may contain two instants of each
//! slot, one at each end, and so 2L units.
//!
//! A slot that is given back holds the instant for which it was taken. Before it was taken, the slot had a time that
//! was no later. (That time is not stored any more.) So the slot is free no earlier than before it was taken, and stays
//! a window away from the other instants for which it was taken. (The slot must not be set to 0: a late caller could
//! then take it for an instant too close to an earlier one.) A reset and an uncharge forget units, so the bound does
//! not cover these units.
//!
//! Recording a denied unit only raises the time of a slot. The slot with the earliest time is chosen, so that the
//! newest units are kept. So the unit that had this slot counts for longer than before, never for less time. If this
//! unit is given back later, either another slot with the same instant is given back in its place, or no slot is.
//!
//! # Orderings
//! Slots are loaded `Acquire` and written with `Release` or `AcqRel`. For the log of a `Limiter`, `Relaxed` would be
//! enough, since its slots publish no other memory. The log of a key needs both orderings: if a thread reads a slot
//! that a later owner has written, it also sees that the entry belongs to another key now (`src/keyed/log`).

use crate::clock::LATEST_NS;
use crate::sync::{AtomicU64, Fault, Ordering, planted};

/// The bit that is set in a slot while a request of several units holds the slot, and in a closed slot.
const MARK: u64 = 1 << 63;

/// The bit that is set together with the mark in a closed slot. This bit is above all times of slots that a request can
/// mark.
const CLOSED: u64 = 1 << 62;

/// The latest instant that a slot can contain. All times of clocks are earlier (see `LATEST_NS`), so a slot that should
/// become free even later never becomes free.
const LATEST_FREE_NS: u64 = MARK - 1;

/// The latest instant for which a slot can be reserved.
pub(super) const LATEST_TURN_NS: u64 = CLOSED - 2;

const _: () =
    assert!(LATEST_NS < LATEST_TURN_NS, "a request may come at any time that a clock tells");

/// The instant `wait_ns` after now, but at most one nanosecond before the latest instant of a slot, since a slot that
/// is taken for this instant holds a later instant.
pub(crate) fn within(now_ns: u64, wait_ns: u64) -> u64 {
    now_ns.saturating_add(wait_ns).min(LATEST_FREE_NS - 1)
}

/// The largest number of slots in a row. A request keeps its marks in a row as one bit for each slot, which takes 128
/// bytes of stack.
pub(crate) const ROW_MOST: usize = 1024;

/// The instant from which a slot is free again if it is taken now.
#[inline]
pub(crate) fn free_at(now_ns: u64, window_ns: u64) -> u64 {
    now_ns.saturating_add(window_ns).min(LATEST_FREE_NS)
}

/// True if a slot can be taken at an instant. A marked word is larger than every instant.
#[inline]
pub(crate) fn is_free(word: u64, at_ns: u64) -> bool {
    let word = if planted(Fault::MarkedSlotTaken) { time(word) } else { word };
    // A slot is free at its own instant, since a unit whose age is a whole window does not count any more.
    word <= at_ns
}

/// The time of a slot, or the time under its mark. The slot holds an earlier time again only if its unit is given back
/// or forgotten.
#[inline]
pub(crate) fn time(word: u64) -> u64 {
    if is_closed(word) { word & !(MARK | CLOSED) } else { word & !MARK }
}

/// True if a slot is marked. Its next time is not known yet.
#[inline]
pub(crate) fn is_marked(word: u64) -> bool {
    word & MARK != 0
}

/// The same slot, marked.
#[inline]
pub(crate) fn marked(word: u64) -> u64 {
    word | MARK
}

/// The word of the same slot after it is closed. A time above all turns may be lowered, but stays above all turns.
pub(super) fn closed(word: u64) -> u64 {
    word.min(CLOSED - 1) | MARK | CLOSED
}

pub(super) fn is_closed(word: u64) -> bool {
    // The word of a slot that a request has marked is smaller: a request marks only slots that are free at its turn, so
    // the second bit of their times is 0.
    word >= MARK | CLOSED
}

/// Reads a slot.
#[inline]
pub(crate) fn load(slot: &AtomicU64) -> u64 {
    // Acquire: pairs with the Release of every write to a slot. See the top of this file.
    slot.load(Ordering::Acquire)
}

/// Replaces the exact word that was read, or returns the present word.
#[inline]
pub(crate) fn replace(slot: &AtomicU64, word: u64, next: u64) -> Result<u64, u64> {
    // AcqRel, and Acquire on failure, since the caller uses the word that was found: see the top of this file.
    slot.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire)
}

/// Ends a mark. Only the thread that made the mark may call this, since no other thread writes to a marked slot.
#[inline]
pub(crate) fn settle(slot: &AtomicU64, time_ns: u64) {
    // Release: pairs with the Acquire of `load`.
    slot.store(time_ns, Ordering::Release);
}

/// Raises a bound. It writes only if the bound is lower.
#[inline]
pub(crate) fn raise(bound: &AtomicU64, to_ns: u64) {
    // Relaxed: a bound orders no other memory. With an old lower bound, a search only skips fewer rows. With an old
    // upper bound, a reader counts the slots as they were before. A caller that needs an ordering adds a fence
    // (`src/keyed/log`).
    if bound.load(Ordering::Relaxed) < to_ns {
        bound.fetch_max(to_ns, Ordering::Relaxed);
    }
}

/// An upper bound of the number of units that wait for a turn after now. Each slot contributes the number of windows
/// between now and its last turn.
pub(crate) fn queued(slots: &impl Slots, now_ns: u64, window_ns: u64) -> u64 {
    // A slot that was taken for now or an earlier instant is free at most a window from now.
    let idle_ns = now_ns.saturating_add(window_ns);
    let in_row = |row: usize| {
        let waiting = |slot| time(load(slot)).saturating_sub(idle_ns).div_ceil(window_ns);
        slots.row(row).iter().map(waiting).fold(0, u64::saturating_add)
    };
    (0..slots.rows()).map(in_row).fold(0, u64::saturating_add)
}

/// Slots in rows, with bounds for the times in each row, so that not every row has to be read. The slots always have
/// the same owner, unless an implementation says otherwise.
pub(crate) trait Slots {
    /// The number of rows, at least one.
    fn rows(&self) -> usize;

    /// The slots of one row: from 1 to [`ROW_MOST`].
    fn row(&self, row: usize) -> &[AtomicU64];

    /// The number of slots in the row.
    fn row_len(&self, row: usize) -> usize {
        self.row(row).len()
    }

    /// The lower bound of a row: no slot of the row is free before this instant. When a slot is given back, the bound
    /// is [lowered](Slots::lower_low).
    fn low_ns(&self, row: usize) -> u64;

    /// The upper bound: all slots of the row are free from this instant on, as far as this reader knows.
    fn high_ns(&self, row: usize) -> u64;

    /// Raises the lower bound: no slot of the row is free before this instant.
    fn raise_low(&self, row: usize, to_ns: u64);

    /// Lowers the lower bound, after a slot was given back that is free from this instant on. A thread that read the
    /// slot before may raise the bound again afterwards. Then the free slot is found only from the earliest time that
    /// this thread has read in the row, which is up to a window late. After a reset, this may be as late as the last
    /// turn for which a slot of the row had been taken, unless there is another reset. So fewer units may be admitted,
    /// and never more.
    fn lower_low(&self, row: usize, to_ns: u64);

    /// Raises the upper bound. This is done before a slot is written that will be free only from this instant on.
    fn raise_high(&self, row: usize, to_ns: u64);

    /// The row, and the index in this row, at which a search for a free slot begins. The slot there is probably free.
    fn start(&self, now_ns: u64) -> (usize, usize);

    /// If slots are taken in their order, this is the row of the slot that is taken next.
    fn oldest(&self) -> usize;

    /// Records that the slots up to this slot are taken. This is only a hint for searches.
    fn taken(&self, row: usize, index: usize);

    /// A guess at the instant from which `units` slots are free, if slots are taken in their order.
    fn guess_ns(&self, units: u64) -> Option<u64>;

    /// The instant at which the log begins. No slot is free before this instant, even if the slot's time is earlier.
    fn base_ns(&self) -> u64 {
        0
    }

    /// True if the slots still belong to the caller's key, so that its writes to them count.
    fn confirm(&self) -> bool {
        true
    }

    /// True if the slots still belong to the caller's key, so that its readings of them count.
    fn is_same(&self) -> bool {
        true
    }
}
