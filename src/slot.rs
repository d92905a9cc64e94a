//! [`Slot`]: the place of a word; and the two loops that change such a word, one for decisions and one for amendments.
//!
//! The cell of a limiter, a cell whose quota may change, and a key's word in a table differ in how the word is found,
//! read and replaced. The outcome of a request on a state is one pure function for all of them ([`plan`]), and so is an
//! amendment ([`Ruled::amend`]).
//!
//! Nearly all requests take faster paths. A check of a limiter (`Cell::charge`), or of a key that is found in its table
//! (`lookup/hit.rs`), has its own loop around the same `plan`. Plain GCRA, whose word is a time and nothing else, also
//! has arithmetic of its own.

use crate::algorithm::{Decides, Held, Kernel, Ruled};
use crate::decision::{Outcome, View};
use crate::refund::{Amendment, Found};
use crate::verb::{HeldAt, Verb, Verbs, Wish, plan};
use crate::verdict::Verdict;

/// A word as it was read.
pub(crate) trait Reading {
    /// The arithmetic of the quota to which the word belongs.
    fn ruled(&self) -> Ruled<'_>;

    /// The state of the word, and the instant from which the state is measured. A new word may be packed for this
    /// instant.
    fn seen(&self) -> (Held, u64);

    /// The largest distance by which the time of this word may lie ahead.
    fn most(&self) -> u64;

    /// The outcome of a request on this word, and the next state, if one is to be written.
    #[inline(always)]
    fn plan(&self, wish: Wish) -> (Outcome, Option<Held>) {
        let (ruled, seen) = (self.ruled(), self.seen());
        match ruled.kernel {
            // Plain GCRA is decided by the code that is compiled for it alone, as on the faster paths.
            Kernel::Gcra(gcra) if ruled.rules.are_none() => plan_by(gcra, wish, seen),
            _ => plan_by(&ruled, wish, seen),
        }
    }

    /// The state of the word, measured from an instant near the word's own time. It is used if the word's time lies too
    /// far ahead of the instant of `seen`.
    fn nearby(&self) -> (Held, u64) {
        self.seen()
    }

    /// True if the word has the bits that a charge left.
    fn is_left(&self, charge: &View) -> bool;

    /// True if a charge was made under the quota to which the word belongs, and its permit has not become worthless.
    fn is_of(&self, _charge: &View) -> bool {
        true
    }

    /// True if the word has a surplus beside its state. A reset also forgets the surplus.
    fn has_surplus(&self) -> bool {
        false
    }
}

/// [`plan`] for a state and the instant from which the state is measured.
#[inline(always)]
pub(crate) fn plan_by(
    algorithm: &impl Verbs,
    wish: Wish,
    (held, at_ns): (Held, u64),
) -> (Outcome, Option<Held>) {
    let seen = HeldAt { held, at_ns, moment: algorithm.moment(at_ns), late: 0 };
    plan(algorithm, wish, seen, None, Some)
}

/// A place with a word.
pub(crate) trait Slot<R: Reading> {
    /// Replaces the word that was read by a word with this state. Returns false if another thread has replaced the
    /// word, or if the CAS failed spuriously.
    fn write(&self, read: &R, next: Held) -> bool;

    /// [`write`](Self::write) for a reset, which forgets all charges.
    fn clear(&self, read: &R) -> bool {
        self.write(read, Held::IDLE)
    }
}

/// Decides on the word that `read` finds, and also returns what was read. Returns `None` if `read` finds no word.
///
/// Lock-free: the loop repeats only if another thread has changed the word, or after a spurious failure.
#[inline(always)]
pub(crate) fn decide<R: Reading>(
    slot: &impl Slot<R>,
    verb: Verb,
    cost: u64,
    charge: bool,
    read: impl Fn() -> Option<R>,
) -> Option<(R, Outcome)> {
    loop {
        let read = read()?;
        let (outcome, next) = read.plan(Wish::of(verb, cost, charge, read.most()));
        match next {
            // This is a plain denial or a peek, so nothing is written.
            None if outcome.before.is_cut() && outcome.verdict == Verdict::Denied => {
                // The request is so late that its wait cannot be computed from its own time.
                let (near, at_ns) = read.nearby();
                let (mark, held, at_ns) = read.ruled().tell(Verdict::Denied, near, at_ns, 0, 0);
                return Some((read, Outcome { mark, held, at_ns, ..outcome }));
            }
            None => return Some((read, outcome)),
            // The CAS replaces the exact word for which the plan was made.
            Some(next) if slot.write(&read, next) => return Some((read, outcome)),
            // Another thread has changed the word, or the CAS failed spuriously. The word is read again.
            Some(_) => {}
        }
    }
}

/// [`decide`] for a place that always has a word.
#[inline(always)]
pub(crate) fn decide_there<R: Reading>(
    slot: &impl Slot<R>,
    verb: Verb,
    cost: u64,
    charge: bool,
    read: impl Fn() -> R,
) -> (R, Outcome) {
    loop {
        // The first round always ends the loop, since `read` returns a word.
        if let Some(decided) = decide(slot, verb, cost, charge, || Some(read())) {
            return decided;
        }
    }
}

/// Amends the word that `read` finds (a refund, a cancellation or a reset), and returns how many units were given back,
/// rounded up. Returns `None` if `read` finds no word.
///
/// `read` also returns the time, and it reads the clock after the word. So the time is no earlier than the clock
/// readings of all threads that have charged the word. With an earlier time, units that had drained before another
/// charge would still seem to be owed. Lock-free, as [`decide`] is.
pub(crate) fn amend<R: Reading>(
    slot: &impl Slot<R>,
    amendment: Amendment<'_>,
    read: impl Fn() -> Option<(R, u64)>,
) -> Option<u64> {
    loop {
        let (read, now_ns) = read()?;
        // The charge was made under another quota, or its permit has become worthless. The charge stays until it has
        // drained.
        if amendment.charge().is_some_and(|charge| !read.is_of(charge)) {
            return Some(0);
        }
        let (held, at_ns) = read.seen();
        // `at_ns` is never in the future, so `now_ns` is raised to it: see `Gcra::given_back`.
        let found = Found { held, at_ns, now_ns: now_ns.max(at_ns) };
        let (next, units) = read.ruled().amend(found, amendment, |charge| read.is_left(charge));
        let is_reset = matches!(amendment, Amendment::Reset);
        let changes = next != held || (is_reset && read.has_surplus());
        // There is nothing to give back, so nothing is written.
        if !changes {
            return Some(0);
        }
        let written = if is_reset { slot.clear(&read) } else { slot.write(&read, next) };
        if written {
            return Some(units);
        }
    }
}
