//! The time slots of a sliding log, and how one slot is read.
//!
//! A slot is one atomic word. It holds the instant from which it is free again, in nanoseconds: the time
//! of the unit for which it was last taken, plus a window. A slot that was never taken holds 0. Its topmost
//! bit is a *mark*: a request of several units has taken the slot and does not know yet whether it gets
//! the others. Under the mark stands the old time, so that nothing has to be remembered to put it back.
//!
//! The changes of a slot:
//!
//! | from | to | by |
//! |---|---|---|
//! | a time, free for the caller | the caller's now and a window | compare-and-swap: a unit is admitted |
//! | a time, free for the caller | the same time, marked | compare-and-swap: one of several units |
//! | marked | now and a window, or the old time | a store, by the thread that marked it: no other may |
//! | an instant and a window | that instant | compare-and-swap: the unit taken for it is given back |
//! | a time after now | now | compare-and-swap: a reset |
//! | a time | a later one: now and a window | compare-and-swap: a denied unit is recorded |
//! | a time | the same, *closed* | compare-and-swap: a limit that may change is lowered (`changing.rs`) |
//! | closed | the time under it | compare-and-swap: such a limit is raised |
//!
//! A reservation decides at a later time: its *turn*, the instant at which its slots are free. A charge into
//! debt takes each slot for the instant at which it is free.
//!
//! # The bound
//! A slot is taken only for an instant not before the slot's time, and then holds that instant plus a window. So the
//! instants for which one slot was taken rise, and each lies a window or more after the one before, whatever the
//! callers' times are, and in whatever order they come. A half-open window of length W holds at most one of them. So L
//! slots admit at most L units in it. A closed window may hold two, one at each end, and so 2L units.
//!
//! A slot that is given back holds the instant for which it was taken. Its value before that, which is written nowhere,
//! was no later. So it is free no earlier than before it was taken, and the other instants for which it was taken stay
//! a window away. (It may not be set to 0: a late caller could then take it for an instant next to the unit before.) A
//! reset forgives, and the bound begins anew.
//!
//! A denied unit that is recorded only raises a slot. It is the slot with the earliest time, so that the newest of all
//! units are kept. The unit whose slot it takes then counts for longer, and never for less. If that unit is given back
//! later, another slot of the very same instant is given back in its place, or none.
//!
//! # Orderings
//! Slots are loaded `Acquire` and written with `Release` or both. A log that one limit owns would do with
//! `Relaxed`: its slots publish nothing but themselves. The keyed form needs the pair: a thread that reads what a
//! later owner wrote into a slot also sees that the entry is another key's by now (`src/keyed/log`).

use crate::clock::LATEST_NS;
use crate::sync::{AtomicU64, Fault, Ordering, planted};

/// This bit is set in a slot that a request of several units has taken so far.
const MARK: u64 = 1 << 63;

/// This bit is set beside the mark in a slot that is not in use. No request marks a slot of so late a time.
const CLOSED: u64 = 1 << 62;

/// The latest instant that a slot can hold. No clock's time comes so late (see `LATEST_NS`). So a slot that would be
/// free even later is never free, as it should be.
const LATEST_FREE_NS: u64 = MARK - 1;

/// The latest instant that a slot is reserved for.
pub(super) const LATEST_TURN_NS: u64 = CLOSED - 2;

const _: () =
    assert!(LATEST_NS < LATEST_TURN_NS, "a request may come at any time that a clock tells");

/// The instant `wait_ns` after now, but before the latest instant that a slot can hold, since a slot that is taken for
/// it holds a later instant.
pub(crate) fn within(now_ns: u64, wait_ns: u64) -> u64 {
    now_ns.saturating_add(wait_ns).min(LATEST_FREE_NS - 1)
}

/// The most slots in a row. A request remembers its marks in a row as a bit for each slot, on the stack: 128 bytes.
pub(crate) const ROW_MOST: usize = 1024;

/// The instant from which a slot is free that is taken now.
#[inline]
pub(crate) fn free_at(now_ns: u64, window_ns: u64) -> u64 {
    now_ns.saturating_add(window_ns).min(LATEST_FREE_NS)
}

/// True if a slot can be taken at an instant. A marked word is above every instant.
#[inline]
pub(crate) fn is_free(word: u64, at_ns: u64) -> bool {
    let word = if planted(Fault::MarkedSlotTaken) { time(word) } else { word };
    // A slot is free at its own instant, since a unit of the age of a whole window is outside.
    word <= at_ns
}

/// The time of a slot, or the time under its mark. The slot never holds an earlier time again.
#[inline]
pub(crate) fn time(word: u64) -> u64 {
    if is_closed(word) { word & !(MARK | CLOSED) } else { word & !MARK }
}

/// True if a slot is marked, so that its next time is not known yet.
#[inline]
pub(crate) fn is_marked(word: u64) -> bool {
    word & MARK != 0
}

/// The same slot, marked.
#[inline]
pub(crate) fn marked(word: u64) -> u64 {
    word | MARK
}

/// The same slot, not in use. The time of a slot that is free only after every turn may become earlier, but it stays
/// after every turn.
pub(super) fn closed(word: u64) -> u64 {
    word.min(CLOSED - 1) | MARK | CLOSED
}

pub(super) fn is_closed(word: u64) -> bool {
    // A slot that a request has marked is a smaller number: a request marks only slots that are free at a turn, and
    // every turn is below the second bit.
    word >= MARK | CLOSED
}

/// Reads a slot.
#[inline]
pub(crate) fn load(slot: &AtomicU64) -> u64 {
    // Acquire: pairs with the Release of every write to a slot. See the header.
    slot.load(Ordering::Acquire)
}

/// Replaces the exact word that was read, or returns the one that is there.
#[inline]
pub(crate) fn replace(slot: &AtomicU64, word: u64, next: u64) -> Result<u64, u64> {
    // AcqRel, and Acquire on failure, since the word found is looked at: see the header.
    slot.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire)
}

/// Ends a mark. Only the thread that made the mark may call it: no other writes to a marked slot.
#[inline]
pub(crate) fn settle(slot: &AtomicU64, time_ns: u64) {
    // Release: pairs with the Acquire of `load`.
    slot.store(time_ns, Ordering::Release);
}

/// Raises a bound. It writes only if that is needed.
#[inline]
pub(crate) fn raise(bound: &AtomicU64, to_ns: u64) {
    // Relaxed: a bound orders nothing. A bound stays true (see `Slots`), so an old value of it is
    // only a weaker statement. If more is needed, a fence follows (`src/keyed/log`).
    if bound.load(Ordering::Relaxed) < to_ns {
        bound.fetch_max(to_ns, Ordering::Relaxed);
    }
}

/// An upper bound of the units that wait for a turn after now. Each slot adds the number of windows between now and its
/// last turn.
pub(crate) fn queued(slots: &impl Slots, now_ns: u64, window_ns: u64) -> u64 {
    // A slot that was taken for now or before is free a window later at most.
    let idle_ns = now_ns.saturating_add(window_ns);
    let in_row = |row: usize| {
        let waiting = |slot| time(load(slot)).saturating_sub(idle_ns).div_ceil(window_ns);
        slots.row(row).iter().map(waiting).fold(0, u64::saturating_add)
    };
    (0..slots.rows()).map(in_row).fold(0, u64::saturating_add)
}

/// Slots in rows, and the bounds of each row, which are known without reading it. The slots have one owner for good,
/// unless an implementation says otherwise.
pub(crate) trait Slots {
    /// The number of rows, at least one.
    fn rows(&self) -> usize;

    /// The slots of one row: from 1 to [`ROW_MOST`].
    fn row(&self, row: usize) -> &[AtomicU64];

    /// The number of slots in the row.
    fn row_len(&self, row: usize) -> usize {
        self.row(row).len()
    }

    /// No slot of the row is free before this instant. It is true until one is given back, which
    /// [lowers](Slots::lower_low) it.
    fn low_ns(&self, row: usize) -> u64;

    /// All slots of the row are free from this instant on, as far as this reader knows.
    fn high_ns(&self, row: usize) -> u64;

    /// Notes that no slot of the row is free before this instant.
    fn raise_low(&self, row: usize, to_ns: u64);

    /// Notes that a slot of the row is free from this instant on, after it was given back and written. A thread that
    /// has read the slot before that may raise the bound afterwards. Then the unit is found again only when all slots
    /// that the thread has seen in the row are free. That is up to a window late. After a reset it may be as late as
    /// the last turn for which the row had been taken, unless there is another reset. So less may be admitted, and
    /// never more.
    fn lower_low(&self, row: usize, to_ns: u64);

    /// Notes that a slot of the row may soon be free only from this instant on, before the slot is written.
    fn raise_high(&self, row: usize, to_ns: u64);

    /// The row, and the place in it, where a search for a slot that is free now begins. The slot there is probably
    /// free.
    fn start(&self, now_ns: u64) -> (usize, usize);

    /// If slots are taken in an order, the row with its boundary: the slots before the boundary were taken last, and
    /// the slots after it are free first.
    fn oldest(&self) -> usize;

    /// A hint: the slots up to this one are taken.
    fn taken(&self, row: usize, index: usize);

    /// A guess at the instant from which `units` slots are free, if there is an order to guess by.
    fn guess_ns(&self, units: u64) -> Option<u64>;

    /// Nothing is free before this instant, whatever the slots say.
    fn base_ns(&self) -> u64 {
        0
    }

    /// True if the slots are still the caller's to take, so that its writes to them count.
    fn confirm(&self) -> bool {
        true
    }

    /// True if the slots are still the caller's, so that its readings of them count.
    fn is_same(&self) -> bool {
        true
    }
}
