//! The errors of writing and of restoring a snapshot.

use std::{fmt, io};

use crate::clock::Timestamp;
use crate::error::BuildError;

/// The reason why a snapshot could not be written.
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
    /// The allocator refused the memory for the copy of the words.
    OutOfMemory {
        /// The number of bytes that were requested.
        bytes: usize,
    },
    /// Another thread is changing a quota of this limiter, or taking another snapshot of it.
    Changing,
    /// The limiter is a [`Limiter`](crate::Limiter) whose quota may change. A file contains only one policy for its
    /// word.
    NotFixed,
    /// The limiter is a [`KeyedLimiter`](crate::KeyedLimiter) with own quotas of keys, for which the file has no place.
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

/// The reason why a snapshot was refused. A snapshot with any error restores nothing.
///
/// Each variant is a case that a program may want to handle separately. The text names the part of the file or the
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
    /// The file is not a snapshot, or has changed since it was written. It may be too short or too long, or have a
    /// number or a word that no snapshot has.
    Damaged(String),
    /// The snapshot was taken under another policy or with other [tiers](crate::KeyedBuilder::tier), or the headroom
    /// does not fit in its words.
    Policy(String),
    /// The snapshot does not match this limiter. It may be from another kind of limiter, have another hasher, or have
    /// times with another origin than the clock's. It may also have been written by another version, or on a machine on
    /// which keys may have different hashes.
    Mismatch(String),
    /// The clock reads less than when the snapshot was taken, so all keys would be denied until the clock has caught
    /// up.
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
    /// The error for a number that a snapshot of this limiter cannot have.
    pub(crate) fn field(name: &str, found: u64, expected: u64) -> Self {
        Self::Damaged(format!("the snapshot's {name} is {found}; it must be {expected}"))
    }

    /// The error for a word that no snapshot has, although the checksum is right. The word is `offset` bytes from the
    /// beginning of the file.
    pub(crate) fn word(offset: u64, found: u64, accepted: &str) -> Self {
        Self::Damaged(format!(
            "the word {found:#018x} at byte {offset} is no snapshot's; it must be {accepted}"
        ))
    }

    /// The error for words with another layout, which another version of this crate may have written.
    pub(crate) fn layout(found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self::Mismatch(format!(
            "the snapshot's words are laid out as {found}; those of this version are {expected}"
        ))
    }

    /// The error for a hasher that differs from the hasher of the snapshot's limiter. The error does not contain the
    /// hash of the probe, which would reveal information about the seeds.
    pub(crate) fn hasher() -> Self {
        Self::Mismatch(
            "the hasher makes something else of the probe than the snapshot's did; \
             only the same one, built alike, finds its keys"
                .to_string(),
        )
    }

    /// The error for a file that has no seeds, because the owner of its limiter had given a hasher.
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
