//! [`ClientsBy`]: makes clients of addresses, in the same way as the middleware of tollgate-tower.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::Request;
use http::header::HeaderValue;
use ipnet::Ipv6Net;
use tollgate_http::keys::{Head, PeerAddress, TrustedProxies, node_address};

use super::chain::{is_chain, links};
use super::reason::Reason;

/// The rule by which addresses become clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientsBy {
    /// The number of bits of an IPv6 address that tell clients apart, 1 to 128.
    pub(crate) v6_bits: u8,
    /// The proxies that are believed when they name a client's address. None if no proxies were named.
    pub(crate) proxies: Option<Arc<TrustedProxies>>,
}

impl ClientsBy {
    /// Each address is a client.
    pub(crate) const EACH: Self = Self { v6_bits: 128, proxies: None };

    /// Returns the canonical text of an address. The text has no port and no zone, and an IPv4-mapped address is
    /// written as IPv4. If `v6_bits` is below 128, an IPv6 address becomes its network, as in `2001:db8::/64`. A chain
    /// becomes the client that the middleware would find. A host name, which some servers log in place of an address,
    /// is kept as it is.
    pub(crate) fn canonical<'t>(&self, found: &'t [u8]) -> Result<Cow<'t, [u8]>, Reason> {
        if let Some(address) = node_address(found) {
            return Ok(self.text(address, found));
        }
        match &self.proxies {
            Some(proxies) if is_chain(found) => {
                let client = client_of(found, proxies);
                Ok(self.text(client.ok_or_else(|| Reason::not_an_address(found))?, found))
            }
            None if is_chain(found) => Err(Reason::chain(found)),
            _ if is_host_name(found) => Ok(Cow::Borrowed(found)),
            _ => Err(Reason::not_an_address(found)),
        }
    }

    fn text<'t>(&self, address: IpAddr, found: &'t [u8]) -> Cow<'t, [u8]> {
        let canonical = match (address, self.v6_bits) {
            // The bits were checked when the options were read.
            (IpAddr::V6(address), 1..128) => Ipv6Net::new(address, self.v6_bits)
                .map_or_else(|_| address.to_string(), |network| network.trunc().to_string()),
            (address, _) => address.to_string(),
        };
        if canonical.as_bytes() == found {
            Cow::Borrowed(found)
        } else {
            Cow::Owned(canonical.into_bytes())
        }
    }
}

/// Returns the client that the middleware finds in a chain whose last address is that of the peer.
fn client_of(chain: &[u8], proxies: &TrustedProxies) -> Option<IpAddr> {
    let mut request = Request::new(());
    let peer = links(chain).next_back()?;
    request.extensions_mut().insert(PeerAddress(node_address(peer)?));
    let others: Vec<_> = links(chain).collect();
    let others = others.split_last()?.1.join(&b", "[..]);
    request.headers_mut().insert("x-forwarded-for", HeaderValue::from_bytes(&others).ok()?);
    proxies.client_address().find(&Head::of(&request))
}

/// Returns whether a text is a host name: letters, digits, `-` and `_` in labels separated by dots. A text of only
/// digits and dots is not a host name: `1.2.3` and `300.1.1.1` are misspelled addresses.
fn is_host_name(text: &[u8]) -> bool {
    let label = |label: &[u8]| {
        !label.is_empty() && label.iter().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b))
    };
    text.split(|&b| b == b'.').all(label) && text.iter().any(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the client of a chain behind proxies.
    fn client(proxies: &str, chain: &str) -> Result<String, String> {
        let proxies = proxies.parse().expect("networks");
        let clients = ClientsBy { v6_bits: 64, proxies: Some(Arc::new(proxies)) };
        let found = clients.canonical(chain.as_bytes()).map_err(|reason| reason.to_string())?;
        Ok(String::from_utf8_lossy(&found).into_owned())
    }

    #[test]
    fn of_a_chain_the_first_address_from_the_right_that_is_no_proxy_is_the_client() {
        for (proxies, chain, expected) in [
            ("10.0.0.0/8", "203.0.113.21, 10.0.0.50", "203.0.113.21"),
            ("10.0.0.0/8", "1.2.3.4, 203.0.113.21:4711, 10.0.0.7,10.0.0.50", "203.0.113.21"),
            // An address from an unknown peer is not believed.
            ("10.0.0.0/8", "203.0.113.21, 192.0.2.9", "192.0.2.9"),
            ("none", "203.0.113.21, 10.0.0.50", "10.0.0.50"),
            ("10.0.0.0/8", "10.0.0.1, 10.0.0.2", "10.0.0.1"),
            // The search from the right ends at a part that is no address.
            ("10.0.0.0/8", "203.0.113.21, -, 10.0.0.50", "10.0.0.50"),
            ("10.0.0.0/8", "-, 10.0.0.50", "10.0.0.50"),
            ("10.0.0.0/8", "203.0.113.21,+10.0.0.50", "203.0.113.21"),
            ("10.0.0.0/8", "203.0.113.21,%2010.0.0.50", "203.0.113.21"),
            ("fd00::/8", "2001:db8::1, [fd00::2]:443", "2001:db8::/64"),
        ] {
            assert_eq!(client(proxies, chain).as_deref(), Ok(expected), "{chain}");
        }
        let refused = client("10.0.0.0/8", "203.0.113.21, -").expect_err("the peer is not known");
        assert!(refused.contains("is no client address"), "{refused}");
    }
}
