//! [`QueueTurn`]: a request that waits for its turn at a gate that delays.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate::Reservation;

use crate::gate::Sleeping;
use crate::key::Key;
use crate::limit::Limit;

/// A place in the queue of a gate. A request that is dropped before its turn gives back what has not drained since
/// ([`tollgate::Entry::cancel`]), whatever other requests have charged and given back.
pub(crate) struct QueueTurn {
    pub(crate) limit: Arc<dyn Limit>,
    pub(crate) key: Key,
    pub(crate) place: Option<Reservation>,
    pub(crate) sleeping: Sleeping,
}

impl QueueTurn {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = Pin::new(&mut self.sleeping).poll(cx);
        if polled.is_ready() {
            self.place = None;
        }
        polled
    }
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        if let (Some(place), Some(entry)) = (self.place.take(), self.limit.full_entry(&self.key)) {
            entry.cancel(place);
        }
    }
}
