//! [`HostName`]: a host name that requests to the admin's routes may use.

use std::fmt;
use std::str::FromStr;

/// A host name that requests to the admin's routes may use, on any port. It has no scheme.
///
/// ```
/// use tollgate_service::HostName;
/// let name: HostName = "Limits.internal".parse()?;
/// assert_eq!(name.to_string(), "limits.internal");
/// let error = "limits.internal:6070".parse::<HostName>().unwrap_err();
/// assert!(error.to_string().ends_with("give a name alone, as in limits.internal"));
/// # Ok::<(), tollgate_service::BadHostName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(pub(crate) String);

impl FromStr for HostName {
    type Err = BadHostName;

    fn from_str(text: &str) -> Result<Self, BadHostName> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let name = text.strip_suffix('.').unwrap_or(text);
        // A DNS name has at most 253 characters.
        if name.is_empty() || name.len() > 253 || !name.bytes().all(is_letter) {
            return Err(BadHostName { found: text.to_owned() });
        }
        Ok(Self(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for a text that is not a host name.
///
/// ```
/// assert!("http://a/".parse::<tollgate_service::HostName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadHostName {
    found: String,
}

impl fmt::Display for BadHostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found.escape_debug();
        write!(f, "'{found}' is no name of a host; give a name alone, as in limits.internal")
    }
}

impl std::error::Error for BadHostName {}
