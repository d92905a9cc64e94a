//! [`StateError`]: the reason why a state was not written, or not restored.

use std::{fmt, io};

use tollgate::{RestoreError, SnapshotError};

/// The reason why a state was not written, or not restored. A state is restored as a whole or not
/// at all.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleSettings};
/// let error = RuleCache::new(RuleSettings::default()).save(Vec::new()).unwrap_err();
/// assert_eq!(error.to_string(), "no rules are loaded; there is nothing to write");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StateError {
    /// Rules have to be loaded before a state is written.
    NoRules,
    /// A state has to be restored before rules are loaded.
    Late,
    /// The limits are kept elsewhere, so the tables of this process hold no counts.
    Elsewhere,
    /// The file cannot be read or written.
    File(io::Error),
    /// The file was not written by [`RuleCache::save`](crate::RuleCache::save), or has changed since.
    Damaged(String),
    /// A table cannot be copied.
    Copy(SnapshotError),
    /// A table cannot be restored.
    Table {
        /// The domain and the rule of the table.
        rule: String,
        /// The reason.
        error: Box<RestoreError>,
    },
    /// All tables together take more bytes than they may.
    TooMuchMemory {
        /// The bytes of all tables up to and including the first one that does not fit.
        bytes: u64,
        /// The maximum number of bytes.
        max: u64,
    },
}

impl StateError {
    pub(super) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged(reason.into())
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRules => f.write_str("no rules are loaded; there is nothing to write"),
            Self::Late => f.write_str("rules are loaded already; restore before the first load"),
            Self::Elsewhere => f.write_str(
                "limits are kept elsewhere, which outlives this process; no state is needed",
            ),
            Self::File(error) => write!(f, "the file cannot be read or written: {error}"),
            Self::Damaged(reason) => write!(f, "the state {reason}"),
            Self::Copy(error) => error.fmt(f),
            Self::Table { rule, error } => write!(f, "the table of {rule}: {error}"),
            Self::TooMuchMemory { bytes, max } => {
                write!(f, "its tables take {bytes} bytes or more; tables may take {max}")
            }
        }
    }
}

impl std::error::Error for StateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => Some(error),
            Self::Copy(error) => Some(error),
            Self::Table { error, .. } => Some(error),
            Self::NoRules
            | Self::Late
            | Self::Elsewhere
            | Self::Damaged(_)
            | Self::TooMuchMemory { .. } => None,
        }
    }
}

impl From<io::Error> for StateError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl From<SnapshotError> for StateError {
    fn from(error: SnapshotError) -> Self {
        Self::Copy(error)
    }
}
