//! Decides one request at the gates of a layer, before the inner service is called.
//!
//! The gates that are not shadows are asked together: either all of them are charged, or none (`joint.rs`). Shadow
//! gates only count. They are asked afterwards and only about admitted requests, because real gates in their place
//! would see no others.
//!
//! If a limit is kept elsewhere, such as in Redis, the request waits for its answer (`elsewhere.rs`). Exemptions,
//! headers and denials then follow the same rules.
//!
//! An admitted request allocates only the text of its header: keys, requests to gates and claims have a fixed size, and
//! a layer has at most [`GATES_MAX`](crate::ask::GATES_MAX) gates.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use ipnet::IpNet;
use tollgate::{Decision, DecisionSummary, Denial, DenialReason, Permit};
use tollgate_http::headers::Headers;
use tollgate_http::headers::write::{FixedHeaders, KeyStanding, Stamp, secs_up};
use tollgate_http::keys::{Head, Key, peer_address};

use crate::answer::LimitAnswer;
use crate::ask::{Applies, GateRequest, asks};
use crate::deny::Denied;
use crate::gate::{Gate, GateMode};
use crate::joint::{GateDecision, Permits, charge_all};
use crate::observe::GateOutcome;
use crate::queue::Waiting;
use crate::refusal::Refusal;
use crate::settle::{GateCharge, Settle, Shadowed};

type Exempt = dyn Fn(&Head<'_>) -> bool + Send + Sync;

/// A function that is called for each denied request.
type OnDenied = dyn Fn(&Denied<'_>) + Send + Sync;

/// Everything that all clones of a layer and of its services share.
pub(crate) struct GateRules {
    /// The gates, in the order in which they were given.
    pub(crate) gates: Arc<[Gate]>,
    pub(crate) headers: Headers,
    /// The headers that state the policies in force when the layer was built. A layer with a single gate has one
    /// element for each tier of that gate. Any other layer has one element, for the first tier of every gate.
    pub(crate) fixed: Arc<[FixedHeaders]>,
    /// Whether a request may need other headers than the first in `fixed`.
    may_change: bool,
    /// Whether a request may have to wait for the answer of a gate.
    is_elsewhere: bool,
    pub(crate) exempt: Vec<Arc<Exempt>>,
    pub(crate) exempt_peers: Arc<[IpNet]>,
    pub(crate) on_denied: Vec<Arc<OnDenied>>,
    pub(crate) jitter_secs: u64,
    pub(crate) settle: bool,
    /// The random hasher that gives each key its share of the jitter.
    pub(crate) spread: RandomState,
}

/// The outcome for a request.
pub(crate) enum GateVerdict<'g> {
    /// The request passes, and its extensions stay as they are.
    Pass(Stamp),
    /// Any other outcome. It is boxed, so that the common variant is cheap to move.
    Rare(Box<Rare<'g>>),
}

/// Every outcome that needs more than calling the inner service with the request as it came.
pub(crate) enum Rare<'g> {
    Note(PassMarks),
    Wait(Waiting, PassMarks),
    Deny(Refusal<'g>),
}

impl GateVerdict<'_> {
    pub(crate) fn pass(marks: PassMarks) -> Self {
        match marks {
            PassMarks { stamp, settle: None, shadowed: None } => Self::Pass(stamp),
            marks => Self::Rare(Box::new(Rare::Note(marks))),
        }
    }
}

/// The additions to an admitted request: to its extensions, and to the headers of its answer.
pub(crate) struct PassMarks {
    pub(crate) stamp: Stamp,
    pub(crate) settle: Option<Settle>,
    pub(crate) shadowed: Option<Shadowed>,
}

impl PassMarks {
    pub(crate) const NOTHING: Self = Self { stamp: Stamp::NOTHING, settle: None, shadowed: None };
}

/// A function that returns the tier of the request's key at a gate.
type TierOf<'t> = &'t dyn Fn(&Gate) -> usize;

impl GateRules {
    pub(crate) fn of(gates: Vec<Gate>) -> Self {
        let may_change = |gate: &Gate| gate.tiers > 1 || gate.limit.may_change();
        Self {
            may_change: gates.iter().any(may_change),
            is_elsewhere: gates.iter().any(Gate::is_elsewhere),
            gates: gates.into(),
            headers: Headers::NONE,
            fixed: Arc::default(),
            exempt: Vec::new(),
            exempt_peers: Arc::default(),
            on_denied: Vec::new(),
            jitter_secs: 0,
            settle: false,
            spread: RandomState::new(),
        }
        .telling(Headers::default())
    }

    /// The same rules with these headers.
    pub(crate) fn telling(self, headers: Headers) -> Self {
        let tiers = match &*self.gates {
            [only] => only.tiers.max(1),
            _ => 1,
        };
        let rules = Self { headers, ..self };
        let fixed = (0..tiers).map(|tier| rules.stated(&|_| tier)).collect();
        Self { fixed, ..rules }
    }

    /// The headers for the policies that are in force in these tiers. Shadow gates are not reported.
    fn stated(&self, tier_of: TierOf<'_>) -> FixedHeaders {
        let told = self.gates.iter().filter(|gate| !gate.is_shadow());
        let policies = told.filter_map(|gate| Some((&gate.name, gate.policy_of(tier_of(gate))?)));
        FixedHeaders::of_policies(&self.headers, policies)
    }

    /// The headers that state the policies for a request: those of `fixed` if they state the policies in force,
    /// otherwise headers that are made for this request.
    #[inline]
    fn fixed(&self, tier_of: TierOf<'_>) -> Cow<'_, FixedHeaders> {
        match self.fixed.first() {
            Some(fixed) if !self.may_change => Cow::Borrowed(fixed),
            _ => self.in_force(tier_of),
        }
    }

    // This is a separate function, so that the most common layer, whose quotas never change, does not carry its code.
    #[inline(never)]
    fn in_force(&self, tier_of: TierOf<'_>) -> Cow<'_, FixedHeaders> {
        let tier = match &*self.gates {
            [only] => tier_of(only),
            _ => 0,
        };
        let told = self.gates.iter().filter(|gate| !gate.is_shadow());
        let in_force = told.map(|gate| gate.policy_of(tier_of(gate)));
        match self.fixed.get(tier) {
            Some(fixed) if fixed.states(in_force) => Cow::Borrowed(fixed),
            _ => Cow::Owned(self.stated(tier_of)),
        }
    }

    #[inline]
    pub(crate) fn is_exempt(&self, head: &Head<'_>) -> bool {
        !(self.exempt.is_empty() && self.exempt_peers.is_empty()) && self.is_one_of_the_exempt(head)
    }

    #[inline(never)]
    fn is_one_of_the_exempt(&self, head: &Head<'_>) -> bool {
        if self.exempt.iter().any(|exempt| exempt(head)) {
            return true;
        }
        if self.exempt_peers.is_empty() {
            return false;
        }
        // The address is that of the connection, so no header can exempt a request.
        let peer = peer_address(head.extensions).map(|peer| IpAddr::to_canonical(&peer));
        peer.is_some_and(|peer| self.exempt_peers.iter().any(|network| network.contains(&peer)))
    }

    /// The headers for the answer to an admitted request. They report the state of its key at this gate.
    #[inline]
    pub(crate) fn stamp(
        &self,
        gate: &Gate,
        tier_of: TierOf<'_>,
        admitted: impl FnOnce() -> DecisionSummary,
        is_over: bool,
    ) -> Stamp {
        if self.fixed.first().is_none_or(FixedHeaders::is_silent) {
            return Stamp::NOTHING;
        }
        let DecisionSummary { limit, remaining, reset_after, .. } = admitted();
        let standing = KeyStanding {
            limit,
            remaining,
            reset_secs: secs_up(reset_after),
            retry_after_secs: None,
            is_over,
        };
        self.fixed(tier_of).stamp(&gate.name, &gate.opening, standing)
    }

    /// Counts a request that this gate denies, and makes its refusal.
    #[cold]
    pub(crate) fn refuse<'g>(
        &self,
        gate: &'g Gate,
        key: &Key,
        tier_of: TierOf<'_>,
        denial: &Denial,
    ) -> Refusal<'g> {
        let outcome = match denial.reason() {
            DenialReason::TableFull => GateOutcome::TableFull,
            DenialReason::Spilled => GateOutcome::Spilled,
            _ => GateOutcome::Denied,
        };
        gate.count(outcome);
        gate.tally.log(&gate.name, denial, outcome);
        let later = self.jitter(key);
        let retry_after_secs =
            denial.retry_after_secs().map(|seconds| seconds.saturating_add(later));
        let standing = KeyStanding {
            limit: denial.limit(),
            remaining: denial.remaining(),
            reset_secs: retry_after_secs.unwrap_or_else(|| secs_up(denial.reset_after())),
            // No value is lost here, since the wait of a denial is at least 1 s.
            retry_after_secs: retry_after_secs.and_then(NonZeroU64::new),
            is_over: false,
        };
        let stamp = self.fixed(tier_of).stamp(&gate.name, &gate.opening, standing);
        let (policy, problems) = (&gate.name, &*gate.problems);
        let (key, denial) = (Some(*key), Some(*denial));
        Refusal { policy, problems, key, denial, retry_after_secs, stamp }
    }

    /// The seconds to add to a wait. A key always gets the same number, so that a client gains nothing by asking again.
    /// The numbers are spread evenly over the keys.
    fn jitter(&self, key: &Key) -> u64 {
        match self.jitter_secs.checked_add(1) {
            Some(1) => 0,
            Some(steps) => self.spread.hash_one(key) % steps,
            None => self.spread.hash_one(key),
        }
    }
}

impl Gate {
    /// Makes the refusal of a request that is denied without asking the limit, mostly because its tier is unknown. The
    /// answer reports no limit.
    #[cold]
    pub(crate) fn refuse_unasked(&self) -> Refusal<'_> {
        let (policy, problems) = (&self.name, &*self.problems);
        let stamp = Stamp::NOTHING;
        Refusal { policy, problems, key: None, denial: None, retry_after_secs: None, stamp }
    }
}

/// The tier that a request's key has at a gate, or the first tier if the gate does not apply to the request.
pub(crate) fn tier_at(asks: &[GateRequest<'_>], gate: &Gate) -> usize {
    let ask = asks.iter().find(|ask| std::ptr::eq(ask.gate, gate));
    ask.and_then(|ask| ask.key.tier()).unwrap_or(0)
}

pub(crate) fn denied(refusal: Refusal<'_>) -> GateVerdict<'_> {
    GateVerdict::Rare(Box::new(Rare::Deny(refusal)))
}

impl GateRules {
    /// Decides a request, exactly once.
    #[inline]
    pub(crate) fn decide(&self, head: &Head<'_>) -> GateVerdict<'_> {
        if self.is_exempt(head) {
            return GateVerdict::Pass(Stamp::NOTHING);
        }
        match &*self.gates {
            [only] if matches!(only.mode, GateMode::Deny) && !self.settle => {
                self.at_one(only, head)
            }
            _ => self.at_all(head),
        }
    }

    /// Decides a request at the most common layer, which has one gate that denies. This needs no list of requests to
    /// gates, and does not move the key.
    #[inline]
    fn at_one<'g>(&self, gate: &'g Gate, head: &Head<'_>) -> GateVerdict<'g> {
        let mut key = Key::new();
        match gate.find_key(head, &mut key) {
            Applies::Yes => {}
            Applies::No => return GateVerdict::Pass(Stamp::NOTHING),
            Applies::Denies => return denied(gate.refuse_unasked()),
        }
        let tier_of = |_: &Gate| key.tier().unwrap_or(0);
        let cost = gate.cost.of(head);
        match gate.limit.check(&key, cost) {
            LimitAnswer::Now(Decision::Allowed(ref permit)) => {
                gate.count(GateOutcome::Allowed);
                let is_over = permit.is_over();
                GateVerdict::Pass(self.stamp(gate, &tier_of, || permit.summary(), is_over))
            }
            LimitAnswer::Now(Decision::Denied(ref denial)) => {
                denied(self.refuse(gate, &key, &tier_of, denial))
            }
            LimitAnswer::Later(answer) => {
                self.wait_for(&[GateRequest { gate, key, cost }], Some(LimitAnswer::Later(answer)))
            }
        }
    }

    // This is a separate function, so that the most common layer needs none of its stack space.
    #[inline(never)]
    fn at_all(&self, head: &Head<'_>) -> GateVerdict<'_> {
        if self.is_elsewhere {
            return self.elsewhere(head);
        }
        let denying = self.gates.iter().filter(|gate| !gate.is_shadow());
        let asks = match asks(denying, head) {
            Ok(asks) => asks,
            Err(gate) => return denied(gate.refuse_unasked()),
        };
        if let [only] = asks.as_slice()
            && let Some(verdict) = self.queue(only, head)
        {
            return verdict;
        }
        if asks.is_empty() {
            return GateVerdict::pass(PassMarks {
                shadowed: self.shadowed(head),
                ..PassMarks::NOTHING
            });
        }
        let mut permits = Permits::new();
        match charge_all(&asks, &mut permits) {
            Some(found) => self.conclude(&asks, found, &mut permits, || self.shadowed(head)),
            // This is never reached, since a limit that has claims answers now. If an implementation breaks this rule,
            // the request is denied.
            None => denied(asks[0].gate.refuse_unasked()),
        }
    }

    /// The outcome of a request from the decision of these gates, all of which have charged it, or none. If it is
    /// admitted, `shadowed` returns the shadow gates that would have denied it.
    #[inline]
    pub(crate) fn conclude<'g>(
        &self,
        asks: &[GateRequest<'g>],
        found: GateDecision,
        permits: &mut Permits,
        shadowed: impl FnOnce() -> Option<Shadowed>,
    ) -> GateVerdict<'g> {
        let (ask, tier_of) = (&asks[found.ask], |gate: &Gate| tier_at(asks, gate));
        match found.decision {
            Ok(admitted) => {
                asks.iter().for_each(|ask| ask.count(GateOutcome::Allowed));
                // Any gate may be over its limit, not only the gate that is reported.
                let is_over = permits.iter().flatten().any(Permit::is_over);
                GateVerdict::pass(PassMarks {
                    stamp: self.stamp(ask.gate, &tier_of, || admitted, is_over),
                    settle: self.settlement(asks, permits.iter_mut().map(Option::take)),
                    shadowed: shadowed(),
                })
            }
            Err(denial) => denied(self.refuse(ask.gate, &ask.key, &tier_of, &denial)),
        }
    }

    pub(crate) fn settlement(
        &self,
        asks: &[GateRequest<'_>],
        permits: impl IntoIterator<Item = Option<Permit>>,
    ) -> Option<Settle> {
        self.settle.then(|| {
            let charged = asks.iter().zip(permits);
            Settle::new(charged.map(|(ask, permit)| GateCharge::new(ask.gate, ask.key, permit)))
        })
    }

    /// The names of the shadow gates that would have denied.
    pub(crate) fn shadowed(&self, head: &Head<'_>) -> Option<Shadowed> {
        let shadows = self.gates.iter().filter(|gate| gate.is_shadow());
        // A shadow gate does not deny a request whose tier is unknown, so `asks` never returns an error here.
        let asks = asks(shadows, head).unwrap_or_default();
        // Every answer is available now: layers with an answer that comes later are decided in `elsewhere.rs`.
        let would_deny = asks.iter().filter(|ask| {
            ask.gate.limit.check(&ask.key, ask.cost).now().is_some_and(|found| ask.tries(&found))
        });
        Shadowed::by(would_deny.map(|ask| ask.gate.name.clone()))
    }

    /// The index of a gate in the layer.
    pub(crate) fn index_of(&self, gate: &Gate) -> usize {
        let index = self.gates.iter().position(|other| std::ptr::eq(other, gate));
        index.unwrap_or_default() // never: the gate is one of the layer's
    }
}

impl GateRequest<'_> {
    /// Counts the decision of a shadow gate, and returns whether the gate would have denied.
    pub(crate) fn tries(&self, decision: &Decision) -> bool {
        match decision {
            Decision::Allowed(_) => self.count(GateOutcome::Allowed),
            Decision::Denied(denial) => {
                self.count(GateOutcome::Shadowed);
                self.gate.tally.log(&self.gate.name, denial, GateOutcome::Shadowed);
            }
        }
        decision.is_denied()
    }
}

/// A clone shares the gates.
impl Clone for GateRules {
    fn clone(&self) -> Self {
        Self {
            gates: Arc::clone(&self.gates),
            headers: self.headers.clone(),
            fixed: Arc::clone(&self.fixed),
            exempt: self.exempt.clone(),
            exempt_peers: Arc::clone(&self.exempt_peers),
            on_denied: self.on_denied.clone(),
            spread: self.spread.clone(),
            ..*self
        }
    }
}
