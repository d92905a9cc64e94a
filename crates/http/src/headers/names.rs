//! [`FigureNames`]: the names of header fields that hold one figure each, and the errors of refused names.

use std::fmt;
use std::str::FromStr;

use http::{HeaderName, header};

use crate::name::shown;

/// The names of fields that hold one figure each: the limit, the units that remain, the reset (when the whole limit is
/// available again), and optionally the wait, on denials.
///
/// The text form has colons between the names. `=unix` after the third name says that the field counts seconds of Unix
/// time and not seconds from now: `My-Limit:My-Left:My-Reset=unix:My-Wait`.
///
/// ```
/// use tollgate_http::headers::{FigureNames, HeaderStyle};
/// let names = FigureNames::new("My-Limit", "My-Left", "My-Reset")?.unix().retry_after("My-Wait")?;
/// let text = "My-Limit:My-Left:My-Reset=unix:My-Wait";
/// assert_eq!(text.parse(), Ok(HeaderStyle::Own(names)));
/// # Ok::<(), tollgate_http::headers::HeaderStyleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureNames {
    pub(super) limit: HeaderName,
    pub(super) remaining: HeaderName,
    pub(super) reset: Option<HeaderName>,
    pub(super) retry_after: Option<HeaderName>,
    /// Whether the reset counts from 1970 and not from now.
    pub(super) is_unix: bool,
}

/// Fields by which recipients find the end or the type of a message: a figure in one of these fields breaks the answer.
static RESERVED: [HeaderName; 14] = [
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::DATE,
    header::LOCATION,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

impl FigureNames {
    pub(super) const fn known(
        limit: &'static str,
        remaining: &'static str,
        reset: Option<HeaderName>,
        retry_after: Option<HeaderName>,
        is_unix: bool,
    ) -> Self {
        Self {
            limit: HeaderName::from_static(limit),
            remaining: HeaderName::from_static(remaining),
            reset,
            retry_after,
            is_unix,
        }
    }

    /// A style with these names. The reset is in seconds from now, and no field has the wait.
    ///
    /// # Errors
    /// Fails if a text is not a header name, if HTTP needs the name for something else, or if two names are equal.
    ///
    /// ```
    /// use tollgate_http::headers::FigureNames;
    /// let error = FigureNames::new("My Limit", "My-Left", "My-Reset").unwrap_err();
    /// assert_eq!(error.to_string(), "\"My Limit\" is no name of a header; use letters, digits and -");
    /// ```
    pub fn new(limit: &str, remaining: &str, reset: &str) -> Result<Self, HeaderStyleError> {
        let names = Self {
            limit: name(limit)?,
            remaining: name(remaining)?,
            reset: Some(name(reset)?),
            retry_after: None,
            is_unix: false,
        };
        names.apart()
    }

    /// Adds a field for the seconds that a denied client should wait.
    ///
    /// # Errors
    /// Fails as [`new`](Self::new) does.
    ///
    /// ```
    /// use tollgate_http::headers::FigureNames;
    /// let names = FigureNames::new("a", "b", "c")?;
    /// assert!(names.clone().retry_after("d").is_ok() && names.retry_after("b").is_err());
    /// # Ok::<(), tollgate_http::headers::HeaderStyleError>(())
    /// ```
    pub fn retry_after(self, wait: &str) -> Result<Self, HeaderStyleError> {
        Self { retry_after: Some(name(wait)?), ..self }.apart()
    }

    /// The same names with the reset in seconds of Unix time.
    ///
    /// ```
    /// use tollgate_http::headers::FigureNames;
    /// assert_eq!(FigureNames::new("a", "b", "c")?.unix().to_string(), "a:b:c=unix");
    /// # Ok::<(), tollgate_http::headers::HeaderStyleError>(())
    /// ```
    #[must_use]
    pub fn unix(self) -> Self {
        Self { is_unix: true, ..self }
    }

    fn each(&self) -> impl Iterator<Item = &HeaderName> {
        [&self.limit, &self.remaining].into_iter().chain(&self.reset).chain(&self.retry_after)
    }

    fn apart(self) -> Result<Self, HeaderStyleError> {
        let again = |(at, name): (usize, &HeaderName)| {
            self.each().take(at).any(|earlier| earlier == name).then(|| name.to_string())
        };
        let shared = self.each().enumerate().find_map(again);
        match shared {
            Some(name) => Err(HeaderStyleError::SameName { name }),
            None => Ok(self),
        }
    }
}

fn name(text: &str) -> Result<HeaderName, HeaderStyleError> {
    let name = HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| HeaderStyleError::Name { name: shown(text) })?;
    if RESERVED.contains(&name) {
        return Err(HeaderStyleError::Reserved { name: name.to_string() });
    }
    Ok(name)
}

impl FromStr for FigureNames {
    type Err = HeaderStyleError;

    fn from_str(text: &str) -> Result<Self, HeaderStyleError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (limit, remaining, reset, wait) = match parts[..] {
            [limit, remaining, reset] => (limit, remaining, reset, None),
            [limit, remaining, reset, wait] => (limit, remaining, reset, Some(wait)),
            _ => return Err(HeaderStyleError::Count { count: parts.len() }),
        };
        let names = match reset.strip_suffix("=unix") {
            Some(reset) => Self::new(limit, remaining, reset)?.unix(),
            None => Self::new(limit, remaining, reset)?,
        };
        match wait {
            Some(wait) => names.retry_after(wait),
            None => Ok(names),
        }
    }
}

impl fmt::Display for FigureNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, remaining, reset, retry_after, is_unix } = self;
        write!(f, "{limit}:{remaining}")?;
        if let Some(reset) = reset {
            write!(f, ":{reset}{}", if *is_unix { "=unix" } else { "" })?;
        }
        retry_after.iter().try_for_each(|wait| write!(f, ":{wait}"))
    }
}

/// The reason why a style of headers was refused.
///
/// ```
/// use tollgate_http::headers::{HeaderStyle, HeaderStyleError};
/// let error = "a:b".parse::<HeaderStyle>().unwrap_err();
/// assert_eq!(error, HeaderStyleError::Count { count: 2 });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderStyleError {
    /// No style has this word.
    Unknown {
        /// The word, or its beginning if it is long.
        word: String,
        /// The words that are accepted.
        known: String,
    },
    /// The number of names is not three or four.
    Count {
        /// The number of names.
        count: usize,
    },
    /// The text is not a header name.
    Name {
        /// The text, or its beginning if it is long.
        name: String,
    },
    /// HTTP needs the field for something else.
    Reserved {
        /// Its name.
        name: String,
    },
    /// Two figures would share one field.
    SameName {
        /// Its name.
        name: String,
    },
}

impl HeaderStyleError {
    pub(super) fn unknown<'w>(word: &str, known: impl Iterator<Item = &'w &'static str>) -> Self {
        let known: Vec<&str> = known.copied().collect();
        Self::Unknown { word: shown(word), known: known.join(", ") }
    }
}

impl fmt::Display for HeaderStyleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { word, known } => write!(
                f,
                "no style of headers is called \"{word}\"; use {known}, or names of your own, as in Limit:Left:Reset"
            ),
            Self::Count { count } => write!(
                f,
                "{count} names of headers; give three or four, for limit, remaining, reset and retry-after"
            ),
            Self::Name { name } => {
                write!(f, "\"{name}\" is no name of a header; use letters, digits and -")
            }
            Self::Reserved { name } => {
                write!(f, "the header {name} has a meaning of its own in HTTP; use another name")
            }
            Self::SameName { name } => {
                write!(f, "two figures would have the header {name}; give each its own")
            }
        }
    }
}

impl std::error::Error for HeaderStyleError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> HeaderStyleError {
        text.parse::<FigureNames>().expect_err(text)
    }

    #[test]
    fn names_that_no_header_has_are_refused_with_the_reason() {
        let long = format!("a:b:{}", "é".repeat(1_000));
        for bad in ["::", "a:b:", "a:b:c:", "a:b c:d", "a:b:c\r\nd", "a:b:c=Unix", "é:b:c", &long]
        {
            let HeaderStyleError::Name { name } = refused(bad) else { panic!("{bad}") };
            assert!(name.len() <= 64 * 6 && name.is_ascii(), "{name}");
        }
        for (bad, count) in [("a", 1), ("a:b", 2), ("a:b:c:d:e", 5)] {
            assert_eq!(refused(bad), HeaderStyleError::Count { count });
        }
        for bad in
            ["Content-Length:b:c", "a:Transfer-Encoding:c", "a:b:Set-Cookie=unix", "a:b:c:TE"]
        {
            assert!(matches!(refused(bad), HeaderStyleError::Reserved { .. }), "{bad}");
        }
        for bad in ["a:A:c", "a:b:b", "a:b:c:a"] {
            assert!(matches!(refused(bad), HeaderStyleError::SameName { .. }), "{bad}");
        }
    }
}
