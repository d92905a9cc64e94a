//! Limiters that are wrong in one way each. The reference must notice each fault. Each faulty limiter is the real one
//! behind a wrapper that answers wrongly or does too much.

use tollgate::{Decision, Denial, Lease, Permit, Policy, Timestamp, WaitBudget, WaitStep};

use super::book::BookedPlace;
use super::subject::{KEYS, MixedSubject, SubjectFault, TieredKey};

impl MixedSubject {
    pub(super) fn look(&self, name: TieredKey, cost: u64, now: Timestamp) -> Decision {
        let more = u64::from(self.fault == SubjectFault::StricterLook && cost > 0);
        self.peek(name, cost.saturating_add(more), now)
    }

    pub(super) fn decide(&self, name: TieredKey, cost: u64, now: Timestamp) -> Decision {
        let decision = self.check(name, cost, now);
        if let (SubjectFault::ChargeForgotten, Decision::Allowed(permit)) = (self.fault, &decision)
        {
            self.refund_at(name, permit.twin(), now);
        }
        decision
    }

    pub(super) fn settle(&self, name: TieredKey, cost: u64, now: Timestamp) -> u64 {
        if self.fault == SubjectFault::DebtStopsAtTwice {
            return self.settle_to_twice(name, cost, now);
        }
        let short = self.entry_at(name, now).charge(cost);
        if self.fault == SubjectFault::DebtForgiven && short < cost {
            self.entry_at(name, now).reset();
        }
        short
    }

    /// Charges no more than the units that are left and one further burst, whatever debt the policy names.
    fn settle_to_twice(&self, name: TieredKey, cost: u64, now: Timestamp) -> u64 {
        let told = self.peek(name, 0, now);
        let short = cost.saturating_sub(told.remaining().saturating_add(told.limit()));
        self.entry_at(name, now).charge(cost - short) + short
    }

    /// Gives a permit back. `then` is the time at which the permit was given.
    pub(super) fn give_back(
        &self,
        name: TieredKey,
        (permit, then): (Permit, Timestamp),
        now: Timestamp,
    ) -> u64 {
        if self.fault == SubjectFault::BackDrained {
            return self.refund_at(name, permit, then);
        }
        let (again, cost) = (permit.twin(), permit.cost());
        let back = self.entry_at(name, now).refund(permit);
        match self.fault {
            SubjectFault::BackTwice => {
                self.entry_at(name, now).refund(again);
                back
            }
            SubjectFault::ReportedLess => back.saturating_sub(1),
            SubjectFault::ReportedMore if back > 0 => cost,
            SubjectFault::OldWindowBack if back == 0 => self.force_back(name, cost, now),
            _ => back,
        }
    }

    /// Gives back up to `units` units: resets the limit, and charges the rest again.
    fn force_back(&self, name: TieredKey, units: u64, now: Timestamp) -> u64 {
        let decision = self.peek(name, 0, now);
        let used = decision.limit() - decision.remaining();
        let back = units.min(used);
        self.entry_at(name, now).reset();
        let _ = self.entry_at(name, now).charge(used - back);
        back
    }

    pub(super) fn undo(&self, name: TieredKey, place: BookedPlace, now: Timestamp) -> bool {
        let permit = place.reservation.permit().twin();
        match self.fault {
            SubjectFault::StaysCharged => true,
            SubjectFault::NeverCancelled => false,
            SubjectFault::UndoneByBits => {
                let same = self.drained_at(name, now) == place.left;
                same && self.refund_at(name, permit, place.charge.then()) > 0
            }
            SubjectFault::CancelledTwice => {
                let is_cancelled = self.entry_at(name, now).cancel(place.reservation);
                if is_cancelled {
                    self.entry_at(name, now).refund(permit);
                }
                is_cancelled
            }
            _ => self.entry_at(name, now).cancel(place.reservation),
        }
    }

    /// One step of a request that waits.
    pub(super) fn wait_on(
        &self,
        name: TieredKey,
        cost: u64,
        (waiter, now): (&mut WaitBudget, Timestamp),
    ) -> Result<WaitStep, Denial> {
        let turn = waiter.step(self.entry_at(name, now), cost);
        match (self.fault, turn) {
            (SubjectFault::ChargedAsleep, Ok(WaitStep::Later(pause))) => {
                let _ = self.entry_at(name, now).charge(1);
                Ok(WaitStep::Later(pause))
            }
            (SubjectFault::GivesUpAtOnce, Ok(WaitStep::Later(_))) => {
                Err(self.peek(name, cost, now).into_result().expect_err("it sleeps"))
            }
            // The reset forgets all that others have charged meanwhile.
            (SubjectFault::GoesUnasked, Ok(WaitStep::Later(pause))) => {
                self.entry_at(name, now + pause).reset();
                Ok(WaitStep::Later(pause))
            }
            (_, turn) => turn,
        }
    }

    /// The time at which a peek says that everything has drained.
    pub(super) fn drained_at(&self, name: TieredKey, now: Timestamp) -> Timestamp {
        now + self.peek(name, 0, now).reset_after()
    }

    /// Ends a lease of which some units were spent.
    pub(super) fn end_lease(&self, lease: Lease<'_>, units: u64, now: Timestamp) {
        let spent = units - lease.left();
        if self.own_clock() {
            drop(lease);
        } else {
            self.refund_at(TieredKey { key: 0, tier: 0 }, lease.into_unspent(), now);
        }
        if self.fault == SubjectFault::SpentComesBack
            && let Some(permit) = self.stranger(false, spent, now)
        {
            self.refund_at(TieredKey { key: 0, tier: 0 }, permit, now);
        }
    }

    pub(super) fn change(&self, tier: usize, policy: Policy, now: Timestamp) -> Option<bool> {
        let changed = self.set_quota(tier, policy, now);
        if self.fault == SubjectFault::ChangeForgives && changed == Some(true) {
            (0..KEYS).for_each(|key| self.entry_at(TieredKey { key, tier }, now).reset());
        }
        if self.fault == SubjectFault::SurplusForgotten && changed == Some(true) {
            // Only the units that the new quota can count are charged again.
            for name in (0..KEYS).map(|key| TieredKey { key, tier }) {
                let look = self.peek(name, 0, now);
                let used = look.limit() - look.remaining();
                if used > 0 {
                    self.entry_at(name, now).reset();
                    let _ = self.entry_at(name, now).charge(used);
                }
            }
        }
        changed
    }

    pub(super) fn carry(&self, from: TieredKey, to: TieredKey, now: Timestamp) -> Option<u64> {
        let moved = self.migrate(from.key, [from.tier, to.tier], now);
        if self.fault == SubjectFault::MoveForgives && moved.is_some() {
            self.entry_at(to, now).reset();
        }
        moved
    }
}
