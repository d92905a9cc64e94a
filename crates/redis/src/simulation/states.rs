//! Simulates the states that the script stores in one key under `gcra` while the policy changes. A test on a real
//! server compares the simulated states with the stored ones.

use crate::leased::holding::{ChargeStamp, LeaseWant};
use crate::script::plan::ScriptPlan;
use crate::script::state::State;

use super::parts::GcraParts;

/// The number of states of a key, as in the script.
const STATES: usize = 4;

/// A mistake that a test plants, to see that the audit finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeFlaw {
    /// When a key gets a new policy, the state of that policy starts without debt.
    Fresh,
    /// A key has only one state. Each request cuts it to the limit of the request's policy.
    OneState,
    /// A request charges only the state of its own policy.
    OneCharged,
    /// A refund lowers the debt of a state at once, although it should first lower the excess, the units that were cut
    /// off.
    ExcessForgotten,
    /// The state that was unused for the longest time is forgotten, even if its policy has the largest limit.
    LargestForgotten,
    /// Units of leases under an older policy are not given back.
    LeasesLost,
    /// Units are given back only to the state of the policy under which they were charged.
    OneReturned,
}

/// The state of one policy.
#[derive(Clone, Copy, Debug)]
struct SimulatedState {
    plan: ScriptPlan,
    /// The time at which the whole debt will have drained. It is given as the number of parts that drain from time 0
    /// until then.
    tat: u128,
    /// The excess: parts that were cut off because the debt exceeded the burst.
    excess: u128,
}

/// A state for each policy. The state that was used last is the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedKey {
    states: Vec<SimulatedState>,
    flaw: Option<ChangeFlaw>,
}

fn now(plan: &ScriptPlan, now_us: u64) -> u128 {
    u128::from(plan.tick(now_us)) * GcraParts::of(plan).per_tick
}

impl SimulatedState {
    fn debt(&self, now_us: u64) -> u128 {
        self.tat.saturating_sub(now(&self.plan, now_us))
    }

    /// The state at the time `now_us`. When the debt has drained, the excess is forgotten.
    fn at(self, now_us: u64) -> Self {
        if self.debt(now_us) > 0 { self } else { Self { excess: 0, ..self } }
    }

    fn hold(&mut self, debt: u128, now_us: u64) {
        self.tat = now(&self.plan, now_us) + debt;
    }

    /// Derives the first state of a new policy from this state.
    fn carried(&self, plan: &ScriptPlan, now_us: u64) -> Self {
        let GcraParts { per_unit, capacity, .. } = GcraParts::of(plan);
        let of_other = GcraParts::of(&self.plan).per_unit;
        let converted = |parts: u128| {
            parts / of_other * per_unit + (parts % of_other * per_unit).div_ceil(of_other)
        };
        let (parts, before) = (converted(self.debt(now_us)), converted(self.excess));
        let debt = parts.min(capacity);
        Self { plan: *plan, tat: now(plan, now_us) + debt, excess: before + parts - debt }
    }

    /// Subtracts parts, first from the excess and then from the debt.
    fn take_off(&mut self, parts: u128, now_us: u64, flaw: Option<ChangeFlaw>) {
        let excess = if flaw == Some(ChangeFlaw::ExcessForgotten) { 0 } else { self.excess };
        let beyond = excess.min(parts);
        self.excess -= beyond;
        let debt = self.debt(now_us);
        self.hold(debt.saturating_sub(parts - beyond), now_us);
    }
}

impl SimulatedKey {
    pub(crate) fn new(flaw: Option<ChangeFlaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    fn known(&self, plan: &ScriptPlan) -> Option<usize> {
        self.states.iter().position(|state| state.plan == *plan)
    }

    /// The state of a policy. If the key has none for it, the first state that the policy would get.
    fn state(&self, plan: &ScriptPlan, now_us: u64) -> SimulatedState {
        if let Some(known) = self.known(plan) {
            return self.states[known].at(now_us);
        }
        let nothing = SimulatedState { plan: *plan, tat: now(plan, now_us), excess: 0 };
        if self.flaw == Some(ChangeFlaw::Fresh) {
            return nothing;
        }
        let begun = || self.states.iter().rev().map(|other| other.at(now_us).carried(plan, now_us));
        let whole =
            begun().map(|state| state.debt(now_us) + state.excess).max().unwrap_or_default();
        let best = begun().max_by_key(|state| state.debt(now_us)).unwrap_or(nothing);
        SimulatedState { excess: best.excess.max(whole - best.debt(now_us)), ..best }
    }

    /// The debt under a policy, in parts, for the comparison with a real server. `None` if the key has no state for the
    /// policy.
    pub(crate) fn known_debt(&self, plan: &ScriptPlan, now_us: u64) -> Option<u128> {
        Some(self.states[self.known(plan)?].debt(now_us))
    }

    /// Takes as many units as the script does: up to `want`, at most half of those left, but at least `least`. Returns
    /// the units taken, and the state after that.
    pub(crate) fn charge(
        &mut self,
        plan: &ScriptPlan,
        want: LeaseWant,
        now_us: u64,
    ) -> (u64, State) {
        let GcraParts { per_unit, capacity, .. } = GcraParts::of(plan);
        let mut own = self.state(plan, now_us);
        let debt = own.debt(now_us);
        let room = u64::try_from(capacity.saturating_sub(debt) / per_unit).unwrap();
        let fits = debt <= capacity && want.least <= room;
        let units = if fits { want.want.min((room / 2).max(want.least)) } else { 0 };
        let has_changed = self.known(plan).is_none() && !self.states.is_empty();
        own.hold(debt + u128::from(units) * per_unit, now_us);
        if units > 0 || has_changed {
            self.states.retain(|other| other.plan != *plan);
            if self.states.len() == STATES {
                self.forget_one(&own, now_us);
            }
            self.states.retain(|other| other.debt(now_us) > 0);
            if self.flaw != Some(ChangeFlaw::OneCharged) {
                for other in &mut self.states {
                    *other = other.at(now_us);
                    let GcraParts { per_unit, capacity, .. } = GcraParts::of(&other.plan);
                    let (debt, much) = (other.debt(now_us), u128::from(units) * per_unit);
                    let most = capacity.max(debt);
                    other.hold((debt + much).min(most), now_us);
                    other.excess += (debt + much).saturating_sub(most);
                }
            }
            self.states.insert(0, own);
            self.states.truncate(if self.flaw == Some(ChangeFlaw::OneState) { 1 } else { STATES });
        }
        (units, State::Gcra { debt: u64::try_from(own.debt(now_us)).unwrap() })
    }

    /// Removes a state from a key that has as many as it can keep, before a new state is added.
    fn forget_one(&mut self, new: &SimulatedState, now_us: u64) {
        if let Some(over) = self.states.iter().position(|state| state.debt(now_us) == 0) {
            self.states.remove(over);
            return;
        }
        let limit = |state: &SimulatedState| state.plan.limit;
        let last = self.states.len() - 1;
        let others = &self.states[..last];
        let is_largest =
            others.iter().chain([new]).all(|other| limit(other) < limit(&self.states[last]));
        let is_kept = is_largest && self.flaw != Some(ChangeFlaw::LargestForgotten);
        self.states.remove(if is_kept { last - 1 } else { last });
    }

    /// Gives back units that were charged under a policy.
    pub(crate) fn give_back(
        &mut self,
        plan: &ScriptPlan,
        units: u64,
        stamp: ChargeStamp,
        now_us: u64,
    ) {
        if self.flaw == Some(ChangeFlaw::LeasesLost) {
            return;
        }
        let (known, flaw) = (self.known(plan), self.flaw);
        let from = GcraParts::of(plan);
        let mut is_changed = false;
        for (n, state) in self.states.iter_mut().enumerate() {
            *state = state.at(now_us);
            let GcraParts { per_tick, per_unit, capacity } = GcraParts::of(&state.plan);
            let is_own = known == Some(n);
            if flaw == Some(ChangeFlaw::OneReturned) && !is_own {
                continue;
            }
            let at = if is_own { stamp.at } else { state.plan.tick(stamp.us) };
            let ticks = state.plan.tick(now_us).saturating_sub(at);
            let mut drained = u128::from(ticks) * per_tick;
            if !is_own {
                drained = drained.max(elsewhere(now_us - stamp.us, plan.tick_us, from, per_unit));
            }
            drained += state.debt(now_us).saturating_sub(capacity);
            let parts = (u128::from(units) * per_unit).saturating_sub(drained);
            let before = (state.debt(now_us), state.excess);
            state.take_off(parts, now_us, flaw);
            is_changed |=
                if is_own { before != (state.debt(now_us), state.excess) } else { parts > 0 };
        }
        if is_changed {
            if let Some(known) = known {
                let own = self.states.remove(known);
                self.states.insert(0, own);
            }
            let is_own = |state: &SimulatedState| state.plan == *plan;
            self.states.retain(|state| is_own(state) || state.debt(now_us) > 0);
        }
    }
}

/// Converts the units that have drained under the policy `from` to parts of another policy, as the script does.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the script's doubles do"
)]
fn elsewhere(passed_us: u64, tick_us: u64, from: GcraParts, size: u128) -> u128 {
    let ticks = passed_us as f64 / tick_us as f64;
    (ticks * from.per_tick as f64 / from.per_unit as f64 * size as f64 * (1.0 + 1e-9)).ceil()
        as u128
}
