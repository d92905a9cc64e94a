//! Seeds of `sketch_ops`: keys alone, keys that share cells, times that disagree.

use tollgate_model::source::*;
use tollgate_model::{Op, PolicyCase, SketchCase};

use crate::limits::quota;
use crate::named::NamedSeed;
use crate::tables::{
    check, churn, crowded, disagreeing, far_ahead, forgotten_and_late, on, staggered, window,
};

/// One key uses up its limit while no other key asks. It asks again just before and at the end of each wait, also with
/// times that go back.
pub(crate) fn alone() -> Vec<Op> {
    let mut ops = vec![on(Periods(7)), check(1, Units(2)), check(1, Rest), check(1, Single)];
    for cost in [Single, Units(2), Whole] {
        ops.extend([
            Peek { key: 1, cost },
            Back { span: Thousandths(700), fine: 1 },
            check(1, cost),
            Advance { span: ToRetry, fine: -1 },
            check(1, cost),
            Advance { span: Still, fine: 1 },
            check(1, cost),
            Peek { key: 1, cost: RestAndOne },
        ]);
    }
    ops.extend([on(ToReset), check(1, Whole), check(1, Never), check(1, Nothing)]);
    ops
}

/// A key that asks for all it can get, among other keys that do the same.
pub(crate) fn greedy() -> Vec<Op> {
    let mut ops = vec![on(Periods(3))];
    for round in 0..20_u8 {
        ops.extend([
            check(0, Rest),
            check(0, Single),
            Crowd { first: 1 + round, keys: 9, cost: Rest },
            on(Thousandths(u16::from(round) * 13)),
            check(0, RestAndOne),
        ]);
    }
    ops
}

/// The clock is set just before `LATEST_NS`, then to `u64::MAX`, and then back.
pub(crate) fn to_the_end() -> Vec<Op> {
    vec![
        on(To(crate::limits::LATEST_NS - 5_000)),
        Crowd { first: 0, keys: 20, cost: Whole },
        on(To(u64::MAX)),
        Crowd { first: 0, keys: 20, cost: Rest },
        Back { span: Periods(3), fine: 0 },
        Crowd { first: 10, keys: 20, cost: Single },
        on(To(0)),
        Crowd { first: 10, keys: 20, cost: Whole },
    ]
}

pub(crate) fn sketches() -> Vec<NamedSeed<SketchCase>> {
    let case = |policy: PolicyCase, [rows, cells]: [u8; 2], ops| SketchCase {
        policy,
        rows,
        cells,
        ops: Steps(ops),
    };
    let minute = Gcra(quota(Small(6), Minute, None));
    let spaced = Gcra(quota(Small(5), Second, Some(One)));
    let (fixed, sliding) = (window(Fixed, Small(4), Minute), window(Sliding, Small(5), Minute));
    let down = window(RoundDown, Small(3), Millis(1_000));
    let strict = window(Strict, Small(7), Day);
    let segments = window(Segmented(2), Small(9), Minutes(60));
    // Six segments of ten seconds do not fit side by side.
    let ring = window(Segmented(4), Small(100), Minute);
    let huge = Gcra(quota(Small(3), Nanos(9), Some(Huge((1 << 63) - 1))));
    vec![
        ("gcra_alone", case(minute, [3, 9], alone())),
        ("fixed_alone", case(fixed, [2, 9], alone())),
        ("sliding_alone", case(sliding, [1, 9], alone())),
        ("ring_alone", case(ring, [0, 0], alone())),
        ("gcra_greedy", case(minute, [1, 4], greedy())),
        ("gcra_spaced_greedy", case(spaced, [3, 30], greedy())),
        ("gcra_crowded", case(minute, [2, 20], crowded())),
        ("gcra_churn", case(spaced, [3, 50], churn())),
        ("gcra_far_ahead", case(minute, [1, 6], far_ahead())),
        ("gcra_disagreeing", case(spaced, [2, 12], disagreeing())),
        ("gcra_staggered", case(spaced, [0, 20], staggered())),
        ("gcra_largest_burst", case(huge, [1, 3], greedy())),
        ("gcra_to_the_end", case(minute, [1, 9], to_the_end())),
        ("fixed_greedy", case(fixed, [1, 4], greedy())),
        ("fixed_far_ahead", case(fixed, [1, 5], far_ahead())),
        ("fixed_disagreeing", case(fixed, [2, 12], disagreeing())),
        ("fixed_to_the_end", case(fixed, [1, 9], to_the_end())),
        ("sliding_greedy", case(sliding, [1, 4], greedy())),
        ("sliding_late", case(sliding, [2, 8], forgotten_and_late())),
        ("round_down_disagreeing", case(down, [2, 9], disagreeing())),
        ("strict_crowded", case(strict, [1, 20], crowded())),
        ("segments_greedy", case(segments, [1, 4], greedy())),
        ("segments_disagreeing", case(segments, [2, 7], disagreeing())),
        ("ring_greedy", case(ring, [1, 4], greedy())),
        ("ring_late", case(ring, [2, 6], forgotten_and_late())),
        ("from_first_is_refused", case(window(FromFirst, Small(3), Minute), [3, 9], alone())),
    ]
}
