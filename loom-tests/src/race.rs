//! In a [`race`] each thread makes its own list of requests to one limit, in order.

use std::cell::Cell;
use std::panic;
use std::sync::Arc;

use loom::thread;
use tollgate::control;
use tollgate::{Decision, KeyedLimiter, Limiter, StripedLimiter, Timestamp};

use crate::sketch::Sketch;
use crate::table::{ModelKey, UnseededHash};

/// One request: a key (which an un-keyed limit ignores), a cost, and the caller's now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RaceRequest {
    /// The key that is asked for.
    pub key: ModelKey,
    /// Units.
    pub cost: u64,
    /// The caller's now.
    pub now_ms: u64,
}

/// The request for `cost` units of a key at `now_ms`.
#[must_use]
pub const fn ask(key: ModelKey, cost: u64, now_ms: u64) -> RaceRequest {
    RaceRequest { key, cost, now_ms }
}

/// A request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The request.
    pub ask: RaceRequest,
    /// Whether it was admitted.
    pub allowed: bool,
}

/// A limit that decides at a time that the caller gives.
pub trait RacedLimit: Send + Sync + 'static {
    /// Decides and charges.
    fn decide(&self, ask: RaceRequest) -> Decision;
    /// Decides only.
    fn look(&self, ask: RaceRequest) -> Decision;
}

impl RacedLimit for Limiter {
    fn decide(&self, ask: RaceRequest) -> Decision {
        self.entry().at(Timestamp::from_millis(ask.now_ms)).check_n(ask.cost)
    }

    fn look(&self, ask: RaceRequest) -> Decision {
        self.entry().at(Timestamp::from_millis(ask.now_ms)).peek(ask.cost)
    }
}

impl RacedLimit for KeyedLimiter<ModelKey, UnseededHash> {
    fn decide(&self, ask: RaceRequest) -> Decision {
        self.entry(&ask.key).at(Timestamp::from_millis(ask.now_ms)).check_n(ask.cost)
    }

    fn look(&self, ask: RaceRequest) -> Decision {
        self.entry(&ask.key).at(Timestamp::from_millis(ask.now_ms)).peek(ask.cost)
    }
}

impl RacedLimit for Sketch {
    fn decide(&self, ask: RaceRequest) -> Decision {
        self.entry(&ask.key).at(Timestamp::from_millis(ask.now_ms)).check_n(ask.cost)
    }

    fn look(&self, ask: RaceRequest) -> Decision {
        self.entry(&ask.key).at(Timestamp::from_millis(ask.now_ms)).peek(ask.cost)
    }
}

impl RacedLimit for StripedLimiter {
    fn decide(&self, ask: RaceRequest) -> Decision {
        self.entry().at(Timestamp::from_millis(ask.now_ms)).check_n(ask.cost)
    }

    fn look(&self, ask: RaceRequest) -> Decision {
        self.entry().at(Timestamp::from_millis(ask.now_ms)).peek(ask.cost)
    }
}

/// Makes the requests in order, and returns their answers.
pub fn ask_all(limit: &impl RacedLimit, asks: &[RaceRequest]) -> Vec<Call> {
    asks.iter().map(|&ask| Call { ask, allowed: limit.decide(ask).is_allowed() }).collect()
}

/// The order in which a race's threads are started. Loom first runs the thread that was started last. If a thread only
/// reads, loom may never try some orders of the accesses. So every model is explored with both orders of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of the model's lists.
    Listed,
    /// From the last list to the first.
    Reversed,
}

thread_local! {
    static ORDER: Cell<Order> = const { Cell::new(Order::Listed) };
    static IS_SAME_REVERSED: Cell<bool> = const { Cell::new(false) };
}

/// Sets the order of the races that are modelled on this system thread.
pub fn start_in(order: Order) {
    ORDER.set(order);
}

/// True if the last race has the same lists in both orders.
#[must_use]
pub fn is_same_reversed() -> bool {
    IS_SAME_REVERSED.get()
}

/// Runs one thread for each list, except for the list that the calling thread runs itself. Returns the answers of each
/// list after all threads have ended.
pub fn race<L: RacedLimit>(limit: &Arc<L>, mut lists: Vec<Vec<RaceRequest>>) -> Vec<Vec<Call>> {
    IS_SAME_REVERSED.set(lists.iter().eq(lists.iter().rev()));
    let reversed = ORDER.get() == Order::Reversed;
    if reversed {
        lists.reverse();
    }
    let own = lists.pop().unwrap_or_default();
    let others: Vec<_> = lists
        .into_iter()
        .zip(1..)
        .map(|(asks, number)| {
            let limit = Arc::clone(limit);
            thread::spawn(move || {
                control::number_thread(number);
                ask_all(&*limit, &asks)
            })
        })
        .collect();
    let own = ask_all(&**limit, &own);
    let joined = others.into_iter().map(|other| match other.join() {
        Ok(calls) => calls,
        Err(payload) => panic::resume_unwind(payload),
    });
    let mut calls: Vec<_> = joined.collect();
    calls.push(own);
    if reversed {
        calls.reverse();
    }
    calls
}

/// Makes requests in order, while another thread does something that only reads, such as taking a snapshot. Returns the
/// answers and the result of the other thread.
pub fn race_beside<L: RacedLimit, T: Send + 'static>(
    limit: &Arc<L>,
    asks: Vec<RaceRequest>,
    other: impl FnOnce(&L) -> T + Send + 'static,
) -> (Vec<Call>, T) {
    IS_SAME_REVERSED.set(false);
    let theirs = Arc::clone(limit);
    if ORDER.get() == Order::Reversed {
        let asking = thread::spawn(move || ask_all(&*theirs, &asks));
        let came = other(limit);
        return (asking.join().unwrap_or_else(|payload| panic::resume_unwind(payload)), came);
    }
    let reading = thread::spawn(move || other(&theirs));
    let calls = ask_all(&**limit, &asks);
    (calls, reading.join().unwrap_or_else(|payload| panic::resume_unwind(payload)))
}
