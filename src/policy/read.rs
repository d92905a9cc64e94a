//! Numbers and periods of a policy's text.

use std::time::Duration;

use crate::error::PolicyError;
use crate::period::PERIOD_UNITS;

pub(super) fn read_number(what: &str, digits: &str) -> Result<u64, PolicyError> {
    // `parse` alone would also take a sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PolicyError::new(format!(
            "{what} {digits:?} is not a whole number in digits alone, as in 10000"
        )));
    }
    digits.parse().map_err(|_| PolicyError::new(format!("{what} {digits} is above {}", u64::MAX)))
}

pub(super) fn read_period(what: &str, period: &str) -> Result<Duration, PolicyError> {
    let digits = period.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = period.split_at(digits);
    // `minute` and `minutes` are `m`.
    let unit = match unit.strip_suffix('s').unwrap_or(unit) {
        word @ ("second" | "minute" | "hour" | "day") => &word[..1],
        _ => unit,
    };
    let unit_ns = PERIOD_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ns)| *ns);
    // `d` alone is one day; `ms` alone is more likely a slip than one millisecond.
    let bare = number.is_empty() && unit_ns.is_some_and(|ns| ns < 1_000_000_000);
    let Some(unit_ns) = unit_ns.filter(|_| !bare) else {
        return Err(PolicyError::new(format!(
            "{what} {period:?} is not understood; write a number and one of ns us ms s m h d, \
             as in 250ms, 10s, 15m, 3h or d"
        )));
    };
    let count = if number.is_empty() { 1 } else { read_number(what, number)? };
    match count.checked_mul(unit_ns) {
        Some(ns) => Ok(Duration::from_nanos(ns)),
        None => Err(PolicyError::new(format!("{what} {period} is longer than 584 years"))),
    }
}
