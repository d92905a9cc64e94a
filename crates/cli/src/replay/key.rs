//! The key that a policy limits by, and its text in a line.

use std::borrow::Cow;
use std::convert::Infallible;
use std::str::FromStr;

use super::clients::ClientsBy;
use super::reason::Reason;

/// The part of a line that identifies the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineKey {
    /// The client's address, or its network.
    Ip(ClientsBy),
    /// The authenticated user.
    User,
    /// The method of the request, such as `GET`.
    Method,
    /// The requested path, without its query.
    Path,
    /// The `Referer` header.
    Referer,
    /// The `User-Agent` header.
    UserAgent,
    /// The host that the request was for.
    Host,
    /// The status of the answer.
    Status,
    /// A field of the format, by its name.
    Field(String),
    /// A field whose name says that it holds an address. Its text becomes a key in the same way as the client's
    /// address.
    AddressField(String, ClientsBy),
}

/// Names of fields that hold an address, often with a port, or several addresses.
const ADDRESSES: [&str; 15] = [
    "remote_addr",
    "remote_ip",
    "client_ip",
    "clientip",
    "c-ip",
    "clientaddr",
    "clienthost",
    "remoteip",
    "http_x_real_ip",
    "realip_remote_addr",
    "downstream_remote_address",
    "downstream_direct_remote_address",
    "http_x_forwarded_for",
    "x_forwarded_for",
    "x-forwarded-for",
];

/// Returns whether a field of this name holds an address. If the field is a path into objects, only its last name
/// matters.
fn is_address(field: &str) -> bool {
    let name = field.rsplit('.').next().unwrap_or_default();
    ADDRESSES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

impl FromStr for LineKey {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(match name {
            "ip" => Self::Ip(ClientsBy::EACH),
            "user" => Self::User,
            "method" => Self::Method,
            "path" => Self::Path,
            "referer" | "referrer" => Self::Referer,
            "user-agent" => Self::UserAgent,
            "host" => Self::Host,
            "status" => Self::Status,
            field if is_address(field) => Self::AddressField(field.to_owned(), ClientsBy::EACH),
            field => Self::Field(field.to_owned()),
        })
    }
}

impl LineKey {
    /// All keys that are not fields of a format.
    pub(crate) const NAMED: [Self; 8] = [
        Self::Ip(ClientsBy::EACH),
        Self::User,
        Self::Method,
        Self::Path,
        Self::Referer,
        Self::UserAgent,
        Self::Host,
        Self::Status,
    ];

    /// Returns the name of the key on the command line.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Ip(_) => "ip",
            Self::User => "user",
            Self::Method => "method",
            Self::Path => "path",
            Self::Referer => "referer",
            Self::UserAgent => "user-agent",
            Self::Host => "host",
            Self::Status => "status",
            Self::Field(name) | Self::AddressField(name, _) => name,
        }
    }

    /// Returns the same key, except that `clients` decides how an address becomes a client.
    pub(crate) fn by(&self, clients: &ClientsBy) -> Self {
        match self {
            Self::Ip(_) => Self::Ip(clients.clone()),
            Self::AddressField(name, _) => Self::AddressField(name.clone(), clients.clone()),
            other => other.clone(),
        }
    }

    /// Returns whether the client is searched for in chains of addresses, because trusted proxies were named.
    pub(crate) fn follows_chains(&self) -> bool {
        matches!(self, Self::Ip(clients) | Self::AddressField(_, clients) if clients.proxies.is_some())
    }

    /// Returns the canonical text of `found`: equal keys have equal texts.
    ///
    ///
    /// This is called once for each distinct text of a block, and not for each line, because parsing an address takes
    /// time.
    pub(crate) fn canonical<'t>(&self, found: &'t [u8]) -> Result<Cow<'t, [u8]>, Reason> {
        match self {
            Self::Ip(clients) => clients.canonical(found),
            // Despite its name, the field may be empty or hold something else.
            Self::AddressField(_, clients) => {
                Ok(clients.canonical(found).unwrap_or(Cow::Borrowed(or_dash(found))))
            }
            Self::Path => Ok(Cow::Borrowed(or_dash(without_query(without_host(found))))),
            _ => Ok(Cow::Borrowed(or_dash(found))),
        }
    }
}

/// Returns the text, or `-` if it is empty: logs write `-` for a missing value.
fn or_dash(text: &[u8]) -> &[u8] {
    if text.is_empty() { b"-" } else { text }
}

fn without_query(path: &[u8]) -> &[u8] {
    memchr::memchr2(b'?', b'#', path).map_or(path, |end| &path[..end])
}

/// Returns the path of `http://host/path`: proxies and load balancers log the whole URL that they were asked for.
fn without_host(path: &[u8]) -> &[u8] {
    let scheme = memchr::memmem::find(path, b"://").filter(|_| !path.starts_with(b"/"));
    let Some(scheme) = scheme.filter(|&end| path[..end].iter().all(u8::is_ascii_alphanumeric))
    else {
        return path;
    };
    let behind = &path[scheme + 3..];
    let start = memchr::memchr3(b'/', b'?', b'#', behind);
    start.map_or(b"/", |start| if behind[start] == b'/' { &behind[start..] } else { b"/" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<String> {
        let key = LineKey::Ip(ClientsBy::EACH).canonical(text.as_bytes()).ok()?;
        Some(String::from_utf8(key.into_owned()).expect("made from text"))
    }

    #[test]
    fn equal_addresses_are_one_key_however_written() {
        assert_eq!(ip("192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(ip("::ffff:192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(ip("192.0.2.1:51312").as_deref(), Some("192.0.2.1"));
        assert_eq!(ip("2001:DB8:0:0::1").as_deref(), Some("2001:db8::1"));
        assert_eq!(ip("[2001:db8::1]:443").as_deref(), Some("2001:db8::1"));
        assert_eq!(ip("gate.example.org").as_deref(), Some("gate.example.org"));
    }

    #[test]
    fn addresses_of_one_network_are_one_key() {
        let key = |bits, text: &str| {
            let key = LineKey::Ip(ClientsBy { v6_bits: bits, proxies: None });
            String::from_utf8(key.canonical(text.as_bytes()).expect("an address").into_owned())
        };
        for (bits, text, expected) in [
            (64, "2001:db8:1:2::7", "2001:db8:1:2::/64"),
            (64, "[2001:db8:1:2:ffff::1]:443", "2001:db8:1:2::/64"),
            (48, "2001:db8:1:2::7", "2001:db8:1::/48"),
            (128, "2001:DB8:1:2::7", "2001:db8:1:2::7"),
            (64, "::ffff:192.0.2.1", "192.0.2.1"),
            (1, "192.0.2.1:51312", "192.0.2.1"),
        ] {
            assert_eq!(key(bits, text).as_deref(), Ok(expected), "{text}");
        }
        // `by` changes only keys that are addresses.
        assert_eq!(LineKey::User.by(&ClientsBy::EACH), LineKey::User);
    }

    #[test]
    fn a_field_that_is_named_as_an_address_loses_its_port() {
        let key: LineKey = "downstream_remote_address".parse().expect("any name is a key");
        for (text, expected) in [
            ("192.0.2.1:51312", "192.0.2.1"),
            ("[2001:db8::1]:443", "2001:db8::/64"),
            ("", "-"),
            ("unix:/a b", "unix:/a b"),
        ] {
            let made = key.by(&ClientsBy { v6_bits: 64, proxies: None });
            let made = made.canonical(text.as_bytes()).expect("any text will do");
            assert_eq!(*made, *expected.as_bytes());
        }
        let other: LineKey = "upstream_host".parse().expect("any name is a key");
        let kept = other.canonical(b"192.0.2.1:80").expect("any text will do");
        assert_eq!(*kept, *b"192.0.2.1:80");
    }

    #[test]
    fn what_is_neither_address_nor_host_name_is_refused() {
        for text in ["", "-", "300.1.1.1", "1.2.3", "a..b", "www.example.org:80", "two words"] {
            assert_eq!(ip(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_path_is_one_key_whatever_its_query() {
        let path = LineKey::Path.canonical(b"/search?q=1#top").expect("any text is a path");
        assert_eq!(*path, *b"/search");
        for (found, expected) in [
            ("http://www.example.com:80/a?b=/c", "/a"),
            ("https://www.example.com", "/"),
            ("https://www.example.com?a=/b", "/"),
            ("/login?next=http://www.example.com/", "/login"),
            ("www.example.com:443", "www.example.com:443"),
        ] {
            let path = LineKey::Path.canonical(found.as_bytes()).expect("any text is a path");
            assert_eq!(*path, *expected.as_bytes());
        }
        assert_eq!(*LineKey::User.canonical(b"").expect("any text is a user"), *b"-");
    }
}
