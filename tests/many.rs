//! Many keys in one call: the answers are those of single calls in the same order.

use crate::common::{on, policy, seeded_table};
use proptest::prelude::*;
use tollgate::{KeyedLimiter, Timestamp};

const POLICIES: [&str; 4] =
    ["gcra 5/m burst 3", "fixed-window 3/m", "sliding-window 3/m exact", "segmented-window 4/m x2"];

proptest! {
    #[test]
    fn the_answers_are_those_of_single_calls(
        policy in 0_usize..4,
        calls in prop::collection::vec((0_u64..200, prop::collection::vec(0_u64..30, 0..80)), 1..6),
        cost in 0_u64..3,
    ) {
        let (one, many) = (seeded_table(POLICIES[policy], 20), seeded_table(POLICIES[policy], 20));
        let mut now = Timestamp::from_secs(1_000_000);
        for (passed_s, keys) in calls {
            now = now + std::time::Duration::from_secs(passed_s);
            on(now);
            let mut expected = keys.iter();
            many.check_many(&keys, cost, |key, decision| {
                assert_eq!(Some(key), expected.next());
                let single = one.entry(key).at(now).check_n(cost);
                assert_eq!(format!("{decision:?}"), format!("{single:?}"));
            });
            prop_assert_eq!(expected.next(), None);
            prop_assert_eq!(one.stats(), many.stats());
        }
    }
}

#[test]
fn keys_may_be_owned_or_borrowed() {
    let table = KeyedLimiter::<str>::new(policy("1/h"), 10).unwrap();
    let mut admitted = 0;
    let owned = ["alice".to_owned(), "bob".to_owned()];
    table.check_many(&owned, 1, |_, decision| admitted += u32::from(decision.is_allowed()));
    table.check_many(&["bob", "carol"], 1, |_, decision| {
        admitted += u32::from(decision.is_allowed());
    });
    assert_eq!(admitted, 3);
}
