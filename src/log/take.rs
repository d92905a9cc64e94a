//! Taking slots: one by one compare-and-swap; several one by one, all or none. And giving them back.
//!
//! # One unit
//! One compare-and-swap of any free slot. A caller that finds none has seen every slot above its now, and
//! slots that are above a now stay above it unless they are given back: but for those, the denial is right at the end
//! of the search. Where as much is taken as there is, or into debt, each unit is one of these.
//!
//! # Several units
//! First the free slots are counted: if they are too few, nothing is written. Then slots are marked one by
//! one, and only when all of them are, each gets its time. If they turn out to be too few after all, or not
//! to be the caller's any more, each mark is taken away: the slot holds to the bit what it held before.
//!
//! So this is the one denial that writes. Why that is harmless: a marked slot reads as taken to every caller,
//! so it can only make another request be denied, for as long as the attempt lasts. It cannot make one be
//! admitted: only its owner writes to a marked slot, so the time under the mark still stands when the
//! mark goes, and the times in a slot rise as if the attempt had not been. Two attempts that need each
//! other's slots may both be denied; nothing is retried, so no thread waits.
//!
//! What an attempt has marked is remembered as bits on the stack, a frame for each row in which it marked
//! something: 128 bytes and a little for up to 1024 units.

use crate::sync::{Fault, planted};

use super::slots::{
    ROW_MOST, Slots, free_at, is_closed, is_free, load, marked, replace, settle, time,
};
use super::survey::count_free;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) now_ns: u64,
    pub(crate) window_ns: u64,
    /// At least 1, at most as many as there are slots.
    pub(crate) units: u64,
}

impl Want {
    pub(crate) fn free_ns(self) -> u64 {
        free_at(self.now_ns, self.window_ns)
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    All,
    /// Too few slots are free. None is taken.
    TooFew,
    /// The slots are not the caller's any more. None is taken.
    Lost,
}

/// Takes so many slots, or none.
pub(crate) fn take(slots: &impl Slots, want: Want) -> Taken {
    // Before the log begins nothing is free, whatever the slots say.
    if want.now_ns < slots.base_ns() {
        return Taken::TooFew;
    }
    // Counted first, so that a request of several units that does not fit marks nothing as a rule.
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

/// Takes up to so many slots that are free at the want's now: how many. Each then holds what is next to its time, which
/// is later. `None`: none, for the slots are not the caller's any more.
pub(crate) fn take_each(slots: &impl Slots, want: Want, next: impl Fn(u64) -> u64) -> Option<u64> {
    if want.now_ns < slots.base_ns() {
        return Some(0);
    }
    let (first, offset) = slots.start(want.now_ns);
    match each_in_turn(slots, want, Turn { first, offset, nth: 0 }, next) {
        (0, Taken::Lost) => None,
        // What was taken before the slots went to another was confirmed, and counts.
        (units, _) => Some(units),
    }
}

/// How far a walk over all rows has come. It begins somewhere, and goes round.
#[derive(Clone, Copy)]
struct Turn {
    first: usize,
    /// Where in the first row.
    offset: usize,
    nth: usize,
}

impl Turn {
    /// The next row in which something may be free, and where in it to begin.
    fn next_row(&mut self, slots: &impl Slots, now_ns: u64) -> Option<(usize, usize)> {
        let rows = slots.rows();
        while self.nth < rows {
            let (row, offset) =
                (self.first + self.nth, if self.nth == 0 { self.offset } else { 0 });
            // Round, at most once.
            let row = if row < rows { row } else { row - rows };
            self.nth += 1;
            // Otherwise no slot of the row is free at now: not read.
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
    // It is free again from what it holds then.
    let taken = |old| [next(old); 2];
    let mut units = 0;
    while let Some((row, mut offset)) = turn.next_row(slots, want.now_ns) {
        while let Some((index, old)) = take_in_row(slots, row, offset, want, taken) {
            // In a keyed log the entry may have become another key's meanwhile.
            if !slots.confirm() {
                // Written into a log that was not the key's any more: taken back.
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

/// On from the next slot; past the last, from the first.
fn next_offset(slots: &impl Slots, row: usize, index: usize) -> usize {
    if index + 1 < slots.row_len(row) { index + 1 } else { 0 }
}

/// Takes the first free slot of a row from a place on, going round, and gives its place and what it held. `next` says
/// what it holds then, and from when on it is free.
///
/// Lock-free: a CAS that fails has lost to another (or fails for no reason, as the weak form may).
fn take_in_row(
    slots: &impl Slots,
    row: usize,
    offset: usize,
    want: Want,
    next: impl Fn(u64) -> [u64; 2],
) -> Option<(usize, u64)> {
    let cells = slots.row(row);
    // Every index is one of the row's: the offset is where a thread begins in it.
    let mut low_ns = u64::MAX;
    for index in (offset..cells.len()).chain(0..offset) {
        let mut word = load(&cells[index]);
        while is_free(word, want.now_ns) {
            // Before the slot is written: the bound must never lie below what is in the row.
            let [next, free_ns] = next(word);
            slots.raise_high(row, free_ns);
            match replace(&cells[index], word, next) {
                Ok(_) => return Some((index, word)),
                Err(found) => word = found,
            }
        }
        low_ns = low_ns.min(time(word));
    }
    // Each slot was read, and one that is given back lowers the bound again.
    slots.raise_low(row, low_ns);
    None
}

/// Puts back what a slot held before it was taken by the caller, unless its time has come meanwhile and
/// another request has taken it: then nothing of the caller's is left in it.
///
/// Equal bits are the caller's own here, or as good. A request that takes the slot after it finds it free, so no earlier
/// than at `mine`, and writes a later time; so the slot holds `mine` until it is put back, taken or given back. Given
/// back it is in the place of another slot with those bits, of a unit of the same instant, which then stands for this
/// one: slots of equal bits are interchangeable, and each that goes was written once. If this one is taken again for
/// that instant, and put back here, the other one stands for that unit. Only a reset takes away what was written
/// without such a claim: a unit that was taken for the very same instant behind it may be put back in place of one of
/// before it, which is what a reset says of permits of before it.
fn put_back(slots: &impl Slots, row: usize, index: usize, mine: u64, old: u64) {
    let slot = &slots.row(row)[index];
    if planted(Fault::ChargeLeftBehind) {
        return;
    }
    while let Err(found) = replace(slot, mine, old) {
        // Another caller has found it free and taken it: nothing is left to put back. (Equal: a spurious failure.)
        if found != mine {
            return;
        }
    }
}

/// Which slots of a row a request has marked.
type Marks = [u64; ROW_MOST / 64];

/// Marks slots row by row; when there are enough, settles all of them on the way back.
fn gather(slots: &impl Slots, want: Want, mut turn: Turn, missing: u64) -> Taken {
    // All are marked: they count if the log is still the caller's.
    if missing == 0 {
        return if slots.confirm() { Taken::All } else { Taken::Lost };
    }
    while let Some((row, mut offset)) = turn.next_row(slots, want.now_ns) {
        // Every slot of this row that can be marked, as long as some are missing.
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

/// Ends every mark in a row: with a new time, or with what was there before.
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
                // As before: no other thread writes to a marked slot.
                None => settle(slot, time(load(slot))),
            }
        }
    }
}

/// Rewrites up to so many slots: each with what is next to it, `None` for one that stays as it is. How many.
///
/// A slot is replaced by the exact word that was read before the caller was seen to own the slots. A later owner writes
/// later times than any in them: so nothing of another key's is given back. A mark of a request is left to the thread
/// that has made it.
pub(super) fn rewrite(slots: &impl Slots, units: u64, next: impl Fn(u64) -> Option<u64>) -> u64 {
    let mut done = 0;
    for row in 0..slots.rows() {
        for slot in slots.row(row) {
            let mut word = load(slot);
            while done < units
                && let Some(to) = next(word)
                && slots.is_same()
            {
                // Before the slot is written: from here on no instant is known from which all of the row is free.
                if is_closed(to) {
                    slots.raise_high(row, to);
                }
                if planted(Fault::GivenBackWhatever) {
                    settle(slot, to);
                } else if let Err(found) = replace(slot, word, to) {
                    // Lock-free: it was taken, marked or given back by another thread, or the CAS failed for no reason.
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
