//! Copying a table while it is in use.
//!
//! # Each word is copied with a floor that dates it
//! A shard is copied in the order in which a search reads it: header, words, header again. If the floor has moved in
//! between, the shard is copied once more. Words are loaded `Acquire` before the second header, so the floor that is
//! kept is at least as new as the floor of each word's writer. As both headers have the same floor, no floor was
//! published while the words were read. Hence each word in the file is in the range that its floor can date
//! (`layout.rs`). The copy is lock-free: a shard is copied again only if another thread has advanced its floor.
//!
//! # A key that is not in the file was idle
//! Suppose that a charge to key K was made before the call. If the copy reads the word with this charge, or a later
//! word of K in the same cell, the charge is in the file. Otherwise K's word was removed from the cell before the cell
//! was read. A word is removed only after the publication of a floor under which the word is idle. Call this floor F.
//! The copy sees the write that removed K's word. So the header that it reads afterwards has a floor at or above F.
//! That floor is in the file. The charge had drained by F, and after a restore an install of K starts at or above the
//! floor in the file. The copy also misses a key that moves to a cell which has already been read. That key's debt in
//! the old cell has drained by the floor there, and its charges in the new cell came after that cell was read.
//!
//! # At most one live cell for a key
//! A key never has two live cells at one moment, but the cells of a copy were read at different moments. A key may be
//! read, then forgotten, and then installed in a cell that is read later. The copy then has two words of the key. The
//! word that was read *last* is the newer word. To see why, suppose that the older word was read last. That word was
//! forgotten before the newer word was opened. The copy had read the newer word (`Acquire`, which pairs with the
//! opener's `Release`), so it would no longer have found the older word. All charges in the older word had drained by
//! the floor below which the key was forgotten, and the newer word starts at or above that floor. So the older word is
//! left out. To find such pairs, the whole copy must be in memory before the first byte is written. In return, the copy
//! takes only milliseconds, however slow the writer is.
//!
//! # The spill
//! The words of the spill are copied after those of the shards. As far as a decision depends on them, these words and
//! the marks of the spill only grow. So the copy has every charge that was made in the spill before the call. If a key
//! moves from the spill to a cell while the table is copied, the file has its debt in the spill, and perhaps also in
//! the cell.
//!
//! # Installs in progress
//! A claim carries no debt, and the thread that made it does not exist after a restart, so its cell is written as
//! vacant. The install counter is written, although only claims need nonces. So a table at rest is written bit for bit.
//!
//! So a restored table is in a state that a table can reach. By the first section, the floor of each shard dates its
//! words. By the second, a charge is either in its key's word or had drained by the floor at or above which the key
//! would start again. By the third, a key has at most one live cell. All other invariants hold as in every table.

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

/// A copy of a shard's header and words.
#[derive(Clone, Copy, Debug)]
struct Copied {
    header: Header,
    words: [TableWord; CELLS],
}

impl Layout {
    /// The division of words, as a file describes it.
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
        let before = shard.header();
        let mut words = [TableWord::VACANT; CELLS];
        for cell in cells() {
            // Acquire: see the head of this file. A model under loom uses fewer cells; the others stay 0.
            words[cell] = shard.load(cell);
        }
        let header = points::header_behind_copy(shard, before);
        // No floor was published while the words were read, so this floor dates each word.
        if header.floor() == before.floor() {
            return Copied { header, words };
        }
    }
}

/// A copy of all shards, in their order, from which a table can be made.
fn copy_all(
    table: &Table,
    second: impl Fn(Identity) -> usize,
) -> Result<Vec<Copied>, SnapshotError> {
    let mut copies = Vec::new();
    let bytes = table.shards().saturating_mul(size_of::<Copied>());
    let refused = |_| SnapshotError::OutOfMemory { bytes };
    // All memory is reserved before the first word is read, so a copy that runs out of memory has not read the table at
    // all.
    copies.try_reserve_exact(table.shards()).map_err(refused)?;
    // The shards are copied in their order. `twins` relies on this: a shard with a higher number was read later.
    copies.extend((0..table.shards()).map(|index| copy(table, index)));
    for word in copies.iter_mut().flat_map(|copy| &mut copy.words) {
        // This word is a claim, which carries no debt.
        if points::is_left_out(*word) {
            *word = TableWord::VACANT;
        }
    }
    // Pairs are looked for in the copy, because the table still changes.
    let word = |shard: usize, cell: usize| copies[shard].words[cell];
    for [(shard, cell), _] in points::left_out(twins(table, word, second)) {
        // The word that was read first is the older one: the key was forgotten there before it was installed again.
        copies[shard].words[cell] = TableWord::VACANT;
    }
    Ok(copies)
}

/// A copy of the words of the spill, or an empty vector if there is no spill.
fn copy_spill(table: &Table) -> Result<Vec<u64>, SnapshotError> {
    // A table without a spill writes no words for a spill. A restore sees from the length of the file that there is no
    // spill.
    let (mut words, Some(spill)) = (Vec::new(), table.spill()) else { return Ok(Vec::new()) };
    let refused = |_| SnapshotError::OutOfMemory { bytes: spill.bytes() };
    words.try_reserve_exact(spill.bytes() / size_of::<u64>()).map_err(refused)?;
    words.extend(spill.words());
    Ok(words)
}

/// All pairs of live words with the same key. In each pair, the word that was read first comes first. Each word is
/// given by its shard and cell. A table never has such a pair, and a copy hardly ever has one.
pub(in crate::keyed) fn twins(
    table: &Table,
    word: impl Fn(usize, usize) -> TableWord,
    second: impl Fn(Identity) -> usize,
) -> Vec<[(usize, usize); 2]> {
    // This allocates nothing until a pair is found, which hardly ever happens.
    let mut twins = Vec::new();
    let places = |shards: Range<usize>, cells: usize| {
        shards.flat_map(move |shard| (0..cells).map(move |cell| (shard, cell)))
    };
    // This includes the cells that a model under loom does not use. They are vacant.
    for (index, cell) in places(0..table.shards(), CELLS) {
        let this = word(index, cell);
        // Vacant cells and claims are skipped, since only live words belong to keys.
        if Kind::of(this) != Kind::Live {
            continue;
        }
        let tag = table.division.tag(this);
        // The word's shard is one of its key's shards. The key's other shards follow from this shard and the tag.
        let others = shards_of(index, second(Identity { first: index, tag }));
        // Each pair is found once, since only words that come before this one in the order of reading are compared.
        let earlier = others.filter(|&shard| shard < index);
        // The word is compared with all cells in the key's earlier shards, and with the cells before it in its own
        // shard.
        let earlier = earlier.flat_map(|shard| places(shard..shard + 1, CELLS));
        for (shard, earlier) in earlier.chain(places(index..index + 1, cell)) {
            // These two words have the same key.
            if table.division.is_live(word(shard, earlier), tag) {
                twins.push([(shard, earlier), (index, cell)]);
            }
        }
    }
    twins
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// Writes the state of the table, while other threads go on deciding. For every key, the file has all charges that
    /// were made before this call and have not drained. If a request is charged during the call, the file has either
    /// its whole cost or nothing of it. (For a sliding log it may have any part of the units.) No thread waits, and
    /// nothing in the table changes.
    ///
    /// A limiter that is [restored](crate::KeyedBuilder::restore) from the file admits what this limiter would have
    /// admitted. In the worst case it admits some units a second time, namely those that were charged to a key after
    /// this call had read the key's word.
    ///
    /// The file has 336 bytes at the beginning and 8 at the end. In between it has 64 bytes for each shard of seven
    /// cells, which is about 13 bytes for each key of the capacity. A spill adds an eighth of that, or about 1 KiB in a
    /// small table. While the file is written, a copy of the table is in memory. The writer is flushed, not synced.
    /// Write to a new file, sync it, and then rename it over the old file, so that a complete file exists at every
    /// moment.
    ///
    /// For a limiter with [tiers](crate::KeyedBuilder::tier) the file has 264 bytes more for each tier. While the words
    /// are copied, a change of a quota is refused. For sliding logs each shard takes 8 bytes, and each of its seven
    /// cells takes 16 bytes and another 8 for each unit of the limit.
    ///
    /// **The file is a secret.** It always carries a fingerprint of the hasher. Unless a hasher was
    /// [given](crate::KeyedBuilder::hasher), it also carries the seeds of the hasher. With the file, as with the memory
    /// of this process, an attacker can make keys that collide. Keep the file where only the service can read it.
    ///
    /// # Errors
    /// An error is returned if the writer fails, if there is no memory for the copy, if callers may bring their own
    /// quotas ([`own_quotas`](crate::KeyedBuilder::own_quotas)), or, for a limiter whose quotas may change, if another
    /// thread is changing a quota or taking a snapshot.
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
            // In a table of logs, the entries are copied together with the cells.
            Cells::Logs(store) => {
                let logs = self.table.logs(store);
                let (words, saved) = (logs.copied(second)?, SavedLogs::new(logs.rule, shards));
                let preamble = self.preamble(Whose::Keyed, saved.form(), words.len() as u64);
                let keys = saved.keys(&words);
                write(writer, &preamble, words.into_iter())?;
                return Ok(SnapshotSummary::of(&preamble, keys));
            }
        };
        // `begin` takes the right to change quotas. While `changing` holds this right, no quota changes, and every word
        // is counted in a quota in force.
        let changing = book.map(|book| book.begin().ok_or(SnapshotError::Changing)).transpose()?;
        // Charges from here on need not be in the file.
        let copies = copy_all(&self.table, second)?;
        let quotas = book.map_or_else(Vec::new, |book| words_of_book(book));
        let (kind, form) = match (book, &changing) {
            // The file has the instant of the last change, because no change after a restore may come before that
            // instant.
            (Some(book), Some(changing)) => (Whose::Tiers, form(book, changing.latest_ns())),
            // The table has one quota, which cannot change.
            _ => (Whose::Keyed, of_table),
        };
        // The spill is copied after the shards, so the debt of a key that moves from the spill to a cell meanwhile is
        // in at least one of the two copies.
        let spill = copy_spill(&self.table)?;
        // The copies of the words and of the quotas agree with each other. From here on a quota may change.
        drop(changing);
        let besides = (quotas.len() + spill.len()) as u64;
        let preamble = self.preamble(kind, form, words_of(shards) + besides);
        let words = copies.iter().flat_map(|copy| {
            std::iter::once(copy.header.to_bits()).chain(copy.words.map(TableWord::to_bits))
        });
        write(writer, &preamble, quotas.into_iter().chain(words).chain(spill))?;
        // The summary counts the keys in the copy, and so in the file. The table may have changed since.
        let words = copies.iter().flat_map(|copy| &copy.words);
        let keys = words.filter(|&&word| Kind::of(word) == Kind::Live).count();
        Ok(SnapshotSummary::of(&preamble, keys))
    }

    /// The preamble for a file with this number of words. The caller has already copied the words.
    fn preamble(&self, kind: Whose, form: Form, words: u64) -> Preamble {
        // The clocks are read after the copy, and in this order: see the head of `crate::snapshot`.
        let now = self.now();
        let wall = SystemTime::now();
        Preamble {
            kind,
            origin: self.clock.origin(),
            // The length of a table in memory always fits, so `u64::MAX` is never written.
            length: length(words).unwrap_or(u64::MAX),
            now_ns: now.as_nanos(),
            wall_ns: wall_ns(wall),
            capacity: self.capacity as u64,
            shards: self.table.shards() as u64,
            form,
            fingerprint: self.hasher.fingerprint(),
            // `None` if the caller gave the hasher. The caller must then give the same hasher to the restore.
            seeds: self.seeds.map(Seeds::to_numbers),
            // The policies of tiers are in the book, so this field is empty for them.
            policy: if kind == Whose::Tiers { String::new() } else { self.policy.to_string() },
        }
    }
}

/// The number of words and headers in `shards` shards.
pub(in crate::keyed) fn words_of(shards: usize) -> u64 {
    // Each shard has a header and its cells. The product saturates, since `shards` may come from a damaged file.
    (shards as u64).saturating_mul(1 + CELLS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Tag;

    /// A table of two units of shards (see [`crate::hash::UNIT`]). The floor of each shard is granule 7. `words` are
    /// (shard, cell, word).
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
        let copies = copy_all(table, second).expect("enough memory");
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
        // In the first call the key has units 0 and 1. In the second it has only one unit, so the words of unit 1
        // belong to another key.
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
