//! A log whose count may change: [`LimiterBuilder::changing`](crate::LimiterBuilder::changing).
//!
//! The limit is the number of slots that are in use. To lower it, the slots with the earliest times are *closed*, each
//! by one compare-and-swap. To raise it, the closed slots with the latest times are opened, and keep their times. So
//! the slots in use are always those with the latest times. Spent units stay spent. While times rise, a request is
//! admitted if its units and those of the window before it are at most the limit, whatever limit was in force when
//! these were admitted.
//!
//! A decision does not know about changes. A closed slot is marked, so it reads as taken, and each unit is still taken
//! by one compare-and-swap of a slot that is in use at that moment. The bound of `slots.rs` holds unchanged: no window
//! ever holds more units than there are slots, and between two changes none holds more than are in use.
//!
//! Only the count can change, up to that of the first policy: all memory is taken when the log is built. A slot holds
//! the instant from which it is free, and not the window for which it was taken. If windows could change, a slot that
//! is yet to be rewritten would look like one that was just taken under the new window.
//!
//! # Why no slot in use is earlier than a closed one
//! If one were earlier, it would be free while the unit of the closed one still counts. Then more than the limit would
//! be admitted for the rest of that window, even after every request in flight has ended. When a change begins, none is
//! earlier. After that one of these cases holds for each slot:
//!
//! * *It is taken, or a denial is recorded in it.* It then holds a later time than before.
//! * *It is marked* by a request of several units, which will put back the time under the mark or write a later one. So
//!   the time under the mark is the one that matters here. A marked slot cannot be closed, since only its owner may
//!   write to it. So the others are closed, and then all slots are read once more. An unmarked slot may be earlier than
//!   a closed one, if its mark has gone meanwhile. Then the two are exchanged: the earlier one is closed first, so that
//!   no more are in use than before. If a marked one is earlier, the slots are read again, a few times. If the mark
//!   still stands after that, the closed slots are opened again, and the change is refused. Slots that are marked later
//!   do not matter, since none is earlier.
//! * *It is given back*, which lowers its time. So giving back and a change exclude each other: both are announced in
//!   the word of the count, and the one that comes second is refused. A permit from before the change is worth nothing
//!   after it: its slot may be later than a closed one, but the time that it would put back need not be. A permit from
//!   after the change took a slot that was no earlier than the closed ones, and puts back no earlier time than it
//!   found. Units that are given back without a permit come out of the closed slots first: as long as a closed slot is
//!   not free, more units are spent than the limit allows.
//! * *It is reset*, which lowers each slot, in use or not. A reset is never refused. A reset that meets a change may
//!   also forgive units that are admitted while it runs, but none that come after.
//!
//! The third case could also be solved without a refusal, by exchanging slots in a refund as well. That takes two
//! writes, between which other threads may come, and a stalled refund could meet the next change in two orders. And a
//! change that does not give up would have to wait for a thread that may not be running.
//!
//! No thread waits. A change is refused if, after some readings, slots still are marked or a thread still is giving
//! something back. Such a change has no effect, except that a request which came meanwhile may have been denied.

use crate::change::ChangeError;
use crate::policy::{Policy, of_count};
use crate::sync::{AtomicU64, Fault, Ordering, planted, scale};

use super::ring::Ring;
use super::rule::LogRule;
use super::slots::{Slots, closed, is_closed, is_marked, load, time};
use super::take::rewrite;

/// Set in the count while a thread changes it.
const CHANGING: u64 = 1 << 63;

/// Added to the count by each thread that gives something back, for as long as that takes. There are fewer than 2^31.
const GIVING_BACK: u64 = 1 << 32;

/// The bits of the count itself: a log has 2^20 slots at most.
const COUNT: u64 = GIVING_BACK - 1;

/// A change is refused after this many readings that find other threads' work unfinished. A thread that runs ends a
/// request of several units in about the time of a few readings of the slots.
const ROUNDS: usize = 64;

/// The count of a log that may change.
#[derive(Debug)]
pub(super) struct ChangingCount {
    /// The first policy, which has the largest count.
    built: Policy,
    /// The count in force, and what is under way. The count is never less than the number of slots in use, so no answer
    /// names more units left than there are.
    count: AtomicU64,
    /// The number of changes of the count so far.
    changes: AtomicU64,
}

/// The right to give something back while the count does not change.
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
        // Relaxed, here and in `set_quota` except where that gives another reason: the count orders nothing, since a
        // slot is closed whatever count a reader has seen.
        of_count(self.built, self.count.load(Ordering::Relaxed) & COUNT)
    }

    /// The rule in force, for a permit, or for giving back units of one.
    pub(super) fn rule(&self) -> Option<LogRule> {
        // Acquire, and before a slot is read: pairs with the Release of `end`. A permit of this change has found the
        // slots as the change has left them.
        let changes = self.changes.load(Ordering::Acquire);
        LogRule::of(&self.policy()).map(|rule| rule.since(changes))
    }

    /// Returns the right to give something back, or `None` while the count changes.
    pub(super) fn giving_back(&self) -> Option<GivingBack<'_>> {
        let is_free = |word: u64| word & CHANGING == 0 || planted(Fault::GivenBackInChange);
        let begun = |word: u64| is_free(word).then_some(word + GIVING_BACK);
        // Acquire: pairs with the Release of `end`, so that the slots are seen as the last change has left them.
        let begun = self.count.fetch_update(Ordering::Acquire, Ordering::Relaxed, begun);
        begun.ok().map(|_| GivingBack(&self.count))
    }

    pub(super) fn set_quota(&self, ring: &Ring, policy: Policy) -> Result<(), ChangeError> {
        let count = policy.quota().count();
        // This comes before the right to change is taken: a change that is impossible is never `Busy`. The rest of the
        // policy stays as it was.
        if policy != of_count(self.built, count) || count > self.built.quota().count() {
            return Err(ChangeError::Log { policy });
        }
        let before = self.begin().ok_or(ChangeError::Busy)?;
        // The slots include those by which a soft limit is softened.
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

    /// Takes the right to change the count, and returns the count. `None` means that another thread has the right, or
    /// is giving something back.
    fn begin(&self) -> Option<u64> {
        let free = |word: u64| (word & CHANGING == 0).then_some(word | CHANGING);
        // Acquire: pairs with the Release of `end`, so a change sees the slots as the last one has left them.
        self.count.fetch_update(Ordering::Acquire, Ordering::Relaxed, free).ok()?;
        let word = self.settled();
        if word.is_none() {
            // Relaxed: nothing was changed.
            self.count.fetch_add(CHANGING.wrapping_neg(), Ordering::Relaxed);
        }
        word
    }

    /// The count, at a moment when no thread is giving anything back. While `CHANGING` is set, no thread begins to give
    /// anything back.
    fn settled(&self) -> Option<u64> {
        // Acquire: pairs with the Release where each of them has ended.
        let words = (0..scale::rounds(ROUNDS)).map(|_| self.count.load(Ordering::Acquire));
        let is_settled = |word: u64| word & !CHANGING <= COUNT || planted(Fault::GivenBackInChange);
        words.filter(|&word| is_settled(word)).map(|word| word & COUNT).next()
    }

    /// Ends a change from one count to another, or to the same one if the change was refused.
    fn end(&self, before: u64, count: u64) {
        if before != count {
            // Release: pairs with the Acquire of `rule`. It comes before the right to change is given up, since only
            // the thread that has this right counts changes.
            self.changes.fetch_add(1, Ordering::Release);
        }
        // A raised count has been written already.
        let lowered = before.saturating_sub(count);
        // Release: pairs with the Acquire of `begin` and of `giving_back`.
        self.count.fetch_add((lowered + CHANGING).wrapping_neg(), Ordering::Release);
    }
}

/// Closes the `units` slots with the earliest times. It closes none if other slots that are as early stay marked.
///
/// Lock-free: a further round that is not counted means that other threads have ended their marks.
fn close(ring: &Ring, units: u64) -> bool {
    let in_use = |word: u64| (!is_marked(word)).then_some(word);
    let (mut done, mut round) = (0, 0);
    while round < scale::rounds(ROUNDS) {
        done += rewrite_least(ring, units - done, in_use, closed);
        let Earlier { unmarked, marked } = earlier(ring);
        // There are not enough slots, or not the earliest ones, until marks go.
        if done < units || marked > 0 {
            round += 1;
        } else if unmarked == 0 {
            return true;
        }
        // Slots are exchanged: first some are closed, then as many are opened, so that no more than before are in use
        // at any moment.
        open(ring, rewrite_least(ring, unmarked, in_use, closed));
    }
    // The change is refused. It may have denied a request that came meanwhile, and has done nothing else.
    open(ring, done);
    false
}

/// Slots in use that are earlier than the latest closed one.
struct Earlier {
    unmarked: u64,
    marked: u64,
}

/// Each slot is read by itself. That is enough, because only the caller closes slots, and while it has the right to,
/// the time of a slot in use only rises, apart from its mark.
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

/// Opens the `units` closed slots with the latest times. There are that many, since only a change opens any.
fn open(ring: &Ring, units: u64) {
    // The number of a slot is the complement of its time, so the latest time has the least number.
    let number = |word| if planted(Fault::EarliestOpened) { time(word) } else { !time(word) };
    let latest_first = |word: u64| is_closed(word).then(|| number(word));
    rewrite_least(ring, units, latest_first, time);
}

/// Rewrites the `units` slots with the least numbers, and returns how many it has rewritten. They are fewer if no other
/// slot has a number.
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
        // First the slots with numbers below the last one are rewritten. Then slots with that number are rewritten,
        // until there are enough.
        for most in [last.saturating_sub(1), last] {
            let to = |word| number(word).filter(|number| *number <= most).map(|_| next(word));
            missing -= rewrite(ring, missing, to);
        }
    }
    units - missing
}

/// The nth of the slots' numbers, least first, or the last if there are fewer. It is found by bisection, since nothing
/// is allocated.
fn nth_least(ring: &Ring, nth: u64, number: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let numbers = || words(ring).filter_map(&number);
    let is_enough = |most| numbers().filter(|number| *number <= most).count() as u64 >= nth;
    // The bisection begins between the least and the largest number, since each halving reads all slots.
    let [mut least, mut most] = numbers()
        .fold([u64::MAX, 0], |[least, most], number| [least.min(number), most.max(number)]);
    // No slot has a number.
    if least > most {
        return None;
    }
    // Often no slot has ever been taken, and then all have the same number.
    if is_enough(least) {
        return Some(least);
    }
    while least < most {
        let middle = least + (most - least) / 2;
        if is_enough(middle) { most = middle } else { least = middle + 1 }
    }
    Some(least)
}
