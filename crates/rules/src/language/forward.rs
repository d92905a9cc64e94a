//! [`Forward`]: how to make a descriptor of a request that a proxy forwards for a decision.

use std::fmt;

use crate::language::error::Problem;
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

/// A key of a descriptor, and the part of a request that becomes its value.
///
/// ```
/// use tollgate_rules::{ForwardPart, RuleCache, RuleText, RuleSettings};
/// let text = "{domain: shop, forward_auth: [{path: path of x-original-url else /}]}";
/// let loaded = RuleCache::new(RuleSettings::default()).load(&[RuleText::new("shop.yaml", text)]);
/// let rules = loaded.map_err(|errors| errors[0].clone())?;
/// let entry = &rules.forwards("shop").unwrap_or_default()[0].entries()[0];
/// assert_eq!(entry.part, ForwardPart::Path("x-original-url".into()));
/// assert_eq!(entry.otherwise.as_deref(), Some("/"));
/// # Ok::<(), tollgate_rules::RuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardEntry {
    /// The key.
    pub key: Box<str>,
    /// The part of the request that becomes its value.
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

impl ForwardEntry {
    /// The entry with this key, whose value is what the text describes, such as `path of x-original-url else /`.
    pub(crate) fn parse(key: &str, text: &str) -> Result<Self, Problem> {
        let text = text.trim();
        if let Some(constant) = text.strip_prefix("text ") {
            let part = ForwardPart::Text(constant.trim_start().into());
            return Ok(Self { key: key.into(), part, otherwise: None });
        }
        let (part, otherwise) = match text.split_once(" else ") {
            Some((part, otherwise)) => (part, Some(otherwise.trim_start().into())),
            None => (text, None),
        };
        let unknown = || Problem::UnknownPart { found: text.to_owned(), meant: word_meant(text) };
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
        Ok(Self { key: key.into(), part, otherwise })
    }
}

/// For a text that names no part: the known word that is close to the text's first word, if there is one. It was
/// probably meant.
fn word_meant(text: &str) -> Option<&'static str> {
    let word = text.split_whitespace().next().unwrap_or_default();
    let words: Vec<_> =
        PARTS.map(|(known, _, _)| known).into_iter().chain(["header", "text"]).collect();
    meant(word, &words).filter(|meant| *meant != word)
}

/// A header's name (a token of RFC 9110), in lower case.
fn header(name: &str) -> Result<Box<str>, Problem> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    // No request has a header with a longer name.
    if name.len() > 256 || !name.bytes().all(is_token) {
        return Err(Problem::BadHeader { found: name.to_owned() });
    }
    Ok(name.to_ascii_lowercase().into())
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: forward_auth {{", self.domain.escape_debug())?;
        for (n, entry) in self.entries.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{entry}")?;
        }
        f.write_str("}")
    }
}

/// Prints the entry as a rule file could have it, with the name of the header. Control characters and quotation marks
/// are escaped.
impl fmt::Display for ForwardEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.key.escape_debug())?;
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
