//! [`LocalShare`]: the share of a limit that one node may admit while it is without the store.
//!
//! The share is the limit divided by the number of nodes, and is always a `gcra` limit: `count` units in
//! `nodes * period`, and a burst of `burst / nodes`, rounded down but at least 1. The clock of the share is the time
//! spent without the store, the *isolation time*. So the share is one budget for all outages together. Over all of
//! them, a node admits for each key at most
//!
//! ```text
//! max(1, floor(burst / nodes)) + rate / nodes * (time in isolation)
//! ```
//!
//! Losing the store more often adds nothing to this.
//!
//! If requests bring their own limits, all limits with the same period share a table. The table counts *parts*, of
//! which [`PARTS`] come back in a period. One unit of a limit costs as many parts as come back in the time in which the
//! share of that limit regains one unit. So a part stands for the same length of time under every limit, and a key has
//! one budget for all limits. A cost that is not a whole number of parts is rounded up, so never too much is admitted.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Claim, Decision, Denial, Entry, KeyedLimiter, ManualClock, Permit, Policy, Quota, Timestamp,
};

use crate::error::RedisBuildError;
use crate::script::Units;
use crate::script::plan::ScriptPlan;
use crate::told::Told;

/// The wait that is reported if a cost can fit only after the store is back. Nobody knows when that will be, so this is
/// the longest wait between two attempts to reach the store.
pub(crate) const RETRY: Duration = crate::store::backoff::LONGEST;

/// The number of parts that come back in a period. No share has more units than this, so the share of a very large
/// limit is smaller than the limit divided by the number of nodes.
pub(crate) const PARTS: u64 = 100_000_000;

#[derive(Debug)]
pub(crate) struct LocalShare {
    limiter: Arc<KeyedLimiter<[u8]>>,
    /// The parts that a unit costs; 1 in a table that counts units.
    each: u64,
    /// The limit of all nodes together, not of this share.
    limit: u64,
    /// The units by which a soft policy raises the limit. The share itself is not raised.
    beyond: u64,
    soft_bp: u16,
}

/// Computes the policy of one node's share.
pub(crate) fn policy(whole: Policy, nodes: u64) -> Result<Policy, RedisBuildError> {
    let quota = whole.quota();
    let refused = |reason: String| RedisBuildError::Share { policy: whole.into(), nodes, reason };
    let period_ns = quota.period().as_nanos() * u128::from(nodes);
    let period_ns = u64::try_from(period_ns)
        .map_err(|_| refused("its period is longer than 584 years".to_string()))?;
    let burst = (quota.max_burst() / nodes).max(1);
    let quota = Quota::try_per(quota.count(), Duration::from_nanos(period_ns))
        .and_then(|quota| quota.try_burst(burst));
    Ok(quota.map_err(|error| refused(error.to_string()))?.into())
}

impl LocalShare {
    pub(crate) fn new(plan: &ScriptPlan, nodes: u64, keys: usize) -> Result<Self, RedisBuildError> {
        let whole = plan.policy();
        let limiter =
            KeyedLimiter::builder(policy(whole, nodes)?).clock(ManualClock::new()).build(keys);
        let limiter = limiter.map_err(|error| RedisBuildError::Share {
            policy: whole.into(),
            nodes,
            reason: error.to_string(),
        })?;
        let (limit, beyond, soft_bp) = (plan.limit, plan.beyond(), plan.soft_bp);
        Ok(Self { limiter: limiter.into(), each: 1, limit, beyond, soft_bp })
    }

    /// Makes a table of parts for all limits of this period. It starts with the limit of the plan.
    pub(crate) fn of_parts(
        plan: &ScriptPlan,
        nodes: u64,
        keys: usize,
    ) -> Result<Self, RedisBuildError> {
        let period = plan.policy().quota().period();
        let parts = Quota::try_per(PARTS, period).and_then(|quota| quota.try_burst(PARTS));
        let refused =
            |reason: String| RedisBuildError::Share { policy: plan.policy().into(), nodes, reason };
        let parts = Policy::from(parts.map_err(|error| refused(error.to_string()))?);
        let limiter = KeyedLimiter::builder(parts).clock(ManualClock::new()).build(keys);
        let limiter = limiter.map_err(|error| refused(error.to_string()))?.into();
        let any = Self { limiter, each: 1, limit: 0, beyond: 0, soft_bp: 0 };
        Ok(any.under(plan, nodes))
    }

    /// The same table for another limit with the same period. A unit costs at most [`PARTS`] parts, so each share is at
    /// least one unit.
    pub(crate) fn under(&self, plan: &ScriptPlan, nodes: u64) -> Self {
        let each = PARTS.saturating_mul(nodes).div_ceil(plan.limit.max(1)).min(PARTS);
        Self { limiter: Arc::clone(&self.limiter), each, limit: plan.limit, ..*self }
    }

    /// Converts units of the limit to the units of the table.
    pub(crate) fn counted(&self, units: u64) -> u64 {
        units.saturating_mul(self.each)
    }

    /// The claim of a request on a key.
    pub(crate) fn claim<'a>(&'a self, key: &[u8], cost: u64, isolated: Timestamp) -> Claim<'a> {
        self.entry(key, isolated).cost(self.counted(cost))
    }

    /// The entry of a key in the table of shares. `isolated` is the time spent without the store.
    pub(crate) fn entry(&self, key: &[u8], isolated: Timestamp) -> Entry<'_> {
        self.limiter.entry(key).at(isolated)
    }

    /// Decides within the share. Takes all wanted units, or as many whole units as fit if the request accepts fewer.
    pub(crate) fn take(&self, key: &[u8], units: Units, isolated: Timestamp) -> Told {
        let (entry, Units { want, least, .. }) = (self.entry(key, isolated), units);
        let least_charged = least.max(1);
        let mut fitting = want;
        loop {
            let decision = entry.check_n(self.counted(fitting));
            if decision.is_allowed() || fitting <= least_charged {
                return self.told(&decision, least);
            }
            // Lock-free: if these units do not fit either, another request has been charged in between.
            fitting = (decision.remaining() / self.each).clamp(least_charged, fitting - 1);
        }
    }

    pub(crate) fn peek(&self, key: &[u8], cost: u64, isolated: Timestamp) -> Told {
        self.told(&self.entry(key, isolated).peek(self.counted(cost)), cost)
    }

    /// Makes the answer for the whole limit from a decision in the share. For a cost that never fits in the share it
    /// reports a wait, since the cost may fit when the store is back.
    pub(crate) fn told(&self, decision: &Decision, cost: u64) -> Told {
        let charged = |permit: &Permit| permit.cost() / self.each;
        let retry_after = |denial: &Denial| denial.retry_after().unwrap_or(RETRY);
        let (remaining, reset_after) = (decision.remaining(), decision.reset_after());
        // The answer reports the units left in the share. It never marks the limit as exceeded, since it is not known
        // how many units of the limit are used.
        let remaining = (remaining / self.each).saturating_add(self.beyond);
        let (allowed, cost, retry_after) = match decision {
            Decision::Allowed(permit) => (true, charged(permit), Duration::ZERO),
            Decision::Denied(denial) => (false, cost, retry_after(denial)),
        };
        Told {
            allowed,
            cost,
            limit: self.limit,
            soft_bp: self.soft_bp,
            remaining,
            retry_after,
            reset_after,
            penalty: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::DenialReason;

    use super::*;

    fn share(text: &str, nodes: u64) -> LocalShare {
        let plan = ScriptPlan::new(text.parse().unwrap()).unwrap();
        LocalShare::new(&plan, nodes, 100).unwrap()
    }

    #[test]
    fn a_share_is_the_limit_by_the_nodes_and_at_least_one_unit() {
        let text = |whole: &str, nodes| policy(whole.parse().unwrap(), nodes).unwrap().to_string();
        assert_eq!(text("100/s burst 20", 4), "gcra 100/4s burst 5");
        for whole in ["sliding-window 100/m exact", "sliding-log 100/m"] {
            assert_eq!(text(whole, 3), "gcra 100/3m burst 33");
        }
        assert_eq!(text("2/s", 50), "gcra 2/50s burst 1");
        let error = policy("1/d".parse().unwrap(), u64::MAX).unwrap_err();
        assert!(error.to_string().ends_with("its period is longer than 584 years"), "{error}");
    }

    #[test]
    fn one_budget_for_all_outages() {
        let share = share("40/s", 4);
        let isolated = |ms| Timestamp::from_millis(ms);
        // The share admits ten units at once, then one for every 100 ms of isolation, however often isolation begins.
        let admitted =
            (0..20).filter(|_| share.take(b"key", Units::exactly(1), isolated(5)).allowed).count();
        assert_eq!(admitted, 10);
        assert!(!share.take(b"key", Units::exactly(1), isolated(104)).allowed);
        assert!(share.take(b"key", Units::exactly(1), isolated(105)).allowed);
    }

    #[test]
    fn a_share_of_a_soft_limit_is_one_of_the_limit_that_was_named() {
        let share = share("40/s soft 50%", 4);
        let told = Decision::from(share.take(b"key", Units::exactly(10), Timestamp::default()));
        assert_eq!((told.is_allowed(), told.limit(), told.remaining()), (true, 40, 0));
        assert!(!told.into_result().unwrap().is_over());
        assert!(!share.take(b"key", Units::exactly(1), Timestamp::default()).allowed);
        let never = |cost| {
            let told =
                Decision::from(share.take(b"key", Units::exactly(cost), Timestamp::default()));
            told.into_result().unwrap_err().reason() == DenialReason::NeverFits
        };
        assert_eq!([60, 61].map(never), [false, true]);
    }

    #[test]
    fn limits_that_come_with_requests_share_one_table_for_each_period() {
        for period in ["s", "m", "h", "d", "7d", "30d", "365d"] {
            let plan = |count: u32| {
                let policy = format!("fixed-window {count}/{period}").parse().unwrap();
                ScriptPlan::new(policy).unwrap()
            };
            let table = LocalShare::of_parts(&plan(1), 4, 100).unwrap();
            let take = |limit, cost, key: &[u8]| {
                let told = table.under(&plan(limit), 4).take(
                    key,
                    Units::exactly(cost),
                    Timestamp::default(),
                );
                (told.allowed, told.limit, told.remaining)
            };
            // The share of a limit of 40 is 10 units, and one is charged. The other 9 are only 4.5 units under a limit
            // of 20, rounded down to 4.
            assert_eq!(take(40, 1, b"a"), (true, 40, 9), "{period}");
            assert_eq!(take(20, 5, b"a"), (false, 20, 4));
            assert_eq!(take(20, 4, b"a"), (true, 20, 0));
            // A share is at least one unit, and at most the number of parts.
            assert_eq!([take(3, 1, b"b"), take(3, 1, b"b")], [(true, 3, 0), (false, 3, 0)]);
            let most = if period == "s" { 2_248_262_313 } else { u32::MAX };
            assert_eq!(take(most, 1, b"c"), (true, most.into(), PARTS - 1));
            assert!(!take(most, PARTS, b"c").0);
        }
    }

    #[test]
    fn a_part_comes_back_while_it_is_isolated() {
        let plan = ScriptPlan::new("fixed-window 60/m".parse().unwrap()).unwrap();
        let share = LocalShare::of_parts(&plan, 3, 10).unwrap();
        let admitted = |at_s: u64| {
            let at = Timestamp::from_secs(at_s);
            (0..99).filter(|_| share.take(b"key", Units::exactly(1), at).allowed).count()
        };
        // The share admits twenty units at once, and then one for every three seconds.
        assert_eq!([admitted(0), admitted(2), admitted(3), admitted(60)], [20, 0, 1, 19]);
    }

    #[test]
    fn as_many_as_fit_are_whole_units_and_a_part_of_one_stays() {
        let plan = |limit: u64| {
            ScriptPlan::new(format!("fixed-window {limit}/s").parse().unwrap()).unwrap()
        };
        let share = LocalShare::of_parts(&plan(1), 4, 10).unwrap().under(&plan(40), 4);
        let take = |most, at_ms| {
            let told = share.take(b"key", Units::up_to(most), Timestamp::from_millis(at_ms));
            (told.allowed, told.cost)
        };
        // The share is ten units a second, so half a unit is back after 50 ms.
        assert_eq!([take(12, 0), take(2, 50), take(2, 99)], [(true, 10), (false, 1), (false, 1)]);
        assert_eq!([take(2, 100), take(2, 250), take(2, 300)], [(true, 1), (true, 1), (true, 1)]);
    }

    #[test]
    fn what_never_fits_in_a_share_may_fit_when_the_store_is_back() {
        let share = share("40/s", 4);
        let told = share.take(b"key", Units::exactly(11), Timestamp::default());
        assert_eq!((told.allowed, told.limit, told.retry_after), (false, 40, RETRY));
        let denial = Decision::from(told).into_result().unwrap_err();
        assert_ne!(denial.reason(), DenialReason::NeverFits);
    }
}
