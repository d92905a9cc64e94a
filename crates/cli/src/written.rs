//! [`WrittenPolicy`]: a policy in the words of its user, for reports.

use std::fmt;
use std::str::FromStr;

use tollgate::{Policy, PolicyError};

/// A policy, and how it was written: a report in other words would have to be read twice.
#[derive(Clone, Debug)]
pub(crate) struct WrittenPolicy {
    pub(crate) policy: Policy,
    words: String,
}

impl FromStr for WrittenPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        // Blanks and line breaks are not among the words.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { policy: text.parse()?, words })
    }
}

impl fmt::Display for WrittenPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
