//! Limits that come with requests: `limit` of a descriptor, in place of the rule's limit.
//!
//! Such a limit may differ from request to request, but a table can enforce only one limit. So there is one table per
//! unit of time, which only counts, up to [`MOST`]; the count is compared with the request's limit before the charge
//! and again after it. A request is admitted if the count *after* its own charge is within its limit; otherwise its
//! charge is refunded. So concurrent requests with the same limit are never admitted above it; both may be denied.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{BuildError, Clock, Decision, Permit, Policy, PolicyError};

use super::moment::DecisionTime;
use super::verdict::RuleVerdict;
use crate::full::{NoCell, OnFull};
use crate::request::Override;
use crate::rule::RuleTable;
use crate::unit::Unit;

/// The maximum count, and so the highest limit that a request can bring: higher limits count as this. The core counts
/// up to 2.2e9 in a second.
const MOST: u32 = i32::MAX as u32;

#[derive(Debug)]
pub(crate) struct Overrides {
    /// In the order of [`Unit::ALL`]; empty if such limits are switched off.
    tables: Vec<Arc<RuleTable>>,
}

impl Overrides {
    pub(crate) fn new(capacity: usize, clock: &Clock) -> Result<Self, BuildError> {
        let build = |unit: Unit| {
            // Always a valid text: the test `every_unit_can_be_counted` parses all of them.
            let policy: Result<Policy, PolicyError> =
                format!("fixed-window {MOST}/{}", unit.period()).parse();
            let table =
                |policy| RuleTable::with_clock(policy, capacity, clock.clone()).map(Arc::new);
            policy.ok().map(table)
        };
        if capacity == 0 {
            return Ok(Self { tables: Vec::new() });
        }
        let tables = Unit::ALL.into_iter().filter_map(build).collect::<Result<_, _>>()?;
        Ok(Self { tables })
    }

    pub(crate) fn table(&self, unit: Unit) -> Option<&Arc<RuleTable>> {
        let number = Unit::ALL.iter().position(|one| *one == unit)?;
        self.tables.get(number)
    }

    /// Whether it would fit. Charges nothing.
    pub(crate) fn ask(
        &self,
        limit: Override,
        key: &[u8],
        cost: u64,
        moment: DecisionTime,
    ) -> RuleVerdict {
        match self.table(limit.unit) {
            Some(table) => compare(limit, &moment.entry(table, key).peek(0), cost),
            None => RuleVerdict::blocked(0, cost, limit.unit.length()),
        }
    }

    /// Charges it if it fits; the permit refunds it.
    pub(crate) fn charge(
        &self,
        limit: Override,
        key: &[u8],
        cost: u64,
        moment: DecisionTime,
    ) -> (RuleVerdict, Option<Permit>) {
        let asked = self.ask(limit, key, cost, moment);
        self.charge_asked(asked, limit, key, cost, moment)
    }

    /// Another request may have been charged between the question and this charge.
    fn charge_asked(
        &self,
        asked: RuleVerdict,
        limit: Override,
        key: &[u8],
        cost: u64,
        moment: DecisionTime,
    ) -> (RuleVerdict, Option<Permit>) {
        let Some(table) = self.table(limit.unit).filter(|_| !asked.is_over) else {
            return (asked, None);
        };
        match moment.entry(table, key).check(cost) {
            decision @ Decision::Denied(_) => {
                (RuleVerdict::of(&decision, 0, OnFull::default()), None)
            }
            decision @ Decision::Allowed(permit) => {
                let verdict = compare(limit, &decision, 0);
                if verdict.is_over {
                    self.give_back(limit.unit, key, permit, moment);
                }
                (verdict, (!verdict.is_over).then_some(permit))
            }
        }
    }

    pub(crate) fn give_back(&self, unit: Unit, key: &[u8], permit: Permit, moment: DecisionTime) {
        if let Some(table) = self.table(unit) {
            moment.entry(table, key).refund(permit);
        }
    }

    /// Charges it whether it fits or not; returns what could not be charged.
    pub(crate) fn drain(&self, unit: Unit, key: &[u8], cost: u64, moment: DecisionTime) -> u64 {
        self.table(unit).map_or(cost, |table| moment.entry(table, key).charge(cost))
    }

    pub(crate) fn reset(&self, unit: Unit, key: &[u8]) {
        if let Some(table) = self.table(unit) {
            table.entry(key).reset();
        }
    }
}

/// Compares a count with a limit.
fn compare(limit: Override, counted: &Decision, cost: u64) -> RuleVerdict {
    let most = u64::from(limit.requests_per_unit.min(MOST));
    let used = counted.limit() - counted.remaining();
    let is_over = used.saturating_add(cost) > most;
    let reset_after = counted.reset_after();
    RuleVerdict {
        is_over,
        is_within_soft: false,
        is_borrowed: false,
        limit: 0,
        burst: most,
        remaining: most.saturating_sub(used),
        reset_after,
        // A cost above the limit never fits; any other fits in the next window.
        retry_after: (is_over && cost <= most).then_some(reset_after),
        wait: Duration::ZERO,
        no_cell: NoCell::of(counted, OnFull::default()),
    }
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;

    use super::*;

    #[test]
    fn every_unit_can_be_counted() {
        let overrides = Overrides::new(10, &ManualClock::new().into()).expect("they fit");
        assert_eq!(overrides.tables.len(), Unit::ALL.len());
        for unit in Unit::ALL {
            let table = overrides.table(unit).expect("it is there");
            assert_eq!(table.entry(&b"x"[..]).peek(0).limit(), u64::from(MOST));
        }
    }

    #[test]
    fn a_limit_is_compared_with_one_count_whatever_it_is() {
        let overrides = Overrides::new(10, &ManualClock::new().into()).expect("they fit");
        let charge = |requests_per_unit, cost| {
            let limit = Override { requests_per_unit, unit: Unit::Hour };
            let (verdict, permit) = overrides.charge(limit, b"x", cost, DecisionTime::Now);
            assert_eq!(permit.is_some(), !verdict.is_over);
            (!verdict.is_over, verdict.remaining)
        };
        assert_eq!(charge(10, 7), (true, 3));
        assert_eq!(charge(10, 4), (false, 3));
        assert_eq!(charge(12, 4), (true, 1));
        assert_eq!(charge(5, 1), (false, 0));
        assert_eq!(charge(u32::MAX, u64::MAX), (false, u64::from(MOST) - 11));
        assert_eq!(charge(0, 1), (false, 0));
    }

    #[test]
    fn of_two_requests_that_meet_one_gets_the_last_unit_and_the_other_leaves_nothing() {
        let overrides = Overrides::new(10, &ManualClock::new().into()).expect("they fit");
        let limit = Override { requests_per_unit: 5, unit: Unit::Hour };
        let ask = || overrides.ask(limit, b"x", 3, DecisionTime::Now);
        let asked = [ask(), ask()];
        let charged = asked.map(|asked| {
            assert!(!asked.is_over);
            overrides.charge_asked(asked, limit, b"x", 3, DecisionTime::Now).1.is_some()
        });
        assert_eq!(charged, [true, false]);
        assert_eq!(overrides.ask(limit, b"x", 0, DecisionTime::Now).remaining, 2);
    }

    #[test]
    fn what_is_given_back_is_there_again() {
        let overrides = Overrides::new(10, &ManualClock::new().into()).expect("they fit");
        let limit = Override { requests_per_unit: 10, unit: Unit::Day };
        let (_, permit) = overrides.charge(limit, b"x", 10, DecisionTime::Now);
        overrides.give_back(Unit::Day, b"x", permit.expect("it fits"), DecisionTime::Now);
        assert_eq!(overrides.ask(limit, b"x", 10, DecisionTime::Now).remaining, 10);
    }

    #[test]
    fn a_denial_says_when_the_window_turns_and_of_what_never_fits_nothing() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(600));
        let overrides = Overrides::new(10, &clock.into()).expect("they fit");
        let limit = Override { requests_per_unit: 10, unit: Unit::Hour };
        let charge = |cost| {
            let verdict = overrides.charge(limit, b"x", cost, DecisionTime::Now).0;
            (verdict.is_over, verdict.reset_after.as_secs(), verdict.retry_after)
        };
        assert_eq!(charge(1), (false, 3_000, None));
        assert_eq!(charge(10), (true, 3_000, Some(Duration::from_secs(3_000))));
        assert_eq!(charge(11), (true, 3_000, None));
    }

    #[test]
    fn what_was_denied_counts_where_it_is_to_count() {
        let overrides = Overrides::new(10, &ManualClock::new().into()).expect("they fit");
        let limit = Override { requests_per_unit: 10, unit: Unit::Hour };
        let (charged, _) = overrides.charge(limit, b"x", 7, DecisionTime::Now);
        assert_eq!(charged.remaining, 3);
        assert_eq!(overrides.drain(Unit::Hour, b"x", 2, DecisionTime::Now), 0);
        assert_eq!(overrides.ask(limit, b"x", 0, DecisionTime::Now).remaining, 1);
        assert_eq!(overrides.drain(Unit::Hour, b"x", 2, DecisionTime::Now), 0);
        assert_eq!(overrides.ask(limit, b"x", 0, DecisionTime::Now).remaining, 0);
    }

    #[test]
    fn a_reset_forgets_one_client_in_one_unit() {
        let overrides = Overrides::new(10, &ManualClock::new().into()).expect("they fit");
        let places = [(Unit::Hour, b"x"), (Unit::Hour, b"y"), (Unit::Day, b"x")];
        let left = |(unit, key): (Unit, &[u8; 1]), cost| {
            let limit = Override { requests_per_unit: 10, unit };
            overrides.charge(limit, key, cost, DecisionTime::Now).0.remaining
        };
        assert_eq!(places.map(|place| left(place, 7)), [3; 3]);
        overrides.reset(Unit::Hour, b"x");
        assert_eq!(places.map(|place| left(place, 0)), [10, 3, 3]);
    }
}
