//! Finds the gates of a layer that apply to a request, with its key and its cost at each of them.

use arrayvec::ArrayVec;
use tollgate_http::keys::{Head, Key, NoKey};

use crate::gate::Gate;
use crate::observe::GateOutcome;

/// The maximum number of gates in one layer. It is small because the claims of all gates are on the stack.
pub(crate) const GATES_MAX: usize = 8;

/// The request to one gate: the gate, the key and the cost.
pub(crate) struct GateRequest<'g> {
    pub(crate) gate: &'g Gate,
    pub(crate) key: Key,
    pub(crate) cost: u64,
}

/// The request to one gate, with the gate's index in place of a reference, so that a future can own it.
pub(crate) struct OwnedAsk {
    /// The index of the gate in the layer.
    pub(crate) gate: usize,
    pub(crate) key: Key,
    pub(crate) cost: u64,
}

pub(crate) fn borrowed<'g>(gates: &'g [Gate], asks: &[OwnedAsk]) -> Vec<GateRequest<'g>> {
    // Every index is that of a gate of this layer, so `get` always finds the gate.
    let of = |ask: &OwnedAsk| {
        Some(GateRequest { gate: gates.get(ask.gate)?, key: ask.key, cost: ask.cost })
    };
    asks.iter().filter_map(of).collect()
}

pub(crate) type Asks<'g> = ArrayVec<GateRequest<'g>, GATES_MAX>;

/// Whether a gate applies to a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applies {
    Yes,
    No,
    /// The gate denies the request, since the tier of the key is unknown.
    Denies,
}

/// The gates of a layer that apply to a request, with its key and its cost. The error is a gate that denies the request
/// without asking its limit, since the tier of the key is unknown.
pub(crate) fn asks<'g>(
    gates: impl Iterator<Item = &'g Gate>,
    head: &Head<'_>,
) -> Result<Asks<'g>, &'g Gate> {
    let mut asks = Asks::new();
    for gate in gates {
        let mut key = Key::new();
        match gate.find_key(head, &mut key) {
            // The list has room for all gates of a layer.
            Applies::Yes => asks.push(GateRequest { gate, key, cost: gate.cost.of(head) }),
            Applies::No => {}
            Applies::Denies => return Err(gate),
        }
    }
    Ok(asks)
}

impl GateRequest<'_> {
    pub(crate) fn count(&self, outcome: GateOutcome) {
        self.gate.count(outcome);
    }
}

impl Gate {
    /// Whether the gate applies to a request, and under which key.
    #[inline]
    pub(crate) fn find_key(&self, head: &Head<'_>, key: &mut Key) -> Applies {
        match self.by.extract(head, key) {
            Ok(()) if key.tier() == Some(0) => Applies::Yes,
            Ok(()) => self.has_tier(key),
            Err(why) => self.has_no_key(why, key),
        }
    }

    fn has_tier(&self, key: &Key) -> Applies {
        if key.tier().is_some_and(|tier| tier < self.tiers) {
            return Applies::Yes;
        }
        self.count(GateOutcome::UnknownTier);
        // A shadow gate denies nothing.
        let denies = !self.passes_unknown_tier && !self.is_shadow();
        if denies { Applies::Denies } else { Applies::No }
    }

    #[cold]
    fn has_no_key(&self, why: NoKey, key: &mut Key) -> Applies {
        if why == NoKey::NotConcerned {
            return Applies::No;
        }
        self.count(GateOutcome::NoKey);
        *key = Key::nobody(); // drops parts that were added before the failure
        if self.passes_without_key { Applies::No } else { Applies::Yes }
    }

    #[inline]
    pub(crate) fn count(&self, outcome: GateOutcome) {
        self.tally.count(&self.name, outcome);
    }
}
