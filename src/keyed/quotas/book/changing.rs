//! [`Changing`]: the right to change a quota of a book, and the steps of the thread that has the right.

use super::Book;
use super::numbers::{NewQuota, Start, index_of};
use crate::algorithm::Former;
use crate::keyed::memory::points;
use crate::sync::Ordering;

/// The right to change a quota. It ends when this value is dropped.
#[derive(Debug)]
pub(in crate::keyed) struct Changing<'a> {
    book: &'a Book,
}

impl Book {
    /// Returns the right to change a quota, unless another thread has it.
    pub(in crate::keyed) fn begin(&self) -> Option<Changing<'_>> {
        // Acquire: pairs with the Release with which another thread gave up the right. Relaxed on failure: nothing is
        // read.
        let mine = self.changing.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        // The value must be made only if the right is granted: dropping it ends the right, which could be another
        // thread's.
        mine.ok().map(|_| Changing { book: self })
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // Release: the next change sees everything that this one has written.
        self.book.changing.store(0, Ordering::Release);
    }
}

impl Changing<'_> {
    /// The instant of the last change.
    pub(in crate::keyed) fn latest_ns(&self) -> u64 {
        // Relaxed: this thread has the right to change, and took it over from the thread that wrote the instant.
        self.book.latest_ns.load(Ordering::Relaxed)
    }

    /// The instant at which a change at `now` takes place: `now`, or the instant of the last change if that is later.
    pub(in crate::keyed) fn instant(&self, now_ns: u64) -> u64 {
        // Relaxed, both: only the thread with the right to change reads or writes the instant. The instant is at most
        // `u64::MAX - 2`, so that `retired`, which is one more, never equals `RULED`.
        let at_ns = now_ns.max(self.book.latest_ns.load(Ordering::Relaxed)).min(u64::MAX - 2);
        self.book.latest_ns.store(at_ns, Ordering::Relaxed);
        at_ns
    }

    /// Turns a tier to a quota of these numbers at [`Self::instant`], and returns the index that this retires. Before
    /// the caller gives up the right, it replaces every word that carries the retired index.
    pub(in crate::keyed) fn turn(&self, tier: usize, quota: NewQuota<'_>, at_ns: u64) -> usize {
        let book = self.book;
        // Relaxed: only the thread with the right to change writes the index.
        let old = index_of(book.turned_to[tier].load(Ordering::Relaxed));
        // Threads that hold words with the old index go on reading its numbers, which do not change.
        let new = self.free_index(old);
        // The layout and the former quota can both be read, because no other thread writes the book.
        let (layout, (before, named)) = (book.in_force(tier).layout, book.named_former(old));
        let former = Former::of(layout.kernel, layout.max_units(), before, at_ns);
        // The surplus was spent either under the former quota of `old` or under the quota that is replaced now.
        // `replaced` is `None` in the first case, and the policy of the replaced quota in the second.
        let is_before = before.is_some_and(|before| before.kernel == former.kernel);
        let replaced = book.entries[old].named(&book.named[old]).filter(|_| !is_before);
        let start = Start { since_ns: at_ns, former: Some(former) };
        if points::overwrites_numbers() {
            book.entries[old].write(&book.named[old], tier, quota, start, || ());
            return old;
        }
        // No word carries the new index and no tier is turned to it, so no thread relies on these numbers.
        book.entries[new].write(&book.named[new], tier, quota, start, || ());
        book.name_former(new, replaced.unwrap_or(named));
        // The two stores come in this order, both Release: see `page`. From here on new keys are counted in the new
        // quota.
        book.turned_to[tier].store(new as u64, Ordering::Release);
        // From here on old keys are counted in the new quota, too. Between the two stores a word of the old quota is
        // charged under the old quota, as if the request had come before the change.
        book.entries[old].retire(at_ns);
        old
    }

    /// An index that no tier has now, so no word carries it. The search begins after the index that is being retired,
    /// so that an index is taken again as late as possible.
    fn free_index(&self, after: usize) -> usize {
        let count = self.book.entries.len();
        // Relaxed: as in `turn`.
        let in_use = |index: &usize| {
            let indices = self.book.turned_to.iter();
            indices.map(|index| index_of(index.load(Ordering::Relaxed))).any(|used| used == *index)
        };
        // There are twice as many indices as tiers, so one is free.
        (after + 1..after + count).map(|index| index % count).find(|i| !in_use(i)).unwrap_or(after)
    }
}

#[cfg(test)]
mod tests {
    use super::Book;
    use crate::{ChangeError, Changing, KeyedLimiter, ManualClock, Quota};

    #[test]
    fn a_refused_change_does_not_end_the_right_of_the_one_under_way() {
        let tiers = KeyedLimiter::builder(Quota::per_hour(10)).changing();
        let limiter: Changing<KeyedLimiter<str>> =
            tiers.clock(ManualClock::new()).build(10).expect("a table");
        let under_way = limiter.table.book().and_then(Book::begin);
        assert!(under_way.is_some());
        for _ in 0..3 {
            assert_eq!(limiter.set_quota(Quota::per_hour(20)), Err(ChangeError::Busy));
        }
        drop(under_way);
        assert_eq!(limiter.set_quota(Quota::per_hour(20)), Ok(()));
    }
}
