//! Steps on more than one key: units that are leased, quotas that change, and keys that change their tier.

use tollgate::{Decision, DenialReason, Policy};

use super::charge::{BookedLease, Charge, CheckResult};
use super::debt::When;
use super::subject::{KEYS, TieredKey};
use super::world::MixedWorld;
use crate::expect::TimedRequest;
use crate::fineness::LATEST_NS;

/// The maximum number of leases that are held.
const LEASES: usize = 3;

impl MixedWorld<'_> {
    pub(super) fn lease_out(&mut self, units: u64) -> CheckResult {
        if self.leases.len() >= LEASES {
            return self.lease_back();
        }
        let (now, name) = (self.now(), self.name(0, 0));
        let when = self.when();
        let Some(lease) = self.subject.lease(units, now) else { return Ok(()) };
        match lease {
            Err(denial) => self.denied(name, units, &Decision::Denied(denial))?,
            Ok(lease) => {
                let charge = self.leased(name, units, when)?;
                self.leases.push(BookedLease { lease, charge });
            }
        }
        self.told();
        self.see(name)
    }

    fn denied(&mut self, name: TieredKey, cost: u64, decision: &Decision) -> CheckResult {
        let when = self.when();
        let ask = TimedRequest { now_ns: when.now_ns, cost, charge: true, exact: true };
        let compared = self.book_of(name).debt.decided(ask, when, decision);
        compared.map_err(|found| format!("{decision:?}: {found}"))
    }

    fn leased(&mut self, name: TieredKey, units: u64, when: When) -> CheckResult<Charge> {
        let book = self.book_of(name);
        book.debt.took(units, when)?;
        let number = book.admit(units, when.now_ns, when, true)?;
        Ok(book.charge(units, number, when.now_ns))
    }

    pub(super) fn lease_use(&mut self, cost: u64, renew: bool) -> CheckResult {
        let (name, own_clock) = (self.name(0, 0), self.subject.own_clock());
        let when = self.when();
        let Some(mut lent) = self.leases.pop() else { return Ok(()) };
        let left = lent.lease.left();
        if cost <= left || !own_clock || !renew {
            let is_spent = lent.lease.spend(cost);
            ensure!(is_spent == (cost <= left), "{cost} of {left} leased units: {is_spent}");
            self.leases.push(lent);
            return Ok(());
        }
        // The rest of the batch is returned. Then the next batch is taken, or the cost alone if the batch does not fit.
        let asked = lent.lease.check_n(cost);
        self.returned(name, &mut lent.charge, left, when)?;
        match asked {
            Err(denial) => self.denied(name, cost, &Decision::Denied(denial))?,
            Ok(()) => {
                let left = lent.lease.left();
                lent.charge = self.leased(name, cost + left, when)?;
            }
        }
        self.leases.push(lent);
        self.told();
        self.see(name)
    }

    /// Returns units of a lease. No answer says how many of them had not drained.
    fn returned(
        &mut self,
        name: TieredKey,
        charge: &mut Charge,
        left: u64,
        when: When,
    ) -> CheckResult {
        let book = self.book_of(name);
        if left == 0 {
            return Ok(());
        }
        let back = book.debt.gave_back((charge, left), when, None)?.unwrap_or(left);
        book.take_off(charge, [left, back], when.now_ns)
    }

    pub(super) fn lease_back(&mut self) -> CheckResult {
        let (now, name) = (self.now(), self.name(0, 0));
        let when = self.when();
        let Some(BookedLease { lease, mut charge }) = self.leases.pop() else { return Ok(()) };
        let left = lease.left();
        self.subject.end_lease(lease, charge.cost, now);
        self.returned(name, &mut charge, left, when)?;
        self.told();
        self.see(name)
    }

    /// Changes the quota of one limit or of a tier. The time is not before that of any earlier step, since the bound
    /// across a change is larger if times go back.
    pub(super) fn change(&mut self, tier: usize, policy: Policy) -> CheckResult {
        let now = self.now();
        let first = Self::number(self.name(0, tier));
        let books = first..self.books.len().min(first + usize::from(KEYS));
        let is_gcra = self.books[books.start].is_gcra();
        let is_latest = self.pace.now_ns >= self.high_ns && self.pace.now_ns < LATEST_NS;
        if !is_gcra || !is_latest || self.subject.change(tier, policy, now) != Some(true) {
            return Ok(());
        }
        for number in books {
            let (debt, tick) = self.debt(policy);
            self.books[number].change(policy, debt, tick, now.as_nanos());
        }
        self.since_ns = self.pace.now_ns;
        self.told();
        Ok(())
    }

    /// Moves the charges of a key to the other tier.
    pub(super) fn migrate(&mut self, key: u8, from: usize) -> CheckResult {
        let now = self.now();
        let [from, to] = [from, 1 - from].map(|tier| self.name(key, tier));
        let when = self.when();
        let look = |world: &Self| world.subject.peek(to, 0, now);
        let before = look(self);
        let Some(moved) = self.subject.carry(from, to, now) else { return Ok(()) };
        // A key without a cell in the table may have found one now.
        let had_cell = !matches!(&before, Decision::Denied(denial) if denial.reason() == DenialReason::TableFull);
        let [before, after] = [before, look(self)].map(|found| found.remaining());
        ensure!(
            !had_cell || after == before.saturating_sub(moved),
            "{moved} were moved: {before} were left, then {after}"
        );
        // A move changes nothing if the key owes nothing.
        if moved > 0 {
            let book = self.book_of(from);
            book.debt.was_reset(when);
            book.forget();
            let book = self.book_of(to);
            book.debt.lose();
            book.version += 1;
        }
        self.told();
        self.see(from)
    }
}
