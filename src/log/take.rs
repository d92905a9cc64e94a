//! Takes slots, and gives them back. One slot is taken by one compare-and-swap. Several slots are marked one by one, so
//! that a request gets all of them or none.
//!
//! # One unit
//! A request takes any free slot by one compare-and-swap. A caller that finds no free slot has read in every slot a
//! time after the caller's `now`. The time of a slot only rises, unless the slot is given back. So if no slot was given
//! back meanwhile, the denial is still right at the end of the search. A request for as many units as fit, or for a
//! charge into debt, takes each of its units in this way.
//!
//! # Several units
//! The free slots are counted first, and if they are too few, nothing is written. Then slots are marked one by one.
//! Only when enough slots are marked, each of them gets its new time. If too few slots can be marked, or if the slots
//! do not belong to the caller's key any more, all marks are removed, and each slot holds the same bits as before.
//!
//! So such a denial writes to slots. This is harmless: a marked slot looks taken to every other request, so while the
//! attempt lasts it can only cause denials and no admission. Only the thread that marked a slot writes to it. So the
//! old time is still there when the mark is removed, as if there had been no attempt. Two attempts that need each
//! other's slots may both be denied. Nothing is retried, so no thread waits.
//!
//! The marks of an attempt are kept as bits on the stack, in one frame for each row with marks. A frame takes about 350
//! bytes, of which 128 are the marks of up to 1024 units.

use crate::sync::{Fault, planted};

use super::slots::{
    ROW_MOST, Slots, free_at, is_closed, is_free, load, marked, replace, settle, time,
};
use super::survey::count_free;

/// The slots that a request wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) now_ns: u64,
    pub(crate) window_ns: u64,
    /// At least 1. For [`take`] it is at most the number of slots.
    pub(crate) units: u64,
}

impl Want {
    pub(crate) fn free_ns(self) -> u64 {
        free_at(self.now_ns, self.window_ns)
    }
}

/// The result of taking slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    All,
    /// Too few slots are free. None is taken.
    TooFew,
    /// The slots do not belong to the caller's key any more. None is taken.
    Lost,
}

/// Takes `want.units` slots, or none.
pub(crate) fn take(slots: &impl Slots, want: Want) -> Taken {
    // No slot is free before the log begins, even if the slot's time is earlier.
    if want.now_ns < slots.base_ns() {
        return Taken::TooFew;
    }
    // The free slots are counted first, so that a request of several units that does not fit usually marks nothing.
    if want.units > 1 && count_free(slots, want.now_ns) < want.units {
        return Taken::TooFew;
    }
    let (first, offset) = slots.start(want.now_ns);
    let turn = Turn { first, offset, nth: 0 };
    match want.units {
        1 => match each_in_turn(slots, want, turn, |_| want.free_ns()) {
            (1.., _) => Taken::All,
            (0, Taken::Lost) => Taken::Lost,
            (0, _) => Taken::TooFew,
        },
        units => gather(slots, want, turn, units),
    }
}

/// Takes up to `want.units` slots that are free at `want.now_ns`, and returns how many. The new time of each slot is
/// the time that `next` returns for the old time; it is later than the old time. Returns `None` if no slot was taken
/// because the slots do not belong to the caller's key any more.
pub(crate) fn take_each(slots: &impl Slots, want: Want, next: impl Fn(u64) -> u64) -> Option<u64> {
    if want.now_ns < slots.base_ns() {
        return Some(0);
    }
    let (first, offset) = slots.start(want.now_ns);
    match each_in_turn(slots, want, Turn { first, offset, nth: 0 }, next) {
        (0, Taken::Lost) => None,
        // If the slots went to another key meanwhile, the units that were taken before stay taken, since they were
        // confirmed.
        (units, _) => Some(units),
    }
}

/// The position in a walk over all rows. The walk may begin at any row, and wraps around.
#[derive(Clone, Copy)]
struct Turn {
    first: usize,
    /// The index in the first row at which the walk begins.
    offset: usize,
    nth: usize,
}

impl Turn {
    /// The next row in which a slot may be free, and the index in it at which to begin.
    fn next_row(&mut self, slots: &impl Slots, now_ns: u64) -> Option<(usize, usize)> {
        let rows = slots.rows();
        while self.nth < rows {
            let (row, offset) =
                (self.first + self.nth, if self.nth == 0 { self.offset } else { 0 });
            // The walk wraps around at most once.
            let row = if row < rows { row } else { row - rows };
            self.nth += 1;
            // A row without a slot that is free at now is skipped.
            if slots.low_ns(row) <= now_ns {
                return Some((row, offset));
            }
        }
        None
    }
}

fn each_in_turn(
    slots: &impl Slots,
    want: Want,
    mut turn: Turn,
    next: impl Fn(u64) -> u64,
) -> (u64, Taken) {
    // The new word of a slot is also the instant from which it is free again.
    let taken = |old| [next(old); 2];
    let mut units = 0;
    while let Some((row, mut offset)) = turn.next_row(slots, want.now_ns) {
        while let Some((index, old)) = take_in_row(slots, row, offset, want, taken) {
            // In a keyed log the entry may belong to another key now.
            if !slots.confirm() {
                // The unit was written into a log that did not belong to the key any more, so it is taken back.
                put_back(slots, row, index, next(old), old);
                return (units, Taken::Lost);
            }
            slots.taken(row, index);
            units += 1;
            if units == want.units {
                return (units, Taken::All);
            }
            offset = next_offset(slots, row, index);
        }
    }
    (units, Taken::TooFew)
}

/// The index after `index` in the row, which is 0 after the last index.
fn next_offset(slots: &impl Slots, row: usize, index: usize) -> usize {
    if index + 1 < slots.row_len(row) { index + 1 } else { 0 }
}

/// Takes the first free slot of a row. The search begins at `offset` and wraps around. Returns the index of the slot
/// and its old word. For this word, `next` gives the new word and the instant from which the slot is free again.
///
/// Lock-free: a CAS fails only if another thread has changed the slot, or spuriously (it is a weak CAS).
fn take_in_row(
    slots: &impl Slots,
    row: usize,
    offset: usize,
    want: Want,
    next: impl Fn(u64) -> [u64; 2],
) -> Option<(usize, u64)> {
    let cells = slots.row(row);
    // Every index is in the row, since `offset` is.
    let mut low_ns = u64::MAX;
    for index in (offset..cells.len()).chain(0..offset) {
        let mut word = load(&cells[index]);
        while is_free(word, want.now_ns) {
            // The upper bound is raised before the slot is written, since it must never be below a time in the row.
            let [next, free_ns] = next(word);
            slots.raise_high(row, free_ns);
            match replace(&cells[index], word, next) {
                Ok(_) => return Some((index, word)),
                Err(found) => word = found,
            }
        }
        low_ns = low_ns.min(time(word));
    }
    // The lower bound may be raised, since all slots were read, and since each slot that is given back lowers the bound
    // again.
    slots.raise_low(row, low_ns);
    None
}

/// Restores the word that a slot held before the caller took it. If another request has taken the slot since, because
/// its time had come, there is nothing to restore.
///
/// If the slot holds `mine`, it is right to restore `old`. The bits `mine` are the caller's own, or those of an
/// equivalent unit. A later request finds the slot free only at `mine` or later, and writes a later time. So the slot
/// holds `mine` until it is restored, taken or given back. This slot may be given back in place of another slot with
/// the same bits, for a unit of the same instant. The other slot then stands for this unit: slots with equal bits are
/// interchangeable, and as many of them are restored or given back as were written. The same is true if this slot was
/// then taken again for that instant. Only a reset or an uncharge removes a unit without a permit for it. After that, a
/// new unit for the very same instant may be restored in place of the removed unit. The documentation of a reset says
/// the same about permits from before it.
fn put_back(slots: &impl Slots, row: usize, index: usize, mine: u64, old: u64) {
    let slot = &slots.row(row)[index];
    if planted(Fault::ChargeLeftBehind) {
        return;
    }
    while let Err(found) = replace(slot, mine, old) {
        // Other bits mean that another caller has taken the slot, so there is nothing to restore. Equal bits mean that
        // the CAS has failed spuriously.
        if found != mine {
            return;
        }
    }
}

/// The slots of a row that a request has marked, as one bit for each slot.
type Marks = [u64; ROW_MOST / 64];

/// Marks slots row by row, by recursion. On the way back, all marks are ended.
fn gather(slots: &impl Slots, want: Want, mut turn: Turn, missing: u64) -> Taken {
    // Enough slots are marked. The slots count as taken only if the log still belongs to the caller's key.
    if missing == 0 {
        return if slots.confirm() { Taken::All } else { Taken::Lost };
    }
    while let Some((row, mut offset)) = turn.next_row(slots, want.now_ns) {
        // As long as slots are missing, every free slot of this row is marked.
        let (mut marks, mut count): (Marks, _) = ([0; ROW_MOST / 64], 0);
        let mut last = offset;
        while count < missing
            && let Some((index, _)) =
                // The upper bound is raised for the time that may replace the mark.
                take_in_row(slots, row, offset, want, |old| [marked(old), want.free_ns()])
        {
            marks[index / 64] |= 1 << (index % 64);
            count += 1;
            last = index;
            offset = next_offset(slots, row, index);
        }
        // On the way back, the marks of every row are ended as the innermost call has decided: all slots get the new
        // time, or all keep their old time.
        if count > 0 {
            let taken = gather(slots, want, turn, missing - count);
            settle_all(slots.row(row), &marks, (taken == Taken::All).then_some(want.free_ns()));
            if taken == Taken::All && count == missing {
                slots.taken(row, last);
            }
            return taken;
        }
    }
    if planted(Fault::ShortGatherAdmitted) { Taken::All } else { Taken::TooFew }
}

/// Ends every mark in a row: with a new time, or with the time under it.
fn settle_all(row: &[crate::sync::AtomicU64], marks: &Marks, free_ns: Option<u64>) {
    for (word, &bits) in marks.iter().enumerate() {
        let mut bits = bits;
        while bits != 0 {
            // The index is in the row, since only slots of this row were marked.
            let slot = &row[word * 64 + bits.trailing_zeros() as usize];
            bits &= bits - 1;
            match free_ns {
                Some(free_ns) => settle(slot, free_ns),
                None if planted(Fault::MarksForgotten) => {}
                None if planted(Fault::MarksEndUnused) => settle(slot, 0),
                // The time under the mark is the old time, since no other thread writes to a marked slot.
                None => settle(slot, time(load(slot))),
            }
        }
    }
}

/// Rewrites up to `units` slots, and returns how many. For the word of a slot, `next` gives the new word, or `None` if
/// the slot stays as it is.
///
/// A slot is replaced only if it still holds the exact word that was read. The word was read before the test of the
/// slots' owner. A later owner writes times that are later than all earlier times, so no unit of another key is given
/// back. Every caller's `next` leaves a marked slot to the thread that made the mark.
pub(super) fn rewrite(slots: &impl Slots, units: u64, next: impl Fn(u64) -> Option<u64>) -> u64 {
    let mut done = 0;
    for row in 0..slots.rows() {
        for slot in slots.row(row) {
            let mut word = load(slot);
            while done < units
                && let Some(to) = next(word)
                && slots.is_same()
            {
                // The upper bound is raised before the slot is written. A closed slot may never be opened again, so
                // there is no instant from which all slots of the row are free.
                if is_closed(to) {
                    slots.raise_high(row, to);
                }
                if planted(Fault::GivenBackWhatever) {
                    settle(slot, to);
                } else if let Err(found) = replace(slot, word, to) {
                    // Lock-free: another thread has taken, marked or given back the slot, or the CAS has failed
                    // spuriously.
                    word = found;
                    continue;
                }
                slots.lower_low(row, time(to));
                done += 1;
                break;
            }
        }
    }
    done
}
