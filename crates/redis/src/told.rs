//! [`Told`]: the figures of a decision, as the store or this node's share counts them.

use std::time::Duration;

use tollgate::{Decision, DecisionSummary, DenialReason, Percent};

/// The figures of a decision. For a soft policy they refer to the softened limit, which is higher than the limit that
/// the policy names. Converting them to a [`Decision`] gives figures that refer to the named limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) allowed: bool,
    /// The charged units or, if the request was denied, the units that it asked for.
    pub(crate) cost: u64,
    /// The most units that can be admitted at one instant. For a soft policy it is the softened limit.
    pub(crate) limit: u64,
    /// How much the softened limit is above the named limit, in hundredths of a percent.
    pub(crate) soft_bp: u16,
    /// The units that are left after the decision, up to the softened limit.
    pub(crate) remaining: u64,
    /// If the request was denied, the time until the same cost would be admitted.
    pub(crate) retry_after: Duration,
    pub(crate) reset_after: Duration,
    /// Whether the request was denied because of a penalty. The penalty is over after `retry_after`.
    pub(crate) penalty: bool,
}

impl From<Told> for Decision {
    fn from(told: Told) -> Self {
        // Computes the named limit from the softened limit, as `unsoftened` does in the core.
        let named = (u128::from(told.limit) * 10_000).div_ceil(10_000 + u128::from(told.soft_bp));
        let named = u64::try_from(named).unwrap_or(told.limit);
        let beyond = told.limit.saturating_sub(named);
        let denied = match told {
            Told { allowed: true, .. } => None,
            Told { cost, limit, .. } if cost > limit => Some(DenialReason::NeverFits),
            Told { penalty: true, .. } => Some(DenialReason::Penalty),
            _ => Some(DenialReason::OverLimit),
        };
        Self::from(DecisionSummary {
            denied,
            cost: told.cost,
            limit: named,
            soft: Percent::from_hundredths(told.soft_bp),
            remaining: told.remaining.saturating_sub(beyond),
            is_over: told.allowed && told.remaining < beyond,
            retry_after: denied.map(|_| told.retry_after),
            reset_after: told.reset_after,
            ..DecisionSummary::default()
        })
    }
}
