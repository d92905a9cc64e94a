//! [`ServiceCall`]: one request, from the moment it was read until its answer.

use std::time::Instant;

use tollgate_rules::Answer;

use super::asked::{InWords, hits_of, rules_of, word};
use super::caller::Caller;
use super::denials::DeniedFrom;
use super::observers::Observers;
use crate::metrics::{Protocol, RequestOutcome};

/// One request.
#[derive(Debug)]
pub(crate) struct ServiceCall<'o> {
    observers: &'o Observers,
    protocol: Protocol,
    caller: Caller,
    begun: Instant,
}

impl<'o> ServiceCall<'o> {
    /// Begins the call of a request that has just been read.
    pub(crate) fn begin(observers: &'o Observers, protocol: Protocol, caller: Caller) -> Self {
        Self { observers, protocol, caller, begun: Instant::now() }
    }

    /// Records that rules have decided.
    pub(crate) fn decided(&mut self, asked: &impl InWords, answer: &Answer) {
        self.observers.unmatched(asked, answer);
        if let Some(denials) = self.observers.denials.as_ref().filter(|_| !answer.is_allowed()) {
            let from = DeniedFrom { protocol: self.protocol, peer: self.caller.peer };
            denials.by_rules(asked, answer, from);
        }
        if let Some(span) = &mut self.caller.span {
            span.decided(word(asked.domain().as_bytes()), rules_of(answer), hits_of(asked, answer));
        }
    }

    /// Waits for the store, in a span of its own.
    pub(crate) async fn store<F: Future>(&self, asks: F) -> F::Output {
        let (tracer, span) = (&self.observers.tracer, &self.caller.span);
        let _waits = tracer.as_ref().zip(span.as_ref()).map(|(tracer, span)| tracer.waits(span));
        asks.await
    }

    /// Ends the call when the request is answered. `status` is a status of HTTP or of gRPC.
    pub(crate) fn end(self, outcome: RequestOutcome, status: u16) {
        self.observers.requests.answered(self.protocol, outcome, self.begun.elapsed());
        if let Some(span) = self.caller.span {
            span.end(outcome, status);
        }
    }
}
