//! Seeds of `together_ops`: debts that are carried, priced anew, undone, borrowed and given back.

use tollgate_model::source::*;
use tollgate_model::{Joint, Rated, TogetherCase};

use crate::named::NamedSeed;

fn rated(rate: u8, burst: u64) -> Rated {
    Rated { rate, burst: u8::try_from(burst - 1).expect("a small burst") }
}

/// Packs the costs of one request under each of the four limits into a number.
fn costs(costs: [u16; 4]) -> u16 {
    costs.into_iter().rev().fold(0, |all, cost| (all << 4) | cost)
}

fn ask(key: u8, second: bool, cost: tollgate_model::StepCost) -> Joint {
    Ask { key, second, cost }
}

/// Each limit denies in turn. Then the first limit, which is charged twice, denies its second cost.
fn at_once() -> Vec<Joint> {
    let all = |list, again| All { key: 1, costs: costs(list), again };
    vec![
        all([2, 2, 2, 0], false),
        all([15, 1, 1, 0], false),
        all([1, 15, 1, 0], false),
        all([1, 1, 15, 0], false),
        all([3, 1, 1, 3], true),
        Pass { steps: 1 },
        all([2, 1, 1, 15], true),
        all([0, 0, 0, 0], true),
        ask(1, false, Rest),
        all([1, 1, 1, 1], true),
        Pass { steps: 300 },
        all([9, 9, 9, 1], true),
    ]
}

/// Quotas become larger and smaller, faster and slower, while keys have debts of every size.
fn requoted() -> Vec<Joint> {
    let mut all = Vec::new();
    for rate in 0..3_u8 {
        for burst in [1, 24, 7, 12] {
            all.extend([
                ask(rate, false, Units(5)),
                ask(0, false, Rest),
                Requote { second: false, rated: rated(rate, burst) },
                ask(1, true, Single),
                Requote { second: true, rated: rated(2 - rate, burst) },
                Pass { steps: 1 },
                ask(2, true, RestAndOne),
            ]);
        }
    }
    all
}

/// Keys change their tier and change back, also to a tier with a smaller burst than their debt, and without a debt.
fn carried() -> Vec<Joint> {
    let mut all = Vec::new();
    for key in [0, 1, 2, 1] {
        all.extend([
            ask(key, false, Whole),
            Carry { key, back: false },
            ask(key, true, Single),
            ask(key, false, Whole),
            Carry { key, back: false },
            Pass { steps: 2 },
            ask(key, true, Nothing),
            Carry { key, back: true },
            Carry { key, back: true },
            Requote { second: true, rated: rated(key % 3, 3) },
            Carry { key, back: false },
            Pass { steps: 9 },
        ]);
    }
    all
}

/// Keys borrow at every headroom, until nothing is to spare.
fn borrowed() -> Vec<Joint> {
    let mut all = Vec::new();
    for headroom in [0, 3, 1, 2, 3] {
        all.push(Report { headroom });
        for key in 0..3 {
            all.extend([
                Lend { key, cost: Whole },
                Lend { key, cost: Units(2) },
                Lend { key, cost: Single },
                Lend { key, cost: Never },
                Lend { key, cost: RestAndOne },
            ]);
        }
        all.push(Pass { steps: 2 });
    }
    all
}

/// Units are leased, spent in part or as a whole, and given back.
fn leased() -> Vec<Joint> {
    let mut all = Vec::new();
    for (units, spent) in [(8, 3), (4, 4), (4, 5), (0, 0), (30, 1), (9, 0), (1, 1)] {
        all.extend([
            Batch { units, spent },
            All { key: 0, costs: costs([1, 1, 2, 0]), again: false },
            Pass { steps: 1 },
        ]);
    }
    all
}

pub(crate) fn together() -> Vec<NamedSeed<TogetherCase>> {
    let case = |quotas: [Rated; 5], ops: Vec<Joint>| {
        let [first, second, single, own, pool] = quotas;
        TogetherCase { first, second, single, own, pool, ops: Steps(ops) }
    };
    let even = [rated(0, 10), rated(1, 10), rated(2, 10), rated(0, 4), rated(1, 24)];
    let odd = [rated(2, 3), rated(0, 24), rated(0, 1), rated(1, 1), rated(2, 5)];
    let mixed = || [at_once(), requoted(), carried(), borrowed(), leased()].concat();
    vec![
        ("at_once", case(even, at_once())),
        ("at_once_odd", case(odd, at_once())),
        ("requoted", case(even, requoted())),
        ("requoted_odd", case(odd, requoted())),
        ("carried", case(even, carried())),
        ("carried_odd", case(odd, carried())),
        ("borrowed", case(even, borrowed())),
        ("borrowed_odd", case(odd, borrowed())),
        ("leased", case(even, leased())),
        ("mixed", case(even, mixed())),
        ("mixed_odd", case(odd, mixed())),
    ]
}
