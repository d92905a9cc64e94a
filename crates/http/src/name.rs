//! [`PolicyName`]: the name of a policy in headers, counters and logs.

use std::fmt;
use std::sync::Arc;

/// The maximum number of bytes in a name, so that header fields stay short and one buffer holds a name.
pub(crate) const NAME_MAX: usize = 64;

/// A policy's name, as headers, problem details and counters show it: 1 to 64 printable ASCII characters.
///
/// Headers can hold no other characters.
///
/// ```
/// use tollgate_http::headers::PolicyName;
/// assert_eq!(PolicyName::new("per client")?.as_str(), "per client");
/// assert!(PolicyName::new("evil\r\nSet-Cookie: a=b").is_err());
/// # Ok::<(), tollgate_http::headers::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PolicyName {
    text: Arc<str>,
    /// The name as a String of structured fields (RFC 9651), which is also a string of JSON.
    quoted: Arc<str>,
    /// The beginning of the policy's member in the field `RateLimit`: `"default";r=`.
    member: Arc<str>,
}

impl PolicyName {
    /// A name that every header and every log can hold.
    ///
    /// # Errors
    /// Fails if the text is empty, has more than 64 characters, or has a character that is not printable ASCII.
    ///
    /// ```
    /// use tollgate_http::headers::PolicyName;
    /// let error = PolicyName::new("caf\u{e9}").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "policy name \"caf\\u{e9}\": character 4 cannot stand in a header; use printable ASCII",
    /// );
    /// ```
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if let Some(at) = text.chars().position(|found| !matches!(found, ' '..='~')) {
            return Err(NameError::Character { name: shown(text), at: at + 1 });
        }
        if text.len() > NAME_MAX {
            return Err(NameError::TooLong { name: shown(text), length: text.len() });
        }
        // Only these two characters are escaped, with a backslash, in both notations.
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        Ok(Self::of(text, &format!("\"{escaped}\"")))
    }

    fn of(text: &str, quoted: &str) -> Self {
        let member = format!("{quoted};r=").into();
        Self { text: text.into(), quoted: quoted.into(), member }
    }

    /// The name.
    ///
    /// ```
    /// use tollgate_http::headers::PolicyName;
    /// assert_eq!(PolicyName::default().as_str(), "default");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name as a String of structured fields (RFC 9651), which is also a string of JSON.
    ///
    /// ```
    /// use tollgate_http::headers::PolicyName;
    /// assert_eq!(PolicyName::default().quoted(), "\"default\"");
    /// ```
    #[must_use]
    pub fn quoted(&self) -> &str {
        &self.quoted
    }

    #[inline]
    pub(crate) fn member(&self) -> &str {
        &self.member
    }

    /// The name as shared memory, for the labels of counters.
    ///
    /// ```
    /// use tollgate_http::headers::PolicyName;
    /// assert_eq!(&*PolicyName::default().shared(), "default");
    /// ```
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }
}

/// The name of a policy that was given no name: `default`.
impl Default for PolicyName {
    fn default() -> Self {
        Self::of("default", "\"default\"")
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyName({})", self.quoted)
    }
}

/// The beginning of a refused name, without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(NAME_MAX).flat_map(char::escape_default).collect()
}

/// The reason why a name was refused.
///
/// ```
/// use tollgate_http::headers::{NameError, PolicyName};
/// assert_eq!(PolicyName::new(""), Err(NameError::Empty));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name has more than 64 characters.
    TooLong {
        /// The beginning of the name.
        name: String,
        /// Its length.
        length: usize,
    },
    /// A character is not printable ASCII.
    Character {
        /// The beginning of the name, control characters escaped.
        name: String,
        /// The position of the character, from 1.
        at: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a policy name is empty; use 1 to 64 printable characters"),
            Self::TooLong { name, length } => {
                write!(f, "policy name \"{name}...\" has {length} characters; use up to {NAME_MAX}")
            }
            Self::Character { name, at } => write!(
                f,
                "policy name \"{name}\": character {at} cannot stand in a header; use printable ASCII"
            ),
        }
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_name_is_told_by_its_beginning_without_control_characters() {
        let told = |text: &str| PolicyName::new(text).unwrap_err().to_string();
        assert_eq!(told(""), "a policy name is empty; use 1 to 64 printable characters");
        assert_eq!(
            told("a\r\n\"b\""),
            "policy name \"a\\r\\n\\\"b\\\"\": character 2 cannot stand in a header; use printable ASCII"
        );
        let long = "n".repeat(65);
        assert_eq!(
            told(&long),
            format!("policy name \"{}...\" has 65 characters; use up to 64", &long[..64])
        );
        assert_eq!(
            told(&format!("{long}\u{1b}")),
            format!(
                "policy name \"{}\": character 66 cannot stand in a header; use printable ASCII",
                &long[..64]
            )
        );
        assert_eq!(
            PolicyName::new(&long[..64]).map(|name| name.to_string()),
            Ok(long[..64].into())
        );
    }
}
