//! [`Headroom`]: what one node knows of the headroom that all nodes of a pool have reported. The head of pool.rs
//! explains why it is safe to lend by it.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_elastic::HeadroomError;

/// The level of a headroom of 1. The store gets a headroom as a *level*, the number of whole steps of 1/32 in it. Each
/// level, 0 included, has a key of its own in the store. With more levels, each look at the store's levels would cost
/// more; with fewer, rounding down would waste more headroom.
pub(crate) const WHOLE: u64 = 32;

/// The price of `cost` units at headroom `level / WHOLE`, in parts; a unit has `unit` parts. `None` if nothing is lent.
pub(crate) fn price(cost: u64, unit: u64, level: u64) -> Option<u64> {
    let whole = u128::from(cost).checked_mul(u128::from(unit))?.checked_mul(u128::from(WHOLE))?;
    u64::try_from(whole.div_ceil(u128::from(Some(level).filter(|level| *level > 0)?))).ok()
}

/// A node's own reports, and its last look at all nodes' reports in the store. Both are in one atomic word: when a
/// report moves from the first to the second, no loan can miss it.
#[derive(Debug)]
pub(crate) struct Headroom {
    word: AtomicU64,
    /// How long a look is valid, counted from the moment at which this node asked the store.
    ttl_ms: u64,
}

/// The fields of the word.
#[derive(Clone, Copy)]
struct Known {
    /// The time until which the last look is valid, in milliseconds.
    until_ms: u64,
    /// The least level of all nodes at the last look.
    seen: Level,
    /// The level that was sent to the store, and is not confirmed yet.
    sent: Level,
    /// The least level that was reported on this node since it last sent a level.
    reported: Level,
}

/// A level, or [`NONE`], which is above all levels.
type Level = u64;

const NONE: Level = WHOLE + 1;
/// The number of bits of a level.
const BITS: u32 = 6;
const LATEST_MS: u64 = u64::MAX >> (3 * BITS);

impl Known {
    fn read(word: u64) -> Self {
        let level = |n: u32| (word >> (n * BITS)) % (1 << BITS);
        let [reported, sent, seen] = [0, 1, 2].map(level);
        Self { until_ms: word >> (3 * BITS), seen, sent, reported }
    }

    fn word(self) -> u64 {
        let upper = self.until_ms.min(LATEST_MS) << BITS | self.seen;
        (upper << BITS | self.sent) << BITS | self.reported
    }
}

fn some(level: Level) -> Option<u64> {
    Some(level).filter(|level| *level < NONE)
}

impl Headroom {
    pub(crate) fn new(ttl_ms: u64) -> Self {
        let nothing = Known { until_ms: 0, seen: NONE, sent: NONE, reported: NONE };
        Self { word: AtomicU64::new(nothing.word()), ttl_ms }
    }

    fn update(&self, change: impl Fn(Known) -> Known) -> Known {
        let next = |word| Some(change(Known::read(word)).word());
        // Relaxed, here and in `level`: the word is the whole state, so no other memory has to be ordered with it.
        let before = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        change(Known::read(before.unwrap_or_else(|word| word)))
    }

    /// Enters a report of this node. Until the store has confirmed the report, this node lends by no more than the
    /// reported headroom.
    pub(crate) fn report(&self, headroom: f64) -> Result<(), HeadroomError> {
        if !(0.0..=1.0).contains(&headroom) {
            return Err(HeadroomError { found: headroom });
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "between 0 and 32, and rounded down"
        )]
        let level = (headroom * WHOLE as f64) as u64;
        self.update(|known| Known { reported: known.reported.min(level), ..known });
        Ok(())
    }

    /// The level to send to the store, if there is one. It is the least level reported since the last call. If the
    /// level sent by the last call is not confirmed yet (by [`learn`](Headroom::learn)), and is lower, it is sent
    /// again.
    pub(crate) fn send(&self) -> Option<u64> {
        let send =
            |known: Known| Known { sent: known.sent.min(known.reported), reported: NONE, ..known };
        some(self.update(send).sent)
    }

    /// Enters the store's answer, which confirms the level that was sent. `found` is the least level of all nodes in
    /// the store. This node asked for it at `asked_ms`, by its own clock.
    pub(crate) fn learn(&self, found: Option<u64>, asked_ms: u64) {
        let (until_ms, seen) = (asked_ms.saturating_add(self.ttl_ms), found.unwrap_or(NONE));
        self.update(|known| Known { until_ms, seen, sent: NONE, ..known });
    }

    /// The level to lend by; `None` if it is not known.
    pub(crate) fn level(&self, now_ms: u64) -> Option<u64> {
        let known = Known::read(self.word.load(Ordering::Relaxed)); // Relaxed: see `update`
        let level = some(known.seen).filter(|_| now_ms < known.until_ms)?;
        Some(level.min(known.sent).min(known.reported))
    }
}

#[cfg(test)]
mod tests;
