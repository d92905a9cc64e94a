//! [`fly`]: a batch of requests on its way to the store and back.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use crate::error::{Fault, StoreError};
use crate::script::{self, Invoked, ScriptReply};
use crate::store::batch::{Batch, Job};
use crate::store::stats::{StoreCounters, StoreEvent};
use crate::store::wire::Wire;

/// The text and the digest of the script for the calls of a batch, and the counters for these calls.
pub(crate) struct ScriptNames {
    pub(crate) digest: Arc<str>,
    pub(crate) text: Arc<str>,
    pub(crate) counters: Arc<StoreCounters>,
    pub(crate) clock: Arc<ServerClock>,
}

/// The latest times in the store's replies, in microseconds. A single server has one entry. A cluster has one for each
/// slot, since each node has its own clock.
#[derive(Debug)]
pub(crate) struct ServerClock {
    latest: Box<[AtomicU64]>,
    /// Limits the log lines about a clock that was set back. Without this, each slot of the node would log a line.
    logged: LogHold,
    /// Limits the log lines about keys whose value is not a state.
    broken: LogHold,
    /// Limits the log lines about refused calls.
    refused: LogHold,
}

/// The time when a line was last written to the log.
#[derive(Debug, Default)]
struct LogHold(Mutex<Option<Instant>>);

/// The least time between two log lines of the same kind.
const HOLD: Duration = Duration::from_secs(5);

/// The slack of the script: it moves a state only if the clock was set back by more than this (see decide.lua).
const SLACK_US: u64 = 1_000_000;

impl LogHold {
    /// Whether a line should be written now. If so, the time is stored.
    fn is_news(&self, now: Instant) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = logged.is_none_or(|last| now.saturating_duration_since(last) >= HOLD);
        if is_news {
            *logged = Some(now);
        }
        is_news
    }
}

impl ServerClock {
    /// Makes the entries for one server, or for a cluster with this many slots.
    pub(crate) fn new(slots: u16) -> Self {
        let latest = (0..slots.max(1)).map(|_| AtomicU64::new(0)).collect();
        let (logged, broken, refused) = <(LogHold, LogHold, LogHold)>::default();
        Self { latest, logged, broken, refused }
    }

    /// Enters a time from the server of a slot. Returns by how much the clock was set back, if that is more than the
    /// slack. If it is less, replies may just have overtaken each other.
    fn read(&self, slot: u16, now_us: u64) -> Option<Duration> {
        let latest = self.latest.get(usize::from(slot)).or(self.latest.first())?;
        // All three orderings are Relaxed, since no memory is published with the time. If several replies come at the
        // same moment, the exchange below makes only one of them report that the clock was set back.
        let before_us = latest.fetch_max(now_us, Ordering::Relaxed);
        let back_us = before_us.checked_sub(now_us).filter(|back_us| *back_us > SLACK_US)?;
        let relaxed = Ordering::Relaxed;
        latest.compare_exchange(before_us, now_us, relaxed, relaxed).ok()?;
        Some(Duration::from_micros(back_us))
    }
}

/// The error of a batch, and the slot of a call that failed with it.
#[derive(Clone, Debug)]
pub(crate) struct FailedBatch {
    pub(crate) error: StoreError,
    pub(crate) slot: u16,
}

/// Sends a batch and hands out its answers. Returns the fault, if there was one.
pub(crate) async fn fly(wire: Wire, names: ScriptNames, jobs: Vec<Job>) -> Option<FailedBatch> {
    let (batch, is_cluster) = (Batch::of(jobs), wire.is_cluster());
    let batch = if is_cluster { batch.by_slot() } else { batch };
    let mut flight = Flight { wire, names, batch };
    let calls = flight.batch.calls(is_cluster);
    if calls.is_empty() {
        return None;
    }
    let values = flight.call(&calls).await;
    let (mut worst, mut divided) = (None, Vec::new());
    for (call, value) in calls.into_iter().zip(values) {
        // A slot is moving, and the keys of this call are at two nodes. So each request of the call is now sent by
        // itself.
        if is_cluster && is(&value, Fault::ClusterDown) && call.len() > 1 {
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
        // The limits of this one request are at two nodes, so they cannot be decided in one call. The nodes work, so
        // the link does not count this as a failure of the store.
        worst = fault
            .filter(|failed| !is_several || failed.error.fault != Fault::ClusterDown)
            .or(worst);
    }
    worst
}

fn is(value: &Result<Value, StoreError>, fault: Fault) -> bool {
    value.as_ref().is_err_and(|error| error.fault == fault)
}

struct Flight {
    wire: Wire,
    names: ScriptNames,
    batch: Batch,
}

impl Flight {
    /// Sends calls, and returns their replies in order. If a server has forgotten the script, the calls are repeated
    /// once with its text.
    async fn call(&mut self, calls: &[Range<usize>]) -> Vec<Result<Value, StoreError>> {
        let command = |by, call: &Range<usize>| script::command(by, self.batch.asks(call.clone()));
        let by_digest = Invoked::ByDigest(&self.names.digest);
        let commands = calls.iter().map(|call| command(by_digest, call)).collect();
        self.names.counters.add(StoreEvent::Calls, calls.len() as u64);
        let mut values = self.wire.send(commands).await;
        let unknown: Vec<usize> =
            (0..values.len()).filter(|n| is(&values[*n], Fault::NoScript)).collect();
        if !unknown.is_empty() {
            // The server did not have the script, so it has executed none of these calls.
            self.names.counters.add(StoreEvent::Reloads, unknown.len() as u64);
            let by_text = Invoked::ByText(&self.names.text);
            let commands = unknown.iter().map(|n| command(by_text, &calls[*n])).collect();
            for (n, value) in unknown.into_iter().zip(self.wire.send(commands).await) {
                values[n] = value;
            }
        }
        values
    }

    fn answer(
        &mut self,
        call: Range<usize>,
        value: Result<Value, StoreError>,
    ) -> Option<FailedBatch> {
        let slot = if self.wire.is_cluster() { self.batch.slot(call.start) } else { 0 };
        let asks = self.batch.asks(call.clone());
        let replies = value.and_then(|value| Ok(script::replies(&value, asks)?));
        let error = replies.as_ref().err().cloned();
        if let Some(error) = &error {
            self.report_refusal(error);
        }
        let replies = replies.map_err(|error| error.fault);
        let now_us = replies.as_ref().ok().and_then(|replies| Some(replies.first()?.now_us));
        if let Some(back) = now_us.and_then(|now_us| self.names.clock.read(slot, now_us)) {
            self.names.counters.add(StoreEvent::SetBack, 1);
            if self.names.clock.logged.is_news(Instant::now()) {
                tracing::warn!(
                    "the store's clock was set back by {back:?}: a limit that is in use owes what it can owe \
                     at most, once, and drains from there"
                );
            }
        }
        if let Ok(replies) = &replies {
            self.report_broken(call.clone(), replies);
        }
        self.batch.answer(call, replies);
        error.map(|error| FailedBatch { error, slot })
    }

    /// Logs why a call was refused although the store works. This is not an outage, so no other log line says why.
    fn report_refusal(&self, error: &StoreError) {
        let is_told = matches!(error.fault, Fault::Script | Fault::Unexpected);
        if is_told && self.names.clock.refused.is_news(Instant::now()) {
            tracing::warn!("the store decided nothing, and goes on: {error}");
        }
    }

    /// Counts and logs keys whose value is not a state. (Counts of envoyproxy/ratelimit that cannot be read are left as
    /// they are, and envoyproxy.rs logs them.)
    fn report_broken(&self, call: Range<usize>, replies: &[ScriptReply]) {
        for (ask, reply) in
            self.batch.asks(call).zip(replies).filter(|(ask, _)| ask.verb.is_of_a_state())
        {
            for (part, _) in ask.parts.iter().zip(&reply.parts).filter(|(_, seen)| seen.broken) {
                self.names.counters.add(StoreEvent::Broken, 1);
                if self.names.clock.broken.is_news(Instant::now()) {
                    let key = String::from_utf8_lossy(&part.key);
                    tracing::warn!(
                        key = %key.escape_debug(),
                        "a key of the store holds no state of a limit: it counts as a full limit"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_is_noticed_once_for_each_time() {
        let clock = ServerClock::new(2);
        let second = 1_000_000;
        let told = [50, 49, 48, 51, 40, 40, 41, 39].map(|at| clock.read(0, at * second));
        let back = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(told, [None, None, back(2), None, back(11), None, None, back(2)]);
        // Another slot may belong to another node, with a clock of its own.
        assert_eq!([10, 20, 17].map(|at| clock.read(1, at * second)), [None, None, back(3)]);
    }

    #[test]
    fn a_clock_that_is_set_back_is_told_of_once_for_all_slots() {
        let (clock, start) = (ServerClock::new(2), Instant::now());
        let is_news = [0, 1, 4, 5, 6].map(|s| clock.logged.is_news(start + Duration::from_secs(s)));
        assert_eq!(is_news, [true, false, false, true, false]);
    }
}
