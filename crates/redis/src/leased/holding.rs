//! [`Holding`]: the units of one key that this process holds in leases. It also decides when the next lease is asked
//! for.
//!
//! A *lease* is a batch of units that the store has charged and this process spends. Every unit is charged before it
//! is spent, so a lost reply, a crash or a late reply can leave units unspent, but cannot admit a unit twice.
//!
//! A holding has no clock and no connection: all times are arguments, so that the simulation runs this very code.
//!
//! # How many units
//! The first lease has one unit. If a lease is spent within [`QUICK_NS`], the next one is twice as large. If spending
//! it took [`SLOW_NS`] or longer, or if it expired, the next one is half as large. A lease is no larger than half of
//! what a node may hold, and the store grants no more than half of what is left. So leases shrink to single units as
//! the limit comes near. There is one exception: if a request needs more units, its lease has all units that it lacks.
//!
//! # How long a lease lasts
//! A lease ends after [`LIFE_NS`], or with the window in which it was charged. This process counts both times by its
//! own clock, from the moment at which it *asked for* the lease, which is before the store charged it. It shortens both
//! by a thousandth, since two steady clocks drift apart by less than that.

use crate::error::Fault;
pub(crate) use crate::leased::terms::{
    Beyond, ChargeStamp, EndedUnits, Expired, Glance, Grant, LeaseWant, LeasedUnits, Lent, Spend,
    Terms,
};
use crate::leased::terms::{LIFE_NS, StoreDenial};
use crate::leased::unit_pool::MAX_UNITS;

/// If a lease is spent in less time, the next lease is larger.
const QUICK_NS: u64 = 50_000_000;
/// If a lease is spent in this time or more, the next lease is smaller.
const SLOW_NS: u64 = 500_000_000;
/// With fewer units it is not worth filling a pool.
const LEAST_LENT: u64 = 4;
/// If the store has fewer units left than a lease divided by `DREGS`, no lease is asked for ahead of time for a while:
/// see `granted`.
const DREGS: u64 = 16;

/// The units of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holding {
    /// The leases. The lease at index 0 is spent first, and also ends first.
    leases: [LeasedUnits; 2],
    want: u64,
    asking: bool,
    /// True if the units that are asked for were charged before the key was forgotten. They are not entered.
    void: bool,
    /// The number of events that make the answer to an earlier peek out of date: requests for a lease or a peek,
    /// charges without a lease, and resets. If two looks find the same number, there was no such event in between.
    asks: u64,
    denied: Option<StoreDenial>,
    failed: Option<(u64, Fault)>,
    beyond: Beyond,
    /// The number of the policy that `beyond` belongs to; `None` until the store has answered.
    seen: Option<u64>,
    /// Units that expired before they were spent, and are not given back yet.
    expired: Expired,
    /// Units that the store charged directly, without a lease, while a lease was on its way. The store's answer about
    /// that lease may not include this charge.
    beside: u64,
}

impl Holding {
    /// Decides a request of `cost` units that came at `came_ns`. The cost is at least 1.
    pub(crate) fn spend(&mut self, terms: Terms, cost: u64, came_ns: u64, now_ns: u64) -> Spend {
        self.end_older(terms.era, now_ns);
        let held = self.left();
        let failed = self.failed.filter(|(at_ns, _)| *at_ns >= came_ns);
        // A limiter that still has an older policy asks the store before it spends units of the newer policy, since its
        // decision has to report the units that are left under the older policy.
        if held >= cost && (self.seen == Some(terms.era) || failed.is_some()) {
            let stamp = self.take(cost, terms, now_ns);
            return Spend::Spent { stamp, more: self.prefetch(terms, now_ns) };
        }
        if held >= cost && !self.asking {
            return self.ask(LeaseWant { want: 0, least: 0 });
        }
        let least = cost.saturating_sub(held);
        if let Some(denied) = self.denied
            && (denied.era == terms.era && now_ns < denied.again_ns && least >= denied.least)
        {
            return Spend::Denied { retry_ns: denied.until_ns - now_ns };
        }
        if let Some((_, fault)) = failed {
            return Spend::Failed(fault);
        }
        if self.asking {
            return Spend::Wait;
        }
        self.ask(LeaseWant { want: self.want.clamp(1, terms.largest()).max(least), least })
    }

    fn ask(&mut self, want: LeaseWant) -> Spend {
        self.asking = true;
        self.asks += 1;
        Spend::Ask(want)
    }

    /// Enters the units that the store has left. The caller makes sure that no other units were on their way from the
    /// store when it answered.
    pub(crate) fn see(&mut self, terms: Terms, beyond: Beyond) {
        let remaining = beyond.remaining.saturating_sub(std::mem::take(&mut self.beside));
        (self.beyond, self.seen) = (Beyond { remaining, ..beyond }, Some(terms.era));
    }

    /// Notes that a request was charged to the store and not to a lease, as requests under several limits are. Like a
    /// request for a lease, this raises `asks`, since the answer to an earlier peek does not include the charge.
    pub(crate) fn charged_beside(&mut self, units: u64) {
        self.asks += 1;
        self.beside += if self.asking { units } else { 0 };
        self.beyond.remaining = self.beyond.remaining.saturating_sub(units);
    }

    /// Enters the answer to a peek. A limiter peeks before it spends units that were charged under another policy.
    pub(crate) fn seen(&mut self, terms: Terms, beyond: Beyond) {
        if !self.is_void() {
            self.see(terms, beyond);
        }
    }

    /// Ends the request that is under way. Returns true if its answer is from before the key was forgotten.
    fn is_void(&mut self) -> bool {
        self.asking = false;
        std::mem::take(&mut self.void)
    }

    /// Enters a lease that the store has granted.
    pub(crate) fn granted(&mut self, terms: Terms, grant: Grant, now_ns: u64) {
        // The store has forgotten the charge of this lease, or the lease was charged just after that. Nobody knows
        // which, so it is neither spent nor given back.
        if self.is_void() {
            return;
        }
        // If the limit has next to nothing left, no lease is asked for ahead of time, since each call would get only
        // the one unit that has just come back. The store is still asked when a caller needs the units that are left.
        let remaining = grant.beyond.remaining;
        let is_drained = remaining < self.want / DREGS;
        let beyond = remaining.saturating_add(1);
        self.denied = is_drained.then(|| StoreDenial::new(terms, beyond, 0, now_ns));
        self.see(terms, grant.beyond);
        let life_ns = grant.turns_ns.map_or(LIFE_NS, |turns_ns| turns_ns.min(LIFE_NS));
        let until_ns = grant.asked_ns.saturating_add(life_ns - life_ns / 1_000);
        self.expire(now_ns);
        let new = LeasedUnits {
            left: grant.units,
            taken: grant.units,
            since_ns: now_ns,
            until_ns,
            stamp: ChargeStamp { at: grant.stamp, us: grant.charged_us, era: terms.era },
        };
        let [first, second] = &mut self.leases;
        if first.left == 0 {
            *first = new;
        } else if second.left == 0 {
            *second = new;
        } else {
            // Both leases have some units left, but together they had too few for a large request. The new lease is
            // merged into the second lease. The merged lease ends when the earlier of the two would have ended.
            second.left += new.left;
            second.taken += new.taken;
            second.until_ns = second.until_ns.min(until_ns);
            second.stamp = second.stamp.min(new.stamp);
        }
        self.leases.sort_by_key(|lease| (lease.left == 0, lease.until_ns));
    }

    /// Enters a denial: the store has denied `least` units, which would fit after `retry_ns`. `beyond` holds the units
    /// that the store has left.
    pub(crate) fn denied(
        &mut self,
        terms: Terms,
        least: u64,
        beyond: Beyond,
        retry_ns: u64,
        now_ns: u64,
    ) {
        if !self.is_void() {
            self.see(terms, beyond);
            self.denied = Some(StoreDenial::new(terms, least, retry_ns, now_ns));
        }
    }

    /// Notes that the store did not answer, or that the request for a lease was dropped.
    pub(crate) fn failed(&mut self, fault: Fault, now_ns: u64) {
        _ = self.is_void();
        self.failed = Some((now_ns, fault));
    }

    /// The units in both leases. Units that have expired are included until the next call of `expire`.
    pub(crate) fn left(&self) -> u64 {
        self.leases[0].left.saturating_add(self.leases[1].left)
    }

    /// The units that the limit has left, as this node knows them: the units of its own leases, and those of the
    /// store's last answer.
    pub(crate) fn known(&self, terms: Terms) -> Beyond {
        let beyond = if self.seen == Some(terms.era) { self.beyond } else { Beyond::default() };
        Beyond { remaining: beyond.remaining.saturating_add(self.left()), ..beyond }
    }

    /// The units and requests of the holding at this moment, without expired units.
    pub(crate) fn glance(&mut self, now_ns: u64) -> Glance {
        self.expire(now_ns);
        let has_expired = self.expired[0].units > 0;
        Glance { left: self.left(), asking: self.asking, asks: self.asks, has_expired }
    }

    /// Lends units of the first lease to the pools, where threads spend them without this holding. Some units stay in
    /// the holding. When the pools run out, requests come to the holding for these units, so the holding notices in
    /// time that the next lease is due, or that this lease is spent. Lent units that are left over are
    /// [put back](Holding::put_back) before anything else is done with the holding.
    pub(crate) fn lend(&mut self) -> Option<Lent> {
        let era = self.seen?;
        let is_last = self.leases[1].left == 0 && !self.asking;
        let stay = if is_last { (self.want / 4).max(1) } else { 1 };
        let [first, _] = &mut self.leases;
        let units = first.left.saturating_sub(stay).min(MAX_UNITS);
        if units < LEAST_LENT {
            return None;
        }
        first.left -= units;
        let (until_ns, stamp) = (first.until_ns, first.stamp.of(era));
        // The limit's remaining units include those that stay in the holding.
        let remaining = self.beyond.remaining.saturating_add(self.left());
        Some(Lent { units, until_ns, stamp, era, beyond: Beyond { remaining, ..self.beyond } })
    }

    /// Takes back the lent units that were not spent.
    pub(crate) fn put_back(&mut self, units: u64) {
        self.leases[0].left += units;
    }

    /// Spends up to `units`, if the store's last answer is for this policy. Returns the number of units spent, and the
    /// stamp of their charge.
    pub(crate) fn take_up_to(&mut self, terms: Terms, units: u64, now_ns: u64) -> (u64, u64) {
        self.expire(now_ns);
        let taken = units.min(self.left());
        if taken == 0 || self.seen != Some(terms.era) {
            return (0, 0);
        }
        (taken, self.take(taken, terms, now_ns))
    }

    /// Drops all units, and the store's answers.
    pub(crate) fn forget(&mut self) {
        let Self { want, asking, asks, .. } = *self;
        // The answer to an earlier peek would be about the forgotten state. Raising `asks` makes that answer invalid.
        *self = Self { want, asking, void: asking, asks: asks + 1, ..Self::default() };
    }

    /// Whether the key can be forgotten without losing units or a denial.
    pub(crate) fn is_idle(&mut self, now_ns: u64) -> bool {
        self.expire(now_ns);
        let is_denied = self.denied.is_some_and(|denied| now_ns < denied.again_ns);
        self.left() == 0 && !self.asking && !is_denied
    }

    /// Takes the units that have expired since the last call. The caller gives them back.
    pub(crate) fn take_expired(&mut self) -> Expired {
        std::mem::take(&mut self.expired)
    }

    /// Ends the leases of policies older than `era`. Their units are then given back as if they had expired, because
    /// the store charged them under a policy that is no longer in force.
    pub(crate) fn end_older(&mut self, era: u64, now_ns: u64) {
        for lease in &mut self.leases {
            if lease.left > 0 && lease.stamp.era < era {
                lease.until_ns = now_ns;
            }
        }
        self.expire(now_ns);
    }

    /// For a planted mistake: the store's last denial still denies a cost, although units have come back since.
    #[cfg(test)]
    pub(crate) fn denial(&self, cost: u64, now_ns: u64) -> Option<Spend> {
        let denied =
            self.denied.filter(|denied| now_ns < denied.again_ns && cost >= denied.least)?;
        Some(Spend::Denied { retry_ns: denied.until_ns - now_ns })
    }

    /// Notes that the limit got units back in the store. They do not come to this holding, but a cost that the store
    /// denied before may fit now, so the denial is forgotten.
    pub(crate) fn returned(&mut self) {
        self.denied = None;
    }

    /// Ends all leases. Returns the units left in each lease and the stamp of their charge. The caller gives them back.
    pub(crate) fn end(&mut self, now_ns: u64) -> Expired {
        self.expire(now_ns);
        std::mem::take(&mut self.leases)
            .map(|lease| EndedUnits { units: lease.left, stamp: lease.stamp })
    }

    fn expire(&mut self, now_ns: u64) {
        for n in 0..2 {
            let lease = &mut self.leases[n];
            if lease.left > 0 && now_ns >= lease.until_ns {
                let [first, second] = &mut self.expired;
                let EndedUnits { units, stamp } = if first.units == 0 { first } else { second };
                *stamp = if *units == 0 { lease.stamp } else { lease.stamp.min(*stamp) };
                *units += lease.left;
                lease.left = 0;
                // Expired units come back to the limit, so a cost that was denied before may fit now.
                self.denied = None;
                self.want = (self.want / 2).max(1);
            }
        }
        if self.leases[0].left == 0 {
            self.leases.swap(0, 1);
        }
    }

    /// Spends units of the leases, and returns the stamp of the first lease.
    fn take(&mut self, cost: u64, terms: Terms, now_ns: u64) -> u64 {
        let [first, second] = &mut self.leases;
        let stamp = first.stamp.of(terms.era);
        let here = cost.min(first.left);
        first.left -= here;
        second.left -= cost - here;
        if first.left == 0 {
            let took_ns = now_ns.saturating_sub(first.since_ns);
            self.want = match took_ns {
                ..QUICK_NS => (first.taken.saturating_mul(2)).max(self.want).min(terms.largest()),
                QUICK_NS..SLOW_NS => self.want,
                _ => (self.want / 2).max(1),
            };
            self.leases.swap(0, 1);
        }
        stamp
    }

    /// Asks for the next lease when a quarter of a lease is left, so that the next lease has arrived by the time that
    /// quarter is spent.
    fn prefetch(&mut self, terms: Terms, now_ns: u64) -> Option<LeaseWant> {
        let held = self.left();
        let quiet = self.denied.is_some_and(|denied| now_ns < denied.again_ns)
            || self.failed.is_some_and(|(at_ns, _)| now_ns < at_ns.saturating_add(terms.poll_ns));
        let due = self.want > 3 && held <= self.want / 4 && self.leases[1].left == 0;
        if self.asking || quiet || !due {
            return None;
        }
        self.asking = true;
        self.asks += 1;
        let want = self.want.min(terms.largest());
        Some(LeaseWant { want, least: 1 })
    }
}

#[cfg(test)]
mod tests;
