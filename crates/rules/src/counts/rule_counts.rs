//! [`RuleCounts`]: the numbers of a rule's decisions.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::counts::counter::RuleTotal;
use crate::counts::full::{NoCell, NoCellTally};
use crate::counts::worst::WorstClients;

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
    /// The hits within the limit that lie above the [near-limit share](crate::RuleSettings::near_limit_ratio).
    pub near_limit: u64,
    /// The hits within the limit that the pool of the domain lent. They include hits that the pool would have lent:
    /// those under a rule in shadow mode, and those of requests that another rule denied.
    pub borrowed: u64,
    /// The hits over the limit that passed because the rule is in shadow mode.
    pub shadow: u64,
    /// The part of `over_limit` that was beyond what was left of the limit: if a request for 5 is denied because 3 are
    /// left, 2 of its hits are counted here. Envoyproxy/ratelimit counts only these hits as over the limit.
    pub beyond_limit: u64,
    /// The part of `over_limit` that is not in `beyond_limit`, but above the near-limit share.
    pub near_denied: u64,
    /// The part of `beyond_limit` that passed because the rule is in shadow mode.
    pub shadow_beyond: u64,
    /// The hits over the limit that were denied without asking the store, because an earlier answer of the store said
    /// when to ask again.
    pub remembered: u64,
    /// The hits of clients without a cell that were decided by the spill of a full table.
    pub spilled: u64,
    /// The hits over the limit of clients that were denied because they had no cell.
    pub full_denied: u64,
    /// The hits within the limit of clients that had no cell and were admitted for that reason
    /// ([`OnFull::Allow`](crate::OnFull::Allow)).
    pub full_allowed: u64,
    /// Hits that requests asked to give back. They are in none of the counts above.
    pub negative: u64,
    /// The part of `negative` that was given back. The other hits had not been charged, or were not charged any more.
    pub given_back: u64,
    /// Some charges are made whether they fit or not. These are the units of such charges that a limit could not
    /// remember.
    pub uncharged: u64,
    /// The units of costs above 1 that were denied and charged nowhere. If such units were used already, as the tokens
    /// of a language model are, the limit has not counted them: see [Usage](crate#usage).
    pub denied_costs: u64,
}

impl RuleCounts {
    /// The sum of the hits within the limit and over it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.within_limit.saturating_add(self.over_limit)
    }
}

/// The counters of a rule. No decision depends on them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: HitCounters,
    negative: RuleTotal,
    given_back: RuleTotal,
    uncharged: RuleTotal,
    /// Whether a limit of the rule has ever failed to remember units of a charge.
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

    /// Counts units that a limit could not remember, and returns whether they are the first such units of the rule.
    pub(crate) fn uncharged(&self, units: u64) -> bool {
        self.uncharged.add(units);
        // Relaxed: the flag publishes no other memory, and the swap lets exactly one of several concurrent calls be the
        // first.
        !self.forgets.load(Ordering::Relaxed) && !self.forgets.swap(true, Ordering::Relaxed)
    }

    /// Counts the units of a cost that was denied and charged nowhere, and returns whether this is the first such cost
    /// of the rule that came from Envoy.
    pub(crate) fn denied_cost(&self, units: u64, is_of_envoy: bool) -> bool {
        self.denied_costs.add(units);
        // Relaxed, for the same reasons as in `uncharged`.
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

/// The decisions about the hits of a rule, or of one of its series. Two counters count the same hit only if one of them
/// is documented as a part of the other. So every reported figure is a counter or a sum of counters, and never falls.
#[derive(Debug, Default)]
pub(crate) struct HitCounters {
    within: RuleTotal,
    /// The part of `within` that lies above the near-limit share.
    near: RuleTotal,
    /// The part of `within` that was lent by the pool.
    borrowed: RuleTotal,
    denied: DeniedCounters,
    /// Hits that would have been denied if the rule were not in shadow mode. They are not in `denied`.
    shadow: DeniedCounters,
}

/// The hits of requests that did not fit.
#[derive(Debug, Default)]
struct DeniedCounters {
    /// Hits beyond what was left of the limit. The other hits of the request would have fitted by themselves.
    beyond: RuleTotal,
    /// The other hits, as far as they are below the near-limit share.
    below: RuleTotal,
    /// The other hits, as far as they are above the near-limit share.
    near: RuleTotal,
    /// The part of `beyond` that was denied by an earlier answer of the store.
    remembered: RuleTotal,
}

/// The hits of one request, split by the limit and the near-limit share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HitSplit {
    /// All hits of the request if it was admitted, 0 if it was denied.
    pub(crate) within: u64,
    /// The hits that lie above the near-limit share, but not beyond the limit.
    pub(crate) near: u64,
    /// The hits beyond the limit.
    pub(crate) beyond: u64,
}

impl HitCounters {
    /// Counts an admitted request.
    pub(crate) fn admitted(&self, split: HitSplit, is_borrowed: bool) {
        add(&self.within, split.within);
        add(&self.near, split.near);
        add(&self.borrowed, if is_borrowed { split.within } else { 0 });
    }

    /// Counts a request of this many hits that was over the limit.
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

/// Adds hits. It writes nothing if there are none, because most requests add nothing to most counters.
fn add(counter: &RuleTotal, hits: u64) {
    if hits > 0 {
        counter.add(hits);
    }
}
