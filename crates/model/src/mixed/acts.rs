//! The verbs: each is called on the limiter, and then entered in the books of its key.

use std::time::Duration;

use tollgate::{Algorithm, Decision, DenialReason, Permit, Reservation, Wait, WaitStep};

use super::book::BookedPlace;
use super::charge::{Charge, CheckResult};
use super::debt::When;
use super::subject::TieredKey;
use super::world::{END_NS, MixedWorld};
use crate::expect::TimedRequest;
use crate::fineness::LATEST_NS;
use crate::step::{StepCost, nanos_of};

/// The maximum number of permits and places that are kept.
const AT_HAND: usize = 12;

/// The index of the element that is `nth` places before the last one. The count goes around the list.
fn back(len: usize, nth: usize) -> Option<usize> {
    let nth = nth.checked_rem(len)?;
    Some(len - 1 - nth)
}

impl MixedWorld<'_> {
    pub(super) fn take(&mut self, name: TieredKey, cost: u64) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        let look = self.subject.look(name, cost, now);
        let decision = self.subject.decide(name, cost, now);
        self.pace.heard(&decision);
        self.agree(name, &look, &decision)?;
        let ask = TimedRequest { now_ns: when.now_ns, cost, charge: true, exact: true };
        let book = self.book_of(name);
        book.debt
            .decided(ask, when, &decision)
            .map_err(|found| format!("{decision:?}: {found}"))?;
        match decision {
            Decision::Allowed(permit) => {
                ensure!(permit.cost() == cost, "{} of {cost} were charged", permit.cost());
                self.admitted(name, permit, when)?;
            }
            Decision::Denied(_) if !self.book_of(name).debt.counts_denials() => {
                self.waits(name, cost, &decision)?;
            }
            Decision::Denied(_) => {}
        }
        if cost > 0 {
            self.told();
        }
        Ok(())
    }

    /// Records a permit in the books of the judge.
    fn admitted(&mut self, name: TieredKey, permit: Permit, when: When) -> CheckResult {
        let book = self.book_of(name);
        let number = book.admit(permit.cost(), when.now_ns, when, true)?;
        if permit.cost() > 0 {
            let charge = book.charge(permit.cost(), number, when.now_ns);
            book.permits.push((permit, charge));
            let extra = book.permits.len().saturating_sub(AT_HAND);
            book.permits.drain(..extra);
        }
        Ok(())
    }

    pub(super) fn up_to(&mut self, name: TieredKey, cost: u64) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        let decision = self.subject.entry_at(name, now).take_up_to(cost);
        self.pace.heard(&decision);
        let book = self.book_of(name);
        let compared = book.debt.took_up_to(cost, when, &decision);
        compared.map_err(|found| format!("{decision:?}: {found}"))?;
        if let Decision::Allowed(permit) = decision {
            ensure!(permit.cost() > 0 || cost == 0, "admitted, but none of {cost} was charged");
            self.admitted(name, permit, when)?;
        }
        self.told();
        self.see(name)
    }

    pub(super) fn charge(&mut self, name: TieredKey, cost: u64) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        let left = self.subject.peek(name, 0, now).remaining();
        let short = self.subject.settle(name, cost, now);
        let book = self.book_of(name);
        ensure!(short <= cost, "{short} of {cost} were not charged");
        let charged = cost - short;
        book.debt.settled([cost, charged], when)?;
        // A debt may exceed every bound. It has to drain before anything else is admitted. In a window it is a count
        // above the limit, and only the units that fitted are entered as admitted.
        let is_window = book.policy.algorithm() != Algorithm::Gcra;
        let is_debt = is_window && book.policy.at_limit().debt > 0;
        let admitted = if is_debt { charged.min(left) } else { charged };
        book.version += u64::from(charged > 0);
        book.admit(admitted, when.now_ns, when, false)?;
        self.told();
        self.see(name)
    }

    pub(super) fn reserve(&mut self, name: TieredKey, cost: u64, most: Duration) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        match self.subject.entry_at(name, now).reserve(cost, most) {
            Err(denial) => {
                let decision = Decision::Denied(denial);
                let book = self.book_of(name);
                let compared = book.debt.found_no_place((cost, most), when, &decision);
                compared.map_err(|found| format!("{denial:?}: {found}"))?;
            }
            Ok(place) => return self.placed(name, (cost, most), place),
        }
        self.told();
        self.see(name)?;
        self.outwait(name, cost, most)
    }

    /// Waits without a place: the request sleeps and asks again, and is charged nothing meanwhile. After its pause it
    /// must be admitted, since nothing else has happened.
    fn outwait(&mut self, name: TieredKey, cost: u64, most: Duration) -> CheckResult {
        let book = self.book_of(name);
        // Policies that count denials are left out, since their denials are entered elsewhere. Policies with a queue
        // are left out too, since under a queue no request asks again.
        if book.debt.counts_denials() || book.policy.at_limit().queue.is_some() || cost == 0 {
            return Ok(());
        }
        let (now, is_late) = (self.now(), self.pace.now_ns < self.high_ns);
        let mut waiter = self.subject.entry_at(name, now).wait_budget(Wait::at_most(most));
        let pause = match self.subject.wait_on(name, cost, (&mut waiter, now)) {
            Ok(WaitStep::Later(pause)) => pause,
            Ok(WaitStep::Place(place)) => {
                return Err(format!("there was no place before {place:?}"));
            }
            Err(denial) => {
                let is_long = denial.retry_after().is_some_and(|wait| wait <= most);
                ensure!(!is_long, "given up, though {most:?} are enough: {denial:?}");
                return Ok(());
            }
        };
        ensure!(pause <= most, "it sleeps for {pause:?} of at most {most:?}");
        self.see(name)?;
        let end_ns = self.latest_ns().min(END_NS);
        let then_ns = self.pace.now_ns.saturating_add(nanos_of(pause));
        if then_ns >= end_ns {
            return Ok(());
        }
        self.pace.now_ns = then_ns;
        self.set_clock();
        let now = self.now();
        match self.subject.wait_on(name, cost, (&mut waiter, now)) {
            Ok(WaitStep::Place(place)) => self.placed(name, (cost, most), place),
            // A late new key may find no cell after the wait, either.
            Err(denial) if denial.reason() == DenialReason::TableFull || is_late => self.see(name),
            Ok(WaitStep::Later(_)) if is_late || self.subject.look(name, cost, now).is_denied() => {
                ensure!(is_late, "it has slept for {pause:?}, as it was told to, and sleeps again");
                self.see(name)
            }
            other => Err(format!("it has slept for {pause:?}, as it was told to: {other:?}")),
        }
    }

    /// Records a reserved place in the books of the judge.
    fn placed(
        &mut self,
        name: TieredKey,
        (cost, most): (u64, Duration),
        place: Reservation,
    ) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        ensure!(place.wait() <= most, "{place:?} after at most {most:?}");
        ensure!(place.permit().cost() == cost, "{place:?} for {cost}");
        let left = self.subject.drained_at(name, now);
        let ready_ns = place.ready_at().as_nanos();
        let book = self.book_of(name);
        book.debt.reserved(cost, when, &place)?;
        if !place.wait().is_zero() {
            book.is_placed(cost);
        }
        // A place after the end of time is never used.
        let units = if ready_ns == u64::MAX { 0 } else { cost };
        let number = book.admit(units, ready_ns, when, true)?;
        let charge = book.charge(cost, number, when.now_ns);
        let version = book.version;
        book.places.push(BookedPlace { reservation: place, charge, left, version });
        let extra = book.places.len().saturating_sub(AT_HAND);
        book.places.drain(..extra);
        self.told();
        self.see(name)
    }

    pub(super) fn refund(
        &mut self,
        name: TieredKey,
        (nth, most): (usize, u64),
        again: bool,
    ) -> CheckResult {
        let book = self.book_of(name);
        let Some(last) = back(book.permits.len(), nth) else { return Ok(()) };
        let (permit, mut charge) = book.permits.remove(last);
        let part = permit.twin().portion(most);
        let is_part = part.cost() < permit.cost();
        self.gave_back(name, (&mut charge, false), part)?;
        if again || is_part {
            self.book_of(name).permits.insert(last, (permit, charge));
        }
        self.see(name)
    }

    /// Refunds part of a charge, and compares the answer with the books.
    fn gave_back(
        &mut self,
        name: TieredKey,
        (charge, is_to_come): (&mut Charge, bool),
        part: Permit,
    ) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        let cost = part.cost();
        let told = self.subject.give_back(name, (part, charge.then()), now);
        let book = self.book_of(name);
        book.debt.gave_back((charge, cost), when, Some(told))?;
        ensure!(told <= cost, "{told} of {cost} units were given back");
        let off = if is_to_come && told > 0 { cost } else { told };
        book.take_off(charge, [cost, off], when.now_ns)?;
        self.told();
        Ok(())
    }

    pub(super) fn unqueue(&mut self, name: TieredKey, (nth, most): (usize, u64)) -> CheckResult {
        let now = self.now();
        let book = self.book_of(name);
        let Some(last) = back(book.places.len(), nth) else { return Ok(()) };
        let place = &book.places[last];
        let (part, mut charge) =
            (place.reservation.permit().twin().portion(most), place.charge.clone());
        // A place that is cancelled before its turn cannot have been used, even if the answer reports fewer units.
        let is_to_come = place.reservation.ready_at() > now;
        self.gave_back(name, (&mut charge, is_to_come), part)?;
        self.book_of(name).places[last].charge = charge;
        self.see(name)
    }

    pub(super) fn foreign(&mut self, name: TieredKey, cost: StepCost, other: bool) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        let limit = self.book_of(name).policy.quota().max_burst();
        let cost = cost.units(limit, limit / 2 + 1);
        let Some(permit) = self.subject.stranger(other, cost, now) else { return Ok(()) };
        let cost = permit.cost();
        let told = self.subject.entry_at(name, now).refund(permit);
        let book = self.book_of(name);
        ensure!(!other || told == 0, "{told} units of another policy were given back");
        ensure!(told <= cost, "{told} of {cost} units were given back");
        if told > 0 {
            let charge = book.charge(cost, 0, when.now_ns);
            if book.is_gcra() {
                book.debt.gave_back((&charge, cost), when, Some(told))?;
            } else {
                book.debt.lose();
            }
            book.give_back_unknown(told);
        }
        self.told();
        self.see(name)
    }

    pub(super) fn cancel(&mut self, name: TieredKey, nth: usize) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        let is_table = self.subject.is_keyed();
        let book = self.book_of(name);
        let Some(last) = back(book.places.len(), nth) else { return Ok(()) };
        let place = book.places.remove(last);
        let mut charge = place.charge.clone();
        let cost = charge.cost;
        // The place must be cancelled if nothing has happened since it was given, a part of it is still owed, and no
        // table has forgotten it.
        let is_there = !is_table || book.debt.is_surely_there(when);
        let is_plain = is_there && !book.debt.counts_denials() && now.as_nanos() < LATEST_NS;
        let is_plain = is_plain && !book.debt.is_at_change(charge.then_ns);
        // A debt that lasts beyond the last instant cannot be distinguished from a larger one.
        let is_plain = is_plain && place.left.as_nanos() < u64::MAX;
        let is_last = place.version == book.version && cost > 0 && is_plain;
        let is_owed = !book.is_gcra() || place.reservation.ready_at() > now;
        let is_cancelled = self.subject.undo(name, place, now);
        ensure!(is_cancelled || !(is_last && is_owed), "not cancelled, and nothing was behind it");
        if is_cancelled {
            let book = self.book_of(name);
            let back = book.debt.undid(&charge, when)?.unwrap_or(cost);
            book.take_off(&mut charge, [cost, back], when.now_ns)?;
        }
        self.told();
        self.see(name)
    }

    pub(super) fn reset(&mut self, name: TieredKey) -> CheckResult {
        let (now, when) = (self.now(), self.when());
        self.subject.entry_at(name, now).reset();
        let book = self.book_of(name);
        book.debt.was_reset(when);
        book.forget();
        self.told();
        self.see(name)
    }
}
