//! Builds the client identifier: the key under which a table counts a descriptor.
//!
//! Every rule has tables of its own, so the key contains only the values that the rule leaves open, and nothing that
//! all requests of the rule have in common. Each part is prefixed with its length, and the rule fixes the number of
//! parts. So no two lists of parts give the same bytes.
//!
//! A client with an IPv6 address has at least a /64 of addresses. So if a value parses as an IPv6 address, by default
//! all addresses of its /64 are one client. This applies under any key, because addresses may stand under any name:
//! `remote_address`, `masked_remote_address`, or a name that the user has chosen. IPv4 addresses are grouped only where
//! a rule says so.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::language::value::DescriptorEntry;

/// The parts of a descriptor that a rule leaves open, and how values are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identifier {
    pub(crate) parts: Box<[KeyPart]>,
    pub(crate) bits: AddressBits,
}

/// The number of leading bits of an address that tell clients apart; `None` if all bits do. If both numbers are `None`,
/// addresses are compared as they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressBits {
    /// The bits of an IPv4 address, 1 to 32.
    pub(crate) v4: Option<u8>,
    /// The bits of an IPv6 address, 1 to 128.
    pub(crate) v6: Option<u8>,
}

impl AddressBits {
    /// The default: a customer gets at least a /64 of IPv6, and may send from any address in it.
    pub(crate) const USUAL: Self = Self { v4: None, v6: Some(64) };

    /// The bits of `self`, and those of `others` where `self` has `None`.
    pub(crate) fn or(self, others: Self) -> Self {
        Self { v4: self.v4.or(others.v4), v6: self.v6.or(others.v6) }
    }
}

/// The part of a request's entry that goes into the key. It depends on the rule only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyPart {
    /// Nothing, because the rule names the value, or all values that match share one limit.
    Fixed,
    /// The value, because the rule names the key and leaves the value open.
    Value,
    /// The key and the value, because the rule's key is a pattern.
    KeyAndValue,
}

/// Whether all requests of a rule share one key.
pub(crate) fn is_constant(parts: &[KeyPart]) -> bool {
    parts.iter().all(|part| *part == KeyPart::Fixed)
}

/// Appends the parts that the rule leaves open.
pub(crate) fn append(key: &mut Vec<u8>, of: &Identifier, entries: &[DescriptorEntry<'_>]) {
    for (part, (entry_key, entry_value)) in of.parts.iter().zip(entries) {
        match part {
            KeyPart::Fixed => {}
            KeyPart::Value => append_value(key, entry_value, of.bits),
            KeyPart::KeyAndValue => {
                append_part(key, entry_key);
                append_value(key, entry_value, of.bits);
            }
        }
    }
}

/// Appends the domain and all entries, for limits that come with requests.
pub(crate) fn append_all(
    key: &mut Vec<u8>,
    domain: &str,
    entries: &[DescriptorEntry<'_>],
    bits: AddressBits,
) {
    append_part(key, domain);
    for (entry_key, entry_value) in entries {
        append_part(key, entry_key);
        append_value(key, entry_value, bits);
    }
}

/// Appends a value. For an address it appends the network, written as the network's first address. This address lies in
/// the network, so no value of another network gives the same bytes.
fn append_value(key: &mut Vec<u8>, value: &str, bits: AddressBits) {
    let Some(network) = network(value, bits) else { return append_part(key, value) };
    let length_at = key.len();
    key.extend_from_slice(&[0; 8]);
    // Writing to memory cannot fail.
    let _ = write!(key, "{network}");
    let length = (key.len() - length_at - 8) as u64;
    key[length_at..length_at + 8].copy_from_slice(&length.to_le_bytes());
}

/// Parses an IPv6 address. Most values are not addresses, and most of those are recognised by their characters, without
/// parsing.
fn v6(value: &str) -> Option<Ipv6Addr> {
    let is_of_one = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    let may_be = value.len() <= 45 && value.contains(':') && value.bytes().all(is_of_one);
    may_be.then(|| value.parse::<Ipv6Addr>().ok()).flatten()
}

/// The first address of the network that an address belongs to; `None` if the value is to be used as it is written. An
/// IPv4-mapped address (`::ffff:192.0.2.60`) is treated as the IPv4 address.
fn network(value: &str, AddressBits { v4, v6: v6_bits }: AddressBits) -> Option<IpAddr> {
    v4.or(v6_bits)?;
    let address = match v6(value) {
        Some(address) => address.to_canonical(),
        None => {
            v4?;
            IpAddr::V4(value.parse::<Ipv4Addr>().ok()?)
        }
    };
    let bits = match address {
        IpAddr::V4(_) => v4.unwrap_or(32),
        IpAddr::V6(_) => v6_bits?,
    };
    // The bits were checked when the rule was read.
    Some(IpNet::new(address, bits).map_or(address, |of| of.network()))
}

fn append_part(key: &mut Vec<u8>, part: &str) {
    key.extend_from_slice(&(part.len() as u64).to_le_bytes());
    key.extend_from_slice(part.as_bytes());
}

/// A key as text: its values, with `,` between them, and `%2C` for a comma within a value. A rule leaves a fixed number
/// of values open, so no two keys of a rule have the same text.
pub(crate) fn readable(mut key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    while let Some((length, rest)) = key.split_first_chunk() {
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (value, others) = rest.split_at(length.min(rest.len()));
        for letter in String::from_utf8_lossy(value).chars() {
            match letter {
                '%' => text += "%25",
                ',' => text += "%2C",
                _ => text.push(letter),
            }
        }
        text.extend((!others.is_empty()).then_some(','));
        key = others;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(parts: &[KeyPart], entries: &[DescriptorEntry<'_>]) -> Vec<u8> {
        of(AddressBits::USUAL, parts, entries)
    }

    fn of(bits: AddressBits, parts: &[KeyPart], entries: &[DescriptorEntry<'_>]) -> Vec<u8> {
        let mut key = Vec::new();
        append(&mut key, &Identifier { parts: parts.into(), bits }, entries);
        key
    }

    #[test]
    fn addresses_of_one_network_are_one_value_and_nothing_else_is() {
        let value =
            |v4, v6, value: &str| of(AddressBits { v4, v6 }, &[KeyPart::Value], &[("k", value)]);
        let by_64 = |one: &str| value(None, Some(64), one);
        let as_written = |one: &str| value(None, None, one);
        let network = by_64("2001:db8:1:2::");
        for one in ["2001:db8:1:2::1", "2001:DB8:1:2:ffff::", "2001:0db8:0001:0002:0:0:0:9"] {
            assert_eq!(by_64(one), network, "{one}");
            assert_eq!(
                as_written(one),
                [&(one.len() as u64).to_le_bytes(), one.as_bytes()].concat()
            );
        }
        for other in
            ["2001:db8:1:3::", "2001:db8:1:2", "[2001:db8:1:2::1]", "2001:db8:1:2::1%eth0", "::1"]
        {
            assert_ne!(by_64(other), network, "{other}");
        }
        assert_eq!(by_64("::ffff:192.0.2.1"), by_64("192.0.2.1"));
        assert_ne!(by_64("192.0.2.1"), by_64("192.0.2.2"));
        let whole = |one: &str| value(None, Some(128), one);
        assert_ne!(whole("2001:db8::1"), whole("2001:db8::2"));
        assert_eq!(whole("2001:db8::1"), whole("2001:DB8:0::1"));
        // A text that is not an address stays unchanged.
        for one in ["", ":", "10:20", "a:b", "dead:beef", "1.2.3.4", "2001:db8::1/64"] {
            assert_eq!(by_64(one), as_written(one), "{one}");
            assert_eq!(
                value(Some(24), Some(64), one) == as_written(one),
                one != "1.2.3.4",
                "{one}"
            );
        }
        let by_24 = |one: &str| value(Some(24), None, one);
        for one in ["192.0.2.0", "192.0.2.1", "192.0.2.255", "::ffff:192.0.2.7"] {
            assert_eq!(by_24(one), by_24("192.0.2.60"), "{one}");
        }
        for other in ["192.0.3.1", "192.0.2.01", "192.0.2", "192.0.2.1:80", "::c000:0201"] {
            assert_ne!(by_24(other), by_24("192.0.2.60"), "{other}");
        }
        assert_eq!(by_24("2001:DB8::1"), as_written("2001:DB8::1"));
    }

    #[test]
    fn no_two_lists_of_values_make_one_key() {
        let values = ["", "a", "b", "ab", "\0", "a\0", "1\0\0\0\0\0\0\0a", "a_b", "b_c"];
        let mut seen = std::collections::HashSet::new();
        for one in values {
            for other in values {
                let key = built(&[KeyPart::Value; 2], &[("k", one), ("l", other)]);
                assert!(seen.insert(key), "{one:?} and {other:?}");
            }
        }
        let joined = built(&[KeyPart::KeyAndValue], &[("a_b", "c")]);
        assert_ne!(joined, built(&[KeyPart::KeyAndValue], &[("a", "b_c")]));
    }

    #[test]
    fn what_a_rule_names_is_no_part_of_its_key() {
        let parts = [KeyPart::Fixed, KeyPart::Value];
        let key = built(&parts, &[("plan", "free"), ("user", "alice")]);
        assert_eq!(key, [&5_u64.to_le_bytes()[..], b"alice"].concat());
        assert!(is_constant(&[KeyPart::Fixed; 3]) && !is_constant(&parts));
    }

    #[test]
    fn a_key_as_text_is_its_values_and_no_two_become_one() {
        let of = |values: &[&str]| {
            let mut key = Vec::new();
            values.iter().for_each(|value| append_part(&mut key, value));
            readable(&key)
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["203.0.113.7"]), "203.0.113.7");
        assert_eq!(of(&["alice", "/login"]), "alice,/login");
        assert_eq!(of(&["a,b", "%2C"]), "a%2Cb,%252C");
        assert_ne!(of(&["", "a"]), of(&["a", ""]));
        assert_ne!(of(&["a,b", "c"]), of(&["a", "b,c"]));
    }
}
