//! Writes the fields that hold one figure each.

use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::names::FigureNames;
use super::window::{KeyStanding, secs_up};

/// The fields of one style that hold one figure each.
#[derive(Clone, Debug)]
pub(super) struct FigureFields {
    pub(super) names: FigureNames,
    /// The quotas that draft 3 writes after the limit: `, 60;w=60`.
    pub(super) quotas: String,
}

impl FigureFields {
    pub(super) fn put(&self, headers: &mut HeaderMap, standing: KeyStanding) {
        let FigureNames { limit, remaining, reset, retry_after, is_unix } = &self.names;
        let with_quotas = match &*self.quotas {
            "" => None,
            quotas => HeaderValue::try_from(format!("{}{quotas}", standing.limit)).ok(),
        };
        keep_or_append(headers, limit, with_quotas.unwrap_or_else(|| digits(standing.limit)));
        keep_or_append(headers, remaining, digits(standing.remaining));
        if let Some(reset) = reset {
            let seconds = standing.reset_secs;
            let figure = if *is_unix { epoch_after(SystemTime::now(), seconds) } else { seconds };
            keep_or_append(headers, reset, digits(figure));
        }
        if let (Some(name), Some(seconds)) = (retry_after, standing.retry_after_secs) {
            keep_or_append(headers, name, digits(seconds.get()));
        }
    }
}

/// Adds the field, unless the answer has it. Most answers do not have it, so the field is appended in one lookup, and
/// removed again if it was there already.
#[inline]
pub(super) fn keep_or_append(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue) {
    if headers.append(name, value) {
        take_back_last(headers, name);
    }
}

#[cold]
fn take_back_last(headers: &mut HeaderMap, name: &HeaderName) {
    let mut lines: Vec<_> = headers.get_all(name).iter().cloned().collect();
    lines.pop();
    headers.remove(name);
    for line in lines {
        headers.append(name, line);
    }
}

/// The digits of a figure, in an allocation of exactly their length.
pub(super) fn digits(figure: u64) -> HeaderValue {
    let mut digits = itoa::Buffer::new();
    // Digits are always a valid header value, so the fallback is never taken.
    HeaderValue::from_str(digits.format(figure)).unwrap_or_else(|_| figure.into())
}

/// The Unix time this many seconds from now, rounded up.
fn epoch_after(now: SystemTime, seconds: u64) -> u64 {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    secs_up(now).saturating_add(seconds)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::header::RETRY_AFTER;

    use super::*;
    use crate::headers::RATE_LIMIT;

    #[test]
    fn unix_time_is_rounded_up() {
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        assert_eq!(epoch_after(at(1_700_000_000_001), 5), 1_700_000_006);
        assert_eq!(epoch_after(at(1_700_000_000_000), 5), 1_700_000_005);
    }

    #[test]
    fn what_an_inner_service_says_is_kept_as_it_is() {
        let mut map = HeaderMap::new();
        for line in ["one", "two"] {
            map.append(&RATE_LIMIT, HeaderValue::from_static(line));
            map.append("x-ratelimit-limit", HeaderValue::from_static(line));
        }
        let before = map.clone();
        for name in [&RATE_LIMIT, &HeaderName::from_static("x-ratelimit-limit")] {
            keep_or_append(&mut map, name, HeaderValue::from_static("three"));
        }
        assert_eq!(map, before);
        keep_or_append(&mut map, &RETRY_AFTER, HeaderValue::from_static("4"));
        assert_eq!((map.len(), map[&RETRY_AFTER].as_bytes()), (before.len() + 1, &b"4"[..]));
    }
}
