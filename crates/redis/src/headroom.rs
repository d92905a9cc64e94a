//! [`Headroom`]: the headroom that all nodes of a pool have reported, as far as one node knows it. The argument for it is
//! at the head of pool.rs.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_elastic::HeadroomError;

/// The number of steps of a whole headroom. The store gets a headroom as a number of steps of 1/32, rounded down. Each
/// level, 0 included, is a word there: more levels would make each look more expensive, and with fewer, less would be
/// lent than could be spared.
pub(crate) const WHOLE: u64 = 32;

/// The price of `cost` units at headroom `level / WHOLE`, in parts; a unit has `unit` parts. `None` if nothing is lent.
pub(crate) fn price(cost: u64, unit: u64, level: u64) -> Option<u64> {
    let whole = u128::from(cost).checked_mul(u128::from(unit))?.checked_mul(u128::from(WHOLE))?;
    u64::try_from(whole.div_ceil(u128::from(Some(level).filter(|level| *level > 0)?))).ok()
}

/// A node's own reports, and its last look at those of all nodes. They are one word, so that no loan misses a report
/// that moves from one to the other.
#[derive(Debug)]
pub(crate) struct Headroom {
    word: AtomicU64,
    /// The time for which a look counts.
    ttl_ms: u64,
}

/// The parts of the word.
#[derive(Clone, Copy)]
struct Known {
    /// The time until which the last look counts, in milliseconds.
    until_ms: u64,
    /// The least level of all nodes at the last look.
    seen: Level,
    /// The level that was sent to the store and is not answered.
    sent: Level,
    /// The least level that was reported here since then.
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
        // Relaxed, also in `level`: the word is the whole state, and orders no other memory.
        let before = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        change(Known::read(before.unwrap_or_else(|word| word)))
    }

    /// Enters a report of this node. Until it is known to have reached the store, this node lends by no more than it.
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

    /// The level to send to the store, if there is one. There is one at a time: if this is called again before the
    /// store has answered ([`learn`](Headroom::learn)), the level is sent again.
    pub(crate) fn send(&self) -> Option<u64> {
        let send =
            |known: Known| Known { sent: known.sent.min(known.reported), reported: NONE, ..known };
        some(self.update(send).sent)
    }

    /// Enters the store's answer: it has the level that was sent, and found this level at a look that was asked for at
    /// `asked_ms`, by this node's clock.
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
