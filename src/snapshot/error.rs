//! Why a snapshot was not written, and why one was refused.

use std::{fmt, io};

use super::version::VERSION;
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
    /// A [`Limiter`](crate::Limiter) whose quota may change: a file says of its word only which policy it is of.
    NotFixed,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => write!(f, "the snapshot could not be written: {error}"),
            Self::OutOfMemory { bytes } => {
                write!(f, "the {bytes} bytes of a copy of the table could not be allocated")
            }
            Self::Changing => f.write_str("a change of quota is under way; try again after it"),
            Self::NotFixed => f.write_str(
                "a Limiter whose quota may change has no snapshot; a KeyedLimiter with Tiers has",
            ),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write(error) => Some(error),
            Self::OutOfMemory { .. } | Self::Changing | Self::NotFixed => None,
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Why a snapshot was refused. It is refused whole: nothing is restored of one that is not right.
///
/// ```
/// use tollgate::{Clock, KeyedLimiter, Quota};
/// let quota = Quota::per_second(10);
/// let error = KeyedLimiter::<str>::restore(quota, Clock::monotonic(), &b"[limits]"[..]).unwrap_err();
/// assert_eq!(error.to_string(), "the file begins with \"[limits]\"; a snapshot begins with \"TOLLGATE\"");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The reader failed.
    Read(io::Error),
    /// Something else than a snapshot.
    NotASnapshot {
        /// The first bytes.
        found: [u8; 8],
    },
    /// A snapshot in another version of the format.
    Version {
        /// The version.
        found: u32,
    },
    /// The file ends too early.
    Truncated {
        /// The bytes that there are.
        found: u64,
        /// The least that there have to be.
        needed: u64,
    },
    /// The file goes on after its end.
    TooLong {
        /// The bytes that a snapshot of this table has.
        expected: u64,
    },
    /// A checksum is not that of the bytes before it.
    Damaged {
        /// What it is the checksum of: `"preamble"` or `"file"`.
        part: &'static str,
        /// The checksum of the bytes as they are.
        found: u64,
        /// The checksum that was written.
        expected: u64,
    },
    /// The snapshot of another kind of limiter.
    Kind {
        /// Whose it is.
        found: &'static str,
        /// Whose was to be restored.
        expected: &'static str,
    },
    /// Written on a machine whose pointers have another width: there keys may hash otherwise.
    PointerWidth {
        /// The bits of its pointers.
        found: u8,
        /// The bits of this machine's.
        expected: u8,
    },
    /// Written under another policy.
    Policy {
        /// The policy of the file.
        found: String,
        /// The policy that was to be restored.
        expected: String,
    },
    /// In a limiter with [`Tiers`](crate::Tiers): a tier had another policy.
    Tier {
        /// Its number, from 0.
        tier: usize,
        /// The policy of the file.
        found: String,
        /// The policy that was to be restored.
        expected: String,
    },
    /// In a limiter with [`Tiers`](crate::Tiers): a tier, or the headroom, needs more room than the words have.
    DoesNotFit {
        /// The policy.
        policy: String,
    },
    /// The words are divided in another way, as another version of this crate may do.
    Layout {
        /// The layout of the file.
        found: String,
        /// The layout of this policy now.
        expected: String,
    },
    /// The times count from another origin than the clock's.
    ClockOrigin {
        /// What the file's times count from.
        found: &'static str,
        /// What the clock's readings count from.
        given: &'static str,
    },
    /// The clock reads less than when the snapshot was taken: all keys would be shut out until it has
    /// caught up.
    ClockBehind {
        /// What the clock reads.
        found: Timestamp,
        /// What it read when the snapshot was taken.
        saved: Timestamp,
    },
    /// The file carries no seeds, because its limiter was built with hashers of its owner's.
    SeedsMissing,
    /// The hashers are not those that the file's limiter had, or do not hash as they did there. What they
    /// make of the probe is not shown: it says something of their seeds.
    Hashers,
    /// A number that a snapshot of this table does not have.
    Field {
        /// What it should tell.
        name: &'static str,
        /// The number.
        found: u64,
        /// The only one that would be accepted.
        expected: u64,
    },
    /// A word that no snapshot has, although the checksum is right.
    Word {
        /// Where it stands, in bytes from the beginning.
        offset: u64,
        /// The word.
        found: u64,
        /// What would be accepted instead.
        accepted: &'static str,
    },
    /// The limiter could not be built.
    Build(BuildError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "the snapshot could not be read: {error}"),
            Self::NotASnapshot { found } => write!(
                f,
                "the file begins with \"{}\"; a snapshot begins with \"TOLLGATE\"",
                found.escape_ascii()
            ),
            Self::Version { found } => {
                write!(
                    f,
                    "the snapshot has version {found} of the format; version {VERSION} is read"
                )
            }
            Self::Truncated { found, needed } => {
                write!(f, "the snapshot ends after {found} bytes; it has at least {needed}")
            }
            Self::TooLong { expected } => {
                write!(f, "the file goes on after the snapshot's end at {expected} bytes")
            }
            Self::Damaged { part, found, expected } => write!(
                f,
                "the {part} is damaged: its checksum is {found:016x}, and {expected:016x} was written",
            ),
            Self::Kind { found, expected } => {
                write!(f, "this is the snapshot of a {found}; one of a {expected} is needed")
            }
            Self::PointerWidth { found, expected } => write!(
                f,
                "the snapshot comes from a machine with pointers of {found} bits; \
                 only one from a machine with {expected} is read here",
            ),
            Self::Policy { found, expected } => write!(
                f,
                "the snapshot was taken under {found:?}; only one under {expected:?} is read",
            ),
            Self::Tier { tier, found, expected } => write!(
                f,
                "tier {tier} was {found:?} when the snapshot was taken; only one that was {expected:?} is \
                 read",
            ),
            Self::DoesNotFit { policy } => write!(
                f,
                "{policy:?} does not fit in the snapshot's words; use a smaller burst or limit, or leave \
                 it out of the headroom",
            ),
            Self::Layout { found, expected } => write!(
                f,
                "the snapshot's words are laid out as {found}; those of this version are {expected}",
            ),
            Self::ClockOrigin { found, given } => write!(
                f,
                "the snapshot's times count from {found} and the clock's from {given}; \
                 give a clock as it had",
            ),
            Self::ClockBehind { found, saved } => write!(
                f,
                "the clock reads {} ns, less than the {} ns of the snapshot; set it to at least that",
                found.as_nanos(),
                saved.as_nanos(),
            ),
            Self::SeedsMissing => f.write_str(
                "the snapshot carries no seeds, because its limiter had hashers of its own; \
                 give the same to restore_with_hashers",
            ),
            Self::Hashers => f.write_str(
                "the hashers make something else of the probe than the snapshot's did; \
                 only the same two, in the same order and built alike, find its keys",
            ),
            Self::Field { name, found, expected } => {
                write!(f, "the snapshot's {name} is {found}; it must be {expected}")
            }
            Self::Word { offset, found, accepted } => {
                write!(
                    f,
                    "the word {found:#018x} at byte {offset} is no snapshot's; it must be {accepted}"
                )
            }
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
