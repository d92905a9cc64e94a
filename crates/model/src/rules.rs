//! The behaviour at the limit, made from a few bytes and added to any policy.

use std::time::Duration;

use arbitrary::Arbitrary;
use tollgate::{Algorithm, AtLimit, CountDenied, Percent, Policy};

use crate::policy::period_ns;

/// The words of a policy for the behaviour at the limit. A word that the policy refuses is left out, so that nearly
/// every input is of use.
#[derive(Arbitrary, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RulesCase {
    /// The share by which the limit is softened, in hundredths of a percent. It is this number modulo 10,001.
    pub soft_bp: u16,
    /// Whether denied requests are charged.
    pub counts: DeniedCharge,
    /// The penalty.
    pub penalty: Option<PenaltyCase>,
}

/// Whether denied requests are charged, and up to which bound.
#[derive(Arbitrary, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in the policy text; the number is of 256ths of a horizon")]
pub enum DeniedCharge {
    #[default]
    Uncounted,
    Counted,
    CountedUpTo(u8),
}

/// A penalty.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct PenaltyCase {
    /// The penalty is longer than the shortest accepted penalty, by this many 16ths of the shortest.
    pub longer: u8,
    /// The number of consecutive denials that starts the penalty, less one.
    pub after: u8,
    /// Whether denials during the penalty extend it.
    pub extended: bool,
}

impl RulesCase {
    /// The policy with those of these words that it accepts.
    pub(crate) fn apply(self, policy: Policy) -> Policy {
        let policy = policy.soft(Percent::from_hundredths(self.soft_bp % 10_001)).unwrap_or(policy);
        let counted = match self.counts {
            DeniedCharge::Uncounted => Ok(policy),
            DeniedCharge::CountedUpTo(part) if policy.algorithm() == Algorithm::Gcra => policy
                .count_denied(Some(Duration::from_nanos(
                    horizon_ns(policy) / 256 * u64::from(part),
                ))),
            DeniedCharge::Counted | DeniedCharge::CountedUpTo(_) => policy.count_denied(None),
        };
        let policy = counted.unwrap_or(policy);
        let Some(PenaltyCase { longer, after, extended }) = self.penalty else { return policy };
        let least_ns = least_penalty_ns(policy);
        let length_ns = least_ns.saturating_add((least_ns / 16).saturating_mul(longer.into()));
        let (length, after) = (Duration::from_nanos(length_ns), u32::from(after) + 1);
        let penalised = if extended {
            policy.extended_penalty(length, after)
        } else {
            policy.penalty(length, after)
        };
        penalised.unwrap_or(policy)
    }

    /// Adds all of `at_limit` to `plain`. Returns `None` if the policy refuses a value.
    pub(crate) fn again(plain: Policy, at_limit: AtLimit) -> Option<Policy> {
        let mut policy = plain;
        if !at_limit.soft.is_zero() {
            policy = policy.soft(at_limit.soft).ok()?;
        }
        match at_limit.count_denied {
            CountDenied::No => {}
            CountDenied::Yes => policy = policy.count_denied(None).ok()?,
            CountDenied::UpTo(wait) => policy = policy.count_denied(Some(wait)).ok()?,
        }
        if let Some(wait) = at_limit.queue {
            policy = policy.queue(wait).ok()?;
        }
        if at_limit.debt > 0 {
            policy = policy.debt(at_limit.debt).ok()?;
        }
        match at_limit.penalty {
            Some(penalty) if penalty.extended => {
                policy.extended_penalty(penalty.length, penalty.after).ok()
            }
            Some(penalty) => policy.penalty(penalty.length, penalty.after).ok(),
            None => Some(policy),
        }
    }
}

/// The limit that the algorithm tests against: the limit, or more under a soft policy.
#[must_use]
pub fn ceiling(policy: Policy) -> u64 {
    let soft = u128::from(policy.quota().max_burst())
        * (10_000 + u128::from(policy.at_limit().soft.hundredths()))
        / 10_000;
    u64::try_from(soft).expect("the policy was accepted")
}

/// The length of the penalty, 0 without one.
pub(crate) fn penalty_ns(policy: Policy) -> u64 {
    let length = policy.at_limit().penalty.map_or(Duration::ZERO, |penalty| penalty.length);
    u64::try_from(length.as_nanos()).expect("the policy was accepted")
}

/// The longest time for which an admitted request counts, capped at the longest time of a `u64`.
pub(crate) fn horizon_ns(policy: Policy) -> u64 {
    let period = u128::from(period_ns(policy));
    let horizon = match policy.algorithm() {
        Algorithm::Gcra => {
            (period * u128::from(ceiling(policy))).div_ceil(policy.quota().count().into())
        }
        Algorithm::SlidingWindow { .. } => 2 * period,
        _ => period,
    };
    u64::try_from(horizon).unwrap_or(u64::MAX)
}

/// The shortest penalty that a policy may have: the longest time for which any request counts, even a denied one.
pub(crate) fn least_penalty_ns(policy: Policy) -> u64 {
    let horizon_ns = horizon_ns(policy);
    match policy.at_limit().count_denied {
        CountDenied::UpTo(wait) => {
            horizon_ns.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
        }
        CountDenied::Yes if policy.algorithm() == Algorithm::Gcra => horizon_ns.saturating_mul(2),
        _ => horizon_ns,
    }
}
