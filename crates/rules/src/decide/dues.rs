//! Charges several limits, all or none, where some of them may have a queue or borrow.
//!
//! Limits without a wait are charged by [`check_all`]. Then each of the others gives a place, or is charged or borrows
//! (`mode: elastic`); if one has nothing, what was charged goes back: a place whole if no request has queued up behind it,
//! and a charge or a loan as far as it has not drained. So no limit admits above its bound, no pool lends above its own,
//! and a request that is denied costs at most itself. All of these are asked before anything is charged, so that only a
//! request that loses a race to another, or would borrow twice from a pool with enough for one, is charged and given back.

use std::time::Duration;

use tollgate::{Claim, Decision, Denial, Entry, Wait, check_all};

use super::context::Context;
use crate::receipt::Charged;
use crate::rule::LocalLimit;

/// What one limit is to charge.
#[derive(Clone, Copy)]
pub(super) struct Due<'r, 'k> {
    pub(super) gate: &'r LocalLimit,
    pub(super) key: &'k [u8],
    pub(super) cost: u64,
    /// How long the request may wait; `None` if it may not.
    pub(super) wait: Option<Wait>,
    /// Whether its rule is in shadow mode, and takes nothing from a pool.
    pub(super) is_shadow: bool,
}

/// What became of several charges.
pub(super) struct Outcome {
    /// The due, by its index, whose decision answers for all: if denied, one that denies.
    pub(super) told: Option<(usize, Decision)>,
    pub(super) is_allowed: bool,
    /// Whether a limit admitted it within what its policy is softened by.
    pub(super) is_within_soft: bool,
    /// What was charged, and by which due.
    pub(super) charges: Vec<(usize, Charged)>,
}

impl Outcome {
    fn denied(told: Option<(usize, Decision)>) -> Self {
        Self { told, is_allowed: false, is_within_soft: false, charges: Vec::new() }
    }
}

pub(super) fn charge_dues(dues: &[Due<'_, '_>], with: Context<'_>) -> Outcome {
    let apart = || dues.iter().enumerate().filter(|(_, due)| due.is_apart());
    if dues.len() > 1 {
        let asked = apart().map(|(n, due)| (n, due.ask(with)));
        let longest = |(_, asked): &(usize, Decision)| asked.retry_after().unwrap_or(Duration::MAX);
        let denied = asked.filter(|(_, asked)| asked.is_denied()).max_by_key(longest);
        if denied.is_some() {
            return Outcome::denied(denied);
        }
    }
    let at_once = dues.iter().enumerate().filter(|(_, due)| !due.is_apart());
    let (owners, mut claims): (Vec<usize>, Vec<Claim<'_>>) =
        at_once.map(|(n, due)| (n, due.entry(with).cost(due.cost))).unzip();
    let joint = check_all(&mut claims);
    let is_allowed = joint.is_allowed();
    let mut told = joint.reported_by().map(|index| owners[index]).zip(joint.into_decision());
    if !is_allowed {
        return Outcome::denied(told);
    }
    // What is neither kept nor may have to be given back need not be remembered.
    let is_remembered = apart().next().is_some() || with.act.keeps();
    let (mut is_within_soft, mut charges) = (false, Vec::new());
    for (n, claim) in owners.iter().zip(&mut claims) {
        let Some(permit) = claim.take_permit() else { continue };
        is_within_soft |= permit.is_over();
        if is_remembered {
            charges.push((*n, Charged::At(permit)));
        }
    }
    for (n, due) in apart() {
        match due.charge(with) {
            Ok(charged) => {
                let admitted = charged.summary();
                is_within_soft |= admitted.is_over;
                let is_less =
                    |(_, least): &(usize, Decision)| admitted.remaining < least.remaining();
                if told.as_ref().is_none_or(is_less) {
                    told = Some((n, admitted.into()));
                }
                charges.push((n, charged));
            }
            Err(denial) => {
                // The last one first: a limit that is named twice goes back the way it came.
                for (n, charged) in charges.into_iter().rev() {
                    charged.undo(dues[n].entry(with), with.moment.given());
                }
                return Outcome::denied(Some((n, Decision::Denied(denial))));
            }
        }
    }
    Outcome { told, is_allowed: true, is_within_soft, charges }
}

impl<'r> Due<'r, '_> {
    fn entry(&self, with: Context<'_>) -> Entry<'r> {
        with.entry(self.gate, self.key)
    }

    /// Whether [`check_all`] cannot charge it.
    fn is_apart(&self) -> bool {
        self.wait.is_some() || self.gate.pool.is_some()
    }

    fn ask(&self, with: Context<'_>) -> Decision {
        match self.wait {
            Some(wait) => self.entry(with).peek_queue(self.cost, wait),
            None => with.peek(self.gate, self.key, self.cost).0,
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
