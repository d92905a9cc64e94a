//! [`Slot`]: a place where a word stands that requests are decided on; and the two loops that change one, of a decision and
//! of an amendment.
//!
//! A cell of a limiter, one whose quota may change and a key's word in a table differ in how their word is found, read and
//! replaced. What comes of a request on what was read is one pure function for all ([`plan`]), and so is
//! what comes of an amendment ([`Ruled::amend`]).
//!
//! The paths that nearly all requests take do not come here, for speed: a check that hits (`Cell::charge`, `lookup/hit.rs`)
//! has a loop of its own around the same `plan`, and plain GCRA, whose word is a time and nothing else, has arithmetic of its
//! own as well.

use crate::algorithm::{Decides, Held, Kernel, Ruled};
use crate::decision::{Outcome, View};
use crate::refund::{Amendment, Found};
use crate::verb::{HeldAt, Verb, Verbs, Wish, plan};
use crate::verdict::Verdict;

/// What was read of a word.
pub(crate) trait Reading {
    /// The arithmetic of the quota that it is counted in.
    fn ruled(&self) -> Ruled<'_>;

    /// What the word holds, and the instant that it is seen from, at which it may be written.
    fn seen(&self) -> (Held, u64);

    /// The furthest that a time of this word may lie ahead.
    fn most(&self) -> u64;

    /// What comes of a request on what was read, and what the word is then to hold, if anything is to be written.
    #[inline(always)]
    fn plan(&self, wish: Wish) -> (Outcome, Option<Held>) {
        let (ruled, seen) = (self.ruled(), self.seen());
        match ruled.kernel {
            // Plain GCRA by the code that is compiled for it alone, as where a word is hit.
            Kernel::Gcra(gcra) if ruled.rules.are_none() => plan_by(gcra, wish, seen),
            _ => plan_by(&ruled, wish, seen),
        }
    }

    /// What the word holds, seen from near its own time, if that lies too far ahead of the instant to be told from there.
    fn nearby(&self) -> (Held, u64) {
        self.seen()
    }

    /// Whether the word has the bits that a charge left.
    fn is_left(&self, charge: &View) -> bool;

    /// Whether a charge was made under the quota that the word is counted in.
    fn is_of(&self, _charge: &View) -> bool {
        true
    }

    /// Whether the word has anything beside what it holds that a reset forgets.
    fn has_surplus(&self) -> bool {
        false
    }
}

/// [`plan`] on what was read, and the instant that it was seen from.
#[inline(always)]
pub(crate) fn plan_by(
    algorithm: &impl Verbs,
    wish: Wish,
    (held, at_ns): (Held, u64),
) -> (Outcome, Option<Held>) {
    let seen = HeldAt { held, at_ns, moment: algorithm.moment(at_ns), late: 0 };
    plan(algorithm, wish, seen, None, Some)
}

/// A place where a word stands.
pub(crate) trait Slot<R: Reading> {
    /// Replaces the word that was read by one that holds this; `false` if another has taken its place, or for no reason.
    fn write(&self, read: &R, next: Held) -> bool;

    /// The same for a reset, which forgets all.
    fn clear(&self, read: &R) -> bool {
        self.write(read, Held::IDLE)
    }
}

/// Decides on the word that `read` finds; `None` if it finds none. Also says what was read.
///
/// Lock-free: each turn of the loop that does not end it means that another thread has changed the word.
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
            // A plain denial, or a question: nothing is written.
            None if outcome.before.is_cut() && outcome.verdict == Verdict::Denied => {
                // The request comes so late that the word cannot tell its wait from there.
                let (near, at_ns) = read.nearby();
                let (mark, held, at_ns) = read.ruled().tell(Verdict::Denied, near, at_ns, 0, 0);
                return Some((read, Outcome { mark, held, at_ns, ..outcome }));
            }
            None => return Some((read, outcome)),
            // From the exact word that the plan was made on.
            Some(next) if slot.write(&read, next) => return Some((read, outcome)),
            // The word was changed by another thread meanwhile, or the CAS failed for no reason. It is read anew.
            Some(_) => {}
        }
    }
}

/// [`decide`] where there always is a word.
#[inline(always)]
pub(crate) fn decide_there<R: Reading>(
    slot: &impl Slot<R>,
    verb: Verb,
    cost: u64,
    charge: bool,
    read: impl Fn() -> R,
) -> (R, Outcome) {
    loop {
        // At once.
        if let Some(decided) = decide(slot, verb, cost, charge, || Some(read())) {
            return decided;
        }
    }
}

/// Amends the word that `read` finds, and says how many units that gave back, rounded up; `None` if it finds none.
///
/// `read` also says what the time is, and reads that only after the word: so it is no earlier than the clock of any thread
/// that has charged the word. An earlier one would take for undrained what drained before they came. Lock-free, as
/// [`decide`] is.
pub(crate) fn amend<R: Reading>(
    slot: &impl Slot<R>,
    amendment: Amendment<'_>,
    read: impl Fn() -> Option<(R, u64)>,
) -> Option<u64> {
    loop {
        let (read, now_ns) = read()?;
        // Charged under an earlier quota, whose units are not this one's: it stays until it has drained.
        if amendment.charge().is_some_and(|charge| !read.is_of(charge)) {
            return Some(0);
        }
        let (held, at_ns) = read.seen();
        // Time has come as far as the instant that the word is read at, whatever the caller's now: see `Gcra::given_back`.
        let found = Found { held, at_ns, now_ns: now_ns.max(at_ns) };
        let (next, units) = read.ruled().amend(found, amendment, |charge| read.is_left(charge));
        let is_reset = matches!(amendment, Amendment::Reset);
        // Nothing to give back: nothing is written.
        if next == held && !(is_reset && read.has_surplus()) {
            return Some(0);
        }
        let written = if is_reset { slot.clear(&read) } else { slot.write(&read, next) };
        if written {
            return Some(units);
        }
    }
}
