//! [`OwnQuotas`]: the quotas that callers bring along with their requests. Each of them has a place, which is an entry
//! of the book.
//!
//! In such a book the key's identity does not depend on the quota. The index in a key's word names the quota under
//! which the key was charged last. A request under another quota carries the word over to that quota
//! (`lookup/slow/own.rs`).
//!
//! # How a quota gets its place
//! The numbers of a quota determine the [`WINDOW`] places in which it may stand. The quota is looked for in these
//! places, and if it is in none of them, it is written into a free one. Two threads that bring the same new quota at
//! once may write it twice. Both places are valid: a word that is carried over from one to the other keeps its debt.
//!
//! # How a place becomes free
//! A place is free from the start, or freed by a pass over the table ([`Words::forget_unused`]). The pass may free a
//! place only if no word carries its index and no thread can still write the index into a word. An index comes into a
//! word in two ways: an install opens its claim with the index, or a request carries over a word from another index. A
//! thread [pins](Book::pin) the place for as long as it may do either. A charge or a refund does not change the index
//! of a word, and needs no pin.
//!
//! For all of this, each place has one atomic word, its *use*: the number of pins, and at most one of three marks
//! (free, taken, leaving). The pass marks a place that has no pins as leaving, then reads the table, and then frees the
//! place if its use is still exactly that mark. A pin removes the mark, so the pass fails if any thread has pinned the
//! place since the mark was set. A thread that had pinned the place earlier wrote its word before it gave the pin back
//! (Release). The pass has seen that the pin was given back (Acquire, by the compare-and-swap that set the mark), so it
//! finds the word.
//!
//! A free place keeps its quota until another quota is written there, and a pin brings the place back into use. So an
//! [`Entry`](crate::Entry) that a caller keeps still works after the place of its quota was freed. Once another quota
//! has been written there, the version differs, and a request by that `Entry` is denied as if there were no cell for
//! its key.
//!
//! Suppose that a thread reads a word and sleeps. Meanwhile the word's key is forgotten, its place is freed and given
//! to another quota, and a word of the same bits comes into the cell. The thread would mistake that word for the word
//! that it has read: see `lookup/price.rs`.

use super::{Book, NewQuota};
use crate::change::ChangeError;
use crate::hash::scale;
use crate::keyed::memory::layout::Shared;
use crate::keyed::memory::points;
use crate::policy::Policy;
use crate::quota::Quota;
use crate::sketch::{GOLDEN, mix};
use crate::sync::{AtomicU64, Ordering};

/// The number of places in which one quota may stand.
// With half of all places in use, one quota in four billion finds all of these places taken.
const WINDOW: usize = if cfg!(loom) { 2 } else { 32 };

/// The most quotas that callers may bring along to one table at a time. An index then takes thirteen bits of each word.
pub(in crate::keyed) const OWN_MAX: usize = 4096;

/// The number of groups of keys. When one key of a group is carried over to a faster quota, all permits of the group's
/// keys become worthless: see [`Void`].
// The groups take 8 KiB. A group has about a thousandth of all keys. When one of its keys is carried over to a faster
// quota, the earlier permits of all its other keys become worthless, too.
const GROUPS: usize = if cfg!(loom) { 1 } else { 1024 };

/// No thread uses the place, and no word carries its index. Its quota may be replaced.
const FREE: u64 = 1 << 63;

/// A thread is writing a quota in the place.
const TAKEN: u64 = 1 << 62;

/// A pass over the table is looking for words that carry the place's index.
const LEAVING: u64 = 1 << 61;

/// The quota that a request is decided under: the number of its tier, or of its place in a book of own quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) struct QuotaId {
    pub(in crate::keyed) number: u16,
    /// The version of the place, which distinguishes the caller's quota from a later quota in the same place. The
    /// version is not used for a tier, nor for the quota that the limiter was built with, since no other quota ever
    /// gets its place.
    // This is the low half of the whole version. It repeats only after 2^31 other quotas in the same place.
    version: u32,
}

impl QuotaId {
    /// A tier. In a book of own quotas, tier 0 is the quota that the limiter was built with.
    pub(in crate::keyed) const fn tier(number: u16) -> Self {
        Self { number, version: 0 }
    }
}

/// The numbers of a [`Quota`]: count, period in nanoseconds, burst.
type Numbers = [u64; 3];

/// What a book keeps for the quotas that callers bring along, beside their entries.
#[derive(Debug)]
pub(super) struct OwnQuotas {
    uses: Box<[AtomicU64]>,
    /// The numbers of the quota in each place. They are written with the place's other numbers, under its version.
    numbers: Box<[[AtomicU64; 3]]>,
    /// For each group of keys, a [`Void`].
    voids: Box<[AtomicU64]>,
}

impl OwnQuotas {
    /// Makes `count` places, a power of two. All but the first are free.
    pub(super) fn new(count: usize) -> Self {
        let uses = (0..count).map(|place| AtomicU64::new(if place == 0 { 1 } else { FREE }));
        let numbers = (0..count).map(|_| std::array::from_fn(|_| AtomicU64::new(0)));
        let voids = (0..GROUPS).map(|_| AtomicU64::new(0));
        Self { uses: uses.collect(), numbers: numbers.collect(), voids: voids.collect() }
    }

    /// The [`Void`] of a group: the charges whose permits are worthless.
    fn void(&self, group: usize) -> &AtomicU64 {
        &self.voids[group % self.voids.len()]
    }

    fn read(&self, place: usize) -> Numbers {
        // Acquire: as for the other numbers of a place (`QuotaNumbers::read`).
        std::array::from_fn(|n| self.numbers[place][n].load(Ordering::Acquire))
    }
}

/// The charges whose permits are worthless: all charges before an instant, and all charges at the instant itself except
/// those under one quota.
///
/// The instant is when a key was carried over, and the exempt quota is the one to which it was carried over. The permit
/// of the charge that carried it over stays valid. The instant is rounded down to 16 microseconds (2^14 ns), which
/// leaves 14 bits for the number of a place. If keys were carried over to two quotas at the same rounded instant, all
/// permits of this instant are worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) struct Void(u64);

/// The bits of a place in a [`Void`].
const PLACE_BITS: u32 = 14;

/// No place has this number.
const NO_PLACE: u64 = (1 << PLACE_BITS) - 1;

impl Void {
    /// The empty set: its instant lies before every charge.
    pub(in crate::keyed) const NONE: Self = Self(0);

    fn of(at_ns: u64, place: u64) -> Self {
        // One is added to the instant, so that the result is never 0. The addition cannot overflow, since the low bits
        // have been cut off; `min` keeps the sum within the bits above the place.
        let instant = ((at_ns >> PLACE_BITS) + 1).min(u64::MAX >> PLACE_BITS);
        Self(instant << PLACE_BITS | place)
    }

    /// The union of the two sets.
    fn joined(self, other: Self) -> Self {
        let same_instant = (self.0 ^ other.0) <= NO_PLACE;
        let both = if same_instant && self != other { NO_PLACE } else { 0 };
        Self(self.0.max(other.0) | both)
    }

    /// True if a charge under the quota in `place` is in this set.
    pub(super) fn holds(self, charged_ns: u64, place: usize) -> bool {
        let charge = Self::of(charged_ns, place as u64);
        let [charged, void] = [charge, self].map(|it| it.0 >> PLACE_BITS);
        // At the instant itself, the charge under the quota to which the key was carried over keeps a valid permit.
        charged < void || (charged == void && charge != self)
    }
}

/// The right to write a place's index into words. Dropping it gives the pin back.
#[derive(Debug)]
pub(in crate::keyed) struct Pin<'t>(&'t AtomicU64);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // Release: a pass that sees this pin gone sees every word that was written under it. Adding `u64::MAX` wraps
        // around, so this subtracts one.
        self.0.fetch_add(u64::MAX, Ordering::Release);
    }
}

/// The number of places for this number of own quotas. It is a power of two, so that every index names a place, and at
/// least twice the number of quotas, so that a quota hardly ever finds its places taken.
pub(in crate::keyed) fn places_for(quotas: usize) -> usize {
    (2 * quotas).next_power_of_two()
}

impl Book {
    /// True if callers may bring quotas along. In a book of tiers they may not.
    pub(in crate::keyed) fn takes_own(&self) -> bool {
        self.own.is_some()
    }

    /// Finds the place of a quota, or writes a new quota in a free place. Fails if callers may bring no quotas, if the
    /// quota does not fit in the words, or if all places of its window are in use.
    pub(in crate::keyed) fn place_of(&self, quota: Quota) -> Result<QuotaId, ChangeError> {
        let own = self.own.as_ref().ok_or(ChangeError::NoOwnQuotas)?;
        let numbers = [quota.count(), quota.period_ns(), quota.max_burst()];
        let found =
            || window(numbers, self.places()).find_map(|place| self.id_at(own, place, numbers));
        if let Some(id) = found() {
            return Ok(id);
        }
        let policy = Policy::from(quota);
        let state_bits = self.shared().index_shift();
        let layout =
            self.shared().layout_of_own(&policy).ok_or(ChangeError::DoesNotFit { state_bits })?;
        for place in window(numbers, self.places()) {
            // Acquire: the thread that freed the place has seen that no word carries its index, and now this thread
            // sees the same. Relaxed on failure: the place is in use, and nothing is read.
            let taken =
                own.uses[place].compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
            // Another thread uses the place, or was faster to take it.
            if !points::takes(taken.is_ok()) {
                continue;
            }
            let new =
                NewQuota { policy: &policy, code: &Shared::code(&layout), rules: &layout.rules };
            let also = || {
                for (number, value) in own.numbers[place].iter().zip(numbers) {
                    // Release: as for the other numbers (`QuotaNumbers::write`).
                    number.store(value, Ordering::Release);
                }
            };
            points::written_and_given(
                || self.write_own(place, new, also),
                // Release: a thread that pins the place from here on sees its numbers. No thread pins a place that is
                // marked as taken.
                || own.uses[place].store(0, Ordering::Release),
            );
            // This is `None` if a pass has freed the place already, and another thread has taken it.
            if let Some(id) = self.id_at(own, place, numbers) {
                return Ok(id);
            }
        }
        // Every place of the quota's window is in use. But another thread may have written this very quota meanwhile.
        found().ok_or(ChangeError::TooManyQuotas { most: self.places() - 1 })
    }

    /// The place as an id, if these are the numbers of its quota.
    fn id_at(&self, own: &OwnQuotas, place: usize, numbers: Numbers) -> Option<QuotaId> {
        // `None` means that a quota is being written there.
        let (found, version) = self.read_own(place, || own.read(place))?;
        if found != numbers {
            return None;
        }
        let used = &own.uses[place];
        // Acquire: a thread that finds the place in use sees its numbers, and may pin it.
        match used.load(Ordering::Acquire) {
            // The place comes back into use, so that no other quota gets it before the first request under this quota.
            // Relaxed: the load above is Acquire, and nothing is published. On failure another thread was faster, for
            // this quota or for another one.
            FREE => {
                used.compare_exchange(FREE, 0, Ordering::Relaxed, Ordering::Relaxed).ok()?;
            }
            // A place that is marked as taken is left to the thread that writes there: it cannot be pinned yet.
            used if !points::is_found(used & TAKEN != 0) => return None,
            _ => {}
        }
        // Another quota may have been written there since the numbers were read.
        let is_same = self.version(place) == version;
        is_same.then(|| QuotaId { number: number_of(place), version: low(version) })
    }

    /// True if this index, found in a word, names the quota of the request, and this quota still has its place.
    #[inline(always)]
    pub(super) fn serves(&self, index: usize, quota: QuotaId) -> bool {
        index == usize::from(quota.number) && !self.is_gone(quota)
    }

    /// True if another quota has been written in the place of this quota, which changes the version. The quota in the
    /// first place is never replaced.
    #[inline(always)]
    fn is_gone(&self, quota: QuotaId) -> bool {
        let is_same = || quota.version == low(self.version(quota.number.into()));
        quota.number != 0 && !points::is_same_quota(is_same())
    }

    /// Keeps the place of a quota from being freed; `Err` if another quota has got the place. In a book of tiers there
    /// is nothing to pin.
    pub(in crate::keyed) fn pin(&self, quota: QuotaId) -> Result<Option<Pin<'_>>, Gone> {
        let Some(own) = &self.own else { return Ok(None) };
        // Another quota has got the place. If the place is free by now, a pin would bring it back into use for nothing.
        if self.is_gone(quota) {
            return Err(Gone);
        }
        let used = &own.uses[usize::from(quota.number)];
        // A place that was free, or about to be freed, still has its quota and can be used again. A place that is
        // marked as taken cannot, since a quota is being written there.
        let pinned = |used: u64| {
            (used & TAKEN == 0).then_some((used & !points::unmarked([FREE, LEAVING])) + 1)
        };
        // Acquire: a thread that sees the place in use again sees its numbers. No Release: a pin publishes nothing, and
        // a read-modify-write continues the release sequence of other pins.
        used.fetch_update(Ordering::Acquire, Ordering::Relaxed, pinned).map_err(|_| Gone)?;
        let pin = Pin(used);
        // If the quota is gone now, another one was written there after the test above and before the pin.
        if self.is_gone(quota) { Err(Gone) } else { Ok(Some(pin)) }
    }

    /// Makes the permits of a group's earlier charges worthless. The caller is about to carry over a key of the group
    /// to a faster quota, the one in `place`: see `lookup/slow/own.rs`.
    pub(in crate::keyed) fn void_permits(&self, group: usize, place: u16, at_ns: u64) {
        let Some(own) = &self.own else { return };
        let new = Void::of(at_ns, place.into());
        let joined = |found: u64| Some(Void(found).joined(new).0).filter(|void| *void != found);
        // Release: the word is carried over after this write (by a Release, too). A thread that finds the word carried
        // over, or the key under yet another quota or installed anew, sees this write. Relaxed for the load: of two
        // instants the later is kept, so their order does not matter. If the group has a later instant already, nothing
        // is written.
        let _ = own.void(group).fetch_update(Ordering::Release, Ordering::Relaxed, joined);
    }

    /// The charges of a key of this group whose permits are worthless.
    pub(in crate::keyed) fn void_of(&self, group: usize) -> Void {
        // Acquire: pairs with the Release of `void_permits`. The caller has read the key's word before.
        let load = |own: &OwnQuotas| Void(own.void(group).load(Ordering::Acquire));
        self.own.as_ref().map_or(Void(0), load)
    }

    /// Marks every place that no thread has pinned as leaving.
    pub(in crate::keyed) fn mark_leaving(&self) {
        for used in self.uses() {
            // Acquire: from here on this thread sees the words that were written under every pin that has been given
            // back. Relaxed on failure: the place is pinned or marked already, and stays as it is.
            let _ = used.compare_exchange(0, LEAVING, Ordering::Acquire, Ordering::Relaxed);
        }
    }

    /// True if an index is marked as leaving.
    pub(in crate::keyed) fn is_leaving(&self, index: usize) -> bool {
        // Relaxed: this test only saves work. Whatever is read here, a place is freed only by a compare-and-swap from
        // the mark.
        self.uses().get(index).is_some_and(|used| used.load(Ordering::Relaxed) == LEAVING)
    }

    /// Removes the mark of an index, since a word carries the index.
    pub(in crate::keyed) fn stays(&self, index: usize) {
        if let Some(used) = self.uses().get(index) {
            // Relaxed: this thread has set the mark. On failure another thread has pinned the place, which removed the
            // mark.
            let _ = used.compare_exchange(LEAVING, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Frees every place that is still marked as leaving, and returns the number of places that were freed.
    pub(in crate::keyed) fn free_leaving(&self) -> usize {
        // Release: the thread that takes the place next sees what this thread has seen of the table. Relaxed on
        // failure: a thread has pinned the place meanwhile, or the place was not marked.
        let frees = |used: &&AtomicU64| {
            used.compare_exchange(LEAVING, FREE, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        self.uses().iter().filter(frees).count()
    }

    /// True if a place has none of the three marks. A model does not count this as a step.
    #[cfg(any(loom, shuttle))]
    pub(in crate::keyed) fn is_kept(&self, index: usize) -> bool {
        self.uses().get(index).is_none_or(|used| used.newest() & (FREE | TAKEN | LEAVING) == 0)
    }

    fn uses(&self) -> &[AtomicU64] {
        self.own.as_ref().map_or(&[], |own| &own.uses)
    }
}

/// The place of a quota has been given to another quota.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Gone;

/// The places, out of `count`, in which a quota of these numbers may stand. The table's first place is never one of
/// them.
fn window(numbers: Numbers, count: usize) -> impl Iterator<Item = usize> {
    // Any mixing is good enough here: quotas are not secret, and no client gains if two quotas share their places.
    let [count_of, period_ns, burst] = numbers;
    let hash = mix(mix(count_of ^ GOLDEN, period_ns) ^ burst, GOLDEN);
    // The distance between two places differs from quota to quota, so that full places do not lie next to each other.
    // The step is odd and the number of places is a power of two, so no place comes twice.
    let (first, step) = (scale(hash, count), scale(hash.rotate_left(32), count) | 1);
    let places = (0..count).map(move |n| first.wrapping_add(n.wrapping_mul(step)) & (count - 1));
    places.filter(|place| *place > 0).take(WINDOW)
}

/// The number of a place, which is below twice [`OWN_MAX`].
#[expect(clippy::cast_possible_truncation, reason = "below 8192")]
fn number_of(place: usize) -> u16 {
    place as u16
}

/// The low half of a version.
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
#[inline(always)]
fn low(version: u64) -> u32 {
    version as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_from_before_a_faster_quota_are_void_and_those_of_that_very_charge_are_not() {
        let microseconds = |n: u64| n * 1_000;
        let came = Void::of(microseconds(100), 7);
        assert!([1, 7].map(|place| came.holds(microseconds(80), place)) == [true; 2]);
        assert_eq!([1, 7].map(|place| came.holds(microseconds(100), place)), [true, false]);
        assert_eq!([1, 7].map(|place| came.holds(microseconds(120), place)), [false; 2]);
        assert!(![0, u64::MAX].into_iter().any(|at_ns| Void::NONE.holds(at_ns, 0)));
        // If keys are carried over to two quotas at one instant, all permits of this instant are worthless.
        let both = came.joined(Void::of(microseconds(100), 9));
        assert!([7, 9].into_iter().all(|place| both.holds(microseconds(100), place)));
        assert_eq!(both.joined(came), both);
        assert_eq!(came.joined(came), came);
        let later = Void::of(microseconds(200), 1);
        assert_eq!([both.joined(later), later.joined(both)], [later; 2]);
        let last = Void::of(u64::MAX, 3);
        assert!(last.holds(u64::MAX, 2) && !last.holds(u64::MAX, 3));
    }

    /// The quotas of usual plans must be spread evenly: the more quotas begin at one place, the more places each search
    /// has to read.
    #[test]
    fn quotas_are_spread_over_their_places() {
        let first = |numbers| window(numbers, 1_024).next().expect("a place");
        let per_minute = (1..=100).map(|count| [count, 60_000_000_000, count]);
        let bursts = (1..=100).map(|burst| [10, 1_000_000_000, burst]);
        let periods = (1..=100).map(|seconds| [1, seconds * 1_000_000_000, 1]);
        for quotas in [per_minute.collect::<Vec<_>>(), bursts.collect(), periods.collect()] {
            let places: std::collections::HashSet<usize> = quotas.into_iter().map(first).collect();
            assert!(places.len() > 85, "{} places for 100", places.len());
        }
    }

    #[test]
    fn a_quota_may_stand_in_32_places_but_not_in_the_first_of_all() {
        for count in [2, 4, 32, 64, 1_024] {
            for burst in 1..200 {
                let places: Vec<usize> = window([1, 1, burst], count).collect();
                let different: std::collections::HashSet<_> = places.iter().collect();
                assert_eq!((places.len(), different.len()), ((count - 1).min(32), places.len()));
                assert!(places.iter().all(|place| (1..count).contains(place)), "{places:?}");
            }
        }
    }
}
