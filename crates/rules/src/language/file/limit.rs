//! Parses one limit of a rule: the map under `rate_limit`, or one entry of `limits`.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Policy};

use super::fields::{MapFields, value};
use super::policy_parts::PolicyParts;
use super::rate::{LimitRate, read_rate, refused};
use crate::language::error::{LocatedProblem, Problem};
use crate::language::lowered::LoweredRate;
use crate::language::position::Position;
use crate::language::unit::Unit;
use crate::language::yaml::YamlNode;
use crate::language::zone::{Zone, ZoneWindow};

const KEYS: &[&str] = &[
    "unit",
    "requests_per_unit",
    "unlimited",
    "name",
    "replaces",
    "rate",
    "algorithm",
    "burst",
    "window",
    "mode",
    "count_rejected",
    "penalty",
    "queue",
    "wait",
    "debt",
    "time_zone",
];

/// The keys that may stand beside `unlimited`. `unit` is in the list because a separate check refuses it, with another
/// error.
const BESIDE_UNLIMITED: &[&str] = &["unit", "requests_per_unit", "unlimited", "name", "replaces"];

const MODES: &str = "hard, soft with a share, as in soft 5%, or elastic, which borrows what others of its domain leave";

/// One limit as parsed.
#[derive(Clone, Debug)]
pub(crate) struct LimitText {
    pub(crate) at: Position,
    /// The requests that may pass in one window, as they are counted.
    pub(crate) requests: u32,
    /// The requests that may pass in one window, as the file says.
    pub(crate) asked: u32,
    pub(crate) window: Duration,
    pub(crate) unit: Option<Unit>,
    pub(crate) name: Option<String>,
    pub(crate) replaces: Vec<String>,
    /// The policy in the words of the file.
    pub(crate) words: Box<str>,
    /// `None` if the limit is 0.
    pub(crate) policy: Option<Policy>,
    /// The time zone, if the file names one. The windows begin at midnights of this zone.
    pub(crate) zone: Option<Arc<Zone>>,
    /// The position of `mode: elastic`, if the file has it.
    pub(crate) elastic: Option<Position>,
    /// Whether the file names no algorithm and no debt. If so, the limit behaves as in envoyproxy/ratelimit.
    pub(crate) is_plain: bool,
    /// Whether the limit has the key `debt`, which bounds the debt that is remembered.
    pub(crate) says_debt: bool,
}

impl LimitText {
    /// The lowered rate, if the limit is counted at a lower rate than the file says.
    pub(super) fn lowered(&self) -> Option<LoweredRate> {
        let Self { asked, requests: counted, window, .. } = *self;
        (counted < asked).then_some(LoweredRate { asked, counted, window })
    }

    /// The reason why only the tables of this process can keep this limit; `None` if a store can keep it, too.
    pub(crate) fn only_here(&self) -> Option<String> {
        self.policy?;
        if let Some(zone) = &self.zone {
            return Some(format!(
                "time_zone: {zone} is not kept in Redis, where windows are those of UTC; leave it out, or serve the rule \
                 without --redis"
            ));
        }
        self.elastic.is_some().then(|| {
            "mode: elastic borrows from a pool of this process, which is not kept in Redis; leave it out, or \
             serve the rule without --redis"
                .to_owned()
        })
    }
}

/// A limit, or the statement that there is none (`unlimited`).
#[derive(Clone, Debug)]
pub(crate) enum LimitKind {
    Limited(Box<LimitText>),
    Unlimited { name: Option<String>, replaces: Vec<String> },
}

pub(super) fn read(node: &YamlNode) -> Result<LimitKind, LocatedProblem> {
    let fields = MapFields::of(node, "rate_limit", KEYS)?;
    let name = fields.text("name")?.filter(|name| !name.is_empty()).map(str::to_owned);
    let replaces = read_replaces(&fields, name.as_deref())?;
    if fields.truth("unlimited")? {
        read_unlimited(&fields)?;
        return Ok(LimitKind::Unlimited { name, replaces });
    }
    let elastic = read_elastic(&fields)?;
    let parts = read_parts(&fields)?;
    let LimitRate { requests, unit, window, text } = read_rate(&fields, parts.algorithm)?;
    let words = PolicyParts { rate: &text, ..parts }.text();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let policy = match requests {
        0 => None,
        _ => {
            let refused = |error| refused(node.at, error);
            Some(PolicyParts { rate: &text, ..parts }.policy(requests, window).map_err(refused)?)
        }
    };
    let (policy, lowered) = policy.unzip();
    let lowered: Option<LoweredRate> = lowered.flatten();
    let (asked, requests) = (requests, lowered.map_or(requests, |rate| rate.counted));
    // The length of a window of the calendar is known only from its policy.
    let of_policy = policy.filter(|_| window.is_zero());
    let window = of_policy.map_or(window, |policy| policy.quota().period());
    let unit = unit.or_else(|| Unit::of_length(window));
    let says_debt = fields.get("debt").is_some();
    let is_plain = fields.get("algorithm").is_none() && !says_debt;
    let zone = read_zone(&fields, policy, window)?;
    let at = node.at;
    Ok(LimitKind::Limited(Box::new(LimitText {
        at,
        requests,
        asked,
        window,
        unit,
        name,
        replaces,
        words: words.into(),
        policy,
        zone,
        elastic,
        is_plain,
        says_debt,
    })))
}

/// Refuses keys of a limit beside `unlimited`.
fn read_unlimited(fields: &MapFields<'_>) -> Result<(), LocatedProblem> {
    if let Some(unit) = fields.get("unit") {
        return Err(LocatedProblem { at: unit.at, problem: Problem::UnlimitedUnit });
    }
    for key in KEYS.iter().filter(|key| !BESIDE_UNLIMITED.contains(key)) {
        if let Some(found) = fields.get(key) {
            let problem = Problem::Together { key, with: "unlimited" };
            return Err(LocatedProblem { at: found.at, problem });
        }
    }
    Ok(())
}

/// Reads the keys that envoyproxy/ratelimit does not have: all of the policy except its rate.
fn read_parts<'n>(fields: &MapFields<'n>) -> Result<PolicyParts<'n>, LocatedProblem> {
    let burst = fields.number("burst", "a whole number in digits, as in 20")?;
    let soft = match fields.scalar("mode")? {
        None => None,
        Some((scalar, at)) => match scalar.text.split_once(' ') {
            None if scalar.text == "hard" => None,
            // `elastic` is not part of the policy.
            None if scalar.text == "elastic" => None,
            Some(("soft", share)) => Some(share),
            _ => {
                return Err(value(scalar, at, "mode", MODES));
            }
        },
    };
    let count_denied = match fields.scalar("count_rejected")? {
        None => None,
        // The value of `count_rejected` is true, false, or the maximum wait that counting may cause.
        Some((scalar, _)) if scalar.text.starts_with(|first: char| first.is_ascii_digit()) => {
            Some(scalar.text.as_str())
        }
        Some(_) => fields.truth("count_rejected")?.then_some(""),
    };
    let penalty = fields.text("penalty")?;
    let queue = fields.number("queue", "the number of places in digits, from 1, as in 50")?;
    let wait = fields.text("wait")?;
    // `debt: none` becomes a policy without an option for the debt, because such a policy remembers the least debt.
    let debt = fields.text("debt")?.filter(|debt| *debt != "none");
    let algorithm = fields.text("algorithm")?.unwrap_or_default();
    let parts = PolicyParts { algorithm, burst, soft, ..PolicyParts::default() };
    Ok(PolicyParts { count_denied, penalty, queue, wait, debt, ..parts })
}

/// The position of `mode: elastic`. A limit that borrows has no queue and counts no denials. The reason for the latter
/// is that limits are charged all or none. If a limit counted a denial and then borrowed, and another limit denied the
/// request after that, the count of denials in a row could not be restored.
fn read_elastic(fields: &MapFields<'_>) -> Result<Option<Position>, LocatedProblem> {
    let mode = fields.scalar("mode")?.filter(|(scalar, _)| scalar.text == "elastic");
    let Some((_, at)) = mode else { return Ok(None) };
    for key in ["count_rejected", "penalty", "queue", "wait"] {
        let is_no = key == "count_rejected" && matches!(fields.truth(key), Ok(false));
        if let Some(found) = fields.get(key).filter(|_| !is_no) {
            let problem = Problem::Together { key, with: "mode: elastic" };
            return Err(LocatedProblem { at: found.at, problem });
        }
    }
    Ok(Some(at))
}

/// Reads `time_zone`: each window begins at a midnight of this zone. `None` if the field is missing, or if the limit is
/// 0.
fn read_zone(
    fields: &MapFields<'_>,
    policy: Option<Policy>,
    window: Duration,
) -> Result<Option<Arc<Zone>>, LocatedProblem> {
    const DAY_S: u64 = 86_400;
    const WINDOWS: &str = "it beside windows of the calendar, or fixed windows of whole days";
    const NAMES: &str = "a name of the IANA's list, as in Europe/Berlin";
    let Some((scalar, at)) = fields.scalar("time_zone")? else { return Ok(None) };
    let is_days = window.subsec_nanos() == 0 && window.as_secs().is_multiple_of(DAY_S);
    let length = match policy.map(|policy| policy.algorithm()) {
        Some(Algorithm::Calendar(unit)) => ZoneWindow::Calendar(unit),
        Some(Algorithm::FixedWindow) if is_days => {
            // A number that does not fit is refused, because a truncated number would give windows of another length.
            let days = u32::try_from(window.as_secs() / DAY_S);
            ZoneWindow::Days(days.map_err(|_| value(scalar, at, "time_zone", WINDOWS))?)
        }
        // A limit of 0 admits nothing in any zone, so it needs none.
        None => return Ok(None),
        _ => return Err(value(scalar, at, "time_zone", WINDOWS)),
    };
    match Zone::new(&scalar.text, length) {
        Ok(zone) => Ok(Some(Arc::new(zone))),
        Err(meant) => {
            let mut found = format!("'{}'", scalar.text.escape_debug());
            if let Some(meant) = meant {
                found += &format!(" (did you mean '{meant}'?)");
            }
            let problem = Problem::Value { key: "time_zone", found, accepted: NAMES };
            Err(LocatedProblem { at, problem })
        }
    }
}

fn read_replaces(
    fields: &MapFields<'_>,
    own_name: Option<&str>,
) -> Result<Vec<String>, LocatedProblem> {
    let mut names = Vec::new();
    for item in fields.maps("replaces")? {
        let entry = MapFields::of(item, "replaces", &["name"])?;
        let Some(name) = entry.text("name")?.filter(|name| !name.is_empty()) else {
            return Err(LocatedProblem { at: item.at, problem: Problem::EmptyReplaces });
        };
        if own_name == Some(name) {
            let problem = Problem::ReplacesItself { name: name.to_owned() };
            return Err(LocatedProblem { at: item.at, problem });
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use tollgate::{CalendarUnit, Weekday};

    use super::*;

    /// The limit of the map that holds these keys.
    fn limit(keys: &str) -> Result<LimitText, Problem> {
        match read(&crate::language::yaml::parse(&format!("{{{keys}}}")).expect("one map")) {
            Ok(LimitKind::Limited(limit)) => Ok(*limit),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.problem),
        }
    }

    #[test]
    fn windows_of_the_calendar_are_counted_in_their_unit_and_nothing_else() {
        let (week, sunday) =
            (CalendarUnit::Week(Weekday::Monday), CalendarUnit::Week(Weekday::Sunday));
        let days = |days: u64| days * 86_400;
        let read = |unit: &str, algorithm: &str| {
            limit(&format!("{unit}, requests_per_unit: 9, algorithm: {algorithm}"))
        };
        for (unit, algorithm, calendar, told, window_s) in [
            ("unit: month", "Calendar_Month", CalendarUnit::Month, Unit::Month, days(31)),
            ("unit: year", "calendar-year", CalendarUnit::Year, Unit::Year, days(366)),
            ("unit: week", "calendar-week", week, Unit::Week, days(7)),
            ("window: 7d", "calendar-week", week, Unit::Week, days(7)),
            ("unit: week", "calendar-week from sunday", sunday, Unit::Week, days(7)),
        ] {
            let limit = read(unit, algorithm).expect("a limit");
            assert_eq!(limit.policy, Some(Policy::calendar(calendar, 9).expect("a policy")));
            assert_eq!((limit.unit, limit.window.as_secs()), (Some(told), window_s), "{algorithm}");
        }
        for (unit, algorithm) in [
            ("unit: day", "calendar-month"),
            ("window: 30d", "calendar-month"),
            ("window: 31d", "calendar-month"),
            ("unit: year", "calendar-month"),
            ("unit: month", "calendar-year"),
            ("unit: month", "calendar-week"),
            ("window: 366d", "calendar-year"),
        ] {
            let refused = format!("{:?}", read(unit, algorithm).expect_err(unit));
            assert!(refused.contains(" takes a count per "), "{refused}");
        }
    }

    #[test]
    fn a_rate_in_windows_of_the_calendar_is_per_window_and_a_refusal_says_so() {
        let read =
            |rate: &str, algorithm: &str| limit(&format!("rate: {rate}, algorithm: {algorithm}"));
        for (rate, algorithm, told) in [
            ("5/month", "calendar-year", "takes a count per year, as in 10000/year, not"),
            ("5/2w", "calendar-week", "takes a count per week, as in 10000/week, not"),
            ("5", "calendar-week", "a rate per week, as in 100/week"),
            ("5", "calendar-month", "a rate per month, as in 100/month"),
            ("5", "calendar-year", "a rate per year, as in 100/year"),
        ] {
            let refused = read(rate, algorithm).expect_err(rate).to_string();
            assert!(refused.contains(told), "{refused}");
        }
        for (rate, algorithm) in [
            ("5/year", "calendar-year"),
            ("5/week", "calendar-week"),
            ("5/month", "calendar-month"),
        ] {
            assert_eq!(read(rate, algorithm).expect("a limit").requests, 5);
        }
    }

    #[test]
    fn a_window_as_long_as_a_unit_is_told_in_that_unit() {
        let told = |window: &str| {
            limit(&format!("window: {window}, requests_per_unit: 1")).expect("a limit").unit
        };
        for unit in Unit::ALL {
            assert_eq!(told(&format!("{}s", unit.length().as_secs())), Some(unit));
        }
        assert_eq!(told("10m"), None);
    }
}
