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

use crate::clock::Clock;
use crate::snapshot::{Preamble, RestoreError, SnapshotKind as Whose, field};

use super::restore::{Expected, drawn, read};
use crate::keyed::KeyedLimiter;
use crate::keyed::memory::layout::Shared;
use crate::keyed::quotas::book::index_bits_for;
use crate::keyed::quotas::book::saved::form_of;
use crate::keyed::verbs::tiers::Tiers;

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
    /// assert!(limiter.entry("alice").tier(1)?.check_n(50).is_allowed());
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// let limiter: KeyedLimiter<str> = tiers().restore(Clock::monotonic(), &file[..])?;
    /// assert!(!limiter.entry("alice").tier(1)?.check().is_allowed());
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
        read(reader, clock.into(), |preamble, clock| self.shared_of(preamble, clock), drawn)
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
        let given = |_: &Preamble| Ok((hashers, None));
        read(reader, clock.into(), |preamble, clock| self.shared_of(preamble, clock), given)
    }

    /// How the words of the file are divided, and how each tier divides them.
    fn shared_of(&self, preamble: &Preamble, clock: &Clock) -> Result<Expected, RestoreError> {
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
        let quotas = self.in_words_of(shared).ok_or_else(refused)?;
        let policy = quotas[0].0; // there is a first tier
        Ok(Expected { shared: Some(shared), policy, quotas })
    }
}
