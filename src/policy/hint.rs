//! Refuses policies that do not fit in a word, and proposes what would fit.

use super::calendar::check_period;
use super::{Algorithm, AtLimit, Policy};
use crate::error::PolicyError;
use crate::quota::Quota;

impl Policy {
    /// Refuses a policy whose state does not fit in a word without a key, or a policy for windows of the calendar whose
    /// period is not the longest such window.
    pub(super) fn check_fits(&self) -> Result<(), PolicyError> {
        check_period(self)?;
        let needs = self.needs();
        if needs.fits() {
            return Ok(());
        }
        Err(PolicyError::does_not_fit(needs.bits(), &fitting(self)))
    }
}

/// Proposes fewer segments, a smaller limit, or fewer options at the limit.
fn fitting(policy: &Policy) -> String {
    let owing = |debt| Policy { at_limit: AtLimit { debt, ..policy.at_limit }, ..*policy };
    // The policy would fit without its debt.
    if policy.at_limit.debt > 0 && owing(0).needs().fits() {
        // A larger debt never needs fewer bits than a smaller one. So the largest debt that fits can be found bit by
        // bit, from the highest bit.
        let most = (0..u32::BITS).rev().fold(0, |most, bit| {
            let more = most | 1 << bit;
            if owing(more).needs().fits() { more } else { most }
        });
        return match most {
            0 => "64 are there; without a debt it fits: leave debt out".to_string(),
            most => format!("64 are there; at most debt {most}x fits"),
        };
    }
    let plain = Policy { at_limit: AtLimit::default(), ..*policy };
    // The policy would fit without its options for the limit.
    if policy.at_limit != plain.at_limit && plain.needs().fits() {
        return "64 are there; without what happens at the limit it fits: use a shorter penalty \
                after fewer denials, a smaller share, or a smaller limit"
            .to_string();
    }
    let fits = |algorithm, count| {
        let quota = Quota::try_per(count, policy.quota.period());
        let other = quota.map(|quota| Policy { algorithm, quota, at_limit: policy.at_limit });
        other.is_ok_and(|other| other.needs().bits() <= u64::BITS)
    };
    let even = |&n: &u8| policy.quota.period_ns().is_multiple_of(u64::from(n));
    // The largest number of segments that divides the window and fits.
    let fewer = (2..=64_u8)
        .rev()
        .filter(even)
        .find(|&segments| fits(Algorithm::SegmentedWindow { segments }, policy.quota.count()));
    if let (Algorithm::SegmentedWindow { .. }, Some(most)) = (policy.algorithm, fewer) {
        return format!("64 are there; at most x{most} fits");
    }
    // Only limits of the form 2^n - 1 are tried, since the next larger limit would need one bit more.
    let largest =
        (1..63).rev().map(|bits| (1_u64 << bits) - 1).find(|&count| fits(policy.algorithm, count));
    match largest {
        Some(count) => {
            format!("64 are there; in this window a limit up to {count} fits, or use gcra")
        }
        None => "64 are there; use a longer window, or gcra".to_string(),
    }
}
