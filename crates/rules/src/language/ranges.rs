//! Finds, of the networks that an address lies in, the one with the longest prefix.
//!
//! One map holds all networks. A search looks an address up once for each prefix length that occurs among the networks
//! of its family, the longest first. So it takes at most 129 look-ups, however many networks there are.

use std::collections::HashMap;

use ahash::RandomState;
use ipnet::IpNet;

use crate::language::value::canonical;

/// A map from networks to values.
#[derive(Debug)]
pub(crate) struct Ranges<T> {
    of_range: HashMap<IpNet, T, RandomState>,
    /// The prefix lengths that occur, longest first: those of IPv4, and those of IPv6.
    lengths: [Vec<u8>; 2],
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self { of_range: HashMap::default(), lengths: Default::default() }
    }
}

/// The longest text of a network: that of an IPv6 address, `/` and three digits.
const MAX_TEXT: usize = 49;

impl<T> Ranges<T> {
    pub(crate) fn insert(&mut self, range: IpNet, of_it: T) {
        let lengths = &mut self.lengths[family(&range)];
        if let Err(at) = lengths.binary_search_by(|length| range.prefix_len().cmp(length)) {
            lengths.insert(at, range.prefix_len());
        }
        self.of_range.insert(range, of_it);
    }

    /// The values of all networks, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.of_range.values()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.of_range.values_mut()
    }

    /// The value of the network with the longest prefix that contains the address or the whole network in `text`.
    pub(crate) fn find(&self, text: &str) -> Option<&T> {
        let asked = network(text)?;
        let not_longer =
            self.lengths[family(&asked)].iter().filter(|bits| **bits <= asked.prefix_len());
        not_longer
            .filter_map(|bits| IpNet::new(asked.addr(), *bits).ok())
            .find_map(|of| self.of_range.get(&of.trunc()))
    }
}

fn family(of: &IpNet) -> usize {
    usize::from(matches!(of, IpNet::V6(_)))
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
    /// prefix.
    #[test]
    fn as_by_trying_all() {
        let texts: Vec<String> = (0..=32_u8)
            .flat_map(|bits| {
                [0x0a01_0203_u32, 0x0a01_ffff, 0xc000_0200].map(|address| (address, bits))
            })
            .filter(|(address, bits)| (address ^ u32::from(*bits)) % 3 != 0)
            .map(|(address, bits)| {
                IpNet::new(std::net::Ipv4Addr::from(address).into(), bits).expect("bits")
            })
            .map(|net| net.trunc().to_string())
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (ranges, networks) =
            (of(&texts), texts.iter().map(|text| text.parse::<IpNet>().expect("a network")));
        let networks: Vec<IpNet> = networks.collect();
        for n in 0..20_000_u32 {
            let address = std::net::Ipv4Addr::from(
                [0x0a01_0203_u32, 0xc000_0200][n as usize % 2] ^ (1 << (n % 32)) ^ n,
            );
            let holds = networks.iter().filter(|net| net.contains(&std::net::IpAddr::V4(address)));
            let longest = holds.max_by_key(|net| net.prefix_len()).map(ToString::to_string);
            assert_eq!(ranges.find(&address.to_string()).cloned(), longest, "{address}");
        }
    }
}
