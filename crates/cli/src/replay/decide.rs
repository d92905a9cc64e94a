//! Decides the requests of a log by a policy.
//!
//! The arithmetic is that of the library's [`Meter`], which has one word per key and takes one pure step per request,
//! at the time in the log. A sliding log does not fit in one word, and a [`Meter`] has no queue, so under a sliding
//! log, or a policy with a queue, each key has a [`Limiter`]. This module adds the counts for the report.

use std::time::Duration;

use rayon::prelude::*;
use tollgate::{Decision, Limiter, ManualClock, Meter, Policy, Timestamp, Word};

use super::event::ReplayEvent;
use super::gather::{Keys, RequestLog};
use super::seconds::{SECOND_NS, Seconds};
use super::timeline::Timeline;
use super::waits::Waits;
use crate::delays::{Delays, ask};

/// The number of the most refused keys that are listed.
const WORST_NAMED: usize = 10;

/// The number of slices of a log. The requests in each second are counted one slice after the other, not for the whole
/// log at once. This saves memory, because a log may have as many seconds as lines.
const SLICES: usize = 32;

/// The results of one policy.
#[derive(Debug, Default)]
pub(crate) struct PolicyOutcome {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    /// Keys with a request.
    pub(crate) keys: u64,
    /// Keys with a refused request.
    pub(crate) keys_refused: u64,
    /// The longest wait of a refused request.
    pub(crate) longest_wait: Duration,
    /// The maximum number of requests admitted in one second of the wall clock, over all keys.
    pub(crate) peak_admitted_per_second: u64,
    /// The most refused keys.
    pub(crate) worst: Vec<Worst>,
    /// The admitted and refused requests over time.
    pub(crate) timeline: Timeline,
    /// The waits of refused requests.
    pub(crate) waits: Waits,
    /// The delays of admitted requests, under a policy with a queue.
    pub(crate) delays: Delays,
}

/// The results of a policy or a rule, and its name.
#[derive(Debug)]
pub(crate) struct NamedOutcome {
    pub(crate) name: String,
    pub(crate) outcome: PolicyOutcome,
}

/// A key among the most refused.
#[derive(Clone, Debug)]
pub(crate) struct Worst {
    /// The number of the key.
    pub(crate) key: usize,
    pub(crate) requests: u64,
    pub(crate) refused: u64,
}

/// The state of one key while its requests are decided.
#[derive(Debug, Default)]
struct KeyState {
    word: Word,
    /// The state in place of the word, for a sliding log or a policy with a queue.
    limiter: Option<Box<Limiter>>,
    requests: u64,
    refused: u64,
}

/// One policy applied to some of the keys.
#[derive(Debug)]
pub(crate) struct PolicyRun {
    policy: Policy,
    /// None for a sliding log, or a policy with a queue.
    meter: Option<Meter>,
    accounts: Vec<KeyState>,
    longest_wait: Duration,
    timeline: Timeline,
    waits: Waits,
    delays: Delays,
}

impl PolicyRun {
    /// Makes a run over keys that are numbered from zero.
    pub(crate) fn new(policy: Policy, keys: usize) -> Self {
        Self {
            policy,
            meter: Meter::new(policy).ok().filter(|_| policy.at_limit().queue.is_none()),
            accounts: std::iter::repeat_with(KeyState::default).take(keys).collect(),
            longest_wait: Duration::ZERO,
            timeline: Timeline::default(),
            waits: Waits::default(),
            delays: Delays::default(),
        }
    }

    /// Makes room for new keys.
    pub(crate) fn grow(&mut self, keys: usize) {
        self.accounts.resize_with(keys.max(self.accounts.len()), KeyState::default);
    }

    /// Decides one request; returns whether it is admitted.
    pub(crate) fn decide(&mut self, account: usize, nanos: u64) -> bool {
        let account = &mut self.accounts[account];
        let now = Timestamp::from_nanos(nanos);
        let decision = if let Some(meter) = &self.meter {
            let (decision, next) = meter.check(account.word, now, 1);
            account.word = next;
            decision
        } else {
            let limiter =
                || Box::new(Limiter::builder(self.policy).clock(ManualClock::new()).build());
            let (decision, delay) = ask(account.limiter.get_or_insert_with(limiter), now);
            delay.into_iter().for_each(|delay| self.delays.add(delay));
            decision
        };
        account.requests += 1;
        if let Decision::Denied(denial) = decision {
            account.refused += 1;
            // A single unit fits every quota, so there is always a time to retry.
            let wait = denial.retry_after().unwrap_or_default();
            self.longest_wait = self.longest_wait.max(wait);
            self.waits.add(wait);
        }
        let is_allowed = decision.is_allowed();
        self.timeline.add(nanos, is_allowed);
        is_allowed
    }

    /// Returns the results. `number` returns the number of an account's key. The caller computes the peak, because only
    /// it knows how many requests other runs admitted in the same second.
    pub(crate) fn finish(self, number: impl Fn(usize) -> usize, keys: &Keys) -> PolicyOutcome {
        let Self { longest_wait, timeline, waits, delays, .. } = self;
        let mut outcome =
            PolicyOutcome { longest_wait, timeline, waits, delays, ..PolicyOutcome::default() };
        for (index, &KeyState { requests, refused, .. }) in self.accounts.iter().enumerate() {
            outcome.admitted += requests - refused;
            outcome.refused += refused;
            outcome.keys += u64::from(requests > 0);
            if refused > 0 {
                outcome.keys_refused += 1;
                outcome.consider(Worst { key: number(index), requests, refused }, keys);
            }
        }
        outcome
    }
}

impl PolicyOutcome {
    /// Adds the results of another run of the same policy over other keys.
    fn append(mut self, other: Self, keys: &Keys) -> Self {
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.keys += other.keys;
        self.keys_refused += other.keys_refused;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.timeline = self.timeline.merge(other.timeline);
        self.waits.append(other.waits);
        self.delays.append(other.delays);
        other.worst.into_iter().for_each(|worst| self.consider(worst, keys));
        self
    }

    /// Adds a key to the list if it is among the most refused. Keys are ordered by refusals, then by requests, then by
    /// text. They are not ordered by number, since the numbers depend on the order in which threads read.
    pub(crate) fn consider(&mut self, key: Worst, keys: &Keys) {
        let comes_before = |a: &Worst, b: &Worst| {
            let counts = (b.refused, b.requests).cmp(&(a.refused, a.requests));
            let texts = || keys[a.key].cmp(&keys[b.key]);
            counts.then_with(texts).is_lt()
        };
        let place = self.worst.partition_point(|known| comes_before(known, &key));
        if place < WORST_NAMED {
            self.worst.truncate(WORST_NAMED - 1);
            self.worst.insert(place, key);
        }
    }
}

/// The keys of one partition, and their requests that are not decided yet.
struct PartitionRest<'l> {
    run: PolicyRun,
    events: &'l [ReplayEvent],
}

impl PartitionRest<'_> {
    /// Decides the requests before `end_ns`, and counts the admitted ones by second.
    fn decide_until(&mut self, end_ns: u64, partitions: usize) -> Seconds {
        let split = self.events.partition_point(|event| event.nanos() < end_ns);
        let (now, later) = self.events.split_at(split);
        self.events = later;
        let mut seconds = Seconds::default();
        for event in now {
            if self.run.decide(event.key() as usize / partitions, event.nanos()) {
                seconds.add(event.nanos());
            }
        }
        seconds
    }
}

/// Decides a whole log, its partitions in parallel.
pub(crate) fn decide<'l>(policy: Policy, log: &'l RequestLog) -> PolicyOutcome {
    let partitions = log.partitions.len();
    let share = |(partition, events): (usize, &'l Vec<ReplayEvent>)| {
        // Account i of partition p belongs to key i * partitions + p.
        PartitionRest { run: PolicyRun::new(policy, log.keys_in(partition)), events }
    };
    let mut shares: Vec<_> = log.partitions.iter().enumerate().map(share).collect();
    let mut peak = 0;
    for end_ns in slice_ends(log) {
        let seconds = shares
            .par_iter_mut()
            .map(|share| share.decide_until(end_ns, partitions))
            .reduce(Seconds::default, Seconds::merge);
        peak = peak.max(seconds.peak());
    }
    let outcome = shares
        .into_par_iter()
        .enumerate()
        .map(|(partition, share)| share.run.finish(|i| i * partitions + partition, &log.keys))
        .reduce(PolicyOutcome::default, |outcome, other| outcome.append(other, &log.keys));
    PolicyOutcome { peak_admitted_per_second: peak, ..outcome }
}

/// Returns the ends of the slices of a log. Each slice ends with a whole second, so that a second is counted in one
/// slice only. The slices have about equally many requests.
fn slice_ends(log: &RequestLog) -> impl Iterator<Item = u64> {
    let longest = log.partitions.iter().max_by_key(|events| events.len());
    let longest = longest.map_or(&[][..], |events| events);
    (1..SLICES)
        .filter_map(|slice| longest.get(longest.len() * slice / SLICES))
        .map(|event| (event.nanos() / SECOND_NS + 1) * SECOND_NS)
        .chain([u64::MAX])
}
