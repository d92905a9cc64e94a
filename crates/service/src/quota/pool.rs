//! [`Pool`]: one limit, divided among the Envoys that ask for it. Reports and times are the only input of a pool: it
//! reads no clock, takes no lock and sends no messages.
//!
//! # What is divided
//! The limit is a token bucket: `K` tokens in each `F` seconds, of which `B` can be saved. A *lease* is an assignment
//! to one Envoy: a token bucket that gains `k` tokens in `F` seconds and holds at most `b`. Envoy puts `b` tokens into
//! it when the lease begins. An Envoy has one lease in force at a time. After a new lease was sent, this service does
//! not know for a while which of the two is in force.
//!
//! # The bound
//! Over any time t all Envoys together let through at most `t * K / F + B`. This follows from three rules:
//!
//! * The rate of a holder is the highest `k` among its leases that may be in force. The sum of these rates is at most
//!   `K`. The rest of `K` is saved in `stored`.
//! * When a lease is given, its `b` is taken from `stored`.
//! * The sum of `stored` and of the `b` of all leases that may be in force is at most `B`.
//!
//! So the tokens that Envoys hold were saved before, and no token is counted both in `stored` and at an Envoy.
//!
//! # When a lease is over
//! The time to live of a lease begins when it arrives at Envoy. The only assumption is that a message takes at most
//! [`DELAY`]. A lease may be in force until the first of these times:
//!
//! * Its time to live and `DELAY` have passed since it was last sent. The close of the stream does not end the lease:
//!   Envoy goes on with it.
//! * A report arrives at least two `DELAY`s after the lease's successor was sent: then the successor had arrived before
//!   the report left. Until that report, the higher rate of the two leases is counted, and the `b` of both.
//!
//! So when one Envoy gets less, another cannot get more until the smaller lease is known to be in force.
//!
//! If an assignment arrives after the previous one has ended, Envoy fills its bucket again, even if the two are equal.
//! So a lease is prolonged only while the message is certain to arrive before the lease ends. Later a new lease is
//! given, and its `b` is taken from `stored` again.
//!
//! # Over a restart
//! When a service stops, it assigns nothing any more and saves its pools ([`Pool::saved`]). The next service restores
//! these pools ([`Pool::restored`]). Old leases are counted until they are over, like the leases of closed streams. The
//! next service decides which new stream belongs to an Envoy that was there before, and that stream takes over the old
//! holder. This needs a second assumption: *if only one stream was open from an address, the next stream from there
//! belongs to the same Envoy*. If this is wrong, an old lease is in force without being counted, for at most
//! `IN_FORCE`. Envoys can then exceed the bound by the rate of that lease during this time, and by its `b` once. If
//! several streams were open from an address, nothing is assumed about them. The length of the restart is measured by
//! the system's clock, so this clock has to be right.
//!
//! The close of a stream is a message, too. So a lease has arrived, and can be prolonged, if it was last sent at least
//! two `DELAY`s before the service stopped, on a stream that was still open then. A lease that was sent later may be
//! lost. It is counted, with all earlier leases, until a report shows that a new lease has replaced it. The `b` of the
//! new lease is taken from `stored`.
//!
//! # How the limit is divided
//! Each holder gets a share in proportion to the requests that it has reported, allowed or not. The share is at least a
//! twentieth of an equal share, so that an Envoy whose clients come back can report their requests. Before its second
//! report, a holder gets an equal share. A share changes only if the new share differs by more than a twentieth,
//! because Envoy begins with a full bucket after each change. One thirty-second of the rate is not given out but saved.
//! It pays for such changes, and for Envoys that deny requests: an Envoy that denies gets saved tokens as a new full
//! bucket. A holder that does not report for a whole time to live is abandoned.

use super::allowance::{Allowance, SECOND};
use super::holder::{DELAY, Holder, IN_FORCE, Share, ShareLease, TIME_TO_LIVE_S};

mod restart;
#[cfg(test)]
mod tests;

/// One part in `SAVED` of the rate is not given out.
const SAVED: u32 = 32;

/// A share is changed only if the change is more than one part in `TOLERANCE` of the larger of the two shares, and more
/// than one part in ten times `TOLERANCE` of the rate that can be given.
const TOLERANCE: u64 = 20;

/// The least share is one part in `LEAST` of an equal share.
const LEAST: u64 = 20;

/// The maximum number of leases of one holder that may be in force.
const MAX_LEASES: usize = 3;

/// A message to a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The share, changed or not, is in force for a time to live from now on.
    Assign(Share),
    /// The service has forgotten the holder.
    Abandon,
}

/// A holder, and the message to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HolderAction {
    pub(crate) holder: u64,
    pub(crate) action: Action,
}

/// A limit and its holders. Times are nanoseconds of one clock. A time that is earlier than the one before it counts as
/// equal to it.
#[derive(Debug)]
pub(crate) struct Pool {
    allowance: Allowance,
    /// Saved tokens, in units of `1 / (F * 10^9)` tokens. In these units a rate of `k` tokens in `F` seconds is `k` per
    /// nanosecond.
    stored: u128,
    at: u64,
    /// Nothing is given before this time, because earlier leases may be in force.
    from: u64,
    holders: Vec<Holder>,
    #[cfg(test)]
    fault: Option<tests::Fault>,
}

impl Pool {
    /// Makes a pool that gives nothing before `from`.
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

    /// Replaces the limit. New shares are given after all leases under the old limit have ended.
    pub(crate) fn change(&mut self, allowance: Allowance, now: u64) {
        self.advance(now);
        let leases = self.holders.iter().flat_map(|holder| &holder.leases);
        let over = leases.map(|lease| lease.until).max().unwrap_or(0);
        let from = self.from.max(over);
        let holders = std::mem::take(&mut self.holders);
        let saved = self.stored / self.scale();
        let mut pool = Self::new(allowance, self.at, from);
        // Tokens that were spent stay spent.
        pool.stored = pool.stored.min(saved * pool.scale());
        pool.holders = holders.into_iter().filter(|holder| !holder.is_gone).collect();
        pool.holders.iter_mut().for_each(|holder| holder.leases.clear());
        *self = pool;
    }

    /// Takes a holder's report of the requests since its last report. Returns the messages to holders, in the order in
    /// which they must be sent.
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
        // A holder from before a restart is gone until its first report.
        holder.is_gone = false;
        holder.report(now, allowed, denied, found.is_none());
        holder.acknowledge(now);
        self.settle(Some(id))
    }

    /// Records that a holder's stream has closed, so that no message can reach the holder. Its leases run out.
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

    /// Lets time pass: leases end, holders that do not report are abandoned, and the free part is given out.
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

    /// Whether a new pool would be equal to this one, so that this one can be dropped.
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

    /// Saves the tokens of the rate that is not given out, up to the maximum, and forgets leases that are over. A lease
    /// that ended since the last call is counted up to `now`, which can only save less. Before `from` nothing is saved,
    /// since earlier leases may use the rate.
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

    /// Gives out the free part of the limit. The `reporter` is the holder that has just reported: only its lease may be
    /// prolonged.
    fn settle(&mut self, reporter: Option<u64>) -> Vec<HolderAction> {
        let mut actions = Vec::new();
        if self.at < self.from {
            return actions;
        }
        let weights = self.weights();
        let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        let mut given = self.given();
        // Shares that become smaller come first, since a smaller share needs tokens from `stored` but no free rate.
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

    /// The weight of each holder: 0 if the holder is gone or may not get a lease yet.
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

    /// The rate for a holder that is to have the rate `part`. It is less than that if too little is free.
    fn wanted(&self, holder: &Holder, part: u128, given: u32) -> u32 {
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        let free = self.max_given().saturating_sub(given);
        // Until a holder's demand is known, it gets at most half of the free rate, so that something is left for the
        // next new holder.
        let free = if holder.demand.is_none() { free.div_ceil(2) } else { free };
        part.min(holder.rate().saturating_add(free))
    }

    /// The tokens of a new bucket for this holder, and whether the holder gets this bucket because it denies and enough
    /// tokens are saved. All buckets together get half of the saved tokens, or an eighth of the burst if that is more.
    fn wanted_tokens(&self, holder: &Holder, part: &impl Fn(u128) -> u128) -> (u32, bool) {
        let usual = part(u128::from(self.allowance.burst) / 8).max(1);
        let saved = part(self.stored / self.scale() / 2);
        let tokens = u32::try_from(usual.max(saved)).unwrap_or(u32::MAX);
        (tokens, holder.denies && saved >= 2 * usual)
    }

    /// Gives a holder a lease with the rate `wanted`, if it differs enough from the current rate and `stored` has the
    /// tokens for the bucket. Otherwise prolongs the current lease.
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
        // Whether a message that is sent now is certain to arrive before the lease ends at Envoy.
        let is_sure = holder.is_sure;
        let in_time = |lease: &ShareLease| is_sure && at.saturating_add(2 * DELAY) < lease.until;
        #[cfg(test)]
        let in_time =
            |lease: &ShareLease| in_time(lease) || self.fault == Some(tests::Fault::IsLate);
        let current = holder.leases.last().filter(|lease| in_time(lease)).map(|lease| lease.share);
        let mut share = Share { per_fill: wanted, max_tokens };
        // A smaller share is sent at once. A larger share is sent only to a holder that has just reported or has no
        // lease.
        let is_reporter = reporter == Some(holder.id);
        let is_due = match current {
            None => is_reporter || holder.leases.is_empty(),
            Some(current) => {
                let (one, other) = (u64::from(wanted), u64::from(current.per_fill));
                let off = one.abs_diff(other);
                let is_off = off > tolerated && off * TOLERANCE > one.max(other);
                // Envoy would treat an equal bucket as the current one, and not fill it, so the new bucket must differ.
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
            // The reported denials happened under the previous lease.
            (holder.denies, holder.is_sure) = (false, true);
            return Some(HolderAction { holder: holder.id, action: Action::Assign(share) });
        }
        let id = holder.id;
        let lease = holder.leases.last_mut().filter(|_| is_reporter && current.is_some())?;
        // A lease with more than three quarters of its time left is not prolonged, because reports may come each second
        // or more often.
        if lease.until.saturating_sub(at) > IN_FORCE - IN_FORCE / 4 {
            return None;
        }
        lease.until = at.saturating_add(IN_FORCE);
        Some(HolderAction { holder: id, action: Action::Assign(lease.share) })
    }
}
