//! A log whose count may change: [`Limiter::changing`](crate::Limiter::changing).
//!
//! The limit is the number of slots that are in use. To lower it slots are *closed*, each by one compare-and-swap: those
//! with the earliest times. To raise it closed ones are opened, those with the latest times, and hold what they held. So
//! the slots in use are always those with the latest times: what was spent stays spent, and while times rise a request is
//! admitted if the units of the window before it, whatever limit was in force then, and its own are at most the limit.
//!
//! A decision knows nothing of this. A closed slot is marked, so it reads as taken, and each unit is still taken by one
//! compare-and-swap of a slot that is in use at that moment. The bound of `slots.rs` stands as it is: no window ever holds
//! more units than there are slots, nor more than are in use from a change to the next.
//!
//! Only the count can change, up to that of the first policy: all memory is taken when the log is built. A slot says from
//! when on it is free, not for which window it was taken: were windows to change, a slot that is yet to be rewritten
//! could not be told from one that was just taken under the new one.
//!
//! No thread waits: a slot that a request of several units has just marked cannot be closed, and if there are not enough
//! others, those closed so far are opened again, and the change is refused.

use crate::change::ChangeError;
use crate::policy::{Policy, of_count};
use crate::sync::{AtomicU64, Ordering};

use super::ring::Ring;
use super::slots::{Slots, closed, is_closed, is_marked, load, time};
use super::take::rewrite;

/// Set in the count while a thread changes it.
const CHANGING: u64 = 1 << 63;

/// What may change.
#[derive(Debug)]
pub(super) struct ChangingCount {
    /// The first policy, which has the largest count.
    built: Policy,
    /// The count in force. It is never less than that of the slots in use: so no more is told to be left.
    count: AtomicU64,
}

impl ChangingCount {
    pub(super) fn new(built: Policy) -> Self {
        Self { built, count: AtomicU64::new(built.quota().count()) }
    }

    pub(super) fn policy(&self) -> Policy {
        // Relaxed, here and in `set_quota` but for what is said there: a count orders nothing, slots are closed whatever
        // a reader believes.
        of_count(self.built, self.count.load(Ordering::Relaxed) & !CHANGING)
    }

    pub(super) fn set_quota(&self, ring: &Ring, policy: Policy) -> Result<(), ChangeError> {
        let count = policy.quota().count();
        // Before the right to change is taken: what cannot be is never `Busy`. The rest of the policy stays as it was.
        if policy != of_count(self.built, count) || count > self.built.quota().count() {
            return Err(ChangeError::Log { policy });
        }
        // Relaxed: see `policy`.
        let before = self.count.load(Ordering::Relaxed) & !CHANGING;
        // Acquire: pairs with the Release below, so a change sees the slots as the last one has left them.
        let begun = self.count.compare_exchange(
            before,
            before | CHANGING,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // Another thread is changing it, or has just done so.
        if begun.is_err() {
            return Err(ChangeError::Busy);
        }
        // Slots: of a soft limit those that it is softened by, too.
        let [now, then] = [before, count].map(|count| of_count(self.built, count).ceiling());
        let is_done = if then < now {
            close(ring, now - then)
        } else {
            // First told, then opened: see `count`. Relaxed: see `policy`.
            self.count.store(count | CHANGING, Ordering::Relaxed);
            open(ring, then - now);
            true
        };
        // Release: pairs with the Acquire above.
        self.count.store(if is_done { count } else { before }, Ordering::Release);
        if is_done { Ok(()) } else { Err(ChangeError::Busy) }
    }
}

/// Closes so many slots, those with the earliest times; or none, if too many of them are marked.
fn close(ring: &Ring, units: u64) -> bool {
    let in_use = |word: u64| (!is_marked(word)).then_some(word);
    let done = rewrite_least(ring, units, in_use, closed);
    // None is without a mark any more.
    if done < units {
        // A request that came meanwhile may have been denied, which is all that this has done.
        open(ring, done);
    }
    done == units
}

/// Opens so many of the closed slots, those with the latest times. There are as many: only a change opens any.
fn open(ring: &Ring, units: u64) {
    // The complement: the latest time is the least of these numbers.
    let latest_first = |word: u64| is_closed(word).then(|| !time(word));
    rewrite_least(ring, units, latest_first, time);
}

/// Rewrites so many slots, those of which a number is the least: how many, which are fewer if no other has a number.
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
        // Those below the last, and then as many of the last as are missing.
        for most in [last.saturating_sub(1), last] {
            let to = |word| number(word).filter(|number| *number <= most).map(|_| next(word));
            missing -= rewrite(ring, missing, to);
        }
    }
    units - missing
}

/// The nth of the slots' numbers, least first, or the last if there are fewer: by bisection, since nothing is allocated.
fn nth_least(ring: &Ring, nth: u64, number: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let numbers = || {
        let slots = (0..ring.rows()).flat_map(|row| ring.row(row));
        slots.filter_map(|slot| number(load(slot)))
    };
    let is_enough = |most| numbers().filter(|number| *number <= most).count() as u64 >= nth;
    // Between these, not from the beginning of time on: each halving reads all slots.
    let [mut least, mut most] = numbers()
        .fold([u64::MAX, 0], |[least, most], number| [least.min(number), most.max(number)]);
    // None has a number.
    if least > most {
        return None;
    }
    // Often all of them are free from the beginning of time.
    if is_enough(least) {
        return Some(least);
    }
    while least < most {
        let middle = least + (most - least) / 2;
        if is_enough(middle) { most = middle } else { least = middle + 1 }
    }
    Some(least)
}
