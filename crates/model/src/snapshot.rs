//! Snapshots: unchanged files, changed files, and any bytes.

use std::fmt;
use std::time::Duration;

use arbitrary::Arbitrary;
use tollgate::{KeyedLimiter, ManualClock, Policy, RestoreError, Timestamp};

use crate::keyed::{KeyedCase, hasher};
use crate::plant::Plant;

/// Target `snapshot_bytes`: any bytes are restored or refused, without a panic. A restored table is saved as the
/// same bytes, and answers requests.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub enum SnapshotCase<'b> {
    /// Any bytes, for a table of `gcra 10/m burst 5`.
    Whatever(Bytes<'b>),
    /// The snapshot of a table, with some of its bytes changed.
    Changed {
        /// The operations on the table before the snapshot.
        table: KeyedCase,
        /// The number of bytes that are kept, modulo the length of the file. `None` keeps all.
        keep: Option<u16>,
        /// Whether both checksums are corrected.
        sealed: bool,
        /// Three bytes for each change: the place in the file (little endian, modulo its length), and the bits that are
        /// flipped in the byte there.
        edits: Bytes<'b>,
    },
}

/// Bytes that are printed as Rust source.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
pub struct Bytes<'b>(pub &'b [u8]);

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes(b\"{}\")", self.0.escape_ascii())
    }
}

/// The place in the file of the reading of the wall clock.
const WALL_AT: usize = 32;

/// The place in the file at which the words begin, after a preamble and its checksum.
const WORDS_AT: usize = 336;

impl SnapshotCase<'_> {
    /// Panics if a wrong file is restored, or a valid one refused.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if a file is not restored and written again as expected.
    pub fn run_against(&self, plant: Plant) {
        match self {
            Self::Whatever(Bytes(bytes)) => {
                let policy: Policy = "gcra 10/m burst 5".parse().expect("a policy");
                let clock = clock_of(bytes);
                let restored = KeyedLimiter::<u8>::builder(policy).clock(clock).restore(*bytes);
                judge(bytes, restored, plant);
            }
            Self::Changed { table, keep, sealed, edits } => {
                let Some((policy, whole)) = table.snapshot() else { return };
                let file = changed(&whole, *keep, *sealed, edits.0);
                let clock = clock_of(&file);
                let restored = KeyedLimiter::<u8>::builder(policy)
                    .clock(clock)
                    .hasher(hasher())
                    .restore(&file[..]);
                let (is_same, is_accepted) = (file == whole, restored.is_ok());
                assert!(is_accepted || !is_same, "{policy}: a whole snapshot is refused");
                assert!(*sealed || is_same || !is_accepted, "{policy}: damage is not noticed");
                judge(&file, restored, plant);
            }
        }
    }
}

fn changed(whole: &[u8], keep: Option<u16>, sealed: bool, edits: &[u8]) -> Vec<u8> {
    let mut file = whole.to_vec();
    let length = keep.map_or(whole.len(), |keep| usize::from(keep) % whole.len());
    file.truncate(length);
    for edit in edits.chunks_exact(3).filter(|_| length > 0) {
        file[usize::from(u16::from_le_bytes([edit[0], edit[1]])) % length] ^= edit[2];
    }
    if sealed && file.len() >= WORDS_AT + 8 {
        seal(&mut file);
    }
    file
}

/// A clock at the time that the file states.
fn clock_of(file: &[u8]) -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_nanos(number(file, 24)));
    clock
}

/// The number at a place in the file, or 0 if the file ends before it.
fn number(file: &[u8], at: usize) -> u64 {
    file.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
}

fn judge(file: &[u8], restored: Result<KeyedLimiter<u8>, RestoreError>, plant: Plant) {
    let table = match restored {
        Ok(table) => table,
        Err(error) => {
            assert!(plant != Plant::Limit, "refused: {error}");
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut again = Vec::new();
    table.snapshot(&mut again).expect("there is room");
    set_wall(&mut again, number(file, WALL_AT));
    if plant == Plant::Answer {
        again[WORDS_AT] ^= 1;
    }
    assert!(again == file, "the snapshot of what was restored is another");
    // Whatever the words hold, there must be an answer, and no more may remain than the limit.
    let saved = Timestamp::from_nanos(number(file, 24));
    let hours = [0, 1, 1_000_000].map(|hours| saved + Duration::from_secs(3_600 * hours));
    for now in [Timestamp::default(), Timestamp::from_nanos(u64::MAX)].into_iter().chain(hours) {
        for key in 0..=u8::MAX {
            let decision = table.entry(&key).at(now).check();
            assert!(decision.remaining() <= decision.limit());
            let _ = (decision.reset_after(), decision.into_result().map_err(|d| d.retry_after()));
        }
    }
}

/// Writes another reading of the wall clock into the file.
pub(crate) fn set_wall(file: &mut [u8], ns: u64) {
    file[WALL_AT..WALL_AT + 8].copy_from_slice(&ns.to_le_bytes());
    seal(file);
}

/// Writes both checksums as the format's description says, bit by bit.
pub(crate) fn seal(file: &mut [u8]) {
    let preamble = WORDS_AT - 8;
    let of_preamble = checksum([&file[..preamble], &[]]);
    file[preamble..WORDS_AT].copy_from_slice(&of_preamble.to_le_bytes());
    let end = file.len() - 8;
    let of_all = checksum([&file[..preamble], &file[WORDS_AT..end]]);
    file[end..].copy_from_slice(&of_all.to_le_bytes());
}

fn checksum(parts: [&[u8]; 2]) -> u64 {
    let mut rest = u64::MAX;
    for byte in parts.into_iter().flatten() {
        rest ^= u64::from(*byte);
        for _ in 0..8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ 0xC96C_5795_D787_0F42 } else { rest >> 1 };
        }
    }
    !rest
}

impl KeyedCase {
    /// The policy, and a snapshot of the table after all operations.
    fn snapshot(&self) -> Option<(Policy, Vec<u8>)> {
        let played = self.play(Plant::Nothing)?;
        let mut file = Vec::new();
        played.table().snapshot(&mut file).expect("there is room");
        // The file must be the same in every run.
        set_wall(&mut file, 0);
        Some((played.policy(), file))
    }
}
