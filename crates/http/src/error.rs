//! [`KeyError`]: the error of making extractors.

use std::fmt;

/// The reason why an extractor or a list of trusted proxies could not be made.
///
/// ```
/// use tollgate_http::keys::{ClientAddress, Cookie, KeyError, TrustedProxies};
/// let error = ClientAddress::peer().v4_prefix(33).unwrap_err();
/// assert_eq!(error, KeyError::Prefix { bits: 33, max: 32 });
/// assert_eq!(error.to_string(), "a prefix of 33 bits is not possible; use 1 to 32");
///
/// let error = Cookie::new("a b").unwrap_err();
/// assert!(error.to_string().starts_with("a cookie cannot be called \"a b\""));
///
/// let error = "10.0.0.7/8".parse::<TrustedProxies>().unwrap_err().to_string();
/// assert!(error.starts_with("'10.0.0.7/8' is neither an address nor a network whose bits behind the prefix are 0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// A length of a prefix that is not possible: it is outside of 1 to 32 for IPv4, or of 1 to 128 for IPv6.
    Prefix {
        /// The length that was refused, in bits.
        bits: u8,
        /// The length of an address, in bits.
        max: u8,
    },
    /// A name that no cookie can have.
    CookieName {
        /// The name that was refused.
        name: String,
    },
    /// A text that is not a list of networks.
    TrustedProxies {
        /// The part of the list that is not a network.
        found: String,
    },
}

impl KeyError {
    /// Returns `bits` if an address of `max` bits has a prefix of this length.
    pub(crate) fn check_prefix(bits: u8, max: u8) -> Result<u8, Self> {
        if (1..=max).contains(&bits) { Ok(bits) } else { Err(Self::Prefix { bits, max }) }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix { bits, max } => {
                write!(f, "a prefix of {bits} bits is not possible; use 1 to {max}")
            }
            Self::CookieName { name } => write!(
                f,
                "a cookie cannot be called {name:?}; use letters, digits and !#$%&'*+-.^_`|~"
            ),
            Self::TrustedProxies { found } => write!(
                f,
                "'{}' is neither an address nor a network whose bits behind the prefix are 0; use some with commas \
                 between them, as in 127.0.0.1,10.0.0.0/8, or none",
                found.escape_debug()
            ),
        }
    }
}

impl std::error::Error for KeyError {}
