//! Decides many keys at once: the lines of a whole batch are prefetched before the first of them is needed.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crate::decision::Decision;
use crate::hash::Tag;
use crate::keyed::quotas::book::own::QuotaId;
use crate::verb::Verb;

use crate::keyed::KeyedLimiter;
use crate::keyed::memory::ask::Ask;

/// A core fetches ten to twenty lines at a time. This number of keys is large enough to keep the core busy, and small
/// enough for all lines to stay in its cache.
const BATCH: usize = 32;

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// Decides a request of `cost` units for each of `keys`, in their order, and gives every decision to `each` with
    /// its key. The answers are those of [`check_n`](KeyedLimiter::check_n) called in that order, at times that are
    /// read once for every 32 keys.
    ///
    /// Use it where several keys are known at once, as in a proxy with a batch of requests. In tables larger than the
    /// cache, each decision takes a fraction of the time of a single [`check`](KeyedLimiter::check), because the memory
    /// of several keys is fetched at the same time. Nothing is allocated.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::<str>::new(Quota::per_hour(1), 1_000)?;
    /// let mut allowed = Vec::new();
    /// limiter.check_many(&["alice", "bob", "alice"], 1, |key, decision| {
    ///     allowed.push((*key, decision.is_allowed()));
    /// });
    /// assert_eq!(allowed, [("alice", true), ("bob", true), ("alice", false)]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_many<Q: Borrow<K>>(
        &self,
        keys: &[Q],
        cost: u64,
        mut each: impl FnMut(&Q, Decision),
    ) {
        // This is a ring: while a key is decided, the cache line of the key that comes `BATCH` keys later is
        // prefetched. The ring is on the stack, so nothing is allocated for a batch.
        let mut ring = [(self.table.shard(0), Tag::NONE); BATCH];
        let due = |key: &Q| {
            let place = self.place(key.borrow());
            (place.home, place.tag)
        };
        let mut ahead = keys.iter();
        // The ring comes first in the zip: when it is full, no key is taken from `ahead` and lost.
        for (slot, key) in ring.iter_mut().zip(ahead.by_ref()) {
            *slot = due(key);
        }
        for batch in keys.chunks(BATCH) {
            // The clock is read once for each batch, not for each key.
            let (now_ns, verb) = (self.clock.now().as_nanos(), Verb::Check);
            // A cost of 0 charges nothing, as in `check`. In a table of several tiers the keys are in tier 0.
            let ask = Ask { now_ns, cost, charge: cost > 0, verb, quota: QuotaId::tier(0) };
            for (key, slot) in batch.iter().zip(&mut ring) {
                // The slot is read before it is filled with the key that comes `BATCH` keys later.
                let (home, tag) = *slot;
                // `None` means that every key is in the ring by now, and the slot is not read again.
                if let Some(key) = ahead.next() {
                    *slot = due(key);
                }
                each(key, self.place_at(home, tag).decide(ask, Some(&self.clock)));
            }
        }
    }
}
