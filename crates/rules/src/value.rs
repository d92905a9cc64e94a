//! [`ValueMatch`]: the values of its key that a descriptor matches; and the keys and values of requests.

use std::fmt;

use ipnet::{IpNet, Ipv4Net};

/// A key and a value of a descriptor. The value may be empty.
pub type DescriptorEntry<'a> = (&'a str, &'a str);

/// The values that a descriptor matches, if it does not match all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ValueMatch {
    /// This text, or all texts of its form if it has stars.
    Text(Box<str>),
    /// The addresses and the networks that lie in this one.
    Range(IpNet),
    /// The texts that this regular expression matches as a whole.
    Expression(Box<str>),
}

impl ValueMatch {
    /// Whether only one text is matched.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::Text(text) if !text.contains('*'))
    }

    /// Tells the kinds apart where their texts are written one after the other.
    pub(crate) fn mark(&self) -> &'static str {
        match self {
            Self::Text(_) => "",
            Self::Range(_) => "=",
            Self::Expression(_) => "~",
        }
    }

    /// The bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Expression(text) => text.len(),
            Self::Range(_) => 0,
        }
    }
}

/// Prints it as it stands in the path of a rule.
impl fmt::Display for ValueMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Range(range) => range.fmt(f),
            Self::Expression(text) => write!(f, "/{text}/"),
        }
    }
}

/// The network; as one of IPv4 if it is an IPv4-mapped one of IPv6 (`::ffff:10.0.0.0/104`).
pub(crate) fn canonical(network: IpNet) -> IpNet {
    match network {
        IpNet::V6(of) if of.prefix_len() >= 96 => {
            let inner = of.addr().to_ipv4_mapped();
            let inner = inner.and_then(|address| Ipv4Net::new(address, of.prefix_len() - 96).ok());
            inner.map_or(network, IpNet::V4)
        }
        _ => network,
    }
}

/// Whether a text has the form of a network, with whatever prefix.
pub(crate) fn looks_like_range(text: &str) -> bool {
    let is_number = |bits: &str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('/').is_some_and(|(address, bits)| {
        is_number(bits) && address.parse::<std::net::IpAddr>().is_ok()
    })
}
