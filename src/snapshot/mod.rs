//! Snapshots: the state of a limiter in a file, so that a restart forgets no charge.
//!
//! # What is promised
//! * **Nothing blocks.** A snapshot only loads words, and other threads go on deciding and writing.
//! * **Charges meanwhile.** Each word in the file was read at one moment. The file contains the charges that were made
//!   to the word before that moment, and no later charges. So the file holds, for every key, all charges from before
//!   the call of `snapshot` that have not drained. For each request that is charged during the call, it holds either
//!   the whole cost or nothing, since a decision is one compare-and-swap.
//! * **A restored limiter admits no more.** The restored limiter has the words of the file. So with each word it admits
//!   what the old limiter would have admitted from the moment at which the word was read. In the worst case, units that
//!   were charged after that moment are admitted a second time. To avoid this, take the snapshot after the last request
//!   has been decided.
//! * **Whole or not at all.** Nothing is built from a file with a wrong checksum. The same is true if the length,
//!   version, policy, layout, pointer width, kind of clock or hasher differs from what is expected. The error says
//!   which of these differs.
//!
//! The comment at the top of `src/keyed/file/snapshot.rs` explains why all this is true for a table, although keys
//! come, go and move between cells while the table is copied.
//!
//! # Time
//! Words contain times of the limiter's clock, and a restore does not change them. The restored *clock* continues from
//! the reading of the old clock.
//!
//! | clock | reads at the restore |
//! |---|---|
//! | [`Clock::monotonic`], [`Clock::system`] | the old reading, and the time that has passed by the wall clock |
//! | [`Clock::unix`] | the wall clock, but no less than the old reading |
//! | [`ManualClock`](crate::ManualClock), [`CoarseClock`](crate::CoarseClock) | what it reads; less than the old reading is refused |
//!
//! So windows stay aligned as before, and charges drain for the time that has passed by the wall clock, and no longer.
//! If the wall clock went backward, or if one of its two readings is unknown, no time counts as passed. This can only
//! cause denials. A reading before 2020 counts as unknown, because such a wall clock has not been set since the machine
//! was started.
//!
//! At the snapshot the words are read first, then the limiter's clock, then the wall clock. At the restore the wall
//! clock is read first, then the limiter's clock. So no word has a later time than the clock's reading, unless a caller
//! gave a later time. So the time between two of these readings may not be counted, but it is never counted twice.

mod checksum;
mod error;
mod limiter;
mod preamble;
mod version;

pub use error::{RestoreError, SnapshotError};
pub(crate) use preamble::{Form, Preamble, SnapshotKind, field};

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, Origin, Timestamp};

use checksum::Checksum;
use preamble::PREAMBLE_BYTES;

/// The number of bytes of a checksum, and of a word.
const NUMBER_BYTES: usize = 8;

/// The offset of the first word, which is after the preamble and its checksum.
pub(crate) const WORDS_AT: u64 = (PREAMBLE_BYTES + NUMBER_BYTES) as u64;

/// 2020-01-01. A wall clock with an earlier reading has not been set.
const SET_SINCE: Timestamp = Timestamp::from_secs(1_577_836_800);

/// The result of a snapshot.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
/// let limiter = KeyedLimiter::new(Quota::per_hour(2), 1_000)?;
/// assert!(limiter.check("alice").is_allowed());
/// let mut file = Vec::new();
/// let saved = limiter.snapshot(&mut file)?;
/// assert_eq!((saved.keys, saved.bytes), (1, file.len() as u64));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotSummary {
    /// The number of keys that were written. Some of them may be idle, but not yet forgotten.
    pub keys: usize,
    /// The length of the file.
    pub bytes: u64,
    /// The reading of the limiter's clock, from which a restored clock continues.
    pub now: Timestamp,
}

impl SnapshotSummary {
    /// The summary of a file with this preamble and `keys` keys.
    pub(crate) fn of(preamble: &Preamble, keys: usize) -> Self {
        Self { keys, bytes: preamble.length, now: Timestamp::from_nanos(preamble.now_ns) }
    }
}

/// The length of a file with `words` words, or `None` if this length does not fit.
pub(crate) fn length(words: u64) -> Option<u64> {
    words.checked_mul(NUMBER_BYTES as u64)?.checked_add(WORDS_AT + NUMBER_BYTES as u64)
}

/// Writes a whole snapshot, and flushes.
pub(crate) fn write<W: Write>(
    writer: W,
    preamble: &Preamble,
    words: impl Iterator<Item = u64>,
) -> Result<(), SnapshotError> {
    let mut writer = BufWriter::new(writer);
    let mut checksum = Checksum::new();
    let bytes = preamble.to_bytes();
    checksum.add(&bytes);
    writer.write_all(&bytes)?;
    // The second checksum covers the preamble and the words, but not the first checksum: data followed by its own CRC
    // always leaves the same remainder, so the second checksum would then not depend on the preamble.
    writer.write_all(&checksum.value().to_le_bytes())?;
    for word in words {
        let bytes = word.to_le_bytes();
        // The words are written one by one, so that there is no copy of all words as bytes.
        checksum.add(&bytes);
        writer.write_all(&bytes)?;
    }
    writer.write_all(&checksum.value().to_le_bytes())?;
    Ok(writer.flush()?)
}

/// Reads a snapshot. It allocates one buffer of a few KiB.
pub(crate) struct Reader<R: Read> {
    input: BufReader<R>,
    checksum: Checksum,
    bytes: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the preamble, and refuses a preamble that is damaged or has another version.
    pub(crate) fn open(input: R) -> Result<(Self, Preamble), RestoreError> {
        let (input, checksum) = (BufReader::new(input), Checksum::new());
        let mut reader = Self { input, checksum, bytes: 0 };
        let mut bytes = [0; PREAMBLE_BYTES];
        match reader.fill(&mut bytes, WORDS_AT + NUMBER_BYTES as u64) {
            // If a short file is not a snapshot at all, the error says so instead of saying that the file is short.
            Err(short @ RestoreError::Damaged(_)) => {
                let count = bytes.len().min(usize::try_from(reader.bytes).unwrap_or(0));
                preamble::is_ours(&bytes[..count]).and(Err(short))
            }
            Err(other) => Err(other),
            Ok(()) => preamble::is_ours(&bytes),
        }?;
        // The file is a snapshot of this version. Next, the checksum shows if the preamble is intact.
        reader.checksum.add(&bytes);
        reader.verify("preamble")?;
        Ok((reader, Preamble::from_bytes(&bytes)?))
    }

    /// The next word.
    pub(crate) fn word(&mut self) -> Result<u64, RestoreError> {
        let mut bytes = [0; NUMBER_BYTES];
        self.fill(&mut bytes, self.bytes + 2 * NUMBER_BYTES as u64)?;
        self.checksum.add(&bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Refuses a file that is damaged, or that continues after the snapshot.
    pub(crate) fn close(mut self) -> Result<(), RestoreError> {
        self.verify("file")?;
        // The checksum does not cover further bytes, so a file with further bytes is refused.
        if self.input.fill_buf().map_err(RestoreError::Read)?.is_empty() {
            return Ok(());
        }
        Err(RestoreError::Damaged(format!(
            "the file goes on after the snapshot's end at {} bytes",
            self.bytes
        )))
    }

    fn verify(&mut self, part: &'static str) -> Result<(), RestoreError> {
        let mut bytes = [0; NUMBER_BYTES];
        self.fill(&mut bytes, self.bytes + NUMBER_BYTES as u64)?;
        let (found, expected) = (self.checksum.value(), u64::from_le_bytes(bytes));
        if found == expected {
            return Ok(());
        }
        Err(RestoreError::Damaged(format!(
            "the {part} is damaged: its checksum is {found:016x}, and {expected:016x} was written"
        )))
    }

    /// Fills `bytes` from a file that must have at least `needed` bytes.
    fn fill(&mut self, bytes: &mut [u8], needed: u64) -> Result<(), RestoreError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.input.read(rest) {
                // The file ends before all bytes have been read.
                Ok(0) => {
                    return Err(RestoreError::Damaged(format!(
                        "the snapshot ends after {} bytes; it has at least {needed}",
                        self.bytes
                    )));
                }
                Ok(count) => {
                    self.bytes += count as u64;
                    rest = &mut rest[count..];
                }
                // A signal interrupted the read, so it is done again.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RestoreError::Read(error)),
            }
        }
        Ok(())
    }
}

/// The reading of a wall clock in nanoseconds since 1970, as it is stored in a file.
pub(crate) fn wall_ns(wall: SystemTime) -> u64 {
    Timestamp::from(wall).as_nanos()
}

/// The time between two readings of the wall clock; zero if either reading is unknown, or if the clock went backward.
fn passed(saved_ns: u64, wall: SystemTime) -> Duration {
    let (saved, now) = (Timestamp::from_nanos(saved_ns), Timestamp::from(wall));
    if saved < SET_SINCE || now < SET_SINCE { Duration::ZERO } else { now - saved }
}

/// The clock of a restored limiter.
pub(crate) fn resume(clock: Clock, preamble: &Preamble) -> Result<Clock, RestoreError> {
    let saved = Timestamp::from_nanos(preamble.now_ns);
    let reading = match preamble.origin {
        // The time that has passed is not added here: this clock follows the wall clock anyway. Adding the time would
        // also keep all bounds, but windows would no longer be aligned to the wall clock.
        Origin::Unix => saved,
        Origin::Own | Origin::Told => saved + passed(preamble.wall_ns, SystemTime::now()),
    };
    // The clock is read again, because `resumed_at` does not put a clock forward if other code uses the clock, too.
    let clock = clock.resumed_at(reading);
    let found = clock.now();
    if found < saved { Err(RestoreError::ClockBehind { found, saved }) } else { Ok(clock) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_790_000_000;

    fn wall(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn what_has_passed_is_told_by_two_known_readings_of_the_wall_clock() {
        let saved_ns = wall_ns(wall(NOON));
        assert_eq!(saved_ns, NOON * 1_000_000_000);
        assert_eq!(passed(saved_ns, wall(NOON + 7)), Duration::from_secs(7));
        assert_eq!(passed(saved_ns, wall(NOON)), Duration::ZERO);
        assert_eq!(passed(saved_ns, wall(NOON - 1)), Duration::ZERO, "backward");
        assert_eq!(passed(saved_ns, wall(5)), Duration::ZERO, "not set at the restore");
        assert_eq!(passed(wall_ns(wall(5)), wall(NOON)), Duration::ZERO, "nor at the snapshot");
        let set = SET_SINCE.as_nanos();
        assert_eq!(passed(set, wall(1_577_836_801)), Duration::from_secs(1));
        assert_eq!(passed(set - 1, wall(1_577_836_801)), Duration::ZERO);
        assert_eq!(passed(set - 1, wall(1_577_836_799)), Duration::ZERO);
    }
}
