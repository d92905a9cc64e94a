//! [`HostPort`]: where to listen, or to send.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::host_name::HostName;

/// Where to listen: an IP address or a host name, and a port. Port 0 takes a free port.
///
/// ```
/// use tollgate_service::HostPort;
/// let name: HostPort = "localhost:8080".parse()?;
/// assert_eq!((name.to_string().as_str(), name.port()), ("localhost:8080", 8080));
/// assert_eq!("[::1]:8080".parse(), Ok(HostPort::Address(([0, 0, 0, 0, 0, 0, 0, 1], 8080).into())));
/// let error = "8080".parse::<HostPort>().unwrap_err();
/// assert!(error.to_string().ends_with("as in 127.0.0.1:8080, [::1]:8080 or localhost:8080"));
/// # Ok::<(), tollgate_service::BadHostPort>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPort {
    /// An IP address.
    Address(SocketAddr),
    /// A name that is resolved when the service starts. Of several addresses the first that can be listened on is
    /// taken.
    Name(HostName, u16),
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
            Self::Name(_, port) => *port,
        }
    }

    /// The addresses to try, at least one.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let (name, port) = match self {
            Self::Address(address) => return Ok(vec![*address]),
            Self::Name(name, port) => (name, *port),
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
    type Err = BadHostPort;

    fn from_str(text: &str) -> Result<Self, BadHostPort> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let bad = || BadHostPort { found: text.to_owned() };
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
        }
    }
}

/// The text is no host with a port.
///
/// ```
/// for bad in ["localhost", ":80", "a b:80", "[::1]", "::1", "localhost:70000", "http://a:80"] {
///     assert!(bad.parse::<tollgate_service::HostPort>().is_err(), "{bad}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadHostPort {
    found: String,
}

impl fmt::Display for BadHostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found.escape_debug();
        write!(
            f,
            "'{found}' is no address; give an IP address or a host name, and a port, as in 127.0.0.1:8080, \
             [::1]:8080 or localhost:8080"
        )
    }
}

impl std::error::Error for BadHostPort {}
