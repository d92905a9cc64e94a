//! Charges several limits, all or none. Some of the limits may have a queue or a pool.
//!
//! Limits without a wait are charged by [`check_all`]. Then each of the other limits gives a place, is charged, or
//! borrows (`mode: elastic`). If one of them denies, everything that was charged goes back. A place goes back whole if
//! no request has queued up behind it. Of a charge or a loan, the part that has not drained goes back. So no limit
//! admits above its bound, no pool lends above its bound, and a denied request costs at most its own units. The limits
//! with a wait or a pool are asked before anything is charged. So only two kinds of requests are charged and then
//! refunded: one that loses a race against another request, and one that would borrow twice from a pool that has enough
//! for one loan.

use std::time::Duration;

use tollgate::{Claim, Decision, Denial, Entry, Wait, check_all};

use super::context::Context;
use crate::decide::receipt::Charged;
use crate::set::rule::LocalLimit;

/// The charge that one limit is to make.
#[derive(Clone, Copy)]
pub(super) struct Due<'r, 'k> {
    pub(super) gate: &'r LocalLimit,
    pub(super) key: &'k [u8],
    pub(super) cost: u64,
    /// The time that the request may wait; `None` if it may not.
    pub(super) wait: Option<Wait>,
    /// Whether the limit's rule is in shadow mode. Then nothing is taken from a pool.
    pub(super) is_shadow: bool,
}

/// The outcome of several charges.
pub(super) struct Outcome {
    /// The decision that is reported for all limits. If the request is denied, it is a denial.
    pub(super) told: Option<DueDecision>,
    pub(super) is_allowed: bool,
    /// Whether a limit admitted the request within its soft share.
    pub(super) is_within_soft: bool,
    pub(super) charges: Vec<DueCharge>,
}

/// The decision of a limit, and the index of its due.
pub(super) struct DueDecision {
    pub(super) due: usize,
    pub(super) decision: Decision,
}

/// What was charged, and the index of its due.
pub(super) struct DueCharge {
    pub(super) due: usize,
    pub(super) charged: Charged,
}

impl Outcome {
    fn denied(told: Option<DueDecision>) -> Self {
        Self { told, is_allowed: false, is_within_soft: false, charges: Vec::new() }
    }
}

pub(super) fn charge_dues(dues: &[Due<'_, '_>], with: Context<'_>) -> Outcome {
    let apart = || dues.iter().enumerate().filter(|(_, due)| due.is_apart());
    if dues.len() > 1 {
        let asked = apart().map(|(n, due)| DueDecision { due: n, decision: due.ask(with) });
        let longest = |asked: &DueDecision| asked.decision.retry_after().unwrap_or(Duration::MAX);
        let denied = asked.filter(|asked| asked.decision.is_denied()).max_by_key(longest);
        if denied.is_some() {
            return Outcome::denied(denied);
        }
    }
    let at_once = dues.iter().enumerate().filter(|(_, due)| !due.is_apart());
    let (owners, mut claims): (Vec<usize>, Vec<Claim<'_>>) =
        at_once.map(|(n, due)| (n, due.entry(with).cost(due.cost))).unzip();
    let joint = check_all(&mut claims);
    let is_allowed = joint.is_allowed();
    let answering = joint.reported_by().map(|index| owners[index]).zip(joint.into_decision());
    let mut told = answering.map(|(due, decision)| DueDecision { due, decision });
    if !is_allowed {
        return Outcome::denied(told);
    }
    // The charges are needed to undo them, if a limit that is asked apart can still deny, or for a receipt. Otherwise
    // they need not be remembered.
    let is_remembered = apart().next().is_some() || with.act.keeps();
    let (mut is_within_soft, mut charges) = (false, Vec::new());
    for (due, claim) in owners.iter().zip(&mut claims) {
        let Some(permit) = claim.take_permit() else { continue };
        is_within_soft |= permit.is_over();
        if is_remembered {
            charges.push(DueCharge { due: *due, charged: Charged::At(permit) });
        }
    }
    for (n, due) in apart() {
        match due.charge(with) {
            Ok(charged) => {
                let admitted = charged.summary();
                is_within_soft |= admitted.is_over;
                let is_less = |least: &DueDecision| admitted.remaining < least.decision.remaining();
                if told.as_ref().is_none_or(is_less) {
                    told = Some(DueDecision { due: n, decision: admitted.into() });
                }
                charges.push(DueCharge { due: n, charged });
            }
            Err(denial) => {
                // The last charge is undone first, so that a limit that is charged twice goes back through the same
                // states.
                for DueCharge { due, charged } in charges.into_iter().rev() {
                    charged.undo(dues[due].entry(with), with.moment.given());
                }
                let decision = Decision::Denied(denial);
                return Outcome::denied(Some(DueDecision { due: n, decision }));
            }
        }
    }
    Outcome { told, is_allowed: true, is_within_soft, charges }
}

impl<'r> Due<'r, '_> {
    fn entry(&self, with: Context<'_>) -> Entry<'r> {
        with.entry(self.gate, self.key)
    }

    /// Whether the limit must be asked apart, because [`check_all`] cannot charge it.
    fn is_apart(&self) -> bool {
        self.wait.is_some() || self.gate.pool.is_some()
    }

    fn ask(&self, with: Context<'_>) -> Decision {
        match self.wait {
            Some(wait) => self.entry(with).peek_queue(self.cost, wait),
            None => with.peek(self.gate, self.key, self.cost).decision,
        }
    }

    fn charge(&self, with: Context<'_>) -> Result<Charged, Denial> {
        let entry = self.entry(with);
        let (permit, loan) = match (self.wait, &self.gate.pool) {
            (Some(wait), _) => return entry.queue(self.cost, wait).map(Charged::Place),
            (None, None) => (entry.check_n(self.cost).into_result()?, None),
            (None, Some(pool)) => {
                pool.check(entry, self.cost, with.moment.given(), self.is_shadow)?
            }
        };
        Ok(loan.map_or(Charged::At(permit), Charged::Loan))
    }
}
