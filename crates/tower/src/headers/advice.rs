//! [`Advice`]: what a server's headers say of its limits, in any generation of headers.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use super::read::{self, LimitAdvice, PolicyAdvice};

/// What the headers of a response say about limits: for clients. All generations are read.
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
    /// `Retry-After`: how long to wait.
    pub retry_after: Option<Duration>,
}

impl Advice {
    /// Reads the headers of a response that was received at `now`. (Dates and Unix times in them count from
    /// the epoch.)
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
        let (policies, limits) = read::generations(headers, now);
        Self { policies, limits, retry_after: read::retry_after(headers, now) }
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
