//! Writes headers, for a middleware that answers many requests. For one answer, [`LimitReport`](super::LimitReport) is
//! enough.
//!
//! The parts that never change ([`FixedHeaders`], [`Opening`]) are formatted once, when the layer is built. The part of
//! each answer ([`Stamp`]) is prepared with the decision, and inserted when the answer is there. It is one short text
//! in an allocation of its own, which the response takes over.
//!
//! ```
//! use http::HeaderMap;
//! use tollgate::{Policy, Quota};
//! use tollgate_http::headers::write::{FixedHeaders, KeyStanding, Opening};
//! use tollgate_http::headers::{Headers, PolicyName};
//! let (name, policy) = (PolicyName::default(), Policy::from(Quota::per_minute(60)));
//! let fixed = FixedHeaders::of_policies(&Headers::default(), [(&name, policy.clone())].into_iter());
//! assert!(!fixed.is_silent());
//! // The quota is still the one that the headers state.
//! assert!(fixed.states([Some(policy)].into_iter()));
//! let standing =
//!     KeyStanding { limit: 60, remaining: 58, reset_secs: 2, retry_after_secs: None, is_over: false };
//! let mut headers = HeaderMap::new();
//! fixed.stamp(&name, &Opening::of(60), standing).put(&mut headers);
//! assert_eq!(headers["ratelimit"], "\"default\";r=58;t=2");
//! ```

use std::mem;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use tollgate::Policy;

use super::figures::{FigureFields, digits, keep_or_append};
use super::style::{HeaderStyle, Headers};
use super::text::{INTEGER_MAX, two_figures};
use super::window::QuotaWindow;
use super::{RATE_LIMIT, RATE_LIMIT_POLICY, X_RATE_LIMIT_OVER, nested};
use crate::name::PolicyName;

pub use super::window::{KeyStanding, secs_up};

/// The form of `RateLimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StateForm {
    /// Draft 10.
    List,
    /// Draft 7.
    Dictionary,
}

/// The headers that are the same in every answer.
#[derive(Clone, Debug)]
pub struct FixedHeaders {
    state: Option<StateForm>,
    policy: Option<HeaderValue>,
    figures: Option<Arc<[FigureFields]>>,
    /// The policies that these headers state. The list is empty if no style states policies.
    stated: Box<[Policy]>,
}

impl FixedHeaders {
    /// The headers for these policies, in these styles. The policies are kept, so that a change of a quota can be noticed.
    pub fn of_policies<'p>(
        headers: &Headers,
        policies: impl Iterator<Item = (&'p PolicyName, Policy)> + Clone,
    ) -> Self {
        let windows = policies.clone().map(|(name, policy)| (name, QuotaWindow::of(&policy)));
        let fixed = Self::new(headers, windows);
        let states_any = fixed.policy.is_some() || headers.styles().contains(&HeaderStyle::Draft3);
        let stated = policies.filter(|_| states_any).map(|(_, policy)| policy).collect();
        Self { stated, ..fixed }
    }

    /// Returns true if the stated policies are in force. `in_force` has the policies in the order of the stated ones;
    /// `None` stands for a limit without a policy.
    #[inline]
    pub fn states(&self, mut in_force: impl Iterator<Item = Option<Policy>>) -> bool {
        // The iterator is advanced once for each stated policy, so no limit is asked for its policy if none is stated.
        self.stated.iter().all(|stated| in_force.next().flatten().as_ref() == Some(stated))
    }

    pub(super) fn new<'p>(
        headers: &Headers,
        policies: impl Iterator<Item = (&'p PolicyName, QuotaWindow)>,
    ) -> Self {
        let styles = headers.styles();
        let state = if styles.contains(&HeaderStyle::Draft10) {
            Some(StateForm::List)
        } else {
            styles.contains(&HeaderStyle::Draft7).then_some(StateForm::Dictionary)
        };
        let members = |policies: &[(&PolicyName, QuotaWindow)], is_named: bool| -> Vec<String> {
            let member = |(name, window): &(&PolicyName, QuotaWindow)| {
                let (q, w) = (window.quota.min(INTEGER_MAX), window.seconds.min(INTEGER_MAX));
                if is_named {
                    format!("{};q={q};w={w}", name.quoted())
                } else {
                    format!("{q};w={w}")
                }
            };
            policies.iter().map(member).collect()
        };
        let policies: Vec<_> = policies.collect();
        let numbered = members(&policies, false);
        let stated = match state {
            Some(StateForm::List) => members(&policies, true),
            _ if styles.contains(&HeaderStyle::Draft6) => numbered.clone(),
            _ => Vec::new(),
        };
        let fields = styles.iter().filter_map(|style| {
            let of_draft_3 = numbered.iter().filter(|_| *style == HeaderStyle::Draft3);
            let quotas = of_draft_3.map(|quota| format!(", {quota}")).collect();
            Some(FigureFields { names: style.figures()?.clone(), quotas })
        });
        let figures: Vec<FigureFields> = fields.collect();
        // Names and digits are printable ASCII, so every such text is a valid header value.
        let policy = HeaderValue::try_from(stated.join(", ")).ok();
        Self {
            state,
            policy: policy.filter(|_| !stated.is_empty()),
            figures: (!figures.is_empty()).then(|| figures.into()),
            stated: Box::default(),
        }
    }

    /// Whether the answer to an admitted request gets no headers.
    #[must_use]
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.state.is_none() && self.figures.is_none()
    }

    /// The headers that report this state.
    #[must_use]
    #[inline(always)]
    pub fn stamp(&self, name: &PolicyName, opening: &Opening, standing: KeyStanding) -> Stamp {
        let is_list = self.state == Some(StateForm::List);
        let state = if is_list {
            two_figures(name.member(), standing.remaining, ";t=", standing.reset_secs)
        } else if self.state.is_some() {
            opening.dictionary(standing)
        } else {
            None
        };
        let (policy, figures) = (self.policy.clone(), self.figures.clone());
        Stamp { policy, state, is_list, figures, standing }
    }
}

/// The beginning of the field in draft 7: `limit=60, remaining=`.
#[derive(Clone, Debug)]
pub struct Opening {
    limit: u64,
    text: Arc<str>,
}

impl Opening {
    /// The beginning for a limit of this many units.
    #[must_use]
    pub fn of(limit: u64) -> Self {
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
        // An implementation of `GateLimit` may report a limit other than that of its policy when the gate was built.
        if limit != self.limit {
            return two_figures(&Self::text(limit), remaining, ", reset=", reset_secs);
        }
        two_figures(&self.text, remaining, ", reset=", reset_secs)
    }
}

/// The headers of one answer. They are inserted once; afterwards the stamp is empty.
#[derive(Debug)]
pub struct Stamp {
    policy: Option<HeaderValue>,
    state: Option<HeaderValue>,
    /// Whether both fields are the lists of draft 10.
    is_list: bool,
    figures: Option<Arc<[FigureFields]>>,
    standing: KeyStanding,
}

impl Stamp {
    /// A stamp that adds no headers.
    pub const NOTHING: Self = Self {
        policy: None,
        state: None,
        is_list: false,
        figures: None,
        standing: KeyStanding {
            limit: 0,
            remaining: 0,
            reset_secs: 0,
            retry_after_secs: None,
            is_over: false,
        },
    };

    /// Puts the headers on an answer. The lists of draft 10 are appended, so that each of several nested layers is
    /// reported; a policy gets another name if an inner layer uses the same name. The other fields hold one figure or
    /// one set of figures, so the value of the innermost layer stays. A layer that denies is always the innermost one
    /// that wrote.
    #[inline]
    pub fn put(&mut self, headers: &mut HeaderMap) {
        if self.is_list {
            if headers.contains_key(&RATE_LIMIT_POLICY) {
                (self.policy, self.state) =
                    nested::apart(headers, self.policy.take(), self.state.take());
            }
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
        let KeyStanding { retry_after_secs, is_over, .. } = self.standing;
        if self.figures.is_some() || retry_after_secs.is_some() || is_over {
            mem::replace(self, Self::NOTHING).put_figures(headers);
        }
    }

    #[inline(never)]
    fn put_figures(self, headers: &mut HeaderMap) {
        let Self { figures, standing, .. } = self;
        for fields in figures.iter().flat_map(|figures| figures.iter()) {
            fields.put(headers, standing);
        }
        if let Some(seconds) = standing.retry_after_secs {
            keep_or_append(headers, &RETRY_AFTER, digits(seconds.get()));
        }
        if standing.is_over {
            keep_or_append(headers, &X_RATE_LIMIT_OVER, HeaderValue::from_static("true"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use http::HeaderName;

    use super::*;
    use crate::headers::text::MEMBER_MAX;
    use crate::name::NAME_MAX;

    /// The headers of layers around one another, the innermost first. Each has a limit of 60 a minute of this name.
    fn put(headers: impl Into<Headers>, name: &PolicyName, standings: &[KeyStanding]) -> HeaderMap {
        let policy: Policy = "60/m".parse().expect("a policy");
        let windows = [(name, QuotaWindow::of(&policy))];
        let fixed = FixedHeaders::new(&headers.into(), windows.into_iter());
        let opening = Opening::of(policy.quota().max_burst());
        let mut map = HeaderMap::new();
        for standing in standings {
            fixed.stamp(name, &opening, *standing).put(&mut map);
        }
        map
    }

    fn lines(headers: impl Into<Headers>, standing: KeyStanding) -> Vec<String> {
        put(headers, &PolicyName::default(), &[standing])
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII")))
            .collect()
    }

    const SPENT_2: KeyStanding = KeyStanding {
        limit: 60,
        remaining: 58,
        reset_secs: 2,
        retry_after_secs: None,
        is_over: false,
    };

    #[test]
    fn draft_10_is_written_as_the_draft_has_it() {
        assert_eq!(
            lines(HeaderStyle::Draft10, SPENT_2),
            ["ratelimit-policy: \"default\";q=60;w=60", "ratelimit: \"default\";r=58;t=2"]
        );
    }

    #[test]
    fn draft_07_says_it_all_in_one_field() {
        assert_eq!(
            lines(HeaderStyle::Draft7, SPENT_2),
            ["ratelimit: limit=60, remaining=58, reset=2"]
        );
        // The limit has changed since the layer was built.
        let more = KeyStanding { limit: 1_000, remaining: u64::MAX, ..SPENT_2 };
        assert_eq!(
            lines(HeaderStyle::Draft7, more),
            ["ratelimit: limit=1000, remaining=999999999999999, reset=2"]
        );
        // The field is a list of draft 10 or a set of draft 7, not both.
        let both = [HeaderStyle::Draft7, HeaderStyle::Draft10];
        assert_eq!(lines(both, SPENT_2), lines(HeaderStyle::Draft10, SPENT_2));
    }

    #[test]
    fn draft_06_is_written_as_the_draft_has_it() {
        assert_eq!(
            lines(HeaderStyle::Draft6, SPENT_2),
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
            lines(HeaderStyle::XRateLimit, denied),
            [
                "x-ratelimit-limit: 60",
                "x-ratelimit-remaining: 0",
                "x-ratelimit-reset: 7",
                "retry-after: 7"
            ]
        );
        assert_eq!(lines(Headers::NONE, denied), ["retry-after: 7"]);
        assert_eq!(lines(Headers::NONE, SPENT_2), [""; 0]);
    }

    #[test]
    fn the_longest_member_is_told_whole() {
        let full = KeyStanding { remaining: u64::MAX, reset_secs: u64::MAX, ..SPENT_2 };
        let name = PolicyName::new(&"\"".repeat(NAME_MAX)).expect("a name");
        let map = put(HeaderStyle::Draft10, &name, &[full]);
        let quoted = format!("\"{}\"", "\\\"".repeat(NAME_MAX));
        let member = map[&RATE_LIMIT].to_str().expect("ASCII");
        assert_eq!(member, format!("{quoted};r={INTEGER_MAX};t={INTEGER_MAX}"));
        assert_eq!(member.len(), MEMBER_MAX);
    }

    #[test]
    fn layers_around_layers_each_tell_their_list_and_the_innermost_its_figures() {
        let both = [HeaderStyle::Draft10, HeaderStyle::XRateLimit];
        let denied = KeyStanding { remaining: 0, retry_after_secs: NonZeroU64::new(9), ..SPENT_2 };
        let map = put(both, &PolicyName::default(), &[denied, SPENT_2]);
        let lists = |name: &HeaderName| {
            map.get_all(name).iter().map(|value| value.to_str().expect("ASCII")).collect::<Vec<_>>()
        };
        assert_eq!(lists(&RATE_LIMIT_POLICY), ["\"default\";q=60;w=60", "\"default-2\";q=60;w=60"]);
        assert_eq!(lists(&RATE_LIMIT), ["\"default\";r=0;t=2", "\"default-2\";r=58;t=2"]);
        let only = |name: &HeaderName| {
            let values: Vec<_> = map.get_all(name).iter().collect();
            assert_eq!(values.len(), 1);
            values[0].to_str().expect("ASCII").to_owned()
        };
        assert_eq!(only(&HeaderName::from_static("x-ratelimit-remaining")), "0");
        assert_eq!(only(&RETRY_AFTER), "9");
    }

    #[test]
    fn of_layers_around_layers_the_innermost_says_it_all() {
        let outer = KeyStanding { remaining: 3, ..SPENT_2 };
        let map = put(HeaderStyle::Draft7, &PolicyName::default(), &[SPENT_2, outer]);
        let values: Vec<_> = map.get_all(&RATE_LIMIT).iter().collect();
        assert_eq!(values, ["limit=60, remaining=58, reset=2"]);
    }
}
