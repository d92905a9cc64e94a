//! [`QueueTurn`]: a request that waits for its turn at a gate that delays.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate::{Reservation, Waiter};

use crate::ask::GateRequest;
use crate::decide::{GateVerdict, Rare};
use crate::deny::Deny;
use crate::extract::Head;
use crate::gate::Sleeping;
use crate::headers::Stamp;
use crate::key::Key;
use crate::limit::Limit;
use crate::shared::LayerState;

/// A request that sleeps at a gate, in a place or without one.
pub(crate) struct QueueTurn {
    /// The gate, by its number in the layer.
    pub(crate) gate: usize,
    pub(crate) limit: Arc<dyn Limit>,
    pub(crate) key: Key,
    pub(crate) cost: u64,
    pub(crate) stand: Stand,
    pub(crate) sleeping: Sleeping,
}

/// What a request holds that sleeps.
pub(crate) enum Stand {
    /// A place in the queue. A request that is dropped before its turn gives back what has not drained since
    /// ([`tollgate::Entry::cancel`]), whatever other requests have charged and given back.
    Place(Reservation),
    /// Nothing: the limit has no place to give, and is asked again after the sleep.
    Outside(Waiter),
    /// Its place is used.
    Served,
}

impl QueueTurn {
    /// Ready when the request may go, or with what is to be asked again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Waiter>> {
        std::task::ready!(Pin::new(&mut self.sleeping).poll(cx));
        // From here on a drop gives nothing back.
        match std::mem::replace(&mut self.stand, Stand::Served) {
            Stand::Outside(waiter) => Poll::Ready(Some(waiter)),
            Stand::Place(_) | Stand::Served => Poll::Ready(None),
        }
    }
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        let stand = std::mem::replace(&mut self.stand, Stand::Served);
        if let (Stand::Place(place), Some(entry)) = (stand, self.limit.full_entry(&self.key)) {
            entry.cancel(place);
        }
    }
}

/// What becomes of a request that has slept without a place.
pub(crate) enum Next<B> {
    Call(Stamp),
    /// Its stamp is of use once it has a place.
    Wait(QueueTurn, Stamp),
    Deny(Box<Response<B>>),
}

/// A layer that is asked again: of whichever answer it makes, so that a future need not know.
pub(crate) trait AskAgain<R, B>: Send + Sync {
    fn ask_again(&self, turn: &QueueTurn, waiter: Waiter, request: &mut Request<R>) -> Next<B>;
}

impl<R, B, D: Deny<B> + Send + Sync> AskAgain<R, B> for LayerState<D> {
    fn ask_again(&self, turn: &QueueTurn, waiter: Waiter, request: &mut Request<R>) -> Next<B> {
        let Some(gate) = self.rules.gates.get(turn.gate) else {
            return Next::Call(Stamp::NOTHING); // a layer's gates are those that it was built with
        };
        let ask = GateRequest { gate, key: turn.key, cost: turn.cost };
        match self.rules.wait(&ask, &Head::of(request), (waiter, true)) {
            GateVerdict::Pass(stamp) => Next::Call(stamp),
            GateVerdict::Rare(rare) => match *rare {
                Rare::Note(marks) => Next::Call(marks.note(request)),
                Rare::Wait(turn, marks) => Next::Wait(turn, marks.note(request)),
                Rare::Deny(refusal) => {
                    Next::Deny(Box::new(refusal.answer(&self.deny, Head::of(request))))
                }
            },
        }
    }
}
