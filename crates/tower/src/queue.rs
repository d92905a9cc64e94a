//! [`Waiting`]: a request that waits, and [`QueueTurn`], its turn at a gate that delays.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate::{Reservation, WaitBudget};
use tollgate_http::keys::Key;

use crate::answer::Later;
use crate::ask::OwnedAsk;
use crate::gate::Sleeping;
use crate::joint::{GateDecision, Permits};
use crate::limit::GateLimit;
use crate::settle::{Settle, Shadowed};

/// The event that a request waits for.
#[expect(clippy::large_enum_variant, reason = "it is boxed together with its request")]
pub(crate) enum Waiting {
    /// The request's turn at a gate that delays.
    Turn(QueueTurn),
    /// The answers of limits that are kept elsewhere.
    Answers(Later<Answered>),
}

/// The answers of the gates of a layer.
pub(crate) struct Answered {
    /// The requests to the gates that are not shadows.
    pub(crate) asks: Vec<OwnedAsk>,
    /// The decision of these gates; `None` if there are none. The error is the index of a gate that could not be asked.
    pub(crate) found: Result<Option<GateDecision>, usize>,
    pub(crate) permits: Permits,
    pub(crate) shadowed: Option<Shadowed>,
}

/// A request that sleeps at a gate, in a place or without one.
pub(crate) struct QueueTurn {
    /// The gate, by its number in the layer.
    pub(crate) gate: usize,
    pub(crate) limit: Arc<dyn GateLimit>,
    pub(crate) key: Key,
    pub(crate) cost: u64,
    pub(crate) stand: Stand,
    pub(crate) sleeping: Sleeping,
}

/// The claim that a sleeping request has on the limit.
pub(crate) enum Stand {
    /// A place in the queue. A request that is dropped before its turn gives its place back if no request has queued up
    /// behind it ([`tollgate::Entry::cancel`]). At its turn the permit is handed to the `Settle` of the request, if
    /// there is one.
    Place(Reservation, Option<Settle>),
    /// No place, since the limit had none to give. The limit is asked again after the sleep.
    Outside(WaitBudget),
    /// No claim any more, since the sleep is over.
    Served,
}

impl QueueTurn {
    /// Ready when the sleep is over. The result is `None` if the request may go, otherwise the budget for asking again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<WaitBudget>> {
        std::task::ready!(Pin::new(&mut self.sleeping).poll(cx));
        // From here on, dropping the request gives nothing back.
        match std::mem::replace(&mut self.stand, Stand::Served) {
            Stand::Outside(waiter) => Poll::Ready(Some(waiter)),
            Stand::Place(place, settle) => {
                if let Some(settle) = settle {
                    settle.hold(place.into_permit());
                }
                Poll::Ready(None)
            }
            Stand::Served => Poll::Ready(None),
        }
    }
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        let stand = std::mem::replace(&mut self.stand, Stand::Served);
        if let (Stand::Place(place, _), Some(entry)) = (stand, self.limit.full_entry(&self.key)) {
            entry.cancel(place);
        }
    }
}
