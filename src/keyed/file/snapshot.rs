//! Copying a table while it is in use.
//!
//! # Each word with a floor that it can be read against
//! A shard is copied as a key is looked for: header, words, header again, and once more if the floor has
//! moved. Words are loaded `Acquire` before the second header, so the floor that is kept is at least as
//! new as that of each word's writer, and equal on both sides, so no word was read under a floor that was
//! replaced meanwhile. Hence each word in the file is in the range of its floor (`layout.rs`), as it is
//! for every reader. Each turn that is lost means that another thread has advanced a floor.
//!
//! # What is not there was idle
//! Let a charge to key K have been made before the call. If the word with it, or a later one of the same
//! cell, is read, it is in the file. Otherwise K had been forgotten there before that cell was read:
//! below a floor F that was published first. The snapshot sees the cell without K's word through the write that
//! took it away, and so, reading the header after it, a floor at or above F: that is the floor in the
//! file, the charge had drained by it, and an install of K after a restore starts at or above it. A
//! key that is missing because it moved to a cell that had been read already is the same case: what it
//! had owed in its old cell has drained by the floor there, and what it was charged in its new one came
//! after that cell was read.
//!
//! # At most one live cell for a key
//! The table never has two at one moment, but a copy is not of one moment. A key that was read, then
//! forgotten and installed further on in the order of reading, is there twice. The word that was read
//! *last* is the newer: were it the older, it would have been forgotten before the other was opened, and
//! a thread that has read the other (`Acquire` of its opener's `Release`) no longer finds it. And everything that
//! the older one held had drained by the floor below which it was forgotten, at or above which the newer
//! one starts. So the older is left out. That takes a whole copy before the first byte is written; it also
//! makes the copy a matter of milliseconds, however slow the writer.
//!
//! # The spill
//! Its words are copied after the shards'. They only grow, as far as a decision is concerned, and so do its
//! marks: what was charged there before the call is in the copy, whenever it is read. A key that moves from
//! there to a cell while the table is copied is in the file where it was before, or in both places.
//!
//! # Installs in progress
//! A claim carries no debt, and its owner does not exist after a restart: it is written as vacant. The
//! install counter is kept, although nonces matter only to claims. So a table at rest is written as it
//! is, to the bit.
//!
//! A restored table is thus one that could have been there. By the third section a key has at most one live
//! cell; by the second, what a key was charged is in its word until it has drained, and what is not there had
//! drained by a floor at or above which the key comes back; by the first, each word can be read. The rest is the
//! table's own.

use std::hash::{BuildHasher, Hash};
use std::io::Write;
use std::ops::Range;
use std::time::SystemTime;

use crate::snapshot::{
    Form, Preamble, SnapshotError, SnapshotKind as Whose, SnapshotSummary, length, wall_ns, write,
};

use crate::hash::{Identity, shards_of};
use crate::keyed::KeyedLimiter;
use crate::keyed::log::SavedLogs;
use crate::keyed::memory::layout::{Kind, Layout};
use crate::keyed::memory::points;
use crate::keyed::memory::seeds::Seeds;
use crate::keyed::memory::shard::GRANULE_BITS;
use crate::keyed::memory::shard::{CELLS, Header, TableWord, cells};
use crate::keyed::quotas::book::saved::{form, words as words_of_book};
use crate::keyed::table::{Cells, Table};

/// A shard as it was read.
#[derive(Clone, Copy, Debug)]
struct Copied {
    header: Header,
    words: [TableWord; CELLS],
}

impl Layout {
    /// How words are divided, as a file says it.
    #[expect(clippy::cast_possible_truncation, reason = "7 cells, 20 bits")]
    pub(in crate::keyed) fn form(&self) -> Form {
        Form {
            cells: CELLS as u8,
            granule_bits: GRANULE_BITS as u8,
            count_bits: self.count_bits,
            time_bits: self.time_bits,
            tag_bits: self.division.tag_bits,
            fineness: self.kernel.fineness(),
            epoch: self.epoch_units,
            back: self.back,
            end_quantum_ns: self.rules.end_quantum_ns(),
        }
    }
}

fn copy(table: &Table, index: usize) -> Copied {
    let shard = table.shard(index);
    loop {
        // Header, words, header, as a key is looked for; here of all cells at once.
        let before = shard.header();
        let mut words = [TableWord::VACANT; CELLS];
        for cell in cells() {
            // Acquire: see the head of this file. Cells that a model does not use stay 0.
            words[cell] = shard.load(cell);
        }
        let header = points::header_behind_copy(shard, before);
        // No floor was published between the words: each is in the range of this one.
        if header.floor() == before.floor() {
            return Copied { header, words };
        }
    }
}

/// A copy of all shards, in their order, that a table may be made of.
fn copy_all(
    table: &Table,
    second: impl Fn(Identity) -> usize,
) -> Result<Vec<Copied>, SnapshotError> {
    let mut copies = Vec::new();
    let bytes = table.shards().saturating_mul(size_of::<Copied>());
    let refused = |_| SnapshotError::OutOfMemory { bytes };
    // All memory before the first word is read: a copy that fails costs the table nothing.
    copies.try_reserve_exact(table.shards()).map_err(refused)?;
    // In the order of the shards, which `twins` goes by: what stands further on was read later.
    copies.extend((0..table.shards()).map(|index| copy(table, index)));
    for word in copies.iter_mut().flat_map(|copy| &mut copy.words) {
        // An install in progress: it carries no debt.
        if points::is_left_out(*word) {
            *word = TableWord::VACANT;
        }
    }
    // Of the copy, which stands still while the table goes on.
    let word = |shard: usize, cell: usize| copies[shard].words[cell];
    for [(shard, cell), _] in points::left_out(twins(table, word, second)) {
        // The word that was read first is the older: the key was forgotten there before it was installed again.
        copies[shard].words[cell] = TableWord::VACANT;
    }
    Ok(copies)
}

/// A copy of what the spill holds; nothing, if there is none.
fn copy_spill(table: &Table) -> Result<Vec<u64>, SnapshotError> {
    // A table without a spill has no words of one in its file, by which a restore knows.
    let (mut words, Some(spill)) = (Vec::new(), table.spill()) else { return Ok(Vec::new()) };
    let refused = |_| SnapshotError::OutOfMemory { bytes: spill.bytes() };
    words.try_reserve_exact(spill.bytes() / size_of::<u64>()).map_err(refused)?;
    words.extend(spill.words());
    Ok(words)
}

/// The live words that are followed, in the order of reading, by another of the same key: shard and
/// cell of both. None in a table, and hardly ever one in a copy.
pub(in crate::keyed) fn twins(
    table: &Table,
    word: impl Fn(usize, usize) -> TableWord,
    second: impl Fn(Identity) -> usize,
) -> Vec<[(usize, usize); 2]> {
    // Allocates nothing until there is a pair, which is hardly ever.
    let mut twins = Vec::new();
    let places = |shards: Range<usize>, cells: usize| {
        shards.flat_map(move |shard| (0..cells).map(move |cell| (shard, cell)))
    };
    // All cells, those that a model does not use among them: they are vacant.
    for (index, cell) in places(0..table.shards(), CELLS) {
        let this = word(index, cell);
        // Vacant cells and claims of equal tags are no keys.
        if Kind::of(this) != Kind::Live {
            continue;
        }
        let tag = table.division.tag(this);
        // The word's own shard is one of the key's, whichever of its units it is in: so the others
        // follow from it and the tag.
        let others = shards_of(index, second(Identity { first: index, tag }));
        // Each pair once: only words that come before this one in the order of reading.
        let earlier = others.filter(|&shard| shard < index);
        // All cells of the shards before, and of its own those before it.
        let earlier = earlier.flat_map(|shard| places(shard..shard + 1, CELLS));
        for (shard, earlier) in earlier.chain(places(index..index + 1, cell)) {
            // Two words of one key, which the table never has at one moment.
            if table.division.is_live(word(shard, earlier), tag) {
                twins.push([(shard, earlier), (index, cell)]);
            }
        }
    }
    twins
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// Writes what the table holds, while others go on deciding: of every key all that was charged before
    /// this call and has not drained, and of a request that is charged meanwhile either its whole cost or
    /// nothing (of a sliding log, any part of its units). No thread waits, and nothing in the table changes.
    ///
    /// A limiter that is [restored](crate::KeyedBuilder::restore) from this admits what this one would have
    /// admitted, and in the worst case once more what was charged to a key after its word had been read.
    ///
    /// The file has 336 bytes, 64 for each shard of seven cells (14 or so for each key of the capacity),
    /// an eighth of that for the spill if there is one (at least 1 KiB), and 8. A copy of the table is in
    /// memory while it is written. The writer is flushed, not synced:
    /// write to a new file, sync that, and then rename it over the old one, so that there is a whole one
    /// at every moment.
    ///
    /// For a limiter with [tiers](crate::KeyedBuilder::tier) the file has 264 bytes more for each tier; while the
    /// table is copied, no quota can be changed. For sliding logs it has, for each shard, 8 bytes and seven times 16 and 8
    /// for each unit of the limit.
    ///
    /// **The file is a secret.** It carries the seeds of the hasher, unless one was [given](crate::KeyedBuilder::hasher), and a fingerprint of it
    /// in any case. A reader of
    /// it can make keys that collide, as could a reader of this process's memory. Keep it where only the
    /// service can read it.
    ///
    /// # Errors
    /// The writer's; no memory for the copy; quotas that callers bring along
    /// ([`own_quotas`](crate::KeyedBuilder::own_quotas)); of a limiter with [tiers](crate::KeyedBuilder::tier), a change of a quota that
    /// is under way.
    ///
    /// ```
    /// use tollgate::{Clock, KeyedLimiter, Quota};
    /// let quota = Quota::per_hour(2);
    /// let limiter = KeyedLimiter::<str>::new(quota, 1_000)?;
    /// assert!(limiter.check_n("alice", 2).is_allowed());
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// // The process ends, another begins.
    /// let limiter = KeyedLimiter::<str>::builder(quota).clock(Clock::monotonic()).restore(&file[..])?;
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert!(limiter.check("bob").is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self, writer: impl Write) -> Result<SnapshotSummary, SnapshotError> {
        let second = |identity| self.place_of(identity).second();
        let shards = self.table.shards();
        let (of_table, book) = match &self.table.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => (quota.layout.form(), None),
            Cells::Several { book, .. } if book.takes_own() => {
                return Err(SnapshotError::OwnQuotas);
            }
            Cells::Several { book, .. } => (Form::default(), Some(book)),
            // What a table of logs holds beside its cells is copied with them.
            Cells::Logs(store) => {
                let logs = self.table.logs(store);
                let (words, saved) = (logs.copied(second)?, SavedLogs::new(logs.rule, shards));
                let preamble = self.preamble(Whose::Keyed, saved.form(), words.len() as u64);
                let keys = saved.keys(&words);
                write(writer, &preamble, words.into_iter())?;
                return Ok(SnapshotSummary::of(&preamble, keys));
            }
        };
        // So that no quota changes meanwhile, and every word is counted in one that is in force.
        let changing = book.map(|book| book.begin().ok_or(SnapshotError::Changing)).transpose()?;
        // What is charged from here on need not be in the file.
        let copies = copy_all(&self.table, second)?;
        let quotas = book.map_or_else(Vec::new, |book| words_of_book(book));
        let (kind, form) = match (book, &changing) {
            // The last change's instant goes along, for a later change must not come before it.
            (Some(book), Some(changing)) => (Whose::Tiers, form(book, changing.latest_ns())),
            // One quota, which cannot change.
            _ => (Whose::Keyed, of_table),
        };
        // Behind the shards: a key that moves from the spill to a cell meanwhile is found in one of them at least.
        let spill = copy_spill(&self.table)?;
        // Every word of the copy is counted in a quota of the copy. A change may come from here on.
        drop(changing);
        let besides = (quotas.len() + spill.len()) as u64;
        let preamble = self.preamble(kind, form, words_of(shards) + besides);
        let words = copies.iter().flat_map(|copy| {
            std::iter::once(copy.header.to_bits()).chain(copy.words.map(TableWord::to_bits))
        });
        write(writer, &preamble, quotas.into_iter().chain(words).chain(spill))?;
        // Of the copy, as it is in the file: not of the table, which has gone on.
        let words = copies.iter().flat_map(|copy| &copy.words);
        let keys = words.filter(|&&word| Kind::of(word) == Kind::Live).count();
        Ok(SnapshotSummary::of(&preamble, keys))
    }

    /// What stands before so many words, once they have been copied.
    fn preamble(&self, kind: Whose, form: Form, words: u64) -> Preamble {
        // After the copy, and in this order: see the head of `crate::snapshot`.
        let now = self.now();
        let wall = SystemTime::now();
        Preamble {
            kind,
            origin: self.clock.origin(),
            // What stands in memory has a length that can be told: the other number is never written.
            length: length(words).unwrap_or(u64::MAX),
            now_ns: now.as_nanos(),
            wall_ns: wall_ns(wall),
            capacity: self.capacity as u64,
            shards: self.table.shards() as u64,
            form,
            fingerprint: self.hasher.fingerprint(),
            // None, if the hasher is the caller's: then a restore is given it again.
            seeds: self.seeds.map(Seeds::to_numbers),
            // The policies of tiers stand in the book.
            policy: if kind == Whose::Tiers { String::new() } else { self.policy.to_string() },
        }
    }
}

/// Words and headers of so many shards.
pub(in crate::keyed) fn words_of(shards: usize) -> u64 {
    // A header and its cells. Saturates, since the number may follow from what a file says.
    (shards as u64).saturating_mul(1 + CELLS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Tag;

    /// A table of two shards whose floors stand at 7, with these words.
    fn table(layout: Layout, words: &[(usize, usize, u64)]) -> Table {
        let table = Table::new(layout, 15, 7).expect("a table of two units");
        for &(shard, cell, word) in words {
            assert!(table.shard(shard).replace(
                cell,
                TableWord::VACANT,
                TableWord::from_bits(word)
            ));
        }
        table
    }

    fn copied(table: &Table, second: impl Fn(Identity) -> usize) -> Vec<(usize, usize, u64)> {
        let copies = copy_all(table, second).expect("little memory");
        assert!(copies.iter().all(|copy| copy.header.floor() == 7));
        let words =
            |(shard, copy): (usize, &Copied)| copy.words.map(|word| (shard, word.to_bits()));
        let words = copies.iter().enumerate().map(words);
        words
            .flat_map(|words| words.into_iter().enumerate())
            .filter(|(_, (_, word))| *word != 0)
            .map(|(cell, (shard, word))| (shard, cell, word))
            .collect()
    }

    fn layout() -> Layout {
        Layout::plan(&"gcra 1/s burst 9".parse().expect("a policy")).expect("a layout")
    }

    #[test]
    fn of_a_key_that_moved_the_word_that_was_read_last_is_kept() {
        let layout = layout();
        let [one, other] = [5, 6].map(|tag| tag << layout.division.state_bits);
        let all =
            [(0, 1, one | 1), (0, 4, one | 2), (1, 5, other | 3), (1, 6, one | 4), (2, 2, one | 5)];
        let table = table(layout, &all);
        // Units 0 and 1 are the key's; or it has only one, and the words of unit 1 are another key's.
        assert_eq!(copied(&table, |key| (key.first + 2) % 4), [all[2], all[4]]);
        assert_eq!(copied(&table, |key| key.first), [all[2], all[3], all[4]]);
    }

    #[test]
    fn installs_in_progress_are_left_out_and_the_table_stays_as_it_was() {
        let layout = layout();
        let tag = 5 << layout.division.state_bits;
        let all =
            [(0, 3, layout.division.claim(Tag::from_bits(tag), 9).to_bits()), (1, 0, tag | 1)];
        let table = table(layout, &all);
        for _ in 0..2 {
            assert_eq!(copied(&table, |key| 1 - key.first), [all[1]]);
        }
        assert_eq!(table.shard(0).load(3), layout.division.claim(Tag::from_bits(tag), 9));
    }

    #[test]
    fn a_file_tells_how_words_are_divided() {
        let form =
            |text: &str| Layout::plan(&text.parse().expect("a policy")).expect("a layout").form();
        let gcra = form("gcra 10/m burst 10");
        assert_eq!((gcra.cells, gcra.granule_bits), (7, 20));
        assert_eq!((gcra.tag_bits, gcra.time_bits, gcra.count_bits), (44, 19, 0));
        assert_eq!(gcra.fineness, 1 << 12);
        assert_eq!(form("fixed-window 100/m from-first").fineness, 100_000);
        assert_eq!(form("segmented-window 20/m x4").fineness, 0);
        assert_eq!(form("segmented-window 100/m x6").fineness, 1);
        assert_eq!(form("segmented-window 60/m x6").fineness, 2);
        assert_eq!(form("sliding-window 100/m exact").fineness, 0);
        let ends = |words: &str| {
            ["gcra 10/m", "fixed-window 100/m", "fixed-window 100/m from-first"]
                .map(|text| form(&format!("{text} {words}")).end_quantum_ns)
        };
        assert_eq!(ends("soft 50% count-denied"), [0; 3]);
        assert_eq!(ends("penalty 1h after 3"), [1, 10_000_000, 10_000_000]);
    }
}
