//! Decides one request at the gates of a layer, before the inner service is called.
//!
//! All gates that deny are asked together: either all of them are charged or none ([`tollgate::check_all`]). Shadow
//! gates are asked afterwards, and only for admitted requests, because that is the traffic that they would see if
//! they denied.
//!
//! An admitted request allocates only the text of its header: keys, asks and tolls have a fixed size, and a layer has
//! at most [`GATES_MAX`] gates.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrayvec::ArrayVec;
use ipnet::IpNet;
use tollgate::{Decision, Denial, Permit, Reservation, Toll, check_all};

use crate::extract::{Head, NoKey, peer_of};
use crate::gate::{Gate, GateMode, MissingKey, Sleeping};
use crate::headers::{FixedHeaders, KeyStanding, Stamp, secs_up};
use crate::key::Key;
use crate::limit::Limit;
use crate::observe::GateOutcome;
use crate::settle::{GateCharge, Settle, Shadowed};

/// The maximum number of gates in one layer: their tolls stand on the stack.
pub(crate) const GATES_MAX: usize = 8;

type Exempt = dyn Fn(&Head<'_>) -> bool + Send + Sync;

/// Everything that all clones of a layer and of its services share.
#[derive(Clone)]
pub(crate) struct GateRules {
    /// In the order in which they were given.
    pub(crate) gates: Arc<[Gate]>,
    pub(crate) fixed: FixedHeaders,
    pub(crate) exempt: Vec<Arc<Exempt>>,
    pub(crate) exempt_peers: Arc<[IpNet]>,
    pub(crate) jitter_secs: u64,
    pub(crate) settle: bool,
    /// Spreads clients over the jitter.
    pub(crate) spread: RandomState,
}

/// The outcome for a request.
pub(crate) enum GateVerdict<'g> {
    /// It passes, and its extensions are left as they are.
    Pass(Stamp),
    /// Boxed, so that the common variant is cheap to move.
    Rare(Box<Rare<'g>>),
}

/// Every outcome that needs more than calling the inner service with the request as it came.
pub(crate) enum Rare<'g> {
    Note(PassMarks),
    Wait(QueueTurn, PassMarks),
    Deny(Refusal<'g>),
}

impl GateVerdict<'_> {
    fn pass(marks: PassMarks) -> Self {
        match marks {
            PassMarks { stamp, settle: None, shadowed: None } => Self::Pass(stamp),
            marks => Self::Rare(Box::new(Rare::Note(marks))),
        }
    }
}

/// What is put into the extensions of an admitted request and the headers of its answer.
pub(crate) struct PassMarks {
    pub(crate) stamp: Stamp,
    pub(crate) settle: Option<Settle>,
    pub(crate) shadowed: Option<Shadowed>,
}

/// A denied request.
pub(crate) struct Refusal<'g> {
    pub(crate) gate: &'g Gate,
    pub(crate) denial: Denial,
    pub(crate) retry_after_secs: Option<u64>,
    pub(crate) stamp: Stamp,
}

/// What one gate is asked for one request.
struct GateRequest<'g> {
    gate: &'g Gate,
    key: Key,
    cost: u64,
}

type Asks<'g> = ArrayVec<GateRequest<'g>, GATES_MAX>;

impl<'g> GateRequest<'g> {
    /// `None` if the gate does not apply to this request.
    fn of(gate: &'g Gate, head: &Head<'_>) -> Option<Self> {
        let mut key = Key::new();
        gate.find_key(head, &mut key).then(|| Self { gate, key, cost: gate.cost.of(head) })
    }

    fn check(&self) -> Decision {
        self.gate.limit.check(&self.key, self.cost)
    }

    fn count(&self, outcome: GateOutcome) {
        self.gate.count(outcome);
    }
}

impl Gate {
    /// Whether the gate applies to a request, and under which key.
    #[inline]
    fn find_key(&self, head: &Head<'_>, key: &mut Key) -> bool {
        match self.by.extract(head, key) {
            Ok(()) => true,
            Err(why) => self.has_no_key(why, key),
        }
    }

    #[cold]
    fn has_no_key(&self, why: NoKey, key: &mut Key) -> bool {
        if why == NoKey::NotConcerned {
            return false;
        }
        self.count(GateOutcome::NoKey);
        *key = Key::nobody(); // drops the parts that were added before the failure
        self.missing == MissingKey::Share
    }

    #[inline]
    fn count(&self, outcome: GateOutcome) {
        self.tally.count(&self.name, outcome);
    }
}

/// What each ask was charged, in the order of the asks. Filled in place, because it is large.
type Permits = ArrayVec<Option<Permit>, GATES_MAX>;

impl GateRules {
    /// Decides a request, exactly once.
    #[inline]
    pub(crate) fn decide(&self, head: &Head<'_>) -> GateVerdict<'_> {
        if !(self.exempt.is_empty() && self.exempt_peers.is_empty()) && self.is_exempt(head) {
            return GateVerdict::Pass(Stamp::NOTHING);
        }
        match &*self.gates {
            [only] if matches!(only.mode, GateMode::Deny) && !self.settle => {
                self.at_one(only, head)
            }
            _ => self.at_all(head),
        }
    }

    /// The most common layer: one gate, which denies. It needs none of the lists, and its key is not moved.
    #[inline]
    fn at_one<'g>(&self, gate: &'g Gate, head: &Head<'_>) -> GateVerdict<'g> {
        let mut key = Key::new();
        if !gate.find_key(head, &mut key) {
            return GateVerdict::Pass(Stamp::NOTHING);
        }
        match &gate.limit.check(&key, gate.cost.of(head)) {
            Decision::Allowed(permit) => {
                gate.count(GateOutcome::Allowed);
                GateVerdict::Pass(self.stamp(gate, permit, permit.is_over()))
            }
            Decision::Denied(denial) => self.refuse(gate, &key, denial),
        }
    }

    // Apart from the most common layer, which then needs none of this stack space.
    #[inline(never)]
    fn at_all(&self, head: &Head<'_>) -> GateVerdict<'_> {
        let mut asks = Asks::new();
        let denying = self.gates.iter().filter(|gate| !gate.is_shadow());
        asks.extend(denying.filter_map(|gate| GateRequest::of(gate, head)));
        let mut permits = Permits::new();
        let (index, decision) = match asks.as_slice() {
            [] => {
                let shadowed = self.shadowed(head);
                return GateVerdict::pass(PassMarks {
                    stamp: Stamp::NOTHING,
                    settle: None,
                    shadowed,
                });
            }
            [only] => {
                if let GateMode::Delay { max_wait, .. } = only.gate.mode {
                    return self.queue(only, max_wait, head);
                }
                let decision = only.check();
                permits.push(decision.into_result().ok());
                (0, decision)
            }
            several => all(several, &mut permits),
        };
        let ask = &asks[index];
        match &decision {
            Decision::Allowed(permit) => {
                asks.iter().for_each(|ask| ask.count(GateOutcome::Allowed));
                // Another gate than the one that is reported may be over its limit, too.
                let is_over = permits.iter().flatten().any(Permit::is_over);
                GateVerdict::pass(PassMarks {
                    stamp: self.stamp(ask.gate, permit, is_over),
                    settle: self.settlement(&asks, &permits),
                    shadowed: self.shadowed(head),
                })
            }
            Decision::Denied(denial) => self.refuse(ask.gate, &ask.key, denial),
        }
    }

    #[inline(never)]
    fn is_exempt(&self, head: &Head<'_>) -> bool {
        if self.exempt.iter().any(|exempt| exempt(head)) {
            return true;
        }
        if self.exempt_peers.is_empty() {
            return false;
        }
        // The peer of the connection itself: no header can exempt a request.
        let peer = peer_of(head.extensions).map(|peer| IpAddr::to_canonical(&peer));
        peer.is_some_and(|peer| self.exempt_peers.iter().any(|network| network.contains(&peer)))
    }

    #[inline]
    fn stamp(&self, gate: &Gate, permit: &Permit, is_over: bool) -> Stamp {
        if self.fixed.is_silent() {
            return Stamp::NOTHING;
        }
        let standing = KeyStanding {
            limit: permit.limit(),
            remaining: permit.remaining(),
            reset_secs: secs_up(permit.reset_after()),
            retry_after_secs: None,
            is_over,
        };
        self.fixed.stamp(&gate.name, &gate.opening, standing)
    }

    #[cold]
    fn refuse<'g>(&self, gate: &'g Gate, key: &Key, denial: &Denial) -> GateVerdict<'g> {
        let outcome =
            if denial.is_table_full() { GateOutcome::TableFull } else { GateOutcome::Denied };
        gate.count(outcome);
        gate.tally.log(&gate.name, denial, outcome);
        let later = self.jitter(key);
        let retry_after_secs =
            denial.retry_after_secs().map(|seconds| seconds.saturating_add(later));
        let standing = KeyStanding {
            limit: denial.limit(),
            remaining: denial.remaining(),
            reset_secs: retry_after_secs.unwrap_or_else(|| secs_up(denial.reset_after())),
            // A denial's wait is at least 1 s, so no value is lost.
            retry_after_secs: retry_after_secs.and_then(NonZeroU64::new),
            is_over: false,
        };
        let stamp = self.fixed.stamp(&gate.name, &gate.opening, standing);
        let refusal = Refusal { gate, denial: *denial, retry_after_secs, stamp };
        GateVerdict::Rare(Box::new(Rare::Deny(refusal)))
    }

    /// The same for one key each time, so that a client gains nothing by asking again; spread evenly over the keys.
    fn jitter(&self, key: &Key) -> u64 {
        match self.jitter_secs.checked_add(1) {
            Some(1) => 0,
            Some(steps) => self.spread.hash_one(key) % steps,
            None => self.spread.hash_one(key),
        }
    }

    fn queue<'g>(
        &'g self,
        ask: &GateRequest<'g>,
        max_wait: Duration,
        head: &Head<'_>,
    ) -> GateVerdict<'g> {
        let place = match ask.gate.limit.entry(&ask.key).reserve(ask.cost, max_wait) {
            Ok(place) => place,
            Err(denial) => return self.refuse(ask.gate, &ask.key, &denial),
        };
        let permit = *place.permit();
        let marks = PassMarks {
            stamp: self.stamp(ask.gate, &permit, permit.is_over()),
            settle: self.settlement(std::slice::from_ref(ask), &[Some(permit)]),
            shadowed: self.shadowed(head),
        };
        let GateMode::Delay { sleep, .. } = &ask.gate.mode else { return GateVerdict::pass(marks) };
        if place.wait().is_zero() {
            ask.count(GateOutcome::Allowed);
            return GateVerdict::pass(marks);
        }
        ask.count(GateOutcome::Delayed);
        let sleeping = sleep(place.wait());
        let limit = Arc::clone(&ask.gate.limit);
        let turn = QueueTurn { limit, key: ask.key, place: Some(place), sleeping };
        GateVerdict::Rare(Box::new(Rare::Wait(turn, marks)))
    }

    fn settlement(&self, asks: &[GateRequest<'_>], permits: &[Option<Permit>]) -> Option<Settle> {
        self.settle.then(|| {
            let charged = asks.iter().zip(permits);
            Settle::new(charged.map(|(ask, permit)| GateCharge::new(ask.gate, ask.key, *permit)))
        })
    }

    /// The names of the shadow gates that would have denied.
    fn shadowed(&self, head: &Head<'_>) -> Option<Shadowed> {
        let mut by = Vec::new();
        for gate in self.gates.iter().filter(|gate| gate.is_shadow()) {
            let Some(ask) = GateRequest::of(gate, head) else { continue };
            match ask.check() {
                Decision::Allowed(_) => ask.count(GateOutcome::Allowed),
                Decision::Denied(denial) => {
                    ask.count(GateOutcome::Shadowed);
                    gate.tally.log(&gate.name, &denial, GateOutcome::Shadowed);
                    by.push(gate.name.clone());
                }
            }
        }
        (!by.is_empty()).then_some(Shadowed { by })
    }
}

/// Charges all gates or none. Returns the index of the gate that is reported, and its decision.
fn all(asks: &[GateRequest<'_>], permits: &mut Permits) -> (usize, Decision) {
    let mut tolls: ArrayVec<Toll<'_>, GATES_MAX> =
        asks.iter().map(|ask| ask.gate.limit.entry(&ask.key).cost(ask.cost)).collect();
    let joint = check_all(&mut tolls);
    permits.extend(tolls.iter().map(Toll::permit));
    match (joint.index(), joint.decision()) {
        (Some(index), Some(decision)) => (index, decision),
        // `check_all` has no decision only for an empty list, which does not get here.
        _ => (0, asks[0].check()),
    }
}

/// A place in the queue of a gate. A request that is dropped before its turn gives back what has not drained since
/// ([`tollgate::Entry::cancel`]), whatever other requests have charged and given back.
pub(crate) struct QueueTurn {
    limit: Arc<dyn Limit>,
    key: Key,
    place: Option<Reservation>,
    sleeping: Sleeping,
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
        if let Some(place) = self.place.take() {
            self.limit.entry(&self.key).cancel(place);
        }
    }
}
