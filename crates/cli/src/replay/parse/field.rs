//! The kinds of fields: one vocabulary for all formats.

use std::borrow::Cow;

use super::time_form::TimePart;
use crate::replay::key::LineKey;

/// A field of a text format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FormatField {
    /// The name of the field as a key.
    pub(super) name: String,
    pub(super) kind: FieldKind,
}

/// The kind of a field's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// The client's address.
    Address,
    /// The client's address, a colon, and its port; an IPv6 address with or without brackets.
    AddressAndPort,
    /// A list of addresses, as `X-Forwarded-For` has it. The last is the one that the proxy itself has seen; a client
    /// can invent the others.
    Addresses,
    User,
    /// Method, target and version.
    Request,
    Method,
    Path,
    /// The query, directly behind a path.
    Query,
    Referer,
    UserAgent,
    Host,
    Status,
    Time(TimePart),
    /// Any text, blanks included. It cannot be a key.
    Gap,
    /// A number with blanks in front of it that fill its column.
    Padded,
    Other,
}

impl FieldKind {
    /// Returns whether the text of such a field may have blanks although neither quotes nor brackets enclose it.
    pub(super) fn may_have_blanks(&self) -> bool {
        matches!(self, Self::User | Self::Request | Self::Time(_) | Self::Gap)
    }

    /// Returns the kind of a request header, by its name in lower case.
    pub(super) fn of_header(name: &str) -> Self {
        match name {
            "x-forwarded-for" => Self::Addresses,
            "referer" => Self::Referer,
            "user-agent" => Self::UserAgent,
            "host" | ":authority" => Self::Host,
            ":method" => Self::Method,
            ":path" | "x-envoy-original-path" => Self::Path,
            _ => Self::Other,
        }
    }

    /// Returns whether such a field may hold several addresses, with commas and blanks in between.
    pub(super) fn may_be_chain(&self) -> bool {
        matches!(self, Self::Address | Self::AddressAndPort | Self::Addresses)
    }

    /// Returns the part of such a field that a key names, and a rank. If several fields have the part, the field with
    /// the lowest rank is used.
    fn gives(&self, key: &LineKey) -> Option<(u8, Cut)> {
        Some(match (key, self) {
            (LineKey::Ip(_), Self::Address) => (0, Cut::Whole),
            (LineKey::Ip(_), Self::AddressAndPort) => (0, Cut::WithoutPort),
            (LineKey::Ip(_), Self::Addresses) if key.follows_chains() => (1, Cut::Whole),
            (LineKey::Ip(_), Self::Addresses) => (1, Cut::LastOfList),
            (LineKey::User, Self::User)
            | (LineKey::Method, Self::Method)
            | (LineKey::Path, Self::Path)
            | (LineKey::Referer, Self::Referer)
            | (LineKey::UserAgent, Self::UserAgent)
            | (LineKey::Host, Self::Host)
            | (LineKey::Status, Self::Status) => (0, Cut::Whole),
            (LineKey::Method, Self::Request) => (1, Cut::FirstWord),
            (LineKey::Path, Self::Request) => (1, Cut::SecondWord),
            _ => return None,
        })
    }
}

/// The part of a field that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Whole,
    WithoutPort,
    LastOfList,
    FirstWord,
    SecondWord,
}

impl Cut {
    /// Returns the part of a field's text.
    pub(super) fn of(self, text: &[u8]) -> &[u8] {
        match self {
            Self::Whole => text,
            Self::WithoutPort => without_port(text),
            Self::LastOfList => text.rsplit(|&b| b == b',').next().unwrap_or_default().trim_ascii(),
            // A request of one word (`-`, a broken handshake) has neither a method nor a path.
            Self::FirstWord => memchr::memchr(b' ', text).map_or(b"", |end| &text[..end]),
            Self::SecondWord => text.split(|&b| b == b' ').nth(1).unwrap_or_default(),
        }
    }
}

/// Cuts the port from `192.0.2.1:80`, `[2001:db8::1]:80` and `2001:db8::1:80`: it always follows the last colon.
fn without_port(text: &[u8]) -> &[u8] {
    let address = memchr::memrchr(b':', text).map_or(text, |colon| &text[..colon]);
    let inner = address.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    inner.unwrap_or(address)
}

/// The place in a line of the part that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartSource {
    /// The index of the field.
    pub(super) index: usize,
    pub(super) cut: Cut,
    /// The index of the field with forwarded addresses, if the client is searched for there, too.
    pub(super) forwarded: Option<usize>,
}

impl PartSource {
    /// Returns the text of the part. `found` has the texts of the fields.
    pub(super) fn text<'l>(&self, found: &[&'l [u8]]) -> &'l [u8] {
        found.get(self.index).map_or(b"", |field| self.cut.of(field))
    }

    /// Returns the indices of the fields that this source needs.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.index).chain(self.forwarded)
    }
}

/// Finds the field that holds the part that a key names.
pub(super) fn source<'f>(
    key: &LineKey,
    fields: impl Iterator<Item = &'f FormatField> + Clone,
) -> Option<PartSource> {
    let (index, cut) = main_source(key, fields.clone())?;
    let is_forwarded = |(at, field): &(usize, &FormatField)| {
        *at != index && field.kind == FieldKind::Addresses && matches!(key, LineKey::Ip(_))
    };
    let forwarded = fields.enumerate().find(is_forwarded).map(|(at, _)| at);
    Some(PartSource { index, cut, forwarded: forwarded.filter(|_| key.follows_chains()) })
}

fn main_source<'f>(
    key: &LineKey,
    fields: impl Iterator<Item = &'f FormatField>,
) -> Option<(usize, Cut)> {
    let name = match key {
        LineKey::Field(name) | LineKey::AddressField(name, _) => Some(name),
        _ => None,
    };
    let gives = |field: &FormatField| match name {
        Some(name) if field.name.eq_ignore_ascii_case(name) => match field.kind {
            FieldKind::AddressAndPort => Some((0, Cut::WithoutPort)),
            _ => Some((0, Cut::Whole)),
        },
        Some(_) => None,
        None => field.kind.gives(key),
    };
    let found = fields.enumerate().filter_map(|(index, field)| Some((gives(field)?, index)));
    found.min_by_key(|((rank, _), index)| (*rank, *index)).map(|((_, cut), index)| (index, cut))
}

/// Returns the names of the keys that these fields offer, for messages.
pub(super) fn names<'f>(fields: &[&'f FormatField]) -> Vec<Cow<'f, str>> {
    let of = |key: &LineKey| source(key, fields.iter().copied()).map(|_| key.name().to_owned());
    let named = LineKey::NAMED.iter().filter_map(of).map(Cow::Owned);
    let others = fields.iter().filter(|field| field.kind == FieldKind::Other);
    named.chain(others.map(|field| Cow::Borrowed(field.name.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_cut_from_an_address_of_any_form() {
        for text in ["2001:db8::1:33317", "[2001:db8::1]:33317"] {
            assert_eq!(Cut::WithoutPort.of(text.as_bytes()), b"2001:db8::1");
        }
        assert_eq!(Cut::WithoutPort.of(b"192.0.2.1:80"), b"192.0.2.1");
    }

    #[test]
    fn of_a_list_the_last_address_counts() {
        assert_eq!(Cut::LastOfList.of(b"203.0.113.9, 192.0.2.1"), b"192.0.2.1");
        assert_eq!(Cut::LastOfList.of(b"192.0.2.1"), b"192.0.2.1");
    }

    #[test]
    fn a_request_that_is_none_has_no_path() {
        assert_eq!((Cut::FirstWord.of(b"-"), Cut::SecondWord.of(b"-")), (&b""[..], &b""[..]));
        assert_eq!(Cut::SecondWord.of(b"GET /a?b HTTP/1.1"), b"/a?b");
    }
}
