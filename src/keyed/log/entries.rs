//! [`Entries`]: all entries of a table of logs. [`LogEntry`]: one entry, used as the slots of its key.
//!
//! A shard is a cache line with the headers of seven entries and their floor, so a search reads one or two lines. The
//! other words of an entry are in memory of their own:
//!
//! | word | meaning | changes |
//! |---|---|---|
//! | base | the key's log begins at this instant: no slot is free before | rises when the entry is given to a key |
//! | until | the instant from which all slots are free | rises before a slot is taken |
//! | slots | see `src/log/slots.rs` | |
//!
//! Base and until only rise, even when the entry goes to another key. A slot's time falls only when its unit is
//! refunded or taken back. A late thread may write a unit to an entry that now belongs to another key. This does no
//! harm: the unit can only deny requests of that key, and is taken back.

use crate::error::BuildError;
use crate::keyed::memory::Memory;
use crate::keyed::memory::shard::CELLS;
use crate::log::{LogRule, ROW_MOST, Slots, raise};
use crate::sync::{AtomicU64, Fault, Ordering, fence, planted, thread_number};

use super::header::LogHeader;

/// The share of entries that are live when there are as many keys as the capacity. It is lower than for words, because
/// a key has two shards here and not two units.
pub(in crate::keyed) const DESIGN_LOAD: (usize, usize) = (65, 100);

/// The number of words of an entry besides its slots: base and until.
// Base and until are not in the cache line of the header, since a search reads only headers.
const BESIDES: usize = 2;

/// The shards of a key, each once.
pub(super) fn pair(first: usize, second: usize) -> impl Iterator<Item = usize> {
    std::iter::once(first).chain((second != first).then_some(second))
}

/// Where an entry is. The order of places is the same for all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogPlace {
    pub(super) shard: usize,
    pub(super) entry: usize,
}

/// The memory for all words of the entries except their headers. It is allocated once, and never grows or shrinks.
#[derive(Debug)]
pub(in crate::keyed) struct LogStore {
    pub(in crate::keyed) rule: LogRule,
    /// Base, until and slots of each entry.
    words: Box<[AtomicU64]>,
    /// The number of words of an entry.
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
        // Every base and every slot is 0, so each entry is free from the beginning of time.
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
/// If a key has no entry in one of its shards, then all units that the key was ever charged in that shard are free at
/// the shard's floor.
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

    /// The index is in bounds, because a place is one of a key's shards and the number of a cell.
    fn header_word(&self, place: LogPlace) -> &'a AtomicU64 {
        &self.memory.shard(place.shard).floor_and_headers().1[place.entry]
    }

    pub(super) fn header(&self, place: LogPlace) -> LogHeader {
        // Acquire: pairs with the Release of `replace`. A thread that sees an entry vacant also sees the floor below
        // which its key was forgotten. A thread that sees an entry live also sees the base of its log.
        LogHeader::from_bits(self.header_word(place).load(Ordering::Acquire))
    }

    /// Replaces a header if it is still exactly the one that was read.
    pub(super) fn replace(&self, place: LogPlace, header: LogHeader, next: LogHeader) -> bool {
        // AcqRel: Release pairs with the Acquire of `header`. Acquire makes visible what the writer of the old header
        // wrote before that header. Relaxed on failure: the caller looks again.
        self.header_word(place)
            .compare_exchange(header.bits(), next.bits(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// The slots of the key whose header this is.
    pub(super) fn entry(&self, place: LogPlace, seen: LogHeader) -> LogEntry<'a> {
        // The entries of a shard are contiguous, and the shards come in order.
        let first = (place.shard * CELLS + place.entry) * self.store.stride;
        // In bounds, because `words` has `stride` words for each entry.
        let words = &self.store.words[first..first + self.store.stride];
        LogEntry { entries: *self, place, seen, words }
    }

    /// The instant at which a new key's log begins: the later floor of its two shards.
    pub(super) fn floor_ns(&self, shards: [usize; 2]) -> u64 {
        // Relaxed: a thread that must see a floor has read a header that was written with Release after the floor. If
        // both shards are the same, the same floor is read twice, which is harmless because a floor only rises.
        let floors = shards.map(|shard| self.floor_word(shard).load(Ordering::Relaxed));
        floors[0].max(floors[1])
    }

    pub(super) fn raise_floor(&self, shard: usize, to_ns: u64) {
        // `raise` is Relaxed: see `floor_ns`. If the floor is already that high, `raise` only reads the floor. That is
        // enough, because this thread's next Release then covers the floor, too.
        raise(self.floor_word(shard), to_ns);
    }

    /// The newest header, for assertions: in a model, a plain load may return an older one.
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
        // Relaxed: a caller that must see the latest write puts a fence before this load.
        self.words[1].load(Ordering::Relaxed)
    }

    /// The instant from which the entry can be forgotten.
    pub(super) fn idle_ns(&self) -> u64 {
        if planted(Fault::EvictLive) { 0 } else { self.until_ns() }
    }

    /// Sets the instant at which a key's log begins. The caller opens the log afterwards.
    pub(super) fn begin_at(&self, base_ns: u64) {
        // Release: a thread that reads this base also sees the claim that came before the base.
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
        // The last row may be shorter than the others.
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
        // Relaxed: `until` is raised before the unit is written, and so before the fence in `confirm` (see
        // `forget.rs`).
        raise(&self.words[1], to_ns);
    }

    /// Threads begin a cache line apart from each other, as far as the log has enough lines.
    fn start(&self, _: u64) -> (usize, usize) {
        const SLOTS_PER_LINE: usize = 8;
        // A line holds eight slots of eight bytes. Threads that begin eight slots apart seldom write to the same line
        // until the log is nearly full.
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
        // Acquire: pairs with the Release of `begin_at`. If a new owner has set this base, the later call of `is_same`
        // sees the new owner's claim, so the base is not mistaken for the old owner's.
        self.words[0].load(Ordering::Acquire)
    }

    /// True if the entry still belongs to the key after its unit was written. Otherwise the unit is in another key's
    /// log, or in a log that may have been forgotten before the write.
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
        // `header` loads with Acquire. The slots were also read with Acquire: if a later owner wrote one of them, this
        // thread sees the changed header.
        self.entries.header(self.place) == self.seen
    }
}
