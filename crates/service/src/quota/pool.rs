//! [`Pool`]: one limit, divided among the Envoys that ask for it. A function of reports and times: no clock, no lock, no
//! message.
//!
//! # What is divided
//! The limit is a token bucket: `K` tokens in each `F` seconds, of which `B` can be saved. A *lease* is an assignment
//! to one Envoy: a token bucket of `k` tokens in `F` seconds and at most `b` at once, which Envoy fills with `b` at its
//! beginning. An Envoy has one lease at a time in force, but for a while it is not known which.
//!
//! # The bound
//! Over any time t all Envoys together let through at most `t * K / F + B`. It follows from one account:
//!
//! * The sum of all rates, of each holder the highest of its leases that may be in force, is at most `K`. What is left
//!   of `K` is saved in `stored`.
//! * The `b` of a lease is paid from `stored` when it is given.
//! * `stored` and all `b` that may be in force together are at most `B`.
//!
//! So tokens that Envoys hold are those that were saved, and no token is in both.
//!
//! # When a lease is over
//! Its time to live runs at Envoy from the moment that it arrives there. A message takes [`DELAY`] at most; that is the
//! one assumption. A lease may be in force
//!
//! * until its time to live and `DELAY` have passed since it was last sent. A stream that closes changes nothing: Envoy
//!   goes on with what it has;
//! * or until a report arrives two `DELAY`s after its successor was sent: then the successor had arrived when the
//!   report left. Until then the higher rate of the two counts, and both `b`.
//!
//! So less for one Envoy is not more for another until it is known to be in force.
//!
//! If an assignment arrives after the last one has ended, an Envoy fills its bucket again, even if the two are the same. So
//! a lease is prolonged only as long as the prolongation is certain to arrive in time. After that it is a new lease, and its
//! `b` is paid again.
//!
//! # Over a restart
//! When a service stops, it assigns nothing any more and saves its pools ([`Pool::saved`]). The next service begins with them
//! ([`Pool::restored`]). Leases that were given count until they are over, as those of closed streams do. The next service
//! decides which new stream belongs to an Envoy of before, and that stream takes over the holder of the old one.
//! This needs a second assumption: *if one stream was open from an address, the next stream from there is that of the same
//! Envoy*. If it is another Envoy's, the old lease is not counted while it is in force, for at most `IN_FORCE`. Envoys then let
//! through more by the rate of that lease, and by its `b` once. If several streams were open from an address, nothing is
//! assumed about them. The system's clock tells how long the restart took, so it has to be right.
//!
//! The close of a stream is a message, too. So if a lease was last sent two `DELAY`s before the end, on a stream that was open
//! then, it has arrived, and can be prolonged. A lease that was sent later may be lost. It counts, with all before it, until a
//! report shows that a new lease, which is paid, has replaced it.
//!
//! # Which holder gets how much
//! In proportion to what each has reported as asked for, allowed or not; at least a twentieth of an equal share, so
//! that an Envoy whose clients come back can say so; and an equal share before the second report. A share is changed
//! if it is off by a twentieth, because Envoy begins with a full bucket after each change. One thirty-second of the
//! rate is not given out but saved, for such changes, and for Envoys that deny: they get what is saved as a new full
//! bucket. A holder that does not report for a time to live is abandoned.

use super::allowance::{Allowance, SECOND};
use super::holder::{DELAY, Holder, IN_FORCE, Share, ShareLease, TIME_TO_LIVE_S};

mod restart;
#[cfg(test)]
mod tests;

/// One part in so many of the rate is not given out.
const SAVED: u32 = 32;

/// A share that is off by less than one part in so many stays, and so does one that is off by a tenth of that of all.
const TOLERANCE: u64 = 20;

/// The least share is one part in so many of an equal one.
const LEAST: u64 = 20;

/// The most leases of one holder that may be in force.
const MAX_LEASES: usize = 3;

/// What a holder is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// This is in force for a time to live from now on, whether it is new or as before.
    Assign(Share),
    /// It is not remembered any more.
    Abandon,
}

/// A holder, and what it is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HolderAction {
    pub(crate) holder: u64,
    pub(crate) action: Action,
}

/// A limit and its holders. Times are nanoseconds of one clock; an earlier time than before counts as that one.
#[derive(Debug)]
pub(crate) struct Pool {
    allowance: Allowance,
    /// Saved tokens, in units of which a token has `F * 10^9`: a rate of `k` is `k` of them in a nanosecond.
    stored: u128,
    at: u64,
    /// Nothing is given before: leases of before may be in force.
    from: u64,
    holders: Vec<Holder>,
    #[cfg(test)]
    fault: Option<tests::Fault>,
}

impl Pool {
    /// A pool that gives nothing before `from`.
    pub(crate) fn new(allowance: Allowance, now: u64, from: u64) -> Self {
        let mut pool = Self {
            allowance,
            stored: 0,
            at: now,
            from,
            holders: Vec::new(),
            #[cfg(test)]
            fault: None,
        };
        pool.stored = pool.tokens(allowance.burst);
        pool
    }

    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// Goes on under another limit. Leases under the old one end first; then everything is given anew.
    pub(crate) fn change(&mut self, allowance: Allowance, now: u64) {
        self.advance(now);
        let leases = self.holders.iter().flat_map(|holder| &holder.leases);
        let over = leases.map(|lease| lease.until).max().unwrap_or(0);
        let from = self.from.max(over);
        let holders = std::mem::take(&mut self.holders);
        let saved = self.stored / self.scale();
        let mut pool = Self::new(allowance, self.at, from);
        // What was spent stays spent.
        pool.stored = pool.stored.min(saved * pool.scale());
        pool.holders = holders.into_iter().filter(|holder| !holder.is_gone).collect();
        pool.holders.iter_mut().for_each(|holder| holder.leases.clear());
        *self = pool;
    }

    /// A report of what was asked for since the last one. Returns which holders are to be told what, in this order.
    pub(crate) fn report(
        &mut self,
        now: u64,
        id: u64,
        allowed: u64,
        denied: u64,
    ) -> Vec<HolderAction> {
        self.advance(now);
        let now = self.at;
        let found = self.holders.iter().position(|holder| holder.id == id);
        let place = found.unwrap_or_else(|| {
            self.holders.push(Holder::new(id, now));
            self.holders.len() - 1
        });
        let holder = &mut self.holders[place];
        // It may be a holder from before a restart that comes back.
        holder.is_gone = false;
        holder.report(now, allowed, denied, found.is_none());
        holder.acknowledge(now);
        self.settle(Some(id))
    }

    /// A stream has closed: nothing can be told there, and its leases run out.
    pub(crate) fn close(&mut self, now: u64, id: u64) -> Vec<HolderAction> {
        self.advance(now);
        for holder in self.holders.iter_mut().filter(|holder| holder.id == id) {
            holder.is_gone = true;
            #[cfg(test)]
            if self.fault == Some(tests::Fault::ForgetsTheClosed) {
                holder.leases.clear();
            }
        }
        self.settle(None)
    }

    /// Lets time pass: leases end, holders that do not report are abandoned, and what is free is given out.
    pub(crate) fn tick(&mut self, now: u64) -> Vec<HolderAction> {
        self.advance(now);
        let mut actions = Vec::new();
        let at = self.at;
        let is_silent = |one: &&mut Holder| at - one.reported >= TIME_TO_LIVE_S * SECOND;
        for holder in self.holders.iter_mut().filter(|one| !one.is_gone).filter(is_silent) {
            holder.is_gone = true;
            actions.push(HolderAction { holder: holder.id, action: Action::Abandon });
        }
        actions.extend(self.settle(None));
        self.holders.retain(|holder| !holder.is_gone || !holder.leases.is_empty());
        actions
    }

    /// Whether forgetting it changes nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.holders.is_empty()
            && self.at >= self.from
            && self.stored == self.tokens(self.allowance.burst)
    }

    fn scale(&self) -> u128 {
        u128::from(self.allowance.fill_s) * u128::from(SECOND)
    }

    fn tokens(&self, tokens: u32) -> u128 {
        u128::from(tokens) * self.scale()
    }

    /// The sum of the rates that may be in force.
    fn given(&self) -> u32 {
        self.holders.iter().map(Holder::rate).fold(0, u32::saturating_add)
    }

    /// Saves what was not given, up to what may be saved, and forgets leases that are over. Leases that ended meanwhile
    /// count to the end: that is more than they took. Before `from` nothing is saved, as leases of before may take it.
    fn advance(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.at.max(self.from));
        self.at = self.at.max(now);
        let left = u128::from(self.allowance.per_fill.saturating_sub(self.given()));
        let held = self.holders.iter().flat_map(|holder| &holder.leases);
        let held: u128 = held.map(|lease| self.tokens(lease.share.max_tokens)).sum();
        let most = self.tokens(self.allowance.burst).saturating_sub(held);
        self.stored = (self.stored + left * u128::from(elapsed)).min(most);
        for holder in &mut self.holders {
            holder.leases.retain(|lease| lease.until > self.at);
        }
    }

    /// Gives what is free. `reporter` has shown that it is there: what it has is in force for longer.
    fn settle(&mut self, reporter: Option<u64>) -> Vec<HolderAction> {
        let mut actions = Vec::new();
        if self.at < self.from {
            return actions;
        }
        let weights = self.weights();
        let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        let mut given = self.given();
        // What becomes less first: it needs nothing but tokens.
        for is_more in [false, true] {
            for (place, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0) {
                let part = |of: u128| of * u128::from(*weight) / all.max(1);
                let holder = &self.holders[place];
                let wanted = self.wanted(holder, part(u128::from(self.max_given())), given);
                let (before, current) = (holder.rate(), holder.leases.last());
                if is_more == (wanted > current.map_or(0, |lease| lease.share.per_fill)) {
                    let (max_tokens, has_plenty) = self.wanted_tokens(holder, &part);
                    actions.extend(self.serve(place, wanted, max_tokens, has_plenty, reporter));
                    given = given - before + self.holders[place].rate();
                }
            }
        }
        actions
    }

    fn max_given(&self) -> u32 {
        self.allowance.per_fill - self.allowance.per_fill.div_ceil(SAVED)
    }

    /// The weight of each holder; 0 for those that are gone.
    fn weights(&self) -> Vec<u64> {
        let here = || self.holders.iter().filter(|holder| !holder.is_gone);
        let known = here().filter_map(|holder| holder.demand);
        let (sum, number) =
            known.fold((0_u64, 0_u64), |(sum, number), one| (sum.saturating_add(one), number + 1));
        let mean = (sum / number.max(1)).max(1);
        let least = (mean / LEAST).max(1);
        let weight = |holder: &Holder| match holder.demand {
            _ if holder.is_gone || self.at < holder.from => 0,
            Some(demand) => demand.max(least),
            None => mean,
        };
        self.holders.iter().map(weight).collect()
    }

    /// The rate for a holder whose part is this, as far as it is free.
    fn wanted(&self, holder: &Holder, part: u128, given: u32) -> u32 {
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        let free = self.max_given().saturating_sub(given);
        // Another one may come before it is known what this one needs.
        let free = if holder.demand.is_none() { free.div_ceil(2) } else { free };
        part.min(holder.rate().saturating_add(free))
    }

    /// Half of what is saved, or an eighth of all that can be saved, for all together: tokens for a new bucket. With
    /// it, whether that is so much that a holder that denies should have it.
    fn wanted_tokens(&self, holder: &Holder, part: &impl Fn(u128) -> u128) -> (u32, bool) {
        let usual = part(u128::from(self.allowance.burst) / 8).max(1);
        let saved = part(self.stored / self.scale() / 2);
        let tokens = u32::try_from(usual.max(saved)).unwrap_or(u32::MAX);
        (tokens, holder.denies && saved >= 2 * usual)
    }

    /// Gives a holder this rate, if it is another, and tokens can be had for it; else prolongs what it has.
    fn serve(
        &mut self,
        place: usize,
        wanted: u32,
        max_tokens: u32,
        has_plenty: bool,
        reporter: Option<u64>,
    ) -> Option<HolderAction> {
        let (at, cost) = (self.at, self.tokens(max_tokens));
        let tolerated = u64::from(self.max_given()) / (10 * TOLERANCE);
        let holder = &mut self.holders[place];
        // Whether a message of now arrives before the lease is over at Envoy, at the earliest.
        let is_sure = holder.is_sure;
        let in_time = |lease: &ShareLease| is_sure && at.saturating_add(2 * DELAY) < lease.until;
        #[cfg(test)]
        let in_time =
            |lease: &ShareLease| in_time(lease) || self.fault == Some(tests::Fault::IsLate);
        let current = holder.leases.last().filter(|lease| in_time(lease)).map(|lease| lease.share);
        let mut share = Share { per_fill: wanted, max_tokens };
        // Less is told at once. More is for a holder that has just shown that it is there, or waits for its first.
        let is_reporter = reporter == Some(holder.id);
        let is_due = match current {
            None => is_reporter || holder.leases.is_empty(),
            Some(current) => {
                let (one, other) = (u64::from(wanted), u64::from(current.per_fill));
                let off = one.abs_diff(other);
                let is_off = off > tolerated && off * TOLERANCE > one.max(other);
                // Envoy takes an equal bucket for the same one, and does not fill it.
                share.per_fill -= u32::from(share == current && wanted > 1);
                let is_wanted = is_off && (is_reporter || one < other);
                (is_wanted || has_plenty && is_reporter) && share != current
            }
        };
        if is_due && wanted > 0 && cost <= self.stored && holder.leases.len() < MAX_LEASES {
            self.stored -= cost;
            #[cfg(test)]
            tests::plant(self.fault, &mut self.stored, cost, &mut holder.leases);
            holder.leases.push(ShareLease { share, since: at, until: at.saturating_add(IN_FORCE) });
            // What it denied was under the lease before.
            (holder.denies, holder.is_sure) = (false, true);
            return Some(HolderAction { holder: holder.id, action: Action::Assign(share) });
        }
        let id = holder.id;
        let lease = holder.leases.last_mut().filter(|_| is_reporter && current.is_some())?;
        // Not with every report: those come each second, or more often.
        if lease.until.saturating_sub(at) > IN_FORCE - IN_FORCE / 4 {
            return None;
        }
        lease.until = at.saturating_add(IN_FORCE);
        Some(HolderAction { holder: id, action: Action::Assign(lease.share) })
    }
}
