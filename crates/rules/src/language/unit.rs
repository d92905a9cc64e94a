//! [`Unit`]: the units of time that envoyproxy/ratelimit knows.

use std::fmt;
use std::time::Duration;

use tollgate::Quota;

use crate::language::error::Problem;

/// A unit of time in `unit:` and in a limit that comes with a request. A month is 30 days and a year 365, as in
/// envoyproxy/ratelimit.
///
/// ```
/// use tollgate_rules::Unit;
/// assert_eq!("Week".parse::<Unit>().map(|unit| unit.length().as_secs()), Ok(604_800));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3,600 s.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// All units, shortest first.
    ///
    /// ```
    /// use tollgate_rules::Unit;
    /// assert_eq!(Unit::ALL.len(), 7);
    /// ```
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The length of the unit.
    ///
    /// ```
    /// use tollgate_rules::Unit;
    /// assert_eq!(Unit::Month.length().as_secs(), 2_592_000);
    /// ```
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 30 * 86_400,
            Self::Year => 365 * 86_400,
        })
    }

    /// The unit with exactly this length, if there is one.
    pub(crate) fn of_length(length: Duration) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.length() == length)
    }

    /// The unit as a period in a policy's text.
    pub(crate) const fn period(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "m",
            Self::Hour => "h",
            Self::Day => "d",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::Year => "365d",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        })
    }
}

/// Parses the name of a unit, in upper or lower case. Other names that a [policy](tollgate::Policy) accepts for a
/// period of the same length are accepted as well: `min`, `hours`. The error is [`Problem::BadUnit`].
///
/// ```
/// use tollgate_rules::Unit;
/// let error = "fortnight".parse::<Unit>().unwrap_err();
/// assert!(error.to_string().starts_with("invalid rate limit unit 'fortnight'; use second, minute"));
/// ```
impl std::str::FromStr for Unit {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let is_named = |unit: &Self| unit.to_string().eq_ignore_ascii_case(text);
        let named = Self::ALL.into_iter().find(is_named);
        let unit = named.or_else(|| {
            let of_one = format!("1/{text}").parse::<Quota>().ok()?;
            Self::of_length(of_one.period()).filter(|_| of_one.max_burst() == 1)
        });
        unit.ok_or_else(|| Problem::BadUnit { unit: text.escape_debug().to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_as_long_as_in_envoyproxy_ratelimit() {
        let seconds = Unit::ALL.map(|unit| unit.length().as_secs());
        assert_eq!(seconds, [1, 60, 3_600, 86_400, 604_800, 2_592_000, 31_536_000]);
    }

    #[test]
    fn a_text_that_names_no_unit_is_refused_with_the_names_of_all() {
        let error = "fortnight".parse::<Unit>().expect_err("no unit");
        let expected = "invalid rate limit unit 'fortnight'; \
                        use second, minute, hour, day, week, month or year, \
                        or leave unit out and write window: 30s";
        assert_eq!(error.to_string(), expected);
    }
}
