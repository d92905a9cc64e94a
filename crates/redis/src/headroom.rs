//! [`Headroom`]: what a node of a pool knows of the headroom that all nodes have reported. Why it is right is at the head
//! of pool.rs.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_elastic::HeadroomError;

/// A headroom is told to the store as so many steps of 1/32, rounded down. Each step above 0 and 0 itself is a word
/// there: more of them would make each look dearer, fewer would lend less than could be spared.
pub(crate) const WHOLE: u64 = 32;

/// What one unit costs at headroom `level / WHOLE`, in parts of which a unit has `unit`; for so many units. `None` if
/// nothing is lent.
pub(crate) fn price(cost: u64, unit: u64, level: u64) -> Option<u64> {
    let whole = u128::from(cost).checked_mul(u128::from(unit))?.checked_mul(u128::from(WHOLE))?;
    u64::try_from(whole.div_ceil(u128::from(Some(level).filter(|level| *level > 0)?))).ok()
}

/// A node's own reports, and what it last saw of those of all: one word, so that no loan finds a report in neither.
#[derive(Debug)]
pub(crate) struct Headroom {
    word: AtomicU64,
    /// How long a look counts.
    ttl_ms: u64,
}

/// What the word holds.
#[derive(Clone, Copy)]
struct Known {
    /// Until when the last look counts, in milliseconds.
    until_ms: u64,
    /// The least level of all nodes that the last look found.
    seen: Level,
    /// What the store is being told, or was told without an answer.
    sent: Level,
    /// The least level that was reported here since.
    reported: Level,
}

/// A level, or [`NONE`], which is above all.
type Level = u64;

const NONE: Level = WHOLE + 1;
/// A level takes so many bits.
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
        // Relaxed, also in `level`: the word is all there is, and orders nothing else.
        let before = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        change(Known::read(before.unwrap_or_else(|word| word)))
    }

    /// A report of this node. Until it is known to have reached the store, this node lends by no more.
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

    /// The level that the store is to be told of, if there is one. It is told of one at a time, and is to answer
    /// ([`learn`](Headroom::learn)) before this is asked again; otherwise it is told of it again.
    pub(crate) fn send(&self) -> Option<u64> {
        let send =
            |known: Known| Known { sent: known.sent.min(known.reported), reported: NONE, ..known };
        some(self.update(send).sent)
    }

    /// The store was told, and answered a look that was asked for at `asked_ms`, by this node's clock.
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
