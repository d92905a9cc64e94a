//! A simulated store. It computes the same as the script for `gcra`, and has faults.

use crate::script::plan::ScriptPlan;
use crate::script::state::State;
use crate::script::view::StateView;

use super::parts::GcraParts;

/// The server, and the one key that the simulation uses.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) plan: ScriptPlan,
    /// The time at which the whole debt will have drained. It is given as the number of parts that drain from time 0
    /// until then.
    tat: u128,
    /// The value of `tat` that was last saved to a replica or a file.
    saved: u128,
    /// Whether the server is running. It may also be paused, until `paused_until_ns`.
    pub(super) up: bool,
    pub(super) paused_until_ns: u64,
    /// The total of charged units.
    pub(super) charged: u64,
}

/// The reply to a request for a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseReply {
    pub(super) units: u64,
    pub(super) remaining: u64,
    pub(super) retry_us: u64,
    pub(super) reset_us: u64,
}

impl Server {
    pub(super) fn new(plan: ScriptPlan) -> Self {
        Self { plan, tat: 0, saved: 0, up: true, paused_until_ns: 0, charged: 0 }
    }

    fn debt(&self, now_us: u64) -> u64 {
        let drained = u128::from(self.plan.tick(now_us)) * GcraParts::of(&self.plan).per_tick;
        u64::try_from(self.tat.saturating_sub(drained)).unwrap()
    }

    /// Takes up to `want` units, at most half of what is left, but at least `least`.
    pub(super) fn lend(&mut self, want: u64, least: u64, now_us: u64) -> LeaseReply {
        let GcraParts { per_tick, per_unit, .. } = GcraParts::of(&self.plan);
        let seen = |debt| State::Gcra { debt };
        let before = seen(self.debt(now_us));
        let room = StateView { plan: &self.plan, state: &before, now_us }.remaining();
        let units = if least <= room { want.min((room / 2).max(least)) } else { 0 };
        if units > 0 {
            let now = u128::from(self.plan.tick(now_us)) * per_tick;
            self.tat = self.tat.max(now) + u128::from(units) * per_unit;
            self.charged += units;
        }
        let after = seen(self.debt(now_us));
        let view = StateView { plan: &self.plan, state: &after, now_us };
        LeaseReply {
            units,
            remaining: view.remaining(),
            retry_us: view.ready_us(least.min(self.plan.limit)) - now_us,
            reset_us: view.ready_us(self.plan.limit) - now_us,
        }
    }

    /// Saves the state with which a restart begins.
    pub(super) fn save(&mut self) {
        self.saved = self.tat;
    }

    /// Restarts with the saved state, or empty. Returns how many units were lost, rounded up. (If the state was saved
    /// before an earlier loss, it may have more debt than the present state, and then nothing is lost.)
    pub(super) fn lose(&mut self, empty: bool, now_us: u64) -> u64 {
        let before = self.debt(now_us);
        self.tat = if empty { 0 } else { self.saved };
        let per_unit = GcraParts::of(&self.plan).per_unit;
        let lost = u128::from(before.saturating_sub(self.debt(now_us))).div_ceil(per_unit);
        u64::try_from(lost).unwrap()
    }
}
