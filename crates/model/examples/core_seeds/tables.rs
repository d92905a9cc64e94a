//! Seeds of `layout_roundtrip` and `keyed_ops`: words that wrap, tables that fill.

use tollgate_model::source::*;
use tollgate_model::{Amount, Op, Period, PolicyCase, WindowShape};

use crate::limits::{
    LATEST_NS, TODAY_NS, at, back, drained, flood, penalty, quota, rules, wandering,
};
use crate::named::NamedSeed;

pub(crate) fn window(shape: WindowShape, limit: Amount, period: Period) -> PolicyCase {
    Window { shape, limit, period }
}

/// Requests just before, at and just after one epoch, three epochs, and whole wraps of the word's time.
fn around_the_epoch() -> Vec<RequestStep> {
    let mut steps = vec![at(Still, 0, Whole)];
    for span in
        [EpochEighths(7), EpochEighths(8), EpochEighths(9), EpochEighths(24), Turns(1), Turns(3)]
    {
        for fine in [-1, 0, 1] {
            steps.extend([at(Still, 0, Rest), at(span, fine, Single), at(ToRetry, fine, Single)]);
        }
        steps.extend([at(Granules(1), 0, Units(2)), at(Granules(1), -1, Whole)]);
    }
    steps
}

/// Time leaps ahead by more than a floor may trail, goes back below the floor, and then forward again.
fn there_and_back() -> Vec<RequestStep> {
    vec![
        at(Periods(3), 0, Units(2)),
        at(EpochEighths(12), 0, Single),
        back(Thousandths(300), 0, Single),
        back(EpochEighths(20), 0, Single),
        at(Thousandths(300), 0, Rest),
        at(EpochEighths(30), 0, Single),
        back(Granules(2), 1, Whole),
        at(Periods(200), 0, Whole),
        at(ToReset, 0, Single),
    ]
}

/// The last instants that a u64 of nanoseconds can name.
fn far_future() -> Vec<RequestStep> {
    vec![
        at(To(LATEST_NS), 0, Whole),
        at(ToReset, 0, Whole),
        at(To(u64::MAX / 2), 0, Single),
        at(To(u64::MAX), -100, Rest),
        at(To(u64::MAX), 0, Single),
        at(Periods(1), 0, Single),
        back(Periods(9), 0, Single),
    ]
}

pub(crate) fn layouts() -> Vec<NamedSeed<LayoutCase>> {
    let ruled = |policy, start_ns, steps, rules| LayoutCase {
        policy,
        start_ns,
        steps: Steps(steps),
        rules,
    };
    let case = |policy, start_ns, steps| ruled(policy, start_ns, steps, RulesCase::default());
    let penalised = rules(0, Counted, penalty(40, 1, true));
    let six = Gcra(quota(Small(6), Minute, None));
    let api = Gcra(quota(Small(100), Second, Some(Small(20))));
    let wide = Gcra(quota(Large(50_000_000), Second, Some(Large(1 << 25))));
    let day = window(Sliding, Medium(1_000), Day);
    vec![
        ("gcra_around_the_epoch", case(api, 0, around_the_epoch())),
        ("gcra_drained", case(api, TODAY_NS, drained(TODAY_NS + 7))),
        ("gcra_coarse_tick", case(wide, TODAY_NS, around_the_epoch())),
        ("gcra_there_and_back", case(Gcra(quota(Small(6), Minute, None)), 0, there_and_back())),
        ("gcra_far_future", case(api, TODAY_NS, far_future())),
        (
            "fixed_around_the_epoch",
            case(window(Fixed, Small(10), Millis(100)), 0, around_the_epoch()),
        ),
        ("fixed_far_future", case(window(Fixed, Small(3), Minute), 0, far_future())),
        (
            "from_first_around_the_epoch",
            case(window(FromFirst, Small(5), Minute), 0, around_the_epoch()),
        ),
        (
            "from_first_large_count",
            case(window(FromFirst, Medium(9_999), Day), TODAY_NS, there_and_back()),
        ),
        ("sliding_around_the_epoch", case(day, TODAY_NS, around_the_epoch())),
        ("sliding_wandering", case(window(Sliding, Small(40), Second), 1, wandering())),
        ("round_down_wandering", case(window(RoundDown, Small(40), Second), 1, wandering())),
        ("strict_there_and_back", case(window(Strict, Small(8), Minutes(30)), 0, there_and_back())),
        (
            "segments_around_the_epoch",
            case(window(Segmented(2), Small(15), Minute), 0, around_the_epoch()),
        ),
        (
            "segments_as_one_number",
            case(window(Segmented(4), Small(100), Day), 0, drained(TODAY_NS)),
        ),
        ("gcra_soft_flood", ruled(api, TODAY_NS, flood(TODAY_NS), rules(500, Uncounted, None))),
        ("gcra_penalty_around_the_epoch", ruled(six, 0, around_the_epoch(), penalised)),
        ("gcra_penalty_flood", ruled(six, TODAY_NS, flood(TODAY_NS + 1), penalised)),
        ("gcra_penalty_there_and_back", ruled(six, 0, there_and_back(), penalised)),
        ("gcra_penalty_far_future", ruled(api, TODAY_NS, far_future(), penalised)),
        (
            "fixed_penalty_around_the_epoch",
            ruled(window(Fixed, Small(10), Millis(100)), 0, around_the_epoch(), penalised),
        ),
        (
            "from_first_penalty_flood",
            ruled(window(FromFirst, Small(5), Minute), 0, flood(7), penalised),
        ),
        ("sliding_penalty_flood", ruled(window(Sliding, Small(5), Minute), 0, flood(7), penalised)),
        (
            "segments_penalty_there_and_back",
            ruled(window(Segmented(2), Small(9), Minute), 0, there_and_back(), penalised),
        ),
        (
            "fixed_penalty_far_future",
            ruled(window(Fixed, Small(3), Minute), 0, far_future(), penalised),
        ),
    ]
}

pub(crate) fn check(key: u8, cost: tollgate_model::StepCost) -> Op {
    Check { key, cost }
}

pub(crate) fn on(span: tollgate_model::Span) -> Op {
    Advance { span, fine: 0 }
}

/// More keys than there are cells, asked again when the first become idle.
pub(crate) fn crowded() -> Vec<Op> {
    let mut ops = vec![on(Periods(2))];
    for round in 0..4_u8 {
        ops.extend([
            Crowd { first: round * 20, keys: 39, cost: Single },
            Peek { key: 200, cost: Whole },
            check(200 + round, Single),
            on(ToRetry),
            check(200 + round, Rest),
            on(Thousandths(400)),
        ]);
    }
    ops
}

/// Some keys live long, others come once each.
pub(crate) fn churn() -> Vec<Op> {
    let mut ops = Vec::new();
    for round in 0..12_u8 {
        ops.extend([
            check(0, Units(2)),
            check(1, Rest),
            Crowd { first: 10 + round * 15, keys: 14, cost: Single },
            on(Thousandths(310)),
            Peek { key: 1, cost: Single },
        ]);
    }
    ops
}

/// Long silence between requests, so that floors have to catch up.
fn silence() -> Vec<Op> {
    let spans = [EpochEighths(8), EpochEighths(17), Turns(1), EpochEighths(255), Turns(9)];
    let busy = |span| [Crowd { first: 0, keys: 7, cost: Whole }, on(span), check(9, Single)];
    spans.into_iter().flat_map(busy).collect()
}

/// One caller is far ahead of the others.
pub(crate) fn far_ahead() -> Vec<Op> {
    let mut ops = vec![on(Periods(5)), Crowd { first: 0, keys: 5, cost: Units(2) }];
    ops.extend([
        on(EpochEighths(40)),
        check(77, Single),
        Back { span: EpochEighths(40), fine: 0 },
        Crowd { first: 0, keys: 19, cost: Single },
        on(Thousandths(900)),
        Crowd { first: 0, keys: 19, cost: Rest },
        on(EpochEighths(50)),
        Crowd { first: 0, keys: 19, cost: Whole },
    ]);
    ops
}

/// Callers whose clocks disagree a little, around a floor that moves.
pub(crate) fn disagreeing() -> Vec<Op> {
    (0..16_u8)
        .flat_map(|n| {
            [
                Crowd { first: n % 5 * 4, keys: 7, cost: [Single, Rest][usize::from(n % 2)] },
                Back { span: Granules(3), fine: 1 },
                check(n, Single),
                Back { span: Thousandths(200), fine: 0 },
                Peek { key: n, cost: RestAndOne },
                Crowd { first: n, keys: 3, cost: Single },
                on(Thousandths(450)),
                Advance { span: EpochEighths(n), fine: -1 },
            ]
        })
        .collect()
}

/// Keys that were forgotten ask again, with times from before they were forgotten.
pub(crate) fn forgotten_and_late() -> Vec<Op> {
    let late = |fine| Back { span: Thousandths(2_500), fine };
    let mut ops = vec![on(Periods(50))];
    for round in 0..4_u8 {
        ops.extend([
            Crowd { first: 0, keys: 5, cost: Whole },
            on(Thousandths(2_500)),
            // Every key is idle now, so other keys take all cells. Then the other keys become idle, too.
            Crowd { first: 100 + round * 30, keys: 24, cost: Single },
            on(Thousandths(2_500)),
            Crowd { first: 50, keys: 2, cost: Single },
            late(0),
            late(0),
            Crowd { first: 0, keys: 5, cost: Whole },
            Crowd { first: 0, keys: 5, cost: Single },
            on(Thousandths(4_900)),
            Crowd { first: 0, keys: 1, cost: Single },
            Peek { key: 3, cost: Whole },
            on(Periods(9)),
        ]);
    }
    ops
}

/// Keys become idle one after the other in a full table, whose floor follows the time closely.
pub(crate) fn staggered() -> Vec<Op> {
    let mut ops = vec![on(Periods(50))];
    for key in 0..24 {
        ops.extend([check(key, Single), on(Granules(5))]);
    }
    ops.push(on(Thousandths(80)));
    for newcomer in 100..114 {
        ops.extend([check(newcomer, Single), on(Granules(5))]);
        ops.extend((0..24).map(|key| Peek { key, cost: Single }));
    }
    ops
}

pub(crate) fn many_keys() -> Vec<NamedSeed<KeyedCase>> {
    let ruled = |policy, capacity, ops, rules| KeyedCase {
        policy,
        capacity,
        own_clock: false,
        ops: Steps(ops),
        rules,
    };
    let case = |policy, capacity, ops| ruled(policy, capacity, ops, RulesCase::default());
    let penalised = rules(2_500, Counted, penalty(3, 1, true));
    let own_clock = |case: KeyedCase| KeyedCase { own_clock: true, ..case };
    let minute = Gcra(quota(Small(6), Minute, None));
    let spaced = Gcra(quota(Small(5), Second, Some(One)));
    let (hour, second) = (Minutes(60), Millis(1_000));
    vec![
        ("gcra_crowded", case(minute, 0, crowded())),
        ("gcra_churn", case(spaced, 9, churn())),
        ("gcra_silence", case(minute, 5, silence())),
        ("gcra_far_ahead", case(minute, 3, far_ahead())),
        ("gcra_disagreeing", case(spaced, 7, disagreeing())),
        ("gcra_own_clock", own_clock(case(minute, 2, disagreeing()))),
        ("gcra_forgotten_and_late", case(spaced, 0, forgotten_and_late())),
        ("gcra_burst_forgotten_and_late", case(minute, 1, forgotten_and_late())),
        ("gcra_staggered", case(spaced, 0, staggered())),
        ("gcra_spilling_crowd", case(minute, 200, crowded())),
        ("gcra_spilling_churn", case(spaced, 201, churn())),
        ("gcra_spilling_late", case(spaced, 240, forgotten_and_late())),
        ("fixed_spilling_far_ahead", case(window(Fixed, Small(30), second), 203, far_ahead())),
        ("sliding_spilling", case(window(Sliding, Small(5), Minute), 200, disagreeing())),
        ("segments_spilling_crowd", case(window(Segmented(2), Small(9), hour), 200, crowded())),
        ("fixed_crowded", case(window(Fixed, Small(4), Minute), 0, crowded())),
        ("fixed_far_ahead", case(window(Fixed, Small(30), second), 3, far_ahead())),
        ("from_first_churn", case(window(FromFirst, Small(3), second), 9, churn())),
        ("from_first_silence", case(window(FromFirst, Small(10), hour), 5, silence())),
        (
            "fixed_forgotten_and_late",
            case(window(Fixed, Small(2), Minute), 0, forgotten_and_late()),
        ),
        ("from_first_staggered", case(window(FromFirst, One, Millis(200)), 0, staggered())),
        (
            "from_first_forgotten_and_late",
            case(window(FromFirst, Small(2), second), 0, forgotten_and_late()),
        ),
        ("from_first_disagreeing", case(window(FromFirst, Small(4), Minute), 6, disagreeing())),
        ("sliding_crowded", case(window(Sliding, Small(5), Minute), 1, crowded())),
        ("sliding_disagreeing", case(window(Sliding, Small(6), second), 7, disagreeing())),
        (
            "sliding_forgotten_and_late",
            case(window(Sliding, Small(2), second), 0, forgotten_and_late()),
        ),
        ("round_down_churn", case(window(RoundDown, Small(3), second), 9, churn())),
        ("round_down_far_ahead", case(window(RoundDown, Small(3), hour), 4, far_ahead())),
        ("strict_silence", case(window(Strict, Small(7), Day), 5, silence())),
        ("month_silence", case(window(Calendar(0), Small(9), Day), 5, silence())),
        ("month_crowded", case(window(Calendar(0), Small(9), Day), 0, crowded())),
        ("year_silence", case(window(Calendar(1), Small(9), Day), 5, silence())),
        ("week_crowded", case(window(Calendar(8), Small(9), Day), 0, crowded())),
        ("segments_crowded", case(window(Segmented(2), Small(9), hour), 0, crowded())),
        ("segments_disagreeing", case(window(Segmented(1), Small(9), Minute), 8, disagreeing())),
        ("gcra_penalty_crowded", ruled(minute, 2, crowded(), penalised)),
        (
            "gcra_penalty_churn",
            ruled(spaced, 9, churn(), rules(0, Uncounted, penalty(0, 0, false))),
        ),
        ("gcra_penalty_silence", ruled(minute, 5, silence(), penalised)),
        ("gcra_penalty_forgotten_and_late", ruled(minute, 0, forgotten_and_late(), penalised)),
        ("gcra_counted_disagreeing", ruled(spaced, 7, disagreeing(), rules(0, Counted, None))),
        (
            "gcra_counted_forgotten_and_late",
            ruled(minute, 0, forgotten_and_late(), rules(0, CountedUpTo(200), None)),
        ),
        (
            "from_first_penalty_disagreeing",
            ruled(window(FromFirst, Small(4), Minute), 6, disagreeing(), penalised),
        ),
        (
            "sliding_penalty_far_ahead",
            ruled(window(Sliding, Small(6), second), 7, far_ahead(), penalised),
        ),
        (
            "segments_penalty_crowded",
            ruled(window(Segmented(2), Small(9), hour), 3, crowded(), penalised),
        ),
    ]
}
