//! A log whose count may change: [`LimiterBuilder::changing`](crate::LimiterBuilder::changing).
//!
//! The limit is the number of slots that are in use. To lower it, the slots with the earliest times are *closed*, each
//! by one compare-and-swap. To raise it, the closed slots with the latest times are opened, and keep their times. So
//! the slots in use are always those with the latest times. Spent units stay spent. While times rise, a request is
//! admitted if its units and the units in the window before it are at most the limit, even if those units were admitted
//! under another limit.
//!
//! The code of a decision needs no special case for changes. A closed slot is marked, so it looks taken, and each unit
//! is still taken by one compare-and-swap on a slot that is in use at that moment. The bound of `slots.rs` stays true:
//! no window ever contains more units than the log has slots, and between two changes no window contains more units
//! than there are slots in use.
//!
//! Only the count can change, and only up to the count of the first policy, since all memory is allocated when the log
//! is built. A slot contains the instant from which it is free, and not the length of the window for which it was
//! taken. If this length could change, a slot from before the change would look like a slot that was just taken with
//! the new length.
//!
//! # Why no slot in use is earlier than a closed one
//! If a slot in use were earlier than a closed slot, it would be free while the unit of the closed slot still counts.
//! Then more than the limit would be admitted for the rest of that window, even after every request in flight has
//! ended. When a change begins, no slot in use is earlier than a closed slot. After that the time of a slot may change
//! in the following ways:
//!
//! * *It is taken, or a denial is recorded in it.* It then holds a later time than before.
//! * *It is marked* by a request of several units, which will restore the time under the mark or write a later time. So
//!   only the time under the mark matters here. A marked slot cannot be closed, since only the request that marked it
//!   may write to it. So unmarked slots are closed, and then all slots are read once more. If the mark of a slot was
//!   removed meanwhile, the slot may be earlier than a closed slot. Then the two slots are exchanged: the earlier slot
//!   is closed first, so that no more slots are in use than before. If a marked slot is earlier, the slots are read
//!   again, up to 64 times. If the mark is still there after these readings, the closed slots are opened again, and the
//!   change is refused. Slots that are marked later do not matter, since none of them is earlier than a closed slot.
//! * *It is given back*, which lowers its time. So a refund and a change exclude each other: both are announced in the
//!   word of the count, and the later one is refused. A permit from before a change gives back nothing after the
//!   change. Its slot is no earlier than the closed slots, but its refund might restore a time that is earlier. A
//!   permit from after the change took a slot that was no earlier than the closed slots, and a refund restores no
//!   earlier time than that. Units that are given back without a permit are taken from the closed slots first: as long
//!   as a closed slot is not free, the spent units exceed the limit.
//! * *It is reset*, which lowers each slot, in use or not. A reset is never refused. A reset during a change may also
//!   forget units that are admitted while it runs, but no units that are admitted after it.
//!
//! Refunds could also be handled without a refusal, if a refund exchanged slots, too. But an exchange takes two writes,
//! between which other threads may write, and a refund that stalls between them could run into the next change. And a
//! change that is never refused would have to wait for a thread that may not be running.
//!
//! No thread waits. A change is refused if after a number of readings slots are still marked, or a refund is still
//! under way. A refused change has no effect, except that it may have caused the denial of a request during it.

use crate::change::ChangeError;
use crate::policy::{Policy, of_count};
use crate::sync::{AtomicU64, Fault, Ordering, planted, scale};

use super::ring::Ring;
use super::rule::LogRule;
use super::slots::{Slots, closed, is_closed, is_marked, load, time};
use super::take::rewrite;

/// The bit of the count that is set while a thread changes the count.
const CHANGING: u64 = 1 << 63;

/// Each thread that gives units back adds this number to the count, and subtracts it at the end. There are fewer than
/// 2^31 such threads at a time.
const GIVING_BACK: u64 = 1 << 32;

/// The bits of the count itself, which are enough for the 2^20 slots of the largest log.
const COUNT: u64 = GIVING_BACK - 1;

/// A change is refused after this number of readings in which the work of other threads is still unfinished. A running
/// thread finishes a request of several units in about the time of a few readings of all slots.
const ROUNDS: usize = 64;

/// The count of a log that may change.
#[derive(Debug)]
pub(super) struct ChangingCount {
    /// The first policy, which has the largest count.
    built: Policy,
    /// The count in force, with the marks for a change and for refunds under way. The count is never less than the
    /// number of slots in use, so there are never more free slots than the count.
    count: AtomicU64,
    /// The number of changes of the count so far.
    changes: AtomicU64,
}

/// The right to give units back. While a thread has this right, the count does not change.
#[derive(Debug)]
pub(super) struct GivingBack<'a>(&'a AtomicU64);

impl Drop for GivingBack<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of `settled`, so that a change sees what was given back.
        self.0.fetch_add(GIVING_BACK.wrapping_neg(), Ordering::Release);
    }
}

impl ChangingCount {
    pub(super) fn new(built: Policy) -> Self {
        let count = AtomicU64::new(built.quota().count());
        Self { built, count, changes: AtomicU64::new(0) }
    }

    pub(super) fn policy(&self) -> Policy {
        // Relaxed: the count orders no other memory, since a closed slot stays closed for a reader of any count. The
        // Relaxed accesses in `set_quota` have the same reason, unless they state another.
        of_count(self.built, self.count.load(Ordering::Relaxed) & COUNT)
    }

    /// The rule in force, for a new permit or for the refund of a permit.
    pub(super) fn rule(&self) -> Option<LogRule> {
        // Acquire: pairs with the Release of `end`. This load comes before all reads of slots. So a permit with this
        // number of changes was made by a thread that saw the slots as the last change has left them.
        let changes = self.changes.load(Ordering::Acquire);
        LogRule::of(&self.policy()).map(|rule| rule.since(changes))
    }

    /// Returns the right to give something back, or `None` while the count is being changed.
    pub(super) fn giving_back(&self) -> Option<GivingBack<'_>> {
        let is_free = |word: u64| word & CHANGING == 0 || planted(Fault::GivenBackInChange);
        let begun = |word: u64| is_free(word).then_some(word + GIVING_BACK);
        // Acquire: pairs with the Release of `end`, so that the slots are seen as the last change has left them.
        let begun = self.count.fetch_update(Ordering::Acquire, Ordering::Relaxed, begun);
        begun.ok().map(|_| GivingBack(&self.count))
    }

    pub(super) fn set_quota(&self, ring: &Ring, policy: Policy) -> Result<(), ChangeError> {
        let count = policy.quota().count();
        // This check comes before the right to change is taken, so that an impossible change never returns `Busy`. Only
        // the count may differ from the first policy.
        if policy != of_count(self.built, count) || count > self.built.quota().count() {
            return Err(ChangeError::Log { policy });
        }
        let before = self.begin().ok_or(ChangeError::Busy)?;
        // The numbers of slots include the units by which a soft limit is softened.
        let [now, then] = [before, count].map(|count| of_count(self.built, count).ceiling());
        if then < now {
            let is_done = close(ring, now - then);
            self.end(before, if is_done { count } else { before });
            return if is_done { Ok(()) } else { Err(ChangeError::Busy) };
        }
        // The count is raised before slots are opened: see `count`. Relaxed: see `policy`.
        self.count.fetch_add(count - before, Ordering::Relaxed);
        open(ring, then - now);
        self.end(before, count);
        Ok(())
    }

    /// Takes the right to change the count, and returns the count. Returns `None` if another thread has the right to
    /// change it, or is giving something back.
    fn begin(&self) -> Option<u64> {
        let free = |word: u64| (word & CHANGING == 0).then_some(word | CHANGING);
        // Acquire: pairs with the Release of `end`, so a change sees the slots as the last change has left them.
        self.count.fetch_update(Ordering::Acquire, Ordering::Relaxed, free).ok()?;
        let word = self.settled();
        if word.is_none() {
            // Relaxed: nothing was changed, so there is nothing to publish.
            self.count.fetch_add(CHANGING.wrapping_neg(), Ordering::Relaxed);
        }
        word
    }

    /// The count at a moment at which no thread is giving units back; `None` if no such moment was found. While
    /// `CHANGING` is set, no thread can begin to give units back.
    fn settled(&self) -> Option<u64> {
        // Acquire: pairs with the Release at the end of each refund (the drop of `GivingBack`).
        let words = (0..scale::rounds(ROUNDS)).map(|_| self.count.load(Ordering::Acquire));
        let is_settled = |word: u64| word & !CHANGING <= COUNT || planted(Fault::GivenBackInChange);
        words.filter(|&word| is_settled(word)).map(|word| word & COUNT).next()
    }

    /// Ends a change from the count `before` to `count`, which are equal if the change was refused.
    fn end(&self, before: u64, count: u64) {
        if before != count {
            // Release: pairs with the Acquire of `rule`. The change is counted before the right to change is given up,
            // since only the thread with this right may count changes.
            self.changes.fetch_add(1, Ordering::Release);
        }
        // A raised count has been written already, so only a lowered count is written here.
        let lowered = before.saturating_sub(count);
        // Release: pairs with the Acquire of `begin` and of `giving_back`.
        self.count.fetch_add((lowered + CHANGING).wrapping_neg(), Ordering::Release);
    }
}

/// Closes the `units` slots with the earliest times. It closes none if some of the earliest slots stay marked.
///
/// Lock-free: if a round is not counted by `round`, other threads have removed marks, so they have made progress.
fn close(ring: &Ring, units: u64) -> bool {
    let in_use = |word: u64| (!is_marked(word)).then_some(word);
    let (mut done, mut round) = (0, 0);
    while round < scale::rounds(ROUNDS) {
        done += rewrite_least(ring, units - done, in_use, closed);
        let Earlier { unmarked, marked } = earlier(ring);
        // Marked slots prevent the change: too few unmarked slots were left to close, or a marked slot is earlier than
        // a closed slot.
        if done < units || marked > 0 {
            round += 1;
        } else if unmarked == 0 {
            return true;
        }
        // Slots are exchanged. Some are closed first, and then the same number is opened, so that at no moment more
        // slots are in use than before.
        open(ring, rewrite_least(ring, unmarked, in_use, closed));
    }
    // The change is refused. Its only effect may be that a request during it was denied.
    open(ring, done);
    false
}

/// The numbers of slots in use that are earlier than the latest closed slot.
struct Earlier {
    unmarked: u64,
    marked: u64,
}

/// The slots are read one after the other. This is enough, because only the caller closes slots. Until the caller gives
/// up its right to change the count, the time of a slot in use (without its mark) only rises, apart from a reset.
fn earlier(ring: &Ring) -> Earlier {
    let latest_ns = words(ring).filter(|&word| is_closed(word)).map(time).max().unwrap_or(0);
    let mut earlier = Earlier { unmarked: 0, marked: 0 };
    if planted(Fault::ClosedBesideMarks) {
        return earlier;
    }
    for word in words(ring).filter(|&word| !is_closed(word) && time(word) < latest_ns) {
        *(if is_marked(word) { &mut earlier.marked } else { &mut earlier.unmarked }) += 1;
    }
    earlier
}

fn words(ring: &Ring) -> impl Iterator<Item = u64> {
    (0..ring.rows()).flat_map(|row| ring.row(row)).map(load)
}

/// Opens the `units` closed slots with the latest times. There are enough closed slots, since only a change opens
/// slots.
fn open(ring: &Ring, units: u64) {
    // The number of a slot is the complement of its time, so the slot with the latest time has the least number.
    let number = |word| if planted(Fault::EarliestOpened) { time(word) } else { !time(word) };
    let latest_first = |word: u64| is_closed(word).then(|| number(word));
    rewrite_least(ring, units, latest_first, time);
}

/// Rewrites the `units` slots with the least numbers, where `number` gives a number to a slot or to none. Returns how
/// many slots were rewritten, which is less than `units` if fewer slots have a number.
///
/// Lock-free: a further round means that other threads have taken slots, given them back, or reset the log.
fn rewrite_least(
    ring: &Ring,
    units: u64,
    number: impl Fn(u64) -> Option<u64>,
    next: impl Fn(u64) -> u64,
) -> u64 {
    let mut missing = units;
    while missing > 0
        && let Some(last) = nth_least(ring, missing, &number)
    {
        // The slots with numbers below `last` are rewritten first. Then slots with the number `last` are rewritten,
        // until there are enough.
        for most in [last.saturating_sub(1), last] {
            let to = |word| number(word).filter(|number| *number <= most).map(|_| next(word));
            missing -= rewrite(ring, missing, to);
        }
    }
    units - missing
}

/// The nth least of the slots' numbers, or the largest number if fewer than n slots have one. It is found by bisection,
/// since nothing may be allocated.
fn nth_least(ring: &Ring, nth: u64, number: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let numbers = || words(ring).filter_map(&number);
    let is_enough = |most| numbers().filter(|number| *number <= most).count() as u64 >= nth;
    // The bisection begins with the least and the largest number, which saves steps: each step reads all slots.
    let [mut least, mut most] = numbers()
        .fold([u64::MAX, 0], |[least, most], number| [least.min(number), most.max(number)]);
    // No slot has a number.
    if least > most {
        return None;
    }
    // This shortcut applies if all slots have the same number, as before the first request.
    if is_enough(least) {
        return Some(least);
    }
    while least < most {
        let middle = least + (most - least) / 2;
        if is_enough(middle) { most = middle } else { least = middle + 1 }
    }
    Some(least)
}
