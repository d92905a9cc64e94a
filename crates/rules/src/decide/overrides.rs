//! Limits that come with requests: `limit` of a descriptor, in place of the rule's limit.
//!
//! Such a limit may differ from request to request, but a table of windows can enforce only one limit. So there is one
//! table per unit of time, which only counts: its own limit is the highest that can be counted ([`most`]). The count is
//! compared with the request's limit before the charge and again after it. A request is admitted if the count *after*
//! its own charge is within its limit; otherwise its charge is refunded. So concurrent requests with the same limit are
//! never admitted above it; both may be denied.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{BuildError, Clock, Decision, KeyedLimiter, Permit, Policy};

use super::moment::DecisionTime;
use super::verdict::RuleVerdict;
use crate::counts::full::NoCell;
use crate::decide::request::Override;
use crate::language::on_full::OnFull;
use crate::language::unit::Unit;
use crate::set::rule::RuleTable;

/// The highest limit that can be counted in each unit. It is the maximum of `u32`, except in a second, where the core
/// cannot count that many exactly. Higher limits are lowered to this one.
const fn most(unit: Unit) -> u32 {
    match unit {
        Unit::Second => 2_248_262_313,
        _ => u32::MAX,
    }
}

impl Override {
    /// The limit that is counted and shown in answers.
    pub(crate) fn counted(self) -> Self {
        Self { requests_per_unit: self.requests_per_unit.min(most(self.unit)), ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Overrides {
    /// The tables in the order of [`Unit::ALL`]; empty if such limits are switched off.
    tables: Vec<Arc<RuleTable>>,
}

impl Overrides {
    pub(crate) fn new(capacity: usize, clock: &Clock) -> Result<Self, BuildError> {
        if capacity == 0 {
            return Ok(Self { tables: Vec::new() });
        }
        let of_unit = |unit: Unit| format!("fixed-window {}/{}", most(unit), unit.period()).parse();
        // Always valid: the test `every_unit_can_be_counted` builds all of them.
        let tables = Unit::ALL
            .into_iter()
            .map(of_unit)
            .filter_map(Result::ok)
            .map(|policy: Policy| {
                let table = KeyedLimiter::builder(policy).clock(clock.clone()).build(capacity)?;
                Ok(Arc::new(RuleTable::Fixed(table)))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { tables })
    }

    pub(crate) fn table(&self, limit: Override) -> Option<&Arc<RuleTable>> {
        let index = Unit::ALL.iter().position(|unit| *unit == limit.unit)?;
        self.tables.get(index)
    }

    /// Asks whether the cost would fit, and charges nothing.
    pub(crate) fn ask(
        &self,
        limit: Override,
        key: &[u8],
        cost: u64,
        moment: DecisionTime,
    ) -> RuleVerdict {
        match self.table(limit) {
            Some(table) => compare(limit, &moment.entry(table, key).peek(0), cost),
            None => RuleVerdict::blocked(0, cost, limit.unit.length()),
        }
    }

    /// Charges the cost if it fits. The permit can refund the charge.
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

    /// Charges the cost if `asked`, the answer to a look before, says that it fits. Another request may have been
    /// charged in between.
    fn charge_asked(
        &self,
        asked: RuleVerdict,
        limit: Override,
        key: &[u8],
        cost: u64,
        moment: DecisionTime,
    ) -> (RuleVerdict, Option<Permit>) {
        let Some(table) = self.table(limit).filter(|_| !asked.is_over) else {
            return (asked, None);
        };
        let decision = moment.entry(table, key).check_n(cost);
        let compared = compare(limit, &decision, if decision.is_allowed() { 0 } else { cost });
        match decision {
            Decision::Denied(denial) => {
                let retry_after = denial.retry_after();
                (RuleVerdict { is_over: true, retry_after, ..compared }, None)
            }
            Decision::Allowed(permit) if compared.is_over => {
                self.give_back(limit, key, permit, moment);
                (compared, None)
            }
            Decision::Allowed(permit) => (compared, Some(permit)),
        }
    }

    pub(crate) fn give_back(
        &self,
        limit: Override,
        key: &[u8],
        permit: Permit,
        moment: DecisionTime,
    ) {
        if let Some(table) = self.table(limit) {
            moment.entry(table, key).refund(permit);
        }
    }

    /// Charges the cost whether it fits or not. Returns the units that could not be charged.
    pub(crate) fn drain(
        &self,
        limit: Override,
        key: &[u8],
        cost: u64,
        moment: DecisionTime,
    ) -> u64 {
        self.table(limit).map_or(cost, |table| moment.entry(table, key).charge(cost))
    }

    /// Gives the cost back, except for units that are not charged any more. Returns the units that came back.
    pub(crate) fn uncharge(
        &self,
        limit: Override,
        key: &[u8],
        cost: u64,
        moment: DecisionTime,
    ) -> u64 {
        self.table(limit).map_or(0, |table| moment.entry(table, key).uncharge(cost))
    }

    pub(crate) fn reset(&self, limit: Override, key: &[u8]) {
        if let Some(table) = self.table(limit) {
            table.entry(key).reset();
        }
    }
}

/// Compares a count with a limit.
fn compare(limit: Override, counted: &Decision, cost: u64) -> RuleVerdict {
    let most = u64::from(limit.counted().requests_per_unit);
    let used = counted.limit() - counted.remaining();
    let is_over = used.saturating_add(cost) > most;
    let left = most.saturating_sub(used);
    let reset_after = counted.reset_after();
    RuleVerdict {
        is_over,
        is_within_soft: false,
        is_borrowed: false,
        limit: 0,
        burst: most,
        remaining: left,
        left,
        is_remembered: false,
        reset_after,
        // A cost above the limit never fits. Any other cost may fit in the next window.
        retry_after: (is_over && cost <= most).then_some(reset_after),
        wait: Duration::ZERO,
        no_cell: NoCell::of(counted, OnFull::default()),
        is_without_store: false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::ManualClock;

    use super::*;

    const TEN_AN_HOUR: Override = Override { requests_per_unit: 10, unit: Unit::Hour };

    fn overrides() -> Overrides {
        Overrides::new(10, &ManualClock::new().into()).expect("they fit")
    }

    #[test]
    fn every_unit_can_be_counted() {
        let overrides = overrides();
        let limits = overrides.tables.iter().map(|table| table.entry(&b"x"[..]).peek(0).limit());
        assert!(limits.eq(Unit::ALL.map(|unit| u64::from(most(unit)))));
    }

    #[test]
    fn a_limit_is_compared_with_one_count_whatever_it_is() {
        let overrides = overrides();
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
        assert_eq!(charge(u32::MAX, u64::MAX), (false, u64::from(u32::MAX) - 11));
        assert_eq!(charge(u32::MAX, 3_000_000_000), (true, 1_294_967_284));
        assert_eq!(charge(u32::MAX, 1_294_967_285), (false, 1_294_967_284));
        assert_eq!(charge(u32::MAX, 1_294_967_284), (true, 0));
        assert_eq!(charge(0, 1), (false, 0));
    }

    #[test]
    fn of_two_requests_that_meet_one_gets_the_last_unit_and_the_other_leaves_nothing() {
        let overrides = overrides();
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
        let overrides = overrides();
        let limit = Override { requests_per_unit: 10, unit: Unit::Day };
        let (_, permit) = overrides.charge(limit, b"x", 10, DecisionTime::Now);
        overrides.give_back(limit, b"x", permit.expect("it fits"), DecisionTime::Now);
        assert_eq!(overrides.ask(limit, b"x", 10, DecisionTime::Now).remaining, 10);
    }

    #[test]
    fn a_denial_says_when_the_window_turns_and_of_what_never_fits_nothing() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(600));
        let overrides = Overrides::new(10, &clock.into()).expect("they fit");
        let limit = TEN_AN_HOUR;
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
        let overrides = overrides();
        let limit = TEN_AN_HOUR;
        let (charged, _) = overrides.charge(limit, b"x", 7, DecisionTime::Now);
        assert_eq!(charged.remaining, 3);
        assert_eq!(overrides.drain(limit, b"x", 2, DecisionTime::Now), 0);
        assert_eq!(overrides.ask(limit, b"x", 0, DecisionTime::Now).remaining, 1);
        assert_eq!(overrides.drain(limit, b"x", 2, DecisionTime::Now), 0);
        assert_eq!(overrides.ask(limit, b"x", 0, DecisionTime::Now).remaining, 0);
    }

    #[test]
    fn a_reset_forgets_one_client_in_one_unit() {
        let overrides = overrides();
        let places = [(Unit::Hour, b"x"), (Unit::Hour, b"y"), (Unit::Day, b"x")];
        let left = |(unit, key): (Unit, &[u8; 1]), cost| {
            let limit = Override { requests_per_unit: 10, unit };
            overrides.charge(limit, key, cost, DecisionTime::Now).0.remaining
        };
        assert_eq!(places.map(|place| left(place, 7)), [3; 3]);
        overrides.reset(TEN_AN_HOUR, b"x");
        assert_eq!(places.map(|place| left(place, 0)), [10, 3, 3]);
    }
}
