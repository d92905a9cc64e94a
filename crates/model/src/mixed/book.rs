//! The units that one key was admitted and has given back, and the debt that it should have.

use tollgate::{Algorithm, Permit, Policy, Reservation, Timestamp};
use tollgate_oracle::{Ledger, Rate};

use super::charge::{Charge, CheckResult};
use super::debt::{KeyDebt, When};
use crate::bound::{self, Admitted};
use crate::plant::Plant;
use crate::policy::period_ns;
use crate::rules::ceiling;

/// A place, and the state of the limit after it was given.
#[derive(Debug)]
pub(super) struct BookedPlace {
    pub(super) reservation: Reservation,
    pub(super) charge: Charge,
    /// The time at which everything that was owed after the place was given would have drained.
    pub(super) left: Timestamp,
    /// The version of the book when the place was given.
    pub(super) version: u64,
}

/// One key.
#[derive(Debug)]
pub(super) struct KeyBook {
    pub(super) policy: Policy,
    pub(super) debt: KeyDebt,
    /// Whether every interval is checked.
    is_judge: bool,
    /// Under GCRA, the admissions since the last refund of an unknown charge.
    strict: Ledger,
    /// Under GCRA, all admissions, and the refunds of unknown charges.
    loose: Ledger,
    /// Under GCRA, the admissions since the largest quota came into force, judged by that quota. Changes among quotas
    /// that are within the largest give no more units than the largest does.
    standing: Ledger,
    largest: Rate,
    /// Under windows, the admissions.
    admitted: Vec<Admitted>,
    epoch: u64,
    /// True if a debt may exceed the burst: something was charged without a decision, or a request got a place in the
    /// future.
    owes_more: bool,
    /// The latest time of any charge.
    latest_ns: u64,
    /// A number that rises with every change of the book.
    pub(super) version: u64,
    pub(super) permits: Vec<(Permit, Charge)>,
    pub(super) places: Vec<BookedPlace>,
}

impl KeyBook {
    /// `tick` is the resolution of time: 2^-tick of the time in which a unit comes back.
    pub(super) fn new(
        policy: Policy,
        debt: KeyDebt,
        tick: u32,
        (is_judge, plant): (bool, Plant),
    ) -> Self {
        let mut expected = rate(policy, tick);
        expected.burst -= u64::from(plant == Plant::Bound);
        let ledger = Ledger::new(expected);
        let standing = Ledger::new(widened(expected));
        Self {
            policy,
            debt,
            is_judge,
            strict: ledger.clone(),
            standing,
            largest: rate(policy, tick),
            loose: ledger,
            admitted: Vec::new(),
            epoch: 0,
            owes_more: false,
            latest_ns: 0,
            version: 0,
            permits: Vec::new(),
            places: Vec::new(),
        }
    }

    pub(super) fn is_gcra(&self) -> bool {
        self.policy.algorithm() == Algorithm::Gcra
    }

    /// Notes that units were admitted for the time `from_ns`. If they are `judged`, every interval that contains them
    /// must keep its bound.
    pub(super) fn admit(
        &mut self,
        units: u64,
        from_ns: u64,
        when: When,
        judged: bool,
    ) -> CheckResult<u64> {
        if units == 0 {
            return Ok(0);
        }
        self.version += 1;
        self.latest_ns = self.latest_ns.max(when.now_ns);
        if !self.is_gcra() {
            let high_ns = when.high_ns.max(when.now_ns);
            self.admitted.push(Admitted { now_ns: when.now_ns, high_ns, cost: units });
            return Ok(self.admitted.len() as u64);
        }
        self.owes_more |= !judged;
        let number = self.strict.add(from_ns, units);
        self.loose.add(from_ns, units);
        self.standing.add(from_ns, units);
        if judged && self.is_judge {
            let kept = self.strict.keeps(from_ns).and_then(|()| self.loose.keeps(from_ns));
            let kept = kept.and_then(|()| self.standing.keeps(from_ns));
            kept.map_err(|excess| excess.to_string())?;
        }
        Ok(number)
    }

    /// A record of units that were just admitted, for a later refund.
    pub(super) fn charge(&self, cost: u64, number: u64, now_ns: u64) -> Charge {
        let places = self.debt.places();
        let (policy, epoch, renewals) = (self.policy, self.epoch, self.debt.renewals);
        Charge { cost, then_ns: now_ns, policy, number, epoch, renewals, left: cost, places }
    }

    /// Notes a place in the future for `units`.
    pub(super) fn is_placed(&mut self, units: u64) {
        self.owes_more = true;
        self.strict.place(units);
        self.loose.place(units);
        self.standing.place(units);
    }

    /// Notes that a verb was asked to give back `units` of a charge, and reported `told` units.
    pub(super) fn take_off(
        &mut self,
        charge: &mut Charge,
        [units, told]: [u64; 2],
        now_ns: u64,
    ) -> CheckResult {
        if told > units {
            return Err(format!("{told} of {units} units were given back"));
        }
        self.version += 1;
        let is_first = charge.left >= units;
        charge.left = charge.left.saturating_sub(units);
        // The documentation of `Entry::refund` says what holds at times before that of another charge.
        let is_known = is_first && charge.epoch == self.epoch && now_ns >= self.latest_ns;
        if told == 0 {
            return Ok(());
        }
        if !self.is_gcra() {
            let nth = usize::try_from(charge.number.wrapping_sub(1)).unwrap_or(usize::MAX);
            let known = self.admitted.get_mut(nth);
            if let Some(admitted) = known.filter(|_| is_first && charge.epoch == self.epoch) {
                admitted.cost = admitted.cost.saturating_sub(told);
            } else {
                self.forget();
            }
            return Ok(());
        }
        if !is_known {
            self.give_back_unknown(told);
        } else if !(self.strict.take_off(charge.number, told)
            && self.loose.take_off(charge.number, told)
            && self.standing.take_off(charge.number, told))
        {
            return Err(format!("{told} units were given back once more"));
        }
        Ok(())
    }

    /// Notes that units of an unknown charge are given back.
    pub(super) fn give_back_unknown(&mut self, told: u64) {
        if told > 0 {
            self.epoch += 1;
            self.version += 1;
            self.strict.clear();
            self.loose.allow(told);
            self.standing.allow(told);
            self.admitted.clear();
        }
    }

    /// Notes that all charges are forgotten.
    pub(super) fn forget(&mut self) {
        self.epoch += 1;
        self.version += 1;
        self.strict.clear();
        self.loose.clear();
        self.standing.clear();
        self.admitted.clear();
    }

    /// Notes that another quota is in force.
    pub(super) fn change(&mut self, policy: Policy, debt: KeyDebt, tick: u32, now_ns: u64) {
        self.policy = policy;
        self.debt = debt;
        self.debt.replaced(now_ns);
        self.version += 1;
        // Any debt above the new burst is forgiven, which no bound covers.
        if std::mem::take(&mut self.owes_more) {
            self.forget();
        }
        let rate = rate(policy, tick);
        self.strict.change(now_ns, rate);
        self.loose.change(now_ns, rate);
        // A quota that is not within the largest becomes the largest, and is judged by itself from now on.
        if !is_within(rate, self.largest) {
            self.standing.clear();
            self.standing.change(now_ns, widened(rate));
            self.largest = rate;
        }
    }

    /// Under windows, checks that everything that was admitted keeps its bound.
    pub(super) fn keeps_its_bound(&self) -> CheckResult {
        if self.is_gcra() || !self.is_judge {
            return Ok(());
        }
        // A charge that was given back as a whole is left out: the table may have forgotten the key and the time of the
        // charge.
        let counts: Vec<_> =
            self.admitted.iter().filter(|admitted| admitted.cost > 0).copied().collect();
        let is_kept = bound::is_kept(self.policy, ceiling(self.policy), 0, &counts);
        is_kept.map_err(|found| format!("excess: {found}"))
    }
}

/// Whether the quota `one` never gives more than `other`, neither at once nor in any span of time.
fn is_within(one: Rate, other: Rate) -> bool {
    let [slow, fast] = [(one, other), (other, one)]
        .map(|(rate, by)| u128::from(rate.count) * u128::from(by.period_ns));
    one.burst <= other.burst && slow <= fast
}

/// The same rate with a tick 16 times as long: each of up to 16 quotas that come and go may add one tick.
fn widened(rate: Rate) -> Rate {
    Rate { tick: rate.tick.saturating_sub(4), ..rate }
}

fn rate(policy: Policy, tick: u32) -> Rate {
    let count = policy.quota().count();
    Rate { count, period_ns: period_ns(policy), burst: ceiling(policy), tick }
}
