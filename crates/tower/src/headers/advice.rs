//! [`Advice`]: what a server's headers say of its limits, in any style of headers.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use super::Headers;
use super::read::{self, LimitAdvice, PolicyAdvice};
use super::style::HeaderStyle;

/// What the headers of a response say about limits: for clients. All styles are read.
///
/// A field that cannot be parsed is ignored, as the drafts demand: the headers of a server are advice and no promise.
///
/// ```
/// use std::time::SystemTime;
/// use http::HeaderMap;
/// use tollgate_tower::Advice;
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit-policy", "\"default\";q=60;w=60".parse()?);
/// headers.insert("ratelimit", "\"default\";r=58;t=2".parse()?);
/// let advice = Advice::read(&headers, SystemTime::now());
/// assert_eq!(advice.policies[0].quota, 60);
/// assert_eq!((advice.limits[0].remaining, advice.wait()), (58, None));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// The quotas that the server enforces.
    pub policies: Vec<PolicyAdvice>,
    /// What is left of them.
    pub limits: Vec<LimitAdvice>,
    /// `Retry-After`, or the field that a style has for it: how long to wait.
    pub retry_after: Option<Duration>,
    /// `X-RateLimit-Over`: the request was admitted above a limit that is soft.
    pub is_over: bool,
}

impl Advice {
    /// Reads the headers of a response that was received at `now`: the newest style that it speaks. (Dates and Unix
    /// times in them count from the epoch. Whether a reset is a Unix time follows from its size.)
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_tower::Advice;
    /// let mut headers = HeaderMap::new();
    /// headers.insert("retry-after", "120".parse()?);
    /// let advice = Advice::read(&headers, SystemTime::now());
    /// assert_eq!(advice.wait(), Some(Duration::from_secs(120)));
    /// # Ok::<(), http::header::InvalidHeaderValue>(())
    /// ```
    #[must_use]
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        Self::of(headers, HeaderStyle::known(), now)
    }

    /// Reads headers as [`read`](Self::read) does, but of these styles only, the first that the response speaks: for
    /// names of one's own, whose reset counts what the style says. `Retry-After` is always read.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::HeaderMap;
    /// use tollgate_tower::{Advice, Headers};
    /// let mut headers = HeaderMap::new();
    /// headers.insert("my-limit", "60".parse()?);
    /// headers.insert("my-left", "58".parse()?);
    /// let own: Headers = "My-Limit:My-Left:My-Reset".parse()?;
    /// let advice = Advice::read_as(&headers, &own, SystemTime::now());
    /// assert_eq!((advice.limits[0].limit, advice.limits[0].remaining), (Some(60), 58));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn read_as(headers: &HeaderMap, styles: &Headers, now: SystemTime) -> Self {
        Self::of(headers, styles.styles().iter().cloned(), now)
    }

    fn of(headers: &HeaderMap, styles: impl Iterator<Item = HeaderStyle>, now: SystemTime) -> Self {
        let mut advice = Self {
            policies: read::stated_policies(headers),
            retry_after: read::retry_after(headers, now),
            is_over: read::is_over(headers),
            ..Self::default()
        };
        for style in styles {
            if advice.limits.is_empty() {
                read::limits(headers, &style, now, &mut advice.policies, &mut advice.limits);
            }
            advice.retry_after = advice.retry_after.or_else(|| read::wait(headers, &style));
        }
        advice
    }

    /// How long to wait, if at all: `Retry-After` if there is one; otherwise until every exhausted quota has more
    /// units.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_tower::Advice;
    /// let mut headers = HeaderMap::new();
    /// headers.insert("ratelimit", "\"day\";r=0;t=36000, \"burst\";r=9;t=90000".parse()?);
    /// let advice = Advice::read(&headers, SystemTime::now());
    /// assert_eq!(advice.wait(), Some(Duration::from_secs(36_000)));
    /// # Ok::<(), http::header::InvalidHeaderValue>(())
    /// ```
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        let spent = self.limits.iter().filter(|limit| limit.remaining == 0);
        self.retry_after.or_else(|| spent.filter_map(|limit| limit.reset).max())
    }
}
