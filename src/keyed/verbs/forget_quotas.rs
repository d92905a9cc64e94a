//! Frees the places of quotas in which no live key is counted any more.

use std::hash::{BuildHasher, Hash};

use crate::keyed::KeyedLimiter;
use crate::keyed::lookup::price::priced_idle;
use crate::keyed::memory::layout::Kind;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{TableWord, cells};
use crate::keyed::quotas::book::{Book, Quotas};
use crate::keyed::table::words::Words;

impl<K: Hash + ?Sized, S: BuildHasher> KeyedLimiter<K, S> {
    /// Frees the places of quotas that callers have brought along ([`Entry::under`](crate::Entry::under)), if no live
    /// key is counted in them any more. Returns the number of places that were freed. Call it now and then if quotas
    /// come and go, or when there is no place for another quota ([`ChangeError::TooManyQuotas`](crate::ChangeError)).
    /// Idle keys that are counted in such quotas are forgotten.
    ///
    /// Reads the whole table, as [`stats`](KeyedLimiter::stats) does, and waits for no thread. If another thread is
    /// doing the same, or if the limiter was built without [`own_quotas`](crate::KeyedBuilder::own_quotas), the call
    /// does nothing and returns 0.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ChangeError, KeyedLimiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let limiter = KeyedLimiter::builder(Quota::per_second(9)).own_quotas(1, &[]).clock(clock.clone());
    /// let limiter = limiter.build(1_000)?;
    /// let [alice, bob] = ["alice", "bob"].map(|client| limiter.entry(client));
    /// assert!(alice.under(Quota::per_second(5))?.check().is_allowed());
    /// let refused = bob.under(Quota::per_second(7)).unwrap_err();
    /// assert_eq!(refused, ChangeError::TooManyQuotas { most: 1 });
    /// assert_eq!(limiter.forget_quotas(), 0, "alice owes a unit");
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(limiter.forget_quotas(), 1);
    /// assert!(bob.under(Quota::per_second(7))?.check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget_quotas(&self) -> usize {
        match self.table.words() {
            Ok(words) => words.forget_unused(self.clock.now().as_nanos()),
            Err(_) => 0, // logs have one policy
        }
    }
}

impl Words<'_> {
    /// Frees the places of own quotas whose indices no word carries: see `quotas/book/own.rs`.
    pub(in crate::keyed) fn forget_unused(&self, now_ns: u64) -> usize {
        let Quotas::Several(book) = self.quotas else { return 0 };
        // Another thread is freeing places already.
        let Some(_right) = book.begin() else { return 0 };
        book.mark_leaving();
        // Places are marked before the words are read. A word that gets an index later is written under a pin, which
        // removes the mark of its place.
        if points::looks_before_freeing() {
            for index in 0..self.shards() {
                self.keep_used(book, index, now_ns);
            }
        }
        book.free_leaving()
    }

    /// Removes the marks of all indices that words of this shard carry. Idle keys whose words carry a marked index are
    /// forgotten, and do not keep their index.
    fn keep_used(&self, book: &Book, index: usize, now_ns: u64) {
        let shard = self.shard(index);
        let leaving = |word: TableWord| {
            let is_live = Kind::of(word) == Kind::Live;
            Some(book.index_of_word(word)).filter(|&index| is_live && book.is_leaving(index))
        };
        // In this shard, as in most, no word carries a marked index.
        if !cells().any(|cell| leaving(shard.load(cell)).is_some()) {
            return;
        }
        // The floor is advanced, so that keys which have become idle by now are also idle at the floor.
        self.advance(index, now_ns);
        for cell in cells() {
            let word = shard.load(cell);
            if let Some(place) = leaving(word)
                && !self.forgets(book, index, cell, word)
            {
                book.stays(place);
            }
        }
    }

    /// Forgets the key of a live word if it is idle at the shard's floor. Returns false if the key is not idle, or if
    /// another thread has changed the word or the floor meanwhile. Then the quota keeps its place this time.
    fn forgets(&self, book: &Book, index: usize, cell: usize, word: TableWord) -> bool {
        let shard = self.shard(index);
        // The header is loaded before the word and after it, so that the floor dates the word: see the head of `shard`.
        let header = shard.header();
        if shard.load(cell) != word || shard.header().floor() != header.floor() {
            return false;
        }
        let is_idle = priced_idle(book, word, [header.floor_ns(); 3]).is_some_and(|[idle, _]| idle);
        let is_forgotten = is_idle && shard.replace(cell, word, TableWord::VACANT);
        if is_forgotten {
            self.tallies.reclaimed(index, 1);
        }
        is_forgotten
    }
}
