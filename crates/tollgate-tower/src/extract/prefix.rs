//! How many bits of an address tell clients apart.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The first bits of an address that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefixes {
    pub(super) v4: u8,
    pub(super) v6: u8,
}

/// An IPv4 address is one client, and an IPv6 /64 is: no customer gets less.
impl Default for Prefixes {
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

impl Prefixes {
    pub(super) fn check(bits: u8, most: u8) -> Result<u8, PrefixError> {
        if (1..=most).contains(&bits) { Ok(bits) } else { Err(PrefixError { bits, most }) }
    }

    #[inline]
    pub(super) fn v4_network(self, address: Ipv4Addr) -> [u8; 4] {
        let mask = u32::MAX.checked_shl(u32::BITS - u32::from(self.v4)).unwrap_or(0);
        (address.to_bits() & mask).to_be_bytes()
    }

    #[inline]
    pub(super) fn v6_network(self, address: Ipv6Addr) -> [u8; 16] {
        let mask = u128::MAX.checked_shl(u128::BITS - u32::from(self.v6)).unwrap_or(0);
        (address.to_bits() & mask).to_be_bytes()
    }
}

/// A prefix that no address has.
///
/// ```
/// use tollgate_tower::ClientAddress;
/// let error = ClientAddress::peer().v4_prefix(33).unwrap_err();
/// assert_eq!(error.to_string(), "a prefix of 33 bits is not possible; use 1 to 32");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixError {
    bits: u8,
    most: u8,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a prefix of {} bits is not possible; use 1 to {}", self.bits, self.most)
    }
}

impl std::error::Error for PrefixError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_bits_count() {
        let v4 = |v4, text: &str| {
            let network = Prefixes { v4, v6: 64 }.v4_network(text.parse().expect(text));
            Ipv4Addr::from(network).to_string()
        };
        assert_eq!(v4(32, "203.0.113.7"), "203.0.113.7");
        assert_eq!(v4(24, "203.0.113.7"), "203.0.113.0");
        assert_eq!(v4(1, "203.0.113.7"), "128.0.0.0");
        let v6 = |v6, text: &str| {
            let network = Prefixes { v4: 32, v6 }.v6_network(text.parse().expect(text));
            Ipv6Addr::from(network).to_string()
        };
        assert_eq!(v6(128, "2001:db8:1:2:3::4"), "2001:db8:1:2:3::4");
        assert_eq!(v6(64, "2001:db8:1:2:3::4"), "2001:db8:1:2::");
        assert_eq!(v6(56, "2001:db8:1:2ff::"), "2001:db8:1:200::");
        assert_eq!(v6(48, "2001:db8:1:2::"), "2001:db8:1::");
    }
}
