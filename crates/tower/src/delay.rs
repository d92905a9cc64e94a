//! Gates that delay: a request waits in a place of the limit's queue, or sleeps without a place and asks again.

use std::sync::Arc;

use http::{Request, Response};
use tollgate::{Wait, WaitBudget, WaitStep};
use tollgate_http::headers::write::Stamp;
use tollgate_http::keys::Head;

use crate::ask::GateRequest;
use crate::decide::{GateRules, GateVerdict, PassMarks, Rare, denied};
use crate::deny::Deny;
use crate::gate::{Gate, GateMode};
use crate::observe::GateOutcome;
use crate::queue::{Answered, QueueTurn, Stand, Waiting};
use crate::shared::LayerState;

impl GateRules {
    /// The outcome of a request at a gate that delays. `None` if the gate does not delay, or if its limit cannot
    /// reserve.
    pub(crate) fn queue<'g>(
        &'g self,
        ask: &GateRequest<'g>,
        head: &Head<'_>,
    ) -> Option<GateVerdict<'g>> {
        let GateMode::Delay { max_wait, .. } = &ask.gate.mode else { return None };
        // If the limit cannot reserve a place, the gate decides like one that does not delay.
        let entry = ask.gate.limit.full_entry(&ask.key)?;
        let waiter = entry.wait_budget(Wait::at_most(*max_wait));
        Some(self.wait(ask, head, waiter, false))
    }

    /// The outcome of a request at a gate that delays. The request may have slept there already.
    fn wait<'g>(
        &'g self,
        ask: &GateRequest<'g>,
        head: &Head<'_>,
        mut waiter: WaitBudget,
        has_slept: bool,
    ) -> GateVerdict<'g> {
        let tier_of = |_: &Gate| ask.key.tier().unwrap_or(0);
        let asleep = |stand, pause, marks| {
            let GateMode::Delay { sleep, .. } = &ask.gate.mode else {
                return GateVerdict::pass(marks); // never: the gate delays
            };
            let turn = QueueTurn {
                gate: self.index_of(ask.gate),
                limit: Arc::clone(&ask.gate.limit),
                key: ask.key,
                cost: ask.cost,
                stand,
                sleeping: sleep(pause),
            };
            GateVerdict::Rare(Box::new(Rare::Wait(Waiting::Turn(turn), marks)))
        };
        let turn = ask.gate.limit.full_entry(&ask.key).map(|entry| waiter.step(entry, ask.cost));
        let place = match turn {
            Some(Ok(WaitStep::Place(place))) => place,
            // Nothing is charged yet, so there is nothing to report.
            Some(Ok(WaitStep::Later(pause))) => {
                return asleep(Stand::Outside(waiter), pause, PassMarks::NOTHING);
            }
            Some(Err(denial)) => {
                return denied(self.refuse(ask.gate, &ask.key, &tier_of, &denial));
            }
            // This is never reached, since the limit could reserve before. If an implementation breaks this rule, the
            // request is denied.
            None => return denied(ask.gate.refuse_unasked()),
        };
        let permit = place.permit();
        let stamp = self.stamp(ask.gate, &tier_of, || permit.summary(), permit.is_over());
        let (pause, shadowed) = (place.wait(), self.shadowed(head));
        let is_delayed = has_slept || !pause.is_zero();
        ask.count(if is_delayed { GateOutcome::Delayed } else { GateOutcome::Allowed });
        if pause.is_zero() {
            let settle = self.settlement(std::slice::from_ref(ask), [Some(place.into_permit())]);
            return GateVerdict::pass(PassMarks { stamp, settle, shadowed });
        }
        // Until its turn the request may still give its place back, so the place keeps the permit.
        let settle = self.settlement(std::slice::from_ref(ask), [None]);
        asleep(Stand::Place(place, settle.clone()), pause, PassMarks { stamp, settle, shadowed })
    }
}

/// The outcome of a request that has waited.
pub(crate) enum Next<B> {
    Call(Stamp),
    /// The request goes on waiting. The stamp has the headers of its place, and is empty without a place.
    Wait(Box<Waiting>, Stamp),
    Deny(Box<Response<B>>),
}

/// A layer that decides on a request that has waited. The trait hides the layer's type parameter, the maker of denials,
/// so that futures do not have that parameter, too.
pub(crate) trait Resume<R, B>: Send + Sync {
    /// Asks again for a request that has slept without a place.
    fn ask_again(&self, turn: &QueueTurn, waiter: WaitBudget, request: &mut Request<R>) -> Next<B>;

    /// Decides from the answers of limits that are kept elsewhere.
    fn answered(&self, answered: Answered, request: &mut Request<R>) -> Next<B>;
}

impl<R, B, D: Deny<B> + Send + Sync> Resume<R, B> for LayerState<D> {
    fn ask_again(&self, turn: &QueueTurn, waiter: WaitBudget, request: &mut Request<R>) -> Next<B> {
        let Some(gate) = self.rules.gates.get(turn.gate) else {
            return Next::Call(Stamp::NOTHING); // never: the gates of a layer do not change
        };
        let ask = GateRequest { gate, key: turn.key, cost: turn.cost };
        next(self, self.rules.wait(&ask, &Head::of(request), waiter, true), request)
    }

    fn answered(&self, answered: Answered, request: &mut Request<R>) -> Next<B> {
        next(self, self.rules.answered(answered), request)
    }
}

fn next<R, B, D: Deny<B>>(
    layer: &LayerState<D>,
    verdict: GateVerdict<'_>,
    request: &mut Request<R>,
) -> Next<B> {
    match verdict {
        GateVerdict::Pass(stamp) => Next::Call(stamp),
        GateVerdict::Rare(rare) => match *rare {
            Rare::Note(marks) => Next::Call(marks.note(request)),
            Rare::Wait(waiting, marks) => Next::Wait(Box::new(waiting), marks.note(request)),
            Rare::Deny(refusal) => Next::Deny(Box::new(layer.answer(refusal, Head::of(request)))),
        },
    }
}
