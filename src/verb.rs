//! [`Wish`]: the verb and the cost of a request; and [`plan`], the pure function that decides a request on a state.
//!
//! A check is the basic verb. The other verbs differ in how much of the cost they charge and in how far the debt may
//! reach:
//!
//! ```text
//! check     all of it, if it fits                        debt + cost <= burst
//! up to     what fits, if that is anything
//! reserve   all of it, also if it fits only w from now   debt + cost <= burst + rate * w
//! charge    all of it, fit or not
//! try       as check, but a denial is not counted yet
//! refuse    nothing; a denial is counted, if it still is one
//! ```
//!
//! The last two verbs are the two halves of a check. They are for code that tries something else between the halves
//! (`fallback`, `lease`) or that first peeks several limits (`all`). They differ from a check only under policies that
//! count denials.
//!
//! Every store decides with [`plan`], which returns the outcome and the next state.
//!
//! Only GCRA can give a request a place in the future, since its word is a time. Under a window, a reservation is
//! admitted only if it fits now. A charge to a window takes as much as fits. If the policy allows a debt, a charge
//! raises the current count up to the limit plus that debt.

use crate::algorithm::{Decides, Gcra, Held, Kernel, Moment, Ruled};
use crate::decision::Outcome;
use crate::sync::{Fault, planted};
use crate::verdict::Verdict;

/// The verbs of a request. They differ in the part of the cost that is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Charges the whole cost, if it fits.
    Check,
    /// Charges as much of the cost as fits.
    UpTo,
    /// Charges the whole cost, if it fits within `wait_ns` nanoseconds and behind at most `behind` units. `counted` is
    /// false if a denial is not to be counted because the request continues to wait.
    Reserve { wait_ns: u64, behind: u64, counted: bool },
    /// Charges as much of the cost as the word can hold, even if it does not fit.
    Charge,
    /// Charges the whole cost, if it fits. A denial is not counted.
    Try,
    /// Charges nothing. If the cost does not fit, a denial is counted.
    Refuse,
}

impl Verb {
    /// True if a denial is to be counted, provided that the policy counts denials.
    #[inline(always)]
    pub(crate) fn counts_its_denial(self) -> bool {
        !matches!(self, Self::Try | Self::Reserve { counted: false, .. })
    }
}

/// A verb, its cost, and the largest debt of the word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) verb: Verb,
    pub(crate) cost: u64,
    /// True if the request is charged when it is admitted; false for a peek.
    pub(crate) charge: bool,
    /// True if a denial is counted, provided that the policy counts denials.
    pub(crate) counts: bool,
    /// The largest debt for which the word has room, in the algorithm's unit of time.
    pub(crate) most: u64,
}

/// The state after an admitted request, and the cost that was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    pub(crate) held: Held,
    pub(crate) cost: u64,
}

impl Wish {
    /// True if the request would be denied in every state of the word.
    #[inline(always)]
    pub(crate) fn is_never(self, kernel: &Kernel) -> bool {
        let is_check = matches!(self.verb, Verb::Check | Verb::Try | Verb::Refuse);
        is_check && self.cost > kernel.limit()
    }

    /// The wish for a verb, on a word that can hold a debt of at most `most`.
    #[inline(always)]
    pub(crate) fn of(verb: Verb, cost: u64, charge: bool, most: u64) -> Self {
        Self { verb, cost, charge, counts: verb.counts_its_denial(), most }
    }

    /// The cost that a denial reports. For [`Verb::UpTo`] it is one unit.
    #[inline(always)]
    pub(crate) fn denied_cost(self) -> u64 {
        match self.verb {
            Verb::UpTo => self.cost.min(1),
            _ => self.cost,
        }
    }
}

/// A request to the algorithm `A`. For any algorithm it can be a check. For an algorithm that implements [`Verbs`] it
/// can have any verb.
pub(crate) trait Asked<A>: Copy {
    /// The cost of the request, in units.
    fn cost(self) -> u64;

    /// True if the units are charged when they are admitted.
    fn charges(self) -> bool;

    /// See [`Wish::denied_cost`].
    fn denied_cost(self) -> u64;

    /// True if a denial is to be counted, provided that the policy counts denials.
    fn counts_its_denial(self) -> bool;

    /// The charge, or `None` if the request is denied.
    fn apply(self, algorithm: &A, seen: &HeldAt) -> Option<Charged>;
}

/// A check of `cost` units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    pub(crate) cost: u64,
    /// True if the request is charged when it is admitted; false for a peek.
    pub(crate) charge: bool,
}

impl Check {
    /// A check of 0 units is a peek.
    #[inline(always)]
    pub(crate) fn of(cost: u64) -> Self {
        Self { cost, charge: cost > 0 }
    }
}

impl<A: Decides> Asked<A> for Check {
    #[inline(always)]
    fn cost(self) -> u64 {
        self.cost
    }

    #[inline(always)]
    fn charges(self) -> bool {
        self.charge
    }

    #[inline(always)]
    fn denied_cost(self) -> u64 {
        self.cost
    }

    #[inline(always)]
    fn counts_its_denial(self) -> bool {
        true
    }

    #[inline(always)]
    fn apply(self, algorithm: &A, seen: &HeldAt) -> Option<Charged> {
        let held = algorithm.step(seen.held, seen.moment, seen.late, self.cost)?;
        Some(Charged { held, cost: self.cost })
    }
}

impl<A: Verbs> Asked<A> for Wish {
    #[inline(always)]
    fn cost(self) -> u64 {
        self.cost
    }

    #[inline(always)]
    fn charges(self) -> bool {
        self.charge
    }

    #[inline(always)]
    fn denied_cost(self) -> u64 {
        Self::denied_cost(self)
    }

    #[inline(always)]
    fn counts_its_denial(self) -> bool {
        self.counts
    }

    #[inline(always)]
    fn apply(self, algorithm: &A, seen: &HeldAt) -> Option<Charged> {
        algorithm.apply(self, seen.held, seen.moment, seen.late)
    }
}

/// The state of a word, and the instant from which it is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldAt {
    pub(crate) held: Held,
    pub(crate) at_ns: u64,
    /// The instant in the algorithm's unit.
    pub(crate) moment: Moment,
    /// The time from the request's own `now` to that instant: see [`Kernel::lateness`].
    pub(crate) late: u64,
}

/// Decides a request on the state of a word, for any store. Returns the outcome. Also returns `written(next)` if the
/// state `next` is to be written, and `kept` otherwise. The result holds only if the word has not been replaced
/// meanwhile.
#[inline(always)]
pub(crate) fn plan<A: Decides, W>(
    algorithm: &A,
    asked: impl Asked<A>,
    seen: HeldAt,
    kept: W,
    written: impl Fn(Held) -> W,
) -> (Outcome, W) {
    let HeldAt { held, at_ns, late, .. } = seen;
    let charge = asked.charges();
    // An undo needs the state before the request, and an answer needs the state after it.
    let outcome = |verdict, after, cost, unpaid| {
        let (mark, after, at_ns) = algorithm.tell(verdict, after, at_ns, late, unpaid);
        Outcome { verdict, mark, before: held, held: after, at_ns, cost }
    };
    match asked.apply(algorithm, &seen) {
        // The request is admitted and charged.
        Some(Charged { held: next, cost }) if charge && cost > 0 => {
            (outcome(Verdict::Allowed, next, cost, 0), written(next))
        }
        // The request is a peek, or charges nothing, so the word stays the same, bit for bit.
        Some(_) => {
            let unpaid = if charge { 0 } else { asked.cost() };
            (outcome(Verdict::Allowed, held, 0, unpaid), kept)
        }
        None => {
            let cost = asked.denied_cost();
            let counts = charge && asked.counts_its_denial();
            match algorithm.refuse(held, at_ns, cost).filter(|_| counts) {
                // Only a policy that counts denials writes this: `cell.rs` explains why each denial is counted once.
                Some(next) => (outcome(Verdict::Denied, next, cost, 0), written(next)),
                // A plain denial writes nothing.
                None => (outcome(Verdict::Denied, held, cost, 0), kept),
            }
        }
    }
}

/// An algorithm that supports every verb.
pub(crate) trait Verbs: Decides {
    /// The charge of a wish, or `None` if it is denied. `late` is [`Kernel::lateness`].
    fn apply(&self, wish: Wish, held: Held, moment: Moment, late: u64) -> Option<Charged>;
}

impl Verbs for Gcra {
    #[inline(always)]
    fn apply(&self, wish: Wish, held: Held, moment: Moment, late: u64) -> Option<Charged> {
        let Wish { verb, cost, most, .. } = wish;
        match verb {
            Verb::Check | Verb::Try => {
                self.step(held, moment, late, cost).map(|held| Charged { held, cost })
            }
            // If the cost fits now, there is no denial to count. Nothing is charged even if the cost fits.
            Verb::Refuse => self.step(held, moment, late, cost).map(|_| Charged { held, cost: 0 }),
            Verb::UpTo => {
                let free = self.remaining(held, late);
                // Not even one unit fits. (A cost of 0 is a peek, which `step` decides.)
                if free == 0 && cost > 0 {
                    return None;
                }
                let cost = cost.min(free);
                self.step(held, moment, late, cost).map(|held| Charged { held, cost })
            }
            Verb::Reserve { wait_ns, behind, .. } => {
                // If the request is so late that its lateness overflows, it would have to wait longer than any caller
                // can allow.
                let late = Some(late).filter(|&late| late < u64::MAX)?;
                let debt = held.ahead.checked_add(self.cost_ticks(cost)?)?;
                // The debt beyond the burst may be as large as the part that drains in the wait, but at most `behind`
                // units.
                let behind = behind.saturating_mul(self.unit_ticks());
                let room = self.burst_ticks().saturating_add(self.passed(0, wait_ns).min(behind));
                // A place whose debt does not fit in the word cannot be promised.
                let fits = debt.checked_add(late)? <= room && debt <= most;
                fits.then_some(Charged { held: Held { ahead: debt, ..Held::IDLE }, cost })
            }
            Verb::Charge => {
                // The planted fault limits the debt to twice the burst, even if the word has room for more.
                let twice = 2 * self.burst_ticks(); // which is below 2^63
                let most = if planted(Fault::DebtStopsAtLimit) { most.min(twice) } else { most };
                // As many whole units are charged as the word can hold.
                let room = most.saturating_sub(held.ahead) / self.unit_ticks();
                let cost = cost.min(room);
                let forgotten = planted(Fault::ChargeForgotten);
                let ahead = held.ahead + if forgotten { 0 } else { cost * self.unit_ticks() };
                Some(Charged { held: Held { ahead, ..Held::IDLE }, cost })
            }
        }
    }
}

/// During a penalty nothing is charged. An admission by any verb sets the number of denials in a row to 0, like the
/// admission of a check.
impl Verbs for Ruled<'_> {
    fn apply(&self, wish: Wish, held: Held, moment: Moment, late: u64) -> Option<Charged> {
        let Some((own, denials)) = self.free(held, moment) else {
            // A penalty denies all requests but a charge. A charge cannot be denied, so it is admitted with 0 units.
            return matches!(wish.verb, Verb::Charge).then_some(Charged { held, cost: 0 });
        };
        let charged = match (wish.verb, self.rules.debt) {
            (Verb::Charge, 1..) => Some(self.kernel.owing(own, moment, wish.cost, self.rules.debt)),
            _ => self.kernel.apply(wish, own, moment, late),
        };
        let Charged { held: next, cost } = charged?;
        // A request that charges nothing does not count as an admission, so it does not end the denials in a row.
        let held = if cost == 0 { self.join(next, denials) } else { self.admitted(next, denials) };
        Some(Charged { held, cost })
    }
}

impl Kernel {
    /// Raises the current count of a window by `cost`, but not above `1 + times` times the limit. Returns the state,
    /// and the number of units by which the count has grown.
    fn owing(&self, held: Held, moment: Moment, cost: u64, times: u32) -> Charged {
        // The field of the count is wide enough, since a policy for which it would be too narrow is refused.
        let most = self.limit().saturating_mul(1 + u64::from(times));
        let grown = |cost| self.charge_up_to(held, moment, cost, most);
        let forgotten = planted(Fault::DebtStopsAtLimit);
        let cost = if forgotten { cost.min(self.remaining(held, moment, 0)) } else { cost };
        let next = grown(cost);
        // The current count is in the lowest bits, and the other counts stay. `grown(0)` is the same state without the
        // charge.
        let charged = next.counts - grown(0).counts;
        // A charge of 0 units leaves the word as it was.
        Charged { held: if charged > 0 { next } else { held }, cost: charged }
    }
}

impl Verbs for Kernel {
    fn apply(&self, wish: Wish, held: Held, moment: Moment, late: u64) -> Option<Charged> {
        if let Self::Gcra(gcra) = self {
            return gcra.apply(wish, held, moment, late);
        }
        let cost = match wish.verb {
            Verb::Check | Verb::Try | Verb::Refuse | Verb::Reserve { .. } => wish.cost,
            // The count of a window stops at the limit, so a charge takes as much as fits.
            Verb::UpTo | Verb::Charge => wish.cost.min(self.remaining(held, moment, late)),
        };
        match wish.verb {
            // Not even one unit fits.
            Verb::UpTo if cost == 0 && wish.cost > 0 => None,
            // There is nothing to charge, which does not count as a denial.
            Verb::Charge if cost == 0 => Some(Charged { held, cost }),
            Verb::Refuse => self.step(held, moment, late, cost).map(|_| Charged { held, cost: 0 }),
            _ => self.step(held, moment, late, cost).map(|held| Charged { held, cost }),
        }
    }
}
