//! [`DecisionMaker::pace`]: decides by a rate and a burst that come with a request, without a rule.
//!
//! A table holds one count for each key, in units, and the core decides under the quota that comes with the request
//! ([`Entry::under`](tollgate::Entry::under)). So requests of one key may come with different quotas, if the quotas fit
//! the table.

use std::time::Duration;

use tollgate::{BuildError, ChangeError, Clock, Decision, Denial, Entry, KeyedLimiter};

use super::DecisionMaker;
use crate::counts::full::{FullReport, NoCell};
use crate::counts::rarely::Rarely;
use crate::decide::request::RequestError;
use crate::language::on_full::OnFull;
use crate::language::pace::{Pace, PaceTable};

/// The minimum time between two searches of a table for quotas that no key needs any more, so that their places can be
/// freed.
const PAUSE: Duration = Duration::from_secs(1);

/// The answer to a request that came with a [`Pace`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacedAnswer {
    /// Whether the request may go. It is charged if its pace admits it. In global shadow mode a request may also go if
    /// its pace denies it; it is then not charged.
    pub is_allowed: bool,
    /// The units that are left after the request.
    pub remaining: u64,
    /// The time until all charges have come back.
    pub reset_after: Duration,
    /// For a denial, the time after which the request would be admitted; `None` if its cost is above the burst.
    pub retry_after: Option<Duration>,
    /// Set if the pace denies the request because its key has no cell: the table of the pace is full.
    pub no_cell: Option<NoCell>,
    /// A report that the table is full, if a report is due. There is at most one a minute.
    pub report: Option<FullReport>,
}

/// The counts of all keys under their paces.
#[derive(Debug)]
pub(super) struct PaceCounts {
    /// The tables in the order of [`PaceTable::ALL`]; empty if such limits are switched off.
    tables: Vec<PaceCount>,
}

/// The keys that are counted in one of the tables.
#[derive(Debug)]
struct PaceCount {
    keys: KeyedLimiter<[u8]>,
    /// Decides which thread may remove the quotas that no key needs any more.
    forgets: Rarely,
}

impl PaceCounts {
    pub(super) fn new(capacity: usize, clock: &Clock) -> Result<Self, BuildError> {
        let tables = if capacity == 0 { &[][..] } else { &PaceTable::ALL };
        let counts = tables.iter().map(|table| PaceCount::new(*table, capacity, clock));
        Ok(Self { tables: counts.collect::<Result<_, _>>()? })
    }
}

impl PaceCount {
    fn new(table: PaceTable, capacity: usize, clock: &Clock) -> Result<Self, BuildError> {
        // The builder needs a quota, but no request is decided under it, because every request brings its own.
        let keys = KeyedLimiter::builder(table.slowest())
            .own_quotas(PaceTable::QUOTAS, &[table.hardest()])
            .clock(clock.clone())
            .build(capacity)?;
        Ok(Self { keys, forgets: Rarely::default() })
    }

    /// The entry of a key under a pace of this table. If the table has no place for the pace, it frees the places of
    /// paces that only idle keys have used, unless this was tried less than a second ago.
    fn entry(&self, key: &[u8], pace: Pace) -> Result<Entry<'_>, ChangeError> {
        let entry = self.keys.entry(key);
        entry.under(pace.quota()).or_else(|error| {
            // Every pace of this table fits in the table's words. So only a lack of places can be the reason.
            let is_full = matches!(error, ChangeError::TooManyQuotas { .. });
            if !is_full || !self.forgets.is_due(self.keys.now(), PAUSE) {
                return Err(error);
            }
            self.keys.forget_quotas();
            entry.under(pace.quota())
        })
    }
}

impl DecisionMaker {
    /// Decides a request of `cost` units by a limit that comes with it, by GCRA, and charges it if it is admitted. A
    /// cost of 0 only asks, and is not charged.
    ///
    /// The key alone decides: no rule is asked, and rules need not be loaded. Each of the six tables (see [`Pace`]) has
    /// cells for [`override_capacity`](crate::RuleSettings::override_capacity) keys at a time. A new key may take the
    /// cell of an idle one. A request whose key finds no cell is denied. In
    /// [`global_shadow_mode`](crate::RuleSettings::global_shadow_mode) nothing is denied, but a request is still
    /// refused with an error if there is no place for its pace.
    ///
    /// Each table has places for 512 different paces at a time, and sometimes for a few more. A pace keeps its place as
    /// long as a key is counted under it. If there is no place for a new pace, the places of paces that only idle keys
    /// used are freed. This reads the whole table, so it is done at most once a second.
    ///
    /// # Errors
    /// Limits that come with requests are switched off; the key is longer than
    /// [`max_key_bytes`](crate::RuleSettings::max_key_bytes); there is no place for another pace. Nothing was charged.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{DecisionMaker, Pace, RuleCache, RuleSettings};
    /// let cache = RuleCache::with_clock(RuleSettings::default(), ManualClock::new());
    /// let maker = DecisionMaker::new(Arc::new(cache))?;
    /// let pace = Pace::new(2, 30, Duration::from_secs(60))?;
    /// let answers = [(); 3].map(|()| maker.pace(b"alice", pace, 1).map(|answer| answer.is_allowed));
    /// assert_eq!(answers, [Ok(true), Ok(true), Ok(false)]);
    /// assert_eq!(maker.pace(b"alice", pace, 1)?.retry_after, Some(Duration::from_secs(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pace(&self, key: &[u8], pace: Pace, cost: u64) -> Result<PacedAnswer, RequestError> {
        // There are no tables if such limits are switched off.
        let count = self.paces.tables.get(pace.table()).ok_or(RequestError::OverridesOff)?;
        let (found, most) = (key.len(), self.cache.settings().max_key_bytes);
        if found > most {
            return Err(RequestError::TooManyBytes { found, most });
        }
        let Ok(entry) = count.entry(key, pace) else {
            let report = self.cache.no_place.count(self.cache.clock().now());
            return Err(RequestError::TooManyPaces { most: PaceTable::QUOTAS, report });
        };
        Ok(self.paced(&entry.check_n(cost), cost))
    }

    fn paced(&self, decision: &Decision, cost: u64) -> PacedAnswer {
        let is_over = !decision.is_allowed();
        let is_shadowed = is_over && self.cache.settings().global_shadow_mode;
        if is_shadowed {
            self.cache.count_global_shadow();
        }
        let no_cell = NoCell::of(decision, OnFull::Deny);
        // A request of cost 0 is not counted as denied, so it must not use up the one report of a minute.
        let report = no_cell
            .filter(|_| cost > 0)
            .and_then(|how| self.cache.count_own_limit_full(how, cost, self.cache.clock().now()));
        let retry_after = decision.denial().and_then(Denial::retry_after);
        PacedAnswer {
            is_allowed: !is_over || is_shadowed,
            remaining: decision.remaining(),
            reset_after: decision.reset_after(),
            retry_after: retry_after.filter(|_| !is_shadowed),
            no_cell,
            report,
        }
    }
}
