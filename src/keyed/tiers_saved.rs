//! Snapshots of a table of several quotas: which these are, and which of them each word is counted in.
//!
//! Its words stand in the file as those of a table of one quota do, and before them the *book*: of each tier the
//! index that its words carry, its policy, and how that divides words. The copy holds the right to change a
//! quota, so while it is taken no thread does; and a change has brought every word over before it gives that right
//! back. So no word in the file carries the index of a quota that is not in it.
//!
//! A restore is given the tiers, as one of a single policy is given that. The file's words say how they are
//! divided, the tiers what is expected in them: every tier must be the one that the file has, and divide the file's
//! words as the file says. Headroom must fit beside them: it may be another than before.

use std::hash::{BuildHasher, Hash};
use std::io::Read;
use std::marker::PhantomData;

use crate::clock::Clock;
use crate::error::BuildError;
use crate::policy::Policy;
use crate::snapshot::{
    Form, Kind as Whose, Preamble, Reader, RestoreError, WORDS_AT, field, resume,
};

use super::KeyedLimiter;
use super::book::{Book, index_bits_for, indices_for};
use super::hash::Hashers;
use super::layout::{Coded, Layout, Shared};
use super::restore::{read_shard, size_of_table};
use super::seeds::Seeds;
use super::shard::CELLS;
use super::shard::GRANULE_BITS;
use super::snapshot::words_of;
use super::table::Table;
use super::tiers::Tiers;
use super::unit::unit;

/// A policy in numbers.
const POLICY_WORDS: usize = 4;

/// The words of each tier: its index, its policy, and how that divides words.
const WORDS_PER_TIER: usize = 1 + POLICY_WORDS + size_of::<Coded>() / size_of::<u64>();

impl Book {
    /// What a file says of the words' division. `latest_ns` is when a quota was changed last.
    pub(super) fn form(&self, latest_ns: u64) -> Form {
        form_of(self.shared(), self.tiers(), latest_ns)
    }

    /// The book, as a file has it. For a caller that has the right to change it.
    pub(super) fn words(&self) -> Vec<u64> {
        let of_tier = |(tier, index): (usize, usize)| {
            let policy = self.policy(tier).map_or([0; POLICY_WORDS], |policy| policy.numbers());
            let code = Shared::code(&self.in_force(tier).layout).unwrap_or_default();
            std::iter::once(index as u64).chain(policy).chain(code)
        };
        self.indices().enumerate().flat_map(of_tier).collect()
    }

    /// How many words that are.
    pub(super) fn words_of(tiers: usize) -> u64 {
        (tiers * WORDS_PER_TIER) as u64
    }

    /// Whether a live word is counted in a quota that is in force.
    pub(super) fn has_quota_of(&self, word: u64) -> bool {
        let index = self.index_of_word(word);
        self.indices().any(|in_force| in_force == index)
    }
}

impl Tiers {
    /// The limiter of these tiers whose [`snapshot`](KeyedLimiter::snapshot) this is: as
    /// [`KeyedLimiter::restore`], which is for one policy.
    ///
    /// For a tier whose quota was changed, give the one that was in force ([`KeyedLimiter::policies`]),
    /// and change it again afterwards if that is wanted. [`headroom`](Tiers::headroom) may be another than it was,
    /// if it fits in the words that the file has.
    ///
    /// # Errors
    /// As [`KeyedLimiter::restore`]; other tiers than the file's, more, fewer, or in another order; headroom that
    /// does not fit in its words.
    ///
    /// ```
    /// use tollgate::{Clock, KeyedLimiter, Quota, RestoreError, Tiers};
    /// let tiers = || Tiers::of(Quota::per_hour(2)).and(Quota::per_hour(50));
    /// let limiter: KeyedLimiter<str> = tiers().build(1_000)?;
    /// assert!(limiter.entry("alice").tier(1)?.check(50).is_allowed());
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// let limiter: KeyedLimiter<str> = tiers().restore(Clock::monotonic(), &file[..])?;
    /// assert!(!limiter.entry("alice").tier(1)?.check(1).is_allowed());
    /// assert!(limiter.check("alice", 2).is_allowed());
    /// let other = Tiers::of(Quota::per_hour(2)).and(Quota::per_hour(60));
    /// let refused = other.restore::<str>(Clock::monotonic(), &file[..]);
    /// assert!(matches!(refused, Err(RestoreError::Tier { tier: 1, .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore<K: Hash + ?Sized>(
        self,
        clock: impl Into<Clock>,
        reader: impl Read,
    ) -> Result<KeyedLimiter<K>, RestoreError> {
        let clock: Clock = clock.into();
        let (reader, preamble) = Reader::open(reader)?;
        let seeds = preamble.seeds.map(Seeds::new);
        let Some(drawn) = seeds else {
            // The kind, or the tiers, if that is what is wrong, is the better answer.
            self.shared_of(&preamble, &clock)?;
            return Err(RestoreError::SeedsMissing);
        };
        let [place, tag] = drawn.hashers();
        let limiter = self.read((reader, preamble), clock, Hashers::new(place, tag))?;
        Ok(KeyedLimiter { seeds, ..limiter })
    }

    /// [`restore`](Tiers::restore) for a limiter that was built
    /// [`build_with_hashers`](Tiers::build_with_hashers): as [`KeyedLimiter::restore_with_hashers`].
    ///
    /// # Errors
    /// As [`restore`](Tiers::restore); and other hashers than the snapshot's.
    ///
    /// ```
    /// use ahash::RandomState;
    /// use tollgate::{Clock, KeyedLimiter, Quota, Tiers};
    /// let tiers = || Tiers::of(Quota::per_hour(2));
    /// let hashers = || [1, 2].map(|n| RandomState::with_seeds(n, 2, 3, 4));
    /// let limiter: KeyedLimiter<str, _> =
    ///     tiers().build_with_hashers(1_000, Clock::monotonic(), hashers())?;
    /// assert!(limiter.check("alice", 2).is_allowed());
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// let limiter: KeyedLimiter<str, _> =
    ///     tiers().restore_with_hashers(Clock::monotonic(), hashers(), &file[..])?;
    /// assert!(!limiter.check("alice", 1).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore_with_hashers<K: Hash + ?Sized, S: BuildHasher>(
        self,
        clock: impl Into<Clock>,
        hashers: [S; 2],
        reader: impl Read,
    ) -> Result<KeyedLimiter<K, S>, RestoreError> {
        let ([place, tag], opened) = (hashers, Reader::open(reader)?);
        self.read(opened, clock.into(), Hashers::new(place, tag))
    }

    fn read<K: Hash + ?Sized, S: BuildHasher, R: Read>(
        self,
        (mut reader, preamble): (Reader<R>, Preamble),
        clock: Clock,
        hashers: Hashers<S>,
    ) -> Result<KeyedLimiter<K, S>, RestoreError> {
        let (shared, quotas) = self.shared_of(&preamble, &clock)?;
        let before = Book::words_of(quotas.len());
        let (capacity, has_spill) = size_of_table(&preamble, before, quotas.len())?;
        // Other hashers would look for every key in the wrong place.
        if preamble.fingerprints != hashers.fingerprints() {
            return Err(RestoreError::Hashers);
        }
        let indices = read_book(&mut reader, &quotas)?;
        let book = Book::turned(shared, &quotas, &indices, preamble.form.back);
        // Every layout of a table has numbers.
        let book = book.ok_or(BuildError::TagTooNarrow { state_bits: 63, tag_bits: 0 })?;
        let mut table = Table::told(shared.bare(), capacity, || read_shard(&mut reader))?;
        table.book = Some(Box::new(book));
        let (policy, keys) = (quotas[0].0, PhantomData); // there is at least one tier
        let mut foreign = None;
        if has_spill {
            // No file of tiers that cannot spill has one.
            let mut spill = table.new_spill(policy)?.ok_or(BuildError::CannotSpill { policy })?;
            foreign = spill.fill(table.book.as_deref(), || reader.word())?;
            table.spill = Some(spill);
        }
        // Only behind the end and the checksum are the words looked at.
        reader.close()?;
        table.is_a_snapshots(
            |identity| hashers.mix().second(identity, table.shards(), unit()),
            before,
        )?;
        // Found before the checksum was, but told only now: a damaged file is the better answer.
        if let Some((place, found)) = foreign {
            let words =
                before.saturating_add(words_of(table.shards())).saturating_add(place as u64);
            let offset = WORDS_AT.saturating_add(8 * words);
            return Err(RestoreError::Word {
                offset,
                found,
                accepted: "counted in its tier's quota",
            });
        }
        let clock = resume(clock, &preamble)?;
        Ok(KeyedLimiter { table, hashers, clock, capacity, policy, seeds: None, keys })
    }

    /// How the words of the file are divided, and how each tier divides them.
    fn shared_of(
        &self,
        preamble: &Preamble,
        clock: &Clock,
    ) -> Result<(Shared, Vec<(Policy, Layout)>), RestoreError> {
        let all = self.checked()?;
        preamble.is_of_kind(Whose::Tiers)?;
        let (form, tiers) = (preamble.form, self.count());
        field("number of tiers", form.fineness, tiers as u64)?;
        field("length of the policy", preamble.policy.len() as u64, 0)?;
        let divided = |expected: String| RestoreError::Layout { found: form.to_string(), expected };
        let shared = Shared::of(index_bits_for(tiers), form.tag_bits.into(), form.epoch)
            .ok_or_else(|| divided("with tags of 24 to 32 bits".to_string()))?;
        let expected = form_of(shared, tiers, form.back);
        // No table of so many tiers divides its words as the file says.
        if form != expected {
            return Err(divided(expected.to_string()));
        }
        preamble.has_origin(clock.origin())?;
        if let Some(policy) = all.iter().find(|policy| shared.layout(policy).is_none()) {
            return Err(RestoreError::DoesNotFit { policy: policy.to_string() });
        }
        let refused = || divided("such that all tiers fit".to_string());
        Ok((shared, self.in_words_of(shared).ok_or_else(refused)?))
    }
}

/// What a file says of the words' division. `latest_ns` is when a quota was changed last.
#[expect(clippy::cast_possible_truncation, reason = "7 cells, 20 bits, up to 5 of an index")]
fn form_of(shared: Shared, tiers: usize, latest_ns: u64) -> Form {
    Form {
        cells: CELLS as u8,
        granule_bits: GRANULE_BITS as u8,
        count_bits: index_bits_for(tiers) as u8,
        time_bits: 0,
        tag_bits: shared.bare().tag_bits,
        fineness: tiers as u64,
        epoch: shared.bare().epoch,
        back: latest_ns,
        end_quantum_ns: 0,
    }
}

/// Reads the book: the index of each tier, if its quota is the one that was given, and is counted alike.
fn read_book<R: Read>(
    reader: &mut Reader<R>,
    quotas: &[(Policy, Layout)],
) -> Result<Vec<usize>, RestoreError> {
    let mut indices = Vec::with_capacity(quotas.len());
    for (tier, (policy, layout)) in quotas.iter().enumerate() {
        let index = reader.word()?;
        let mut numbers = [0; POLICY_WORDS];
        for number in &mut numbers {
            *number = reader.word()?;
        }
        let mut code = Coded::default();
        for number in &mut code {
            *number = reader.word()?;
        }
        // A tier of another quota: its words would be read in the wrong ticks.
        if numbers != policy.numbers() {
            let unknown = || "of no policy".to_string();
            let found = Policy::of_numbers(numbers).map_or_else(unknown, |found| found.to_string());
            return Err(RestoreError::Tier { tier, found, expected: policy.to_string() });
        }
        let expected = Shared::code(layout).unwrap_or_default();
        // The same quota, divided in another way than this version does.
        if code != expected {
            let [found, expected] = [code, expected].map(|code| format!("{code:?}"));
            return Err(RestoreError::Layout { found, expected });
        }
        let free = (0..indices_for(quotas.len())).filter(|index| !indices.contains(index));
        let free = free.map(|index| index as u64).collect::<Vec<_>>();
        // Out of range, or another tier's.
        if !free.contains(&index) {
            let expected = free.first().copied().unwrap_or(0); // there are more indices than tiers
            return Err(RestoreError::Field { name: "index of a tier", found: index, expected });
        }
        indices.push(usize::try_from(index).unwrap_or(0)); // one of the free ones
    }
    Ok(indices)
}
