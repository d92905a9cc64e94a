//! Several gates of one request: all are charged, or none.
//!
//! All limits are charged together by [`tollgate::check_all`], which undoes. It neither borrows nor knows what was lent. So
//! where a gate borrows, it and what has no entry with every verb (sketches, stripes), which nothing can be given back to
//! from here, are asked *apart*:
//!
//! 1. Each limit apart is looked at, but where a gate borrows: no look tells what will be lent. If one denies, the request
//!    is denied and nothing is charged.
//! 2. The others are charged, all or none.
//! 3. Gates that borrow are asked in turn, and then the limits that were looked at are charged. If one denies after all,
//!    what was lent is given back, and what was charged is refunded where that can be, less what has drained since.
//!
//! So no limit ever admits above its bound. A denied request costs something only if it meets others between the first
//! step and the third: then at most itself, at the sketches and stripes that were charged before the one that denied.

use arrayvec::ArrayVec;
use tollgate::{Claim, Decision, DecisionSummary, Denial, Permit, check_all};

use crate::ask::{GATES_MAX, GateRequest};
use crate::gate::GateMode;
use crate::observe::GateOutcome;

/// What each ask was charged, in the order of the asks. Filled in place, because it is large.
pub(crate) type Permits = ArrayVec<Option<Permit>, GATES_MAX>;

/// The place of the gate that is reported, and what it has decided. The permits are kept apart.
type Reported = (usize, Result<DecisionSummary, Denial>);

fn reported(decision: &Decision) -> Result<DecisionSummary, Denial> {
    match decision {
        Decision::Allowed(permit) => Ok(permit.summary()),
        Decision::Denied(denial) => Err(*denial),
    }
}

impl GateRequest<'_> {
    /// Whether what it is charged cannot be undone.
    fn is_apart(&self) -> bool {
        self.borrows() || self.gate.limit.full_entry(&self.key).is_none()
    }

    fn borrows(&self) -> bool {
        matches!(self.gate.mode, GateMode::Borrow { .. })
    }

    /// Decides, and says what was lent for it.
    fn check(&self) -> (Decision, Option<Permit>) {
        let GateMode::Borrow { lender } = &self.gate.mode else {
            return (self.gate.limit.check(&self.key, self.cost), None);
        };
        let mut loan = None;
        let decision = self.gate.limit.check_or(&self.key, self.cost, &mut |denial| {
            loan = lender.lend(denial);
            loan.is_some()
        });
        (decision, loan)
    }

    fn peek(&self) -> Decision {
        self.gate.limit.peek(&self.key, self.cost)
    }
}

/// Charges all gates or none. Returns the index of the gate that is reported, and its decision; `None` if there are no
/// gates.
pub(crate) fn charge_all(asks: &[GateRequest<'_>], permits: &mut Permits) -> Option<Reported> {
    if let [only] = asks {
        let (decision, loan) = only.check();
        if loan.is_some() {
            only.count(GateOutcome::Borrowed);
        }
        let found = reported(&decision);
        permits.push(decision.into_result().ok());
        return Some((0, found));
    }
    permits.extend(asks.iter().map(|_| None));
    if asks.iter().any(GateRequest::borrows) {
        return charge_with_those_apart(asks, permits);
    }
    charge_together(asks, permits, |_| true)
}

/// Charges all of those that take part, by their places.
fn charge_together(
    asks: &[GateRequest<'_>],
    permits: &mut Permits,
    takes_part: impl Fn(&GateRequest<'_>) -> bool,
) -> Option<Reported> {
    let mut places = ArrayVec::<usize, GATES_MAX>::new();
    let mut claims = ArrayVec::<Claim<'_>, GATES_MAX>::new();
    for (place, ask) in asks.iter().enumerate().filter(|(_, ask)| takes_part(ask)) {
        places.push(place);
        claims.push(ask.gate.limit.claim(&ask.key, ask.cost));
    }
    let joint = check_all(&mut claims);
    for (&place, claim) in places.iter().zip(&mut claims) {
        permits[place] = claim.take_permit();
    }
    Some((places[joint.reported_by()?], reported(joint.decision()?)))
}

// Apart from the layers that need none of this.
#[inline(never)]
fn charge_with_those_apart(asks: &[GateRequest<'_>], permits: &mut Permits) -> Option<Reported> {
    let placed = || asks.iter().enumerate();
    let looked = placed().filter(|(_, ask)| ask.is_apart() && !ask.borrows());
    if looked.clone().any(|(_, ask)| !ask.peek().is_allowed()) {
        // The longest wait is a matter of all, but of what may be borrowed.
        let told = placed().filter(|(_, ask)| !ask.borrows()).map(|(at, ask)| (at, ask.peek()));
        if let Some(denied) = longest(told) {
            return Some(denied);
        }
    }
    let together = charge_together(asks, permits, |ask| !ask.is_apart());
    if together.is_some_and(|(_, found)| found.is_err()) {
        return together;
    }
    let borrowing = placed().filter(|(_, ask)| ask.borrows());
    let (mut scarcest, mut loans) = (together, Permits::new());
    loans.extend(asks.iter().map(|_| None));
    for (place, ask) in borrowing.chain(looked) {
        let (decision, loan) = ask.check();
        if !decision.is_allowed() {
            undo(asks, permits, loans);
            return Some((place, reported(&decision)));
        }
        let (found, left) = (reported(&decision), decision.remaining());
        (permits[place], loans[place]) = (decision.into_result().ok(), loan);
        // All of them are admissions: a denial has returned.
        if scarcest.is_none_or(|(_, fewest)| fewest.is_ok_and(|it| left < it.remaining)) {
            scarcest = Some((place, found));
        }
    }
    let borrowed = asks.iter().zip(&loans).filter(|(_, loan)| loan.is_some());
    borrowed.for_each(|(ask, _)| ask.count(GateOutcome::Borrowed));
    scarcest
}

/// The denial with the longest wait.
fn longest(decisions: impl Iterator<Item = (usize, Decision)>) -> Option<Reported> {
    let denied = decisions.filter(|(_, decision)| !decision.is_allowed());
    // What never fits waits longest. Of equal waits the last.
    let longest = denied.max_by_key(|(_, decision)| {
        let wait = decision.retry_after();
        (wait.is_none(), wait)
    });
    longest.map(|(place, decision)| (place, reported(&decision)))
}

/// Gives back what was lent and what was charged, as far as it has not drained, where that can be.
fn undo(asks: &[GateRequest<'_>], permits: &mut Permits, loans: Permits) {
    for ((ask, permit), loan) in asks.iter().zip(permits).zip(loans) {
        match (&ask.gate.mode, loan) {
            // Its own limit was charged nothing.
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
