//! Takes slots, and gives them back. One slot is taken by one compare-and-swap. Several are taken one by one, all or
//! none.
//!
//! # One unit
//! A request takes any free slot by one compare-and-swap. A caller that finds none has seen in every slot a time after
//! its now. A slot whose time is later than some now keeps a later time than that, unless it is given back. So the
//! denial is right at the end of the search, unless a slot was given back meanwhile. A request that takes as many units
//! as there are, or goes into debt, takes each of them in this way.
//!
//! # Several units
//! First the free slots are counted. If they are too few, nothing is written. Then slots are marked one by one, and
//! only when all of them are marked, each gets its time. If they turn out to be too few after all, or not to be the
//! caller's any more, each mark is taken away: the slot holds to the bit what it held before.
//!
//! So this denial writes to slots. That is harmless: a marked slot reads as taken to every caller, so it can only make
//! another request be denied, for as long as the attempt lasts. It cannot make one be admitted. Only its owner writes
//! to a marked slot, so the time under the mark is still there when the mark goes, and the times in a slot rise as if
//! the attempt had not been made. Two attempts that need each other's slots may both be denied. Nothing is retried, so
//! no thread waits.
//!
//! The marks of an attempt are remembered as bits on the stack, in a frame for each row in which it has marked
//! something: 128 bytes and a little for up to 1024 units.

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
    /// At least 1. If all or none are to be taken, it is at most the number of slots.
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
    /// The slots are not the caller's any more. None is taken.
    Lost,
}

/// Takes `want.units` slots, or none.
pub(crate) fn take(slots: &impl Slots, want: Want) -> Taken {
    // Before the log begins nothing is free, whatever the slots say.
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

/// Takes up to `want.units` slots that are free at `want.now_ns`, and returns how many. Each then holds what `next`
/// gives for its time, which is later. Returns `None` if it has taken none because the slots are not the caller's any
/// more.
pub(crate) fn take_each(slots: &impl Slots, want: Want, next: impl Fn(u64) -> u64) -> Option<u64> {
    if want.now_ns < slots.base_ns() {
        return Some(0);
    }
    let (first, offset) = slots.start(want.now_ns);
    match each_in_turn(slots, want, Turn { first, offset, nth: 0 }, next) {
        (0, Taken::Lost) => None,
        // Units that were taken before the slots went to another key were confirmed, and stay taken.
        (units, _) => Some(units),
    }
}

/// The position of a walk over all rows. It begins at any row, and goes round.
#[derive(Clone, Copy)]
struct Turn {
    first: usize,
    /// The place in the first row where the walk begins.
    offset: usize,
    nth: usize,
}

impl Turn {
    /// The next row in which a slot may be free, and the place in it to begin at.
    fn next_row(&mut self, slots: &impl Slots, now_ns: u64) -> Option<(usize, usize)> {
        let rows = slots.rows();
        while self.nth < rows {
            let (row, offset) =
                (self.first + self.nth, if self.nth == 0 { self.offset } else { 0 });
            // The walk goes round once at most.
            let row = if row < rows { row } else { row - rows };
            self.nth += 1;
            // If no slot of the row is free at now, the row is not read.
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
    // The slot is free again from the instant that it then holds.
    let taken = |old| [next(old); 2];
    let mut units = 0;
    while let Some((row, mut offset)) = turn.next_row(slots, want.now_ns) {
        while let Some((index, old)) = take_in_row(slots, row, offset, want, taken) {
            // In a keyed log the entry may have become another key's meanwhile.
            if !slots.confirm() {
                // The unit was written into a log that was not the key's any more, so it is taken back.
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

/// The place after `index` in the row; after the last place comes the first.
fn next_offset(slots: &impl Slots, row: usize, index: usize) -> usize {
    if index + 1 < slots.row_len(row) { index + 1 } else { 0 }
}

/// Takes the first free slot of a row, from `offset` on and around. Returns the place of the slot, and the word that
/// it held. `next` gives the word that the slot then holds, and the instant from which the slot is free.
///
/// Lock-free: a CAS fails only if another thread has changed the slot, or spuriously, since it is a weak CAS.
fn take_in_row(
    slots: &impl Slots,
    row: usize,
    offset: usize,
    want: Want,
    next: impl Fn(u64) -> [u64; 2],
) -> Option<(usize, u64)> {
    let cells = slots.row(row);
    // Every index lies in the row, since a thread begins at a place in it.
    let mut low_ns = u64::MAX;
    for index in (offset..cells.len()).chain(0..offset) {
        let mut word = load(&cells[index]);
        while is_free(word, want.now_ns) {
            // The bound is raised before the slot is written, since it must never lie below a time in the row.
            let [next, free_ns] = next(word);
            slots.raise_high(row, free_ns);
            match replace(&cells[index], word, next) {
                Ok(_) => return Some((index, word)),
                Err(found) => word = found,
            }
        }
        low_ns = low_ns.min(time(word));
    }
    // The bound may be raised: each slot was read, and a slot that is given back lowers the bound again.
    slots.raise_low(row, low_ns);
    None
}

/// Puts back what a slot held before the caller took it. If its time has come meanwhile and another request has taken
/// it, nothing of the caller's is left in it.
///
/// If the slot holds `mine`, these bits are the caller's own, or as good. A later request finds the slot free only at
/// `mine` or after it, and writes a later time. So the slot holds `mine` until it is put back, taken or given back. It
/// may be given back in place of another slot with those bits, for a unit of the same instant. The other slot then
/// stands for this one: slots of equal bits are interchangeable, and each that goes was written once. If this slot is
/// taken again for that instant, and put back here, the other one stands for that unit. Only a reset takes a unit away
/// without such a claim. After a reset a unit that is taken for the very same instant may be put back in place of one
/// from before it. The documentation of a reset says the same of permits from before it.
fn put_back(slots: &impl Slots, row: usize, index: usize, mine: u64, old: u64) {
    let slot = &slots.row(row)[index];
    if planted(Fault::ChargeLeftBehind) {
        return;
    }
    while let Err(found) = replace(slot, mine, old) {
        // Another caller has found the slot free and taken it, so nothing is left to put back. Equal bits mean that the
        // CAS has failed for no reason.
        if found != mine {
            return;
        }
    }
}

/// The slots of a row that a request has marked.
type Marks = [u64; ROW_MOST / 64];

/// Marks slots row by row; when there are enough, settles all of them on the way back.
fn gather(slots: &impl Slots, want: Want, mut turn: Turn, missing: u64) -> Taken {
    // Enough slots are marked. The marks are valid only if the log is still the caller's.
    if missing == 0 {
        return if slots.confirm() { Taken::All } else { Taken::Lost };
    }
    while let Some((row, mut offset)) = turn.next_row(slots, want.now_ns) {
        // As long as some are missing, every slot of this row that can be marked is marked.
        let (mut marks, mut count): (Marks, _) = ([0; ROW_MOST / 64], 0);
        let mut last = offset;
        while count < missing
            && let Some((index, _)) =
                // The bound is raised for the time that may follow on the mark.
                take_in_row(slots, row, offset, want, |old| [marked(old), want.free_ns()])
        {
            marks[index / 64] |= 1 << (index % 64);
            count += 1;
            last = index;
            offset = next_offset(slots, row, index);
        }
        // On the way back every row ends its marks as the last one decided: all with the new time, or all as before.
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
            // Only slots of this row were marked.
            let slot = &row[word * 64 + bits.trailing_zeros() as usize];
            bits &= bits - 1;
            match free_ns {
                Some(free_ns) => settle(slot, free_ns),
                None if planted(Fault::MarksForgotten) => {}
                None if planted(Fault::MarksEndUnused) => settle(slot, 0),
                // The slot holds what it held before, since no other thread writes to a marked slot.
                None => settle(slot, time(load(slot))),
            }
        }
    }
}

/// Rewrites up to `units` slots, and returns how many. `next` gives the word that follows a slot's word, or `None` if
/// the slot stays as it is.
///
/// A slot is replaced only if it still holds the exact word that was read before the caller was seen to own the slots.
/// A later owner writes later times than any in them, so nothing of another key's is given back. The mark of a request
/// is left to the thread that has made it.
pub(super) fn rewrite(slots: &impl Slots, units: u64, next: impl Fn(u64) -> Option<u64>) -> u64 {
    let mut done = 0;
    for row in 0..slots.rows() {
        for slot in slots.row(row) {
            let mut word = load(slot);
            while done < units
                && let Some(to) = next(word)
                && slots.is_same()
            {
                // The bound is raised before the slot is written. A closed slot may stay so for ever, so no instant is
                // known from which all of the row is free.
                if is_closed(to) {
                    slots.raise_high(row, to);
                }
                if planted(Fault::GivenBackWhatever) {
                    settle(slot, to);
                } else if let Err(found) = replace(slot, word, to) {
                    // Lock-free: another thread has taken, marked or given back the slot, or the CAS has failed for no
                    // reason.
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
