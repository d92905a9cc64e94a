//! [`ValueMatch`]: the values that a descriptor of a file matches. [`DescriptorEntry`]: a key and a value of a request.

use std::fmt;

use ipnet::{IpNet, Ipv4Net};

/// A key and a value of a request's descriptor. The value may be empty.
pub type DescriptorEntry<'a> = (&'a str, &'a str);

/// The values that a descriptor of a file matches, if it does not match all values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ValueMatch {
    /// This text or, if it has stars, all texts that match it as a pattern.
    Text(Box<str>),
    /// The addresses and the networks that lie in this network.
    Range(IpNet),
    /// The texts that this regular expression matches as a whole.
    Expression(Box<str>),
}

impl ValueMatch {
    /// Whether only one text matches.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::Text(text) if !text.contains('*'))
    }

    /// The mark that [`RuleId::text`](crate::language::rule_id::RuleId::text) puts before a value to tell its kind.
    pub(crate) fn mark(&self) -> &'static str {
        match self {
            Self::Text(_) => "",
            Self::Range(_) => "=",
            Self::Expression(_) => "~",
        }
    }

    /// The bytes that the value takes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Expression(text) => text.len(),
            Self::Range(_) => 0,
        }
    }
}

/// Prints the value as in the path of a rule.
impl fmt::Display for ValueMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Range(range) => range.fmt(f),
            Self::Expression(text) => write!(f, "/{text}/"),
        }
    }
}

/// Converts an IPv4-mapped network of IPv6 (`::ffff:10.0.0.0/104`) to the network of IPv4. Other networks stay as they
/// are.
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

/// Whether a text has the form of a network: an address, `/` and digits.
pub(crate) fn looks_like_range(text: &str) -> bool {
    let is_number = |bits: &str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('/').is_some_and(|(address, bits)| {
        is_number(bits) && address.parse::<std::net::IpAddr>().is_ok()
    })
}
