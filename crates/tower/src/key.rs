//! [`Key`]: the key that a request is charged to, in a fixed number of bytes.
//!
//! Parts are joined so that no two lists of parts give the same bytes:
//!
//! ```text
//! key    = part*  |  0xFE digest part*       the second, once the first would not fit
//!        | 0xFC                              of requests that have none of their own
//! part   = length (0 to 63) bytes            a short part, as it is
//!        | 0xFF digest                       a longer one
//!        | 0xFD                              none: what was looked for is not there
//! digest = SHA-256, 32 bytes
//! ```
//!
//! Each form begins with its own byte and states its length, so a key can be parsed back into its parts: joining is
//! injective unless two texts have the same SHA-256. A key of any length takes the same memory, and none of the heap.

use std::fmt;
use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};

/// The bytes of a key: an address (17), a route of the maximum length (64), a method and a mark.
const KEY_BYTES: usize = 111;

/// The maximum length of a part that is stored verbatim.
const SHORT_MAX: usize = 63;

// The longest part fits beside a folded key.
const _: () = assert!(33 + 1 + SHORT_MAX <= KEY_BYTES);

const LONG: u8 = 0xFF;
const FOLDED: u8 = 0xFE;
const ABSENT: u8 = 0xFD;
const NOBODY: u8 = 0xFC;

/// The parts that identify the key which a request is charged to.
///
/// Different lists of parts are different keys, whatever bytes are in the parts. A key takes no heap memory; parts
/// that are too long for it are stored as their SHA-256.
///
/// ```
/// use tollgate_tower::Key;
/// let key = |parts: &[&str]| {
///     let mut key = Key::new();
///     parts.iter().for_each(|part| key.push(part.as_bytes()));
///     key
/// };
/// assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
/// assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
/// ```
#[derive(Clone, Copy)]
pub struct Key {
    /// Bytes beyond the length are 0.
    bytes: [u8; KEY_BYTES],
    length: u8,
}

impl Key {
    /// A key without parts: the same for every request.
    ///
    /// ```
    /// use tollgate_tower::Key;
    /// assert!(Key::new().as_bytes().is_empty());
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; KEY_BYTES], length: 0 }
    }

    /// The key of all requests that have none of their own. It equals no key that is made of parts.
    pub(crate) fn nobody() -> Self {
        let mut key = Self::new();
        key.append(&[NOBODY]);
        key
    }

    /// Adds a part. An empty part is also a part.
    ///
    /// ```
    /// use tollgate_tower::Key;
    /// let mut key = Key::new();
    /// key.push(b"GET");
    /// assert_eq!(key.as_bytes(), b"\x03GET");
    /// ```
    #[inline]
    pub fn push(&mut self, part: &[u8]) {
        let (start, end) = (usize::from(self.length), usize::from(self.length) + 1 + part.len());
        if part.len() > SHORT_MAX || end > KEY_BYTES {
            return self.push_with_care(part);
        }
        let room = &mut self.bytes[start..end];
        #[expect(clippy::cast_possible_truncation, reason = "at most 63, and at most KEY_BYTES")]
        {
            room[0] = part.len() as u8;
            self.length = end as u8;
        }
        room[1..].copy_from_slice(part);
    }

    /// Adds a part that is long, or for which there is no room.
    #[cold]
    fn push_with_care(&mut self, part: &[u8]) {
        if part.len() > SHORT_MAX {
            return self.push_digest(part);
        }
        self.make_room(1 + part.len());
        self.push(part);
    }

    /// Adds the SHA-256 of a part: for secrets, which should not stay in memory.
    ///
    /// ```
    /// use tollgate_tower::Key;
    /// let mut key = Key::new();
    /// key.push_digest(b"secret");
    /// assert_eq!(key.as_bytes().len(), 33);
    /// ```
    pub fn push_digest(&mut self, part: &[u8]) {
        self.make_room(33);
        self.append(&[LONG]);
        self.append(&Sha256::digest(part));
    }

    /// Adds a mark that a part is missing.
    ///
    /// ```
    /// use tollgate_tower::Key;
    /// let (mut none, mut empty) = (Key::new(), Key::new());
    /// none.push_absent();
    /// empty.push(b"");
    /// assert_ne!(none, empty);
    /// ```
    pub fn push_absent(&mut self) {
        self.make_room(1);
        self.append(&[ABSENT]);
    }

    /// The parts, joined.
    ///
    /// ```
    /// use tollgate_tower::Key;
    /// let mut key = Key::new();
    /// key.push(&[203, 0, 113, 7]);
    /// assert_eq!(key.as_bytes(), [4, 203, 0, 113, 7]);
    /// ```
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Replaces the content by its digest if this many more bytes would not fit. A part takes at most 64, which fits
    /// beside the 33 of a folded key.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if usize::from(self.length) + bytes > KEY_BYTES {
            self.fold();
        }
    }

    #[cold]
    fn fold(&mut self) {
        let digest = Sha256::digest(self.as_bytes());
        *self = Self::new();
        self.append(&[FOLDED]);
        self.append(&digest);
    }

    /// The caller has made room.
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        let end = start + bytes.len();
        self.bytes[start..end].copy_from_slice(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "at most KEY_BYTES")]
        {
            self.length = end as u8;
        }
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

/// A short key, such as that of an IPv4 address, is hashed as one number: its bytes, with its length above them. A
/// longer key is hashed as slices are, its length first. These lengths never equal one of these numbers, so what one
/// key writes to the hasher is never a prefix of what another writes.
impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        if self.length < 8 {
            let [a, b, c, d, e, f, g, ..] = self.bytes;
            state.write_u64(u64::from_le_bytes([a, b, c, d, e, f, g, self.length]));
        } else {
            self.as_bytes().hash(state);
        }
    }
}

/// The bytes, escaped, so that control characters in a request do not reach a terminal or a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(b\"{}\")", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    enum PushedPart {
        Text(Vec<u8>),
        Secret(Vec<u8>),
        Absent,
    }

    fn key(parts: &[PushedPart]) -> Key {
        let mut key = Key::new();
        for part in parts {
            match part {
                PushedPart::Text(text) => key.push(text),
                PushedPart::Secret(text) => key.push_digest(text),
                PushedPart::Absent => key.push_absent(),
            }
        }
        key
    }

    /// A long text and its digest are the same part.
    fn canonical(parts: Vec<PushedPart>) -> Vec<PushedPart> {
        let long = |part| match part {
            PushedPart::Text(text) if text.len() > SHORT_MAX => PushedPart::Secret(text),
            part => part,
        };
        parts.into_iter().map(long).collect()
    }

    fn part() -> impl Strategy<Value = PushedPart> {
        // The bytes that have a meaning in the encoding, in all lengths around its bounds.
        let byte = prop_oneof![Just(0_u8), Just(1), Just(LONG), Just(FOLDED), Just(ABSENT)];
        let text = prop::collection::vec(byte, 0..70);
        prop_oneof![
            4 => text.clone().prop_map(PushedPart::Text),
            1 => text.prop_map(PushedPart::Secret),
            1 => Just(PushedPart::Absent),
        ]
    }

    proptest! {
        #[test]
        fn different_parts_are_different_keys(
            one in prop::collection::vec(part(), 0..6),
            other in prop::collection::vec(part(), 0..6),
        ) {
            let (one, other) = (canonical(one), canonical(other));
            prop_assert_eq!(key(&one) == key(&other), one == other);
        }

        #[test]
        fn a_part_cut_elsewhere_is_another_key(
            text in prop::collection::vec(any::<u8>(), 1..60),
            cuts in (0_usize..60, 0_usize..60),
        ) {
            let cut = |at: usize| {
                let (left, right) = text.split_at(at % (text.len() + 1));
                [PushedPart::Text(left.to_vec()), PushedPart::Text(right.to_vec())]
            };
            let (one, other) = (cut(cuts.0), cut(cuts.1));
            prop_assert_eq!(key(&one) == key(&other), one == other);
        }
    }

    /// A key of this many bytes, at least 65.
    fn of_length(bytes: usize) -> Key {
        let mut key = Key::new();
        key.push(&[7; SHORT_MAX]);
        key.push(&vec![8; bytes - 65]);
        key
    }

    fn digest(mark: u8, bytes: &[u8]) -> Vec<u8> {
        [&[mark], &Sha256::digest(bytes)[..]].concat()
    }

    #[test]
    fn a_part_of_up_to_63_bytes_is_kept_as_it_is_and_a_longer_one_as_its_digest() {
        let full = of_length(109);
        let assert_kept = |part: &[u8], kept: Vec<u8>| {
            let (mut alone, mut behind) = (Key::new(), full);
            alone.push(part);
            behind.push(part);
            assert_eq!(alone.as_bytes(), kept);
            assert_eq!(behind.as_bytes(), [digest(FOLDED, full.as_bytes()), kept].concat());
        };
        for length in [2, 50, 62, 63] {
            let part = vec![9; usize::from(length)];
            assert_kept(&part, [&[length], &part[..]].concat());
        }
        for length in [64, 65, 1_000] {
            let part = vec![9; length];
            assert_kept(&part, digest(LONG, &part));
        }
    }

    #[test]
    fn a_key_is_folded_if_a_part_does_not_fit_and_not_before() {
        type Push = fn(&mut Key);
        let pushes: [(Vec<u8>, Push); 3] = [
            (vec![ABSENT], Key::push_absent),
            (digest(LONG, b"secret"), |key| key.push_digest(b"secret")),
            (b"\x03GET".to_vec(), |key| key.push(b"GET")),
        ];
        for (kept, push) in pushes {
            let start = KEY_BYTES - kept.len();
            let (mut fits, mut folds) = (of_length(start), of_length(start + 1));
            let (before, folded) = (fits, digest(FOLDED, folds.as_bytes()));
            push(&mut fits);
            push(&mut folds);
            assert_eq!(fits.as_bytes(), [before.as_bytes(), &kept].concat());
            assert_eq!(folds.as_bytes(), [folded, kept].concat());
        }
    }

    #[test]
    fn no_parts_give_the_key_of_requests_that_have_none() {
        assert_eq!(Key::nobody().as_bytes(), [NOBODY]);
        assert_ne!(Key::nobody(), Key::new());
    }

    /// A hasher that records what is written to it.
    #[derive(Default)]
    struct RecordingHasher(Vec<u8>);

    impl Hasher for RecordingHasher {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    #[test]
    fn no_key_gives_the_hash_what_another_begins_with() {
        let given = |key: &Key| {
            let mut hasher = RecordingHasher::default();
            key.hash(&mut hasher);
            hasher.0
        };
        let mut keys = vec![Key::new(), Key::nobody()];
        for length in 0..40 {
            for byte in [0, 1, 7, 8, 39] {
                let mut key = Key::new();
                key.push(&vec![byte; length]);
                keys.push(key);
                key.push(b"");
                keys.push(key);
                key.push_absent();
                keys.push(key);
                // Other keys of this length differ in the last byte alone.
                let mut key = Key::new();
                key.push(&[&vec![7; length][..], &[byte]].concat());
                keys.push(key);
            }
        }
        let given: Vec<_> = keys.iter().map(|key| (key, given(key))).collect();
        for (one, of_one) in &given {
            for (other, of_other) in given.iter().filter(|(other, _)| other != one) {
                assert!(!of_other.starts_with(of_one), "{one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn a_key_of_any_length_takes_the_same_memory() {
        let mut key = Key::new();
        let mut seen = Vec::new();
        for _ in 0..1_000 {
            key.push(&[7; SHORT_MAX]);
            assert!(!seen.contains(&key));
            seen.push(key);
        }
        assert_eq!(size_of::<Key>(), KEY_BYTES + 1);
    }
}
