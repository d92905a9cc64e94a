//! [`Environment`]: the variables that are set. variables.rs lists the treatment of each variable of
//! envoyproxy/ratelimit. The names of Tollgate's own variables follow from the flags (given.rs).
//!
//! A variable that is set to an empty text counts as not set.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::variables::Fate::{Honoured, HonouredWith, Meaningless, NotYet, Refused};
use super::variables::{Need, OFF, ON, VARIABLES};

/// The variables that are set.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    values: BTreeMap<String, String>,
}

/// A variable with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadVariable {
    pub(super) name: &'static str,
    pub(super) found: String,
    pub(super) accepted: &'static str,
}

impl fmt::Display for BadVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, found, accepted } = self;
        let (found, accepted) = (found.escape_debug(), accepted.replace('`', ""));
        write!(f, "{name} is '{found}' in the environment; use {accepted}")
    }
}

impl Environment {
    /// Reads the variables of this process. Invalid UTF-8 is replaced visibly, and refused where the value is used.
    pub(super) fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    pub(super) fn text(&self, name: &'static str) -> Option<&str> {
        let is_known = VARIABLES.iter().any(|(known, ..)| *known == name);
        debug_assert!(is_known || name.starts_with("OTEL_"), "{name}");
        self.own(name)
    }

    /// Returns the value of a variable that is not one of envoyproxy/ratelimit's.
    pub(super) fn own(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the names of all variables that are set.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str).filter(move |name| self.own(name).is_some())
    }

    pub(super) fn parsed<T: FromStr>(
        &self,
        name: &'static str,
        accepted: &'static str,
    ) -> Result<Option<T>, BadVariable> {
        let parse = |text: &str| {
            text.parse().map_err(|_| BadVariable { name, found: text.to_owned(), accepted })
        };
        self.text(name).map(parse).transpose()
    }

    /// Refuses each variable that cannot be honoured, if ignoring it would change the limits.
    pub(super) fn refuse_what_would_mislead(&self) -> Result<(), BadVariable> {
        for &(name, fate, as_here) in &VARIABLES {
            let (Refused(accepted), Some(found)) = (fate, self.text(name)) else { continue };
            if !as_here.contains(&found) {
                return Err(BadVariable { name, found: found.to_owned(), accepted });
            }
        }
        Ok(())
    }

    /// Returns the value of a variable that is a boolean in the notation of Go.
    pub(super) fn truth(&self, name: &'static str) -> Result<Option<bool>, BadVariable> {
        let read = |text: &str| match text {
            _ if ON.contains(&text) => Ok(true),
            _ if OFF.contains(&text) => Ok(false),
            _ => Err(BadVariable { name, found: text.to_owned(), accepted: "true or false" }),
        };
        self.text(name).map(read).transpose()
    }

    /// Returns the value of a variable that is a time in the notation of Go, as in 1h30m, in this range.
    pub(super) fn duration(
        &self,
        name: &'static str,
        range: RangeInclusive<Duration>,
        accepted: &'static str,
    ) -> Result<Option<Duration>, BadVariable> {
        let read = |text: &str| {
            let time = go_duration(text).filter(|time| range.contains(time));
            time.ok_or_else(|| BadVariable { name, found: text.to_owned(), accepted })
        };
        self.text(name).map(read).transpose()
    }

    /// Returns the variables that are set and have no effect, with a sentence for each.
    pub(super) fn unheeded(&self) -> Vec<String> {
        let told = |&(name, fate, as_here): &(&'static str, _, &[&str])| {
            let value = self.text(name)?;
            let told = match fate {
                Meaningless(why) => format!("means nothing here: {}", why.replace('`', "")),
                NotYet(why) => format!("is not honoured yet: {}", why.replace('`', "")),
                HonouredWith(need, _) if !self.meets(need) => {
                    format!("means nothing here without {}", words(need))
                }
                Honoured(_) | HonouredWith(..) | Refused(_) => return None,
            };
            (!as_here.contains(&value)).then(|| format!("{name} is set and {told}"))
        };
        VARIABLES.iter().filter_map(told).collect()
    }

    /// Returns whether a need is met: one of its variables is set to a value that the need accepts, and that
    /// variable is itself honoured.
    fn meets(&self, need: Need) -> bool {
        need.iter().any(|&(name, values)| {
            let is_set =
                self.text(name).is_some_and(|value| values.is_empty() || values.contains(&value));
            let fate = VARIABLES.iter().find(|(known, ..)| *known == name);
            let of_it = fate.and_then(|(_, fate, _)| match fate {
                HonouredWith(need, _) => Some(*need),
                _ => None,
            });
            is_set && of_it.is_none_or(|need| self.meets(need))
        })
    }

    /// Returns the variables that are set and honoured, with their values; a value that may contain a password is left
    /// out.
    pub(super) fn heeded(&self) -> impl Iterator<Item = (&'static str, Option<&str>)> {
        VARIABLES.iter().filter_map(|&(name, fate, _)| {
            let value = self.text(name)?;
            match fate {
                Honoured(_) => {}
                HonouredWith(need, _) if self.meets(need) => {}
                _ => return None,
            }
            let is_secret = name.ends_with("_AUTH") || value.contains(['@', '?']);
            Some((name, Some(value).filter(|_| !is_secret)))
        })
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self { values: pairs.into_iter().collect() }
    }
}

/// Returns a need in words, as in `REDIS_TLS=true or REDIS_SOCKET_TYPE=tls`.
fn words(need: Need) -> String {
    let word = |&(name, values): &(&str, &[&str])| match values {
        _ if values == ON => format!("{name}=true"),
        [value, ..] => format!("{name}={value}"),
        [] => name.to_owned(),
    };
    need.iter().map(word).collect::<Vec<_>>().join(" or ")
}

/// Parses a duration of Go: numbers with their units, one after the other. A zero needs no unit.
fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let is_of_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        let number = rest.bytes().take_while(|byte| is_of_number(*byte)).count();
        let unit = rest[number..].bytes().take_while(u8::is_ascii_lowercase).count();
        let (name, value) = (&rest[number..number + unit], rest[..number].parse::<f64>().ok()?);
        seconds += value * units.iter().find(|(known, _)| *known == name)?.1;
        rest = &rest[number + unit..];
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

#[cfg(test)]
impl Environment {
    /// Returns an environment with these variables alone.
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_and_not_honoured_is_told_and_nothing_else() {
        let environment = Environment::of(&[
            ("LIMIT_RESET_HEADER", "x-reset"),
            ("LIMIT_LIMIT_HEADER", "RateLimit-Limit"),
            ("RUNTIME_WATCH_ROOT", "false"),
            ("RUNTIME_IGNOREDOTFILES", "true"),
            ("BACKEND_TYPE", "redis"),
            ("REDIS_PERSECOND", "False"),
            ("PORT", "80"),
            ("MEMCACHE_SRV", ""),
            ("PATH", "/bin"),
        ]);
        assert_eq!(
            environment.unheeded(),
            [
                "RUNTIME_WATCH_ROOT is set and means nothing here: a swapped link and changed files are both noticed",
                "LIMIT_RESET_HEADER is set and is not honoured yet: it is RateLimit-Reset",
            ]
        );
        assert_eq!(environment.refuse_what_would_mislead(), Ok(()));
    }

    #[test]
    fn what_would_mean_other_limits_is_refused_with_what_is_accepted() {
        for (name, value, says) in [
            (
                "BACKEND_TYPE",
                "memcache",
                "BACKEND_TYPE is 'memcache' in the environment; use redis, ",
            ),
            (
                "REDIS_PERSECOND",
                "true",
                "REDIS_PERSECOND is 'true' in the environment; use one Redis ",
            ),
            (
                "GRPC_CLIENT_TLS_SAN",
                "a",
                "GRPC_CLIENT_TLS_SAN is 'a' in the environment; use an auth",
            ),
        ] {
            let refused = Environment::of(&[(name, value)]).refuse_what_would_mislead();
            let refused = refused.expect_err(name).to_string();
            assert!(refused.starts_with(says) && !refused.contains('`'), "{refused}");
        }
    }

    /// Every variable that is set without an effect is reported, unless it asks for the default behaviour.
    #[test]
    fn no_variable_is_ignored_in_silence() {
        for (name, fate, _) in VARIABLES {
            let environment = Environment::of(&[(name, "something else")]);
            let told = environment.unheeded().len();
            let is_refused = environment.refuse_what_would_mislead().is_err();
            let is_heeded = environment.heeded().any(|(heeded, ..)| heeded == name);
            let expected = match fate {
                Honoured(_) => (0, false, true),
                Meaningless(_) | NotYet(_) | HonouredWith(..) => (1, false, false),
                Refused(_) => (0, true, false),
            };
            assert_eq!((told, is_refused, is_heeded), expected, "{name}");
        }
    }

    #[test]
    fn what_needs_another_variable_is_told_without_it_and_honoured_with_it() {
        let certificate = ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/ca");
        let tls = ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "1");
        let told = |pairs: &[(&str, &str)]| Environment::of(pairs).unheeded();
        let lacks_plane = "CONFIG_GRPC_XDS_SERVER_USE_TLS is set and means nothing here without CONFIG_TYPE=GRPC_XDS_SOTW";
        let lacks_tls = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT is set and means nothing here without \
                         CONFIG_GRPC_XDS_SERVER_USE_TLS=true";
        // A switch that is itself without effect does not satisfy a need.
        assert_eq!(told(&[certificate, tls]), [lacks_plane, lacks_tls]);
        let plane = ("CONFIG_TYPE", "GRPC_XDS_SOTW");
        assert_eq!(told(&[certificate, plane]), [lacks_tls]);
        assert_eq!(told(&[certificate, tls, plane]), [""; 0]);
        assert_eq!(Environment::of(&[certificate, tls, plane]).heeded().count(), 3);
        assert_eq!(
            told(&[("PROMETHEUS_ADDR", ":9090"), ("USE_PROMETHEUS", "false")]),
            ["PROMETHEUS_ADDR is set and means nothing here without USE_PROMETHEUS=true"]
        );
        let url = ("REDIS_URL", "db:6379");
        let authority = ("REDIS_TLS_CACERT", "/ca");
        assert_eq!(
            told(&[url, authority, ("REDIS_SOCKET_TYPE", "tcp")]),
            [
                "REDIS_TLS_CACERT is set and means nothing here without REDIS_TLS=true or REDIS_SOCKET_TYPE=tls"
            ]
        );
        assert_eq!(told(&[url, authority, ("REDIS_SOCKET_TYPE", "tls")]), [""; 0]);
    }

    #[test]
    fn values_are_read_as_envoyproxy_ratelimit_reads_them() {
        let environment = Environment::of(&[
            ("SHADOW_MODE", "T"),
            ("QUOTA_MODE", "0"),
            ("MERGE_DOMAIN_CONFIG", "yes"),
            ("PORT", "70000"),
        ]);
        assert_eq!(environment.truth("SHADOW_MODE"), Ok(Some(true)));
        assert_eq!(environment.truth("QUOTA_MODE"), Ok(Some(false)));
        assert_eq!(environment.truth("RESPONSE_DYNAMIC_METADATA"), Ok(None));
        let error = environment.truth("MERGE_DOMAIN_CONFIG").expect_err("no truth");
        assert_eq!(
            error.to_string(),
            "MERGE_DOMAIN_CONFIG is 'yes' in the environment; use true or false"
        );
        assert!(environment.parsed::<u16>("PORT", "a port").is_err());
    }

    #[test]
    fn times_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("24h", Some(86_400_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("0", Some(0)),
            ("250ms", Some(250)),
            ("24", None),
            ("h", None),
            ("1 h", None),
            ("-1s", None),
            ("1d", None),
            ("1hm", None),
            ("9999999999999999999999h", None),
            ("1\u{b5}s", None),
        ] {
            let found = go_duration(text).map(|time| time.as_millis());
            assert_eq!(found, expected, "{text}");
        }
    }
}
