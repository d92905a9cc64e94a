//! Seeds of `gcra_oracle` and `window_oracle`: one limit, and requests at its edges.

use tollgate_model::source::*;
use tollgate_model::{Amount, DeniedCharge, Period, Span, StepCost, WindowShape};

use crate::named::NamedSeed;

/// 2100-01-01.
pub(crate) const LATEST_NS: u64 = 4_102_444_800_000_000_000;
/// 2026-09-21 14:13:20 UTC.
pub(crate) const TODAY_NS: u64 = 1_790_000_000_000_000_000;

pub(crate) fn at(span: Span, fine: i8, cost: StepCost) -> RequestStep {
    RequestStep { span, fine, backward: false, cost }
}

pub(crate) fn back(span: Span, fine: i8, cost: StepCost) -> RequestStep {
    RequestStep { span, fine, backward: true, cost }
}

pub(crate) fn quota(count: Amount, period: Period, burst: Option<Amount>) -> QuotaCase {
    QuotaCase { count, period, burst }
}

/// Requests take the whole limit, and then the units that drain, at the end of each wait and one nanosecond before.
pub(crate) fn drained(start_ns: u64) -> Vec<RequestStep> {
    let mut steps = vec![at(To(start_ns), 0, Whole), at(Still, 0, Single), at(Still, 0, Never)];
    for cost in [Single, Units(2), Units(3), Whole] {
        steps.extend([at(Still, 0, cost), at(ToRetry, -1, cost), at(Still, 1, cost)]);
    }
    steps.extend([at(ToReset, -1, RestAndOne), at(Still, 1, Whole), at(Still, 0, Nothing)]);
    steps
}

/// Requests spread over a few periods, of which one in four goes back in time.
pub(crate) fn wandering() -> Vec<RequestStep> {
    (0..40_u16)
        .map(|n| {
            let span = Thousandths(n * 37 % 700);
            let cost = [Single, Rest, Units(3), RestAndOne][usize::from(n) % 4];
            if n % 4 == 3 { back(span, 1, cost) } else { at(span, -1, cost) }
        })
        .collect()
}

/// Time goes to its end, beyond the end, and back.
fn to_the_end() -> Vec<RequestStep> {
    vec![
        at(To(LATEST_NS - 1_000), 0, Whole),
        at(ToRetry, 0, Single),
        at(To(LATEST_NS), -1, Single),
        at(To(LATEST_NS), 0, Rest),
        at(To(u64::MAX), 0, Single),
        back(Periods(3), 0, Single),
        at(To(0), 0, Single),
    ]
}

/// A few requests at a steady pace that is a little too fast.
fn steady(span: Span) -> Vec<RequestStep> {
    (0..30).map(|_| at(span, -1, Single)).collect()
}

pub(crate) fn gcra() -> Vec<NamedSeed<GcraCase>> {
    let ruled = |quota, steps, rules| GcraCase { quota, steps: Steps(steps), rules };
    let case = |quota, steps| ruled(quota, steps, RulesCase::default());
    let hundred = quota(Small(100), Minute, None);
    let api = quota(Small(100), Second, Some(Small(20)));
    vec![
        ("drained", case(api, drained(0))),
        ("drained_today", case(api, drained(TODAY_NS))),
        ("odd_rate_drained", case(quota(Small(7), Odd(1_000_000_007), None), drained(12_345))),
        ("wandering", case(quota(Medium(600), Minute, None), wandering())),
        ("one_unit_a_day", case(quota(One, Day, None), steady(Intervals(1)))),
        (
            "steady_at_100_000_per_second",
            case(quota(Large(100_000), Second, Some(One)), steady(Intervals(1))),
        ),
        ("fastest_rate", case(quota(Large(2_200_000_000), Second, None), drained(TODAY_NS))),
        ("largest_burst", case(quota(Small(3), Nanos(9), Some(Huge((1 << 63) - 1))), drained(1))),
        ("longest_period", case(quota(Small(2), Odd(u64::MAX), Some(Small(5))), wandering())),
        ("end_of_time", case(quota(Small(10), Minute, Some(Small(3))), to_the_end())),
        ("far_leaps", case(api, leaps())),
        ("soft_drained", ruled(api, drained(TODAY_NS), rules(500, Uncounted, None))),
        ("soft_wandering", ruled(hundred, wandering(), rules(3_333, Uncounted, None))),
        ("counted_flood", ruled(api, flood(TODAY_NS), rules(0, Counted, None))),
        ("counted_up_to_flood", ruled(hundred, flood(12_345), rules(0, CountedUpTo(77), None))),
        ("penalty_flood", ruled(api, flood(TODAY_NS), rules(0, Uncounted, penalty(0, 2, false)))),
        ("penalty_extended", ruled(hundred, flood(7), rules(0, Uncounted, penalty(9, 0, true)))),
        ("all_words", ruled(api, flood(1), rules(2_500, Counted, penalty(200, 3, true)))),
        ("all_words_late", ruled(api, leaps(), rules(10_000, Counted, penalty(1, 1, false)))),
        ("penalty_to_the_end", ruled(api, to_the_end(), rules(0, Uncounted, penalty(0, 0, true)))),
    ]
}

pub(crate) fn rules(soft_bp: u16, counts: DeniedCharge, penalty: Option<PenaltyCase>) -> RulesCase {
    RulesCase { soft_bp, counts, penalty }
}

pub(crate) fn penalty(longer: u8, after: u8, extended: bool) -> Option<PenaltyCase> {
    Some(PenaltyCase { longer, after, extended })
}

/// Each request asks for more than is left. Waits are kept to the nanosecond, and some requests are late.
pub(crate) fn flood(start_ns: u64) -> Vec<RequestStep> {
    let mut steps = vec![at(To(start_ns), 0, Whole)];
    for turn in 0..4 {
        steps.extend([Single, Units(2), Never, Nothing, RestAndOne].map(|cost| at(Still, 1, cost)));
        steps.extend([at(ToRetry, -1, Single), at(Still, 1, Rest), at(Still, 0, RestAndOne)]);
        steps.extend([back(Thousandths(400), 0, Single), at(Thousandths(700), turn, Single)]);
        steps.extend([at(ToRetry, 0, Whole), at(Still, 0, Single), at(ToReset, -1, Single)]);
        steps.extend([at(Still, 1, Single), at(ToReset, 0, Whole)]);
    }
    steps
}

fn leaps() -> Vec<RequestStep> {
    vec![
        at(EpochEighths(9), 0, Whole),
        at(Turns(1), 0, RestAndOne),
        back(Turns(1), -1, Single),
        at(Still, 0, Rest),
        at(Turns(2), 0, AnyCost(u64::MAX)),
        at(Granules(40), 0, Single),
        back(ToReset, 0, Single),
    ]
}

pub(crate) fn windows() -> Vec<NamedSeed<WindowCase>> {
    let case = |shape: WindowShape, limit: Amount, period: Period, steps| WindowCase {
        shape,
        limit,
        period,
        steps: Steps(steps),
        rules: RulesCase::default(),
    };
    let ruled = |shape: WindowShape, limit: Amount, period: Period, rules| WindowCase {
        shape,
        limit,
        period,
        steps: Steps(flood(TODAY_NS)),
        rules,
    };
    vec![
        ("fixed_drained", case(Fixed, Small(10), Minute, drained(TODAY_NS))),
        ("fixed_wandering", case(Fixed, Medium(1_000), Second, wandering())),
        ("from_first_drained", case(FromFirst, Small(5), Second, drained(999_999_999))),
        ("from_first_coarse_start", case(FromFirst, Large(1 << 30), Minute, wandering())),
        ("sliding_drained", case(Sliding, Small(7), Odd(1_000_000_007), drained(TODAY_NS))),
        ("sliding_wandering", case(Sliding, Medium(300), Minute, wandering())),
        ("sliding_one_per_window", case(Sliding, One, Second, steady(Thousandths(500)))),
        ("round_down_drained", case(RoundDown, Small(3), Day, drained(5))),
        ("round_down_wandering", case(RoundDown, Small(200), Millis(250), wandering())),
        ("strict_drained", case(Strict, Small(9), Minutes(90), drained(TODAY_NS))),
        ("strict_wandering", case(Strict, Small(50), Second, wandering())),
        ("month_drained", case(Calendar(0), Small(9), Day, drained(TODAY_NS))),
        ("month_wandering", case(Calendar(0), Small(30), Day, wandering())),
        ("year_wandering", case(Calendar(1), Small(30), Day, wandering())),
        ("week_drained", case(Calendar(8), Small(9), Day, drained(TODAY_NS))),
        ("segments_drained", case(Segmented(4), Small(12), Minute, drained(TODAY_NS))),
        ("segments_wandering", case(Segmented(1), Small(30), Second, wandering())),
        ("segments_as_one_number", case(Segmented(8), Small(20), Minutes(60), wandering())),
        ("end_of_time", case(Sliding, Small(4), Day, to_the_end())),
        ("shortest_window", case(Fixed, One, Nanos(2), steady(Still))),
        ("fixed_penalty", ruled(Fixed, Small(10), Minute, rules(0, Counted, penalty(0, 1, true)))),
        (
            "from_first_penalty",
            ruled(
                FromFirst,
                Small(5),
                Odd(1_000_000_007),
                rules(2_000, Uncounted, penalty(3, 2, false)),
            ),
        ),
        ("sliding_counted", ruled(Sliding, Small(7), Second, rules(0, Counted, None))),
        (
            "sliding_all_words",
            ruled(Sliding, Small(9), Odd(999_999_937), rules(1_500, Counted, penalty(40, 1, true))),
        ),
        (
            "round_down_counted",
            ruled(RoundDown, Small(6), Day, rules(0, Counted, penalty(0, 4, false))),
        ),
        ("strict_soft", ruled(Strict, Small(20), Minutes(9), rules(500, Counted, None))),
        (
            "segments_all_words",
            ruled(Segmented(2), Small(12), Minute, rules(2_500, Counted, penalty(1, 0, false))),
        ),
        (
            "segments_as_one_number_soft",
            ruled(Segmented(6), Small(20), Minutes(60), rules(500, Uncounted, penalty(0, 2, true))),
        ),
    ]
}
