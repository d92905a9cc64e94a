//! [`Link`]: the connection to the store, and the task that keeps it. In a cluster each link has a group of slots.
//!
//! All requests of a process (in a cluster, all those of a group of slots) go through one task, which sends them in
//! *batches*. The requests that came while earlier batches were under way form one batch, which is a pipeline of a few
//! calls. A single request does not wait for others. Under load the calls become larger, but their number does not
//! grow.
//!
//! The task is also the circuit breaker. When the store fails, the task marks the link *down*, and callers fall back at
//! once. It then reconnects by itself, after waits that double and are partly random. The link is *up* again only after
//! the store has answered a *probe* within the deadline. A probe is a charge, so a replica, a server without memory and
//! a slow server do not pass. No caller's request ever serves as a probe.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout, timeout_at};
use tollgate::Timestamp;

use crate::error::{Fault, StoreError};
use crate::hash_slot;
use crate::script::{self, Invoked, ScriptReply, ScriptRequest};
use crate::store::backoff::Backoff;
use crate::store::batch::{Job, Stage};
use crate::store::endpoint::Endpoint;
use crate::store::flight::{FailedBatch, ScriptNames, ServerClock, fly};
use crate::store::health::Health;
use crate::store::stats::{StoreCounters, StoreEvent};
use crate::store::watch::watch_evictions;
use crate::store::wire::Wire;

/// The maximum number of requests in one batch.
const REQUESTS_IN_A_BATCH: usize = 512;
/// The maximum number of batches under way. With three batches the server is never idle, and requests still gather into
/// batches.
const BATCHES_UNDER_WAY: usize = 3;
/// The maximum number of requests that wait for a batch. Any further request is decided by `OnError` at once.
const WAITING: usize = 8_192;
/// The link is down after this many batches in a row have missed the deadline.
const MISSED: u32 = 3;
/// The number of turns that other tasks get to bring a reply to its caller. The connection's task and the batch's task
/// need one turn each, and this is twice that.
const TURNS: u32 = 4;
/// Connecting may take this many times the deadline, since no request waits for a connection.
const CONNECTING: u32 = 20;
const CONNECTING_LEAST: Duration = Duration::from_millis(100);

/// The callers' side of a link. When the last reference to a link is dropped, its task ends.
#[derive(Debug)]
pub(crate) struct Link {
    jobs: mpsc::Sender<Job>,
    pub(crate) health: Arc<Health>,
    counters: Arc<StoreCounters>,
}

/// The probe that tests whether the store works: a charge to a key that belongs to no limit.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) ask: ScriptRequest,
    /// In a cluster, the prefix of the probe's key. The slots of a link may be on several nodes, so the probe goes to
    /// the slot whose call failed last.
    pub(crate) prefix: Option<Arc<str>>,
}

impl Probe {
    /// Makes the probe ask this slot from now on.
    pub(crate) fn aim(&mut self, slot: u16) {
        if let (Some(prefix), Some(part)) = (&self.prefix, self.ask.parts.first_mut()) {
            // This is never the key of a limit, since the key of a limit has a name before the brace.
            part.key = format!("{prefix}:{{{}}}", hash_slot::number_in(slot)).into_bytes();
        }
    }
}

/// The state that all links of a store share.
#[derive(Clone, Debug)]
pub(crate) struct Bond {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) deadline: Duration,
    pub(crate) counters: Arc<StoreCounters>,
    pub(crate) runtime: Handle,
    /// Notified when the store is lost, and when it is back.
    pub(crate) changed: Arc<Notify>,
    /// The text of the script. `digest` is set once a server has returned the script's digest.
    pub(crate) text: Arc<str>,
    pub(crate) digest: Arc<OnceLock<Arc<str>>>,
    pub(crate) clock: Arc<ServerClock>,
}

/// The maximum time for connecting, for a store whose deadline for callers is `deadline`.
pub(crate) fn patience(deadline: Duration) -> Duration {
    (deadline * CONNECTING).max(CONNECTING_LEAST)
}

impl Link {
    /// Starts the task.
    pub(crate) fn open(bond: Bond, probe: Probe) -> Self {
        let (sender, jobs) = mpsc::channel(WAITING);
        let health = Arc::new(Health::new(Instant::now()));
        let Bond { endpoint, deadline, counters, runtime, changed, text, digest, clock } = bond;
        let keeper = LinkTask {
            endpoint,
            jobs,
            deadline,
            probe,
            text,
            health: Arc::clone(&health),
            counters: Arc::clone(&counters),
            clock,
            changed,
            digest,
        };
        runtime.spawn(keeper.run());
        Self { jobs: sender, health, counters }
    }

    /// How long the link has been without the store in all.
    pub(crate) fn isolated(&self) -> Timestamp {
        self.health.isolated(Instant::now())
    }

    /// Asks the store, and waits until `due` at most.
    pub(crate) async fn call(
        &self,
        ask: ScriptRequest,
        due: Instant,
    ) -> Result<ScriptReply, Fault> {
        let result = self.ask(ask, due).await.and_then(ScriptReply::in_a_window);
        if let Err(fault) = result {
            self.counters.fault(fault);
        }
        result
    }

    async fn ask(&self, ask: ScriptRequest, due: Instant) -> Result<ScriptReply, Fault> {
        if !self.health.is_up() {
            return Err(Fault::Unreachable);
        }
        let (answer, mut answered) = oneshot::channel();
        let stage = Arc::<Stage>::default();
        match self.jobs.try_send(Job { ask, answer, stage: Arc::clone(&stage) }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(Fault::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(Fault::Unreachable),
        }
        let result = match timeout_at(due, &mut answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Fault::Disconnected), // the batch was dropped with its connection
            Err(_) if stage.leave() => last_look(&mut answered).await,
            // The request was not sent, and never will be.
            Err(_) => {
                self.counters.add(StoreEvent::MissedInLine, 1);
                return Err(Fault::Deadline);
            }
        };
        if matches!(result, Err(Fault::Deadline)) {
            self.counters.add(StoreEvent::MissedSent, 1);
        }
        result
    }
}

/// Looks once more for the reply to a request that was sent and whose deadline has passed. On a busy machine this task
/// may notice the deadline so late that the reply has already come. So the tasks that carry the reply get a few turns
/// first. No timer is involved.
async fn last_look(
    answered: &mut oneshot::Receiver<Result<ScriptReply, Fault>>,
) -> Result<ScriptReply, Fault> {
    for _ in 0..TURNS {
        yield_now().await;
        match answered.try_recv() {
            Ok(result) => return result,
            Err(oneshot::error::TryRecvError::Closed) => return Err(Fault::Disconnected),
            Err(oneshot::error::TryRecvError::Empty) => {}
        }
    }
    Err(Fault::Deadline)
}

/// A connection that has passed the probe.
struct ProbedWire {
    wire: Wire,
    digest: Arc<str>,
}

/// The task that keeps the connection.
struct LinkTask {
    endpoint: Arc<Endpoint>,
    jobs: mpsc::Receiver<Job>,
    deadline: Duration,
    probe: Probe,
    text: Arc<str>,
    health: Arc<Health>,
    counters: Arc<StoreCounters>,
    clock: Arc<ServerClock>,
    changed: Arc<Notify>,
    digest: Arc<OnceLock<Arc<str>>>,
}

impl LinkTask {
    async fn run(mut self) {
        let mut backoff = Backoff::new();
        loop {
            match self.connect().await {
                Ok(line) => {
                    self.counters.add(StoreEvent::Connections, 1);
                    self.health.rise(Instant::now());
                    self.changed.notify_one();
                    let end = self.serve(&line).await;
                    self.health.fall(Instant::now());
                    let End::Lost { proven, error } = end else { return };
                    self.health.blame(error);
                    self.changed.notify_one();
                    if proven {
                        backoff.reset();
                    }
                }
                Err(error) => {
                    self.counters.fault(error.fault);
                    let missed = u64::from(error.fault == Fault::Deadline);
                    self.counters.add(StoreEvent::MissedConnecting, missed);
                    self.health.blame(error);
                }
            }
            if !self.refuse_until(Instant::now() + backoff.next()).await {
                return;
            }
        }
    }

    /// Refuses all requests until the instant `until`. Returns `false` if every handle was dropped, so that no request
    /// can come any more.
    async fn refuse_until(&mut self, until: Instant) -> bool {
        while let Ok(job) = timeout_at(until, self.jobs.recv()).await {
            let Some(job) = job else { return false };
            _ = job.answer.send(Err(Fault::Unreachable)); // a caller that no longer waits has fallen back
        }
        true
    }

    /// Connects, loads the script, and probes.
    async fn connect(&self) -> Result<ProbedWire, StoreError> {
        let patience = patience(self.deadline);
        let connected = self.endpoint.connect(patience, self.deadline).await?;
        let number = connected.number;
        let line = self.probe(connected.wire, patience).await;
        if line.is_err() {
            self.endpoint.discard(number).await;
        }
        line
    }

    async fn probe(&self, mut wire: Wire, patience: Duration) -> Result<ProbedWire, StoreError> {
        // For most links of a cluster, the node already has the script from another link of this or another process.
        if let Some(digest) = self.digest.get() {
            let (wire, digest) = (wire.clone(), Arc::clone(digest));
            match self.charge(wire, digest).await {
                Err(error) if error.fault == Fault::NoScript => {}
                probed => return probed,
            }
        }
        let key = self.probe.ask.parts.first().map_or(&[][..], |part| &part.key);
        let loading = timeout(patience, wire.load(&self.text, key));
        let digest: Arc<str> = loading.await.map_err(|_| Fault::Deadline)??.into();
        let probed = self.charge(wire, Arc::clone(&digest)).await;
        _ = self.digest.set(digest); // or another link was first, with the same digest
        probed
    }

    /// Sends the probe, and fails if it is not answered in time.
    async fn charge(&self, mut wire: Wire, digest: Arc<str>) -> Result<ProbedWire, StoreError> {
        wire.set_deadline(self.deadline);
        let probe = || std::iter::once(&self.probe.ask);
        let command = script::command(Invoked::ByDigest(&digest), probe());
        let value =
            wire.send(vec![command]).await.pop().unwrap_or(Err(Fault::Unexpected.into()))?;
        script::replies(&value, probe())?;
        Ok(ProbedWire { wire, digest })
    }

    /// Serves requests until the store fails.
    async fn serve(&mut self, line: &ProbedWire) -> End {
        // The task that watches evictions ends when this set is dropped.
        let mut watch = JoinSet::new();
        watch.spawn(watch_evictions(line.wire.clone(), Arc::clone(&self.counters)));
        let mut batches = JoinSet::new();
        let mut misses = Misses::default();
        let mut proven = false;
        loop {
            let (sent, ended) = tokio::select! {
                Some(ended) = batches.join_next() => {
                    let Ok(ended) = ended else {
                        return End::Lost { proven, error: Fault::Disconnected.into() };
                    };
                    ended
                }
                Some(ended) = watch.join_next() => match ended {
                    Ok(error) if error.fault == Fault::Disconnected => {
                        return End::Lost { proven, error };
                    }
                    _ => continue, // the user has no right to `INFO`: keep serving
                },
                job = self.jobs.recv(), if batches.len() < BATCHES_UNDER_WAY => {
                    let Some(first) = job else { return End::Closed };
                    // First, other tasks that are ready get a turn to send their requests, since a call for many
                    // requests costs little more than a call for one.
                    yield_now().await;
                    let jobs = self.gathered(first);
                    let batch = fly(line.wire.clone(), self.names(line), jobs);
                    batches.spawn(async move { (Instant::now(), batch.await) });
                    continue;
                }
            };
            if let Some(FailedBatch { slot, .. }) = &ended {
                self.probe.aim(*slot);
            }
            match ended.map(|failed| failed.error) {
                None => (misses, proven) = (Misses::default(), true),
                Some(error) if error.fault == Fault::Deadline => misses.add(sent, Instant::now()),
                // The fault is in the request itself, so the link stays up: other requests may succeed.
                Some(error) if matches!(error.fault, Fault::Script | Fault::Unexpected) => {}
                Some(error) => return End::Lost { proven, error },
            }
            if misses.count >= MISSED {
                return End::Lost { proven, error: Fault::Deadline.into() };
            }
        }
    }

    fn names(&self, line: &ProbedWire) -> ScriptNames {
        ScriptNames {
            digest: Arc::clone(&line.digest),
            text: Arc::clone(&self.text),
            counters: Arc::clone(&self.counters),
            clock: Arc::clone(&self.clock),
        }
    }

    /// Returns the first request and the requests that wait behind it, up to the size of a batch.
    fn gathered(&mut self, first: Job) -> Vec<Job> {
        let mut jobs = vec![first];
        while jobs.len() < REQUESTS_IN_A_BATCH {
            let Ok(job) = self.jobs.try_recv() else { break };
            jobs.push(job);
        }
        jobs
    }
}

/// The number of batches in a row that missed the deadline. Batches that were under way at the same time count once,
/// since one delay in this process or in the store makes all of them late.
#[derive(Default)]
struct Misses {
    count: u32,
    last: Option<Instant>,
}

impl Misses {
    /// Counts a batch that was sent at `sent` and given up at `given_up`.
    fn add(&mut self, sent: Instant, given_up: Instant) {
        if self.last.is_none_or(|last| sent >= last) {
            self.count += 1;
            self.last = Some(given_up);
        }
    }
}

/// Why a connection is no longer served.
enum End {
    /// Every handle of the link was dropped.
    Closed,
    /// The store failed. `proven` says whether the store had answered at least one batch on this connection.
    Lost { proven: bool, error: StoreError },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up to three batches are under way at the same time, so one pause of this process can make all three late.
    #[test]
    fn batches_that_are_late_together_are_one_miss_and_three_in_a_row_open_the_breaker() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut misses = Misses::default();
        let mut counts = Vec::new();
        for (sent, given_up) in [(0, 10), (1, 11), (9, 19), (11, 21), (12, 22), (19, 29), (22, 32)]
        {
            misses.add(at(sent), at(given_up));
            counts.push(misses.count);
        }
        assert_eq!(counts, [1, 1, 1, 2, 2, 2, 3]);
    }
}
