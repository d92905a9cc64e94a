//! [`Advice`]: the limits that a server reports in its headers, in any style.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName};

use super::Headers;
use super::figure;
use super::read::{HeaderReader, LimitAdvice, PolicyAdvice};
use super::style::HeaderStyle;

/// The limits in the headers of a response, for clients. All styles are read.
///
/// Figures are read as servers write them. A count may have a fraction, which is cut off; a count below zero is read as
/// 0. A time is a number of seconds, with or without a fraction; a span with units (`1m30s`, `250ms`); a date of HTTP
///    or of RFC 3339; or a Unix time in seconds, milliseconds, microseconds or nanoseconds, which are told apart by
///    their size. A time in the past means no wait, and no wait is longer than [`MAX_WAIT`](Self::MAX_WAIT). Each
///    member of a list is read by itself.
///
/// A figure that cannot be read is skipped, and its field is named in [`unread`](Self::unread).
///
/// ```
/// use std::time::SystemTime;
/// use http::HeaderMap;
/// use tollgate_http::headers::Advice;
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
    /// The units that are left of these quotas.
    pub limits: Vec<LimitAdvice>,
    /// The time to wait, from the first of these that can be read: `Retry-After-Ms`, `Retry-After`, or the field that a
    /// style has for it. If the field has several lines, the longest of their times is the wait.
    pub retry_after: Option<Duration>,
    /// Whether the request was admitted above a soft limit (`X-RateLimit-Over`).
    pub is_over: bool,
    /// Fields about limits that could not be read, or only in part. A field of more than 16 KiB is not read.
    pub unread: Vec<HeaderName>,
    /// Whether one of the unread fields says how long to wait.
    is_wait_unread: bool,
}

impl Advice {
    /// The longest wait, 999,999,999 s or 31 years: it can be added to any `Instant` of our time. A larger figure is
    /// read as a Unix time.
    pub const MAX_WAIT: Duration = figure::MAX_WAIT;

    /// The wait if a server says how long to wait, but every such field is in [`unread`](Self::unread): 1 s. A client
    /// that backs off by a rule of its own follows that rule instead.
    pub const UNREAD_WAIT: Duration = Duration::from_secs(1);

    /// Reads the headers of a response that was received at `now`, in the newest style that it uses. If it uses none,
    /// reads limits whose names are part of their fields' names: `x-ratelimit-remaining-tokens` with `-limit-` and
    /// `-reset-`, and `anthropic-ratelimit-tokens-remaining`.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_http::headers::Advice;
    /// let mut headers = HeaderMap::new();
    /// headers.insert("retry-after", "120".parse()?);
    /// let advice = Advice::read(&headers, SystemTime::now());
    /// assert_eq!(advice.wait(), Some(Duration::from_secs(120)));
    ///
    /// headers.insert("retry-after", "soon".parse()?);
    /// let advice = Advice::read(&headers, SystemTime::now());
    /// assert_eq!((advice.wait(), &advice.unread[0]), (Some(Advice::UNREAD_WAIT), &http::header::RETRY_AFTER));
    /// # Ok::<(), http::header::InvalidHeaderValue>(())
    /// ```
    #[must_use]
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let mut reader = HeaderReader::new(headers, now);
        let mut advice = Self::of(&mut reader, &HeaderStyle::known().collect::<Vec<_>>());
        if advice.limits.is_empty() {
            advice.limits = reader.named_limits();
        }
        advice.with_unread(reader)
    }

    /// Reads headers as [`read`](Self::read) does, but only in the first of these styles that the response uses. Use it
    /// for names of your own. As in `read`, a reset is read as a Unix time if it is large enough for one. `Retry-After`
    /// is always read.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::HeaderMap;
    /// use tollgate_http::headers::{Advice, Headers};
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
        let mut reader = HeaderReader::new(headers, now);
        Self::of(&mut reader, styles.styles()).with_unread(reader)
    }

    fn of(reader: &mut HeaderReader<'_>, styles: &[HeaderStyle]) -> Self {
        let mut advice = Self {
            policies: reader.stated_policies(),
            retry_after: reader.retry_after(),
            is_over: reader.is_over(),
            ..Self::default()
        };
        let mut passed_over = Vec::new();
        let mut spoken = None;
        for style in styles {
            let field = style.standing_field();
            if spoken.is_none() {
                let (policies, limits) = reader.limits(style);
                match limits.is_empty() {
                    true => passed_over.push(field),
                    false => spoken = Some(field),
                }
                advice.limits = limits;
                if advice.policies.is_empty() {
                    advice.policies = policies;
                }
            }
            advice.retry_after = advice.retry_after.or_else(|| reader.wait(style));
        }
        // A field that one style could not read counts as read if another style has read it.
        for field in passed_over.into_iter().filter(|field| spoken != Some(field)) {
            reader.missed_if_there(field);
        }
        advice
    }

    fn with_unread(self, HeaderReader { unread, is_wait_unread, .. }: HeaderReader<'_>) -> Self {
        Self { unread, is_wait_unread, ..self }
    }

    /// The time to wait, if any: [`retry_after`](Self::retry_after) if it could be read; otherwise the time until every
    /// exhausted quota has more units. If the server says how long to wait but no such field could be read, it is
    /// [`UNREAD_WAIT`](Self::UNREAD_WAIT). `None` if no field asks for a wait.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_http::headers::Advice;
    /// let mut headers = HeaderMap::new();
    /// headers.insert("ratelimit", "\"day\";r=0;t=36000, \"burst\";r=9;t=90000".parse()?);
    /// let advice = Advice::read(&headers, SystemTime::now());
    /// assert_eq!(advice.wait(), Some(Duration::from_secs(36_000)));
    /// # Ok::<(), http::header::InvalidHeaderValue>(())
    /// ```
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        let spent = self.limits.iter().filter(|limit| limit.remaining == 0);
        let reset = || spent.filter_map(|limit| limit.reset).max();
        let unread = || self.is_wait_unread.then_some(Self::UNREAD_WAIT);
        self.retry_after.or_else(reset).or_else(unread)
    }
}
