//! How headers are written.
//!
//! What never changes ([`FixedHeaders`], [`Opening`]) is formatted once, when the layer is built. What each answer adds
//! ([`Stamp`]) is prepared with the decision and inserted when the answer is there: one short text in an allocation
//! of its own, which the response takes over.

use std::mem;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate::Policy;

use super::text::{INTEGER_MAX, two_figures};
use super::window::{QuotaWindow, secs_up};
use super::{
    Headers, RATE_LIMIT, RATE_LIMIT_LIMIT, RATE_LIMIT_POLICY, RATE_LIMIT_REMAINING,
    RATE_LIMIT_RESET, X_RATE_LIMIT_LIMIT, X_RATE_LIMIT_REMAINING, X_RATE_LIMIT_RESET, XReset,
};
use crate::name::PolicyName;

/// What is the same in every answer.
#[derive(Clone, Debug)]
pub(crate) struct FixedHeaders {
    headers: Headers,
    policy: Option<HeaderValue>,
}

impl FixedHeaders {
    pub(crate) fn new<'p>(
        headers: Headers,
        policies: impl Iterator<Item = (&'p PolicyName, Policy)>,
    ) -> Self {
        let members: Vec<String> = policies
            .map(|(name, policy)| {
                let QuotaWindow { quota, seconds } = QuotaWindow::of(&policy);
                let (q, w) = (quota.min(INTEGER_MAX), seconds.min(INTEGER_MAX));
                if headers.draft_10 {
                    format!("{};q={q};w={w}", name.quoted())
                } else {
                    format!("{q};w={w}")
                }
            })
            .collect();
        let wanted = (headers.draft_10 || headers.draft_06) && !members.is_empty();
        // Names and digits are printable ASCII, so every such text is a valid header value.
        let value = HeaderValue::try_from(members.join(", ")).ok();
        Self { headers, policy: value.filter(|_| wanted) }
    }

    /// Whether the answer to an admitted request gets no headers.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.headers == Headers::NONE
    }

    /// The headers that report this state.
    #[inline]
    pub(crate) fn stamp(
        &self,
        name: &PolicyName,
        opening: &Opening,
        standing: KeyStanding,
    ) -> Stamp {
        let Headers { draft_10, draft_07, draft_06, x } = self.headers;
        let state = if draft_10 {
            two_figures(name.member(), standing.remaining, ";t=", standing.reset_secs)
        } else if draft_07 {
            opening.dictionary(standing)
        } else {
            None
        };
        Stamp { policy: self.policy.clone(), state, is_list: draft_10, draft_06, x, standing }
    }
}

/// How draft 7 begins its field: `limit=60, remaining=`.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    limit: u64,
    text: Arc<str>,
}

impl Opening {
    /// The limit of a policy is its burst.
    pub(crate) fn of(policy: &Policy) -> Self {
        let limit = policy.quota().max_burst();
        Self { limit, text: Self::text(limit).into() }
    }

    fn text(limit: u64) -> String {
        format!("limit={}, remaining=", limit.min(INTEGER_MAX))
    }

    /// `limit=60, remaining=58, reset=2`
    #[inline]
    fn dictionary(
        &self,
        KeyStanding { limit, remaining, reset_secs, .. }: KeyStanding,
    ) -> Option<HeaderValue> {
        // The limit of another implementation of `Limit` may change.
        if limit != self.limit {
            return two_figures(&Self::text(limit), remaining, ", reset=", reset_secs);
        }
        two_figures(&self.text, remaining, ", reset=", reset_secs)
    }
}

/// The state of a key after a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyStanding {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// Until the whole quota is available again; for a denied request, until a retry may be admitted.
    pub(crate) reset_secs: u64,
    /// For a denied request that a retry may get admitted.
    pub(crate) retry_after_secs: Option<NonZeroU64>,
}

/// The headers of one answer. They are inserted once: afterwards nothing is left here.
#[derive(Debug)]
pub(crate) struct Stamp {
    policy: Option<HeaderValue>,
    state: Option<HeaderValue>,
    /// Both fields are the lists of draft 10.
    is_list: bool,
    /// Whether there are the draft 6 fields, which hold one figure each.
    draft_06: bool,
    x: Option<XReset>,
    standing: KeyStanding,
}

impl Stamp {
    /// Adds no headers.
    pub(crate) const NOTHING: Self = Self {
        policy: None,
        state: None,
        is_list: false,
        draft_06: false,
        x: None,
        standing: KeyStanding { limit: 0, remaining: 0, reset_secs: 0, retry_after_secs: None },
    };

    /// Appends to the lists of draft 10, so that each of several nested layers is reported. The other fields hold one
    /// figure or one set of them, so the innermost layer keeps its value: if a layer denied, it is that one.
    #[inline]
    pub(crate) fn put(&mut self, headers: &mut HeaderMap) {
        if self.is_list {
            if let Some(policy) = self.policy.take() {
                headers.append(&RATE_LIMIT_POLICY, policy);
            }
            if let Some(state) = self.state.take() {
                headers.append(&RATE_LIMIT, state);
            }
        } else {
            if let Some(policy) = self.policy.take() {
                keep_or_append(headers, &RATE_LIMIT_POLICY, policy);
            }
            if let Some(state) = self.state.take() {
                keep_or_append(headers, &RATE_LIMIT, state);
            }
        }
        if self.draft_06 || self.x.is_some() || self.standing.retry_after_secs.is_some() {
            mem::replace(self, Self::NOTHING).put_figures(headers);
        }
    }

    #[inline(never)]
    fn put_figures(self, headers: &mut HeaderMap) {
        let Self { draft_06, x, standing, .. } = self;
        if draft_06 {
            let names = [&RATE_LIMIT_LIMIT, &RATE_LIMIT_REMAINING, &RATE_LIMIT_RESET];
            put_triple(headers, names, standing, standing.reset_secs);
        }
        if let Some(x) = x {
            let names = [&X_RATE_LIMIT_LIMIT, &X_RATE_LIMIT_REMAINING, &X_RATE_LIMIT_RESET];
            let reset = match x {
                XReset::Delta => standing.reset_secs,
                XReset::Epoch => epoch_after(SystemTime::now(), standing.reset_secs),
            };
            put_triple(headers, names, standing, reset);
        }
        if let Some(seconds) = standing.retry_after_secs {
            keep_or_append(headers, &RETRY_AFTER, digits(seconds.get()));
        }
    }
}

fn put_triple(headers: &mut HeaderMap, names: [&HeaderName; 3], standing: KeyStanding, reset: u64) {
    let figures = [standing.limit, standing.remaining, reset];
    for (name, figure) in names.into_iter().zip(figures) {
        keep_or_append(headers, name, digits(figure));
    }
}

/// Looks the field up once; mostly it is absent.
#[inline]
fn keep_or_append(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue) {
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

/// A figure in an allocation of its own length.
fn digits(figure: u64) -> HeaderValue {
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

    use super::*;
    use crate::headers::text::MEMBER_MAX;
    use crate::name::NAME_MAX;

    fn policy(text: &str) -> Policy {
        text.parse().expect("a policy")
    }

    fn lines(headers: Headers, stamp_of: &str, standing: KeyStanding) -> Vec<String> {
        let name = PolicyName::default();
        let fixed = FixedHeaders::new(headers, [(&name, policy(stamp_of))].into_iter());
        let mut map = HeaderMap::new();
        fixed.stamp(&name, &Opening::of(&policy(stamp_of)), standing).put(&mut map);
        map.iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII")))
            .collect()
    }

    const SPENT_2: KeyStanding =
        KeyStanding { limit: 60, remaining: 58, reset_secs: 2, retry_after_secs: None };

    #[test]
    fn draft_10_is_written_as_the_draft_has_it() {
        assert_eq!(
            lines(Headers::DRAFT_10, "60/m", SPENT_2),
            ["ratelimit-policy: \"default\";q=60;w=60", "ratelimit: \"default\";r=58;t=2"]
        );
    }

    #[test]
    fn draft_07_says_it_all_in_one_field() {
        assert_eq!(
            lines(Headers::DRAFT_07, "60/m", SPENT_2),
            ["ratelimit: limit=60, remaining=58, reset=2"]
        );
        // The limit has changed since the layer was built.
        let more = KeyStanding { limit: 1_000, remaining: u64::MAX, ..SPENT_2 };
        assert_eq!(
            lines(Headers::DRAFT_07, "60/m", more),
            ["ratelimit: limit=1000, remaining=999999999999999, reset=2"]
        );
        // The field is a list of draft 10 or a set of draft 7, not both.
        let both = Headers::DRAFT_07.and(Headers::DRAFT_10);
        assert_eq!(lines(both, "60/m", SPENT_2), lines(Headers::DRAFT_10, "60/m", SPENT_2));
    }

    #[test]
    fn draft_06_is_written_as_the_draft_has_it() {
        assert_eq!(
            lines(Headers::DRAFT_06, "60/m", SPENT_2),
            [
                "ratelimit-policy: 60;w=60",
                "ratelimit-limit: 60",
                "ratelimit-remaining: 58",
                "ratelimit-reset: 2"
            ]
        );
    }

    #[test]
    fn x_rate_limit_counts_from_now_and_a_denial_says_when_to_return() {
        let denied = KeyStanding {
            remaining: 0,
            retry_after_secs: NonZeroU64::new(7),
            reset_secs: 7,
            ..SPENT_2
        };
        assert_eq!(
            lines(Headers::X_RATE_LIMIT, "60/m", denied),
            [
                "x-ratelimit-limit: 60",
                "x-ratelimit-remaining: 0",
                "x-ratelimit-reset: 7",
                "retry-after: 7"
            ]
        );
        assert_eq!(lines(Headers::NONE, "60/m", denied), ["retry-after: 7"]);
        assert_eq!(lines(Headers::NONE, "60/m", SPENT_2), [""; 0]);
    }

    #[test]
    fn unix_time_is_rounded_up() {
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        assert_eq!(epoch_after(at(1_700_000_000_001), 5), 1_700_000_006);
        assert_eq!(epoch_after(at(1_700_000_000_000), 5), 1_700_000_005);
    }

    #[test]
    fn the_longest_member_is_told_whole() {
        let full = KeyStanding { remaining: u64::MAX, reset_secs: u64::MAX, ..SPENT_2 };
        let name = PolicyName::new(&"\"".repeat(NAME_MAX)).expect("a name");
        let fixed = FixedHeaders::new(Headers::DRAFT_10, [(&name, policy("60/m"))].into_iter());
        let mut map = HeaderMap::new();
        fixed.stamp(&name, &Opening::of(&policy("60/m")), full).put(&mut map);
        let quoted = format!("\"{}\"", "\\\"".repeat(NAME_MAX));
        let member = map[&RATE_LIMIT].to_str().expect("ASCII");
        assert_eq!(member, format!("{quoted};r={INTEGER_MAX};t={INTEGER_MAX}"));
        assert_eq!(member.len(), MEMBER_MAX);
    }

    #[test]
    fn layers_around_layers_each_tell_their_list_and_the_innermost_its_figures() {
        let name = PolicyName::default();
        let headers = Headers::DRAFT_10.and(Headers::X_RATE_LIMIT);
        let fixed = FixedHeaders::new(headers, [(&name, policy("60/m"))].into_iter());
        let mut map = HeaderMap::new();
        let denied = KeyStanding { remaining: 0, retry_after_secs: NonZeroU64::new(9), ..SPENT_2 };
        let opening = Opening::of(&policy("60/m"));
        fixed.stamp(&name, &opening, denied).put(&mut map);
        fixed.stamp(&name, &opening, SPENT_2).put(&mut map);
        assert_eq!(map.get_all(&RATE_LIMIT).iter().count(), 2);
        assert_eq!(map.get_all(&RATE_LIMIT_POLICY).iter().count(), 2);
        let only = |name: &HeaderName| {
            let values: Vec<_> = map.get_all(name).iter().collect();
            assert_eq!(values.len(), 1);
            values[0].to_str().expect("ASCII").to_owned()
        };
        assert_eq!(only(&X_RATE_LIMIT_REMAINING), "0");
        assert_eq!(only(&RETRY_AFTER), "9");
    }

    #[test]
    fn of_layers_around_layers_the_innermost_says_it_all() {
        let name = PolicyName::default();
        let fixed = FixedHeaders::new(Headers::DRAFT_07, [(&name, policy("60/m"))].into_iter());
        let opening = Opening::of(&policy("60/m"));
        let mut map = HeaderMap::new();
        fixed.stamp(&name, &opening, SPENT_2).put(&mut map);
        fixed.stamp(&name, &opening, KeyStanding { remaining: 3, ..SPENT_2 }).put(&mut map);
        let values: Vec<_> = map.get_all(&RATE_LIMIT).iter().collect();
        assert_eq!(values, ["limit=60, remaining=58, reset=2"]);
    }

    #[test]
    fn what_an_inner_service_says_is_kept_as_it_is() {
        let mut map = HeaderMap::new();
        for line in ["one", "two"] {
            map.append(&RATE_LIMIT, HeaderValue::from_static(line));
            map.append(&X_RATE_LIMIT_LIMIT, HeaderValue::from_static(line));
        }
        let before = map.clone();
        for name in [&RATE_LIMIT, &X_RATE_LIMIT_LIMIT] {
            keep_or_append(&mut map, name, HeaderValue::from_static("three"));
        }
        assert_eq!(map, before);
        keep_or_append(&mut map, &RETRY_AFTER, HeaderValue::from_static("4"));
        assert_eq!((map.len(), map[&RETRY_AFTER].as_bytes()), (before.len() + 1, &b"4"[..]));
    }
}
