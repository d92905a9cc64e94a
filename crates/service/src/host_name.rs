//! [`HostName`]: a host name that requests to the admin's routes may use.

use std::fmt;
use std::str::FromStr;

use crate::address_error::AddressError;

/// A host name that requests to the admin's routes may use, on any port. It has no scheme.
///
/// ```
/// use tollgate_service::HostName;
/// let name: HostName = "Limits.internal".parse()?;
/// assert_eq!(name.to_string(), "limits.internal");
/// let error = "limits.internal:6070".parse::<HostName>().unwrap_err();
/// assert!(error.to_string().ends_with("give a name alone, as in limits.internal"));
/// assert!("http://a/".parse::<HostName>().is_err());
/// # Ok::<(), tollgate_service::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(pub(crate) String);

impl FromStr for HostName {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let name = text.strip_suffix('.').unwrap_or(text);
        // A DNS name has at most 253 characters.
        if name.is_empty() || name.len() > 253 || !name.bytes().all(is_letter) {
            return Err(AddressError::HostName { found: text.to_owned() });
        }
        Ok(Self(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
