//! [`HeaderStyle`]: the one table of header styles, by which answers are written and read.

use std::fmt;
use std::str::FromStr;

use http::HeaderName;

use super::RATE_LIMIT;
use super::names::{FigureNames, HeaderStyleError};

/// A form in which answers report a limit.
///
/// As text it is one of the words below, or names of your own: see [`FigureNames`].
///
/// ```
/// use tollgate_http::headers::HeaderStyle;
/// assert_eq!("draft-8".parse(), Ok(HeaderStyle::Draft10));
/// assert_eq!(HeaderStyle::XRateLimitUnix.to_string(), "x-ratelimit-unix");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `draft-10`, also `draft-9` and `draft-8`: `RateLimit-Policy` and `RateLimit` as lists with names.
    Draft10,
    /// `draft-7`: `RateLimit` with limit, remaining and reset in one field, the shortest form with all three figures.
    /// (`RateLimit-Policy`, which that draft makes optional, is not sent.)
    Draft7,
    /// `draft-6`, also `draft-5` and `draft-4`: `RateLimit-Limit`, `-Remaining`, `-Reset`, and `RateLimit-Policy`.
    Draft6,
    /// `draft-3`: `RateLimit-Limit` with the quotas after the limit, `RateLimit-Remaining` and `RateLimit-Reset`.
    Draft3,
    /// `x-ratelimit`: the three `X-RateLimit-` fields; the reset in seconds from now.
    XRateLimit,
    /// `x-ratelimit-unix`: the same fields, with the reset in seconds of Unix time, as GitHub sends it.
    XRateLimitUnix,
    /// `x-ratelimit-retry-after`: `X-RateLimit-Limit`, `-Remaining`, and on denials `X-RateLimit-Retry-After`, as
    /// textbooks of system design show it.
    XRateLimitRetryAfter,
    /// `x-rate-limit`: the three `X-Rate-Limit-` fields; the reset in seconds from now.
    XRateDashLimit,
    /// `x-rate-limit-unix`: the same fields, with the reset in seconds of Unix time, as Twitter sends it.
    XRateDashLimitUnix,
    /// Names of your own.
    Own(FigureNames),
}

use HeaderStyle::{
    Draft3, Draft6, Draft7, Draft10, Own, XRateDashLimit, XRateDashLimitUnix, XRateLimit,
    XRateLimitRetryAfter, XRateLimitUnix,
};

/// A style, the words that choose it, and the names of its fields if they hold one figure each.
struct StyleRow(HeaderStyle, &'static [&'static str], Option<FigureNames>);

/// All styles, the newest first. Responses are searched for them in this order.
static STYLES: [StyleRow; 9] = [
    StyleRow(Draft10, &["draft-10", "draft-9", "draft-8"], None),
    StyleRow(Draft7, &["draft-7"], None),
    StyleRow(Draft6, &["draft-6", "draft-5", "draft-4"], Some(RATE_LIMIT_FIGURES)),
    StyleRow(Draft3, &["draft-3"], Some(RATE_LIMIT_FIGURES)),
    StyleRow(XRateLimit, &["x-ratelimit"], Some(x_rate_limit(false))),
    StyleRow(XRateLimitUnix, &["x-ratelimit-unix"], Some(x_rate_limit(true))),
    StyleRow(XRateLimitRetryAfter, &["x-ratelimit-retry-after"], Some(X_RETRY_AFTER)),
    StyleRow(XRateDashLimit, &["x-rate-limit"], Some(x_rate_dash_limit(false))),
    StyleRow(XRateDashLimitUnix, &["x-rate-limit-unix"], Some(x_rate_dash_limit(true))),
];

const RATE_LIMIT_FIGURES: FigureNames = FigureNames::known(
    "ratelimit-limit",
    "ratelimit-remaining",
    Some(HeaderName::from_static("ratelimit-reset")),
    None,
    false,
);

const fn x_rate_limit(is_unix: bool) -> FigureNames {
    let reset = HeaderName::from_static("x-ratelimit-reset");
    FigureNames::known("x-ratelimit-limit", "x-ratelimit-remaining", Some(reset), None, is_unix)
}

const fn x_rate_dash_limit(is_unix: bool) -> FigureNames {
    let reset = HeaderName::from_static("x-rate-limit-reset");
    FigureNames::known("x-rate-limit-limit", "x-rate-limit-remaining", Some(reset), None, is_unix)
}

const X_RETRY_AFTER: FigureNames = FigureNames::known(
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    None,
    Some(HeaderName::from_static("x-ratelimit-retry-after")),
    false,
);

impl HeaderStyle {
    /// Every style that has a word, the newest first.
    ///
    /// ```
    /// use tollgate_http::headers::HeaderStyle;
    /// assert_eq!(HeaderStyle::known().next(), Some(HeaderStyle::Draft10));
    /// ```
    pub fn known() -> impl Iterator<Item = Self> {
        STYLES.iter().map(|StyleRow(style, ..)| style.clone())
    }

    /// The words that choose this style; none for names of your own.
    ///
    /// ```
    /// use tollgate_http::headers::HeaderStyle;
    /// assert_eq!(HeaderStyle::Draft6.words(), ["draft-6", "draft-5", "draft-4"]);
    /// ```
    #[must_use]
    pub fn words(&self) -> &'static [&'static str] {
        self.row().map_or(&[], |StyleRow(_, words, _)| words)
    }

    fn row(&self) -> Option<&'static StyleRow> {
        STYLES.iter().find(|StyleRow(style, ..)| style == self)
    }

    /// The field with the units that are left.
    pub(super) fn standing_field(&self) -> &HeaderName {
        self.figures().map_or(&RATE_LIMIT, |names| &names.remaining)
    }

    /// The fields that hold one figure each.
    pub(super) fn figures(&self) -> Option<&FigureNames> {
        match self {
            Own(names) => Some(names),
            known => known.row()?.2.as_ref(),
        }
    }
}

impl FromStr for HeaderStyle {
    type Err = HeaderStyleError;

    fn from_str(text: &str) -> Result<Self, HeaderStyleError> {
        if text.contains(':') {
            return text.parse().map(Own);
        }
        let row = STYLES.iter().find(|StyleRow(_, words, _)| words.contains(&text));
        row.map(|StyleRow(style, ..)| style.clone())
            .ok_or_else(|| HeaderStyleError::unknown(text, STYLES.iter().flat_map(|row| row.1)))
    }
}

impl fmt::Display for HeaderStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Own(names) => names.fmt(f),
            known => f.write_str(known.words().first().copied().unwrap_or_default()),
        }
    }
}

/// The headers of answers: a set of styles. `Retry-After` is on every denial whose wait has an end, whatever is chosen
/// here.
///
/// As text they are the styles with commas between them, or `none`. If two of the styles have the same field, it holds
/// the value of the style that is named first. `RateLimit` and `RateLimit-Policy` are an exception: they have the form
/// of draft 10 if draft 10 is among the styles.
///
/// ```
/// use tollgate_http::headers::{HeaderStyle, Headers};
/// let both = Headers::from([HeaderStyle::Draft10, HeaderStyle::XRateLimit]);
/// assert_eq!("draft-10,x-ratelimit".parse(), Ok(both));
/// assert_eq!("none".parse(), Ok(Headers::NONE));
/// assert_eq!(Headers::default(), HeaderStyle::Draft10.into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers(Vec<HeaderStyle>);

impl Headers {
    /// No headers except `Retry-After`.
    pub const NONE: Self = Self(Vec::new());

    /// The styles, each once.
    ///
    /// ```
    /// assert!(tollgate_http::headers::Headers::NONE.styles().is_empty());
    /// ```
    #[must_use]
    pub fn styles(&self) -> &[HeaderStyle] {
        &self.0
    }
}

impl Default for Headers {
    fn default() -> Self {
        Draft10.into()
    }
}

impl From<HeaderStyle> for Headers {
    fn from(style: HeaderStyle) -> Self {
        Self(vec![style])
    }
}

impl<const N: usize> From<[HeaderStyle; N]> for Headers {
    fn from(styles: [HeaderStyle; N]) -> Self {
        styles.into_iter().collect()
    }
}

impl FromIterator<HeaderStyle> for Headers {
    fn from_iter<I: IntoIterator<Item = HeaderStyle>>(styles: I) -> Self {
        let mut each = Vec::new();
        for style in styles {
            if !each.contains(&style) {
                each.push(style);
            }
        }
        Self(each)
    }
}

impl FromStr for Headers {
    type Err = HeaderStyleError;

    fn from_str(text: &str) -> Result<Self, HeaderStyleError> {
        if text.trim() == "none" {
            return Ok(Self::NONE);
        }
        text.split(',').map(|style| style.trim().parse::<HeaderStyle>()).collect()
    }
}

impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_and_the_first_of_a_style_is_shown() {
        for style in HeaderStyle::known() {
            for word in style.words() {
                assert_eq!(word.parse().as_ref(), Ok(&style));
            }
            assert_eq!(style.to_string(), style.words()[0]);
        }
    }

    #[test]
    fn a_set_is_read_as_it_is_shown() {
        for text in
            ["none", "draft-10", "draft-3,x-rate-limit-unix", "draft-7,a:b:c=unix:d", "a:b:c"]
        {
            let headers: Headers = text.parse().expect("styles");
            assert_eq!(headers.to_string(), text);
        }
        let twice: Headers = " draft-6, draft-5 ".parse().expect("styles");
        assert_eq!(twice, Draft6.into());
        for bad in ["", ",", "draft-11", "draft-10,none", "x-ratelimit,", "Draft-10"] {
            assert!(bad.parse::<Headers>().is_err(), "{bad}");
        }
        let error = "draft-2".parse::<Headers>().expect_err("no style");
        let expected = "no style of headers is called \"draft-2\"; use draft-10, draft-9, ";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
