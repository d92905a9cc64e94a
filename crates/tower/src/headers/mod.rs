//! Rate limit headers: which there are, how they are written, and how they are read.
//!
//! | Generation | Fields |
//! |---|---|
//! | IETF draft 10 | `RateLimit-Policy: "default";q=60;w=60`, `RateLimit: "default";r=58;t=2` |
//! | IETF drafts 7 and 8 | `RateLimit: limit=60, remaining=58, reset=2` |
//! | IETF draft 6 | `RateLimit-Policy: 60;w=60`, `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` |
//! | before | `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` |
//! | RFC 9110 | `Retry-After`, on denials |

mod advice;
mod read;
mod text;
mod window;
mod write;

use http::HeaderName;

pub use advice::Advice;
pub use read::{LimitAdvice, PolicyAdvice};
pub(crate) use window::secs_up;
pub(crate) use write::{FixedHeaders, KeyStanding, Opening, Stamp};

/// `RateLimit-Policy`: the quotas.
pub static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// `RateLimit`: what is left.
pub static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// `RateLimit-Limit` of draft 6.
pub static RATE_LIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
/// `RateLimit-Remaining` of draft 6.
pub static RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// `RateLimit-Reset` of draft 6.
pub static RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
/// `X-RateLimit-Limit`.
pub static X_RATE_LIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// `X-RateLimit-Remaining`.
pub static X_RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// `X-RateLimit-Reset`.
pub static X_RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Which headers answers carry. `Retry-After` is on every denial whose wait has an end, whatever is chosen here.
///
/// ```
/// use tollgate_tower::Headers;
/// assert_eq!(Headers::default(), Headers::DRAFT_10);
/// let both = Headers::DRAFT_10.and(Headers::X_RATE_LIMIT);
/// assert_ne!(both, Headers::DRAFT_10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    pub(crate) draft_10: bool,
    pub(crate) draft_07: bool,
    pub(crate) draft_06: bool,
    pub(crate) x: Option<XReset>,
}

/// What `X-RateLimit-Reset` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XReset {
    /// Seconds from now.
    Delta,
    /// Seconds of Unix time.
    Epoch,
}

impl Headers {
    /// No headers but `Retry-After`.
    pub const NONE: Self = Self { draft_10: false, draft_07: false, draft_06: false, x: None };
    /// `RateLimit-Policy` and `RateLimit`, as the tenth IETF draft has them.
    pub const DRAFT_10: Self = Self { draft_10: true, ..Self::NONE };
    /// `RateLimit` with limit, remaining and reset in one field, as the seventh and the eighth draft define it: the
    /// shortest form with all three figures. (`RateLimit-Policy`, which these drafts make optional, is not sent.)
    pub const DRAFT_07: Self = Self { draft_07: true, ..Self::NONE };
    /// `RateLimit-Policy`, `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, as the sixth
    /// draft has them.
    pub const DRAFT_06: Self = Self { draft_06: true, ..Self::NONE };
    /// The three `X-RateLimit-` fields; the reset in seconds from now.
    pub const X_RATE_LIMIT: Self = Self { x: Some(XReset::Delta), ..Self::NONE };
    /// The three `X-RateLimit-` fields; the reset in seconds of Unix time, as some large services have it.
    pub const X_RATE_LIMIT_EPOCH: Self = Self { x: Some(XReset::Epoch), ..Self::NONE };

    /// These headers and others. `RateLimit` and `RateLimit-Policy` have one form only: that of draft 10, if it is
    /// among them.
    ///
    /// ```
    /// use tollgate_tower::Headers;
    /// let headers = Headers::DRAFT_06.and(Headers::X_RATE_LIMIT_EPOCH);
    /// assert_eq!(headers.and(Headers::NONE), headers);
    /// ```
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self {
            draft_10: self.draft_10 || others.draft_10,
            draft_07: self.draft_07 || others.draft_07,
            draft_06: self.draft_06 || others.draft_06,
            x: match others.x {
                Some(x) => Some(x),
                None => self.x,
            },
        }
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self::DRAFT_10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_joined_are_those_of_either() {
        let each = [
            Headers::NONE,
            Headers::DRAFT_10,
            Headers::DRAFT_07,
            Headers::DRAFT_06,
            Headers::X_RATE_LIMIT,
            Headers::X_RATE_LIMIT_EPOCH,
        ];
        for (index, headers) in each.into_iter().enumerate() {
            assert_eq!(headers.and(Headers::NONE), headers);
            assert_eq!(Headers::NONE.and(headers), headers);
            assert_eq!(headers.and(headers), headers);
            assert!(!each[..index].contains(&headers), "{headers:?} are not the others");
        }
        assert_eq!(Headers::X_RATE_LIMIT.x, Some(XReset::Delta));
        assert_eq!(Headers::X_RATE_LIMIT_EPOCH.x, Some(XReset::Epoch));
        // One answer cannot have both, so the second one is taken.
        let last = Headers::X_RATE_LIMIT.and(Headers::X_RATE_LIMIT_EPOCH);
        assert_eq!(last, Headers::X_RATE_LIMIT_EPOCH);
    }
}
