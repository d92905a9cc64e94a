//! What rules have decided, in numbers.

use crate::counter::RuleTotal;
use crate::full::{NoCell, NoCellTally};

/// The decisions of a rule, counted in hits: the units that requests asked for.
///
/// ```
/// let counts = tollgate_rules::RuleCounts::default();
/// assert_eq!(counts.total(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleCounts {
    /// Hits within the limit. (If another rule denied the request, they were not charged.)
    pub within_limit: u64,
    /// Hits over the limit.
    pub over_limit: u64,
    /// Of the hits within the limit: those above the near-limit share.
    pub near_limit: u64,
    /// Of the hits within the limit: those that the pool of the domain lent; and those that it would have lent, had the
    /// rule not been in shadow mode, or another rule not denied the request.
    pub borrowed: u64,
    /// Of the hits over the limit: those that passed because the rule is in shadow mode.
    pub shadow: u64,
    /// Of all hits: those of clients without a cell that were decided by the spill of a full table.
    pub spilled: u64,
    /// Of the hits over the limit: those of clients that were denied because they had no cell.
    pub full_denied: u64,
    /// Of the hits within the limit: those of clients that were admitted because they had no cell
    /// ([`OnFull::Allow`](crate::OnFull::Allow)).
    pub full_allowed: u64,
}

impl RuleCounts {
    /// Hits within and over the limit together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.within_limit.saturating_add(self.over_limit)
    }
}

/// Counters of a rule. No decision reads them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    within_limit: RuleTotal,
    over_limit: RuleTotal,
    near_limit: RuleTotal,
    borrowed: RuleTotal,
    shadow: RuleTotal,
    pub(crate) no_cell: NoCellTally,
}

impl Counters {
    pub(crate) fn admitted(&self, hits: u64, near: u64) {
        self.within_limit.add(hits);
        if near > 0 {
            self.near_limit.add(near);
        }
    }

    pub(crate) fn borrowed(&self, hits: u64) {
        if hits > 0 {
            self.borrowed.add(hits);
        }
    }

    pub(crate) fn over(&self, hits: u64, is_shadow: bool) {
        self.over_limit.add(hits);
        if is_shadow {
            self.shadow.add(hits);
        }
    }

    pub(crate) fn read(&self) -> RuleCounts {
        RuleCounts {
            within_limit: self.within_limit.get(),
            over_limit: self.over_limit.get(),
            near_limit: self.near_limit.get(),
            borrowed: self.borrowed.get(),
            shadow: self.shadow.get(),
            spilled: self.no_cell.read(NoCell::Spilled),
            full_denied: self.no_cell.read(NoCell::Denied),
            full_allowed: self.no_cell.read(NoCell::Allowed),
        }
    }
}
