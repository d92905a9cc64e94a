//! [`Entries`]: all entries of a keyed log, and [`LogEntry`], one of them as its key's slots.
//!
//! A shard is a cache line of seven headers and the floor of their entries: a search reads one or two lines.
//! The rest of an entry lies elsewhere:
//!
//! | word | meaning | changes |
//! |---|---|---|
//! | base | the key's log begins there: nothing is free before | rises when the entry is given to a key |
//! | until | everything is free from then on | rises before a slot is taken |
//! | slots | see `src/log/slots.rs` | |
//!
//! Base and until only rise, whatever key the entry is of, and a slot's time falls only when its unit is given or taken
//! back. So a late thread does no harm: a unit that it writes to an entry which is not its key's any more can only deny
//! requests of the new owner, and it is taken back.

use crate::error::BuildError;
use crate::keyed::memory::Memory;
use crate::keyed::memory::shard::CELLS;
use crate::log::{LogRule, ROW_MOST, Slots, raise};
use crate::sync::{AtomicU64, Fault, Ordering, fence, planted, thread_number};

use super::header::LogHeader;

/// The share of entries that are live when there are as many keys as the capacity. A key has two shards here, not two
/// units: its first one while that has few live entries, else the emptier.
pub(in crate::keyed) const DESIGN_LOAD: (usize, usize) = (65, 100);

/// Words of an entry beside its slots: base and until.
// They are not in the cache line of the header, since a search reads only headers.
const BESIDES: usize = 2;

/// The shards of a key, each once.
pub(super) fn pair(first: usize, second: usize) -> impl Iterator<Item = usize> {
    std::iter::once(first).chain((second != first).then_some(second))
}

/// Where an entry is. All threads order entries alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogPlace {
    pub(super) shard: usize,
    pub(super) entry: usize,
}

/// The memory behind the cells of a table of logs. It is allocated once, and never grows or shrinks.
#[derive(Debug)]
pub(in crate::keyed) struct LogStore {
    pub(in crate::keyed) rule: LogRule,
    /// Base, until and slots of each entry.
    words: Box<[AtomicU64]>,
    /// Words of an entry.
    stride: usize,
}

impl LogStore {
    pub(in crate::keyed) fn new(
        rule: LogRule,
        shards: usize,
        capacity: usize,
    ) -> Result<Self, BuildError> {
        let stride = rule.slots + BESIDES;
        let count = shards.checked_mul(CELLS * stride);
        let bytes = count.and_then(|count| count.checked_mul(size_of::<AtomicU64>()));
        let (Some(count), Some(bytes)) = (count, bytes) else {
            return Err(BuildError::capacity_too_large(capacity));
        };
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| BuildError::OutOfMemory { bytes })?;
        // Every base and every slot is 0: everything is free from the beginning of time on.
        words.resize_with(count, || AtomicU64::new(0));
        Ok(Self::holding(rule, words.into_boxed_slice()))
    }

    pub(in crate::keyed) fn holding(rule: LogRule, words: Box<[AtomicU64]>) -> Self {
        Self { rule, words, stride: rule.slots + BESIDES }
    }

    pub(in crate::keyed) fn bytes(&self) -> usize {
        size_of_val::<[AtomicU64]>(&self.words)
    }
}

/// All entries. A cell of the table is the header of its entry, and the header of a shard is the floor of its entries.
/// If a key has no entry in a shard of its own, all units that it was ever admitted in that shard are free from the
/// floor on.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Entries<'a> {
    pub(in crate::keyed) memory: &'a Memory,
    pub(in crate::keyed) store: &'a LogStore,
}

impl<'a> Entries<'a> {
    pub(super) fn shards(&self) -> usize {
        self.memory.len()
    }

    fn floor_word(&self, shard: usize) -> &'a AtomicU64 {
        self.memory.shard(shard).floor_and_headers().0
    }

    /// There is an entry at each place: places are made of a key's shards and the numbers of a shard's cells.
    fn header_word(&self, place: LogPlace) -> &'a AtomicU64 {
        &self.memory.shard(place.shard).floor_and_headers().1[place.entry]
    }

    pub(super) fn header(&self, place: LogPlace) -> LogHeader {
        // Acquire: pairs with the Release of `replace`. A thread that sees an entry vacant also sees the floor
        // below which its key was forgotten. A thread that sees it live also sees the base of its log.
        LogHeader::from_bits(self.header_word(place).load(Ordering::Acquire))
    }

    /// Replaces the exact header that was read.
    pub(super) fn replace(&self, place: LogPlace, header: LogHeader, next: LogHeader) -> bool {
        // AcqRel: Release as in `header`; Acquire, so that what is read next is read after what the old
        // header's writer wrote. Relaxed on failure: the caller looks again.
        self.header_word(place)
            .compare_exchange(header.bits(), next.bits(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// The slots of the key whose header this is.
    pub(super) fn entry(&self, place: LogPlace, seen: LogHeader) -> LogEntry<'a> {
        // The entries of a shard follow one another, and so do the shards.
        let first = (place.shard * CELLS + place.entry) * self.store.stride;
        // There is a stride of words for each entry.
        let words = &self.store.words[first..first + self.store.stride];
        LogEntry { entries: *self, place, seen, words }
    }

    /// The instant at which a key begins that is in neither of its shards: the later of their floors.
    pub(super) fn floor_ns(&self, shards: [usize; 2]) -> u64 {
        // Relaxed: a thread that must see a floor has read a header that was written, with Release, after it.
        // If both are one shard it is read twice. That is harmless, for a floor only rises.
        let floors = shards.map(|shard| self.floor_word(shard).load(Ordering::Relaxed));
        floors[0].max(floors[1])
    }

    pub(super) fn raise_floor(&self, shard: usize, to_ns: u64) {
        // `raise` is Relaxed: see `floor_ns`. If the floor is already as high, this thread has read it, which is as
        // good as having written it.
        raise(self.floor_word(shard), to_ns);
    }

    /// The newest header, for assertions. The threads of a model may see only an older one.
    #[cfg(any(loom, shuttle))]
    pub(super) fn newest(&self, place: LogPlace) -> LogHeader {
        LogHeader::from_bits(self.header_word(place).newest())
    }
}

/// One entry, as it was when its header was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogEntry<'a> {
    entries: Entries<'a>,
    place: LogPlace,
    seen: LogHeader,
    words: &'a [AtomicU64],
}

impl LogEntry<'_> {
    /// The instant from which all slots are free.
    fn until_ns(&self) -> u64 {
        // Relaxed: a caller that must not miss what was written last puts a fence before it.
        self.words[1].load(Ordering::Relaxed)
    }

    /// The instant from which the entry can be taken from its key.
    pub(super) fn idle_ns(&self) -> u64 {
        if planted(Fault::EvictLive) { 0 } else { self.until_ns() }
    }

    /// Begins a key's log at an instant, before the log is opened.
    pub(super) fn begin_at(&self, base_ns: u64) {
        // Release: a thread that reads this base also sees, from then on, the claim that came before it.
        self.words[0].fetch_max(base_ns, Ordering::Release);
    }

    fn slots(&self) -> &[AtomicU64] {
        &self.words[BESIDES..]
    }
}

impl Slots for LogEntry<'_> {
    fn rows(&self) -> usize {
        self.slots().len().div_ceil(ROW_MOST)
    }

    fn row(&self, row: usize) -> &[AtomicU64] {
        let first = row * ROW_MOST;
        // The last row has the slots that are left.
        let last = (first + ROW_MOST).min(self.slots().len());
        &self.slots()[first..last]
    }

    fn low_ns(&self, _: usize) -> u64 {
        0
    }

    fn high_ns(&self, _: usize) -> u64 {
        self.until_ns()
    }

    fn raise_low(&self, _: usize, _: u64) {}

    fn lower_low(&self, _: usize, _: u64) {}

    fn raise_high(&self, _: usize, to_ns: u64) {
        // Relaxed, but before the unit's write, and so before the fence of `confirm`: see `forget`.
        raise(&self.words[1], to_ns);
    }

    /// Each thread begins at a line of its own, if there are enough lines.
    fn start(&self, _: u64) -> (usize, usize) {
        const SLOTS_PER_LINE: usize = 8;
        // Eight slots of eight bytes: threads that begin in different lines do not share one until
        // the log is nearly full.
        let lines = self.slots().len().div_ceil(SLOTS_PER_LINE);
        let slot = thread_number() as usize % lines * SLOTS_PER_LINE;
        (slot / ROW_MOST, slot % ROW_MOST)
    }

    fn taken(&self, _: usize, _: usize) {}

    fn oldest(&self) -> usize {
        0
    }

    fn guess_ns(&self, _: u64) -> Option<u64> {
        None
    }

    fn base_ns(&self) -> u64 {
        // Acquire: pairs with the Release of `begin_at`. A base that a new owner has set is not taken for
        // the old one's: `is_same` comes after it, and sees the claim.
        self.words[0].load(Ordering::Acquire)
    }

    /// True if the entry is still the key's after its unit was written. Otherwise the unit was written into
    /// another key's log, or into one that may have been forgotten before.
    fn confirm(&self) -> bool {
        if planted(Fault::ChargeUnconfirmed) {
            return true;
        }
        // SeqCst: this thread writes the unit (and `until`) and then looks at the header. A thread that forgets the
        // entry changes the header and then looks at `until`. With a fence in between on both sides, at least one of
        // them sees what the other wrote.
        if !planted(Fault::ConfirmWithoutFence) {
            fence(Ordering::SeqCst);
        }
        // The header must be the one that was read before the first slot. Any other header means that the entry has
        // changed hands.
        self.is_same()
    }

    fn is_same(&self) -> bool {
        // Acquire, by `header`. The slots were read with Acquire, too: if a later owner wrote one of them, this thread
        // sees the changed header.
        self.entries.header(self.place) == self.seen
    }
}
