//! Advancing a shard's time floor: the only place that forgets keys, besides an install that takes an
//! idle cell over.
//!
//! The floor F is a promise: *whatever is not here was idle at F*. Every install starts at F or later,
//! so a key that was forgotten cannot come back with less debt than it left with, whatever clock the
//! forgetter or the newcomer looks at.
//!
//! An advance first sweeps under the old floor and then publishes the new one: so while a floor stands,
//! a whole sweep under its predecessor is over.

use crate::algorithm::Decides;
use crate::sync::{Fault, planted};

use super::layout::{GRANULE_BITS, Kind, Layout};
use super::price::Settled;
use super::shard::{Header, cells};
use super::table::Table;

/// Floors trail the clock by at least this, so that threads in step never see a floor ahead of their
/// own now. A matter of precision, not of safety.
pub(super) const LAG_NS: u64 = 1 << GRANULE_BITS;

/// Rounds of an advance: a few steps past what lives, and as many again if others disturb it. Then it
/// leaves the floor to whoever disturbs it.
const ROUNDS: usize = if cfg!(loom) { 4 } else { 12 };

impl Table {
    /// Moves a shard's floor up to what `now` allows: by at most one epoch at a time while live words
    /// remain. A word outlasts a floor by an epoch and its own debt, so a handful of steps do.
    #[cold]
    #[inline(never)]
    pub(super) fn advance(&self, index: usize, now_ns: u64) {
        let goal = floor_at(now_ns);
        for _ in 0..ROUNDS {
            let header = self.shard(index).header();
            if goal <= header.floor() {
                return;
            }
            let Some(live) = self.sweep(index, header) else { continue };
            let furthest = header.floor().saturating_add(self.layout.epoch);
            let live = live && !planted(Fault::JumpOverLiveWords);
            // Whether it succeeds or not: look again.
            self.shard(index).publish(header, if live { goal.min(furthest) } else { goal });
        }
    }

    /// Vacates every claim and every word that is idle at the floor of `header`. Says whether live
    /// words remain, or `None` if the shard was changed meanwhile.
    ///
    /// An abandoned claim is removed by this; the opener of one that is not starts again.
    fn sweep(&self, index: usize, header: Header) -> Option<bool> {
        let shard = self.shard(index);
        let ruled = self.ruled();
        let moment = ruled.moment(header.floor_ns());
        let mut live = false;
        let book = self.book.as_deref();
        if planted(Fault::PublishWithoutSweep) {
            return Some(true);
        }
        for cell in cells() {
            let word = shard.load(cell);
            let idle = match Layout::kind(word) {
                Kind::Vacant => continue,
                Kind::Claim if planted(Fault::SweepSparesClaims) => continue,
                Kind::Claim => true,
                Kind::Live => {
                    // Read after the word: a word written under a newer floor must not be judged by
                    // this one.
                    let stale = shard.header().floor() != header.floor();
                    if stale && !planted(Fault::SweepWithStaleHeader) {
                        return None;
                    }
                    match book {
                        Some(book) => self.settle(book, index, cell, word)? == Settled::Idle,
                        None => ruled.is_idle(self.layout.unpack(word, &ruled, moment), moment),
                    }
                }
            };
            if !idle {
                live = true;
            } else if shard.replace(cell, shard.reclaimable(cell, word), 0) {
                self.tallies.reclaimed(index, u64::from(Layout::kind(word) == Kind::Live));
            } else {
                return None;
            }
        }
        Some(live)
    }
}

/// The floor that an instant allows, in granules.
pub(super) fn floor_at(instant_ns: u64) -> u64 {
    instant_ns.saturating_sub(LAG_NS) >> GRANULE_BITS
}

/// The first instant that allows a floor at or above `instant_ns`: the inverse of [`floor_at`].
pub(super) fn first_instant_of_floor(instant_ns: u64) -> u64 {
    instant_ns.div_ceil(1 << GRANULE_BITS).saturating_mul(1 << GRANULE_BITS).saturating_add(LAG_NS)
}
