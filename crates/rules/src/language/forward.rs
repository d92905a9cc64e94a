//! [`Forward`]: how to make a descriptor of a request that a proxy forwards for a decision.

use std::fmt;
use std::str::FromStr;

use crate::language::meant::meant;
use crate::language::position::Position;

/// A descriptor of `forward_auth`: for each of its keys, the part of the request that becomes its value.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
/// let text = "{domain: shop, forward_auth: [{path: path, user: header x-user else none}]}";
/// let loaded = RuleCache::new(RuleSettings::default()).load(&[RuleText::new("shop.yaml", text)]);
/// let rules = loaded.map_err(|errors| errors[0].clone())?;
/// let forwards = rules.forwards("shop").unwrap_or_default();
/// assert_eq!(
///     forwards[0].to_string(),
///     "shop: forward_auth {path: path of x-forwarded-uri, user: header x-user else none}"
/// );
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Forward {
    pub(crate) domain: Box<str>,
    pub(crate) file: Box<str>,
    pub(crate) at: Position,
    pub(crate) entries: Vec<ForwardEntry>,
}

/// A key of a descriptor, and the source of its value.
///
/// ```
/// use tollgate_rules::{ForwardPart, ForwardSource};
/// let source: ForwardSource = "path of x-original-url else /".parse()?;
/// assert_eq!(source.part, ForwardPart::Path("x-original-url".into()));
/// assert_eq!(source.otherwise.as_deref(), Some("/"));
/// # Ok::<(), tollgate_rules::ForwardError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardEntry {
    /// The key.
    pub key: Box<str>,
    /// The source of its value.
    pub source: ForwardSource,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardSource {
    /// The part of the request.
    pub part: ForwardPart,
    /// The value for a request that lacks the part. If it is `None`, no descriptor is made of such a request.
    pub otherwise: Option<Box<str>>,
}

/// A part of a request, with the name of the header that carries the part. The name is in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardPart {
    /// The client's address, as given by the trusted proxies among those that wrote the header.
    Address(Box<str>),
    /// The host of a URL or of an authority such as `example.com:80`, in lower case and without a port.
    Host(Box<str>),
    /// The path of a URL or of a request target, without a query. It is normalised, so that all its spellings are
    /// equal.
    Path(Box<str>),
    /// The content of the header.
    Header(Box<str>),
    /// A text that is the same for every request.
    Text(Box<str>),
}

/// The word for a part of a request, the part, and the header in which proxies usually pass it on.
type PartWord = (&'static str, fn(Box<str>) -> ForwardPart, &'static str);

const PARTS: [PartWord; 4] = [
    ("address", ForwardPart::Address, "x-forwarded-for"),
    ("method", ForwardPart::Header, "x-forwarded-method"),
    ("host", ForwardPart::Host, "x-forwarded-host"),
    ("path", ForwardPart::Path, "x-forwarded-uri"),
];

const WORDS: [&str; 6] = ["address", "method", "host", "path", "header", "text"];

impl Forward {
    /// The maximum length of a value in bytes; a longer value is cut off. A load is refused if the descriptors of
    /// `forward_auth` could exceed the size that [`RuleSettings`](crate::RuleSettings) allow for a request. So no
    /// header makes a request too large for a decision.
    pub const MAX_VALUE_BYTES: usize = 8 << 10;

    /// The entries of the descriptor, in the order of a rule's levels.
    #[must_use]
    pub fn entries(&self) -> &[ForwardEntry] {
        &self.entries
    }
}

impl FromStr for ForwardSource {
    type Err = ForwardError;

    fn from_str(text: &str) -> Result<Self, ForwardError> {
        let text = text.trim();
        if let Some(constant) = text.strip_prefix("text ") {
            let part = ForwardPart::Text(constant.trim_start().into());
            return Ok(Self { part, otherwise: None });
        }
        let (part, otherwise) = match text.split_once(" else ") {
            Some((part, otherwise)) => (part, Some(otherwise.trim_start().into())),
            None => (text, None),
        };
        let unknown = || ForwardError::Unknown { found: text.to_owned() };
        let words: Vec<&str> = part.split_whitespace().collect();
        let part = match words[..] {
            ["header", name] => ForwardPart::Header(header(name)?),
            [word, ref of @ ..] => {
                let (_, part, usual) =
                    PARTS.iter().find(|(known, _, _)| *known == word).ok_or_else(unknown)?;
                match *of {
                    [] => part((*usual).into()),
                    ["of", name] => part(header(name)?),
                    _ => return Err(unknown()),
                }
            }
            [] => return Err(unknown()),
        };
        Ok(Self { part, otherwise })
    }
}

/// A header's name (a token of RFC 9110), in lower case.
fn header(name: &str) -> Result<Box<str>, ForwardError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    // No request has a header with a longer name.
    if name.len() > 256 || !name.bytes().all(is_token) {
        return Err(ForwardError::Header { found: name.to_owned() });
    }
    Ok(name.to_ascii_lowercase().into())
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: forward_auth {{", self.domain.escape_debug())?;
        for (n, ForwardEntry { key, source }) in self.entries.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {source}", key.escape_debug())?;
        }
        f.write_str("}")
    }
}

/// Prints a text that parses to the same source, unless it contains control characters.
impl fmt::Display for ForwardSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            ForwardPart::Address(header) => write!(f, "address of {header}")?,
            ForwardPart::Host(header) => write!(f, "host of {header}")?,
            ForwardPart::Path(header) => write!(f, "path of {header}")?,
            ForwardPart::Header(header) => write!(f, "header {header}")?,
            ForwardPart::Text(text) => write!(f, "text {}", text.escape_debug())?,
        }
        let otherwise = self.otherwise.as_deref();
        otherwise.map_or(Ok(()), |otherwise| write!(f, " else {}", otherwise.escape_debug()))
    }
}

/// The reason why a `forward_auth` is refused.
///
/// ```
/// use tollgate_rules::ForwardSource;
/// let error = "pth".parse::<ForwardSource>().unwrap_err().to_string();
/// assert!(error.starts_with("'pth' is no part of a request; did you mean 'path'? use address, method, host or path"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardError {
    /// A text that names no part of a request.
    Unknown {
        /// The text.
        found: String,
    },
    /// A text in place of a header's name.
    Header {
        /// The text.
        found: String,
    },
    /// The descriptors could be larger than a request may be.
    TooLarge {
        /// The largest number that the descriptors could have.
        found: usize,
        /// The largest number that a request may have.
        most: usize,
        /// The word for the things that are counted.
        of: &'static str,
    },
    /// A descriptor whose keys no rule of the domain has in this order.
    InVain {
        /// The keys, with commas between them.
        keys: String,
    },
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { found } => {
                write!(f, "'{}' is no part of a request; ", found.escape_debug())?;
                let word = found.split_whitespace().next().unwrap_or_default();
                if let Some(meant) = meant(word, &WORDS).filter(|meant| *meant != word) {
                    write!(f, "did you mean '{meant}'? ")?;
                }
                f.write_str(
                    "use address, method, host or path, alone or with a header as in path of x-original-url; \
                     header x-user; or text web; behind all but the last a value for its absence may follow, as in \
                     header x-user else anonymous",
                )
            }
            Self::Header { found } => write!(
                f,
                "'{}' is no name of a header; use letters, digits and dashes, as in x-user",
                found.escape_debug()
            ),
            Self::TooLarge { found, most, of } => write!(
                f,
                "a forwarded request could have {found} {of}, of at most {most}; leave some out of forward_auth"
            ),
            Self::InVain { keys } => write!(
                f,
                "forward_auth makes a descriptor of {}, and no rule of the domain has these keys in this order, so it \
                 limits nothing; write a descriptor with them, or leave it out",
                keys.escape_debug()
            ),
        }
    }
}

impl std::error::Error for ForwardError {}
