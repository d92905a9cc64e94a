//! Charges all of several limits, or none of them. Some of the limits may have a queue or a pool.
//!
//! Limits that have no pool, and in which the request may not wait, are charged together by [`check_all`]. Then the
//! other limits are charged one by one: each gives a place in its queue, is charged, or borrows from its pool (`mode:
//! elastic`). If one of them denies, all charges that were made are undone. A place is given back whole if no request
//! has queued up behind it. A charge or a loan is given back except for the part that has drained. So no limit admits
//! above its bound, no pool lends above its bound, and a denied request costs at most its own units. The limits that
//! are charged one by one are asked before anything is charged. So a request is charged and then refunded in two cases
//! only: if it loses a race against another request, or if two of its limits would borrow from a pool that has enough
//! for one loan.

use std::time::Duration;

use tollgate::{Claim, Decision, Denial, Entry, Wait, check_all};

use super::tables::Tables;
use crate::decide::receipt::Charged;
use crate::set::rule::LocalLimit;

/// A charge that is to be made to one limit.
#[derive(Clone, Copy)]
pub(super) struct LimitCharge<'r> {
    pub(super) gate: &'r LocalLimit,
    pub(super) key: &'r [u8],
    pub(super) cost: u64,
    /// The time that the request may wait; `None` if it may not.
    pub(super) wait: Option<Wait>,
    /// Whether the limit's rule is in shadow mode. Then nothing is taken from a pool.
    pub(super) is_shadow: bool,
}

/// The outcome of several charges.
pub(super) struct Outcome {
    /// The decision of one limit that is reported for all of them: a denial if the request is denied.
    pub(super) reported: Option<LimitDecision>,
    pub(super) is_allowed: bool,
    /// Whether a limit admitted the request within its soft share.
    pub(super) is_within_soft: bool,
    /// Whether the request is admitted, and the spill of a full table has decided for a limit.
    pub(super) is_spilled: bool,
    pub(super) made: Vec<MadeCharge>,
}

/// The decision of a limit, and its index among the limits to charge.
pub(super) struct LimitDecision {
    pub(super) place: usize,
    pub(super) decision: Decision,
}

/// The charge that was made to a limit, and the limit's index among the limits to charge.
pub(super) struct MadeCharge {
    pub(super) place: usize,
    pub(super) charged: Charged,
}

impl Outcome {
    fn denied(reported: Option<LimitDecision>) -> Self {
        let (is_allowed, is_within_soft, is_spilled) = (false, false, false);
        Self { reported, is_allowed, is_within_soft, is_spilled, made: Vec::new() }
    }
}

/// Makes all of these charges or none. If `keeps` is set, returns the charges that were made, for a receipt.
pub(super) fn charge_all(planned: &[LimitCharge<'_>], tables: Tables<'_>, keeps: bool) -> Outcome {
    let singly = || planned.iter().enumerate().filter(|(_, charge)| charge.is_single());
    if planned.len() > 1 {
        let asked =
            singly().map(|(place, charge)| LimitDecision { place, decision: charge.ask(tables) });
        let longest = |asked: &LimitDecision| asked.decision.retry_after().unwrap_or(Duration::MAX);
        let denied = asked.filter(|asked| asked.decision.is_denied()).max_by_key(longest);
        if denied.is_some() {
            return Outcome::denied(denied);
        }
    }
    let at_once = planned.iter().enumerate().filter(|(_, charge)| !charge.is_single());
    let (places, mut claims): (Vec<usize>, Vec<Claim<'_>>) =
        at_once.map(|(place, charge)| (place, charge.entry(tables).cost(charge.cost))).unzip();
    let joint = check_all(&mut claims);
    let is_allowed = joint.is_allowed();
    let answering = joint.reported_by().map(|index| places[index]).zip(joint.into_decision());
    let mut reported = answering.map(|(place, decision)| LimitDecision { place, decision });
    if !is_allowed {
        return Outcome::denied(reported);
    }
    // The charges are kept for a receipt, or to undo them if a limit that is charged singly can still deny.
    let is_remembered = singly().next().is_some() || keeps;
    let (mut is_within_soft, mut is_spilled, mut made) = (false, false, Vec::new());
    for (place, claim) in places.iter().zip(&mut claims) {
        let Some(permit) = claim.take_permit() else {
            // A cost of 0 has no permit, and neither has a charge in the spill.
            is_spilled |= claim.cost() > 0;
            continue;
        };
        is_within_soft |= permit.is_over();
        if is_remembered {
            made.push(MadeCharge { place: *place, charged: Charged::At(permit) });
        }
    }
    for (place, charge) in singly() {
        match charge.charge(tables) {
            Ok(charged) => {
                let admitted = charged.summary();
                is_within_soft |= admitted.is_over;
                is_spilled |= admitted.is_spilled;
                let is_less =
                    |least: &LimitDecision| admitted.remaining < least.decision.remaining();
                if reported.as_ref().is_none_or(is_less) {
                    reported = Some(LimitDecision { place, decision: admitted.into() });
                }
                made.push(MadeCharge { place, charged });
            }
            Err(denial) => {
                // The last charge is undone first, so that a limit that is charged twice goes back through the same
                // states.
                for MadeCharge { place, charged } in made.into_iter().rev() {
                    charged.undo(planned[place].entry(tables), tables.moment.given());
                }
                let decision = Decision::Denied(denial);
                return Outcome::denied(Some(LimitDecision { place, decision }));
            }
        }
    }
    Outcome { reported, is_allowed: true, is_within_soft, is_spilled, made }
}

impl<'r> LimitCharge<'r> {
    fn entry(&self, tables: Tables<'_>) -> Entry<'r> {
        tables.entry(self.gate, self.key)
    }

    /// Whether the limit must be charged singly, because [`check_all`] cannot charge it.
    fn is_single(&self) -> bool {
        self.wait.is_some() || self.gate.pool.is_some()
    }

    fn ask(&self, tables: Tables<'_>) -> Decision {
        match self.wait {
            Some(wait) => self.entry(tables).peek_queue(self.cost, wait),
            None => tables.peek(self.gate, self.key, self.cost).decision,
        }
    }

    fn charge(&self, tables: Tables<'_>) -> Result<Charged, Denial> {
        let entry = self.entry(tables);
        let (permit, loan) = match (self.wait, &self.gate.pool) {
            (Some(wait), _) => return entry.queue(self.cost, wait).map(Charged::Place),
            (None, None) => (entry.check_n(self.cost).into_result()?, None),
            (None, Some(pool)) => {
                pool.check(entry, self.cost, tables.moment.given(), self.is_shadow)?
            }
        };
        Ok(loan.map_or(Charged::At(permit), Charged::Loan))
    }
}
