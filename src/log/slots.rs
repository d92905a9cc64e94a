//! Time slots: what a sliding log is made of, and how one slot is read.
//!
//! A slot is one atomic word. It holds the instant from which it is free again, in nanoseconds: the time
//! of the unit that it was last taken for, and a window. A slot that was never taken holds 0. Its topmost
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
//! A reservation is a caller that says a later now: its *turn*, the instant at which its slots are free. A charge into
//! debt takes each slot for the instant at which it is free.
//!
//! # The bound
//! A slot is taken only for an instant not before the slot's time, and then holds that instant and a
//! window. So whatever the callers' times are, and in whatever order they come, the instants for which one slot
//! was taken lie a window apart or more, each from the next, and rise. A half-open window of length W holds
//! at most one of them: L slots, L units. A closed one may hold two, one at each end: 2L.
//!
//! A slot that is given back holds the instant that it was taken for. What it held before, which is written nowhere,
//! was no later: so it is free no earlier than it was, and what it was taken for besides stays a window away. (To 0 it
//! may not be set: a late caller could then take it beside the unit before.) A reset forgives, and the bound begins anew.
//!
//! A denied unit that is recorded only raises a slot: that with the earliest time, so that the newest units are kept of
//! all that were asked for. The unit whose slot it takes counts for longer then, never for less. If that is given back
//! later, another slot of the very same instant stands for it, or nothing is.
//!
//! # Orderings
//! Slots are loaded `Acquire` and written with `Release` or both. A log that one limit owns would do with
//! `Relaxed`: its slots publish nothing but themselves. The keyed form needs the pair: a thread that reads what a
//! later owner wrote into a slot also sees that the entry is another key's by now (`src/keyed/log`).

use crate::clock::LATEST_NS;
use crate::sync::{AtomicU64, Fault, Ordering, planted};

/// Set in a slot that a request of several units has taken so far.
const MARK: u64 = 1 << 63;

/// Set beside the mark in a slot that is not in use. No request marks a slot of so late a time.
const CLOSED: u64 = 1 << 62;

/// The latest instant that a slot can hold: no clock's time comes so late (see `LATEST_NS`), so a slot
/// that would be free later than that is never free, as it should be.
const LATEST_FREE_NS: u64 = MARK - 1;

/// The latest instant that a slot is reserved for.
pub(super) const LATEST_TURN_NS: u64 = CLOSED - 2;

const _: () =
    assert!(LATEST_NS < LATEST_TURN_NS, "a request may come at any time that a clock tells");

/// So long after now, but before the latest instant: a slot that is taken for it holds a later one.
pub(crate) fn within(now_ns: u64, wait_ns: u64) -> u64 {
    now_ns.saturating_add(wait_ns).min(LATEST_FREE_NS - 1)
}

/// The most slots in a row. The record of what a request has marked in one row is a bit for each slot of
/// it, on the stack: 128 bytes.
pub(crate) const ROW_MOST: usize = 1024;

/// The instant from which a slot is free that is taken now.
#[inline]
pub(crate) fn free_at(now_ns: u64, window_ns: u64) -> u64 {
    now_ns.saturating_add(window_ns).min(LATEST_FREE_NS)
}

/// Whether a slot can be taken at an instant. A marked word is above every instant.
#[inline]
pub(crate) fn is_free(word: u64, at_ns: u64) -> bool {
    let word = if planted(Fault::MarkedSlotTaken) { time(word) } else { word };
    // Equal is free: an age of a whole window is outside.
    word <= at_ns
}

/// The time of a slot; of a marked one the time before. Its slot never holds an earlier one again.
#[inline]
pub(crate) fn time(word: u64) -> u64 {
    if is_closed(word) { word & !(MARK | CLOSED) } else { word & !MARK }
}

/// Whether a slot is marked: what time it will hold is not known yet.
#[inline]
pub(crate) fn is_marked(word: u64) -> bool {
    word & MARK != 0
}

/// The same slot, marked.
#[inline]
pub(crate) fn marked(word: u64) -> u64 {
    word | MARK
}

/// The same slot, not in use. What would be free only after every turn is so then, too, if earlier than before.
pub(super) fn closed(word: u64) -> u64 {
    word.min(CLOSED - 1) | MARK | CLOSED
}

pub(super) fn is_closed(word: u64) -> bool {
    // A mark of a request is below: what it may have marked was free at a turn, so before the second bit.
    word >= MARK | CLOSED
}

/// Reads a slot.
#[inline]
pub(crate) fn load(slot: &AtomicU64) -> u64 {
    // Acquire: pairs with the Release of every write to a slot. See the header.
    slot.load(Ordering::Acquire)
}

/// Replaces the exact word that was read, or gives the one that is there.
#[inline]
pub(crate) fn replace(slot: &AtomicU64, word: u64, next: u64) -> Result<u64, u64> {
    // AcqRel, and Acquire on failure, since the word found is looked at: see the header.
    slot.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire)
}

/// Ends a mark. Only for the thread that made it: no other writes to a marked slot.
#[inline]
pub(crate) fn settle(slot: &AtomicU64, time_ns: u64) {
    // Release: pairs with the Acquire of `load`.
    slot.store(time_ns, Ordering::Release);
}

/// Raises a bound. A write only if it is needed.
#[inline]
pub(crate) fn raise(bound: &AtomicU64, to_ns: u64) {
    // Relaxed: a bound orders nothing. What a bound says stays true (see `Slots`), so an old value of it is
    // only a weaker statement; where more is asked, a fence follows (`src/keyed/log`).
    if bound.load(Ordering::Relaxed) < to_ns {
        bound.fetch_max(to_ns, Ordering::Relaxed);
    }
}

/// How many units at most wait for a turn after now: of a slot so many as windows fit between now and its last turn.
pub(crate) fn queued(slots: &impl Slots, now_ns: u64, window_ns: u64) -> u64 {
    // Taken for now or before, a slot is free a window later at most.
    let idle_ns = now_ns.saturating_add(window_ns);
    let in_row = |row: usize| {
        let waiting = |slot| time(load(slot)).saturating_sub(idle_ns).div_ceil(window_ns);
        slots.row(row).iter().map(waiting).fold(0, u64::saturating_add)
    };
    (0..slots.rows()).map(in_row).fold(0, u64::saturating_add)
}

/// Slots in rows, and what is known of each row without reading it. Of slots that have one owner for good, unless an
/// implementation says otherwise.
pub(crate) trait Slots {
    /// How many rows there are: at least one.
    fn rows(&self) -> usize;

    /// The slots of one row: from 1 to [`ROW_MOST`].
    fn row(&self, row: usize) -> &[AtomicU64];

    /// How many slots the row has.
    fn row_len(&self, row: usize) -> usize {
        self.row(row).len()
    }

    /// No slot of the row is free before this instant. True until one is given back: that [lowers](Slots::lower_low) it.
    fn low_ns(&self, row: usize) -> u64;

    /// All slots of the row are free from this instant on, as far as the reader can know.
    fn high_ns(&self, row: usize) -> u64;

    /// Says that no slot of the row is free before this instant.
    fn raise_low(&self, row: usize, to_ns: u64);

    /// Says that a slot of the row is free from this instant on: one was given back. After it was written. A thread that
    /// has read the slot before may raise the bound behind this: then the unit is found again only when all that it
    /// has seen in the row is free: up to a window late, or after a reset as late as the row had been taken for, unless
    /// there is another reset. So less may be admitted, never more.
    fn lower_low(&self, row: usize, to_ns: u64);

    /// Says that a slot of the row may soon be free only from this instant on. Before it is written.
    fn raise_high(&self, row: usize, to_ns: u64);

    /// Row and place in it where a search begins that wants a slot now, and may well get one.
    fn start(&self, now_ns: u64) -> (usize, usize);

    /// The row where what was taken last meets what is free first, if there is an order.
    fn oldest(&self) -> usize;

    /// A hint: the slots up to this one are taken.
    fn taken(&self, row: usize, index: usize);

    /// A guess at the instant from which so many slots are free, if there is an order to guess by.
    fn guess_ns(&self, units: u64) -> Option<u64>;

    /// Nothing is free before this instant, whatever the slots say.
    fn base_ns(&self) -> u64 {
        0
    }

    /// Whether what was written to the slots counts: they are still the caller's to take.
    fn confirm(&self) -> bool {
        true
    }

    /// Whether what was read of the slots counts.
    fn is_same(&self) -> bool {
        true
    }
}
