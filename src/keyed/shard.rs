//! [`Shard`]: one cache line of seven cells and the header that dates them.
//!
//! # Orderings
//! A word means something only together with a floor that is not older than the one it was written
//! under. Hence:
//!
//! * words are written with `Release` and loaded with `Acquire`, and the header is loaded `Acquire`
//!   *after* the word: a thread that reads a word has, by that edge, a floor at least as new as its writer's;
//! * the header is also loaded before the words; equal floors on both sides mean that no word was read
//!   under a floor that was replaced meanwhile (which would only cause false denials);
//! * a floor is published with `Release`, after the sweep under its predecessor;
//! * a floor that a new word is to be dated by is read by a write (`enter`), so that the word and the next
//!   floor cannot miss each other.

use crate::sync::{AtomicU64, Fault, Ordering, planted, scale};

/// The floor counts time in granules of 2^20 ns, about a millisecond.
// Coarse enough for a header to hold all instants in 44 bits, with room for the install counter;
// fine enough for a floor to come within some two milliseconds of the clock.
pub(super) const GRANULE_BITS: u32 = 20;

/// Cells in a shard: with the header they fill a line of 64 bytes.
#[cfg(not(loom))]
// 8 words of 8 bytes, one of them the header.
pub(super) const CELLS: usize = 7;
/// loom explores every order, so its shards are small.
#[cfg(loom)]
pub(super) const CELLS: usize = 3;

/// The cells of a shard, by number.
#[inline(always)]
pub(super) fn cells() -> std::ops::Range<usize> {
    0..scale::cells(CELLS)
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Shard>() == 64);

/// Aligned, and its words in this order: see [`hint`](super::hint).
#[derive(Debug)]
#[cfg_attr(not(any(loom, shuttle)), repr(C, align(64)))]
#[cfg_attr(
    all(feature = "huge-pages", target_os = "linux", not(any(loom, shuttle))),
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout)
)]
pub(super) struct Shard {
    header: AtomicU64,
    cells: [AtomicU64; CELLS],
}

impl Shard {
    pub(super) fn new(floor: u64) -> Self {
        Self {
            header: AtomicU64::new(Header::first(floor).0),
            // 0 is the vacant word: a new shard holds no key.
            cells: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// A shard that holds these words.
    pub(super) fn holding(header: Header, words: [u64; CELLS]) -> Self {
        Self { header: AtomicU64::new(header.0), cells: words.map(AtomicU64::new) }
    }

    /// What it holds now. For a shard that no other thread has a reference to.
    pub(super) fn copy(&self) -> Self {
        // One load after the other, but of one moment: no other thread writes meanwhile.
        Self::holding(self.header(), std::array::from_fn(|cell| self.load(cell)))
    }

    /// Of a table of logs: a floor in nanoseconds, and in each cell whose log its entry is. What they mean, and how they
    /// are ordered, is said in `src/keyed/log`.
    pub(super) fn floor_and_headers(&self) -> (&AtomicU64, &[AtomicU64; CELLS]) {
        (&self.header, &self.cells)
    }

    #[inline]
    pub(super) fn header(&self) -> Header {
        // Acquire: pairs with the Release of `publish`, and keeps the words' loads after this one.
        Header(self.header.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn load(&self, cell: usize) -> u64 {
        // Acquire: pairs with the Release of every write to a word; the header's load comes after it.
        self.cells[cell].load(acquire_of_words())
    }

    /// Replaces the exact word that was read. Also the weak form's spurious failure is a `false`.
    #[inline]
    pub(super) fn charge(&self, cell: usize, word: u64, next: u64) -> bool {
        // Release: a thread that reads `next` also sees the floor that it was written under. Relaxed on failure:
        // nothing is made of the word that was found; the caller looks again.
        self.cells[cell]
            .compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Replaces the exact word that was read: clearing, claiming, opening.
    pub(super) fn replace(&self, cell: usize, word: u64, next: u64) -> bool {
        // AcqRel: Release as in `charge`. Acquire, so that the claim that this may be orders what the
        // caller reads next after what the word's writer saw. Relaxed on failure as in `charge`.
        self.cells[cell].compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// [`replace`](Self::replace) for a word that was judged to owe nothing: any other may owe something.
    pub(super) fn reclaim(&self, cell: usize, judged: u64, next: u64) -> bool {
        // If the key was charged since its word was judged, the CAS fails and the charge stays.
        self.replace(cell, reclaimable(self, cell, judged), next)
    }

    /// A number for a claim that no other claim in this shard carries until the counter has turned.
    pub(super) fn take_nonce(&self) -> u64 {
        // Some models count installs outside of the header.
        if let Some(count) = scale::count_apart() {
            return told_apart(count);
        }
        // Relaxed: all that is asked of it is that no two threads get the same number, which one
        // location's modification order gives.
        let header = Header(self.header.fetch_add(Header::ONE_INSTALL, Ordering::Relaxed));
        told_apart(header.nonce())
    }

    /// Reads the floor that a new word will be dated by. For a thread that holds a claim in this shard.
    pub(super) fn enter(&self) -> Header {
        // A write, although only the floor is wanted, so that no floor can be published past a word that
        // is about to be opened under its predecessor. If the write comes after the sweeper's load of
        // the header, the publication fails. If before, the sweep sees the claim, and vacates it, or
        // what followed it, and judges it: Release pairs with the Acquire of `header`, and the writes
        // in between, all of them read-modify-writes, carry that on. Acquire as in `header`.
        if !marks_floors() {
            return self.header();
        }
        Header(self.header.fetch_add(Header::ONE_INSTALL, Ordering::AcqRel))
    }

    /// The newest word of a cell, as no thread of a model sees it: for assertions.
    #[cfg(any(loom, shuttle))]
    pub(super) fn newest(&self, cell: usize) -> u64 {
        self.cells[cell].newest()
    }

    /// Publishes a floor in place of the exact header that was read.
    pub(super) fn publish(&self, header: Header, floor: u64) -> bool {
        // Release: a thread that sees this floor also sees the sweep before it. Acquire is not needed: the
        // header's value is the one that was loaded. Relaxed on failure: the caller starts again.
        self.header
            .compare_exchange(
                header.0,
                header.with_floor(floor).0,
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

/// `[install counter: 12 | 0: 8 | floor: 44]`
///
/// | field | changed by |
/// |---|---|
/// | install counter | each claim adds one, and each opening; the overflow falls off |
/// | 0 | no thread: reserved. Marks of the spill lie beside the shards |
/// | floor | a thread that has swept the shard under the old one; it never falls |
///
/// The floor counts granules of 2^20 ns since the clock's origin. 44 bits of it are all of a `u64` of
/// nanoseconds, so it never wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header(u64);

impl Header {
    const FLOOR_BITS: u32 = u64::BITS - GRANULE_BITS;
    const FLOOR_MASK: u64 = (1 << Self::FLOOR_BITS) - 1;
    // What the floor leaves, but for 8 bits in reserve. While a floor stands, a claim's nonce repeats
    // after 4096 claims and openings in its shard; the floor's low bits tell later ones apart.
    const COUNTER_BITS: u32 = 12;
    // In the topmost bits, so that an addition that overflows falls off and never touches the
    // floor.
    const ONE_INSTALL: u64 = 1 << (u64::BITS - Self::COUNTER_BITS);

    pub(super) const fn first(floor: u64) -> Self {
        // A floor has no other bits, as long as it follows from a `u64` of nanoseconds.
        Self(floor & Self::FLOOR_MASK)
    }

    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether no bit is set in it that no thread sets.
    pub(super) fn is_known(self) -> bool {
        // The 8 bits between the floor and the counter.
        self.0 & !Self::FLOOR_MASK & (Self::ONE_INSTALL - 1) == 0
    }

    /// The floor, in granules.
    #[inline]
    pub(super) fn floor(self) -> u64 {
        self.0 & Self::FLOOR_MASK
    }

    /// The floor, in nanoseconds.
    #[inline]
    pub(super) fn floor_ns(self) -> u64 {
        self.floor() << GRANULE_BITS
    }

    fn with_floor(self, floor: u64) -> Self {
        // The install counter stays as it is, so nonces go on under the new floor.
        Self((self.0 & !Self::FLOOR_MASK) | (floor & Self::FLOOR_MASK))
    }

    /// The install counter, filled up with the low bits of the floor.
    fn nonce(self) -> u64 {
        // The counter in the lowest bits: where a claim has little room it is what remains.
        (self.0 >> (u64::BITS - Self::COUNTER_BITS)) | (self.floor() << Self::COUNTER_BITS)
    }
}

// The points of this type that the proofs lean on: each does what its name says unless a model plants its fault, as those
// in `points` do.

/// The order of a word's load.
#[inline(always)]
fn acquire_of_words() -> Ordering {
    // Acquire: see `load`. Relaxed, the header that is loaded next could be older than the word.
    if planted(Fault::RelaxedWords) { Ordering::Relaxed } else { Ordering::Acquire }
}

/// The word that must stand in a cell for it to be reclaimed: the one that was judged.
#[inline(always)]
fn reclaimable(shard: &Shard, cell: usize, judged: u64) -> u64 {
    if planted(Fault::ReclaimWithoutExactWord) { shard.load(cell) } else { judged }
}

/// The number that tells a claim from others of its key.
#[inline(always)]
fn told_apart(count: u64) -> u64 {
    if planted(Fault::EqualNonces) { 7 } else { count }
}

/// Whether an opener's reading of its floor leaves a trace in the header. A model may do without.
#[inline(always)]
fn marks_floors() -> bool {
    !planted(Fault::FloorReadUnmarked) && scale::marks_floors()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_repeat_only_after_the_counter_has_turned() {
        let shard = Shard::new(5);
        // However few bits of it a claim has room for, the counter is among them; then the floor's.
        for count in 0..4096 {
            assert_eq!(shard.take_nonce(), count | 5 << 12);
        }
        assert_eq!(shard.take_nonce(), 5 << 12);
        assert_eq!(shard.header().floor(), 5);
    }

    #[test]
    fn a_publication_fails_when_an_install_has_begun_meanwhile() {
        let shard = Shard::new(5);
        let seen = shard.header();
        shard.take_nonce();
        assert!(!shard.publish(seen, 6));
        let seen = shard.header();
        assert_eq!(shard.enter(), seen);
        assert!(!shard.publish(seen, 6));
        assert!(shard.publish(shard.header(), 6));
        assert_eq!(shard.header().floor(), 6);
    }
}
