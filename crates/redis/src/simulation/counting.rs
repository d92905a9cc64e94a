//! Simulates mode `async`: nodes decide by their counts, and report the admitted units in the background.
//!
//! The nodes run the cells of the library. The store, with `gcra`, is simulated, and so are late and lost messages,
//! nodes that are cut off, and nodes that die before they report. Every admission is checked. The debt of all admitted
//! units may exceed the burst by no more than three kinds of units: those that nodes have not reported, those that were
//! reported within two intervals, and those that nodes had not reported when they died.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tollgate::{Policy, Quota};

use crate::counted::cell::{CallTimes, CountAnswer, CountCell, Era, FRESH};
use crate::script::plan::ScriptPlan;
use crate::script::state::State;
use crate::script::{ScriptReply, ScriptVerb, Units};
use crate::store::backoff::mixed;

use super::parts::GcraParts;

const MS: u64 = 1_000_000;
/// The longest time that a message takes to arrive.
const JOURNEY_NS: u64 = 20 * MS;
const DEADLINE_NS: u64 = 15 * MS;

/// A mistake that a test plants, to see that the audit finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountFlaw {
    /// A report that was not answered is forgotten.
    NotRepeated,
    /// A node goes on deciding by its count, however old that is.
    NeverStale,
    /// For a report, the store charges only as many units as fit.
    Clamped,
    /// The time for which a cell is fresh is counted from the answer, and not from the request.
    FreshFromReply,
}

#[derive(Clone, Copy, Debug)]
enum CountEvent {
    Request(usize),
    /// A report is due.
    Tick(usize),
    /// A message arrives at the store: a check of one unit, or a report of some units.
    Asked {
        node: usize,
        number: u64,
        message: Message,
    },
    /// A reply arrives at the node. The reply has the debt at the time when the store wrote it, and that time by the
    /// store's clock.
    Replied {
        node: usize,
        number: u64,
        message: Message,
        debt: u64,
        now_us: u64,
    },
    /// The deadline of a message has passed.
    Due {
        node: usize,
        number: u64,
        message: Message,
    },
    Heal(usize),
    Storm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Check,
    Report(u64),
}

#[derive(Default)]
struct CountNode {
    cell: Option<CountCell>,
    reachable: bool,
    /// The messages whose replies the node waits for, each with the time when it was sent.
    waits: Vec<(u64, u64)>,
    /// The units of each report that reached the store, with the time of the report.
    reported: VecDeque<(u64, u64)>,
}

struct CountWorld {
    now_ns: u64,
    random: u64,
    plan: ScriptPlan,
    interval_ns: u64,
    gap_ns: u64,
    storms: bool,
    flaw: Option<CountFlaw>,
    events: BinaryHeap<Reverse<(u64, usize)>>,
    pending: Vec<CountEvent>,
    nodes: Vec<CountNode>,
    /// The time at which all units that the store has counted will have drained. It is given as the number of parts
    /// that drain from time 0 until then.
    tat: u128,
    /// The same time for all admitted units, whether the store has counted them or not.
    owed: u128,
    messages: u64,
    /// The units that nodes had not reported when they died.
    dead: u64,
    outcome: CountOutcome,
}

#[derive(Clone, Debug, Default)]
struct CountOutcome {
    violation: Option<String>,
    by_counts: u64,
    by_store: u64,
    crashes: u64,
    lost: u64,
    /// The largest number of units by which the burst was exceeded. `slack` is the allowed excess at that time.
    over: u64,
    slack: u64,
}

impl CountWorld {
    fn new(seed: u64, storms: bool, flaw: Option<CountFlaw>) -> Self {
        let mut random = mixed(seed);
        let mut draw = |below: u64| {
            random = mixed(random);
            random % below
        };
        let (count, rate) = (2 + draw(20), [20, 100, 1_000][usize::try_from(draw(3)).unwrap()]);
        let burst = [1, 5, rate / 5, rate][usize::try_from(draw(4)).unwrap()].max(1);
        let interval_ns = [10, 50, 100][usize::try_from(draw(3)).unwrap()] * MS;
        // Together the nodes ask for between half of the limit and eight times the limit.
        let gap_ns = 10_000_000_000 * count / (rate * (5 + draw(75)));
        let plan = ScriptPlan::new(Policy::from(Quota::per_second(rate).burst(burst))).unwrap();
        let node = |_| CountNode { reachable: true, ..CountNode::default() };
        let mut world = Self {
            now_ns: 0,
            random,
            plan,
            interval_ns,
            gap_ns,
            storms,
            flaw,
            events: BinaryHeap::new(),
            pending: Vec::new(),
            nodes: (0..count).map(node).collect(),
            tat: 0,
            owed: 0,
            messages: 0,
            dead: 0,
            outcome: CountOutcome::default(),
        };
        for node in 0..world.nodes.len() {
            let (first_ns, tick_ns) = (world.draw(2 * gap_ns), world.draw(interval_ns));
            world.later(first_ns, CountEvent::Request(node));
            world.later(tick_ns, CountEvent::Tick(node));
        }
        if storms {
            world.later(0, CountEvent::Storm);
        }
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = mixed(self.random);
        self.random % below.max(1)
    }

    fn later(&mut self, wait_ns: u64, event: CountEvent) {
        self.events.push(Reverse((self.now_ns + wait_ns, self.pending.len())));
        self.pending.push(event);
    }

    fn journey(&mut self) -> u64 {
        match self.draw(50) {
            0 if self.storms => self.draw(JOURNEY_NS),
            _ => 20_000 + self.draw(400_000),
        }
    }

    /// The store's time, as the number of parts that drain from time 0 until now.
    fn now(&self) -> u128 {
        u128::from(self.plan.tick(self.now_ns / 1_000)) * GcraParts::of(&self.plan).per_tick
    }

    fn happen(&mut self, event: CountEvent) {
        match event {
            CountEvent::Request(node) => self.request(node),
            CountEvent::Tick(node) => {
                self.later(self.interval_ns, CountEvent::Tick(node));
                let cell = self.nodes[node].cell.as_mut();
                if let Some(units) = cell.and_then(CountCell::report) {
                    self.send(node, Message::Report(units));
                }
            }
            CountEvent::Asked { node, number, message } => {
                let wait_ns = self.journey();
                let (debt, now_us) = (self.carry_out(node, message), self.now_ns / 1_000);
                let replied = CountEvent::Replied { node, number, message, debt, now_us };
                self.later(wait_ns, replied);
            }
            CountEvent::Replied { node, number, message, debt, now_us } => {
                self.replied(node, number, message, debt, now_us);
            }
            CountEvent::Due { node, number, message } => self.due(node, number, message),
            CountEvent::Heal(node) => self.nodes[node].reachable = true,
            CountEvent::Storm => self.storm(),
        }
    }

    fn request(&mut self, node: usize) {
        let wait_ns = self.draw(2 * self.gap_ns);
        self.later(wait_ns, CountEvent::Request(node));
        let interval_ns = match self.flaw {
            Some(CountFlaw::NeverStale) => u64::MAX / 8,
            _ => self.interval_ns,
        };
        let (plan, now_ns) = (self.plan, self.now_ns);
        let decided = self.nodes[node].cell.as_mut().map(|cell| {
            cell.decide(&plan, ScriptVerb::Check, Units::exactly(1), interval_ns, now_ns)
        });
        match decided.unwrap_or(CountAnswer::Stale) {
            CountAnswer::Decided { told, .. } => {
                if told.allowed {
                    self.outcome.by_counts += 1;
                    self.admit();
                }
            }
            CountAnswer::Stale => self.send(node, Message::Check),
        }
    }

    fn send(&mut self, node: usize, message: Message) {
        self.messages += 1;
        let number = self.messages;
        self.nodes[node].waits.push((number, self.now_ns));
        self.later(DEADLINE_NS, CountEvent::Due { node, number, message });
        if self.nodes[node].reachable {
            let wait_ns = self.journey();
            self.later(wait_ns, CountEvent::Asked { node, number, message });
        }
    }

    /// Carries out a message as the script would. Returns the debt after it.
    fn carry_out(&mut self, node: usize, message: Message) -> u64 {
        let GcraParts { per_unit, capacity, .. } = GcraParts::of(&self.plan);
        let now = self.now();
        let debt = self.tat.saturating_sub(now);
        let units = match message {
            Message::Check if debt + per_unit <= capacity => {
                self.outcome.by_store += 1;
                // A unit counts as admitted when it is charged, even if the reply never reaches the node.
                self.admit();
                1
            }
            Message::Check => 0,
            Message::Report(units) if self.flaw == Some(CountFlaw::Clamped) => {
                u128::from(units).min(capacity.saturating_sub(debt) / per_unit)
            }
            Message::Report(units) => units.into(),
        };
        if let Message::Report(units) = message {
            self.nodes[node].reported.push_back((self.now_ns, units));
        }
        self.tat = self.tat.max(now) + units * per_unit;
        u64::try_from(self.tat.saturating_sub(now)).unwrap()
    }

    fn replied(&mut self, node: usize, number: u64, message: Message, debt: u64, now_us: u64) {
        let is_heard = self.nodes[node].reachable;
        let Some(sent_ns) = self.answered(node, number).filter(|_| is_heard) else { return };
        let (plan, now_ns) = (self.plan, self.now_ns);
        let reply = ScriptReply::told(now_us, State::Gcra { debt });
        let is_late = self.flaw == Some(CountFlaw::FreshFromReply);
        let asked_ns = if is_late { now_ns } else { sent_ns };
        let times = CallTimes { asked_ns, replied_ns: now_ns };
        let era = Era { plan: &plan, number: 0 };
        match (&mut self.nodes[node].cell, message) {
            (Some(cell), Message::Report(_)) => cell.reported(era, &reply, times),
            (Some(cell), Message::Check) => cell.learn(era, &reply, times),
            (cell @ None, _) => *cell = CountCell::new(0, &reply, times),
        }
    }

    fn due(&mut self, node: usize, number: u64, message: Message) {
        if self.answered(node, number).is_none() {
            return;
        }
        self.outcome.lost += 1;
        let Some(cell) = &mut self.nodes[node].cell else { return };
        if let Message::Report(_) = message {
            if self.flaw == Some(CountFlaw::NotRepeated) {
                // The planted mistake: the node goes on as if the report had been counted and the reply were empty.
                let nothing = ScriptReply { now_us: 0, admitted: true, parts: vec![] };
                let times = CallTimes { asked_ns: 0, replied_ns: 0 };
                cell.reported(Era { plan: &self.plan, number: 0 }, &nothing, times);
            } else {
                cell.failed();
            }
        }
    }

    /// Stops waiting for a reply. Returns the time when its message was sent.
    fn answered(&mut self, node: usize, number: u64) -> Option<u64> {
        let waits = &mut self.nodes[node].waits;
        let index = waits.iter().position(|(waited, _)| *waited == number)?;
        Some(waits.swap_remove(index).1)
    }

    fn storm(&mut self) {
        let wait_ns = 20 * MS + self.draw(200 * MS);
        self.later(wait_ns, CountEvent::Storm);
        let node = usize::try_from(self.draw(self.nodes.len() as u64)).unwrap();
        if self.draw(4) == 0 {
            self.outcome.crashes += 1;
            self.dead += self.nodes[node].cell.take().map_or(0, |cell| cell.unreported());
            self.nodes[node].waits.clear();
        } else {
            self.nodes[node].reachable = false;
            let heal_ns = MS + self.draw(600 * MS);
            self.later(heal_ns, CountEvent::Heal(node));
        }
    }

    /// Counts an admitted unit, and checks the debt of all admitted units.
    fn admit(&mut self) {
        let GcraParts { per_unit, capacity, .. } = GcraParts::of(&self.plan);
        let now = self.now();
        self.owed = self.owed.max(now) + per_unit;
        let since_ns = self.now_ns.saturating_sub(FRESH * self.interval_ns);
        let mut slack = self.dead;
        for node in &mut self.nodes {
            while node.reported.front().is_some_and(|(at_ns, _)| *at_ns < since_ns) {
                node.reported.pop_front();
            }
            let unreported = node.cell.as_ref().map_or(0, CountCell::unreported);
            slack += unreported + node.reported.iter().map(|(_, units)| units).sum::<u64>();
        }
        let over = (self.owed - now).saturating_sub(capacity).div_ceil(per_unit);
        let over = u64::try_from(over).unwrap();
        if over > self.outcome.over {
            (self.outcome.over, self.outcome.slack) = (over, slack);
        }
        if over > slack {
            let found = format!("{over} units over at {} ns, {slack} at most", self.now_ns);
            self.outcome.violation.get_or_insert(found);
        }
    }
}

fn run(seed: u64, storms: bool, flaw: Option<CountFlaw>) -> CountOutcome {
    let mut world = CountWorld::new(seed, storms, flaw);
    while let Some(Reverse((at_ns, index))) = world.events.pop() {
        if at_ns > 3_000 * MS || world.outcome.violation.is_some() {
            break;
        }
        world.now_ns = at_ns;
        let event = world.pending[index];
        world.happen(event);
    }
    world.outcome
}

fn all(storms: bool) -> Vec<CountOutcome> {
    (0..super::seeds()).map(|seed| run(seed, storms, None)).collect()
}

#[test]
fn counts_exceed_the_limit_by_what_nodes_could_not_know_of_each_other() {
    for storms in [false, true] {
        let outcomes = all(storms);
        for (seed, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.violation, None, "seed {seed}");
        }
        let sum = |of: fn(&CountOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let [by_counts, by_store] = [sum(|o| o.by_counts), sum(|o| o.by_store)];
        let [crashes, lost] = [sum(|o| o.crashes), sum(|o| o.lost)];
        println!(
            "async: {} worlds, {by_counts} admitted by counts and {by_store} by the store, {crashes} \
             crashes, {lost} messages lost; over by {} units in all, {} at most",
            outcomes.len(),
            sum(|o| o.over),
            sum(|o| o.slack),
        );
        assert!(by_counts > by_store && sum(|o| o.over) > 0);
        assert_eq!([crashes > 0, lost > 0], [storms; 2]);
    }
}

#[test]
fn every_planted_mistake_is_caught() {
    for flaw in [
        CountFlaw::NotRepeated,
        CountFlaw::NeverStale,
        CountFlaw::FreshFromReply,
        CountFlaw::Clamped,
    ] {
        let caught = (0..200).any(|seed| run(seed, true, Some(flaw)).violation.is_some());
        assert!(caught, "{flaw:?} breaks nothing that is looked at");
    }
}
