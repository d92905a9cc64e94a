//! [`Advice`]: what a server's headers say of its limits, in any style of headers.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName};

use super::Headers;
use super::figure;
use super::read::{HeaderReader, LimitAdvice, PolicyAdvice};
use super::style::HeaderStyle;

/// What the headers of a response say about limits: for clients. All styles are read.
///
/// Figures are read as servers write them. A count may have a fraction, which is cut off, and one below zero is none. A time
/// is seconds, with or without a fraction; a span with units (`1m30s`, `250ms`); a date of HTTP or of RFC 3339; or a Unix
/// time in seconds, milliseconds, microseconds or nanoseconds, whose size tells which. A time that has passed is no wait, and
/// none is longer than [`MAX_WAIT`](Self::MAX_WAIT). Of a list each member is read by itself.
///
/// What cannot be read is passed over, and its field is named in [`unread`](Self::unread).
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
    /// How long to wait: `Retry-After-Ms`, `Retry-After`, or the field that a style has for it, the first of these that can
    /// be read. Of several lines the longest.
    pub retry_after: Option<Duration>,
    /// `X-RateLimit-Over`: the request was admitted above a limit that is soft.
    pub is_over: bool,
    /// Fields of limits that are there and could not be read, or not in whole. One that has more than 16 KiB is not read.
    pub unread: Vec<HeaderName>,
    /// Whether one of them says how long to wait.
    is_wait_unread: bool,
}

impl Advice {
    /// The longest wait that is told, 999,999,999 s or 31 years: it can be added to any `Instant` of our time. A figure
    /// that is larger is a Unix time.
    pub const MAX_WAIT: Duration = figure::MAX_WAIT;

    /// The wait where a server says how long to wait, and all of it is in [`unread`](Self::unread): 1 s. A client that
    /// backs off by a rule of its own follows that instead.
    pub const UNREAD_WAIT: Duration = Duration::from_secs(1);

    /// Reads the headers of a response that was received at `now`: the newest style that it speaks. Where it speaks none,
    /// also limits whose names stand in those of their fields: `x-ratelimit-remaining-tokens` with `-limit-` and `-reset-`,
    /// and `anthropic-ratelimit-tokens-remaining`.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_tower::Advice;
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

    /// Reads headers as [`read`](Self::read) does, but of these styles only, the first that the response speaks: for
    /// names of one's own. Whether a reset is a Unix time follows from its size here, too. `Retry-After` is always read.
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
        // What one style cannot read in a field another may.
        for field in passed_over.into_iter().filter(|field| spoken != Some(field)) {
            reader.missed_if_there(field);
        }
        advice
    }

    fn with_unread(self, HeaderReader { unread, is_wait_unread, .. }: HeaderReader<'_>) -> Self {
        Self { unread, is_wait_unread, ..self }
    }

    /// How long to wait, if at all: [`retry_after`](Self::retry_after) if it could be read; otherwise until every exhausted
    /// quota has more units. Where the server says how long and none of it could be read,
    /// [`UNREAD_WAIT`](Self::UNREAD_WAIT). `None` if nothing asks for a wait.
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
        let reset = || spent.filter_map(|limit| limit.reset).max();
        let unread = || self.is_wait_unread.then_some(Self::UNREAD_WAIT);
        self.retry_after.or_else(reset).or_else(unread)
    }
}
