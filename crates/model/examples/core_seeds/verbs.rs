//! Seeds of `mixed_ops`: every verb after every other, at times in both directions, on one limit and on a key.

use tollgate_model::source::*;
use tollgate_model::{LimitVerb, MixedCase, PolicyCase};

use crate::limits::{TODAY_NS, quota};
use crate::named::NamedSeed;
use crate::tables::window;

fn later(span: tollgate_model::Span) -> LimitVerb {
    Later { span, fine: 0 }
}

/// Each pair of verbs, with a little time between.
fn pairs() -> Vec<LimitVerb> {
    let verbs = [
        Take { cost: Units(2) },
        UpTo { cost: Units(3) },
        Charge { cost: Single },
        Reserve { cost: Units(2), thousandths: 400 },
        Refund { nth: 0, most: 1 },
        Cancel { nth: 0 },
        Earlier { span: Thousandths(20), fine: -1 },
    ];
    let mut all = vec![later(To(TODAY_NS))];
    for first in verbs {
        for second in verbs {
            all.extend([first, second, later(Thousandths(90))]);
        }
    }
    all.extend([Reset, Take { cost: Whole }, Reset, UpTo { cost: Never }]);
    all
}

/// Limits are used up, charged into debt, and given back in parts.
fn debts() -> Vec<LimitVerb> {
    let mut all = vec![later(Periods(3)), Take { cost: Whole }, Charge { cost: Whole }];
    for nth in 0..4_u8 {
        all.extend([
            Take { cost: Single },
            later(Intervals(3)),
            UpTo { cost: Rest },
            Refund { nth: nth % 2, most: 1 },
            later(ToRetry),
            Charge { cost: RestAndOne },
            Refund { nth: 0, most: 200 },
        ]);
    }
    all
}

/// Requests queue. One leaves from the end of the queue, and one from its middle.
fn places() -> Vec<LimitVerb> {
    let reserve = |cost, thousandths| Reserve { cost, thousandths };
    vec![
        later(Periods(5)),
        reserve(Whole, 0),
        reserve(Single, 900),
        reserve(Single, 900),
        Cancel { nth: 0 },
        reserve(Units(2), 60_000),
        Cancel { nth: 1 },
        later(Thousandths(100)),
        Cancel { nth: 0 },
        Take { cost: Single },
        reserve(Never, 9),
        reserve(Never, 60_000),
        later(ToReset),
        reserve(Nothing, 0),
        Cancel { nth: 0 },
    ]
}

/// Units are given back long after their charge, and at a time before it.
fn out_of_time() -> Vec<LimitVerb> {
    vec![
        later(Periods(9)),
        Take { cost: Whole },
        Earlier { span: Thousandths(700), fine: 0 },
        Refund { nth: 0, most: 2 },
        Take { cost: Single },
        later(EpochEighths(9)),
        Take { cost: Whole },
        later(EpochEighths(20)),
        Refund { nth: 0, most: 255 },
        Earlier { span: EpochEighths(20), fine: 1 },
        Take { cost: Rest },
        Reset,
        later(Turns(1)),
        Charge { cost: Whole },
        Refund { nth: 0, most: 255 },
    ]
}

pub(crate) fn verbs() -> Vec<NamedSeed<MixedCase>> {
    let case = |policy: PolicyCase, is_keyed, verbs: Vec<LimitVerb>| MixedCase {
        policy,
        rules: RulesCase::default(),
        kind: if is_keyed { Table(7) } else { Alone },
        own_clock: false,
        ops: Steps(verbs.into_iter().map(|verb| Does { key: 0, verb }).collect()),
    };
    let gcra = Gcra(quota(Small(10), Second, None));
    let odd = Gcra(quota(Small(7), Odd(1_000_000_007), Some(Small(3))));
    let fixed = window(Fixed, Small(8), Minute);
    vec![
        ("gcra_pairs", case(gcra, false, pairs())),
        ("gcra_keyed_pairs", case(gcra, true, pairs())),
        ("gcra_debts", case(gcra, false, debts())),
        ("gcra_keyed_debts", case(odd, true, debts())),
        ("gcra_places", case(odd, false, places())),
        ("gcra_keyed_places", case(gcra, true, places())),
        ("gcra_out_of_time", case(gcra, false, out_of_time())),
        ("gcra_keyed_out_of_time", case(gcra, true, out_of_time())),
        ("fixed_pairs", case(fixed, false, pairs())),
        ("fixed_keyed_out_of_time", case(fixed, true, out_of_time())),
        ("from_first_pairs", case(window(FromFirst, Small(9), Second), false, pairs())),
        ("sliding_pairs", case(window(Sliding, Small(9), Minute), true, pairs())),
        ("round_down_debts", case(window(RoundDown, Small(5), Minute), false, debts())),
        ("strict_places", case(window(Strict, Small(6), Minute), true, places())),
        ("segments_pairs", case(window(Segmented(4), Small(9), Minute), true, pairs())),
        ("segments_debts", case(window(Segmented(1), Small(9), Minute), false, debts())),
    ]
}
