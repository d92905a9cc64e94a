//! [`PlanRules`]: the changes that a denial causes under a policy, in the script's numbers.

use tollgate::{Algorithm, CountDenied, Policy, Rounding};

use crate::error::RedisBuildError;

/// The changes that a denial causes: see at_limit.lua.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlanRules {
    /// The largest count up to which denials may be charged; 0 if denials are not charged.
    most: u64,
    /// The number of denials in a row that start a penalty; 0 if the policy has no penalty.
    after: u64,
    /// The length of the penalty in ticks, rounded up.
    length: u64,
    extended: bool,
}

impl PlanRules {
    /// The rules of a policy, if it has any. `most` is the largest count up to which denials may be charged. No number
    /// of the rules may be above `largest`.
    pub(crate) fn new(
        policy: Policy,
        tick_us: u64,
        most: u128,
        largest: u64,
    ) -> Result<Option<Self>, RedisBuildError> {
        let (at_limit, tick_ns) = (policy.at_limit(), u128::from(tick_us) * 1_000);
        let penalty = at_limit.penalty;
        if at_limit.count_denied == CountDenied::No && penalty.is_none() {
            return Ok(None);
        }
        let length = penalty.map_or(0, |penalty| penalty.length.as_nanos().div_ceil(tick_ns));
        let countable = |number: u128| match u64::try_from(number) {
            Ok(number) if number <= largest => Ok(number),
            _ => Err(RedisBuildError::TooLarge { policy: policy.into() }),
        };
        Ok(Some(Self {
            most: countable(most)?,
            after: penalty.map_or(0, |penalty| penalty.after.into()),
            // The end of the penalty must be a number that the script can count, too.
            length: countable(length * 2)? / 2,
            extended: penalty.is_some_and(|penalty| penalty.extended),
        }))
    }

    /// The text of the rules, which follows the five numbers of the policy in its mark.
    pub(crate) fn text(self) -> String {
        let Self { most, after, length, extended } = self;
        format!("{most} {after} {length} {} ", u8::from(extended))
    }
}

/// Denials may be charged until the newest count of a window reaches this number. It is 0 if denials are not charged.
pub(crate) fn largest_count(policy: Policy, limit: u64) -> u128 {
    match (policy.at_limit().count_denied, policy.algorithm()) {
        (CountDenied::No, _) => 0,
        (_, Algorithm::SlidingWindow { rounding: Rounding::Down | Rounding::Exact }) => {
            2 * u128::from(limit)
        }
        _ => limit.into(),
    }
}

/// The largest debt, in parts, up to which denials may be charged; 0 if denials are not charged. At this debt the wait
/// for one unit is the longest that the policy allows.
pub(crate) fn largest_debt(
    policy: Policy,
    per_tick: u64,
    per_unit: u64,
    capacity: u64,
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
