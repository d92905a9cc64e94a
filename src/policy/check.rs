//! Checks of the options for a policy's limit. Each error says what would be accepted.

use std::time::Duration;

use super::names::name_of;
use super::{Algorithm, AtLimit, CountDenied, Penalty, Policy, check_log_size};
use crate::algorithm::softened;
use crate::error::PolicyError;
use crate::wait::Wait;

/// A wait without any bound, which a queue cannot have.
const NO_END: Wait = Wait::at_most(Duration::MAX);

impl Policy {
    /// The same policy with these options for its limit, if they are accepted.
    pub(super) fn with(self, at_limit: AtLimit) -> Result<Self, PolicyError> {
        let policy = Self { at_limit, ..self };
        // All options are checked again, since they depend on each other. For example, a softer limit needs a longer
        // penalty.
        check_at_limit(&policy)?;
        policy.check_fits()?;
        Ok(policy)
    }
}

/// Refuses options that do not fit the algorithm or each other.
fn check_at_limit(policy: &Policy) -> Result<(), PolicyError> {
    let AtLimit { soft: share, count_denied, penalty, queue, debt } = policy.at_limit;
    let limit = policy.named_limit();
    match softened(limit, share.hundredths()) {
        None => return Err(PolicyError::soft_too_large(limit, share)),
        // The share is less than a unit, so no request would ever be over the limit.
        Some(soft) if !share.is_zero() && soft == limit => {
            return Err(PolicyError::soft_adds_nothing(limit, share));
        }
        Some(_) => {}
    }
    let is_log = policy.algorithm == Algorithm::SlidingLog;
    if is_log {
        // A log has a slot for each unit of the softened limit.
        check_log_size(policy.ceiling())?;
    }
    // The count of a window has no wait that could be bounded.
    if matches!(count_denied, CountDenied::UpTo(_)) && policy.algorithm != Algorithm::Gcra {
        return Err(PolicyError::fixed(
            "a window has no longest wait for denied requests: its count stops at the limit; \
                 write count-denied alone, or use gcra",
        ));
    }
    if let Some(wait) = queue {
        // The turn of a request can be computed from GCRA's time and from the slots of a log, but not from a count.
        if policy.algorithm != Algorithm::Gcra && !is_log {
            return Err(PolicyError::fixed(
                "a window has no queue, since its units come back all at once and have no turns; leave out queue \
                     and wait, or use gcra",
            ));
        }
        let [wait_ns, _] = wait.bounds();
        let is_cut = wait_ns == u64::MAX && wait.max < Duration::MAX;
        if wait.bounds().contains(&0) || wait == NO_END || is_cut || wait.jitter_ns > 0 {
            return Err(PolicyError::fixed(
                "a queue has at least one place, a wait above 0 or both, and no jitter, as in queue 50 wait 2s",
            ));
        }
    }
    check_debt(policy, debt)?;
    if let Some(Penalty { length, after, .. }) = penalty {
        // A log would have to store the number of denials in a row in a separate word. An admission is a
        // compare-and-swap of one slot. In the same step it can neither check that no penalty has begun, nor set that
        // number to 0.
        if is_log {
            return Err(PolicyError::fixed(
                "a sliding log takes no penalty: an admission takes a slot, and could not see in the same step that \
                     no penalty has begun; leave it out, or use segmented-window",
            ));
        }
        // The word stores the end of a penalty in whole windows of one length, and windows of the calendar differ in
        // length.
        if let Algorithm::Calendar(unit) = policy.algorithm {
            let (name, [_, days], limit) = (name_of(unit), unit.days(), policy.quota.count());
            return Err(PolicyError::new(format!(
                "{name} takes no penalty; leave it out, or use fixed-window {limit}/{days}d, whose windows are others: \
                 each has {days} days, and the first begins with the clock"
            )));
        }
        if after == 0 {
            return Err(PolicyError::fixed(
                "a penalty after 0 denials would refuse everything; use at least 1",
            ));
        }
        // After a shorter penalty, requests would be admitted that would be denied without the penalty.
        let least = least_penalty_ns(policy);
        if length.as_nanos() < least {
            return Err(PolicyError::penalty_too_short(length, duration(least)));
        }
    }
    Ok(())
}

/// Checks that the algorithm can have a debt.
fn check_debt(policy: &Policy, debt: u32) -> Result<(), PolicyError> {
    match (debt, policy.algorithm) {
        (0, _) => Ok(()),
        // If the counts of the segments are ranked, their sum must be at most the limit, so there is no room for a
        // debt. If they are not ranked, each count would have to be wide enough for the debt.
        (_, Algorithm::SegmentedWindow { .. }) => Err(PolicyError::fixed(
            "a segmented window remembers no debt: its counts share one limit; leave debt out, or use sliding-window \
                 or gcra",
        )),
        // A charge to a log can only take slots that become free within a window, and there are no other slots for a
        // debt.
        (_, Algorithm::SlidingLog) => Err(PolicyError::fixed(
            "a sliding log has one slot for each unit of its limit and none for a debt; leave debt out, or use gcra",
        )),
        _ => Ok(()),
    }
}

/// The length of the shortest accepted penalty: the horizon plus the time by which charged denials can extend it.
fn least_penalty_ns(policy: &Policy) -> u128 {
    let period_ns = u128::from(policy.quota.period_ns());
    match policy.algorithm {
        Algorithm::Gcra => {
            // The horizon is the time in which a whole burst drains, rounded up.
            let horizon = (u128::from(policy.ceiling()) * period_ns)
                .div_ceil(u128::from(policy.quota.count()));
            match policy.at_limit.count_denied {
                CountDenied::No => horizon,
                // If denials are charged, a unit may have to wait for a second horizon after a full burst.
                CountDenied::Yes => horizon.saturating_mul(2),
                CountDenied::UpTo(wait) => horizon.saturating_add(wait.as_nanos()),
            }
        }
        Algorithm::SlidingWindow { .. } => 2 * period_ns,
        _ => period_ns,
    }
}

fn duration(ns: u128) -> Duration {
    let second_ns = 1_000_000_000;
    let Ok(secs) = u64::try_from(ns / second_ns) else { return Duration::MAX };
    #[expect(clippy::cast_possible_truncation, reason = "below 10^9")]
    let nanos = (ns % second_ns) as u32;
    Duration::new(secs, nanos)
}
