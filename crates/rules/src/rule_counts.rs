//! The decisions of rules, in numbers.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::counter::RuleTotal;
use crate::full::{NoCell, NoCellTally};
use crate::worst::WorstClients;

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
    /// The hits within the limit that lie above the near-limit share.
    pub near_limit: u64,
    /// The hits within the limit that the pool of the domain lent. Hits that it would have lent count as well: those
    /// under a rule in shadow mode, and those that another rule denied.
    pub borrowed: u64,
    /// The hits over the limit that passed because the rule is in shadow mode.
    pub shadow: u64,
    /// The hits over the limit that lay beyond it. The other hits of the denied request would have fitted by
    /// themselves. Envoyproxy/ratelimit counts only the hits beyond the limit as over it.
    pub beyond_limit: u64,
    /// The hits over the limit that would have fitted by themselves, above the near-limit share.
    pub near_denied: u64,
    /// The hits that passed in shadow mode, and lay beyond the limit.
    pub shadow_beyond: u64,
    /// The hits over the limit that were denied without asking the store, since the store had said before when to ask
    /// again.
    pub remembered: u64,
    /// The hits of clients without a cell, which were decided by the spill of a full table.
    pub spilled: u64,
    /// The hits over the limit of clients that were denied because they had no cell.
    pub full_denied: u64,
    /// The hits within the limit of clients that were admitted because they had no cell
    /// ([`OnFull::Allow`](crate::OnFull::Allow)).
    pub full_allowed: u64,
    /// Hits that requests asked to give back. They are not among the hits above.
    pub negative: u64,
    /// The part of `negative` that was given back. The others had not been charged, or were charged no longer.
    pub given_back: u64,
    /// Units of charges that need not fit, and that a limit had no room to remember.
    pub uncharged: u64,
    /// The units of costs above 1 that were denied and charged nowhere. If such units were used already, as the tokens
    /// of a language model are, the limit has not counted them: see [Usage](crate#usage).
    pub denied_costs: u64,
}

impl RuleCounts {
    /// Hits within and over the limit together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.within_limit.saturating_add(self.over_limit)
    }
}

/// Counters of a rule. No decision reads one.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: HitCounters,
    negative: RuleTotal,
    given_back: RuleTotal,
    uncharged: RuleTotal,
    /// Whether anything was left uncharged.
    forgets: AtomicBool,
    denied_costs: RuleTotal,
    /// Whether Envoy has sent a cost that was denied and charged nowhere.
    denies_costs: AtomicBool,
    pub(crate) no_cell: NoCellTally,
    pub(crate) worst: WorstClients,
}

impl Counters {
    pub(crate) fn given_back(&self, asked: u64, given: u64) {
        self.negative.add(asked);
        self.given_back.add(given);
    }

    /// Counts units that are not remembered, and says whether they are the first.
    pub(crate) fn uncharged(&self, units: u64) -> bool {
        self.uncharged.add(units);
        // Relaxed: nothing else is published with the flag, and the swap lets exactly one of several concurrent calls
        // be the first.
        !self.forgets.load(Ordering::Relaxed) && !self.forgets.swap(true, Ordering::Relaxed)
    }

    /// Counts the units of a cost that was denied and is charged nowhere, and says whether they are the first that Envoy
    /// asked for.
    pub(crate) fn denied_cost(&self, units: u64, is_of_envoy: bool) -> bool {
        self.denied_costs.add(units);
        // Relaxed: as in `uncharged`.
        is_of_envoy
            && !self.denies_costs.load(Ordering::Relaxed)
            && !self.denies_costs.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn read(&self) -> RuleCounts {
        RuleCounts {
            spilled: self.no_cell.read(NoCell::Spilled),
            full_denied: self.no_cell.read(NoCell::Denied),
            full_allowed: self.no_cell.read(NoCell::Allowed),
            negative: self.negative.get(),
            given_back: self.given_back.get(),
            uncharged: self.uncharged.get(),
            denied_costs: self.denied_costs.get(),
            ..self.hits.read()
        }
    }
}

/// The decisions about the hits of a rule, or of one of its series. No two counters count the same hit unless one is
/// part of the other, so a sum of them never falls.
#[derive(Debug, Default)]
pub(crate) struct HitCounters {
    within: RuleTotal,
    /// The part of `within` that lies above the near-limit share.
    near: RuleTotal,
    /// The part of `within` that was lent by the pool.
    borrowed: RuleTotal,
    denied: DeniedCounters,
    /// Hits that would have been denied if the rule were not in shadow mode; they are not in `denied`.
    shadow: DeniedCounters,
}

/// Hits of requests that did not fit.
#[derive(Debug, Default)]
struct DeniedCounters {
    /// Hits that lay beyond the limit.
    beyond: RuleTotal,
    /// Hits that would have fitted by themselves, below the near-limit share.
    below: RuleTotal,
    /// Hits that would have fitted by themselves, above it.
    near: RuleTotal,
    /// The part of `beyond` that was denied by an earlier answer of the store.
    remembered: RuleTotal,
}

/// The hits of one request, split by the limit and the near-limit share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HitSplit {
    /// All hits, if the request was admitted, and otherwise none.
    pub(crate) within: u64,
    /// Above the near-limit share, and not beyond the limit.
    pub(crate) near: u64,
    /// Beyond the limit.
    pub(crate) beyond: u64,
}

impl HitCounters {
    /// Counts an admitted request.
    pub(crate) fn admitted(&self, split: HitSplit, is_borrowed: bool) {
        add(&self.within, split.within);
        add(&self.near, split.near);
        add(&self.borrowed, if is_borrowed { split.within } else { 0 });
    }

    /// Counts a request with this many hits that did not fit.
    pub(crate) fn over(&self, hits: u64, split: HitSplit, is_shadow: bool, is_remembered: bool) {
        let denied = if is_shadow { &self.shadow } else { &self.denied };
        add(&denied.beyond, split.beyond);
        add(&denied.near, split.near);
        add(&denied.below, hits.saturating_sub(split.beyond).saturating_sub(split.near));
        add(&denied.remembered, if is_remembered { split.beyond } else { 0 });
    }

    pub(crate) fn read(&self) -> RuleCounts {
        let both = |read: fn(&DeniedCounters) -> u64| {
            [read(&self.denied), read(&self.shadow)].into_iter().fold(0, u64::saturating_add)
        };
        RuleCounts {
            within_limit: self.within.get(),
            over_limit: both(DeniedCounters::hits),
            near_limit: self.near.get(),
            borrowed: self.borrowed.get(),
            shadow: self.shadow.hits(),
            beyond_limit: both(|denied| denied.beyond.get()),
            near_denied: both(|denied| denied.near.get()),
            shadow_beyond: self.shadow.beyond.get(),
            remembered: both(|denied| denied.remembered.get()),
            ..RuleCounts::default()
        }
    }
}

impl DeniedCounters {
    fn hits(&self) -> u64 {
        let all = [&self.beyond, &self.below, &self.near];
        all.into_iter().map(RuleTotal::get).fold(0, u64::saturating_add)
    }
}

/// Adds hits, and writes nothing if there are none: most requests have nothing for most counters.
fn add(counter: &RuleTotal, hits: u64) {
    if hits > 0 {
        counter.add(hits);
    }
}
