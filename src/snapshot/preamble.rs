//! [`Preamble`]: the description of a snapshot before its words, in [`PREAMBLE_BYTES`] bytes.
//!
//! `docs/snapshot-format.md` describes it byte by byte, and a test compares it with a whole file.

use std::fmt;

use super::error::RestoreError;
use super::version::VERSION;
use crate::clock::Origin;
use crate::policy::Policy;

pub(super) const MAGIC: [u8; 8] = *b"TOLLGATE";

/// The length of the preamble without its checksum.
pub(super) const PREAMBLE_BYTES: usize = 328;

/// The longest text of a policy has 180 bytes: each number in it then has the largest possible number of digits.
const POLICY_BYTES: usize = 192;

/// The number of bits in a pointer of this machine.
#[expect(clippy::cast_possible_truncation, reason = "128 at most")]
const POINTER_BITS: u8 = usize::BITS as u8;

/// The kind of limiter in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotKind {
    Keyed,
    Limiter,
    Tiers,
}

/// A type whose values are stored as one byte. The codes of its values are 1, 2, ...
trait ByteCode: Copy + PartialEq + 'static {
    /// The name of the byte in an error.
    const FIELD: &'static str;

    /// All values in the order of their codes, each with its name.
    const ALL: &'static [(Self, &'static str)];

    fn of(code: u8) -> Result<Self, RestoreError> {
        // Codes begin with 1, so that zero bytes are not a valid preamble.
        let known = usize::from(code).checked_sub(1).and_then(|index| Self::ALL.get(index));
        let refused = || RestoreError::field(Self::FIELD, code.into(), 1);
        known.map(|(known, _)| *known).ok_or_else(refused)
    }

    /// The default of 0 is never used, since `ALL` has every value.
    fn code(self) -> u8 {
        let codes = 1..;
        Self::ALL
            .iter()
            .zip(codes)
            .find(|((known, _), _)| *known == self)
            .map_or(0, |(_, code)| code)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }
}

impl ByteCode for SnapshotKind {
    const FIELD: &'static str = "kind";
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Keyed, "KeyedLimiter"),
        (Self::Limiter, "Limiter"),
        (Self::Tiers, "KeyedLimiter with tiers"),
    ];
}

impl ByteCode for Origin {
    const FIELD: &'static str = "kind of clock";
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Own, "the start of a clock"),
        (Self::Unix, "the Unix epoch"),
        (Self::Told, "wherever its owner does (a ManualClock or CoarseClock)"),
    ];
}

/// The layout of words, and the units of their parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) cells: u8,
    pub(crate) granule_bits: u8,
    pub(crate) count_bits: u8,
    pub(crate) time_bits: u8,
    pub(crate) tag_bits: u8,
    /// The number of ticks in a unit for GCRA, the nanoseconds in a quantum for `from-first` windows, and the packing
    /// of the counts for segmented windows.
    pub(crate) fineness: u64,
    /// The epoch of a table's words, in the algorithm's unit. `back` is the furthest that a word's time may lie before
    /// the instant at which the word is read, in the same unit. For tiers these fields hold other numbers: see
    /// `form_of` in `keyed/quotas/book/saved.rs`.
    pub(crate) epoch: u64,
    pub(crate) back: u64,
    /// The quantum, in ns, to which the end of a penalty is rounded up within a unit of time. It is 1 for GCRA, and 0
    /// without a penalty.
    pub(crate) end_quantum_ns: u64,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cells, granule_bits, count_bits, time_bits, tag_bits, .. } = self;
        let Self { fineness, epoch, back, end_quantum_ns, .. } = self;
        write!(
            f,
            "{tag_bits} bits of tag, {time_bits} of time and {count_bits} of counts in {cells} cells, \
             fineness {fineness}, epoch {epoch}, back {back}, ends of penalties in {end_quantum_ns} ns, \
             granule 2^{granule_bits} ns"
        )
    }
}

/// The description at the beginning of a snapshot.
#[derive(Clone)]
pub(crate) struct Preamble {
    pub(crate) kind: SnapshotKind,
    pub(crate) origin: Origin,
    /// The length of the whole file, in bytes.
    pub(crate) length: u64,
    pub(crate) now_ns: u64,
    pub(crate) wall_ns: u64,
    pub(crate) capacity: u64,
    pub(crate) shards: u64,
    pub(crate) form: Form,
    pub(crate) fingerprint: u64,
    pub(crate) seeds: Option<[u64; 4]>,
    /// The policy's text.
    pub(crate) policy: String,
}

impl Preamble {
    pub(super) fn to_bytes(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        let mut rest = &mut bytes[..];
        // This cannot panic: `PREAMBLE_BYTES` is the length of all fields together. All fields have a fixed length
        // except the text, which is last.
        let mut put = |field: &[u8]| {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(field.len());
            head.copy_from_slice(field);
            rest = tail;
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&[self.kind.code(), POINTER_BITS, self.origin.code(), self.seeds.is_some().into()]);
        for number in [self.length, self.now_ns, self.wall_ns, self.capacity, self.shards] {
            put(&number.to_le_bytes());
        }
        let form = &self.form;
        // Every text fits, which is tested. A longer text would be cut, and refused when it is read.
        let text = &self.policy.as_bytes()[..self.policy.len().min(POLICY_BYTES)];
        let text_length = u8::try_from(text.len()).unwrap_or(0);
        put(&[form.cells, form.granule_bits, form.count_bits, form.time_bits, form.tag_bits]);
        put(&[text_length, 0, 0]);
        for number in [form.fineness, form.epoch, form.back, form.end_quantum_ns] {
            put(&number.to_le_bytes());
        }
        for number in std::iter::once(self.fingerprint).chain(self.seeds.unwrap_or_default()) {
            put(&number.to_le_bytes());
        }
        put(text);
        bytes
    }

    /// Reads a preamble that [`is_ours`] and the checksum have accepted.
    pub(super) fn from_bytes(bytes: &[u8; PREAMBLE_BYTES]) -> Result<Self, RestoreError> {
        // The magic bytes and the version have been compared already.
        let mut rest = &bytes[12..];
        let [kind, pointer_bits, origin, has_seeds] = take(&mut rest);
        let [length, now_ns, wall_ns, capacity, shards] = numbers(&mut rest);
        let [cells, granule_bits, count_bits, time_bits, tag_bits, text_length, zeros @ ..] =
            take::<8>(&mut rest);
        let [fineness, epoch, back, end_quantum_ns] = numbers(&mut rest);
        let [fingerprint] = numbers(&mut rest);
        let seeds: [u64; 4] = numbers(&mut rest);
        let text: [u8; POLICY_BYTES] = take(&mut rest);
        // This is checked first: on a machine with another pointer width, keys may have other hashes, even if all other
        // fields are right.
        if pointer_bits != POINTER_BITS {
            return Err(RestoreError::Mismatch(format!(
                "the snapshot comes from a machine with pointers of {pointer_bits} bits; \
                 only one from a machine with {POINTER_BITS} is read here",
            )));
        }
        field("reserved bytes", u64::from(u16::from_le_bytes(zeros)), 0)?;
        field("mark of seeds", u64::from(has_seeds), u64::from(has_seeds.min(1)))?;
        // Unused bytes must be zero, so that they are equal in all files.
        if has_seeds == 0 {
            seeds.into_iter().try_for_each(|seed| field("place of seeds", seed, 0))?;
        }
        // A length that is larger than the field is refused in the next line.
        let (policy, padding) = text.split_at(usize::from(text_length).min(POLICY_BYTES));
        field("length of the policy", u64::from(text_length), policy.len() as u64)?;
        padding.iter().try_for_each(|&byte| field("padding of the policy", byte.into(), 0))?;
        Ok(Self {
            kind: SnapshotKind::of(kind)?,
            origin: Origin::of(origin)?,
            length,
            now_ns,
            wall_ns,
            capacity,
            shards,
            form: Form {
                cells,
                granule_bits,
                count_bits,
                time_bits,
                tag_bits,
                fineness,
                epoch,
                back,
                end_quantum_ns,
            },
            fingerprint,
            seeds: (has_seeds == 1).then_some(seeds),
            policy: String::from_utf8_lossy(policy).into_owned(),
        })
    }

    /// Refuses a snapshot of a limiter that differs from the limiter to be restored.
    pub(crate) fn is_of(
        &self,
        kind: SnapshotKind,
        policy: Policy,
        form: Form,
        origin: Origin,
    ) -> Result<(), RestoreError> {
        self.is_of_kind(kind)?;
        // The policy is compared before the layout. The layout follows from the policy, so an error about the policy is
        // more useful.
        let expected = policy.to_string();
        if self.policy != expected {
            return Err(RestoreError::Policy(format!(
                "the snapshot was taken under {:?}; only one under {expected:?} is read",
                self.policy,
            )));
        }
        // A different layout for the same policy comes from another version.
        if self.form != form {
            return Err(RestoreError::layout(self.form, form));
        }
        self.has_origin(origin)
    }

    /// Refuses a snapshot of another kind of limiter.
    pub(crate) fn is_of_kind(&self, kind: SnapshotKind) -> Result<(), RestoreError> {
        if self.kind != kind {
            return Err(RestoreError::Mismatch(format!(
                "this is the snapshot of a {}; one of a {} is needed",
                self.kind.name(),
                kind.name(),
            )));
        }
        Ok(())
    }

    /// Refuses times with another origin than the clock's.
    pub(crate) fn has_origin(&self, origin: Origin) -> Result<(), RestoreError> {
        if self.origin != origin {
            return Err(RestoreError::Mismatch(format!(
                "the snapshot's times count from {} and the clock's from {}; give a clock as it had",
                ByteCode::name(self.origin),
                ByteCode::name(origin),
            )));
        }
        Ok(())
    }
}

/// Refuses a file if its first bytes are not the magic bytes and the version that this code reads. The file may be
/// shorter than these bytes.
pub(super) fn is_ours(bytes: &[u8]) -> Result<(), RestoreError> {
    let (magic, mut rest) = bytes.split_at(bytes.len().min(MAGIC.len()));
    if !MAGIC.starts_with(magic) {
        return Err(RestoreError::Damaged(format!(
            "the file begins with \"{}\"; a snapshot begins with \"TOLLGATE\"",
            magic.escape_ascii(),
        )));
    }
    if rest.len() < size_of_val(&VERSION) {
        return Ok(()); // too short to tell, which is another error
    }
    match u32::from_le_bytes(take(&mut rest)) {
        VERSION => Ok(()),
        found => Err(RestoreError::Mismatch(format!(
            "the snapshot has version {found} of the format; version {VERSION} is read"
        ))),
    }
}

/// Refuses a number that differs from the expected number.
pub(crate) fn field(name: &'static str, found: u64, expected: u64) -> Result<(), RestoreError> {
    if found == expected { Ok(()) } else { Err(RestoreError::field(name, found, expected)) }
}

/// Takes the next bytes. They would be zeros if there were too few bytes, which cannot happen with the sizes above.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    match rest.split_first_chunk() {
        Some((head, tail)) => {
            *rest = tail;
            *head
        }
        None => [0; N],
    }
}

fn numbers<const N: usize>(rest: &mut &[u8]) -> [u64; N] {
    std::array::from_fn(|_| u64::from_le_bytes(take(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preamble(policy: &str) -> Preamble {
        Preamble {
            kind: SnapshotKind::Keyed,
            origin: Origin::Unix,
            length: 1,
            now_ns: 2,
            wall_ns: 3,
            capacity: 4,
            shards: 5,
            form: Form {
                cells: 6,
                granule_bits: 7,
                count_bits: 8,
                time_bits: 9,
                tag_bits: 10,
                fineness: 11,
                epoch: 12,
                back: 13,
                end_quantum_ns: 24,
            },
            fingerprint: 14,
            seeds: Some([16, 17, 18, 19]),
            policy: policy.to_owned(),
        }
    }

    #[test]
    fn a_preamble_ends_with_its_policy() {
        let bytes = preamble("gcra 1/s burst 1").to_bytes();
        assert_eq!(&bytes[136..136 + 17], b"gcra 1/s burst 1\0");
        assert_eq!(PREAMBLE_BYTES, 136 + POLICY_BYTES);
    }

    #[test]
    fn the_longest_policy_fits() {
        // A `u64` has at most twenty digits.
        let longest = "segmented-window 10000000000000000000/10000000000000000000ns x64";
        let with_burst =
            "gcra 10000000000000000000/10000000000000000000ns burst 10000000000000000000";
        let words = "soft 99.99% count-denied 10000000000000000000ns \
                     penalty 10000000000000000000ns after 4294967295 extended";
        let [longest, with_burst] = [longest, with_burst].map(|text| format!("{text} {words}"));
        assert_eq!(with_burst.len(), 180);
        for text in [longest, with_burst] {
            let read = Preamble::from_bytes(&preamble(&text).to_bytes()).expect("a preamble");
            assert_eq!(read.policy, text);
        }
    }

    #[test]
    fn what_is_written_is_read_or_refused_to_the_bit() {
        let bytes = preamble("gcra 1/s burst 1").to_bytes();
        for bit in 96..8 * PREAMBLE_BYTES {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = Preamble::from_bytes(&other) {
                // The changed text may be invalid UTF-8, which is not the text of any policy.
                let lossy = read.policy.contains('\u{fffd}');
                assert!(lossy || read.to_bytes() == other, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_number_that_stands_for_nothing_is_refused_by_its_name() {
        for (at, value, name) in [
            (12, 4, "kind"),
            (14, 0, "kind of clock"),
            (15, 2, "mark of seeds"),
            (61, 193, "length of the policy"),
            (62, 1, "reserved bytes"),
            (327, 1, "padding of the policy"),
        ] {
            let mut bytes = preamble("gcra 1/s burst 1").to_bytes();
            bytes[at] = value;
            match Preamble::from_bytes(&bytes).map(|_| ()) {
                Err(RestoreError::Damaged(text)) => {
                    assert!(text.starts_with(&format!("the snapshot's {name} is ")), "{text}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        let mut bytes = preamble("gcra 1/s burst 1").to_bytes();
        bytes[15] = 0;
        let refused = Preamble::from_bytes(&bytes).map(|_| ()).unwrap_err();
        assert_eq!(refused.to_string(), "the snapshot's place of seeds is 16; it must be 0");
    }
}
