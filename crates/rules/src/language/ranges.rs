//! Finds the network with the longest prefix among the networks that contain an address.
//!
//! The networks are in a trie of the crate `prefix-trie`, which holds networks of IPv4 and IPv6. A look-up follows at
//! most one path of the trie. The number of bits of an address bounds the length of a path, whatever the number of
//! networks.

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;

use crate::language::value::canonical;

/// A map from networks to values.
#[derive(Debug)]
pub(crate) struct Ranges<T>(JointPrefixMap<IpNet, T>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self(JointPrefixMap::default())
    }
}

/// The length of the longest text of a network: an IPv6 address, `/` and three digits.
const MAX_TEXT: usize = 49;

impl<T> Ranges<T> {
    pub(crate) fn insert(&mut self, range: IpNet, of_it: T) {
        self.0.insert(range, of_it);
    }

    /// The values of all networks, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut()
    }

    /// The value of the network with the longest prefix that contains the address or the whole network in `text`.
    pub(crate) fn find(&self, text: &str) -> Option<&T> {
        self.0.get_lpm(&network(text)?).map(|(_, of)| of)
    }
}

/// Parses an address, as the network that has only this address, or a network: values of Envoy's
/// `masked_remote_address` are networks.
fn network(text: &str) -> Option<IpNet> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let address = text.parse().map(|address: std::net::IpAddr| IpNet::from(address));
    address.or_else(|_| text.parse()).ok().map(canonical)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    fn of(ranges: &[&str]) -> Ranges<String> {
        let mut all = Ranges::default();
        for range in ranges {
            all.insert(canonical(range.parse().expect("a network")), (*range).to_owned());
        }
        all
    }

    #[test]
    fn the_longest_network_that_holds_all_of_the_value_is_found() {
        let ranges =
            of(&["10.0.0.0/8", "0.0.0.0/0", "10.1.0.0/16", "2001:db8::/32", "2001:db8::1/128"]);
        for (text, expected) in [
            ("10.1.2.3", Some("10.1.0.0/16")),
            ("10.2.2.3", Some("10.0.0.0/8")),
            ("11.0.0.1", Some("0.0.0.0/0")),
            ("::ffff:10.1.2.3", Some("10.1.0.0/16")),
            ("10.1.0.0/16", Some("10.1.0.0/16")),
            ("10.1.2.0/24", Some("10.1.0.0/16")),
            ("10.0.0.0/15", Some("10.0.0.0/8")),
            ("::ffff:10.1.2.0/120", Some("10.1.0.0/16")),
            ("2001:db8::1", Some("2001:db8::1/128")),
            ("2001:DB8:0::2", Some("2001:db8::/32")),
            ("2001:db9::2", None),
            ("10.1.2.3:80", None),
            ("10.1.2.3/33", None),
            ("10.1.2", None),
            ("010.1.2.3", None),
            ("[2001:db8::1]", None),
            ("", None),
        ] {
            assert_eq!(ranges.find(text).map(String::as_str), expected, "{text}");
        }
        assert!(of(&[]).find("10.1.2.3").is_none());
        assert!(of(&["::ffff:10.0.0.0/104"]).find("10.1.2.3").is_some());
    }

    /// Compares the result with the definition: of all networks that contain the address, the one with the longest
    /// prefix. The test looks for addresses of these networks in which one bit and some of the last bits are changed.
    #[test]
    fn as_by_trying_all() {
        let (v4, v6) =
            ([0x0a01_0203_u32, 0x0a01_ffff, 0xc000_0200], 0x2001_0db8_u128 << 96 | 0x0102_0304);
        let is_taken = |n: u32| !n.is_multiple_of(3);
        let of_v4 = (0..=32_u8).flat_map(|bits| v4.map(|address| (address, bits)));
        let of_v4 = of_v4.filter(|(address, bits)| is_taken(address ^ u32::from(*bits)));
        let of_v4 = of_v4.map(|(address, bits)| IpNet::new(Ipv4Addr::from(address).into(), bits));
        let of_v6 = (0..=128_u8).filter(|bits| is_taken(u32::from(*bits)));
        let of_v6 = of_v6.map(|bits| IpNet::new(Ipv6Addr::from(v6).into(), bits));
        let networks = of_v4.chain(of_v6).map(|net| net.expect("bits").trunc());
        let networks: Vec<IpNet> = networks.map(canonical).collect();
        let texts: Vec<String> = networks.iter().map(ToString::to_string).collect();
        let ranges = of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for n in 0..20_000_u32 {
            let address: IpAddr = match n % 3 {
                0 => Ipv6Addr::from(v6 ^ (1 << (n % 128)) ^ u128::from(n)).into(),
                family => Ipv4Addr::from(v4[family as usize] ^ (1 << (n % 32)) ^ n).into(),
            };
            let holds = networks.iter().filter(|net| net.contains(&address));
            let longest = holds.max_by_key(|net| net.prefix_len()).map(ToString::to_string);
            assert_eq!(ranges.find(&address.to_string()).cloned(), longest, "{address}");
        }
    }
}
