//! Why a snapshot was not written, and why one was refused.

use std::{fmt, io};

use crate::clock::Timestamp;
use crate::error::BuildError;

/// Why a snapshot could not be written.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota, SnapshotError};
/// let limiter = KeyedLimiter::<str>::new(Quota::per_second(10), 1_000)?;
/// let mut too_small = [0_u8; 100];
/// let error = limiter.snapshot(&mut too_small[..]).unwrap_err();
/// assert!(matches!(error, SnapshotError::Write(_)));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The writer failed.
    Write(io::Error),
    /// The allocator refused the memory of the copy that is written.
    OutOfMemory {
        /// The bytes that were asked for.
        bytes: usize,
    },
    /// Another thread is changing a quota of this limiter.
    Changing,
    /// The limiter is a [`Limiter`](crate::Limiter) whose quota may change. A file has only one policy for its word.
    NotFixed,
    /// The limiter is a [`KeyedLimiter`](crate::KeyedLimiter) to which callers bring quotas along, which a file cannot
    /// name.
    OwnQuotas,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => write!(f, "the snapshot could not be written: {error}"),
            Self::OutOfMemory { bytes } => {
                write!(f, "the {bytes} bytes of a copy of the table could not be allocated")
            }
            Self::Changing => f.write_str("a change of quota is under way; try again after it"),
            Self::OwnQuotas => f.write_str("a KeyedLimiter with own_quotas has no snapshot"),
            Self::NotFixed => f.write_str(
                "a Limiter whose quota may change has no snapshot; a KeyedLimiter with tiers has",
            ),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write(error) => Some(error),
            Self::OutOfMemory { .. } | Self::Changing | Self::NotFixed | Self::OwnQuotas => None,
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Why a snapshot was refused. It is refused whole: a snapshot that is not right restores nothing.
///
/// Each variant is a case that a program may want to handle on its own. The text names the part of the file or the
/// argument that was refused, what was found there, and what would be accepted.
///
/// ```
/// use tollgate::{Clock, KeyedLimiter, Quota};
/// let quota = Quota::per_second(10);
/// let error = KeyedLimiter::<str>::builder(quota).clock(Clock::monotonic()).restore(&b"[limits]"[..]).unwrap_err();
/// assert_eq!(error.to_string(), "the file begins with \"[limits]\"; a snapshot begins with \"TOLLGATE\"");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The reader failed.
    Read(io::Error),
    /// The file is no snapshot, or has changed since it was written: it was cut short, is longer, or has a number or
    /// a word that no snapshot has.
    Damaged(String),
    /// The snapshot was taken under another policy, or with other [tiers](crate::KeyedBuilder::tier) or another
    /// headroom.
    Policy(String),
    /// The snapshot does not match this limiter. It is of another kind of limiter, has another hasher, has times of
    /// another origin than the clock's, or was written by another version or on a machine whose keys may hash
    /// otherwise.
    Mismatch(String),
    /// The clock reads less than when the snapshot was taken: all keys would be shut out until it has
    /// caught up.
    ClockBehind {
        /// The reading of the clock.
        found: Timestamp,
        /// The reading of the limiter's clock when the snapshot was taken.
        saved: Timestamp,
    },
    /// The limiter could not be built.
    Build(BuildError),
}

impl RestoreError {
    /// A number that a snapshot of this table does not have.
    pub(crate) fn field(name: &str, found: u64, expected: u64) -> Self {
        Self::Damaged(format!("the snapshot's {name} is {found}; it must be {expected}"))
    }

    /// A word that no snapshot has, although the checksum is right. It is `offset` bytes from the file's beginning.
    pub(crate) fn word(offset: u64, found: u64, accepted: &str) -> Self {
        Self::Damaged(format!(
            "the word {found:#018x} at byte {offset} is no snapshot's; it must be {accepted}"
        ))
    }

    /// Words that are divided in another way, as another version of this crate may do.
    pub(crate) fn layout(found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self::Mismatch(format!(
            "the snapshot's words are laid out as {found}; those of this version are {expected}"
        ))
    }

    /// Another hasher than the file's limiter had. Its hash of the probe is not shown, since it would reveal
    /// something about the seeds.
    pub(crate) fn hasher() -> Self {
        Self::Mismatch(
            "the hasher makes something else of the probe than the snapshot's did; \
             only the same one, built alike, finds its keys"
                .to_string(),
        )
    }

    /// A file without seeds, because its limiter was built with a hasher that its owner gave.
    pub(crate) fn seeds_missing() -> Self {
        Self::Mismatch(
            "the snapshot carries no seeds, because its limiter had a hasher of its own; \
             give the same to KeyedBuilder::hasher"
                .to_string(),
        )
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "the snapshot could not be read: {error}"),
            Self::Damaged(reason) | Self::Policy(reason) | Self::Mismatch(reason) => {
                f.write_str(reason)
            }
            Self::ClockBehind { found, saved } => write!(
                f,
                "the clock reads {} ns, less than the {} ns of the snapshot; set it to at least that",
                found.as_nanos(),
                saved.as_nanos(),
            ),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Build(error) => Some(error),
            _ => None,
        }
    }
}

impl From<BuildError> for RestoreError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}
