//! Parses the rate of a limit: `rate`, or `requests_per_unit` with `unit` or `window`.

use std::time::Duration;

use tollgate::{Algorithm, AtLimit, CalendarUnit, Policy, PolicyError, Quota};

use super::fields::{MapFields, value};
use crate::language::error::{LocatedProblem, Problem};
use crate::language::position::Position;
use crate::language::unit::Unit;

const REQUESTS: &str = "a whole number from 0 to 4294967295 in digits, as in 100";

const RATE: &str = "a rate of at most 4294967295, as in 100/m";

pub(super) fn refused(at: Position, error: PolicyError) -> LocatedProblem {
    LocatedProblem { at, problem: Problem::Policy { error: Box::new(error) } }
}

/// The number of requests of a limit, and the time in which they may pass.
pub(super) struct LimitRate {
    pub(super) requests: u32,
    pub(super) unit: Option<Unit>,
    /// Zero for a window of the calendar.
    pub(super) window: Duration,
    /// The rate as text that the core can parse.
    pub(super) text: String,
}

/// Reads `rate`, or `requests_per_unit` with its unit or window.
pub(super) fn read_rate(
    fields: &MapFields<'_>,
    algorithm: &str,
) -> Result<LimitRate, LocatedProblem> {
    let Some((rate, at)) = fields.scalar("rate")? else {
        let requests = fields.number::<u32>("requests_per_unit", REQUESTS)?.unwrap_or(0);
        let (unit, period) = read_period(fields)?;
        // A limit of 0 still has a unit of time, but the core has no quota of 0. So the period is parsed with a quota
        // of 1.
        let quota_of = |count| format!("{count}/{period}").parse::<Quota>();
        // If the period is bad, the error quotes the count of the file.
        let of_one = quota_of(1).map_err(|error| quota_of(requests).err().unwrap_or(error));
        let of_one = of_one.map_err(|error| refused(fields.at, error))?;
        // If the unit is not that of the algorithm's windows, parsing the whole policy fails, and the core's error says
        // why.
        let is_calendar = unit.is_some() && unit == calendar_unit(algorithm);
        let text = if is_calendar { requests.to_string() } else { format!("{requests}/{period}") };
        let window = if is_calendar { Duration::ZERO } else { of_one.period() };
        return Ok(LimitRate { requests, unit, window, text });
    };
    for key in ["unit", "window", "requests_per_unit"] {
        if let Some(found) = fields.get(key) {
            let problem = Problem::Together { key, with: "rate" };
            return Err(LocatedProblem { at: found.at, problem });
        }
    }
    // The rate is parsed by itself, so that the value cannot contain anything else. A rate per month or year is parsed
    // as a policy of fixed windows, because the core turns these into windows of the calendar.
    let text = rate.text.clone();
    let calendar = || format!("fixed-window {text}").parse::<Policy>().ok();
    let (quota, unit) = match text.parse::<Quota>() {
        Ok(quota) if quota.max_burst() == quota.count() => (quota, None),
        Ok(_) => {
            return Err(value(rate, at, "rate", "a rate alone, as in 100/m, and burst: beside it"));
        }
        Err(error) => {
            let calendar = calendar().and_then(|policy| Some((policy.quota(), unit_of(&policy)?)));
            // The core accepts a count without a period behind a name of the calendar, as in `calendar-month 100`, but
            // the value of `rate` must have a period.
            let is_count = || format!("{algorithm} {text}").parse::<Policy>().is_ok();
            let (quota, unit) = calendar.ok_or_else(|| match calendar_unit(algorithm) {
                Some(asked) if is_count() => value(rate, at, "rate", rate_per(asked)),
                _ => refused(at, error),
            })?;
            (quota, Some(unit))
        }
    };
    let requests = u32::try_from(quota.count()).map_err(|_| value(rate, at, "rate", RATE))?;
    let window = if unit.is_some() { Duration::ZERO } else { quota.period() };
    Ok(LimitRate { requests, unit, window, text })
}

/// The rate that is accepted in windows of the calendar, as a text for errors.
fn rate_per(unit: Unit) -> &'static str {
    match unit {
        Unit::Week => "a rate per week, as in 100/week",
        Unit::Month => "a rate per month, as in 100/month",
        _ => "a rate per year, as in 100/year",
    }
}

/// The unit of the algorithm's windows, if they are windows of the calendar. Only for these windows the core accepts a
/// count without a period.
fn calendar_unit(algorithm: &str) -> Option<Unit> {
    unit_of(&format!("{algorithm} 1").parse::<Policy>().ok()?)
}

/// The unit of a policy's windows, if they are windows of the calendar and the policy says nothing about requests at
/// the limit.
fn unit_of(policy: &Policy) -> Option<Unit> {
    let Algorithm::Calendar(unit) = policy.algorithm() else { return None };
    let unit = match unit {
        CalendarUnit::Month => Unit::Month,
        CalendarUnit::Year => Unit::Year,
        CalendarUnit::Week(_) => Unit::Week,
        _ => return None, // for algorithms that the core may get later
    };
    (policy.at_limit() == AtLimit::default()).then_some(unit)
}

pub(super) fn read_period<'n>(
    fields: &MapFields<'n>,
) -> Result<(Option<Unit>, &'n str), LocatedProblem> {
    match (fields.scalar("unit")?, fields.text("window")?) {
        (Some((_, at)), Some(_)) => {
            Err(LocatedProblem { at, problem: Problem::Together { key: "unit", with: "window" } })
        }
        (None, Some(window)) => Ok((None, window)),
        (None, None) => {
            Err(LocatedProblem { at: fields.at, problem: Problem::BadUnit { unit: String::new() } })
        }
        (Some((scalar, at)), None) => {
            let unit = scalar.text.parse::<Unit>();
            let unit = unit.map_err(|problem| LocatedProblem { at, problem })?;
            Ok((Some(unit), unit.period()))
        }
    }
}
