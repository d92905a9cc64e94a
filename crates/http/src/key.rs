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
//! Each form begins with its own byte and states its length, so a key can be parsed back into its parts. Two different
//! lists of parts give the same key only if two texts have the same SHA-256. A key takes the same memory whatever its
//! length, and no heap memory.

use std::fmt;
use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};

/// The bytes of a key: an address (17), a route of the maximum length (64), a method and a mark.
const KEY_BYTES: usize = 110;

/// A tier that no limit has, since each has fewer tiers.
const NO_TIER: u8 = u8::MAX;

/// The maximum length of a part that is stored verbatim.
const SHORT_MAX: usize = 63;

// The longest part fits after a key that was replaced by its digest.
const _: () = assert!(33 + 1 + SHORT_MAX <= KEY_BYTES);

const LONG: u8 = 0xFF;
const FOLDED: u8 = 0xFE;
const ABSENT: u8 = 0xFD;
const NOBODY: u8 = 0xFC;

/// The key that a request is charged to, made of parts.
///
/// Different lists of parts are different keys, whatever bytes are in the parts. A key takes no heap memory; parts that
/// are too long for it are stored as their SHA-256. A key also has a [tier](Key::tier), which is the first tier unless
/// an extractor sets another.
///
/// ```
/// use tollgate_http::keys::Key;
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
    /// The tier: the number of the quota that applies to the key.
    tier: u8,
}

impl Key {
    /// A key without parts: the same for every request.
    ///
    /// ```
    /// use tollgate_http::keys::Key;
    /// assert!(Key::new().as_bytes().is_empty());
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; KEY_BYTES], length: 0, tier: 0 }
    }

    /// The key of all requests that have none of their own. It equals no key that is made of parts.
    ///
    /// ```
    /// use tollgate_http::keys::Key;
    /// assert_ne!(Key::nobody(), Key::new());
    /// ```
    #[must_use]
    pub fn nobody() -> Self {
        let mut key = Self::new();
        key.append(&[NOBODY]);
        key
    }

    /// Adds a part. An empty part is also a part.
    ///
    /// ```
    /// use tollgate_http::keys::Key;
    /// let mut key = Key::new();
    /// key.push(b"GET");
    /// assert_eq!(key.as_bytes(), b"\x03GET");
    /// ```
    #[inline(always)]
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
    /// use tollgate_http::keys::Key;
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
    /// use tollgate_http::keys::Key;
    /// let (mut none, mut empty) = (Key::new(), Key::new());
    /// none.push_absent();
    /// empty.push(b"");
    /// assert_ne!(none, empty);
    /// ```
    pub fn push_absent(&mut self) {
        self.make_room(1);
        self.append(&[ABSENT]);
    }

    /// Puts the key under one of the limit's quotas, by its number from 0: see [`Extract::tier`](crate::keys::Extract::tier).
    /// `None` if the tier is unknown.
    ///
    /// ```
    /// use tollgate_http::keys::Key;
    /// let mut key = Key::new();
    /// key.set_tier(Some(2));
    /// assert_eq!(key.tier(), Some(2));
    /// ```
    pub fn set_tier(&mut self, tier: Option<usize>) {
        self.tier = tier.and_then(|tier| u8::try_from(tier).ok()).unwrap_or(NO_TIER);
    }

    /// The number of the limit's quota that the key is under: 0, unless an extractor has set another. `None` if the
    /// tier is unknown, or above 254.
    ///
    /// ```
    /// use tollgate_http::keys::Key;
    /// assert_eq!(Key::new().tier(), Some(0));
    /// ```
    #[must_use]
    #[inline]
    pub fn tier(&self) -> Option<usize> {
        (self.tier != NO_TIER).then_some(self.tier.into())
    }

    /// The parts, joined.
    ///
    /// ```
    /// use tollgate_http::keys::Key;
    /// let mut key = Key::new();
    /// key.push(&[203, 0, 113, 7]);
    /// assert_eq!(key.as_bytes(), [4, 203, 0, 113, 7]);
    /// ```
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Replaces the content by its digest if this many more bytes would not fit. A part takes at most 64 bytes, which
    /// fit after the 33 bytes of such a digest.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if usize::from(self.length) + bytes > KEY_BYTES {
            self.fold();
        }
    }

    #[cold]
    fn fold(&mut self) {
        let digest = Sha256::digest(self.as_bytes());
        *self = Self { tier: self.tier, ..Self::new() };
        self.append(&[FOLDED]);
        self.append(&digest);
    }

    /// Appends bytes. The caller has made room for them.
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
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes() && self.tier == other.tier
    }
}

impl Eq for Key {}

/// A short key, such as that of an IPv4 address, is hashed as one number: its bytes, with its length above them. A
/// longer key is hashed as slices are, its length first. The number of a short key never equals the length of a longer
/// key, so the bytes that one key writes to the hasher are never a prefix of those that another key writes.
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
mod tests;
