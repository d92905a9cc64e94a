//! Makes a whole table from a snapshot, or none.
//!
//! The preamble of the file is first compared with the policy that the caller gives. Then the shards are read one by
//! one into a table that grows with each shard. So a file that claims more shards than it contains takes at most about
//! twice its own size in memory. The limiter is made only if the end of the file, its checksum and every word are
//! right.
//!
//! A checksum is no signature: a process that may write the file can give a word any state. Hence each word is also
//! checked. There must be no claims, since no thread would finish them. No live word may lack a tag, and no key may
//! have two words. In a table of several quotas each live word, and each word of the spill, must name a quota in the
//! file. The unused bits of a header must be 0. Any other word is a valid state of the policy, even if no requests
//! would have led to it; so is every word of a [`Limiter`](crate::Limiter).

use std::hash::{BuildHasher, Hash};
use std::io::Read;
use std::marker::PhantomData;

use crate::clock::Clock;
use crate::error::BuildError;
use crate::log::LogRule;
use crate::policy::Policy;
use crate::snapshot::{
    Preamble, Reader, RestoreError, SnapshotKind as Whose, WORDS_AT, field, length, resume,
};

use super::snapshot::{twins, words_of};
use crate::hash::{Identity, KeyHasher, Mix, Tag, unit};
use crate::keyed::KeyedLimiter;
use crate::keyed::log::{DESIGN_LOAD as LOGS_LOAD, LogStore, ReadLogs, SavedLogs};
use crate::keyed::memory::Memory;
use crate::keyed::memory::layout::{Division, Kind, Layout, Shared};
use crate::keyed::memory::seeds::Hashing;
use crate::keyed::memory::shard::{CELLS, Header, Shard, TableWord};
use crate::keyed::overflow::store::Spill;
use crate::keyed::quotas::book::Book;
use crate::keyed::quotas::book::saved::{read_book, words_of as words_of_book};
use crate::keyed::table::{Cells, OneQuota, Table};
use crate::keyed::verbs::build::DESIGN_LOAD;

/// The policies and the division of words that a file must contain. Other files are refused.
pub(in crate::keyed) struct Expected {
    pub(in crate::keyed) shared: Option<Shared>,
    /// The policy of the first tier.
    pub(in crate::keyed) policy: Policy,
    /// `None` for logs.
    pub(in crate::keyed) quotas: Vec<(Policy, Layout)>,
}

/// Returns the contents that a file must have for a limiter with one policy, which never changes.
pub(in crate::keyed) fn expected_of_one(
    policy: Policy,
    preamble: &Preamble,
    clock: &Clock,
) -> Result<Expected, RestoreError> {
    // The layout is planned by this version of the crate. A file whose words are divided in another way is refused.
    let (quotas, form) = match LogRule::of(&policy) {
        Some(rule) => (Vec::new(), SavedLogs::new(rule, 0).form()),
        None => {
            let layout = Layout::plan(&policy)?;
            (vec![(policy, layout)], layout.form())
        }
    };
    preamble.is_of(Whose::Keyed, policy, form, clock.origin())?;
    Ok(Expected { shared: None, policy, quotas })
}

/// Reads a table. The kind and the policy are compared first: an error about one of them helps the caller more than an
/// error about a missing hasher.
pub(in crate::keyed) fn read<K: Hash + ?Sized, S: BuildHasher>(
    reader: impl Read,
    clock: Clock,
    hashing: Hashing<S>,
    expect: impl FnOnce(&Preamble, &Clock) -> Result<Expected, RestoreError>,
) -> Result<KeyedLimiter<K, S>, RestoreError> {
    let (mut reader, preamble) = Reader::open(reader)?;
    let expected = expect(&preamble, &clock)?;
    let (hash, seeds) = hashing.of_file(preamble.seeds).ok_or_else(RestoreError::seeds_missing)?;
    let hasher = KeyHasher::new(hash);
    let (policy, tiers) = (expected.policy, expected.quotas.len());
    let before = expected.shared.map_or(0, |_| words_of_book(tiers));
    // The sizes are checked before memory is allocated for the table.
    let (capacity, shards, has_spill) = size_of_table(&preamble, policy, before, tiers)?;
    // Another hasher would look for every key in the wrong place.
    if preamble.fingerprint != hasher.fingerprint() {
        return Err(RestoreError::hasher());
    }
    if let Some(rule) = LogRule::of(&policy) {
        let table = read_logs(reader, rule, shards, *hasher.mix())?;
        let clock = resume(clock, &preamble)?;
        return Ok(KeyedLimiter {
            table,
            hasher,
            clock,
            capacity,
            policy,
            seeds,
            keys: PhantomData,
        });
    }
    let (division, cells) = match expected.shared {
        None => (expected.quotas[0].1.division, Cells::of(expected.quotas[0].1)),
        Some(shared) => {
            // The book is read before the shards, since their words carry its indices.
            let indices = read_book(&mut reader, shared, &expected.quotas)?;
            // The file has the instant of the last change of a quota. No change in the restored table may come before
            // that instant.
            let book = Book::turned(shared, &expected.quotas, &indices, preamble.form.back);
            (shared.division(), Cells::of_book(book))
        }
    };
    // The file is read shard by shard, so a file that ends too early takes at most about twice its own size in memory.
    let memory = Memory::told(shards, || read_shard(&mut reader))?;
    let mut table = Table::of(memory, division, cells);
    let mut foreign = None;
    if has_spill {
        // If the policy cannot spill, no snapshot of it has a spill, and the file is refused here. The spill takes an
        // eighth of the memory of the shards.
        table.add_spill(policy)?;
        foreign =
            table.fill_spill(|| reader.word())?.ok_or_else(|| BuildError::cannot_spill(policy))?;
    }
    // The words are judged only after the end of the file and its checksum have been checked.
    reader.close()?;
    // A key's second unit follows from its home, its tag and a number of the hasher. So a word's tag and place are
    // enough to find the other shards of its key.
    let second = |identity| hasher.mix().second(identity, table.shards(), unit());
    is_a_snapshots(&table, second, before)?;
    // `foreign` is a word of the spill that is not counted in its tier's quota. It was found before the checksum was
    // checked, but the error is returned only now: if the file is damaged, the error says so instead.
    if let Some((place, found)) = foreign {
        let words = before.saturating_add(words_of(table.shards())).saturating_add(place as u64);
        let offset = WORDS_AT.saturating_add(8 * words);
        return Err(RestoreError::word(offset, found, "counted in its tier's quota"));
    }
    // The clock is resumed last, so that the time the restore took counts as passed.
    let clock = resume(clock, &preamble)?;
    Ok(KeyedLimiter { table, hasher, clock, capacity, policy, seeds, keys: PhantomData })
}

/// Reads logs, and checks the end of the file and the checksum. Then refuses logs that no table can have written.
fn read_logs<R: Read>(
    mut reader: Reader<R>,
    rule: LogRule,
    shards: usize,
    mix: Mix,
) -> Result<Table, RestoreError> {
    let mut logs = ReadLogs::new(SavedLogs::new(rule, shards));
    // In a table of logs, a shard holds the headers of log entries in place of words, and its floor in place of its
    // header: see `Shard::floor_and_headers`.
    let memory = Memory::told(shards, || {
        let (floor, headers) = logs.shard(&mut reader)?;
        Ok::<_, RestoreError>(Shard::holding(
            Header::from_bits(floor),
            headers.map(TableWord::from_bits),
        ))
    })?;
    reader.close()?;
    // The 1 is the number of shards in a unit, which is a single shard in a table of logs.
    let entries = logs.entries(|identity| mix.second(identity, shards, 1))?;
    let logs = Cells::Logs(LogStore::holding(rule, entries));
    Ok(Table::of(memory, Division::of_logs(), logs))
}

/// The capacity of the table, the number of its shards, and whether it has a spill. The number of shards follows from
/// the capacity, and the spill from the length of the file. `before` is the number of words before the shards.
fn size_of_table(
    preamble: &Preamble,
    policy: Policy,
    before: u64,
    tiers: usize,
) -> Result<(usize, usize, bool), RestoreError> {
    let too_large = |_| BuildError::capacity_too_large(usize::MAX);
    // A file from a machine with wider addresses may name a capacity that does not fit in a `usize` here. Such a
    // capacity does not fit in the error either, so the error names the largest `usize`.
    let capacity = usize::try_from(preamble.capacity).map_err(too_large)?;
    let logs = LogRule::of(&policy);
    let shards = Table::shards_for(capacity, logs.map_or(DESIGN_LOAD, |_| LOGS_LOAD))?;
    // A table computes its number of shards from its capacity. If the file has another number, no table has written it.
    field("number of shards", preamble.shards, shards as u64)?;
    // A sum that is too large for any file saturates, and the file is refused for its length.
    let of_table = match logs {
        Some(rule) => SavedLogs::new(rule, shards).words(),
        None => words_of(shards).saturating_add(before),
    };
    let with_spill = || of_table.saturating_add(Spill::words_of(shards, tiers));
    // A table of logs has no spill and no tiers.
    let has_spill = logs.is_none() && length(with_spill()) == Some(preamble.length);
    // Without a spill, the file must have exactly the length of the table. The error names that length.
    if !has_spill {
        field("length", preamble.length, length(of_table).unwrap_or(u64::MAX))?;
    }
    Ok((capacity, shards, has_spill))
}

fn read_shard<R: Read>(reader: &mut Reader<R>) -> Result<Shard, RestoreError> {
    // The header contains the install counter, so nonces continue where the old table stopped.
    let header = Header::from_bits(reader.word()?);
    // The words are stored unchecked. All of them are checked after the checksum.
    let mut words = [0; CELLS];
    for word in &mut words {
        *word = reader.word()?;
    }
    Ok(Shard::holding(header, words.map(TableWord::from_bits)))
}

impl Table {
    /// Fills the spill with the words of a file, as [`Spill::fill`] does. The outer `None` means that there is no
    /// spill.
    fn fill_spill<E>(
        &mut self,
        next: impl FnMut() -> Result<u64, E>,
    ) -> Result<Option<Option<(usize, u64)>>, E> {
        match &mut self.cells {
            Cells::Plain(_, OneQuota { spill: Some(spill), .. })
            | Cells::LaidOut(_, OneQuota { spill: Some(spill), .. }) => {
                spill.fill(None, next).map(Some)
            }
            Cells::Several { book, spill: Some(spill) } => spill.fill(Some(book), next).map(Some),
            _ => Ok(None),
        }
    }
}

/// Refuses a state that no snapshot can contain, even if the checksum is right. `before` is the number of words before
/// the shards in the file.
fn is_a_snapshots(
    table: &Table,
    second: impl Fn(Identity) -> usize,
    before: u64,
) -> Result<(), RestoreError> {
    let refused = |shard: usize, place: usize, found: u64, accepted: &'static str| {
        let words = words_of(shard).saturating_add(place as u64).saturating_add(before);
        // The error names the word's offset in the file: the preamble is followed by words of eight bytes.
        let offset = WORDS_AT.saturating_add(8 * words);
        Err(RestoreError::word(offset, found, accepted))
    };
    // This loop checks each word by itself. Pairs of words with the same key are looked for below.
    for index in 0..table.shards() {
        let header = table.shard(index).header();
        // No thread sets the unused bits of a header, so no table has written this file.
        if !header.is_known() {
            return refused(index, 0, header.to_bits(), "a header whose unused bits are 0");
        }
        for cell in 0..CELLS {
            let word = table.shard(index).load(cell);
            let accepted = match Kind::of(word) {
                // No thread of this process made the claim, so no thread would finish it.
                Kind::Claim => "vacant, since no thread would finish this install",
                // No key has tag 0, since a word of 0 is a vacant cell.
                Kind::Live if table.division.tag(word) == Tag::NONE => "vacant, or have a tag",
                // In a table of several quotas, a word must carry the index of a quota that is in the file.
                Kind::Live if table.book().is_some_and(|book| !has_quota_of(book, word)) => {
                    "vacant, or counted in a quota of the file's"
                }
                Kind::Live | Kind::Vacant => continue,
            };
            return refused(index, 1 + cell, word.to_bits(), accepted);
        }
    }
    // No other thread can reach the table yet, so its words do not change.
    let word = |shard: usize, cell: usize| table.shard(shard).load(cell);
    match twins(table, word, second).first() {
        // A key with two live words would have twice its quota.
        Some(&[(shard, cell), _]) => {
            let accepted = "vacant, since another word further on has the same key";
            refused(shard, 1 + cell, word(shard, cell).to_bits(), accepted)
        }
        None => Ok(()),
    }
}

/// True if the index of a live word belongs to a quota in force.
fn has_quota_of(book: &Book, word: TableWord) -> bool {
    // During a restore no other thread changes a quota, so each tier has exactly one index.
    let index = book.index_of_word(word);
    book.indices().any(|in_force| in_force == index)
}
