//! One element of a forwarding header: an address in the forms in which proxies write it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A text with more bytes than this is not an address. The longest form is `[`, 45 bytes of IPv6, `%`, a zone, `]:` and
/// a port.
const NODE_MAX: usize = 128;

/// The address in one element of `X-Forwarded-For`, as [`ClientAddress`](crate::keys::ClientAddress) reads it: IPv4 or IPv6,
/// with or without brackets, a zone, or a port. An IPv4-mapped IPv6 address is the IPv4 address. `None` for `unknown`,
/// for names that hide the client (`_hidden`) and for everything else.
///
/// ```
/// use tollgate_http::keys::node_address;
/// assert_eq!(node_address(b"[fe80::1%eth0]:4711"), "fe80::1".parse().ok());
/// assert_eq!(node_address(b"unknown"), None);
/// ```
#[must_use]
pub fn address(text: &[u8]) -> Option<IpAddr> {
    if text.len() > NODE_MAX {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t']);
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let port = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return if port { v6(inside) } else { None };
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(address.into());
    }
    match text.split_once(':') {
        // More than one colon: IPv6 without brackets, which cannot have a port.
        Some((_, rest)) if rest.contains(':') => v6(text),
        Some((host, port)) if is_port(port) => host.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        _ => None,
    }
}

/// Whether the text is a port. RFC 7239 also allows a name in its place.
fn is_port(text: &str) -> bool {
    let byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !text.is_empty() && text.bytes().all(byte)
}

/// Parses IPv6, and drops a zone, which is meaningful only on the proxy's own links. An IPv4-mapped IPv6 address
/// becomes the IPv4 address.
fn v6(text: &str) -> Option<IpAddr> {
    let (address, _zone) = text.split_once('%').unwrap_or((text, ""));
    let address: Ipv6Addr = address.parse().ok()?;
    Some(IpAddr::from(address).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_form_that_proxies_write() {
        for (text, expected) in [
            ("192.0.2.60", "192.0.2.60"),
            (" 192.0.2.60\t", "192.0.2.60"),
            ("192.0.2.60:8080", "192.0.2.60"),
            ("192.0.2.60:_port", "192.0.2.60"),
            ("2001:db8::17", "2001:db8::17"),
            ("[2001:db8::17]", "2001:db8::17"),
            ("[2001:db8::17]:4711", "2001:db8::17"),
            ("[fe80::1%eth0]:4711", "fe80::1"),
            ("::ffff:192.0.2.60", "192.0.2.60"),
            ("[::ffff:c000:23c]", "192.0.2.60"),
        ] {
            assert_eq!(address(text.as_bytes()), Some(expected.parse().expect(expected)), "{text}");
        }
    }

    #[test]
    fn an_address_has_up_to_128_bytes() {
        let zoned = |zone: usize| format!("fe80::1%{}", "z".repeat(zone));
        assert_eq!(address(zoned(120).as_bytes()), "fe80::1".parse().ok());
        assert_eq!(address(zoned(121).as_bytes()), None);
    }

    #[test]
    fn what_is_no_address_is_none() {
        let long = "1".repeat(10_000);
        for text in [
            "",
            " ",
            "unknown",
            "_hidden",
            "_SEVKISEK",
            "example.com",
            "192.0.2",
            "192.0.2.256",
            "192.0.2.60:",
            "192.0.2.60:80:80",
            "[192.0.2.60]",
            "[2001:db8::17",
            "2001:db8::17]",
            "[2001:db8::17]4711",
            "[2001:db8::17]:",
            "[]",
            "-",
            "\"192.0.2.60\"",
            "192.0.2.60 x",
            "0x7f.1",
            "127.1",
            "\u{661}27.0.0.1",
            "1e3",
            &long,
        ] {
            assert_eq!(address(text.as_bytes()), None, "{text}");
        }
        assert_eq!(address(b"\xff\xfe"), None);
    }
}
