//! Limits that are kept elsewhere: a request waits for their answers.
//!
//! Exemptions, keys, costs, headers, denials, counters and logs are the same as for limits of this process
//! (`decide.rs`). Only the asking differs, because an answer comes later. A future that borrows nothing from the layer
//! asks the gates, and then the layer makes the outcome from their answers ([`GateRules::conclude`]).

use std::sync::Arc;

use arrayvec::ArrayVec;
use tollgate::{Decision, DecisionSummary, DenialReason};
use tollgate_http::keys::Head;

use crate::answer::LimitAnswer;
use crate::ask::{GATES_MAX, GateRequest, OwnedAsk, asks, borrowed};
use crate::decide::{GateRules, GateVerdict, PassMarks, Rare, denied};
use crate::gate::{Gate, GateMode};
use crate::joint::{GateDecision, Permits, charge_together, reported};
use crate::lend::{Lend, Loan};
use crate::limit::{LimitAsk, has_claims};
use crate::observe::GateOutcome;
use crate::queue::{Answered, Waiting};
use crate::settle::Shadowed;

impl GateRules {
    /// Decides at a layer in which a gate may have to wait for an answer.
    #[inline(never)]
    pub(crate) fn elsewhere(&self, head: &Head<'_>) -> GateVerdict<'_> {
        let asks = match asks(self.gates.iter(), head) {
            Ok(asks) => asks,
            Err(gate) => return denied(gate.refuse_unasked()),
        };
        let only = match asks.as_slice() {
            [] => return GateVerdict::pass(PassMarks::NOTHING),
            [only] if !only.gate.is_shadow() => only,
            _ => return self.wait_for(&asks, None),
        };
        let answer = match only.gate.mode {
            GateMode::Delay { max_wait, .. } => {
                only.gate.limit.acquire(&only.key, only.cost, max_wait)
            }
            _ => only.gate.limit.check(&only.key, only.cost),
        };
        match answer {
            // At a gate that borrows, a denial is not final: the lender may still admit the request.
            LimitAnswer::Now(found) if found.is_allowed() || !only.borrows() => {
                let mut permits = Permits::from_iter([None]);
                let found = noted(0, found, &mut permits);
                self.conclude(&asks, found, &mut permits, || None)
            }
            first => self.wait_for(&asks, Some(first)),
        }
    }

    /// Makes the request wait for the answers of these gates. `first` is the answer of the only gate, if that has been
    /// asked.
    #[cold]
    pub(crate) fn wait_for(
        &self,
        asks: &[GateRequest<'_>],
        first: Option<LimitAnswer>,
    ) -> GateVerdict<'static> {
        let owned = |ask: &GateRequest<'_>| OwnedAsk {
            gate: self.index_of(ask.gate),
            key: ask.key,
            cost: ask.cost,
        };
        let asked = ask(Arc::clone(&self.gates), asks.iter().map(owned).collect(), first);
        let waiting = Waiting::Answers(Box::pin(asked));
        GateVerdict::Rare(Box::new(Rare::Wait(waiting, PassMarks::NOTHING)))
    }

    /// The outcome of a request from the answers of the gates.
    pub(crate) fn answered(&self, answered: Answered) -> GateVerdict<'_> {
        let Answered { asks, found, mut permits, shadowed } = answered;
        let asks = borrowed(&self.gates, &asks);
        match found {
            Ok(Some(found)) => self.conclude(&asks, found, &mut permits, || shadowed),
            Ok(None) => GateVerdict::pass(PassMarks { shadowed, ..PassMarks::NOTHING }),
            Err(place) => denied(asks[place].gate.refuse_unasked()),
        }
    }
}

/// Asks the limits, those of shadow gates last and only if the request is admitted.
async fn ask(gates: Arc<[Gate]>, all: Vec<OwnedAsk>, first: Option<LimitAnswer>) -> Answered {
    let is_shadow = |ask: &OwnedAsk| gates.get(ask.gate).is_some_and(Gate::is_shadow);
    let (shadows, asks): (Vec<_>, Vec<_>) = all.into_iter().partition(is_shadow);
    let mut permits = Permits::new();
    let found = decide(&borrowed(&gates, &asks), first, &mut permits).await;
    let mut would_deny = Vec::new();
    if found.as_ref().is_ok_and(|found| found.is_none_or(|found| found.decision.is_ok())) {
        for ask in borrowed(&gates, &shadows) {
            if ask.tries(&ask.gate.limit.check(&ask.key, ask.cost).wait().await) {
                would_deny.push(ask.gate.name.clone());
            }
        }
    }
    Answered { asks, found, permits, shadowed: Shadowed::by(would_deny.into_iter()) }
}

/// A loan of the units that a gate's limit has denied.
struct GateLoan<'g> {
    /// The admission that takes the place of the gate's denial.
    found: GateDecision,
    lender: &'g Arc<dyn Lend>,
    loan: Loan,
}

/// Charges all limits or none. Returns the decision that is reported; `None` if there are no limits. The error is the
/// index of a limit that could not be asked: it had claims when the layer was built, and has none any more.
///
/// If the reported denial is that of a gate that borrows, the lender is asked for its units, and then the other gates
/// are asked again without this gate. If one of them denies, the loans are given back.
async fn decide(
    asks: &[GateRequest<'_>],
    mut first: Option<LimitAnswer>,
    permits: &mut Permits,
) -> Result<Option<GateDecision>, usize> {
    permits.extend(asks.iter().map(|_| None));
    let mut places: ArrayVec<usize, GATES_MAX> = (0..asks.len()).collect();
    let mut lent: Vec<GateLoan<'_>> = Vec::new();
    loop {
        let found = match first.take() {
            Some(answer) => Some(noted(0, answer.wait().await, permits)),
            None => charge(asks, &places, permits).await,
        };
        if let (None, Some(&unasked)) = (&found, places.first()) {
            for GateLoan { lender, loan, .. } in lent {
                loan.back(&**lender).await;
            }
            return Err(unasked);
        }
        let Some(GateDecision { ask: place, decision: Err(denial) }) = found else {
            lent.iter().for_each(|lent| asks[lent.found.ask].count(GateOutcome::Borrowed));
            let all = found.into_iter().chain(lent.into_iter().map(|lent| lent.found));
            // Every element is an admission.
            return Ok(
                all.min_by_key(|found| found.decision.map_or(0, |admitted| admitted.remaining))
            );
        };
        let lender = match &asks[place].gate.mode {
            // A lender can only help if the quota itself has denied the request. A cost of 0 needs no units, so it asks
            // no lender.
            GateMode::Borrow { lender }
                if denial.reason() == DenialReason::OverLimit && denial.cost() > 0 =>
            {
                Some(lender)
            }
            _ => None,
        };
        let loan = match lender {
            Some(lender) => lender.lend(&denial).wait().await.map(|loan| (lender, loan)),
            None => None,
        };
        let Some((lender, loan)) = loan else {
            for GateLoan { lender, loan, .. } in lent {
                loan.back(&**lender).await;
            }
            return Ok(found);
        };
        places.retain(|asked| *asked != place);
        // The figures of a loan are those of the limit that denied, as with [`tollgate::Entry::check_or`].
        let admitted = DecisionSummary { denied: None, retry_after: None, ..denial.summary() };
        let found = GateDecision { ask: place, decision: Ok(admitted) };
        lent.push(GateLoan { found, lender, loan });
    }
}

/// Charges the gates at `places`, all or none, without borrowing. `None` if there are no places, or if a gate cannot be
/// asked.
async fn charge(
    asks: &[GateRequest<'_>],
    places: &[usize],
    permits: &mut Permits,
) -> Option<GateDecision> {
    let (&first, others) = places.split_first()?;
    let GateRequest { gate, key, cost } = &asks[first];
    if others.is_empty() {
        return Some(noted(first, gate.limit.check(key, *cost).wait().await, permits));
    }
    // All limits of a layer have claims, or none has.
    if has_claims(&*gate.limit) {
        return charge_together(asks, permits, |place, _| places.contains(&place));
    }
    let answer = {
        let asked = |place: &usize| {
            let GateRequest { gate, key, cost } = &asks[*place];
            LimitAsk { limit: &*gate.limit, key, cost: *cost }
        };
        gate.limit.check_all(&places.iter().map(asked).collect::<ArrayVec<_, GATES_MAX>>())
    };
    let (index, decision) = answer.wait().await;
    Some(noted(places.get(index).copied().unwrap_or(first), decision, permits))
}

/// Keeps the permit of the gate at `place`, and returns its decision, which stands for all gates.
fn noted(place: usize, decision: Decision, permits: &mut Permits) -> GateDecision {
    let found = GateDecision { ask: place, decision: reported(&decision) };
    permits[place] = decision.into_result().ok();
    found
}
