//! Advancing a shard's time floor, after a sweep that forgets idle keys. Keys are forgotten in three other places only:
//! an install may take over the cell of an idle key, a change of quota passes over all words
//! (`lookup/price/all_words.rs`), and `forget_quotas` forgets idle keys in order to free the places of their quotas.
//!
//! The floor F is a promise: *a key that is not in this shard was idle at F*. Every install starts at F or later. So a
//! key that was forgotten cannot come back with less debt than it had. It does not matter which clocks were read by the
//! thread that forgot the key and by the thread that installs it.
//!
//! An advance first sweeps under the old floor and then publishes the new one. So when a floor is in force, a whole
//! sweep under the previous floor has ended.
//!
//! # How long a word stays
//! A sweep under F forgets each word that was already idle at F - E, where E is the epoch. A word that became idle
//! after F - E stays, for its key may come back. Only an install that finds no vacant cell takes over the cell of an
//! idle word. So while the floor is F, each word in the shard was still busy at F - 2E. To see why: the last sweep was
//! under a floor F' that is F - E or later. It removed every word that was idle at F' - E, which is F - 2E or later. (A
//! floor jumps over more than E only where no word is left.)

use crate::keyed::lookup::price::{Settled, is_stale_by, settle};
use crate::keyed::memory::layout::Kind;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::GRANULE_BITS;
use crate::keyed::memory::shard::{Header, TableWord, cells};
use crate::keyed::quotas::book::Quotas;
use crate::keyed::table::words::Words;

/// Floors trail the clock by at least this time, so that threads whose clocks agree never see a floor ahead of their
/// own time. This affects precision, not safety.
// One granule is enough, since synchronised clocks differ by less than a millisecond.
pub(in crate::keyed) const LAG_NS: u64 = 1 << GRANULE_BITS;

/// The most rounds of one advance: a few steps past live words, two past idle ones, and some more for rounds that other
/// threads disturb. After that, the advance leaves the floor to those threads.
// A table of several quotas needs the most rounds. A word there may stay for ten epochs: eight until its debt has
// drained (`layout/shared`), one because it may be written an epoch above the floor, and one while it is idle.
const ROUNDS: usize = if cfg!(loom) { 4 } else { 14 };

impl Words<'_> {
    /// Moves a shard's floor up as far as `now` allows, by at most one epoch at a time while words remain. A word is
    /// gone two epochs after its debt has drained, so [`ROUNDS`] steps are enough.
    #[cold]
    #[inline(never)]
    pub(in crate::keyed) fn advance(&self, index: usize, now_ns: u64) {
        self.advance_while(index, now_ns, |_| true);
    }

    /// Moves a shard's floor up, an epoch at a time, until `now` is near to it. The floor goes no further, so that idle
    /// words stay as long as possible.
    #[cold]
    #[inline(never)]
    pub(in crate::keyed) fn follow(&self, index: usize, now_ns: u64) {
        self.advance_while(index, now_ns, |header| !header.is_near(now_ns, self.division.epoch));
    }

    /// The last floor under which a shard is swept when its floor follows `now_ns`. The floors of these sweeps are an
    /// epoch apart, since words remain in the shard. `None` if the floor need not move.
    pub(in crate::keyed) fn last_swept(&self, header: Header, now_ns: u64) -> Option<u64> {
        let (granule, epoch) = (now_ns >> GRANULE_BITS, self.division.epoch);
        // The shard is swept under each floor to which `now` is not near. `None` means that `now` is near to the
        // present floor or below it, so there is no sweep.
        let beyond = granule.checked_sub(header.floor().checked_add(epoch)? + 1)?;
        // The floor goes through F, F + E, F + 2E and so on, and the shard is swept under each of these floors before
        // the next is published. The floor stops as soon as `now` is near to it. Under that last floor there is no
        // sweep.
        Some(header.floor() + beyond / epoch.max(1) * epoch)
    }

    fn advance_while(&self, index: usize, now_ns: u64, goes_on: impl Fn(Header) -> bool) {
        let goal = floor_at(now_ns);
        // The rounds are bounded: a thread that is disturbed in all of them goes on with the old floor.
        for _ in 0..ROUNDS {
            // The sweep and the publication use the same reading of the header. The publication fails if the header's
            // floor or install counter has changed since.
            let header = self.shard(index).header();
            // The floor is near enough, perhaps because another thread has moved it.
            if goal <= header.floor() || !goes_on(header) {
                return;
            }
            // A word changed during the sweep, so the sweep proves nothing about the whole shard.
            let Some(live) = points::sweeps(|| self.sweep(index, header)) else { continue };
            // Words that remain must be readable under the next floor, so that floor lies at most an epoch ahead. If no
            // word remains, the floor may jump to the goal.
            let furthest = header.floor().saturating_add(self.division.epoch);
            let next = if points::bounds_floor(live) { goal.min(furthest) } else { goal };
            // The publication fails if an install has taken a step or another floor was published meanwhile. In both
            // cases the next round looks again.
            self.shard(index).publish(header, next);
        }
    }

    /// Vacates every claim, and every word that has been idle for an epoch at the floor of `header`. Returns true if
    /// words remain, and `None` if the shard was changed meanwhile.
    ///
    /// Claims are vacated so that the claim of a dead thread does not stay. If the thread lives, its install starts
    /// again.
    fn sweep(&self, index: usize, header: Header) -> Option<bool> {
        let shard = self.shard(index);
        let mut live = false;
        // All words of the shard are judged by one floor, so what depends on the floor is computed once.
        let judged = match self.quotas {
            Quotas::One(layout) => Ok(layout.staleness(header.floor_ns(), header.floor_ns())),
            Quotas::Several(book) => Err(book),
        };
        // Each cell is read once. An install that claims the cell after that raises the install counter in
        // `Shard::enter`. So either the publication fails, or the install reads the new floor. A charge after that can
        // only change a word that was kept, and the next floor can date the charged word, too.
        for cell in cells() {
            let word = shard.load(cell);
            let idle = match points::kind_swept(word) {
                Kind::Vacant => continue,
                // A claim carries no debt. The thread that made it fails to open it, and starts again.
                Kind::Claim => true,
                Kind::Live => {
                    // The header is read after the word, since a word that was written under a newer floor must not be
                    // judged by this floor.
                    if points::header_behind_swept(shard, header).floor() != header.floor() {
                        return None;
                    }
                    // If the word stays but is still counted in a replaced quota, it is re-based here.
                    match &judged {
                        Ok(staleness) => staleness.of(word),
                        Err(book) => settle(book, shard, cell, word)? == Settled::Stale,
                    }
                }
            };
            // The key owes something, or has been idle for less than an epoch and may come back.
            if !idle {
                // A word stays, so the next floor must be able to date it.
                live = true;
            } else if shard.reclaim(cell, word, TableWord::VACANT) {
                self.tallies.reclaimed(index, u64::from(Kind::of(word) == Kind::Live));
            } else {
                // The cell was charged, claimed or opened since it was read.
                return None;
            }
        }
        Some(live)
    }

    /// True if a live word is forgotten when the floor follows `now_ns`. Its key then has no cell and is decided as a
    /// new key. Such a key may owe something in the spill, or `now_ns` may be before the floor of another shard of the
    /// key.
    #[cold]
    #[inline(never)]
    pub(in crate::keyed) fn is_forgotten(
        &self,
        header: Header,
        word: TableWord,
        now_ns: u64,
    ) -> bool {
        self.last_swept(header, now_ns).is_some_and(|last| self.is_swept(header, word, last))
    }

    /// True if a sweep under floor `last` forgets a live word.
    pub(in crate::keyed) fn is_swept(&self, header: Header, word: TableWord, last: u64) -> bool {
        let (floor_ns, swept_ns) = (header.floor_ns(), last << GRANULE_BITS);
        match self.quotas {
            Quotas::One(layout) => layout.staleness(floor_ns, swept_ns).of(word),
            // `None` means that another thread has replaced the word meanwhile.
            Quotas::Several(book) => is_stale_by(book, word, floor_ns, swept_ns).unwrap_or(false),
        }
    }
}

/// The highest floor that an instant allows, in granules.
pub(in crate::keyed) fn floor_at(instant_ns: u64) -> u64 {
    // The result is rounded down, so a floor never lies above the instant from which it was computed.
    instant_ns.saturating_sub(LAG_NS) >> GRANULE_BITS
}

/// The first instant that allows a floor at or above `instant_ns`: the inverse of [`floor_at`].
pub(in crate::keyed) fn first_instant_of_floor(instant_ns: u64) -> u64 {
    // The instant is rounded up to a whole granule, and the lag is added. From the result on, `floor_at` gives a floor
    // at or above `instant_ns`.
    instant_ns.div_ceil(1 << GRANULE_BITS).saturating_mul(1 << GRANULE_BITS).saturating_add(LAG_NS)
}
