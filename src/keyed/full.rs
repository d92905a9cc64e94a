//! [`Full`]: what a table does when it has no cell for a new key.

use crate::error::BuildError;

use super::KeyedLimiter;
use super::spill::Spill;

/// What a [`KeyedLimiter`] does with a new key when both of its shards are full of keys that still limit
/// something. Keys that have a cell keep it, in either case.
///
/// ```
/// use tollgate::{Full, KeyedLimiter, ManualClock, Quota};
/// let table = || KeyedLimiter::<u64>::with_clock(Quota::per_hour(5), 1, ManualClock::new());
/// let admitted = |limiter: &KeyedLimiter<u64>| {
///     (0..100).filter(|key| limiter.check(key, 1).is_allowed()).count()
/// };
/// // There are cells for a few keys. The others find what the spill has left.
/// let spilling = table()?;
/// assert_eq!(admitted(&spilling), 100);
/// assert!(spilling.stats().spilled > 50);
/// // Or nothing at all.
/// let denying = table()?.when_full(Full::Deny)?;
/// assert!(admitted(&denying) < 50);
/// assert!(denying.stats().full > 50);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Full {
    /// It is decided in the *spill*: a sketch (as in a [`SketchLimiter`](crate::SketchLimiter)) of two rows
    /// with an eighth of the table's memory, at least 1 KiB. The default for every policy that a sketch can
    /// keep.
    ///
    /// A key gets no more there than its quota, and less when others crowd both of its two cells; nothing of
    /// it can be given back. If the key gets a cell of its own later, it takes along what it owes. Between
    /// threads GCRA asks of a key *without* a cell what a sketch asks: that its requests that are being decided
    /// at the same moment ask for no more than a burst in all, or have times no further apart than a burst
    /// takes to come back.
    ///
    /// For what a flood leaves to newcomers: about `0.11 * burst` times the capacity in keys that come once, all
    /// at one moment, are taken beyond the one and a half times that the cells hold. With a burst of 100 none
    /// of them is refused at nine times the capacity; with a burst of 20 next to none at three times and all
    /// at six times, until what was admitted has drained.
    /// Who fears such floods builds the table larger: a key's cell takes 8 bytes, whatever its quota, and as long as
    /// there are cells nobody is refused wrongly.
    Spill,
    /// It is denied, until a cell is free ([`Denial::is_table_full`](crate::Denial::is_table_full)). The
    /// default for windows that open with the first request (`from-first`), whose bound a sketch cannot
    /// keep.
    Deny,
}

impl<K: ?Sized, S> KeyedLimiter<K, S> {
    /// Says what the table does when it has no cell for a new key. For a limiter that has just been built:
    /// what a spill holds is gone with it.
    ///
    /// # Errors
    /// A spill for a policy that a sketch cannot keep, or for several quotas or one that may change
    /// ([`Tiers`](crate::Tiers)); memory that cannot be allocated.
    ///
    /// ```
    /// use tollgate::{BuildError, Full, KeyedLimiter, Policy, Quota};
    /// let limiter = KeyedLimiter::<str>::new(Quota::per_hour(5), 100_000)?.when_full(Full::Deny)?;
    /// assert_eq!(limiter.stats().spill_bytes, 0);
    /// let policy: Policy = "fixed-window 5/h from-first".parse()?;
    /// let refused = KeyedLimiter::<str>::new(policy, 100_000)?.when_full(Full::Spill);
    /// assert!(matches!(refused, Err(BuildError::CannotSpill { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn when_full(mut self, full: Full) -> Result<Self, BuildError> {
        self.table.spill = match (full, self.table.spill.take()) {
            (Full::Deny, _) => None,
            (Full::Spill, Some(spill)) => Some(spill),
            // The words of a sketch do not say which quota they are counted in.
            (Full::Spill, None) if self.table.book.is_some() => return Err(BuildError::TierSpill),
            (Full::Spill, None) => {
                let spill = Spill::new(self.policy, &self.table.layout, self.table.shards())?;
                Some(spill.ok_or(BuildError::CannotSpill { policy: self.policy })?)
            }
        };
        Ok(self)
    }
}
