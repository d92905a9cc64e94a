//! [`AddressError`]: the reason why a text is not an address.

use std::fmt;

/// The reason why a text is not an address: of a host, or of rules.
///
/// ```
/// use tollgate_service::{AddressError, HostPort, RedisRules};
/// let error = "localhost".parse::<HostPort>().unwrap_err();
/// assert_eq!(error, AddressError::HostPort { found: "localhost".into() });
/// let error = "redis://127.0.0.1/0#".parse::<RedisRules>().unwrap_err();
/// assert_eq!(error, AddressError::EmptyKey);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not a [`HostName`](crate::HostName).
    HostName {
        /// The text.
        found: String,
    },
    /// The text is not a [`HostPort`](crate::HostPort).
    HostPort {
        /// The text.
        found: String,
    },
    /// The part before the `#` is not an address of a Redis, as [`RedisRules`](crate::RedisRules) need it.
    Redis {
        /// The mistake in the address.
        reason: String,
    },
    /// The part after the `#`, which is the key of [`RedisRules`](crate::RedisRules), is empty.
    EmptyKey,
    /// The text is not the address of a control plane, as [`XdsRules`](crate::XdsRules) need it.
    ControlPlane {
        /// The mistake in the address, and the forms that would be accepted.
        reason: String,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The message does not contain an address of rules, because that may contain a password.
        match self {
            Self::HostName { found } => write!(
                f,
                "'{}' is no name of a host; give a name alone, as in limits.internal",
                found.escape_debug()
            ),
            Self::HostPort { found } => write!(
                f,
                "'{}' is no address; give an IP address or a host name, and a port, as in 127.0.0.1:8080, \
                 [::1]:8080 or localhost:8080; or :8080 for all addresses of the machine",
                found.escape_debug()
            ),
            Self::Redis { reason } => write!(
                f,
                "the address of the rules is not understood: {reason}; use \
                 redis://user:password@host:port/database#key"
            ),
            Self::EmptyKey => f.write_str(
                "the address of the rules has no key behind its #; write the key of a hash, or leave \
                 the # out for tollgate:rules",
            ),
            Self::ControlPlane { reason } => {
                write!(f, "the address of the rules is not understood: {reason}")
            }
        }
    }
}

impl std::error::Error for AddressError {}
