//! Making a table of a snapshot, or nothing.
//!
//! What a file says of itself is compared with what a table of this policy is, before anything is made
//! of it. Then its shards are read into a table that grows as they come, so that a file that promises more
//! than it has takes no more than a few times its own size. Only when its end, its checksum and every
//! word are right is there a limiter.
//!
//! A checksum is no signature: a process that may write the file can give a word any state. Hence each is also
//! looked at: no claims, since no thread would finish them; no live word without a tag, no two of one key.
//! What is left is a state of the policy, if perhaps one that no requests have made, and decides like any other. So is
//! any word of the spill, as it is of a [`Limiter`](crate::Limiter).

use std::hash::{BuildHasher, Hash};
use std::io::Read;
use std::marker::PhantomData;

use crate::clock::Clock;
use crate::error::BuildError;
use crate::policy::Policy;
use crate::snapshot::{
    Preamble, Reader, RestoreError, SnapshotKind as Whose, WORDS_AT, field, length, resume,
};

use super::KeyedLimiter;
use super::book::Book;
use super::build::DESIGN_LOAD;
use super::layout::{Kind, Layout};
use super::seeds::Seeds;
use super::shard::{CELLS, Header, Shard};
use super::snapshot::{twins, words_of};
use super::spill::Spill;
use super::table::Table;
use crate::hash::{Hashers, Identity, unit};

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// The limiter whose [`snapshot`](KeyedLimiter::snapshot) this is, with its hashers and its capacity.
    /// It goes on where that left off.
    ///
    /// What has drained meanwhile by the wall clock has drained, never more: if the wall clock went backward
    /// or has not been set, no time has passed. Give a clock of the kind that the limiter had. One with an
    /// origin of its own is set to go on from the old one's reading, and one of Unix time is never less
    /// than it ([`Clock::resumed_at`]); a [`ManualClock`](crate::ManualClock), or a
    /// [`CoarseClock`](crate::CoarseClock)'s, must have been set to it, as must times given to
    /// [`Entry::at`](crate::Entry::at).
    ///
    /// The keys must be of the type that they were, and hash alike: nothing in the file tells.
    ///
    /// # Errors
    /// A reader that fails, and a file that is not, to the bit, one of a table of this policy whose
    /// hashers can be made again here. Nothing is half restored.
    ///
    /// ```
    /// use tollgate::{Clock, KeyedLimiter, Quota, RestoreError};
    /// let quota = Quota::per_hour(2);
    /// let mut file = Vec::new();
    /// KeyedLimiter::<str>::new(quota, 1_000)?.snapshot(&mut file)?;
    /// file[1_000] ^= 1;
    /// let refused = KeyedLimiter::<str>::restore(quota, Clock::monotonic(), &file[..]);
    /// assert!(matches!(refused, Err(RestoreError::Damaged(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(
        policy: impl Into<Policy>,
        clock: impl Into<Clock>,
        reader: impl Read,
    ) -> Result<Self, RestoreError> {
        let (policy, clock): (Policy, Clock) = (policy.into(), clock.into());
        let (reader, preamble) = Reader::open(reader)?;
        let seeds = preamble.seeds.map(Seeds::new);
        let Some(drawn) = seeds else {
            // The kind, if that is what is wrong, is the better answer.
            let layout = Layout::plan(&policy)?;
            preamble.is_of(Whose::Keyed, policy, layout.form(), clock.origin())?;
            return Err(RestoreError::seeds_missing());
        };
        // The same seeds make the same hashers, so each key is looked for where its word stands.
        let [place, tag] = drawn.hashers();
        let limiter =
            KeyedLimiter::read((reader, preamble), policy, clock, Hashers::new(place, tag))?;
        // Kept, so that the next snapshot carries them, too.
        Ok(Self { seeds, ..limiter })
    }
}

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// [`restore`](KeyedLimiter::restore) for a limiter that was built
    /// [`with_hashers`](KeyedLimiter::with_hashers): they have to be built again with the same seeds, and
    /// given in the same order.
    ///
    /// # Errors
    /// As [`restore`](KeyedLimiter::restore); and hashers that make something else of a probe than those
    /// of the snapshot did.
    ///
    /// ```
    /// use ahash::RandomState;
    /// use tollgate::{Clock, KeyedLimiter, Quota, RestoreError};
    /// let quota = Quota::per_hour(2);
    /// let hashers = |seed| [1, 2].map(|n| RandomState::with_seeds(seed, n, 0, 0));
    /// let clock = Clock::monotonic;
    /// let limiter = KeyedLimiter::<str, _>::with_hashers(quota, 1_000, clock(), hashers(7))?;
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// let restore = |seed| {
    ///     KeyedLimiter::<str, _>::restore_with_hashers(quota, clock(), hashers(seed), &file[..])
    /// };
    /// assert!(restore(7).is_ok());
    /// assert!(matches!(restore(8), Err(RestoreError::Mismatch(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore_with_hashers(
        policy: impl Into<Policy>,
        clock: impl Into<Clock>,
        hashers: [S; 2],
        reader: impl Read,
    ) -> Result<Self, RestoreError> {
        // Whether they are the right ones is seen from the fingerprints in the file.
        let ([place, tag], opened) = (hashers, Reader::open(reader)?);
        Self::read(opened, policy.into(), clock.into(), Hashers::new(place, tag))
    }

    fn read<R: Read>(
        (mut reader, preamble): (Reader<R>, Preamble),
        policy: Policy,
        clock: Clock,
        hashers: Hashers<S>,
    ) -> Result<Self, RestoreError> {
        // As this version plans it: words that were divided in another way are refused, not
        // converted.
        let layout = Layout::plan(&policy)?;
        preamble.is_of(Whose::Keyed, policy, layout.form(), clock.origin())?;
        // Before memory is taken for it.
        let (capacity, has_spill) = size_of_table(&preamble, 0, 1)?;
        // Other hashers would look for every key in the wrong place.
        if preamble.fingerprints != hashers.fingerprints() {
            return Err(RestoreError::hashers());
        }
        // Shard by shard: a file that ends too early costs the memory of what it had.
        let mut table = Table::told(layout, capacity, || read_shard(&mut reader))?;
        if has_spill {
            // No file of a policy that cannot spill has one. Its memory is an eighth of what has been read.
            let mut spill = Spill::new(policy, &layout, table.shards())?
                .ok_or_else(|| BuildError::cannot_spill(policy))?;
            spill.fill(None, || reader.word())?;
            table.spill = Some(spill);
        }
        // Only behind the end and the checksum are the words looked at.
        reader.close()?;
        // A key's other unit follows from its tag and from a number of the hashers: so the shards
        // of a word can be named without its key.
        let second = |identity| hashers.mix().second(identity, table.shards(), unit());
        is_a_snapshots(&table, second, 0)?;
        // Last, so that the time in between counts as passed.
        let clock = resume(clock, &preamble)?;
        Ok(Self { table, hashers, clock, capacity, policy, seeds: None, keys: PhantomData })
    }
}

/// The capacity of the table, whose shards and whose file have the number and the length that follow; and
/// whether it has a spill, which is seen from the length. So many words stand before the shards, and there are so many
/// tiers.
pub(super) fn size_of_table(
    preamble: &Preamble,
    before: u64,
    tiers: usize,
) -> Result<(usize, bool), RestoreError> {
    let too_large = |_| BuildError::capacity_too_large(usize::MAX);
    // A file of a machine with wider addresses may hold more than this one can.
    // The number itself does not fit into the error either: the largest stands for it.
    let capacity = usize::try_from(preamble.capacity).map_err(too_large)?;
    let shards = Table::shards_for(capacity, DESIGN_LOAD)?;
    // Capacity and shards come from one computation: a file in which they differ is none of ours.
    field("number of shards", preamble.shards, shards as u64)?;
    // Sums that are too large for any file saturate, and are refused as another length.
    let of_table = words_of(shards).saturating_add(before);
    let with_spill = of_table.saturating_add(Spill::words_of(shards, tiers));
    let has_spill = length(with_spill) == Some(preamble.length);
    // Then it has none, or the length is wrong: the error names the one without a spill.
    if !has_spill {
        field("length", preamble.length, length(of_table).unwrap_or(u64::MAX))?;
    }
    Ok((capacity, has_spill))
}

pub(super) fn read_shard<R: Read>(reader: &mut Reader<R>) -> Result<Shard, RestoreError> {
    // Its install counter, too: nonces go on where they were.
    let header = Header::from_bits(reader.word()?);
    // As they stand in the file: they are judged all together, behind the checksum.
    let mut words = [0; CELLS];
    for word in &mut words {
        *word = reader.word()?;
    }
    Ok(Shard::holding(header, words))
}

/// Refuses a table that no snapshot is of, whatever its checksum.
/// So many words stand before its shards.
pub(super) fn is_a_snapshots(
    table: &Table,
    second: impl Fn(Identity) -> usize,
    before: u64,
) -> Result<(), RestoreError> {
    let refused = |shard: usize, place: usize, found: u64, accepted: &'static str| {
        let words = words_of(shard).saturating_add(place as u64).saturating_add(before);
        // Words are of eight bytes, behind the preamble: the error names the place in the file.
        let offset = WORDS_AT.saturating_add(8 * words);
        Err(RestoreError::word(offset, found, accepted))
    };
    // One by one here, and all together for twins below.
    for index in 0..table.shards() {
        let header = table.shard(index).header();
        // No thread sets those bits, so no table has written this file.
        if !header.is_known() {
            return refused(index, 0, header.to_bits(), "a header whose unused bits are 0");
        }
        for cell in 0..CELLS {
            let word = table.shard(index).load(cell);
            let accepted = match Layout::kind(word) {
                // No thread of this process made it, so none would end it.
                Kind::Claim => "vacant, since no thread would finish this install",
                // No key has tag 0: vacant cells have it.
                Kind::Live if table.layout.tag(word) == 0 => "vacant, or have a tag",
                // In a table of several quotas, a word whose numbers the file does not have.
                Kind::Live if table.book.as_ref().is_some_and(|book| !has_quota_of(book, word)) => {
                    "vacant, or counted in a quota of the file's"
                }
                Kind::Live | Kind::Vacant => continue,
            };
            return refused(index, 1 + cell, word, accepted);
        }
    }
    // No other thread has the table yet, so it stands still.
    let word = |shard: usize, cell: usize| table.shard(shard).load(cell);
    match twins(table, word, second).first() {
        // A key with two live words would have twice its quota.
        Some(&[(shard, cell), _]) => {
            let accepted = "vacant, since another word further on has the same key";
            refused(shard, 1 + cell, word(shard, cell), accepted)
        }
        None => Ok(()),
    }
}

/// Whether a live word is counted in a quota that is in force.
fn has_quota_of(book: &Book, word: u64) -> bool {
    // Other threads have no part in a restore: no quota is being changed, and each tier has one.
    let index = book.index_of_word(word);
    book.indices().any(|in_force| in_force == index)
}
