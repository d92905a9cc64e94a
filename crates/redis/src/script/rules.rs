//! [`PlanRules`]: what a denial changes under a policy, in the numbers that the script computes with.

use tollgate::{Algorithm, CountDenied, Policy, Rounding};

use crate::error::BuildError;

/// What a denial changes: see at_limit.lua.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlanRules {
    /// Where the charge of a denial is cut; 0 if denials are not charged.
    most: u64,
    /// The denials in a row that bring about a penalty; 0 if there is none.
    after: u64,
    /// In ticks, rounded up.
    length: u64,
    extended: bool,
}

impl PlanRules {
    /// The rules of a policy, if it has any. No number of them may be above `largest`.
    pub(crate) fn new(
        policy: Policy,
        most: u128,
        [tick_us, largest]: [u64; 2],
    ) -> Result<Option<Self>, BuildError> {
        let (at_limit, tick_ns) = (policy.at_limit(), u128::from(tick_us) * 1_000);
        let penalty = at_limit.penalty;
        if at_limit.count_denied == CountDenied::No && penalty.is_none() {
            return Ok(None);
        }
        let length = penalty.map_or(0, |penalty| penalty.length.as_nanos().div_ceil(tick_ns));
        let countable = |number: u128| match u64::try_from(number) {
            Ok(number) if number <= largest => Ok(number),
            _ => Err(BuildError::TooLarge { policy: policy.into() }),
        };
        Ok(Some(Self {
            most: countable(most)?,
            after: penalty.map_or(0, |penalty| penalty.after.into()),
            // Its end must be a number that the script can count, too.
            length: countable(length * 2)? / 2,
            extended: penalty.is_some_and(|penalty| penalty.extended),
        }))
    }

    /// What stands behind the five numbers of a policy in its mark.
    pub(crate) fn text(self) -> String {
        let Self { most, after, length, extended } = self;
        format!("{most} {after} {length} {} ", u8::from(extended))
    }
}

/// What the newest count of a window is cut at when a denial is charged; 0 if none is.
pub(crate) fn largest_count(policy: Policy, limit: u64) -> u128 {
    match (policy.at_limit().count_denied, policy.algorithm()) {
        (CountDenied::No, _) => 0,
        (_, Algorithm::SlidingWindow { rounding: Rounding::Down | Rounding::Exact }) => {
            2 * u128::from(limit)
        }
        _ => limit.into(),
    }
}

/// The debt in parts that the charge of a denial is cut at: one unit then waits for the longest wait; 0 if no denial
/// is charged.
pub(crate) fn largest_debt(
    policy: Policy,
    [per_tick, per_unit, capacity]: [u64; 3],
    tick_us: u64,
) -> u128 {
    let wait = match policy.at_limit().count_denied {
        CountDenied::No => return 0,
        CountDenied::Yes => capacity.into(),
        CountDenied::UpTo(wait) => {
            wait.as_nanos().saturating_mul(per_tick.into()) / (u128::from(tick_us) * 1_000)
        }
    };
    u128::from(capacity - per_unit).saturating_add(wait)
}
