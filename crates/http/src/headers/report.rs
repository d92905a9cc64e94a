//! [`LimitReport`]: the headers of one answer.

use std::num::NonZeroU64;
use std::time::Duration;

use http::HeaderMap;

use super::Headers;
use super::window::{KeyStanding, QuotaWindow, secs_up};
use super::write::{FixedHeaders, Opening};
use crate::name::PolicyName;

/// The report of one limit, for an answer that no layer of `tollgate-tower` writes.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate_http::headers::{HeaderStyle, LimitReport};
/// let report = LimitReport {
///     name: Default::default(),
///     quota: 60,
///     window: Duration::from_secs(60),
///     remaining: 58,
///     reset_after: Duration::from_millis(1_200),
///     retry_after: None,
///     is_over: false,
/// };
/// let mut headers = HeaderMap::new();
/// report.put(&HeaderStyle::Draft10.into(), &mut headers);
/// assert_eq!(headers["ratelimit"], "\"default\";r=58;t=2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReport {
    /// The name of the policy, for styles that have names.
    pub name: PolicyName,
    /// The units of each window.
    pub quota: u64,
    /// The length of a window; written in whole seconds, rounded up.
    pub window: Duration,
    /// Units left.
    pub remaining: u64,
    /// The time until the whole quota is available again; written in whole seconds, rounded up.
    pub reset_after: Duration,
    /// For a denied request, the time until a retry may be admitted. It takes the place of the reset, and is at least a
    /// second.
    pub retry_after: Option<Duration>,
    /// Whether the request was admitted above the limit, by a soft policy.
    pub is_over: bool,
}

impl LimitReport {
    /// Adds the headers of these styles. Fields that are there already stay as they are, except that lists grow.
    pub fn put(&self, styles: &Headers, headers: &mut HeaderMap) {
        if styles.styles().is_empty() {
            return;
        }
        let window = QuotaWindow { quota: self.quota, seconds: secs_up(self.window).max(1) };
        let wait = self.retry_after.map(|wait| secs_up(wait).max(1));
        let standing = KeyStanding {
            limit: self.quota,
            remaining: self.remaining,
            reset_secs: wait.unwrap_or_else(|| secs_up(self.reset_after)),
            retry_after_secs: wait.and_then(NonZeroU64::new),
            is_over: self.is_over,
        };
        let opening = Opening::of(self.quota);
        let fixed = FixedHeaders::new(styles, [(&self.name, window)].into_iter());
        fixed.stamp(&self.name, &opening, standing).put(headers);
    }
}
