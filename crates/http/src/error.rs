//! The errors of making extractors.

use std::fmt;

/// A length of a prefix that is not possible: it is outside of 1 to 32 for IPv4, or of 1 to 128 for IPv6.
///
/// ```
/// let error = tollgate_http::keys::ClientAddress::peer().v4_prefix(33).unwrap_err();
/// assert_eq!(error.to_string(), "a prefix of 33 bits is not possible; use 1 to 32");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixError {
    bits: u8,
    max: u8,
}

impl PrefixError {
    /// Returns `bits` if an address of `max` bits has a prefix of this length.
    pub(crate) fn check(bits: u8, max: u8) -> Result<u8, Self> {
        if (1..=max).contains(&bits) { Ok(bits) } else { Err(Self { bits, max }) }
    }
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a prefix of {} bits is not possible; use 1 to {}", self.bits, self.max)
    }
}

impl std::error::Error for PrefixError {}

/// A name that no cookie can have.
///
/// ```
/// let error = tollgate_http::keys::Cookie::new("a b").unwrap_err();
/// assert!(error.to_string().starts_with("a cookie cannot be called \"a b\""));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieNameError {
    name: String,
}

impl CookieNameError {
    pub(crate) fn of(name: &str) -> Self {
        Self { name: name.to_owned() }
    }
}

impl fmt::Display for CookieNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(f, "a cookie cannot be called {name:?}; use letters, digits and !#$%&'*+-.^_`|~")
    }
}

impl std::error::Error for CookieNameError {}
