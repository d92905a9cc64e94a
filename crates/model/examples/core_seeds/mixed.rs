//! Seeds of `mixed_ops`: worlds that have found a bug before, and every limiter.

use tollgate_model::source::*;
use tollgate_model::{LimitVerb, Mixed, PolicyCase, SubjectKind};

use crate::limits::quota;
use crate::named::NamedSeed;
use crate::tables::window;

fn does(verb: LimitVerb) -> Mixed {
    Does { key: 0, verb }
}

fn later(span: tollgate_model::Span) -> Mixed {
    does(Later { span, fine: 0 })
}

/// After a place was given, a refund and an equal charge restore the bits that the word had then.
fn equal_bits() -> Vec<Mixed> {
    vec![
        does(Take { cost: Units(5) }),
        does(Reserve { cost: Units(5), thousandths: 0 }),
        does(Refund { nth: 0, most: 5 }),
        later(Thousandths(4_990)),
        does(Take { cost: Units(5) }),
        does(Cancel { nth: 0 }),
        does(Take { cost: Units(9) }),
    ]
}

/// Each refund gives back almost all of a unit.
fn parts_of_units() -> Vec<Mixed> {
    let mut ops = vec![does(Take { cost: Single }); 10];
    ops.push(later(Thousandths(1)));
    ops.extend(vec![does(Refund { nth: 0, most: 1 }); 10]);
    ops.push(does(UpTo { cost: Whole }));
    ops
}

/// Requests whose times lie years before those of earlier requests.
fn years_late() -> Vec<Mixed> {
    vec![
        later(To(1_790_000_000_000_000_000)),
        does(Take { cost: Rest }),
        does(Earlier { span: To(1_701_000_000_000_000_000), fine: 0 }),
        does(Take { cost: Single }),
        Looks { key: 0, cost: Whole },
        later(ToRetry),
        does(Take { cost: Single }),
        does(Earlier { span: To(0), fine: 0 }),
        does(Take { cost: Single }),
    ]
}

/// Every verb of every limiter, and verbs that it does not have.
fn everything() -> Vec<Mixed> {
    let mut ops = vec![later(Periods(3))];
    for key in [0, 1, 13] {
        ops.extend([
            Does { key, verb: Take { cost: Units(3) } },
            Does { key, verb: Reserve { cost: Units(2), thousandths: 700 } },
            Does { key, verb: Reserve { cost: Whole, thousandths: 60_000 } },
            Looks { key, cost: RestAndOne },
            Unqueue { key, nth: 0, most: 1 },
            Does { key, verb: Cancel { nth: 0 } },
            Again { key, nth: 0, most: 2 },
            Again { key, nth: 0, most: 2 },
            Foreign { key, cost: Units(1), other: false },
            Foreign { key, cost: Units(1), other: true },
            Does { key, verb: Charge { cost: Whole } },
            later(Intervals(2)),
            Does { key, verb: UpTo { cost: Rest } },
            LeaseOut { units: 3 },
            LeaseUse { cost: 2, renew: true },
            later(Thousandths(300)),
            LeaseUse { cost: 2, renew: true },
            LeaseBack,
            Migrate { key, back: false },
            Change { second: false, quota: quota(Small(6), Minute, Some(Small(4))) },
            Does { key, verb: Take { cost: Single } },
            later(Thousandths(50)),
            ChangeBack { second: false },
            Does { key, verb: Refund { nth: 0, most: 1 } },
            Does { key, verb: Take { cost: Rest } },
            Does { key, verb: Earlier { span: Thousandths(400), fine: 1 } },
            Does { key, verb: Take { cost: Single } },
            Does { key, verb: Reset },
        ]);
    }
    ops
}

pub(crate) fn mixed() -> Vec<NamedSeed<MixedCase>> {
    let case = |policy: PolicyCase, kind: SubjectKind, ops| MixedCase {
        policy,
        rules: RulesCase::default(),
        kind,
        own_clock: false,
        ops: Steps(ops),
    };
    let ten = Gcra(quota(One, Second, Some(Small(10))));
    let fast = Gcra(quota(Large(822_535), Millis(1), None));
    let minute = Gcra(quota(Small(10), Minute, None));
    let strict = RulesCase {
        soft_bp: 500,
        counts: Counted,
        penalty: Some(PenaltyCase { longer: 1, after: 2, extended: false }),
    };
    let debt = vec![
        does(Charge { cost: AnyCost(u64::MAX) }),
        does(Take { cost: Single }),
        later(ToRetry),
        does(Take { cost: Single }),
    ];
    vec![
        ("equal_bits", case(ten, Alone, equal_bits())),
        ("equal_bits_of_a_key", case(ten, Table(0), equal_bits())),
        ("parts_of_units", case(ten, Alone, parts_of_units())),
        ("years_late", case(fast, Table(0), years_late())),
        ("largest_debt", MixedCase { rules: strict, ..case(minute, Alone, debt) }),
        ("of_a_limit", case(minute, Alone, everything())),
        ("by_its_own_clock", MixedCase { own_clock: true, ..case(minute, Alone, everything()) }),
        ("with_rules", MixedCase { rules: strict, ..case(minute, Alone, everything()) }),
        ("of_a_table", case(minute, Table(3), everything())),
        ("of_a_live_limit", case(minute, Alive, everything())),
        ("of_tiers", case(minute, Tiered(3), everything())),
        ("of_stripes", case(minute, Striped(2), everything())),
        ("of_a_sketch", case(minute, Sketched, everything())),
        ("of_a_window", case(window(Sliding, Small(9), Minute), Table(3), everything())),
        ("of_segments", case(window(Segmented(4), Small(9), Minute), Alone, everything())),
        ("from_first", case(window(FromFirst, Small(9), Minute), Alone, everything())),
    ]
}
