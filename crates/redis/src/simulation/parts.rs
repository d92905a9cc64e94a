//! [`GcraParts`]: the numbers that the simulated store computes with.

use crate::script::plan::{PlanKind, ScriptPlan};

/// The rate and the burst of a GCRA policy, in parts of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct GcraParts {
    /// The parts that drain in a tick.
    pub(super) per_tick: u128,
    pub(super) per_unit: u128,
    /// The parts of the burst.
    pub(super) capacity: u128,
}

impl GcraParts {
    pub(super) fn of(plan: &ScriptPlan) -> Self {
        match plan.kind {
            PlanKind::Gcra { per_tick, per_unit, capacity } => Self {
                per_tick: per_tick.into(),
                per_unit: per_unit.into(),
                capacity: capacity.into(),
            },
            other => panic!("the simulation is of gcra, not {other:?}"),
        }
    }
}
