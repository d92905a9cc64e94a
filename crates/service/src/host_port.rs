//! [`HostPort`]: an address to listen on, or to send to.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::address_error::AddressError;
use crate::host_name::HostName;

/// An address to listen on: an IP address or a host name with a port, or a colon and a port (`:8080`), which means all
/// addresses. With port 0 the system chooses a free port.
///
/// ```
/// use tollgate_service::HostPort;
/// let name: HostPort = "localhost:8080".parse()?;
/// assert_eq!((name.to_string().as_str(), name.port()), ("localhost:8080", 8080));
/// assert_eq!("[::1]:8080".parse(), Ok(HostPort::Address(([0, 0, 0, 0, 0, 0, 0, 1], 8080).into())));
/// assert_eq!(":8080".parse(), Ok(HostPort::Everywhere(8080)));
/// let error = "8080".parse::<HostPort>().unwrap_err();
/// assert!(error.to_string().contains("as in 127.0.0.1:8080, [::1]:8080 or localhost:8080"));
/// for bad in ["localhost", ":", ":http", "a b:80", "[::1]", "::1", "localhost:70000", "http://a:80"] {
///     assert!(bad.parse::<HostPort>().is_err(), "{bad}");
/// }
/// # Ok::<(), tollgate_service::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPort {
    /// An IP address.
    Address(SocketAddr),
    /// A name that is resolved when the service starts. If it has several addresses, the service listens on the first
    /// that the system lets it use.
    Name(HostName, u16),
    /// All addresses of the machine, of IPv6 and of IPv4, as in `:8080`. A machine without IPv6 listens on its IPv4
    /// addresses alone. Nothing can be sent to this address.
    Everywhere(u16),
}

impl HostPort {
    /// The port.
    ///
    /// ```
    /// assert_eq!(tollgate_service::HostPort::Address(([127, 0, 0, 1], 80).into()).port(), 80);
    /// ```
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) | Self::Everywhere(port) => *port,
        }
    }

    /// The addresses to try, at least one.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let (name, port) = match self {
            Self::Address(address) => return Ok(vec![*address]),
            Self::Name(name, port) => (name, *port),
            Self::Everywhere(_) => return Err(io::Error::other("it has no host to send to")),
        };
        let found: Vec<_> = tokio::net::lookup_host((name.0.as_str(), port)).await?.collect();
        if found.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(found) }
    }
}

impl<A: Into<SocketAddr>> From<A> for HostPort {
    fn from(address: A) -> Self {
        Self::Address(address.into())
    }
}

impl FromStr for HostPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        // Only digits are accepted, as in a socket address. The parser of `u16` alone would also accept a `+`.
        let digits = text.strip_prefix(':').filter(|digits| !digits.starts_with('+'));
        if let Some(port) = digits.and_then(|digits| digits.parse().ok()) {
            return Ok(Self::Everywhere(port));
        }
        let bad = || AddressError::HostPort { found: text.to_owned() };
        let (name, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let name = name.parse().map_err(|_| bad())?;
        Ok(Self::Name(name, port.parse().map_err(|_| bad())?))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::Everywhere(port) => write!(f, ":{port}"),
        }
    }
}
