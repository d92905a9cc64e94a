//! Decides a request at several gates whose limits are of this process: all are charged, or none.
//!
//! All limits are charged together by [`tollgate::check_all`], which undoes its charges on a denial. It cannot borrow,
//! and cannot undo loans. So if a gate borrows, two kinds of gates are asked *apart*, without `check_all`: gates that
//! borrow, and gates whose limits have no entry with every verb (sketches, stripes) and so cannot be given anything
//! back.
//!
//! 1. The limits of gates that are asked apart are first asked without a charge. Gates that borrow are left out of this
//!    step, since such a question cannot tell whether the lender will lend. If a limit denies, the request is denied
//!    and nothing is charged.
//! 2. All other limits are charged together, all or none.
//! 3. Gates that borrow are asked in turn, and then the limits of step 1 are charged. If one denies after all, loans
//!    are given back, and charges are refunded where that is possible, less the part that has drained since.
//!
//! So no limit ever admits above its bound. A denied request can remain charged only if other requests come between
//! step 1 and step 3. Then at most its own cost remains, at the sketches and stripes that were charged before the limit
//! that denied.

use arrayvec::ArrayVec;
use tollgate::{Claim, Decision, DecisionSummary, Denial, Permit, check_all};

use crate::answer::LimitAnswer;
use crate::ask::{GATES_MAX, GateRequest};
use crate::gate::GateMode;
use crate::lend::Loan;
use crate::observe::GateOutcome;

/// The permits of the requests to gates, in the order of these requests. The list is filled in place, because it is
/// large.
pub(crate) type Permits = ArrayVec<Option<Permit>, GATES_MAX>;

/// The decision that is reported for several gates, and the index of the request to the gate that made it. Permits are
/// kept in [`Permits`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct GateDecision {
    pub(crate) ask: usize,
    pub(crate) decision: Result<DecisionSummary, Denial>,
}

pub(crate) fn reported(decision: &Decision) -> Result<DecisionSummary, Denial> {
    match decision {
        Decision::Allowed(permit) => Ok(permit.summary()),
        Decision::Denied(denial) => Err(*denial),
    }
}

impl GateRequest<'_> {
    /// Whether the gate has to be asked apart, because `check_all` cannot undo its charge.
    fn is_apart(&self) -> bool {
        self.borrows() || self.gate.limit.full_entry(&self.key).is_none()
    }

    pub(crate) fn borrows(&self) -> bool {
        matches!(self.gate.mode, GateMode::Borrow { .. })
    }

    /// Decides, and returns the loan if the units were lent. `None` if the limit does not answer now.
    fn check(&self) -> Option<(Decision, Option<Permit>)> {
        let GateMode::Borrow { lender } = &self.gate.mode else {
            return Some((self.gate.limit.check(&self.key, self.cost).now()?, None));
        };
        let mut loan = None;
        let decision = self.gate.limit.check_or(&self.key, self.cost, &mut |denial| {
            if let LimitAnswer::Now(Some(Loan::Here(permit))) = lender.lend(denial) {
                loan = Some(permit);
            }
            loan.is_some()
        });
        Some((decision?, loan))
    }

    fn peek(&self) -> Option<Decision> {
        self.gate.limit.peek(&self.key, self.cost)
    }
}

/// Charges all gates or none. Returns the decision that is reported; `None` if there are no gates, or if a limit does
/// not answer now.
pub(crate) fn charge_all(asks: &[GateRequest<'_>], permits: &mut Permits) -> Option<GateDecision> {
    if let [only] = asks {
        let (decision, loan) = only.check()?;
        if loan.is_some() {
            only.count(GateOutcome::Borrowed);
        }
        let found = GateDecision { ask: 0, decision: reported(&decision) };
        permits.push(decision.into_result().ok());
        return Some(found);
    }
    permits.extend(asks.iter().map(|_| None));
    if asks.iter().any(GateRequest::borrows) {
        return charge_with_those_apart(asks, permits);
    }
    charge_together(asks, permits, |_, _| true)
}

/// Charges all gates that take part, or none of them. `None` if no gate takes part, or if one has no claims.
pub(crate) fn charge_together(
    asks: &[GateRequest<'_>],
    permits: &mut Permits,
    takes_part: impl Fn(usize, &GateRequest<'_>) -> bool,
) -> Option<GateDecision> {
    let mut places = ArrayVec::<usize, GATES_MAX>::new();
    let mut claims = ArrayVec::<Claim<'_>, GATES_MAX>::new();
    for (place, ask) in asks.iter().enumerate().filter(|&(place, ask)| takes_part(place, ask)) {
        places.push(place);
        claims.push(ask.gate.limit.claim(&ask.key, ask.cost)?);
    }
    let joint = check_all(&mut claims);
    for (&place, claim) in places.iter().zip(&mut claims) {
        permits[place] = claim.take_permit();
    }
    Some(GateDecision { ask: places[joint.reported_by()?], decision: reported(joint.decision()?) })
}

// This is a separate function, so that layers without lenders do not carry its code.
#[inline(never)]
fn charge_with_those_apart(
    asks: &[GateRequest<'_>],
    permits: &mut Permits,
) -> Option<GateDecision> {
    let placed = || asks.iter().enumerate();
    let looked = placed().filter(|(_, ask)| ask.is_apart() && !ask.borrows());
    if looked.clone().any(|(_, ask)| ask.peek().is_some_and(|found| found.is_denied())) {
        // The longest wait is taken over all gates except those that may borrow.
        let asked = placed().filter(|(_, ask)| !ask.borrows());
        if let Some(denied) = longest(asked.filter_map(|(at, ask)| Some((at, ask.peek()?)))) {
            return Some(denied);
        }
    }
    let together = charge_together(asks, permits, |_, ask| !ask.is_apart());
    if together.is_some_and(|found| found.decision.is_err()) {
        return together;
    }
    let borrowing = placed().filter(|(_, ask)| ask.borrows());
    let (mut scarcest, mut loans) = (together, Permits::new());
    loans.extend(asks.iter().map(|_| None));
    for (place, ask) in borrowing.chain(looked) {
        let Some((decision, loan)) = ask.check() else {
            undo(asks, permits, loans);
            return None;
        };
        if !decision.is_allowed() {
            undo(asks, permits, loans);
            return Some(GateDecision { ask: place, decision: reported(&decision) });
        }
        let left = decision.remaining();
        // Every decision here is an admission: the first denial has returned.
        if scarcest.is_none_or(|fewest| fewest.decision.is_ok_and(|it| left < it.remaining)) {
            scarcest = Some(GateDecision { ask: place, decision: reported(&decision) });
        }
        (permits[place], loans[place]) = (decision.into_result().ok(), loan);
    }
    let borrowed = asks.iter().zip(&loans).filter(|(_, loan)| loan.is_some());
    borrowed.for_each(|(ask, _)| ask.count(GateOutcome::Borrowed));
    scarcest
}

/// The denial with the longest wait.
fn longest(decisions: impl Iterator<Item = (usize, Decision)>) -> Option<GateDecision> {
    let denied = decisions.filter(|(_, decision)| !decision.is_allowed());
    // A cost that never fits has the longest wait. Of equal waits the last one is reported.
    let longest = denied.max_by_key(|(_, decision)| {
        let wait = decision.retry_after();
        (wait.is_none(), wait)
    });
    longest.map(|(place, decision)| GateDecision { ask: place, decision: reported(&decision) })
}

/// Gives back loans and charges, less the parts that have drained. Charges of sketches and stripes stay.
fn undo(asks: &[GateRequest<'_>], permits: &mut Permits, loans: Permits) {
    for ((ask, permit), loan) in asks.iter().zip(permits).zip(loans) {
        match (&ask.gate.mode, loan) {
            // The gate's own limit was charged nothing, so only the loan goes back.
            (GateMode::Borrow { lender }, Some(loan)) => {
                *permit = None;
                lender.give_back(loan);
            }
            _ => {
                let entry = ask.gate.limit.full_entry(&ask.key);
                if let (Some(entry), Some(permit)) = (entry, permit.take()) {
                    entry.refund(permit);
                }
            }
        }
    }
}
