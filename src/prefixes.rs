//! [`Prefixes`]: how many bits of an address tell clients apart.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first bits of an address that tell clients apart: all 32 of IPv4, 64 of IPv6 by default.
///
/// A customer gets a /64 of IPv6 at least, and may come from any address in it. So clients that are counted by the whole
/// address are not counted at all.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate::{Prefixes, Quota, KeyedLimiter};
/// let limiter = KeyedLimiter::<IpAddr>::new(Quota::per_minute(60), 10_000)?;
/// let client = Prefixes::default().network("2001:db8:1:2:3::4".parse()?);
/// assert_eq!(client.to_string(), "2001:db8:1:2::");
/// assert!(limiter.check(&client, 1).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefixes {
    v4: u8,
    v6: u8,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

impl Prefixes {
    /// Every address is a client.
    ///
    /// ```
    /// use tollgate::Prefixes;
    /// let address = "2001:db8::4".parse()?;
    /// assert_eq!(Prefixes::WHOLE.network(address), address);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub const WHOLE: Self = Self { v4: 32, v6: 128 };

    /// Tells IPv4 clients apart by so many bits, 1 to 32.
    ///
    /// # Errors
    /// More bits, or none.
    ///
    /// ```
    /// use tollgate::Prefixes;
    /// let client = Prefixes::default().with_v4(24)?.network("203.0.113.7".parse()?);
    /// assert_eq!(client.to_string(), "203.0.113.0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_v4(self, bits: u8) -> Result<Self, PrefixError> {
        Ok(Self { v4: checked(bits, 32)?, ..self })
    }

    /// Tells IPv6 clients apart by so many bits, 1 to 128. Many customers get a /56 or a /48.
    ///
    /// # Errors
    /// More bits, or none.
    ///
    /// ```
    /// use tollgate::Prefixes;
    /// let client = Prefixes::default().with_v6(48)?.network("2001:db8:1:2::4".parse()?);
    /// assert_eq!(client.to_string(), "2001:db8:1::");
    /// assert!(Prefixes::default().with_v6(129).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_v6(self, bits: u8) -> Result<Self, PrefixError> {
        Ok(Self { v6: checked(bits, 128)?, ..self })
    }

    /// The bits that tell IPv6 clients apart.
    ///
    /// ```
    /// assert_eq!(tollgate::Prefixes::default().v6(), 64);
    /// ```
    #[must_use]
    pub const fn v6(self) -> u8 {
        self.v6
    }

    /// The first address of the client's network. An IPv4 address in IPv6 clothes (`::ffff:192.0.2.60`) is the IPv4
    /// address.
    ///
    /// ```
    /// use tollgate::Prefixes;
    /// let network = |address: &str| address.parse().map(|ip| Prefixes::default().network(ip).to_string());
    /// assert_eq!(network("192.0.2.60")?, "192.0.2.60");
    /// assert_eq!(network("::ffff:192.0.2.60")?, "192.0.2.60");
    /// assert_eq!(network("2001:db8:1:2:3::4")?, network("2001:db8:1:2::ffff")?);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn network(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(u32::BITS - u32::from(self.v4)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(u128::BITS - u32::from(self.v6)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }
}

fn checked(bits: u8, most: u8) -> Result<u8, PrefixError> {
    if (1..=most).contains(&bits) { Ok(bits) } else { Err(PrefixError { bits, most }) }
}

/// A prefix that no address has.
///
/// ```
/// let error = tollgate::Prefixes::default().with_v4(33).unwrap_err();
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
        let network = |prefixes: Result<Prefixes, PrefixError>, text: &str| {
            prefixes.expect("a prefix").network(text.parse().expect(text)).to_string()
        };
        let v4 = |bits, text| network(Prefixes::WHOLE.with_v4(bits), text);
        assert_eq!(v4(32, "203.0.113.7"), "203.0.113.7");
        assert_eq!(v4(24, "203.0.113.7"), "203.0.113.0");
        assert_eq!(v4(1, "203.0.113.7"), "128.0.0.0");
        let v6 = |bits, text| network(Prefixes::default().with_v6(bits), text);
        assert_eq!(v6(128, "2001:db8:1:2:3::4"), "2001:db8:1:2:3::4");
        assert_eq!(v6(64, "2001:db8:1:2:3::4"), "2001:db8:1:2::");
        assert_eq!(v6(56, "2001:db8:1:2ff::"), "2001:db8:1:200::");
        assert_eq!(v6(48, "2001:db8:1:2::"), "2001:db8:1::");
        assert_eq!(v6(1, "ffff::1"), "8000::");
    }
}
