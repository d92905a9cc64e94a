//! Simulates worlds in which the policy changes: the nodes load the new policy one after another, or return to the old
//! policy.
//!
//! The nodes run the holdings of the library, and limiters of both policies share one holding. Only the store is
//! simulated (see states.rs). Every charge is checked: a debt of all charges that drains at the fastest rate of the
//! policies used so far must never exceed the largest of their bursts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::leased::holding::{Beyond, ChargeStamp, Grant, Holding, LeaseWant, Spend, Terms};
use crate::script::plan::ScriptPlan;
use crate::script::view::StateView;
use crate::settings::Settings;
use crate::store::backoff::mixed;

use super::states::{ChangeFlaw, SimulatedKey};

const MS: u64 = 1_000_000;
#[derive(Clone, Copy, Debug)]
enum ChangeEvent {
    Request(usize),
    Reload(usize),
    Replied {
        node: usize,
        policy: usize,
        want: LeaseWant,
        asked_ns: u64,
        units: u64,
        beyond: Beyond,
    },
}

struct ChangeWorld {
    now_ns: u64,
    random: u64,
    plans: Vec<(ScriptPlan, Terms)>,
    events: BinaryHeap<Reverse<(u64, usize)>>,
    pending: Vec<ChangeEvent>,
    /// For each node, the index of its policy, and its holding.
    nodes: Vec<(usize, Holding)>,
    key: SimulatedKey,
    /// The debt of all charges, in parts of 2^-40 units, and the time when it was computed.
    owed: (u128, u64),
    /// The number of parts that could drain from the start of the world until the debt was last computed.
    drained: u128,
    drained_by: BTreeMap<u64, u128>,
    /// The fastest rate of the policies under which the store was asked; `burst` is the largest of their bursts.
    rate: u128,
    burst: u64,
    gap_ns: u64,
    changes: u64,
    units: u64,
    returned: u64,
    violation: Option<String>,
}

impl ChangeWorld {
    fn new(seed: u64, flaw: Option<ChangeFlaw>) -> Self {
        let mut random = mixed(seed);
        let mut draw = |below: u64| {
            random = mixed(random);
            random % below
        };
        let count = 2 + draw(20);
        // There are two to six policies; a key keeps states for four. Some are lower than others in rate and burst,
        // some are higher, and some have a lower rate but a larger burst, or the reverse.
        let plans = (0..2 + draw(5)).map(|era| {
            let (rate, burst) = (5 + draw(1_000), 1 + draw(500));
            let plan = ScriptPlan::new(format!("{rate}/s burst {burst}").parse().unwrap()).unwrap();
            let held = Settings::new(plan.policy()).nodes(count).held();
            let fill_ns = plan.drain_us(burst) * 1_000;
            (plan, Terms { era, ..Terms::new(held, fill_ns) })
        });
        let plans: Vec<_> = plans.collect();
        let gap_ns = 1_000 * MS * count / (100 + draw(4_000));
        let nodes = (0..count).map(|_| (0, Holding::default())).collect();
        let key = SimulatedKey::new(flaw);
        let (events, pending) = (BinaryHeap::new(), Vec::new());
        let mut world = Self {
            now_ns: 0,
            random,
            plans,
            events,
            pending,
            nodes,
            key,
            owed: (0, 0),
            drained: 0,
            drained_by: BTreeMap::new(),
            rate: 0,
            burst: 0,
            gap_ns,
            changes: 0,
            units: 0,
            returned: 0,
            violation: None,
        };
        for node in 0..world.nodes.len() {
            let (request_ns, reload_ns) = (world.draw(2 * gap_ns), world.draw(1_000 * MS));
            world.later(request_ns, ChangeEvent::Request(node));
            world.later(reload_ns, ChangeEvent::Reload(node));
        }
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = mixed(self.random);
        self.random % below.max(1)
    }

    fn later(&mut self, wait_ns: u64, event: ChangeEvent) {
        self.events.push(Reverse((self.now_ns + wait_ns, self.pending.len())));
        self.pending.push(event);
    }

    fn happen(&mut self, event: ChangeEvent) {
        match event {
            ChangeEvent::Request(node) => {
                let wait_ns = self.draw(2 * self.gap_ns);
                self.later(wait_ns, ChangeEvent::Request(node));
                self.request(node);
            }
            ChangeEvent::Reload(node) => {
                self.nodes[node].0 = usize::try_from(self.draw(self.plans.len() as u64)).unwrap();
                self.changes += 1;
                let wait_ns = self.draw(1_500 * MS);
                self.later(wait_ns, ChangeEvent::Reload(node));
            }
            ChangeEvent::Replied { node, policy, want, asked_ns, units, beyond } => {
                let (terms, now_ns) = (self.plans[policy].1, self.now_ns);
                let holding = &mut self.nodes[node].1;
                if want.want == 0 {
                    holding.seen(terms, beyond);
                } else if units == 0 {
                    holding.denied(terms, want.least, beyond, 0, now_ns);
                } else {
                    // The store charged the lease at the moment at which it was asked.
                    let charged_us = asked_ns / 1_000;
                    let stamp = self.plans[policy].0.tick(charged_us);
                    let grant =
                        Grant { units, asked_ns, turns_ns: None, stamp, charged_us, beyond };
                    holding.granted(terms, grant, now_ns);
                }
            }
        }
    }

    fn request(&mut self, node: usize) {
        let (policy, cost) = (self.nodes[node].0, 1 + self.draw(3));
        let ((plan, terms), now_ns) = (self.plans[policy], self.now_ns);
        if cost > plan.limit {
            return;
        }
        let spend = self.nodes[node].1.spend(terms, cost, now_ns, now_ns);
        for ended in self.nodes[node].1.take_expired() {
            self.give_back(ended.units, ended.stamp);
        }
        let want = match spend {
            Spend::Ask(want) | Spend::Spent { more: Some(want), .. } => want,
            _ => return,
        };
        // The script runs at the moment of the request, and only the reply takes time.
        let (units, state) = self.key.charge(&plan, want, now_ns / 1_000);
        self.drain();
        self.rate = self.rate.max(plan.policy().quota().count().into());
        self.burst = self.burst.max(plan.limit);
        self.charged(units);
        let view = StateView { plan: &plan, state: &state, now_us: now_ns / 1_000 };
        let beyond = Beyond { remaining: view.remaining(), reset_ns: 0 };
        let wait_ns = 20_000 + self.draw(400_000);
        let asked_ns = now_ns;
        self.later(wait_ns, ChangeEvent::Replied { node, policy, want, asked_ns, units, beyond });
    }

    fn give_back(&mut self, units: u64, stamp: ChargeStamp) {
        if units == 0 {
            return;
        }
        self.drain();
        let (plan, now_us) =
            (self.plans[usize::try_from(stamp.era).unwrap()].0, self.now_ns / 1_000);
        self.key.give_back(&plan, units, stamp, now_us);
        let since = self.drained - self.drained_by[&stamp.us];
        self.owed.0 = self.owed.0.saturating_sub((u128::from(units) << 40).saturating_sub(since));
        self.returned += units;
    }

    /// Drains the debt until the present time of the store's clock. Each rounding is less than a part, which is 2^-40
    /// of a unit.
    fn drain(&mut self) {
        let now_us = self.now_ns / 1_000;
        let drained = ((self.rate * u128::from(now_us - self.owed.1)) << 40).div_ceil(1_000_000);
        self.owed = (self.owed.0.saturating_sub(drained), now_us);
        self.drained += drained;
        self.drained_by.insert(now_us, self.drained);
    }

    /// Enters a charge, and checks the debt of all charges.
    fn charged(&mut self, units: u64) {
        self.units += units;
        self.owed.0 += u128::from(units) << 40;
        let most = self.burst;
        if self.owed.0 > u128::from(most) << 40 {
            let found =
                format!("{} units owed at {} ns, {most} at most", self.owed.0 >> 40, self.now_ns);
            self.violation.get_or_insert(found);
        }
    }
}

fn run(seed: u64, flaw: Option<ChangeFlaw>) -> ChangeWorld {
    let mut world = ChangeWorld::new(seed, flaw);
    while let Some(Reverse((at_ns, index))) = world.events.pop() {
        if at_ns > 4_000 * MS || world.violation.is_some() {
            break;
        }
        world.now_ns = at_ns;
        let event = world.pending[index];
        world.happen(event);
    }
    world
}

#[test]
fn nodes_of_the_old_and_the_new_policy_take_no_more_than_the_larger_burst_and_the_faster_rate() {
    let (mut changes, mut units, mut returned) = (0, 0, 0);
    for seed in 0..super::seeds() {
        let world = run(seed, None);
        assert_eq!(world.violation, None, "seed {seed}");
        (changes, units) = (changes + world.changes, units + world.units);
        returned += world.returned;
    }
    println!("{changes} changes, {units} units, {returned} of them given back");
    assert!(returned > 10 * super::seeds(), "{returned}");
    assert!(changes > 10 * super::seeds() && units > 100 * super::seeds(), "{changes}, {units}");
}

#[test]
fn every_planted_mistake_is_caught() {
    for flaw in [
        ChangeFlaw::Fresh,
        ChangeFlaw::OneState,
        ChangeFlaw::OneCharged,
        ChangeFlaw::LargestForgotten,
    ] {
        let caught = (0..200).any(|seed| run(seed, Some(flaw)).violation.is_some());
        assert!(caught, "{flaw:?} breaks nothing that is looked at");
    }
}
