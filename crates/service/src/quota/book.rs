//! [`Quotas`]: all streams of Envoys, their buckets, and the limits that they share.

mod restart;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tollgate::Clock;
use tollgate_rules::DecisionMaker;
use tonic::Status;

use super::actions::{abandonment, assignment, token_bucket};
use super::counts::{OfQuotas, QuotaCounts};
use super::holder::IN_FORCE;
use super::orphans::{Orphan, Orphans, Predecessor};
use super::pool::{Action, HolderAction, Pool};
use super::reports::{self, Entries, Judgement, LimitKey};
use crate::protocol::kinds::rate_limit_strategy::{BlanketRule, Strategy};
use crate::protocol::quota::rate_limit_quota_response::BucketAction;
use crate::protocol::quota::rate_limit_quota_response::bucket_action::BucketAction as Act;
use crate::protocol::quota::{RateLimitQuotaResponse, RateLimitQuotaUsageReports};

#[cfg(test)]
mod tests;

/// The maximum number of streams at a time. Each Envoy opens one stream.
const MAX_STREAMS: usize = 1024;

/// The maximum number of bytes of all buckets and limits, names and values included.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// The memory in bytes that a bucket or a limit takes besides its names and values.
const OVERHEAD: usize = 512;

/// The maximum number of responses that wait until a stream takes them. If more would wait, the stream is closed.
const MAX_WAITING: usize = 64;

pub(super) type QuotaAnswer = Result<RateLimitQuotaResponse, Status>;

/// All quotas of a service. One lock guards them. It is taken for reports, of which each Envoy sends a few per second,
/// and never for a request.
#[derive(Debug)]
pub(crate) struct Quotas {
    clock: Clock,
    book: Mutex<QuotaBook>,
    counts: Arc<QuotaCounts>,
}

#[derive(Debug, Default)]
struct QuotaBook {
    last_id: u64,
    /// Until this time, in nanoseconds of the clock, assignments of an earlier service may be in force that this
    /// service does not know.
    from: u64,
    /// Set when the service stops. From then on nothing is assigned.
    has_ended: bool,
    orphans: Orphans,
    streams: HashMap<u64, QuotaStream>,
    holders: HashMap<u64, BucketHolder>,
    pools: HashMap<LimitKey, Pool>,
    bytes: usize,
}

#[derive(Debug)]
struct QuotaStream {
    answers: mpsc::Sender<QuotaAnswer>,
    address: IpAddr,
    /// The domain that the first report has named; empty before.
    domain: String,
    /// The number of each bucket's holder.
    buckets: HashMap<Entries, u64>,
    /// The buckets that the Envoy of this stream had before a restart; `None` until they are looked up.
    had: Option<HashMap<Entries, Orphan>>,
}

/// The number of a new stream, and the channel from which it takes its answers.
#[derive(Debug)]
pub(super) struct OpenedStream {
    pub(super) id: u64,
    pub(super) answers: mpsc::Receiver<QuotaAnswer>,
}

/// A bucket of a stream that shares a limit.
#[derive(Clone, Debug)]
struct BucketHolder {
    stream: u64,
    entries: Entries,
    limit: LimitKey,
}

/// The actions to send to each stream.
type Letters = HashMap<u64, Vec<BucketAction>>;

impl Quotas {
    /// Makes quotas that assign nothing for the time [`IN_FORCE`], after which all assignments of an earlier service
    /// are over. If those assignments are [restored](Quotas::restore), this wait is not needed.
    pub(crate) fn new(clock: Clock) -> Self {
        let from = clock.now().as_nanos().saturating_add(IN_FORCE);
        let book = Mutex::new(QuotaBook { from, ..QuotaBook::default() });
        Self { clock, book, counts: Arc::default() }
    }

    pub(crate) fn metrics(&self) -> OfQuotas {
        OfQuotas(Arc::clone(&self.counts))
    }

    /// Opens a stream from this address.
    pub(super) fn open(&self, address: IpAddr) -> Result<OpenedStream, Status> {
        let mut book = self.book();
        book.goes_on()?;
        if book.streams.len() >= MAX_STREAMS {
            let told =
                format!("there are {MAX_STREAMS} streams, and there can be no more; try later");
            return Err(Status::resource_exhausted(told));
        }
        let (answers, received) = mpsc::channel(MAX_WAITING);
        let id = book.next_id();
        let (domain, buckets) = (String::new(), HashMap::new());
        book.streams.insert(id, QuotaStream { answers, address, domain, buckets, had: None });
        self.count(&book);
        Ok(OpenedStream { id, answers: received })
    }

    /// Tells a stream why it ends.
    pub(super) fn refuse(&self, stream: u64, status: Status) {
        if let Some(stream) = self.book().streams.get(&stream) {
            // If the stream's queue is full, the stream ends without a reason.
            let _ = stream.answers.try_send(Err(status));
        }
    }

    /// Records that a stream has closed.
    pub(super) fn close(&self, stream: u64) {
        let now = self.now();
        let mut book = self.book();
        let mut letters = Letters::new();
        book.close(stream, now, &mut letters);
        self.deliver(&mut book, letters, now);
    }

    /// Takes a report. The answers are put into the channels of the streams.
    ///
    /// # Errors
    /// The report is refused, and the stream must end with this status.
    pub(super) fn report(
        &self,
        maker: &DecisionMaker,
        stream: u64,
        reports: &RateLimitQuotaUsageReports,
    ) -> Result<(), Status> {
        let now = self.now();
        let mut book = self.book();
        let mut letters = Letters::new();
        let outcome = self.read(maker, &mut book, stream, now, reports, &mut letters);
        // The actions are sent even if the report is refused, because the pools already treat them as sent.
        self.deliver(&mut book, letters, now);
        outcome
    }

    fn read(
        &self,
        maker: &DecisionMaker,
        book: &mut QuotaBook,
        stream: u64,
        now: u64,
        reports: &RateLimitQuotaUsageReports,
        letters: &mut Letters,
    ) -> Result<(), Status> {
        book.goes_on()?;
        let domain = book.domain(stream, &reports.domain)?;
        for (n, usage) in reports.bucket_quota_usages.iter().enumerate() {
            let (allowed, denied) = (usage.num_requests_allowed, usage.num_requests_denied);
            self.counts.allowed.add(allowed);
            self.counts.denied.add(denied);
            let Some(entries) = reports::entries(usage, n)? else {
                self.counts.refused.add(1);
                continue;
            };
            let judgement = reports::judge(maker, &domain, &entries, n)?;
            let blanket = match judgement {
                Judgement::Free => BlanketRule::AllowAll,
                Judgement::Closed => BlanketRule::DenyAll,
                Judgement::Shared(limit, allowance) => {
                    let holder = book.holder(stream, &entries, &limit, now, letters);
                    let Some(id) = holder else {
                        self.counts.refused.add(1);
                        continue;
                    };
                    let from = book.from;
                    let pool = book.pools.entry(limit);
                    let pool = pool.or_insert_with(|| Pool::new(allowance, now, from));
                    if pool.allowance() != allowance {
                        pool.change(allowance, now);
                    }
                    let actions = pool.report(now, id, allowed, denied);
                    book.write(actions, letters);
                    continue;
                }
            };
            book.forget(stream, &entries, now, letters);
            let strategy = Strategy::BlanketRule(blanket.into());
            letters.entry(stream).or_default().push(assignment(&entries, strategy));
        }
        Ok(())
    }

    /// Lets time pass. Must be called every second.
    pub(crate) fn tick(&self) {
        let now = self.now();
        let mut book = self.book();
        if book.has_ended {
            return;
        }
        book.forget_orphans(now);
        let mut letters = Letters::new();
        let mut actions = Vec::new();
        for pool in book.pools.values_mut() {
            actions.extend(pool.tick(now));
        }
        book.write(actions, &mut letters);
        let QuotaBook { pools, bytes, .. } = &mut *book;
        pools.retain(|limit, pool| {
            let is_needed = !pool.is_idle();
            *bytes -= if is_needed { 0 } else { bytes_of_limit(limit) };
            is_needed
        });
        self.deliver(&mut book, letters, now);
    }

    /// Sends the actions to each stream. A stream whose queue is full is closed.
    fn deliver(&self, book: &mut QuotaBook, mut letters: Letters, now: u64) {
        while let Some(stream) = letters.keys().next().copied() {
            let bucket_action = letters.remove(&stream).unwrap_or_default();
            let Some(to) = book.streams.get(&stream) else { continue };
            let is_abandoned =
                |one: &&BucketAction| matches!(one.bucket_action, Some(Act::AbandonAction(_)));
            let abandoned = bucket_action.iter().filter(is_abandoned).count() as u64;
            self.counts.abandoned.add(abandoned);
            self.counts.assigned.add(bucket_action.len() as u64 - abandoned);
            tracing::debug!("quota stream {stream} is told {bucket_action:?}");
            let answer = RateLimitQuotaResponse { bucket_action };
            if to.answers.try_send(Ok(answer)).is_err() {
                // Closing drops the sender, which ends the stream's task.
                book.close(stream, now, &mut letters);
            }
        }
        self.count(book);
    }

    fn count(&self, book: &QuotaBook) {
        self.counts.streams.set(book.streams.len());
        self.counts.buckets.set(book.holders.len());
        self.counts.bytes.set(book.bytes);
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn book(&self) -> MutexGuard<'_, QuotaBook> {
        // A panic leaves no entry half written. It can only drop actions, with the same effect as a lost message.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaBook {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The domain of a stream. The first report names it, and later reports must not name another domain.
    fn domain(&mut self, stream: u64, named: &str) -> Result<String, Status> {
        let gone = || Status::resource_exhausted("the stream does not take its responses");
        let stream = self.streams.get_mut(&stream).ok_or_else(gone)?;
        match (stream.domain.as_str(), named) {
            ("", "") => Err(Status::invalid_argument("domain is empty; the first report names it")),
            ("", _) => {
                named.clone_into(&mut stream.domain);
                Ok(named.to_owned())
            }
            (domain, "") => Ok(domain.to_owned()),
            (domain, _) if domain == named => Ok(domain.to_owned()),
            (domain, _) => Err(Status::invalid_argument(format!(
                "domain is '{}', and was '{}' before; open another stream for another domain",
                named.escape_debug(),
                domain.escape_debug()
            ))),
        }
    }

    /// The holder of a stream's bucket under a limit. The holder is new if the bucket is new, or had another limit
    /// before. `None` if this would take more than `MAX_BYTES` of memory.
    fn holder(
        &mut self,
        stream: u64,
        entries: &Entries,
        limit: &LimitKey,
        now: u64,
        letters: &mut Letters,
    ) -> Option<u64> {
        let known = self.streams.get(&stream)?.buckets.get(entries).copied();
        if let Some(id) = known {
            if self.holders.get(&id).is_some_and(|holder| holder.limit == *limit) {
                return Some(id);
            }
            self.forget(stream, entries, now, letters);
        }
        let before = self.predecessor(stream, entries, limit);
        let of_limit = if self.pools.contains_key(limit) { 0 } else { bytes_of_limit(limit) };
        let bytes = self.bytes + bytes_of(entries) + of_limit;
        if bytes > MAX_BYTES {
            return None;
        }
        self.bytes = bytes;
        let id = match before {
            Predecessor::Known(id) => id,
            Predecessor::None | Predecessor::OneOfSeveral { .. } => self.next_id(),
        };
        if let (Predecessor::OneOfSeveral { until }, Some(pool)) =
            (before, self.pools.get_mut(limit))
        {
            pool.hold_back(now, id, until);
        }
        let (entries, limit) = (Arc::clone(entries), Arc::clone(limit));
        self.streams.get_mut(&stream)?.buckets.insert(Arc::clone(&entries), id);
        self.holders.insert(id, BucketHolder { stream, entries, limit });
        Some(id)
    }

    /// Removes a stream's bucket from its old limit, because the bucket now has another limit or none.
    fn forget(&mut self, stream: u64, entries: &Entries, now: u64, letters: &mut Letters) {
        let of_stream = self.streams.get_mut(&stream);
        if let Some(id) = of_stream.and_then(|stream| stream.buckets.remove(entries)) {
            self.end(id, now, letters);
        }
    }

    fn close(&mut self, stream: u64, now: u64, letters: &mut Letters) {
        let Some(stream) = self.streams.remove(&stream) else { return };
        if self.has_ended {
            return;
        }
        self.bytes -= stream.had.iter().flat_map(HashMap::keys).map(bytes_of).sum::<usize>();
        for id in stream.buckets.into_values() {
            self.end(id, now, letters);
        }
    }

    /// Removes a holder. Its leases run out, and then other holders can have its share.
    fn end(&mut self, id: u64, now: u64, letters: &mut Letters) {
        let Some(holder) = self.holders.remove(&id) else { return };
        self.bytes -= bytes_of(&holder.entries);
        let pool = self.pools.get_mut(&holder.limit);
        let actions = pool.map(|pool| pool.close(now, id)).unwrap_or_default();
        self.write(actions, letters);
    }

    /// Turns actions of a pool into parts of messages, and adds them to `letters`.
    fn write(&mut self, actions: Vec<HolderAction>, letters: &mut Letters) {
        for HolderAction { holder: id, action } in actions {
            let Some(holder) = self.holders.get(&id) else { continue };
            let part = match action {
                Action::Assign(share) => {
                    // The fill interval is the pool's, because `share` was computed for it. The limit may have changed
                    // since the holder's last report.
                    let Some(pool) = self.pools.get(&holder.limit) else { continue };
                    assignment(&holder.entries, token_bucket(share, pool.allowance().fill_s))
                }
                Action::Abandon => {
                    let part = abandonment(&holder.entries);
                    letters.entry(holder.stream).or_default().push(part);
                    let holder = holder.clone();
                    self.bytes -= bytes_of(&holder.entries);
                    self.holders.remove(&id);
                    if let Some(stream) = self.streams.get_mut(&holder.stream) {
                        stream.buckets.remove(&holder.entries);
                    }
                    continue;
                }
            };
            letters.entry(holder.stream).or_default().push(part);
        }
    }
}

fn bytes_of(entries: &Entries) -> usize {
    let text: usize = entries.iter().map(|(name, value)| name.len() + value.len()).sum();
    text + OVERHEAD
}

fn bytes_of_limit(limit: &LimitKey) -> usize {
    limit.domain.len() + limit.rule.len() + limit.key.len() + OVERHEAD
}
