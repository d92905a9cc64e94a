//! Maps the fields of a line to a descriptor: `remote_address={ip}, path={path}`.
//!
//! Entries are separated by commas. A value is text in which `{field}` stands for the line's value of that field; a
//! literal comma or brace is written twice. A line in which a field is missing (`-`, null) gives no descriptor, just as
//! Envoy gives none if a header is missing.
//!
//! A value that is the name of a field without braces would give all clients the same descriptor. So such a value is
//! refused unless it is in double quotes. Any value that is meant literally can be quoted.

use std::fmt;
use std::str::FromStr;

use super::key::LineKey;

/// A key and a value of a descriptor.
pub(super) type Pair = (String, String);

/// The maximum number of entries in a descriptor, as in the rules.
const ENTRIES_MOST: usize = 32;

/// The mapping from a line to one descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping(Vec<MappingEntry>);

/// One key, and the pieces of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MappingEntry {
    key: String,
    value: Vec<Piece>,
}

/// A piece of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(LineKey),
}

impl Mapping {
    /// Returns the fields that the mapping reads.
    pub(super) fn fields(&self) -> impl Iterator<Item = &LineKey> {
        self.0.iter().flat_map(|entry| &entry.value).filter_map(|piece| match piece {
            Piece::Field(key) => Some(key),
            Piece::Text(_) => None,
        })
    }

    /// Returns whether every line gives the same descriptor.
    pub(super) fn is_constant(&self) -> bool {
        self.fields().next().is_none()
    }

    /// Returns the descriptor of a line; `value` returns its fields. None if a field that the descriptor needs is
    /// empty.
    pub(super) fn descriptor<'v>(&self, value: impl Fn(&LineKey) -> &'v str) -> Option<Vec<Pair>> {
        let pair = |entry: &MappingEntry| {
            let mut text = String::new();
            for piece in &entry.value {
                text.push_str(match piece {
                    Piece::Text(text) => text,
                    Piece::Field(key) => Some(value(key)).filter(|value| *value != "-")?,
                });
            }
            Some((entry.key.clone(), text))
        };
        self.0.iter().map(pair).collect()
    }
}

/// Returns a descriptor in the notation of a mapping. Commas in values are doubled, so that different descriptors have
/// different texts.
pub(super) fn name(pairs: &[Pair]) -> String {
    let name = |(key, value): &Pair| format!("{key}={}", value.replace(',', ",,"));
    pairs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The reason why a text is not a mapping. Positions are counted in characters, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MappingError {
    /// A key without a value.
    NoValue {
        /// The number of the entry, from 1.
        entry: usize,
        /// The text that was found.
        found: String,
    },
    /// A value without a key.
    NoKey {
        /// The number of the entry, from 1.
        entry: usize,
    },
    /// A brace in the wrong place.
    Brace {
        at: usize,
        brace: char,
    },
    /// Braces without a name in between.
    NoField {
        at: usize,
    },
    /// A value that is only the name of a field, where probably the text of the field is meant, or that is a field in
    /// the notation of another language.
    Unbraced {
        /// The number of the entry, from 1.
        entry: usize,
        key: String,
        /// The value as it was written.
        found: String,
        /// The field that is probably meant.
        field: String,
    },
    TooMany {
        found: usize,
    },
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValue { entry, found } => write!(
                f,
                "entry {entry} (\"{}\") has no =; write entries as key=value, parted by commas, as in \
                 remote_address={{ip}}, path={{path}}",
                found.escape_debug()
            ),
            Self::NoKey { entry } => {
                write!(
                    f,
                    "entry {entry} has no key in front of its =; write key=value, as in path={{path}}"
                )
            }
            Self::Brace { at, brace } => write!(
                f,
                "'{brace}' at character {at} has no partner; a value has fields as in {{ip}}, a key has \
                 none, and a brace that is meant as such is written twice"
            ),
            Self::NoField { at } => write!(
                f,
                "no field between the braces at character {at}; write ip, user, method, path, referer, \
                 user-agent, host, status or a field of the log's format"
            ),
            Self::Unbraced { entry, key, found, field } => {
                let (key, found, field) =
                    (key.escape_debug(), found.escape_debug(), field.escape_debug());
                write!(
                    f,
                    "entry {entry}: {found} is not what a line has there; write {key}={{{field}}} for the {field} of \
                     each line, or {key}=\"{found}\", in double quotes, for these very characters"
                )
            }
            Self::TooMany { found } => {
                write!(f, "{found} entries; a descriptor may have {ENTRIES_MOST}")
            }
        }
    }
}

impl std::error::Error for MappingError {}

/// A part of the text of a mapping. A doubled comma or brace is one `Char`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    Comma,
    /// A field, and the position of its brace.
    Field(usize, LineKey),
}

fn tokens(text: &str) -> Result<Vec<Token>, MappingError> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().zip(1..).peekable();
    while let Some((c, at)) = chars.next() {
        let is_doubled = chars.peek().is_some_and(|(next, _)| *next == c);
        let token = match c {
            ',' | '{' | '}' if is_doubled => {
                chars.next();
                Token::Char(c)
            }
            ',' => Token::Comma,
            '{' => {
                let inner = chars.by_ref().map(|(c, _)| c).take_while(|c| *c != '}');
                let name: String = inner.collect();
                // The name may also have ended at the end of the text, so look for the closing brace behind it.
                let length = name.chars().count();
                if text.chars().nth(at + length) != Some('}') {
                    return Err(MappingError::Brace { at, brace: c });
                }
                if name.trim().is_empty() {
                    return Err(MappingError::NoField { at });
                }
                let Ok(key) = name.trim().parse::<LineKey>();
                Token::Field(at, key)
            }
            '}' => return Err(MappingError::Brace { at, brace: c }),
            _ => Token::Char(c),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

fn entry(number: usize, tokens: &[Token]) -> Result<MappingEntry, MappingError> {
    let is_space = |token: &Token| matches!(token, Token::Char(c) if c.is_whitespace());
    let from = tokens.iter().position(|token| !is_space(token)).unwrap_or(tokens.len());
    let to = tokens.iter().rposition(|token| !is_space(token)).map_or(from, |last| last + 1);
    let mut tokens = tokens[from..to].iter();
    let mut key = String::new();
    loop {
        match tokens.next() {
            Some(Token::Char('=')) => break,
            Some(Token::Char(c)) => key.push(*c),
            Some(Token::Field(at, _)) => return Err(MappingError::Brace { at: *at, brace: '{' }),
            Some(Token::Comma) | None => {
                return Err(MappingError::NoValue { entry: number, found: key });
            }
        }
    }
    let key = key.trim().to_owned();
    if key.is_empty() {
        return Err(MappingError::NoKey { entry: number });
    }
    let start = tokens.as_slice().iter().position(|token| !is_space(token)).unwrap_or(tokens.len());
    let value = match &tokens.as_slice()[start..] {
        [Token::Char('"'), quoted @ .., Token::Char('"')] => pieces(quoted),
        written => {
            let value = pieces(written);
            if let Some(field) = meant(&key, &value) {
                let found = value.iter().map(Piece::written).collect();
                return Err(MappingError::Unbraced { entry: number, key, found, field });
            }
            value
        }
    };
    Ok(MappingEntry { key, value })
}

fn pieces(tokens: &[Token]) -> Vec<Piece> {
    let mut value = Vec::new();
    for token in tokens {
        match (token, value.last_mut()) {
            (Token::Char(c), Some(Piece::Text(text))) => text.push(*c),
            (Token::Char(c), _) => value.push(Piece::Text(c.to_string())),
            (Token::Field(_, key), _) => value.push(Piece::Field(key.clone())),
            (Token::Comma, _) => {} // not reached: entries are split at commas
        }
    }
    value
}

/// Returns the field that a value probably means: its name is written without braces, or in the notation of a shell or
/// of a log format.
fn meant(key: &str, value: &[Piece]) -> Option<String> {
    match value {
        [Piece::Text(text)] => {
            let name = text.trim_matches(|c: char| "{}$%<>[]():'`\"".contains(c));
            let lower = name.to_lowercase();
            let Ok(field) = lower.parse::<LineKey>();
            let is_known = !matches!(field, LineKey::Field(_));
            (is_known || name == key).then(|| if is_known { lower } else { name.to_owned() })
        }
        // `${ip}` and `%{ip}`.
        [Piece::Text(sign), Piece::Field(field), ..] if sign == "$" || sign == "%" => {
            Some(field.name().to_owned())
        }
        _ => None,
    }
}

impl Piece {
    fn written(&self) -> String {
        match self {
            Self::Text(text) => text.replace('{', "{{").replace('}', "}}"),
            Self::Field(field) => format!("{{{}}}", field.name()),
        }
    }
}

impl FromStr for Mapping {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        let tokens = tokens(text)?;
        let entries = tokens.split(|token| *token == Token::Comma).zip(1..);
        let entries: Vec<_> =
            entries.map(|(tokens, number)| entry(number, tokens)).collect::<Result<_, _>>()?;
        let found = entries.len();
        if found > ENTRIES_MOST { Err(MappingError::TooMany { found }) } else { Ok(Self(entries)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the descriptor that a mapping makes from a line with these fields.
    fn made(mapping: &str, ip: &str, path: &str) -> Option<String> {
        let mapping: Mapping = mapping.parse().unwrap_or_else(|error| panic!("{error}"));
        let pairs = mapping.descriptor(|key| if matches!(key, LineKey::Ip(_)) { ip } else { path });
        pairs.map(|pairs| name(&pairs))
    }

    fn refused(mapping: &str) -> String {
        mapping.parse::<Mapping>().expect_err(mapping).to_string()
    }

    #[test]
    fn fields_are_put_in_their_places() {
        assert_eq!(made("remote_address={ip}", "::1", "/").as_deref(), Some("remote_address=::1"));
        let two = " plan=free ,path = v1:{path} by { ip }, x=";
        assert_eq!(made(two, "::1", "/a").as_deref(), Some("plan=free, path=v1:/a by ::1, x="));
        assert_eq!(made("a={{,,}}=b", "", "").as_deref(), Some("a={,,}=b"));
    }

    #[test]
    fn the_name_of_a_field_without_braces_is_not_taken_for_a_value() {
        for (mapping, field) in [
            ("remote_address=ip", "ip"),
            ("remote_address= IP ", "ip"),
            ("a={path}, b=user", "user"),
            ("a=$remote_addr", "remote_addr"),
            ("a=(user-agent)", "user-agent"),
            ("a=[host]", "host"),
            ("a=<path>", "path"),
            ("a='method'", "method"),
            ("tenant=tenant", "tenant"),
            ("a=${ip}", "ip"),
            ("a={{ip}}", "ip"),
            ("a=%{user}", "user"),
        ] {
            let text = refused(mapping);
            assert!(text.contains(&format!("={{{field}}} for the {field} of each line")), "{text}");
        }
        assert!(refused("a={{ip}}").starts_with("entry 1: {{ip}} is not what a line has there"));
        let text = refused("x=y, remote_address=ip");
        let expected = "entry 2: ip is not what a line has there; write remote_address={ip} for the ip of each line, \
                        or remote_address=\"ip\", in double quotes, for these very characters";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_value_in_double_quotes_is_meant_as_it_is_written() {
        assert_eq!(made("kind=\"user\"", "", "").as_deref(), Some("kind=user"));
        assert_eq!(made("kind=\"${ip}\"", "::1", "").as_deref(), Some("kind=$::1"));
        assert_eq!(made("a=\"{ip}\", b=\" c \"", "::1", "").as_deref(), Some("a=::1, b= c "));
        assert_eq!(made("a=\"", "", "").as_deref(), Some("a=\""));
        // A value that only contains a name is like any other value.
        assert_eq!(made("a=users, b=by ip", "", "").as_deref(), Some("a=users, b=by ip"));
    }

    #[test]
    fn a_field_that_is_empty_makes_no_descriptor() {
        assert_eq!(made("user={path}, a=b", "::1", "-"), None);
        assert_eq!(made("a=-", "-", "-").as_deref(), Some("a=-"));
    }

    #[test]
    fn different_descriptors_have_different_names() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let lists = [
            vec![pair("a", "b, c=d")],
            vec![pair("a", "b"), pair("c", "d")],
            vec![pair("a", "b,"), pair("c", "d")],
            vec![pair("a", "b,, c=d")],
        ];
        for (n, one) in lists.iter().enumerate() {
            for other in &lists[..n] {
                assert_ne!(name(one), name(other));
            }
        }
    }

    #[test]
    fn what_is_no_mapping_is_refused_with_its_place() {
        let start = |mapping: &str, expected: &str| {
            let text = refused(mapping);
            assert!(text.starts_with(expected), "{mapping:?}: {text}");
        };
        start("", "entry 1 (\"\") has no =; write entries as key=value, parted by commas");
        start("a={ip}, b", "entry 2 (\"b\") has no =");
        start("a={ip},", "entry 2 (\"\") has no =");
        start("={ip}", "entry 1 has no key in front of its =");
        start("a={ip", "'{' at character 3 has no partner");
        start("a=ip}", "'}' at character 5 has no partner");
        start("{ip}=a", "'{' at character 1 has no partner");
        start("a={ }", "no field between the braces at character 3; write ip, user, method");
        start(&["a=b"; 33].join(","), "33 entries; a descriptor may have 32");
    }
}
