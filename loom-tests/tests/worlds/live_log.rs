//! The verdict on a sliding log whose limit is changed and later changed back. The log is judged by each limit in
//! force, not only by the largest.

use tollgate::{Limiter, Policy, Quota, Timestamp};

use crate::history::{ABOVE_BOUND, Event, Kind, LOST_CHARGE, LimitSet, REFUSED};
use crate::subject::Subject;
use crate::world::World;

/// A log of `count` units in the quota's window.
pub(crate) fn log_of(quota: Quota, count: u64) -> Policy {
    Policy::sliding_log(Quota::per(count, quota.period())).expect("a log")
}

impl World {
    /// Judges a log whose limit was set. Each request must have been admitted by a limit that was in force while it
    /// ran. The units left must be what the last limit leaves, and what the first limit leaves when it is set again.
    pub(crate) fn judge_limits(&self, events: &[Event], sets: &[LimitSet]) -> Result<(), String> {
        let Subject::LiveLog(log) = &self.subject else { return Ok(()) };
        let (built, window_ns) =
            (self.policy.quota().count(), Self::rate_of(self.policy).period_ns);
        let charges: Vec<&Event> = events.iter().filter(|event| event.kind == Kind::Firm).collect();
        for own in &charges {
            // Each of these charges occupies its own slot, which is not free at the time of this request.
            let is_inside = |other: &&&Event| {
                other.end < own.begin
                    && other.from_ns <= own.from_ns
                    && other.from_ns + window_ns > own.from_ns
            };
            let gone = |other: &Event| if other.back_begin < own.end { other.back } else { 0 };
            let before: u64 = charges
                .iter()
                .filter(is_inside)
                .map(|other| other.units.saturating_sub(gone(other)))
                .sum();
            let most = largest_in_force(built, sets, own);
            if own.units > 0 && before + own.units > most {
                return Err(format!("{ABOVE_BOUND}: {before} and {own}, the limit was {most}"));
            }
        }
        // At the latest time of the world each unit in the window occupies a slot.
        let is_left = |event: &&&Event| event.from_ns + window_ns > self.horizon_ns;
        let units: u64 = charges.iter().filter(is_left).map(|event| event.units - event.back).sum();
        let last = log.policy().quota().count();
        for count in [last, built, last] {
            log.set_quota_at(log_of(self.policy.quota(), count), Timestamp::from_nanos(0))
                .map_err(|error| format!("{REFUSED}: {error}"))?;
            let left = Self::left(log, self.horizon_ns);
            let message = match left.cmp(&count.saturating_sub(units)) {
                std::cmp::Ordering::Equal => continue,
                std::cmp::Ordering::Greater => LOST_CHARGE,
                std::cmp::Ordering::Less => REFUSED,
            };
            return Err(format!("{message}: {left} of {count} are left, {units} count"));
        }
        Ok(())
    }

    fn left(log: &Limiter, at_ns: u64) -> u64 {
        log.entry().at(Timestamp::from_nanos(at_ns)).peek(0).remaining()
    }
}

/// The largest limit that may have been in force while a request ran.
fn largest_in_force(built: u64, sets: &[LimitSet], own: &Event) -> u64 {
    let first = LimitSet { count: built, begin: 0, end: 0 };
    let all = || sets.iter().copied().chain([first]);
    // A limit was no longer in force if a later limit was set completely before the request began.
    let is_over = |set: LimitSet| all().any(|next| next.begin > set.end && next.end < own.begin);
    let in_force = all().filter(|&set| set.begin <= own.end && !is_over(set));
    in_force.map(|set| set.count).max().unwrap_or(built)
}
