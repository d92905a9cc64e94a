//! The simulated world. It carries out events in the order of their times, among them the faults of nodes, links and
//! the server.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate::{Policy, Quota};

use crate::error::Fault;
use crate::leased::holding::{LeaseWant, Terms};
use crate::script::plan::ScriptPlan;
use crate::settings::Settings;
use crate::share::LocalShare;
use crate::store::backoff::mixed;

use super::audit::Audit;
use super::node::{LeaseNode, NodeWish, Outcomes, SentAsk};
use super::server::{LeaseReply, Server};

const MS: u64 = 1_000_000;
const DEADLINE_NS: u64 = 5 * MS;

/// A mistake that a test plants, to see that the audit finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseFlaw {
    /// A reply is entered twice.
    ReplyTwice,
    /// A node's share is full again in every outage.
    ShareRefilled,
    /// A lease is spent before the store has charged it.
    SpentBeforeCharged,
    /// The store forgets units that are not counted as a loss.
    SilentLoss,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    seed: u64,
    storms: bool,
    /// True if the nodes ask for four times the limit.
    saturated: bool,
    flaw: Option<LeaseFlaw>,
    scale: Option<WorldSize>,
}

/// A given size of a world, instead of a random size.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorldSize {
    pub(super) nodes: u64,
    /// The limit in units per second. The burst is the same number of units.
    pub(super) rate: u64,
    /// The load, in tenths of the rate.
    pub(super) load: u64,
}

impl Setup {
    pub(super) fn scaled(seed: u64, scale: WorldSize) -> Self {
        Self { scale: Some(scale), ..Self::calm(seed) }
    }

    pub(super) fn stormy(seed: u64) -> Self {
        Self { seed, storms: true, saturated: false, flaw: None, scale: None }
    }

    pub(super) fn flawed(self, flaw: LeaseFlaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    pub(super) fn calm(seed: u64) -> Self {
        Self { seed, storms: false, saturated: false, flaw: None, scale: None }
    }

    pub(super) fn saturated(seed: u64) -> Self {
        Self { saturated: true, ..Self::calm(seed) }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct LeaseOutcome {
    pub(super) violation: Option<String>,
    pub(super) nodes: u64,
    pub(super) requests: u64,
    pub(super) admitted: u64,
    pub(super) by_shares: u64,
    pub(super) bound: u64,
    /// The units in leases at the end.
    pub(super) held: u64,
    pub(super) calls: u64,
    pub(super) losses: u64,
    pub(super) crashes: u64,
    pub(super) partitions: u64,
    pub(super) late: u64,
}

#[derive(Clone, Copy, Debug)]
enum LeaseEvent {
    Request {
        node: usize,
    },
    /// A request arrives at the server.
    Asked {
        node: usize,
        ask: u64,
        want: LeaseWant,
    },
    Replied {
        node: usize,
        ask: u64,
        want: LeaseWant,
        lent: LeaseReply,
    },
    /// The deadline of a request passes.
    Due {
        node: usize,
        ask: u64,
    },
    Probe {
        node: usize,
    },
    Heal {
        node: usize,
    },
    Storm,
    Restart,
}

struct LeaseWorld {
    now_ns: u64,
    setup: Setup,
    random: u64,
    quota: Quota,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    pending: Vec<LeaseEvent>,
    nodes: Vec<LeaseNode>,
    server: Server,
    audit: Audit,
    outcome: LeaseOutcome,
    /// The mean time between two requests of a node.
    gap_ns: u64,
    in_flight: u64,
}

/// Runs one world for a few seconds of its own time.
pub(super) fn run(setup: Setup) -> LeaseOutcome {
    let mut world = LeaseWorld::new(setup);
    let end_ns = if setup.storms || setup.saturated { 4_000 * MS } else { 2_000 * MS };
    while let Some(Reverse((at_ns, _, index))) = world.events.pop() {
        if at_ns > end_ns || world.audit.violation.is_some() {
            break;
        }
        world.now_ns = at_ns;
        let event = world.pending[index];
        world.happen(event);
    }
    world.finish(end_ns)
}

impl LeaseWorld {
    fn new(setup: Setup) -> Self {
        let mut random = mixed(setup.seed);
        let mut draw = |below: u64| {
            random = mixed(random);
            random % below
        };
        let count = setup.scale.map_or(3 + draw(48), |scale| scale.nodes);
        let rates = if setup.saturated { [100, 300, 1_000] } else { [20, 100, 1_000] };
        let rate = rates[usize::try_from(draw(3)).unwrap()];
        let rate = setup.scale.map_or(rate, |scale| scale.rate);
        let smallest = if setup.saturated { rate / 2 } else { 1 };
        let bursts = [smallest, rate / 10, rate, 2 * rate];
        let burst = bursts[usize::try_from(draw(4)).unwrap()].max(smallest);
        let burst = setup.scale.map_or(burst, |scale| scale.rate);
        let quota = Quota::per_second(rate).burst(burst);
        let policy = Policy::from(quota);
        let plan = ScriptPlan::new(policy).unwrap();
        let held = Settings::new(policy).nodes(count).held();
        let terms = Terms::new(held, plan.drain_us(burst) * 1_000);
        let nodes = (0..count)
            .map(|_| {
                let share = LocalShare::new(&plan, count, 1).unwrap();
                let (seed, ppm) = (draw(u64::MAX), draw(401));
                LeaseNode::new(share, terms, seed, i64::try_from(ppm).unwrap() - 200)
            })
            .collect();
        // The load is between a tenth of the limit and four times the limit.
        let load = if setup.saturated { 40 } else { 1 + draw(40) };
        let load = setup.scale.map_or(load, |scale| scale.load);
        let gap_ns = 10_000_000_000 * count / (rate * load);
        let outcome = LeaseOutcome { nodes: count, ..LeaseOutcome::default() };
        let (server, audit) = (Server::new(plan), Audit::new(quota, count));
        let (events, pending) = (BinaryHeap::new(), Vec::new());
        let mut world = Self {
            now_ns: 0,
            setup,
            random,
            quota,
            events,
            pending,
            nodes,
            server,
            audit,
            outcome,
            gap_ns,
            in_flight: 0,
        };
        for node in 0..world.nodes.len() {
            let wait_ns = world.draw(2 * world.gap_ns);
            world.later(wait_ns, LeaseEvent::Request { node });
        }
        if setup.storms {
            world.later(0, LeaseEvent::Storm);
        }
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = mixed(self.random);
        self.random % below.max(1)
    }

    fn later(&mut self, wait_ns: u64, event: LeaseEvent) {
        let index = self.pending.len();
        self.pending.push(event);
        self.events.push(Reverse((self.now_ns + wait_ns, index as u64, index)));
    }

    /// The time that a message takes: mostly a fraction of a millisecond, sometimes long.
    fn journey(&mut self) -> u64 {
        let fast_ns = 20_000 + self.draw(400_000);
        match self.draw(200) {
            0 if self.setup.storms => fast_ns + self.draw(40 * MS),
            _ => fast_ns,
        }
    }

    fn happen(&mut self, event: LeaseEvent) {
        match event {
            LeaseEvent::Request { node } => self.request(node),
            LeaseEvent::Asked { node, ask, want } => self.asked(node, ask, want),
            LeaseEvent::Replied { node, ask, want, lent } => self.replied(node, ask, want, lent),
            LeaseEvent::Due { node, ask } => {
                if self.nodes[node].asking.is_some_and(|sent| sent.number == ask) {
                    let outcomes = self.nodes[node].fail(Fault::Deadline, self.now_ns);
                    self.count(node, &outcomes);
                }
            }
            LeaseEvent::Probe { node } => self.probe(node),
            LeaseEvent::Heal { node } => self.nodes[node].reachable = true,
            LeaseEvent::Storm => self.storm(),
            LeaseEvent::Restart => self.server.up = true,
        }
        let held = self.nodes.iter().map(LeaseNode::held).sum::<u64>() + self.in_flight;
        if !self.setup.storms {
            self.audit.begin(self.now_ns, held);
        }
    }

    fn request(&mut self, node: usize) {
        let cost = if self.draw(10) == 0 { 2 + self.draw(3) } else { 1 };
        let cost = cost.min(self.quota.max_burst());
        self.outcome.requests += 1;
        let outcomes = self.nodes[node].arrive(cost, self.now_ns);
        self.count(node, &outcomes);
        let wait_ns = self.draw(2 * self.gap_ns);
        self.later(wait_ns, LeaseEvent::Request { node });
    }

    fn count(&mut self, node: usize, outcomes: &Outcomes) {
        self.audit.by_store += outcomes.by_store;
        self.audit.by_shares += outcomes.by_share;
        self.audit.look(self.now_ns, !self.setup.storms);
        let isolated_ns = self.nodes[node].isolated_ns(self.now_ns);
        let (spent, lives) = (self.nodes[node].by_share, self.nodes[node].lives);
        self.audit.look_at_share(spent, lives, isolated_ns);
        for &wish in &outcomes.wishes {
            self.grant(node, wish);
        }
    }

    fn grant(&mut self, node: usize, wish: NodeWish) {
        match wish {
            NodeWish::Probe(wait) => {
                let wait_ns = u64::try_from(wait.as_nanos()).unwrap();
                self.later(wait_ns, LeaseEvent::Probe { node });
            }
            NodeWish::Lease(want) => self.send(node, want),
        }
    }

    fn send(&mut self, node: usize, want: LeaseWant) {
        let Some(SentAsk { number: ask, sent_ns }) = self.nodes[node].asking else { return };
        if !self.nodes[node].is_up() {
            let outcomes = self.nodes[node].fail(Fault::Unreachable, self.now_ns);
            self.count(node, &outcomes);
            return;
        }
        self.outcome.calls += 1;
        if self.setup.flaw == Some(LeaseFlaw::SpentBeforeCharged) && self.draw(20) == 0 {
            let lent = LeaseReply { units: want.want, remaining: 0, retry_us: 0, reset_us: 0 };
            self.nodes[node].enter(want, lent, sent_ns, self.now_ns);
        }
        self.later(DEADLINE_NS, LeaseEvent::Due { node, ask });
        if self.nodes[node].reachable {
            let wait_ns = self.journey();
            self.later(wait_ns, LeaseEvent::Asked { node, ask, want });
        }
    }

    fn asked(&mut self, node: usize, ask: u64, want: LeaseWant) {
        if !self.server.up {
            return;
        }
        if self.now_ns < self.server.paused_until_ns {
            let wait_ns = self.server.paused_until_ns - self.now_ns;
            return self.later(wait_ns, LeaseEvent::Asked { node, ask, want });
        }
        let lent = self.server.lend(want.want, want.least, self.now_ns / 1_000);
        self.in_flight += lent.units;
        let wait_ns = self.journey();
        self.later(wait_ns, LeaseEvent::Replied { node, ask, want, lent });
    }

    fn replied(&mut self, node: usize, ask: u64, want: LeaseWant, lent: LeaseReply) {
        self.in_flight -= lent.units;
        if !self.nodes[node].reachable {
            return;
        }
        let asked_ns = self.nodes[node].asking.map_or(self.now_ns, |sent| sent.sent_ns);
        match self.nodes[node].reply(ask, want, lent, self.now_ns) {
            Some(outcomes) => self.count(node, &outcomes),
            None => self.outcome.late += 1,
        }
        if self.setup.flaw == Some(LeaseFlaw::ReplyTwice) && self.draw(5) == 0 {
            self.nodes[node].enter(want, lent, asked_ns, self.now_ns);
        }
    }

    fn probe(&mut self, node: usize) {
        let answers = self.server.up
            && self.nodes[node].reachable
            && self.now_ns + MS >= self.server.paused_until_ns;
        let wish = self.nodes[node].probed(answers, self.now_ns);
        if answers && self.setup.flaw == Some(LeaseFlaw::ShareRefilled) {
            let share = LocalShare::new(&self.server.plan, self.nodes.len() as u64, 1).unwrap();
            self.nodes[node].refill_share(share);
        }
        if let Some(wish) = wish {
            self.grant(node, wish);
        }
    }

    /// Causes a fault, and schedules the next fault.
    fn storm(&mut self) {
        let wait_ns = 20 * MS + self.draw(200 * MS);
        self.later(wait_ns, LeaseEvent::Storm);
        let now_us = self.now_ns / 1_000;
        match self.draw(6) {
            0 | 1 => {
                self.outcome.partitions += 1;
                let heal_ns = MS + self.draw(400 * MS);
                for node in 0..self.nodes.len() {
                    if self.draw(2) == 0 {
                        self.nodes[node].reachable = false;
                        self.later(heal_ns, LeaseEvent::Heal { node });
                    }
                }
            }
            2 => self.server.paused_until_ns = self.now_ns + self.draw(200 * MS),
            3 => {
                self.server.up = false;
                let (empty, down_ns) = (self.draw(2) == 0, self.draw(300 * MS));
                let lost = self.server.lose(empty, now_us);
                self.outcome.losses += u64::from(lost > 0);
                if self.setup.flaw != Some(LeaseFlaw::SilentLoss) {
                    self.audit.lost += lost.min(self.quota.max_burst());
                }
                self.later(down_ns, LeaseEvent::Restart);
            }
            4 => self.server.save(),
            _ => {
                self.outcome.crashes += 1;
                let node = usize::try_from(self.draw(self.nodes.len() as u64)).unwrap();
                let nodes = self.nodes.len() as u64;
                let share = LocalShare::new(&self.server.plan, nodes, 1).unwrap();
                self.nodes[node].restart(share, self.now_ns);
            }
        }
    }

    fn finish(mut self, end_ns: u64) -> LeaseOutcome {
        self.audit.look(end_ns, false);
        let Audit { by_store, by_shares, .. } = self.audit;
        LeaseOutcome {
            bound: self.audit.bound(end_ns),
            violation: self.audit.violation,
            admitted: by_store + by_shares,
            by_shares,
            held: self.nodes.iter().map(LeaseNode::held).sum(),
            ..self.outcome
        }
    }
}
