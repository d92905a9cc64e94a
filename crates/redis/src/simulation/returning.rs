//! Simulates a node that uses a limit alone. The node pauses, and its limit is raised, lowered and changed back. Leases
//! must make no difference: a request is admitted exactly if its cost fits in the limit next to all units admitted
//! before.
//!
//! The node runs the holding of the library. The rates are so low that less than a unit drains in a whole world.

use crate::leased::holding::{Beyond, Grant, Holding, LeaseWant, Spend, Terms};
use crate::script::plan::ScriptPlan;
use crate::script::view::StateView;
use crate::settings::Settings;
use crate::store::backoff::mixed;

use super::states::{ChangeFlaw, SimulatedKey};

const MS: u64 = 1_000_000;

/// A mistake that a test plants, to see that the audit finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoneFlaw {
    Change(ChangeFlaw),
    /// If the last grant left less in the store than a sixteenth of the lease that was asked for, the node denies every
    /// request whose cost its own units do not cover, without asking the store.
    DregsDenied,
    /// A denial is not forgotten when the node's own units come back to the limit.
    DenialKept,
}

struct LoneWorld {
    now_ns: u64,
    random: u64,
    plans: [ScriptPlan; 3],
    /// For each era (the number of a policy change), the index of its policy in `plans`.
    eras: Vec<usize>,
    holding: Holding,
    key: SimulatedKey,
    flaw: Option<LoneFlaw>,
    admitted: u64,
    /// The units that were left in the store after the last grant, and the request for that grant.
    last: (u64, LeaseWant),
    denied: u64,
    returned: u64,
}

impl LoneWorld {
    fn new(seed: u64, flaw: Option<LoneFlaw>) -> Self {
        let mut random = mixed(seed);
        let mut limit = || {
            random = mixed(random);
            50 + random % 5_000
        };
        let plans = [limit(), limit(), limit()];
        let plans =
            plans.map(|limit| ScriptPlan::new(format!("{limit}/365d").parse().unwrap()).unwrap());
        let change = match flaw {
            Some(LoneFlaw::Change(change)) => Some(change),
            _ => None,
        };
        Self {
            // The store's clock began long before the simulation.
            now_ns: 1_000_000 * 1_000 * MS,
            random,
            plans,
            eras: vec![0],
            holding: Holding::default(),
            key: SimulatedKey::new(change),
            flaw,
            admitted: 0,
            last: (u64::MAX, LeaseWant { want: 0, least: 0 }),
            denied: 0,
            returned: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = mixed(self.random);
        self.random % below
    }

    fn plan(&self) -> ScriptPlan {
        self.plans[self.eras[self.eras.len() - 1]]
    }

    fn terms(&self) -> Terms {
        let plan = self.plan();
        let held = Settings::new(plan.policy()).held();
        let fill_ns = plan.drain_us(plan.limit) * 1_000;
        Terms { era: self.eras.len() as u64 - 1, ..Terms::new(held, fill_ns) }
    }

    /// Asks the store for a lease, or peeks.
    fn ask(&mut self, want: LeaseWant) {
        let (plan, terms, now_us) = (self.plan(), self.terms(), self.now_ns / 1_000);
        let (units, state) = self.key.charge(&plan, want, now_us);
        let view = StateView { plan: &plan, state: &state, now_us };
        let beyond = Beyond::of(&view, self.now_ns);
        if want.want == 0 {
            self.holding.seen(terms, beyond);
        } else if units == 0 {
            let wait_ns = (view.ready_us(want.least.min(plan.limit)) - now_us) * 1_000;
            self.holding.denied(terms, want.least, beyond, wait_ns, self.now_ns);
        } else {
            let asked_ns = self.now_ns;
            let stamp = plan.tick(now_us);
            let grant =
                Grant { units, asked_ns, turns_ns: None, stamp, charged_us: now_us, beyond };
            self.holding.granted(terms, grant, self.now_ns);
            self.last = (beyond.remaining, want);
        }
    }

    /// Decides a request; returns whether it is admitted.
    fn request(&mut self, cost: u64) -> bool {
        loop {
            let (terms, now_ns) = (self.terms(), self.now_ns);
            if self.flaw == Some(LoneFlaw::DregsDenied)
                && cost > self.holding.left()
                && self.last.0 < self.last.1.want / 16
            {
                return false;
            }
            let before = self.holding.clone();
            let mut spend = self.holding.spend(terms, cost, now_ns, now_ns);
            let expired = self.holding.take_expired();
            if self.flaw == Some(LoneFlaw::DenialKept)
                && expired[0].units > 0
                && let Some(denied) = before.denial(cost, now_ns)
            {
                spend = denied;
            }
            for ended in expired.into_iter().filter(|ended| ended.units > 0) {
                let plan = self.plans[self.eras[usize::try_from(ended.stamp.era).unwrap()]];
                self.key.give_back(&plan, ended.units, ended.stamp, now_ns / 1_000);
                self.returned += ended.units;
            }
            match spend {
                Spend::Spent { more, .. } => {
                    if let Some(want) = more {
                        self.ask(want);
                    }
                    return true;
                }
                Spend::Ask(want) => self.ask(want),
                Spend::Denied { .. } => return false,
                other => panic!("{other:?}"),
            }
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for step in 0..400 {
            let pause_ns = if self.draw(12) == 0 { 1_500 * MS } else { self.draw(40 * MS) };
            self.now_ns += pause_ns;
            if self.draw(25) == 0 {
                let next = usize::try_from(self.draw(3)).unwrap();
                if self.eras.last() != Some(&next) {
                    self.eras.push(next);
                }
            }
            let limit = self.plan().limit;
            let most = if self.draw(4) == 0 { limit / 4 } else { 5 };
            let cost = 1 + self.draw(most);
            let is_admitted = self.request(cost);
            let after = self.admitted + cost;
            if is_admitted && after > limit {
                return Err(format!(
                    "step {step}: {cost} admitted after {} of {limit}",
                    self.admitted
                ));
            }
            // Part of a unit may count as not drained yet: see `give_back`.
            if !is_admitted && after < limit {
                return Err(format!(
                    "step {step}: {cost} denied after {} of {limit}",
                    self.admitted
                ));
            }
            self.admitted += if is_admitted { cost } else { 0 };
            self.denied += u64::from(!is_admitted);
        }
        Ok(())
    }
}

#[test]
fn a_lone_node_admits_what_is_left_whatever_it_holds_and_however_its_limit_changes() {
    let (mut denied, mut returned) = (0, 0);
    for seed in 0..super::seeds() {
        let mut world = LoneWorld::new(seed, None);
        assert_eq!(world.run(), Ok(()), "seed {seed}");
        (denied, returned) = (denied + world.denied, returned + world.returned);
    }
    println!("{denied} denied, {returned} units given back");
    assert!(
        denied > 10 * super::seeds() && returned > 100 * super::seeds(),
        "{denied}, {returned}"
    );
}

/// Each mistake must be found as what it is: a request that is wrongly denied, or wrongly admitted.
#[test]
fn every_planted_mistake_is_caught() {
    for (flaw, as_what) in [
        (LoneFlaw::Change(ChangeFlaw::LeasesLost), "denied"),
        (LoneFlaw::Change(ChangeFlaw::OneReturned), "denied"),
        (LoneFlaw::Change(ChangeFlaw::ExcessForgotten), "admitted"),
        (LoneFlaw::DregsDenied, "denied"),
        (LoneFlaw::DenialKept, "denied"),
    ] {
        let run = |seed| LoneWorld::new(seed, Some(flaw)).run();
        let mut errors = (0..200).filter_map(|seed| run(seed).err());
        let caught = errors.any(|error| error.contains(as_what));
        assert!(caught, "{flaw:?} breaks nothing that is looked at");
    }
}
