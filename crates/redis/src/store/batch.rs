//! [`Batch`]: requests that go to the store together.
//!
//! Requests for one unit of the same limit are merged into one request for as many units. The requests that came first
//! get the units that the merged request takes. Each request gets the answer that it would get alone, since requests
//! for one unit differ only in their order. Requests are not merged if a denial changes the state, or under a soft
//! limit, where an answer says whether the request was within the limit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ahash::RandomState;
use tokio::sync::oneshot;

use crate::error::Fault;
use crate::hash_slot;
use crate::script::plan::ScriptPlan;
use crate::script::{ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::weight::Weight;

/// The maximum number of limits in one call of the script. A limit takes about 3 us, so a call occupies the server for
/// no more than 50 us. A request under more limits is a call by itself.
const LIMITS_IN_A_CALL: usize = 16;

/// A request to the store, and the channel for its answer.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) ask: ScriptRequest,
    pub(crate) answer: ReplySender,
    pub(crate) stage: Arc<Stage>,
}

/// The stage that a request has reached. The task that sends the request swaps this value once, and so does the caller
/// if its deadline passes. So both agree on which of them was first. If the caller left before the request was sent,
/// the request is not sent, and so not charged.
#[derive(Debug, Default)]
pub(crate) struct Stage(AtomicU8);

/// The values of [`Stage`].
const IN_LINE: u8 = 0;
const SENT: u8 = 1;
const LEFT: u8 = 2;

impl Stage {
    /// Marks the request as sent. If this returns `false`, the caller has left, and the request must not be sent.
    pub(crate) fn send(&self) -> bool {
        self.reach(SENT) == IN_LINE
    }

    /// Marks that the caller no longer waits. Returns true if the request was already sent.
    pub(crate) fn leave(&self) -> bool {
        self.reach(LEFT) == SENT
    }

    fn reach(&self, stage: u8) -> u8 {
        // Relaxed: all swaps of one word are in one order, which decides whether the caller or the task was first.
        // Neither of them reads memory on the strength of the swap, since the channels publish the request and its
        // answer.
        self.0.swap(stage, Ordering::Relaxed)
    }
}

type ReplySender = oneshot::Sender<Result<ScriptReply, Fault>>;

/// One request to the store, and the callers that wait for its answer.
#[derive(Debug)]
struct BatchedRequest {
    ask: ScriptRequest,
    first: Option<ReplySender>,
    others: Vec<ReplySender>,
}

/// Requests that go to the store together, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Batch(Vec<BatchedRequest>);

impl Batch {
    pub(crate) fn of(jobs: Vec<Job>) -> Self {
        // The map's key contains the policy, since some requests still use the old policy while a limit changes.
        let mut places: HashMap<(Vec<u8>, ScriptPlan), usize, RandomState> = HashMap::default();
        let mut batch = Vec::with_capacity(jobs.len());
        let is_alone = jobs.len() == 1;
        for Job { ask, answer, stage } in jobs {
            // The caller may have given up and decided by `OnError`, or its future may have been dropped. In both cases
            // the request is not sent, and so not charged.
            if answer.is_closed() || !stage.send() {
                continue;
            }
            if !is_alone && is_one_unit(&ask) {
                let only = &ask.parts[0];
                match places.entry((only.key.clone(), only.plan)) {
                    Entry::Occupied(place) => {
                        let asked: &mut BatchedRequest = &mut batch[*place.get()];
                        asked.others.push(answer);
                        asked.ask.parts[0].units = Units::up_to(1 + asked.others.len() as u64);
                        continue;
                    }
                    Entry::Vacant(place) => _ = place.insert(batch.len()),
                }
            }
            batch.push(BatchedRequest { ask, first: Some(answer), others: Vec::new() });
        }
        Self(batch)
    }

    /// Sorts the requests by their slots in a cluster, since a call has requests of one slot.
    pub(crate) fn by_slot(mut self) -> Self {
        self.0.sort_by_cached_key(BatchedRequest::slot);
        self
    }

    /// The slot of a request.
    pub(crate) fn slot(&self, n: usize) -> u16 {
        self.0.get(n).map_or(0, BatchedRequest::slot)
    }

    /// The requests of each call. In a cluster, all requests of a call must be in one slot.
    pub(crate) fn calls(&self, is_cluster: bool) -> Vec<Range<usize>> {
        let mut calls = Vec::with_capacity(self.0.len() / LIMITS_IN_A_CALL + 1);
        let (mut first, mut limits) = (0, 0);
        for (n, asked) in self.0.iter().enumerate() {
            limits += asked.ask.parts.len();
            let is_elsewhere = is_cluster && n > first && self.slot(n) != self.slot(first);
            if is_elsewhere || limits > LIMITS_IN_A_CALL && n > first {
                calls.push(first..n);
                (first, limits) = (n, asked.ask.parts.len());
            }
        }
        if first < self.0.len() {
            calls.push(first..self.0.len());
        }
        calls
    }

    pub(crate) fn asks(&self, call: Range<usize>) -> impl Iterator<Item = &ScriptRequest> + Clone {
        self.0[call].iter().map(|asked| &asked.ask)
    }

    /// Gives each caller of a call its answer.
    pub(crate) fn answer(&mut self, call: Range<usize>, replies: Result<Vec<ScriptReply>, Fault>) {
        let mut replies = replies.map(Vec::into_iter);
        for asked in &mut self.0[call] {
            let result = match &mut replies {
                Ok(replies) => replies.next().ok_or(Fault::Unexpected),
                Err(fault) => Err(*fault),
            };
            asked.answer(result);
        }
    }
}

impl BatchedRequest {
    fn slot(&self) -> u16 {
        self.ask.parts.first().map_or(0, |part| hash_slot::of_key(&part.key))
    }

    fn answer(&mut self, result: Result<ScriptReply, Fault>) {
        let Some(first) = self.first.take() else { return };
        // A caller that no longer waits has decided by `OnError`. Its answer is dropped.
        if self.others.is_empty() {
            _ = first.send(result);
            return;
        }
        let units = result.as_ref().map_or(0, |reply| reply.parts.first().map_or(0, |p| p.units));
        let answers = std::iter::once(first).chain(std::mem::take(&mut self.others));
        for (n, answer) in (0..).zip(answers) {
            _ = answer.send(result.clone().map(|reply| portion(reply, n < units)));
        }
    }
}

/// Whether a request asks for one unit of one limit, and for nothing else.
fn is_one_unit(ask: &ScriptRequest) -> bool {
    match &ask.parts[..] {
        [only] => {
            ask.verb == ScriptVerb::Check
                && only.units == Units::exactly(1)
                && only.say == Weight::Denies
                && !only.plan.counts_denials()
                && only.plan.soft_bp == 0
        }
        _ => false,
    }
}

/// Makes the answer to one of several merged requests from the reply to the merged request.
fn portion(mut reply: ScriptReply, admitted: bool) -> ScriptReply {
    reply.admitted = admitted;
    for seen in &mut reply.parts {
        (seen.admits, seen.units) = (admitted, u64::from(admitted));
    }
    reply
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::Receiver;

    use super::*;
    use crate::script::state::State;
    use crate::script::{PartReply, ScriptPart};

    fn ask(key: &str, units: Units) -> ScriptRequest {
        let plan = ScriptPlan::new("10/m".parse().unwrap()).unwrap();
        let parts = vec![ScriptPart::new(key.as_bytes().to_vec(), plan, units)];
        ScriptRequest { verb: ScriptVerb::Check, parts }
    }

    fn jobs(asks: Vec<ScriptRequest>) -> (Vec<Job>, Vec<Receiver<Result<ScriptReply, Fault>>>) {
        let job = |ask| {
            let (answer, answered) = oneshot::channel();
            (Job { ask, answer, stage: Arc::default() }, answered)
        };
        asks.into_iter().map(job).unzip()
    }

    fn reply(units: u64) -> ScriptReply {
        let state = State::Gcra { debt: 0 };
        let seen = PartReply { admits: units > 0, broken: false, astray: false, units, state };
        ScriptReply { now_us: 7, admitted: units > 0, parts: vec![seen] }
    }

    #[test]
    fn requests_for_one_unit_of_a_limit_are_one_and_the_first_get_the_units() {
        let one = Units::exactly(1);
        let asks = vec![ask("a", one), ask("b", one), ask("a", one), ask("a", one)];
        let (jobs, mut answers) = jobs(asks);
        let mut batch = Batch::of(jobs);
        let wants: Vec<_> = batch.asks(0..2).map(|ask| ask.parts[0].units).collect();
        assert_eq!(wants, [Units::up_to(3), one]);
        assert_eq!(batch.calls(false), vec![0..2]);
        batch.answer(0..2, Ok(vec![reply(2), reply(0)]));
        let mut admitted = |n: usize| {
            let reply = answers[n].try_recv().unwrap().unwrap();
            assert_eq!(reply.parts[0].units, u64::from(reply.admitted));
            reply.admitted
        };
        assert_eq!([0, 1, 2, 3].map(&mut admitted), [true, false, true, false]);
    }

    #[test]
    fn requests_that_are_something_else_stay_by_themselves() {
        let lease = Units { want: 5, least: 1, share: 2, stamp: 0 };
        let peek = ScriptRequest { verb: ScriptVerb::Peek, ..ask("a", Units::exactly(1)) };
        let asks =
            vec![ask("a", Units::exactly(1)), ask("a", Units::exactly(2)), ask("a", lease), peek];
        let (jobs, _answers) = jobs(asks);
        assert_eq!(Batch::of(jobs).asks(0..4).count(), 4);
    }

    #[test]
    fn requests_are_not_merged_where_a_denial_counts_or_a_limit_is_soft() {
        let asked = |policy: &str| {
            let plan = ScriptPlan::new(policy.parse().unwrap()).unwrap();
            let one = || {
                let parts = vec![ScriptPart::new(b"a".to_vec(), plan, Units::exactly(1))];
                ScriptRequest { verb: ScriptVerb::Check, parts }
            };
            let (jobs, _answers) = jobs(vec![one(), one()]);
            Batch::of(jobs).0.len()
        };
        assert_eq!(["10/m", "sliding-log 10/m"].map(asked), [1, 1]);
        let apart = ["10/m count-denied", "sliding-log 10/m count-denied", "10/m soft 10%"];
        assert_eq!(apart.map(asked), [2, 2, 2]);
    }

    #[test]
    fn a_request_whose_caller_no_longer_waits_is_not_sent() {
        let (jobs, answers) = jobs(vec![ask("a", Units::exactly(1)), ask("b", Units::exactly(1))]);
        drop(answers);
        assert!(Batch::of(jobs).calls(false).is_empty());
    }

    /// A caller and the sending task agree on which of them was first. So a request whose caller leaves before it is
    /// sent is not charged.
    #[test]
    fn a_request_that_its_caller_left_in_line_is_not_sent_and_one_that_was_sent_says_so() {
        let one = Units::exactly(1);
        let (jobs, _answers) = jobs(vec![ask("a", one), ask("b", one), ask("a", one)]);
        let stages: Vec<_> = jobs.iter().map(|job| Arc::clone(&job.stage)).collect();
        assert!(!stages[0].leave());
        let batch = Batch::of(jobs);
        let sent: Vec<_> = batch.asks(0..2).map(|ask| ask.parts[0].key.clone()).collect();
        assert_eq!(sent, [b"b", b"a"]);
        assert_eq!(batch.asks(0..2).map(|ask| ask.parts[0].units).collect::<Vec<_>>(), [one; 2]);
        assert!(stages[1].leave() && stages[2].leave());
    }

    #[test]
    fn a_call_has_sixteen_limits_and_a_request_is_never_divided() {
        let asks = (0..20).map(|n: u32| {
            let mut ask = ask(&n.to_string(), Units::exactly(2));
            let parts = vec![ask.parts[0].clone(); if n == 18 { 40 } else { 1 }];
            ask.parts = parts;
            ask
        });
        let (jobs, _answers) = jobs(asks.collect());
        assert_eq!(Batch::of(jobs).calls(false), [0..16, 16..18, 18..19, 19..20]);
    }

    #[test]
    fn in_a_cluster_a_call_has_limits_of_one_slot() {
        let keys =
            (0..18).map(|n| format!("{{a}}{n}")).chain(["{b}", "{a}", "{c}"].map(String::from));
        let asks = keys.map(|key| ask(&key, Units::exactly(2))).collect();
        let (jobs, _answers) = jobs(asks);
        let batch = Batch::of(jobs).by_slot();
        let slots: Vec<u16> = (0..21).map(|n| batch.slot(n)).collect();
        assert!(slots.is_sorted());
        let calls = batch.calls(true);
        assert_eq!(calls.len(), 4);
        assert!(calls.iter().all(|call| call.len() <= 16));
        assert!(
            calls
                .into_iter()
                .all(|call| slots[call.clone()].iter().all(|slot| *slot == slots[call.start]))
        );
    }

    #[test]
    fn a_fault_answers_every_request_of_its_call() {
        let asks = vec![ask("a", Units::exactly(1)), ask("a", Units::exactly(1))];
        let (jobs, mut answers) = jobs(asks);
        let mut batch = Batch::of(jobs);
        batch.answer(0..1, Err(Fault::Busy));
        for answer in &mut answers {
            assert_eq!(answer.try_recv().unwrap(), Err(Fault::Busy));
        }
    }
}
