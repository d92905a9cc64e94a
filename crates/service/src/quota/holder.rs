//! [`Holder`]: one bucket of one Envoy, with its demand and the leases that may be in force there.

use super::allowance::SECOND;

/// The time for which an assignment is in force at Envoy, in whole seconds, as Envoy requires. Envoy reports twice in
/// this time.
pub(crate) const TIME_TO_LIVE_S: u64 = 10;

/// The maximum time, in nanoseconds, that a message is assumed to take between Envoy and this service.
pub(super) const DELAY: u64 = SECOND;

/// The maximum time for which a lease may be in force after it was sent, in nanoseconds.
pub(super) const IN_FORCE: u64 = TIME_TO_LIVE_S * SECOND + DELAY;

/// The weight of the earlier demand in the average, in nanoseconds: it counts as much as a report that covers this
/// time. Envoy's reports cover 5 s.
const MEMORY: u64 = SECOND;

/// The share of an Envoy: a token bucket, filled at the fill interval of the pool's allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) per_fill: u32,
    pub(crate) max_tokens: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ShareLease {
    pub(super) share: Share,
    pub(super) since: u64,
    /// The time when the lease is certainly over.
    pub(super) until: u64,
}

/// One bucket of one Envoy.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) id: u64,
    /// The demand in thousandths of a request per second; `None` before the second report.
    pub(super) demand: Option<u64>,
    /// Requests since the demand was last computed.
    pub(super) asked: u64,
    pub(super) measured: u64,
    pub(super) reported: u64,
    /// Whether the last report contained denials.
    pub(super) denies: bool,
    /// All leases that may be in force, the newest last.
    pub(super) leases: Vec<ShareLease>,
    /// Set if no message can reach the holder: its stream has closed, it was abandoned, or it has not come back after a
    /// restart. Its leases may still be in force.
    pub(super) is_gone: bool,
    /// Whether the last message about the newest lease has arrived or is certain to arrive.
    pub(super) is_sure: bool,
    /// The holder gets no lease before this time, because it may still have a lease from before a restart, and the
    /// service does not know whose lease that is.
    pub(super) from: u64,
}

impl Holder {
    pub(super) fn new(id: u64, now: u64) -> Self {
        Self {
            id,
            demand: None,
            asked: 0,
            measured: now,
            reported: now,
            denies: false,
            leases: Vec::new(),
            is_gone: false,
            is_sure: true,
            from: 0,
        }
    }

    /// The highest rate among the leases that may be in force.
    pub(super) fn rate(&self) -> u32 {
        self.leases.iter().map(|lease| lease.share.per_fill).max().unwrap_or(0)
    }

    pub(super) fn report(&mut self, now: u64, allowed: u64, denied: u64, is_first: bool) {
        (self.reported, self.denies) = (now, denied > 0);
        self.asked = self.asked.saturating_add(allowed).saturating_add(denied);
        let elapsed = now - self.measured;
        // Envoy sometimes reports early, after a time too short to measure a rate. The first report covers no time.
        if is_first || elapsed < SECOND / 4 {
            return;
        }
        let rate = u128::from(self.asked) * 1_000 * u128::from(SECOND) / u128::from(elapsed);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let (new, old) = (u128::from(elapsed), u128::from(MEMORY));
        let mixed = |before: u64| {
            let sum = u128::from(rate) * new + u128::from(before) * old;
            u64::try_from(sum / (new + old)).unwrap_or(u64::MAX)
        };
        self.demand = Some(self.demand.map_or(rate, mixed));
        (self.asked, self.measured) = (0, now);
    }

    /// Forgets the leases that have certainly been replaced, now that a report has arrived at `now`: see the head of
    /// [`super::pool`].
    pub(super) fn acknowledge(&mut self, now: u64) {
        let arrived = |lease: &ShareLease| now >= lease.since.saturating_add(2 * DELAY);
        let newest = self.leases.iter().rposition(arrived).unwrap_or(0);
        self.leases.drain(..newest);
    }
}
