//! The debt of one key after each step, by the definition, for as long as it can be known.
//!
//! The debt is unknown after a step whose time may lie below a table's floor, if the table may have forgotten the key.
//! Neither can be seen from outside. From then on nothing is compared until everything has drained.

use std::time::Duration;

use tollgate::{
    Algorithm, AtLimit, CountDenied, Decision, Denial, DenialReason, Policy, Reservation, Rounding,
};
use tollgate_oracle::{BigUint, Oracle, Verdict};

use super::charge::{Charge, CheckResult};
use crate::expect::{Expectation, TimedRequest, is_first, same};
use crate::fineness::LATEST_NS;
use crate::fineness::coarsest_tick;
use crate::plant::Plant;
use crate::policy::period_ns;
use crate::rules::ceiling;
use crate::step::nanos_of;

/// The denial of a request that is late by less than this is always counted.
const DAY_NS: u64 = 86_400_000_000_000;

/// The time of a step, and the latest time that the limiter was given before.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub(super) now_ns: u64,
    pub(super) high_ns: u64,
}

#[derive(Debug)]
pub(super) struct KeyDebt {
    expected: Expectation,
    /// Whether the word of the key may be forgotten.
    is_keyed: bool,
    /// Whether the debt is compared at all.
    is_judge: bool,
    /// Whether the debt is known for times from `since_ns` on.
    in_step: bool,
    /// The time from which the debt is known.
    since_ns: u64,
    /// The time at which the quota in force replaced another, if it did.
    quota_ns: Option<u64>,
    /// The number of times that everything was forgotten while the debt was not known.
    pub(super) renewals: u64,
}

fn fits(model: &Oracle, now_ns: u64, units: u64) -> bool {
    model.peek(now_ns, units) == Verdict::Allowed
}

impl KeyDebt {
    pub(super) fn new(expected: Expectation, is_keyed: bool, is_judge: bool) -> Self {
        Self {
            expected,
            is_keyed,
            is_judge,
            in_step: is_judge,
            since_ns: 0,
            quota_ns: None,
            renewals: 0,
        }
    }

    fn policy(&self) -> Policy {
        self.expected.policy
    }

    fn is_gcra(&self) -> bool {
        self.policy().algorithm() == Algorithm::Gcra
    }

    pub(super) fn coarsest_tick(&self) -> u32 {
        self.expected.coarsest_tick()
    }

    pub(super) fn counts_denials(&self) -> bool {
        let AtLimit { count_denied, penalty, .. } = self.policy().at_limit();
        count_denied != CountDenied::No || penalty.is_some()
    }

    /// Whether the share is rounded down: it may be 0 now and more than 0 at an earlier time.
    fn rounds_down(&self) -> bool {
        self.policy().algorithm() == Algorithm::SlidingWindow { rounding: Rounding::Down }
    }

    /// Whether the debt is known. A key that had drained by the latest time may have been forgotten.
    fn is_known(&self, When { now_ns, high_ns }: When) -> bool {
        let is_late = self.is_keyed && now_ns < high_ns;
        // A denial is not counted if the request is so late that its word cannot hold the lateness.
        let is_counted = !self.counts_denials() || high_ns.saturating_sub(now_ns) < DAY_NS;
        self.in_step
            && (is_counted || !is_late)
            && now_ns >= self.since_ns
            && !(is_late && (self.rounds_down() || self.expected.is_idle(high_ns)))
    }

    /// Whether the key has a debt now, so that no table has forgotten it.
    pub(super) fn is_surely_there(&self, when: When) -> bool {
        self.is_known(when) && when.now_ns >= when.high_ns && !self.expected.is_idle(when.now_ns)
    }

    /// Notes that the quota has changed: the debt is not known from now on, and earlier permits give nothing back.
    pub(super) fn replaced(&mut self, now_ns: u64) {
        self.in_step = false;
        self.quota_ns = Some(now_ns);
    }

    /// Notes that the debt is not known from now on.
    pub(super) fn lose(&mut self) {
        self.in_step = false;
    }

    /// Compares if the debt is known at this time. If it is not, a step that `changes` the debt makes it unknown until
    /// everything has drained.
    fn compare(
        &mut self,
        when: When,
        changes: bool,
        test: impl FnOnce(&mut Expectation) -> CheckResult,
    ) -> CheckResult {
        if self.is_known(when) {
            test(&mut self.expected)
        } else {
            self.in_step &= !changes;
            Ok(())
        }
    }

    /// Compares the decision of a check or of a peek.
    pub(super) fn decided(
        &mut self,
        ask: TimedRequest,
        when: When,
        decision: &Decision,
    ) -> CheckResult {
        if let Decision::Denied(denial) = decision
            && self.has_no_cell(denial, when)
        {
            return self.found_no_cell(when);
        }
        let is_charged = ask.charge && ask.cost > 0;
        let changes = is_charged && (decision.is_allowed() || self.counts_denials());
        self.compare(when, changes, |expected| expected.agrees(ask, decision))
    }

    /// True if the table has no cell for the key. If the cost never fits, the denial gives that as its reason. The
    /// missing cell then shows only in the denial's figures: nothing remains, although the key owes nothing.
    fn has_no_cell(&self, denial: &Denial, When { now_ns, high_ns }: When) -> bool {
        match denial.reason() {
            DenialReason::TableFull => true,
            DenialReason::NeverFits => {
                denial.remaining() == 0 && self.expected.is_idle(now_ns.max(high_ns))
            }
            _ => false,
        }
    }

    /// Only a key that owes nothing may be without a cell.
    fn found_no_cell(&self, When { now_ns, high_ns }: When) -> CheckResult {
        let is_idle = self.expected.is_idle(now_ns.max(high_ns));
        if self.in_step && !is_idle { Err("a live key lost its cell".to_string()) } else { Ok(()) }
    }

    /// Compares a peek at the remaining units. If the peek shows that everything has drained, the debt is known again.
    pub(super) fn seen(&mut self, when: When, look: &Decision) -> CheckResult {
        let is_whole = look.is_allowed() && look.remaining() == look.limit();
        let has_drained = is_whole && look.reset_after().is_zero();
        let leaves_no_trace = self.policy().at_limit().penalty.is_none() && !self.rounds_down();
        let is_latest = when.now_ns >= when.high_ns;
        if !self.in_step && self.is_judge && has_drained && is_latest && leaves_no_trace {
            self.expected.renew();
            self.renewals += 1;
            self.in_step = true;
            self.since_ns = when.now_ns;
        }
        let ask = TimedRequest { now_ns: when.now_ns, cost: 0, charge: false, exact: true };
        self.decided(ask, when, look)
    }

    /// Compares a request that takes as many units as are left, up to its cost.
    pub(super) fn took_up_to(&mut self, cost: u64, when: When, decision: &Decision) -> CheckResult {
        let now_ns = when.now_ns;
        let Decision::Allowed(permit) = decision else {
            let ask = TimedRequest { now_ns, cost: cost.min(1), charge: true, exact: true };
            return self.decided(ask, when, decision);
        };
        let taken = permit.cost();
        self.compare(when, taken > 0, |expected| {
            expected.keep(|_, model| {
                let is_most = taken == cost || !fits(model, now_ns, taken + 1);
                if taken > cost || !fits(model, now_ns, taken) || !is_most {
                    return Err(format!("took {taken} of {cost}"));
                }
                model.charge(now_ns, taken);
                Ok(())
            })
        })
    }

    /// Compares the admission of these units, of which all must fit.
    pub(super) fn took(&mut self, units: u64, when: When) -> CheckResult {
        self.compare(when, units > 0, |expected| {
            expected.keep(|_, model| {
                if !fits(model, when.now_ns, units) {
                    return Err(format!("took {units} that do not fit"));
                }
                model.charge(when.now_ns, units);
                Ok(())
            })
        })
    }

    /// Compares a charge that is made whether or not it fits.
    pub(super) fn settled(&mut self, [cost, charged]: [u64; 2], when: When) -> CheckResult {
        let now_ns = when.now_ns;
        let (is_gcra, is_keyed) = (self.is_gcra(), self.is_keyed);
        let limit = ceiling(self.policy());
        // A word can hold a debt of 2^63 ticks, and less if counts of denials or indices of quotas take some of its
        // bits.
        let denials =
            self.policy().at_limit().penalty.map_or(0, |penalty| penalty.after.ilog2() + 1);
        let reach = 1_u128 << (57 - denials);
        // If a surplus takes some of its bits, the word still holds at least the units that drain until the latest
        // time.
        let quota = self.policy().quota();
        let centuries = u128::from(LATEST_NS) * u128::from(quota.count())
            / u128::from(period_ns(self.policy()));
        let named = u128::from(self.policy().at_limit().debt);
        // A limit whose quota may change has no room for those units if its rate is near the highest, even in the
        // coarsest ticks. One part in 64 is added for rounding.
        let is_plain = self.policy().at_limit() == AtLimit::default();
        let coarsest = if is_plain { 0 } else { coarsest_tick(self.policy()) };
        let is_dense = (centuries + centuries / 64) << coarsest >= reach << 1;
        self.compare(when, charged > 0, |expected| {
            expected.keep(|fineness, model| {
                // A window can count no more than its limit plus the debt that its policy names. A word under GCRA
                // remembers 2^63 ticks of debt; in a table it remembers twice the burst, or the debt that its policy
                // names.
                let is_enough = if charged == cost {
                    true
                } else if model.is_penalised(now_ns) {
                    charged == 0
                } else if is_keyed && charged == 0 && model.is_idle(now_ns) {
                    true // no cell
                } else if !is_gcra && named > 0 && fits(model, now_ns, 1) {
                    // Before the charge the current count is at most the limit.
                    u128::from(charged) >= named * u128::from(limit)
                } else if !is_gcra {
                    !fits(model, now_ns, charged + 1)
                } else if fits(model, now_ns, 1) {
                    let owed = limit - model.remaining(now_ns).min(limit);
                    let all = u128::from(owed) + u128::from(charged) + 1;
                    if is_keyed {
                        all >= (1 + named.max(1)) * u128::from(limit)
                    } else {
                        let least = (1 + named.max(1)) * u128::from(limit);
                        all << fineness.tick >= reach
                            || all >= centuries
                            || (is_dense && all >= least)
                    }
                } else {
                    true
                };
                if !is_enough {
                    return Err(format!("only {charged} of {cost} were charged"));
                }
                model.charge(now_ns, charged);
                Ok(())
            })
        })
    }

    /// Compares a place that was given.
    pub(super) fn reserved(&mut self, cost: u64, when: When, place: &Reservation) -> CheckResult {
        let (wait, now_ns, is_gcra) = (place.wait(), when.now_ns, self.is_gcra());
        self.compare(when, cost > 0, |expected| {
            let end_ns = expected.end_ns();
            expected.keep(|_, model| {
                let fits = fits(model, now_ns, cost);
                model.charge(now_ns, cost);
                if is_gcra {
                    is_first(model, now_ns, 0, end_ns, (wait, Plant::Nothing))
                        .map_err(|instead| format!("told a place after {wait:?}, {instead}"))
                } else if fits && wait.is_zero() {
                    Ok(())
                } else {
                    Err("a place in a full window".to_string())
                }
            })
        })
    }

    /// Compares the denial of a place, whose turn would have come too late or lies further ahead than a word can hold.
    pub(super) fn found_no_place(
        &mut self,
        (cost, most): (u64, Duration),
        when: When,
        denial: &Decision,
    ) -> CheckResult {
        let now_ns = when.now_ns;
        let policy = self.policy();
        // Every word can hold the time in which half a burst drains.
        let reach = u128::from(period_ns(policy)) * u128::from(policy.quota().max_burst())
            / u128::from(policy.quota().count())
            / 2;
        let is_within =
            self.is_gcra() && cost > 0 && cost <= ceiling(policy) && most.as_nanos() < reach;
        let latest = BigUint::from(now_ns) + nanos_of(most);
        let before = u64::try_from(latest).unwrap_or(u64::MAX).saturating_sub(2);
        let ask = TimedRequest { now_ns, cost, charge: true, exact: true };
        if let Decision::Denied(denial) = denial
            && self.has_no_cell(denial, when)
        {
            return self.found_no_cell(when);
        }
        self.compare(when, self.counts_denials(), |expected| {
            let end_ns = expected.end_ns();
            expected.keep(|fineness, model| {
                // Some words have room for little more than the largest burst.
                let is_within = is_within
                    && u128::from(cost) << fineness.tick < 1 << 57
                    && u128::from(model.most()) << fineness.tick < 1 << 57;
                let mut with = model.clone();
                with.charge(now_ns, cost);
                let would_do = before >= now_ns && before < end_ns && fits(&with, before, 0);
                if is_within && would_do && !model.is_penalised(now_ns) {
                    return Err(format!("denied a place within {most:?}"));
                }
                Ok(())
            })?;
            if cost == 0 { Ok(()) } else { expected.agrees(ask, denial) }
        })
    }

    /// Whether the quota came into force at this very time. Then no answer says under which quota a charge was made.
    pub(super) fn is_at_change(&self, then_ns: u64) -> bool {
        self.quota_ns == Some(then_ns)
    }

    /// Whether the returned units can be compared. They cannot if they come back below a floor, or to an unknown
    /// window.
    fn knows_what_is_back(&self, charge: &Charge, when: When) -> bool {
        let is_late = self.is_keyed && when.now_ns < when.high_ns;
        !is_late
            && !self.is_at_change(charge.then_ns)
            && (self.is_gcra() || charge.is_placed(self.renewals))
    }

    /// Compares a refund with the definition. `told` is the number of units that the refund reports, if it reports one.
    /// Returns the number by the definition.
    pub(super) fn gave_back(
        &mut self,
        (charge, units): (&Charge, u64),
        when: When,
        told: Option<u64>,
    ) -> CheckResult<Option<u64>> {
        let mut found = None;
        let is_same = charge.is_of(self.policy(), self.quota_ns);
        if !self.knows_what_is_back(charge, when) {
            self.in_step &= told == Some(0);
            return Ok(None);
        }
        let (is_gcra, is_keyed) = (self.is_gcra(), self.is_keyed);
        self.compare(when, told != Some(0), |expected| {
            expected.keep(|fineness, model| {
                // A table may have forgotten a key whose window has passed.
                let is_gone = is_keyed && told == Some(0) && model.is_idle(when.now_ns);
                let is_place = is_gcra || charge.counts_in(fineness, &model.place(0));
                let back = if is_same && is_place && !is_gone {
                    model.give_back(when.now_ns, charge.then_ns, units)
                } else {
                    0
                };
                found = Some(back);
                told.map_or(Ok(()), |told| same("given back", told, back))
            })
        })?;
        Ok(found)
    }

    /// Compares a place that was reported as cancelled. Returns the number of units that this gives back by the
    /// definition.
    pub(super) fn undid(&mut self, charge: &Charge, when: When) -> CheckResult<Option<u64>> {
        let mut found = None;
        let (is_same, is_gcra) = (charge.is_of(self.policy(), self.quota_ns), self.is_gcra());
        if !self.knows_what_is_back(charge, when) {
            self.lose();
            return Ok(None);
        }
        self.compare(when, true, |expected| {
            expected.keep(|fineness, model| {
                let is_place = is_gcra || charge.counts_in(fineness, &model.place(0));
                let is_place = is_same && is_place;
                let (then_ns, cost) = (charge.then_ns, charge.cost);
                let back = if is_place { model.undo(when.now_ns, then_ns, cost) } else { 0 };
                found = Some(back);
                if back > 0 { Ok(()) } else { Err("cancelled what nothing is owed of".to_string()) }
            })
        })?;
        Ok(found)
    }

    pub(super) fn was_reset(&mut self, when: When) {
        let is_late = self.is_keyed && when.now_ns < when.high_ns;
        self.in_step &= !is_late;
        self.expected.amend(|model| model.reset(when.now_ns));
    }

    /// The windows in which a charge counts, one for each fineness.
    pub(super) fn places(&self) -> Vec<(crate::fineness::TimeFineness, BigUint)> {
        if self.is_gcra() || !self.in_step {
            return Vec::new();
        }
        self.expected.models().map(|(fineness, model)| (*fineness, model.place(0))).collect()
    }
}
