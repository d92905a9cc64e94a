//! Copies logs into a file while they are in use, and restores them from it.
//!
//! For each shard the file has the floor. For each entry it has the tag (0 if the entry belongs to no key), the base
//! and the slots. What `src/keyed/file/snapshot.rs` shows for words holds for logs, too:
//!
//! * *Each copied entry belongs to one key.* The entry is read between two equal readings of its header, and the
//!   generation changes with each owner. If the readings differ, another thread has closed, opened or given away the
//!   entry, and the entry is read again.
//! * *A key that is not in the file had only free units.* A shard's floor is read after its entries. If a key was
//!   forgotten before its entry was read, the shard's floor had already been raised to an instant from which all units
//!   of the key were free. After a restore, the key's log begins at that floor or later.
//! * *A key is in the file once.* If the copy has two entries of a key, the entry that was read first is the older one,
//!   and is left out. The newer entry begins at or after the instant from which everything in the older one was free.
//! * *Parts of a request.* If a request is charged while the table is copied, any part of its units may be in the file,
//!   since each unit has its own slot. A marked slot belongs to a request that has not been admitted yet, so the slot's
//!   time is written without the mark.
//!
//! A forged file can give a slot any time, since every time is a valid state of a log. But a marked slot is refused,
//! since no thread would remove the mark. The instant from which an entry is free follows from its slots.

use std::io::Read;

use crate::hash::{Identity, Tag};
use crate::keyed::memory::layout::Division;
use crate::keyed::memory::shard::CELLS;
use crate::log::{LogRule, Slots, is_marked, load, time};
use crate::snapshot::{Form, Reader, RestoreError, SnapshotError, WORDS_AT};
use crate::sync::AtomicU64;

use super::decide::LogTable;
use super::entries::{LogPlace, pair};
use super::header::LogHeader;

/// The number of words of an entry in the file besides its slots: tag and base.
const BESIDES: usize = 2;

/// The dimensions of a file of logs.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct SavedLogs {
    slots: usize,
    shards: usize,
}

impl SavedLogs {
    pub(in crate::keyed) fn new(rule: LogRule, shards: usize) -> Self {
        Self { slots: rule.slots, shards }
    }

    /// The division of words, as the file's preamble describes it. A slot has 64 bits, of which the topmost is 0.
    #[expect(clippy::cast_possible_truncation, reason = "7 cells")]
    pub(in crate::keyed) fn form(self) -> Form {
        let (cells, tag_bits) = (CELLS as u8, Division::of_logs().tag_bits);
        let fineness = self.slots as u64;
        Form { cells, time_bits: 63, tag_bits, fineness, ..Form::default() }
    }

    fn entry_words(self) -> usize {
        BESIDES + self.slots
    }

    /// The number of words of a shard: its floor and its entries.
    fn shard_words(self) -> usize {
        1 + CELLS * self.entry_words()
    }

    /// The number of words of all shards. It saturates, since the number of shards may come from a damaged file.
    pub(in crate::keyed) fn words(self) -> u64 {
        (self.shards as u64).saturating_mul(self.shard_words() as u64)
    }

    fn at(self, LogPlace { shard, entry }: LogPlace) -> usize {
        shard * self.shard_words() + 1 + entry * self.entry_words()
    }

    fn places(self) -> impl Iterator<Item = LogPlace> {
        (0..self.shards).flat_map(|shard| (0..CELLS).map(move |entry| LogPlace { shard, entry }))
    }

    /// The number of keys in a file's words.
    pub(in crate::keyed) fn keys(self, words: &[u64]) -> usize {
        self.places().filter(|&place| words[self.at(place)] != 0).count()
    }

    /// All entries that are followed, in the order of reading, by another entry of the same key.
    fn twins(self, words: &[u64], second: impl Fn(Identity) -> usize) -> Vec<LogPlace> {
        let mut twins = Vec::new();
        for place in self.places() {
            let tag = words[self.at(place)];
            // The entry belongs to no key, or has been left out.
            if tag == 0 {
                continue;
            }
            // An entry's shard is one of its key's two shards. The other one follows from this shard and the tag.
            let other = second(Identity { first: place.shard, tag: Tag::from_bits(tag) });
            let all = pair(place.shard, other)
                .flat_map(|shard| (0..CELLS).map(move |entry| LogPlace { shard, entry }));
            // Each pair is found once: only entries that were read before this one are looked at.
            twins.extend(all.filter(|twin| *twin < place && words[self.at(*twin)] == tag));
        }
        twins
    }
}

impl LogTable<'_> {
    /// A copy of all logs, as a file holds them.
    pub(in crate::keyed) fn copied(
        &self,
        second: impl Fn(Identity) -> usize,
    ) -> Result<Vec<u64>, SnapshotError> {
        let saved = SavedLogs::new(self.rule, self.entries.shards());
        let count = usize::try_from(saved.words()).unwrap_or(usize::MAX);
        let bytes = count.saturating_mul(size_of::<u64>());
        // All memory is reserved before the first word is read, so a copy that runs out of memory has not read the
        // table at all.
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| SnapshotError::OutOfMemory { bytes })?;
        for shard in 0..self.entries.shards() {
            let floor_at = words.len();
            // A place is kept for the floor, which is read last.
            words.push(0);
            // This includes entries that a model does not use. They are vacant.
            for entry in 0..CELLS {
                self.copy_entry(LogPlace { shard, entry }, &mut words);
            }
            // The floor is read after the entries: see the head of this file.
            words[floor_at] = self.entries.floor_ns([shard; 2]);
        }
        // Pairs are looked for in the copy, because the table still changes.
        for place in saved.twins(&words, second) {
            // This entry is the older one: the key was forgotten there before it was installed again.
            let at = saved.at(place);
            words[at..at + saved.entry_words()].fill(0);
        }
        Ok(words)
    }

    /// Lock-free: each repetition means that another thread has closed, opened or given away the entry.
    fn copy_entry(&self, place: LogPlace, words: &mut Vec<u64>) {
        let begin = words.len();
        loop {
            // What an earlier turn has copied may be of another owner, so it is dropped.
            words.truncate(begin);
            let header = self.entries.header(place);
            let entry = self.entries.entry(place, header);
            if !header.is_log_of(header.tag()) {
                // The entry is vacant, or it is a claim, which holds no units.
                words.resize(begin + BESIDES + self.rule.slots, 0);
                return;
            }
            words.extend([header.tag().to_bits(), entry.base_ns()]);
            // `load` is Acquire: if it reads what a later owner wrote, `is_same` sees that owner's header.
            for row in 0..entry.rows() {
                words.extend(entry.row(row).iter().map(|slot| time(load(slot))));
            }
            // If the header has changed, the entry is read again.
            if entry.is_same() {
                return;
            }
        }
    }
}

/// The logs of a file, as they are read.
pub(in crate::keyed) struct ReadLogs {
    saved: SavedLogs,
    words: Vec<u64>,
}

impl ReadLogs {
    pub(in crate::keyed) fn new(saved: SavedLogs) -> Self {
        Self { saved, words: Vec::new() }
    }

    /// The floor and the headers of the next shard. Memory grows with the words that have been read.
    pub(in crate::keyed) fn shard<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
    ) -> Result<(u64, [u64; CELLS]), RestoreError> {
        let begin = self.words.len();
        // The words are stored unchecked. All of them are checked after the checksum.
        for _ in 0..self.saved.shard_words() {
            self.words.push(reader.word()?);
        }
        let tag = |entry| Tag::from_bits(self.words[begin + 1 + entry * self.saved.entry_words()]);
        Ok((self.words[begin], std::array::from_fn(|entry| LogHeader::live_of(tag(entry)).bits())))
    }

    /// The entries of the file, or an error if no table can have written them.
    pub(in crate::keyed) fn entries(
        self,
        second: impl Fn(Identity) -> usize,
    ) -> Result<Box<[AtomicU64]>, RestoreError> {
        let Self { saved, words } = self;
        // The error names the word's offset in the file.
        let refused = |at: usize, accepted| {
            let offset = WORDS_AT.saturating_add(8 * at as u64);
            Err(RestoreError::word(offset, words[at], accepted))
        };
        for place in saved.places() {
            let at = saved.at(place);
            let tag = words[at];
            // A snapshot writes only the tag of a header. Generations begin anew in this table.
            if !LogHeader::is_tag(tag) {
                return refused(at, "0, or a tag alone, without a generation");
            }
            // The range of the base and the slots.
            let beside = at + 1..at + saved.entry_words();
            // If an entry belongs to no key, its base and slots must be 0.
            if let Some(at) = beside.clone().find(|&at| tag == 0 && words[at] != 0) {
                return refused(at, "0, since the entry is no key's");
            }
            if let Some(at) = beside.clone().find(|&at| is_marked(words[at])) {
                return refused(at, "an instant, below 2^63");
            }
        }
        if let Some(at) =
            (0..saved.shards).map(|n| n * saved.shard_words()).find(|&at| is_marked(words[at]))
        {
            return refused(at, "an instant, below 2^63");
        }
        // A key with two logs would have twice its limit.
        if let Some(&place) = saved.twins(&words, second).first() {
            return refused(saved.at(place), "0, since another entry further on has the same key");
        }
        let entry = |place| {
            let [_, base, slots @ ..] = &words[saved.at(place)..][..saved.entry_words()] else {
                return Vec::new();
            };
            // All slots are free from this instant on.
            let until = slots.iter().max().copied().unwrap_or(0);
            [&[*base, until], slots].concat()
        };
        Ok(saved.places().flat_map(entry).map(AtomicU64::new).collect())
    }
}
