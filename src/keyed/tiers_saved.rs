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
    Preamble, Reader, RestoreError, SnapshotKind as Whose, WORDS_AT, field, resume,
};

use super::KeyedLimiter;
use super::book::saved::{form_of, read_book, words_of as words_of_book};
use super::book::{Book, index_bits_for};
use super::layout::{Layout, Shared};
use super::restore::{is_a_snapshots, read_shard, size_of_table};
use super::seeds::Seeds;
use super::snapshot::words_of;
use super::table::Table;
use super::tiers::Tiers;
use crate::hash::{Hashers, unit};

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
    /// assert!(limiter.check_n("alice", 2).is_allowed());
    /// let other = Tiers::of(Quota::per_hour(2)).and(Quota::per_hour(60));
    /// let refused = other.restore::<str>(Clock::monotonic(), &file[..]);
    /// assert!(matches!(refused, Err(RestoreError::Policy(_))));
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
            return Err(RestoreError::seeds_missing());
        };
        // The same seeds make the same hashers: see `restore`.
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
    /// assert!(limiter.check_n("alice", 2).is_allowed());
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// let limiter: KeyedLimiter<str, _> =
    ///     tiers().restore_with_hashers(Clock::monotonic(), hashers(), &file[..])?;
    /// assert!(!limiter.check("alice").is_allowed());
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
        // What is expected of the file, before anything is made of it.
        let (shared, quotas) = self.shared_of(&preamble, &clock)?;
        let before = words_of_book(quotas.len());
        let (capacity, has_spill) = size_of_table(&preamble, before, quotas.len())?;
        // Other hashers would look for every key in the wrong place.
        if preamble.fingerprints != hashers.fingerprints() {
            return Err(RestoreError::hashers());
        }
        // The book stands before the shards: their words carry its indices.
        let indices = read_book(&mut reader, &quotas)?;
        // With the instant of the last change before the snapshot: none may come before it here
        // either.
        let book = Book::turned(shared, &quotas, &indices, preamble.form.back);
        // Every layout of a table has numbers.
        let book = book.ok_or_else(|| BuildError::tag_too_narrow(63, 0))?;
        let mut table = Table::told(shared.bare(), capacity, || read_shard(&mut reader))?;
        table.book = Some(Box::new(book));
        let (policy, keys) = (quotas[0].0, PhantomData); // there is at least one tier
        let mut foreign = None;
        if has_spill {
            // No file of tiers that cannot spill has one.
            let mut spill =
                table.new_spill(policy)?.ok_or_else(|| BuildError::cannot_spill(policy))?;
            foreign = spill.fill(table.book.as_deref(), || reader.word())?;
            table.spill = Some(spill);
        }
        // Only behind the end and the checksum are the words looked at.
        reader.close()?;
        let second = |identity| hashers.mix().second(identity, table.shards(), unit());
        is_a_snapshots(&table, second, before)?;
        // Found before the checksum was, but told only now: a damaged file is the better answer.
        if let Some((place, found)) = foreign {
            let words =
                before.saturating_add(words_of(table.shards())).saturating_add(place as u64);
            let offset = WORDS_AT.saturating_add(8 * words);
            return Err(RestoreError::word(offset, found, "counted in its tier's quota"));
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
        // The tiers and the headroom, as for a table that is built.
        let all = self.checked()?;
        // A file of one policy has no book, and its words have no index.
        preamble.is_of_kind(Whose::Tiers)?;
        let (form, tiers) = (preamble.form, self.count());
        // Where a file of one policy says how fine its ticks are, this one has the number of its
        // tiers.
        if form.fineness != tiers as u64 {
            return Err(RestoreError::Policy(format!(
                "the snapshot's number of tiers is {}; it must be {tiers}",
                form.fineness,
            )));
        }
        // The policies stand in the book, one for each tier.
        field("length of the policy", preamble.policy.len() as u64, 0)?;
        // By the file's own widths, not by those that a new plan would have: words are not divided
        // anew.
        let shared = Shared::of(index_bits_for(tiers), form.tag_bits.into(), form.epoch)
            .ok_or_else(|| RestoreError::layout(form, "with tags of 24 to 32 bits"))?;
        let expected = form_of(shared, tiers, form.back);
        // No table of so many tiers divides its words as the file says.
        if form != expected {
            return Err(RestoreError::layout(form, expected));
        }
        preamble.has_origin(clock.origin())?;
        // Headroom is among them: the file's words have to have room for it, too.
        if let Some(policy) = all.iter().find(|policy| shared.layout(policy).is_none()) {
            return Err(RestoreError::Policy(format!(
                "{:?} does not fit in the snapshot's words; use a smaller burst or limit, or leave \
                 it out of the headroom",
                policy.to_string(),
            )));
        }
        let refused = || RestoreError::layout(form, "such that all tiers fit");
        Ok((shared, self.in_words_of(shared).ok_or_else(refused)?))
    }
}
