//! Seeds of `log_ops`: one log, and logs of keys that come and go.

use tollgate_model::source::*;
use tollgate_model::{Op, Period, SlidingLogCase};

use crate::named::NamedSeed;
use crate::sketches::{alone, greedy, to_the_end};
use crate::tables::{
    check, churn, crowded, disagreeing, far_ahead, forgotten_and_late, on, staggered,
};

/// One key at times that never run backward. Its units are spent one by one, and then each unit again as soon as it has
/// left the window.
fn in_order() -> Vec<Op> {
    let mut ops = vec![on(Periods(9))];
    for cost in [Single, Units(2), Single] {
        ops.extend([check(1, cost), on(Thousandths(210))]);
    }
    for _ in 0..12 {
        ops.extend([check(1, RestAndOne), on(ToRetry), check(1, Single), check(1, Rest)]);
    }
    ops.extend([check(1, Never), on(ToReset), check(1, Whole), check(1, Nothing)]);
    ops
}

/// Several keys at times that never run backward.
fn in_turn() -> Vec<Op> {
    (0..90_u8)
        .flat_map(|n| {
            [check(n % 7, [Single, Units(2), Rest][usize::from(n) % 3]), on(Thousandths(31))]
        })
        .collect()
}

pub(crate) fn logs() -> Vec<NamedSeed<SlidingLogCase>> {
    let case = |limit, window: Period, capacity, ops| SlidingLogCase {
        limit,
        window,
        capacity,
        ops: Steps(ops),
        rules: RulesCase::default(),
    };
    let counted = RulesCase { counts: Counted, ..RulesCase::default() };
    let soft = RulesCase { soft_bp: 5_000, ..counted };
    vec![
        ("one_in_order", case(4, Minute, None, in_order())),
        ("one_in_rows_in_order", case(199, Second, None, in_order())),
        ("one_to_and_fro", case(9, Second, None, alone())),
        ("one_greedy", case(2, Day, None, greedy())),
        ("one_disagreeing", case(90, Minute, None, disagreeing())),
        ("one_to_the_end", case(3, Second, None, to_the_end())),
        ("one_shortest_window", case(1, Nanos(1), None, in_order())),
        ("one_longest_window", case(1, Odd((1 << 62) - 1), None, alone())),
        ("keys_in_order", case(4, Minute, Some(9), in_turn())),
        ("keys_in_rows", case(130, Minute, Some(3), in_turn())),
        ("keys_crowded", case(1, Minute, Some(4), crowded())),
        ("keys_churn", case(2, Second, Some(2), churn())),
        ("keys_far_ahead", case(3, Minute, Some(5), far_ahead())),
        ("keys_staggered", case(0, Millis(250), Some(7), staggered())),
        ("keys_forgotten_and_late", case(5, Minute, Some(3), forgotten_and_late())),
        ("one_counted", SlidingLogCase { rules: counted, ..case(4, Minute, None, in_order()) }),
        ("one_soft", SlidingLogCase { rules: soft, ..case(3, Second, None, alone()) }),
        ("keys_counted", SlidingLogCase { rules: counted, ..case(4, Minute, Some(9), in_turn()) }),
        ("one_of_thousands", case(252, Minute, None, in_order())),
        ("keys_to_the_end", case(1, Minutes(90), Some(19), to_the_end())),
    ]
}
