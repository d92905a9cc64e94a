//! [`TrustedProxies`]: the proxies that are believed when they name a client's address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use crate::error::KeyError;
use crate::extract::ClientAddress;

/// The networks of proxies that are believed when they name a client's address. The text form has addresses and
/// networks with commas between them, or is `none`. By default only this machine is believed, 127.0.0.1 and ::1.
///
/// ```
/// use tollgate_http::keys::TrustedProxies;
/// let proxies: TrustedProxies = "10.0.0.7, fd00::/8".parse()?;
/// assert_eq!(proxies.to_string(), "10.0.0.7/32,fd00::/8");
/// assert_eq!(TrustedProxies::default().to_string(), "127.0.0.1/32,::1/128");
/// assert_eq!("none".parse::<TrustedProxies>()?.to_string(), "none");
/// # Ok::<(), tollgate_http::keys::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// An extractor of the address of a client behind these proxies.
    ///
    /// ```
    /// use tollgate_http::keys::{Extract, TrustedProxies};
    /// let proxies: TrustedProxies = "10.0.0.0/8".parse()?;
    /// let _: &dyn Extract = &proxies.client_address();
    /// # Ok::<(), tollgate_http::keys::KeyError>(())
    /// ```
    #[must_use]
    pub fn client_address(&self) -> ClientAddress {
        ClientAddress::trusting(self.0.iter().copied())
    }
}

impl Default for TrustedProxies {
    fn default() -> Self {
        let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        Self(here.map(IpNet::from).to_vec())
    }
}

impl FromStr for TrustedProxies {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.trim() == "none" {
            return Ok(Self(Vec::new()));
        }
        let network = |part: &str| {
            let address = || part.parse::<IpAddr>().map(IpNet::from);
            let network = part.parse::<IpNet>().or_else(|_| address()).ok();
            let network = network.filter(|network| *network == network.trunc());
            network.ok_or_else(|| KeyError::TrustedProxies { found: part.to_owned() })
        };
        text.split(',').map(|part| network(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (n, network) in self.0.iter().enumerate() {
            write!(f, "{}{network}", if n == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
