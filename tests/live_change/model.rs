//! Random changes, checked against a model of one key in integers, and against the bound itself.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Quota, Timestamp};

use super::{SECOND, live, table};
use crate::common::on;

/// A quota of `count` units per `period_s` seconds.
#[derive(Clone, Copy, Debug)]
struct Rate {
    count: u64,
    period_s: u64,
    burst: u64,
}

impl Rate {
    fn quota(self) -> Quota {
        Quota::per(self.count, Duration::from_secs(self.period_s)).burst(self.burst)
    }

    /// The number of parts that make a unit. Debts are whole numbers of these parts, whatever the period and the time.
    const PART: i128 = 3_600 * SECOND as i128;

    fn drained(self, from_ns: u64, to_ns: u64) -> i128 {
        let passed = i128::from(to_ns) - i128::from(from_ns);
        passed * i128::from(self.count) * (3_600 / i128::from(self.period_s))
    }
}

fn rates() -> impl Strategy<Value = Rate> {
    let period_s = prop_oneof![Just(1), Just(60), Just(3_600)];
    (5_u64..=20, period_s, 1_u64..=40).prop_map(|(count, period_s, burst)| Rate {
        count,
        period_s,
        burst,
    })
}

#[derive(Clone, Copy, Debug)]
enum Step {
    On { ns: u64 },
    Check { cost: u64 },
    Set(Rate),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let on = prop_oneof![0..SECOND, 0..60 * SECOND, 0..9_000 * SECOND];
    let step = prop_oneof![
        4 => on.prop_map(|ns| Step::On { ns }),
        6 => (1_u64..=20).prop_map(|cost| Step::Check { cost }),
        2 => rates().prop_map(Step::Set),
    ];
    prop::collection::vec(step, 1..120)
}

/// The exact debt of one key, and its surplus: the units beyond this debt that the key spent under earlier quotas.
struct Model {
    rate: Rate,
    debt: i128,
    now_ns: u64,
    surplus: Option<Surplus>,
    /// True if there ever was a surplus. A word rounds a surplus up, so it may deny a request that the model admits.
    is_rounded: bool,
}

/// Spent units that count under a replaced quota, but not under the quota in force.
#[derive(Clone, Copy)]
struct Surplus {
    debt: i128,
    /// The largest quota under which the surplus was spent.
    rate: Rate,
    at_ns: u64,
    until_ns: u64,
    /// The amount that the quota in force could have drained while the key's own debt was 0.
    idle: i128,
}

impl Model {
    fn new(rate: Rate, now_ns: u64) -> Self {
        Self { rate, debt: 0, now_ns, surplus: None, is_rounded: false }
    }

    fn advance(&mut self, now_ns: u64) {
        let drained = self.rate.drained(self.now_ns, now_ns);
        if let Some(surplus) = &mut self.surplus {
            surplus.idle += (drained - self.debt).max(0);
        }
        self.debt = (self.debt - drained).max(0);
        self.now_ns = now_ns;
    }

    /// The part of the surplus that is still owed. It drains at the rate of the former quota, less the amount by which
    /// the key's own debt has drained meanwhile.
    fn left(&self) -> i128 {
        let Some(surplus) = self.surplus else { return 0 };
        if self.now_ns >= surplus.until_ns {
            return 0;
        }
        let [former, own] =
            [surplus.rate, self.rate].map(|rate| rate.drained(surplus.at_ns, self.now_ns));
        (surplus.debt - (former + surplus.idle - own).max(0)).max(0)
    }

    fn change(&mut self, rate: Rate) {
        let owed = self.debt + self.left();
        let most = i128::from(rate.burst) * Rate::PART;
        let old = self.rate;
        // The time in which a whole burst comes back.
        let window_ns = old.burst * old.period_s * SECOND / old.count;
        let before = self.surplus.filter(|surplus| self.now_ns < surplus.until_ns);
        let former = match before {
            Some(before) if before.rate.burst > old.burst => before.rate,
            _ => old,
        };
        let until_ns = (self.now_ns + window_ns).max(before.map_or(0, |before| before.until_ns));
        self.debt = owed.min(most);
        let debt = owed - self.debt;
        self.is_rounded |= debt > 0;
        self.surplus = Some(Surplus { debt, rate: former, at_ns: self.now_ns, until_ns, idle: 0 });
        self.rate = rate;
    }

    /// The amount by which the debt and the cost exceed the burst. It is at most 0 if the cost fits.
    fn excess(&self, cost: u64) -> i128 {
        self.debt + (i128::from(cost) - i128::from(self.rate.burst)) * Rate::PART
    }

    /// Compares a decision with the exact decision, and then charges the model as the limiter was charged. The two may
    /// differ by ticks, because a reading and each change are rounded. A tick is at most 2^-8 of a unit.
    fn follow(&mut self, cost: u64, changes: i128, allowed: bool) -> Result<(), TestCaseError> {
        let excess = self.excess(cost);
        let tick = Rate::PART / 256;
        prop_assert!(!allowed || excess <= tick * (2 + changes), "admitted {excess} above");
        let is_exact = !self.is_rounded;
        prop_assert!(
            allowed || !is_exact || excess > -tick * (2 + changes),
            "denied {excess} below"
        );
        if allowed {
            self.debt += i128::from(cost) * Rate::PART;
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn decisions_across_changes_are_those_of_the_model(first in rates(), steps in steps()) {
        let (table, live) = (table(first.quota()), live(first.quota()));
        let start_ns = 1_000 * SECOND;
        let mut models = [0, 1].map(|_| Model::new(first, start_ns));
        let (mut now_ns, mut changes) = (start_ns, 0);
        for step in steps {
            let now = Timestamp::from_nanos(now_ns);
            match step {
                Step::On { ns } => now_ns += ns,
                Step::Check { cost } => {
                    let decisions = [table.entry(&7).at(now).check_n(cost), live.entry().at(now).check_n(cost)];
                    for (model, decision) in models.iter_mut().zip(decisions) {
                        prop_assert_eq!(decision.limit(), model.rate.burst);
                        prop_assert!(decision.remaining() <= model.rate.burst);
                        model.follow(cost, changes, decision.is_allowed())?;
                    }
                }
                Step::Set(rate) => {
                    changes += 1;
                    on(now);
                    table.set_quota(rate.quota()).unwrap();
                    on(now);
                    live.set_quota(rate.quota()).unwrap();
                    for model in &mut models {
                        model.change(rate);
                    }
                }
            }
            for model in &mut models {
                model.advance(now_ns);
            }
        }
    }

    /// The bound that `src/algorithm/rebase.rs` states and proves holds at times in any order.
    #[test]
    fn no_interval_holds_more_than_the_bound_across_a_change(
        rates in [rates(), rates()],
        asks in prop::collection::vec((0_u64..400, 1_u64..=20), 1..120),
        split in 0_usize..120,
        change_s in 0_u64..400,
    ) {
        let limiter = live(rates[0].quota());
        let table = table(rates[0].quota());
        let start = 100_000;
        let mut admitted = [vec![], vec![]];
        for (n, &(tenths, cost)) in asks.iter().enumerate() {
            if n == split {
                let change = Timestamp::from_millis(start + 100 * change_s);
                on(change);
                limiter.set_quota(rates[1].quota()).unwrap();
                on(change);
                table.set_quota(rates[1].quota()).unwrap();
            }
            let now_ms = start + 100 * tenths;
            let now = Timestamp::from_millis(now_ms);
            let decisions = [limiter.entry().at(now).check_n(cost), table.entry(&7).at(now).check_n(cost)];
            for (admitted, decision) in admitted.iter_mut().zip(decisions) {
                if decision.is_allowed() {
                    admitted.push((n >= split, now_ms, cost));
                }
            }
        }
        if split < asks.len() {
            for admitted in admitted {
                assert_bound(rates, start + 100 * change_s, &admitted)?;
            }
        }
    }
}

/// Asserts that every interval admits at most the larger burst plus the units that both rates give, exact to a tick.
fn assert_bound(
    [old, new]: [Rate; 2],
    change_ms: u64,
    admitted: &[(bool, u64, u64)],
) -> Result<(), TestCaseError> {
    let ns = |ms: u64| ms * 1_000_000;
    let latest_old = admitted.iter().filter(|(is_new, ..)| !is_new).map(|(_, now, _)| *now).max();
    let late = latest_old.map_or(0, |now| now.saturating_sub(change_ms));
    let late_burst = i128::from(old.burst) * Rate::PART + old.drained(0, ns(late));
    let earliest_new = admitted.iter().filter(|(is_new, ..)| *is_new).map(|(_, now, _)| *now).min();
    let early = earliest_new.map_or(0, |now| change_ms.saturating_sub(now));
    let burst = late_burst.max(i128::from(new.burst) * Rate::PART);
    for from in admitted.iter().map(|(_, now, _)| *now) {
        for to in admitted.iter().map(|(_, now, _)| *now).filter(|to| from <= *to) {
            let inside = admitted.iter().filter(|(_, now, _)| (from..=to).contains(now));
            let units: u64 = inside.map(|(_, _, cost)| cost).sum();
            let [before, after] = [from.min(change_ms), to.max(change_ms)];
            let rated = old.drained(ns(before), ns(change_ms))
                + new.drained(ns(change_ms), ns(after))
                + new.drained(0, ns(early));
            let most = burst + rated + 2 * Rate::PART / 256;
            prop_assert!(i128::from(units) * Rate::PART <= most, "{units} in {from}..={to} ms");
        }
    }
    Ok(())
}
