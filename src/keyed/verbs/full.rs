//! [`WhenFull`]: what a table does when it has no cell for a new key.

use crate::error::BuildError;
use crate::policy::Policy;

use crate::keyed::KeyedLimiter;
use crate::keyed::overflow::store::{Spill, can_spill};
use crate::keyed::table::{Cells, Table};

/// Chooses what a [`KeyedLimiter`] does with a new key when all cells that the key may use belong to keys that are not
/// idle. Keys that have a cell keep it, whatever is chosen.
///
/// ```
/// use tollgate::{WhenFull, KeyedLimiter, ManualClock, Quota};
/// let table = || KeyedLimiter::<u64>::builder(Quota::per_hour(5)).clock(ManualClock::new());
/// let admitted = |limiter: &KeyedLimiter<u64>| {
///     (0..100).filter(|key| limiter.check(key).is_allowed()).count()
/// };
/// // There are cells for a few keys. The others find what the spill has left.
/// let spilling = table().build(1)?;
/// assert_eq!(admitted(&spilling), 100);
/// assert!(spilling.stats().spilled > 50);
/// // Or nothing at all.
/// let denying = table().when_full(WhenFull::Deny).build(1)?;
/// assert!(admitted(&denying) < 50);
/// assert!(denying.stats().full > 50);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// The key is decided in the *spill*: a sketch (as in a [`SketchLimiter`](crate::SketchLimiter)) of two rows with
    /// an eighth of the memory of the cells, or about 1 KiB in a small table. This is the default for every policy
    /// whose bound a sketch can keep.
    ///
    /// A key gets no more there than its quota, and less when other keys have charged both of its two cells. Its
    /// charges cannot be given back. If the key gets a cell of its own later, its debt moves into the cell. If several
    /// threads decide requests of a key *without* a cell at the same moment, GCRA keeps the key's bound if one of two
    /// conditions holds, as in a sketch: these requests ask for no more than a burst in all, or their times are no
    /// further apart than the time in which a burst comes back.
    ///
    /// Suppose that a flood of keys comes at one moment, each key once. The cells have room for 1.4 times as many keys
    /// as the capacity, and the spill for about `0.1 * burst` times as many in addition. In tests, after nine times the
    /// capacity had come, no further key was refused under a burst of 100. Under a burst of 20, 1 key in 50 was refused
    /// after three times the capacity, and every key after six times, until the admitted units had drained.
    /// (`docs/production.md` has the table of these figures.) If there are several [tiers](crate::KeyedBuilder::tier),
    /// each has an equal part of the spill.
    ///
    /// If you expect such floods, build the table larger: a key's cell takes 8 bytes, whatever its quota, and no key is
    /// refused wrongly as long as there are cells.
    Spill,
    /// The key is denied until a cell is free ([`DenialReason::TableFull`](crate::DenialReason::TableFull)). This is
    /// the default for policies whose bound a sketch cannot keep: windows that open with the first request
    /// (`from-first`), sliding logs, and policies with `soft`, `count-denied` or `penalty`. A table with
    /// [`own_quotas`](crate::KeyedBuilder::own_quotas) always denies.
    Deny,
}

impl<K: ?Sized, S> KeyedLimiter<K, S> {
    /// Sets what the table does from now on when it has no cell for a new key. Use it for a limiter that has just been
    /// [restored](crate::KeyedBuilder::restore), which otherwise does as its file says. For a new limiter use
    /// [`KeyedBuilder::when_full`](crate::KeyedBuilder::when_full). If this removes the spill, the charges in it are
    /// lost.
    ///
    /// # Errors
    /// Fails if `full` asks for a spill and a sketch cannot keep the bound of the policy, or of one of the
    /// [tiers](crate::KeyedBuilder::tier), or if the memory cannot be allocated.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota, WhenFull};
    /// let builder = || KeyedLimiter::<str>::builder(Quota::per_hour(5));
    /// let mut file = Vec::new();
    /// builder().when_full(WhenFull::Deny).build(1_000)?.snapshot(&mut file)?;
    /// let limiter = builder().restore(&file[..])?;
    /// assert_eq!(limiter.stats().spill_bytes, 0);
    /// assert!(limiter.when_full(WhenFull::Spill)?.stats().spill_bytes > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn when_full(mut self, full: WhenFull) -> Result<Self, BuildError> {
        self.table.set_when_full(full, self.policy)?;
        Ok(self)
    }
}

impl Table {
    /// Gives the table a spill or takes it away, as `full` says. The caller has the table for itself, so no other
    /// thread uses a spill that is taken away.
    pub(in crate::keyed) fn set_when_full(
        &mut self,
        full: WhenFull,
        policy: Policy,
    ) -> Result<(), BuildError> {
        match full {
            WhenFull::Deny => {
                drop(self.spill_mut().and_then(Option::take));
                Ok(())
            }
            WhenFull::Spill => match unspillable(self, policy) {
                Some(policy) => Err(BuildError::cannot_spill(policy)),
                None => self.add_spill(policy),
            },
        }
    }

    /// Gives the table a spill, unless it has one. `policy` is used if the table has no book. If no sketch can keep the
    /// bound, the table gets no spill, and denies new keys without a cell.
    pub(in crate::keyed) fn add_spill(&mut self, policy: Policy) -> Result<(), BuildError> {
        // An existing spill is kept, with its charges.
        if self.spill().is_some() {
            return Ok(());
        }
        let spill = match &self.cells {
            Cells::Plain(_, quota) | Cells::LaidOut(_, quota) => {
                Spill::new(policy, &quota.layout, self.shards())?
            }
            Cells::Several { book, .. } => Spill::of_book(book, self.shards())?,
            Cells::Logs(_) => None,
        };
        if let Some(place) = self.spill_mut() {
            *place = spill;
        }
        Ok(())
    }
}

/// Returns a policy of this table whose bound a spill cannot keep, or for which the spill's words have no room, if
/// there is one.
fn unspillable(table: &Table, policy: Policy) -> Option<Policy> {
    let Some(book) = table.book() else {
        return Some(policy).filter(|policy| !can_spill(policy));
    };
    // A spill does not know the quotas that callers bring along.
    if book.takes_own() {
        return Some(policy);
    }
    // One tier that cannot spill is enough for a refusal, since the spill was asked for all tiers.
    let is_refused = |tier: &usize| book.lens_of(*tier).is_none_or(|lens| !lens.is_shared());
    (0..book.tiers()).find(is_refused).map(|tier| book.policy(tier).unwrap_or(policy))
}
