//! [`Stats`]: the content of a table, and counts of events.

use crate::hash::unit;
use std::time::Duration;

use crate::keyed::memory::layout::Kind;
use crate::keyed::memory::shard::CELLS;
use crate::keyed::memory::shard::GRANULE_BITS;
use crate::keyed::overflow::store::Spill;
use crate::keyed::table::Table;
use crate::keyed::table::words::Words;

/// The content of a [`KeyedLimiter`](crate::KeyedLimiter) now, and counts of events since it was built.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
/// let limiter = KeyedLimiter::new(Quota::per_minute(100), 1_000)?;
/// assert!(limiter.check("alice").is_allowed());
/// let stats = limiter.stats();
/// assert_eq!((stats.live, stats.full), (1, 0));
/// assert!(stats.collision_probability < 1e-9);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys that the table was built for.
    pub capacity: usize,
    /// The number of cells. There are more cells than the capacity, so that nearly every key finds one.
    pub cells: usize,
    /// Bytes of the table, including its spill. They are fixed.
    pub bytes: usize,
    /// Bytes of the spill alone: an eighth of the bytes of the cells, or about 1 KiB in a small table. They are 0 if
    /// the table denies new keys without a cell ([`WhenFull::Deny`](crate::WhenFull)).
    pub spill_bytes: usize,
    /// Keys that are not idle now, because some of their charges still count.
    pub live: usize,
    /// Cells whose key was forgotten because it had become idle.
    pub reclaimed: u64,
    /// Requests of new keys that were denied because no cell was free and no spill decided them. Requests under a quota
    /// that was forgotten ([`forget_quotas`](crate::KeyedLimiter::forget_quotas)) count here, too.
    pub full: u64,
    /// Requests of new keys that were decided in the spill because no cell was free, whether they were admitted or not.
    /// This includes requests for which there was a cell, but which were denied because of their key's charges in the
    /// spill.
    pub spilled: u64,
    /// Requests of new keys that were denied because other threads were in the way in 8 attempts to give the key a
    /// cell.
    pub contended: u64,
    /// Bits by which keys in the same units (pairs of cache lines) are told apart.
    pub tag_bits: u32,
    /// Bits of one key's state.
    pub state_bits: u32,
    /// The time by which a shard's floor may lie behind a request before the request advances it. A key that comes back
    /// within this time after it has become idle finds its word, unless a new key has needed its cell. The time is 0 in
    /// a table of sliding logs.
    pub epoch: Duration,
    /// The probability that a new key shares its word with some other key, in a table that is filled to its capacity.
    /// Keys that share a word can only get less than their quotas. Two keys share a word if they have equal tags and
    /// the same units.
    pub collision_probability: f64,
}

impl Table {
    /// Collects the statistics. Reads the whole table, so it is for a gauge and not for every request.
    pub(in crate::keyed) fn stats(&self, capacity: usize, now_ns: u64) -> Stats {
        Stats {
            capacity,
            cells: self.cells(),
            bytes: self.bytes(),
            // The shards are read one after the other while other threads go on, so the sum does not show a single
            // moment.
            live: match self.words() {
                Ok(words) => (0..self.shards()).map(|index| live_in(&words, index, now_ns)).sum(),
                Err(logs) => logs.live(now_ns),
            },
            reclaimed: self.tallies.sum(|stripe| &stripe.reclaimed),
            spill_bytes: self.spill().map_or(0, Spill::bytes),
            full: self.tallies.sum(|stripe| &stripe.full),
            spilled: self.tallies.sum(|stripe| &stripe.spilled),
            contended: self.tallies.sum(|stripe| &stripe.contended),
            tag_bits: u32::from(self.division.tag_bits),
            state_bits: self.division.state_bits,
            // The product does not overflow: a layout bounds its epoch by the longest time.
            epoch: Duration::from_nanos(self.division.epoch.saturating_mul(1 << GRANULE_BITS)),
            collision_probability: collision_probability(self, capacity),
        }
    }
}

/// Keys of one shard that are not idle at `now`. A shard that is being changed is counted as it
/// was read.
fn live_in(words: &Words<'_>, index: usize, now_ns: u64) -> usize {
    let shard = words.shard(index);
    // The floor is read once, before the words. A second reading would be more exact, but a gauge does not need that.
    let floor_ns = shard.header().floor_ns();
    let is_live = |&cell: &usize| {
        let word = shard.load(cell);
        // Each word can be read at the floor. `idle_ns` and `now_ns` are times of the same clock. If `now_ns` lies
        // before the floor, the floor is used instead, since another thread's time was already later.
        Kind::of(word) == Kind::Live && words.idle_ns(word, floor_ns) > now_ns.max(floor_ns)
    };
    (0..CELLS).filter(is_live).count()
}

/// `keys * 2 / units * 2^-tag_bits`: each of the keys has an equal tag with probability 2^-tag_bits, and then shares
/// both units if its home is in either of the new key's two units. Bits of the hash that are both in the unit's number
/// and in the tag are counted only once.
#[expect(clippy::cast_precision_loss, reason = "a probability needs few digits")]
fn collision_probability(table: &Table, keys: usize) -> f64 {
    let units = (table.shards() / unit()) as f64;
    // The home of each key lies in one of the new key's two units with a chance of 2 in `units`. In a tiny table the
    // result would exceed the number of keys, so it is capped.
    let sharing = (2.0 * keys as f64 / units).min(keys as f64);
    let tag_bits = f64::from(table.division.tag_bits);
    // If the hash has fewer bits than the unit's number and the tag need together, keys with equal units are more
    // likely to have equal tags.
    let twice = (tag_bits + units.log2() - f64::from(u64::BITS)).max(0.0);
    // The product is the expected number of such keys, which is no less than the probability that there is one.
    (sharing * (twice - tag_bits).exp2()).min(1.0)
}
