//! A simulated node. It consists of parts of the library, a clock that drifts and a link that fails.

use std::time::Duration;

use tokio::time::Instant;
use tollgate::Timestamp;

use crate::error::Fault;
use crate::leased::holding::{Beyond, Grant, Holding, LeaseWant, Spend, Terms};
use crate::script::Units;
use crate::share::LocalShare;
use crate::store::backoff::Backoff;
use crate::store::health::Health;

use super::server::LeaseReply;

/// A request that waits for a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) cost: u64,
    pub(super) came_ns: u64,
}

/// An action that a node asks the world to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeWish {
    /// To send a request for a lease.
    Lease(LeaseWant),
    /// To try to connect again after this time.
    Probe(Duration),
}

/// A request for a lease that was sent: its number among the node's requests, and the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentAsk {
    pub(super) number: u64,
    pub(super) sent_ns: u64,
}

#[derive(Debug)]
pub(super) struct LeaseNode {
    holding: Holding,
    share: LocalShare,
    health: Health,
    backoff: Backoff,
    terms: Terms,
    pub(super) waiters: Vec<Waiter>,
    /// The request for a lease that is under way.
    pub(super) asking: Option<SentAsk>,
    asked: u64,
    missed: u32,
    /// How fast or slow the node's clock is, in millionths.
    drift_ppm: i64,
    pub(super) reachable: bool,
    pub(super) by_share: u64,
    /// The number of times that the process has started. Each of these *lives* begins with a full share.
    pub(super) lives: u64,
    isolated_before: Duration,
}

/// The instant at which all clocks read 0.
fn origin() -> Instant {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// What a node decided at one moment: the admitted units, and the actions that it asks for.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) by_store: u64,
    pub(super) by_share: u64,
    pub(super) wishes: Vec<NodeWish>,
}

impl LeaseNode {
    pub(super) fn new(share: LocalShare, terms: Terms, seed: u64, drift_ppm: i64) -> Self {
        let health = Health::new(origin());
        health.rise(origin());
        Self {
            holding: Holding::default(),
            share,
            health,
            backoff: Backoff::seeded(seed),
            terms,
            waiters: Vec::new(),
            asking: None,
            asked: 0,
            missed: 0,
            drift_ppm,
            reachable: true,
            by_share: 0,
            lives: 1,
            isolated_before: Duration::ZERO,
        }
    }

    /// The reading of the node's own clock.
    fn clock(&self, now_ns: u64) -> u64 {
        let drift = i128::from(now_ns) * i128::from(self.drift_ppm) / 1_000_000;
        u64::try_from(i128::from(now_ns) + drift).unwrap()
    }

    fn instant(&self, now_ns: u64) -> Instant {
        origin() + Duration::from_nanos(self.clock(now_ns))
    }

    pub(super) fn is_up(&self) -> bool {
        self.health.is_up()
    }

    pub(super) fn held(&self) -> u64 {
        self.holding.left()
    }

    /// The time in isolation over all lives of the node.
    pub(super) fn isolated_ns(&self, now_ns: u64) -> u64 {
        let life = self.health.isolated(self.instant(now_ns)) - Timestamp::default();
        u64::try_from((self.isolated_before + life).as_nanos()).unwrap()
    }

    /// Handles a request that arrives.
    pub(super) fn arrive(&mut self, cost: u64, now_ns: u64) -> Outcomes {
        self.waiters.push(Waiter { cost, came_ns: self.clock(now_ns) });
        self.turn(now_ns)
    }

    /// Decides those waiting requests that can be decided now.
    pub(super) fn turn(&mut self, now_ns: u64) -> Outcomes {
        let mut outcomes = Outcomes::default();
        let clock_ns = self.clock(now_ns);
        for waiter in std::mem::take(&mut self.waiters) {
            let Waiter { cost, came_ns } = waiter;
            match self.holding.spend(self.terms, cost, came_ns, clock_ns) {
                Spend::Spent { more, .. } => {
                    outcomes.by_store += cost;
                    outcomes.wishes.extend(more.map(NodeWish::Lease));
                    self.ask(more, now_ns);
                }
                Spend::Denied { .. } => {}
                Spend::Ask(want) => {
                    outcomes.wishes.push(NodeWish::Lease(want));
                    self.ask(Some(want), now_ns);
                    self.waiters.push(waiter);
                }
                Spend::Wait => self.waiters.push(waiter),
                Spend::Failed(_) => outcomes.by_share += self.fall_back(cost, now_ns),
            }
        }
        outcomes
    }

    fn ask(&mut self, want: Option<LeaseWant>, now_ns: u64) {
        if want.is_some() {
            self.asked += 1;
            self.asking = Some(SentAsk { number: self.asked, sent_ns: now_ns });
        }
    }

    /// Decides within the share; returns the units that were admitted.
    pub(super) fn fall_back(&mut self, cost: u64, now_ns: u64) -> u64 {
        let isolated = self.health.isolated(self.instant(now_ns));
        let told = self.share.take(b"key", Units::exactly(cost), isolated);
        let units = if told.allowed { cost } else { 0 };
        self.by_share += units;
        units
    }

    /// Handles a reply that arrives. `None` if the node no longer waits for that reply.
    pub(super) fn reply(
        &mut self,
        ask: u64,
        want: LeaseWant,
        lent: LeaseReply,
        now_ns: u64,
    ) -> Option<Outcomes> {
        let sent_ns = self.asking.filter(|sent| sent.number == ask)?.sent_ns;
        self.asking = None;
        self.missed = 0;
        self.enter(want, lent, sent_ns, now_ns);
        Some(self.turn(now_ns))
    }

    pub(super) fn enter(&mut self, want: LeaseWant, lent: LeaseReply, asked_ns: u64, now_ns: u64) {
        let clock_ns = self.clock(now_ns);
        let beyond =
            Beyond { remaining: lent.remaining, reset_ns: clock_ns + lent.reset_us * 1_000 };
        if lent.units == 0 {
            let retry_ns = lent.retry_us * 1_000;
            self.holding.denied(self.terms, want.least, beyond, retry_ns, clock_ns);
        } else {
            let asked_ns = self.clock(asked_ns);
            let grant = Grant {
                units: lent.units,
                asked_ns,
                turns_ns: None,
                stamp: 0,
                charged_us: 0,
                beyond,
            };
            self.holding.granted(self.terms, grant, clock_ns);
        }
    }

    /// Handles a reply that did not come in time, or a broken link.
    pub(super) fn fail(&mut self, fault: Fault, now_ns: u64) -> Outcomes {
        self.asking = None;
        self.missed += 1;
        self.holding.failed(fault, self.clock(now_ns));
        let mut wish = None;
        if self.is_up() && (self.missed >= 3 || fault != Fault::Deadline) {
            self.health.fall(self.instant(now_ns));
            wish = Some(NodeWish::Probe(self.backoff.next()));
        }
        let mut outcomes = self.turn(now_ns);
        outcomes.wishes.extend(wish);
        outcomes
    }

    /// Handles the end of a probe: `answered` says whether the store answered it.
    pub(super) fn probed(&mut self, answered: bool, now_ns: u64) -> Option<NodeWish> {
        if answered {
            self.missed = 0;
            self.health.rise(self.instant(now_ns));
            self.backoff.reset();
            return None;
        }
        Some(NodeWish::Probe(self.backoff.next()))
    }

    /// Starts the process anew, without any leases.
    pub(super) fn restart(&mut self, share: LocalShare, now_ns: u64) {
        self.isolated_before = Duration::from_nanos(self.isolated_ns(now_ns));
        self.health = Health::new(self.instant(now_ns));
        self.health.rise(self.instant(now_ns));
        self.holding = Holding::default();
        self.share = share;
        self.waiters.clear();
        self.asking = None;
        self.missed = 0;
        self.lives += 1;
    }

    /// For a planted mistake: fills the share again.
    pub(super) fn refill_share(&mut self, share: LocalShare) {
        self.share = share;
    }
}
