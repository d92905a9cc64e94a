//! [`fly`]: a batch of requests on its way to the store and back.

use std::ops::Range;
use std::sync::Arc;

use redis::Value;

use crate::batch::{Batch, Job};
use crate::counters::{Count, Counters};
use crate::error::Fault;
use crate::script::{self, Invoked};
use crate::wire::Wire;

/// How a batch names the script, and what counts it.
pub(crate) struct Names {
    pub(crate) digest: Arc<str>,
    pub(crate) text: Arc<str>,
    pub(crate) counters: Arc<Counters>,
}

/// Sends a batch and hands out its answers. Says what went wrong, if anything did.
pub(crate) async fn fly(wire: Wire, names: Names, jobs: Vec<Job>) -> Option<Fault> {
    let mut flight = Flight { wire, names, batch: Batch::of(jobs) };
    let calls = flight.batch.calls();
    if calls.is_empty() {
        return None;
    }
    let values = flight.call(&calls).await;
    let (mut worst, mut divided) = (None, Vec::new());
    for (call, value) in calls.into_iter().zip(values) {
        // Of a slot that moves, this call's keys are at two nodes: each request asks for itself.
        if flight.wire.is_cluster() && value == Err(Fault::ClusterDown) && call.len() > 1 {
            divided.extend(call.map(|n| n..n + 1));
        } else {
            worst = flight.answer(call, value).or(worst);
        }
    }
    if divided.is_empty() {
        return worst;
    }
    let values = flight.call(&divided).await;
    for (call, value) in divided.into_iter().zip(values) {
        let is_several = flight.batch.asks(call.clone()).any(|ask| ask.parts.len() > 1);
        let fault = flight.answer(call, value);
        // Several limits of one request cannot be asked of two nodes. That is no fault of the nodes.
        worst = fault.filter(|fault| !is_several || *fault != Fault::ClusterDown).or(worst);
    }
    worst
}

struct Flight {
    wire: Wire,
    names: Names,
    batch: Batch,
}

impl Flight {
    /// The replies to calls, in their order. Servers that have forgotten the script are told it, once.
    async fn call(&mut self, calls: &[Range<usize>]) -> Vec<Result<Value, Fault>> {
        let command = |by, call: &Range<usize>| script::command(by, self.batch.asks(call.clone()));
        let by_digest = Invoked::ByDigest(&self.names.digest);
        let commands = calls.iter().map(|call| command(by_digest, call)).collect();
        self.names.counters.add(Count::Calls, calls.len() as u64);
        let mut values = self.wire.send(commands).await;
        let unknown: Vec<usize> =
            (0..values.len()).filter(|n| values[*n] == Err(Fault::NoScript)).collect();
        if !unknown.is_empty() {
            // Nothing was carried out.
            self.names.counters.add(Count::Reloads, unknown.len() as u64);
            let by_text = Invoked::ByText(&self.names.text);
            let commands = unknown.iter().map(|n| command(by_text, &calls[*n])).collect();
            for (n, value) in unknown.into_iter().zip(self.wire.send(commands).await) {
                values[n] = value;
            }
        }
        values
    }

    fn answer(&mut self, call: Range<usize>, value: Result<Value, Fault>) -> Option<Fault> {
        let asks = self.batch.asks(call.clone());
        let replies = value.and_then(|value| script::replies(&value, asks));
        let fault = replies.as_ref().err().copied();
        self.batch.answer(call, replies);
        fault
    }
}
