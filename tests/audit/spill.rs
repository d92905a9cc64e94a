//! Tables that are far too small: keys go back and forth between cells and the spill, and keep their bound in every
//! interval.
//!
//! Under GCRA a spill keeps the bound if one of two conditions holds. Both conditions are about requests of one key
//! that are decided at the same moment. Either their times are no further apart than a burst takes to come back, or
//! together they ask for no more than a burst. Four threads that each ask for up to 2 units together ask for at most 8,
//! which is below the burst here. So their requests may be as late as they like.

use ahash::RandomState;
use tollgate::{Decision, KeyedLimiter, Timestamp};

use crate::common::seeded_table as table;
use crate::gcra::audit_gcra;
use crate::run::{rounds, run};
use crate::windows::{IN_STEP, LIMIT, in_each_window, request};

type Table = KeyedLimiter<u64, RandomState>;

fn check(table: Table) -> impl Fn(u64, u64, u64) -> Decision + Sync + 'static {
    move |key, now_ns, cost| table.entry(&key).at(Timestamp::from_nanos(now_ns)).check_n(cost)
}

#[test]
fn keys_between_cells_and_the_spill_never_exceed_the_bound_in_any_interval() {
    // There are 400 keys and 42 cells. At any moment about 75 of the keys owe something, and times leap by whole
    // epochs.
    let text = "gcra 1000/s burst 10";
    audit_gcra(
        text,
        1,
        || check(table(text, 20)),
        |random, n| {
            let leap_ns = n / 50_000 * 100_000_000_000;
            let now_ns = leap_ns + n * 80_000 + random.below(3_000_000);
            (random.below(400), now_ns, random.below(2) + 1)
        },
    );
}

#[test]
fn windows_of_a_table_that_is_too_small_admit_no_more_than_their_limit() {
    rounds(|count| {
        let table = table("fixed-window 100/s", 40);
        let mut admissions = run(count, IN_STEP, request(150), check(table));
        in_each_window(&mut admissions, |units| assert!(units <= LIMIT, "{units}"))
    });
}

#[test]
fn both_are_asked_in_these_worlds() {
    let table = table("gcra 1000/s burst 10", 20);
    for n in 0..100_000_u64 {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let _ = table.entry(&(key % 400)).at(Timestamp::from_nanos(n * 20_000)).check_n(1 + n % 2);
    }
    let stats = table.stats();
    assert!((5_000..95_000).contains(&stats.spilled), "{stats:?}");
    assert!(stats.reclaimed > 1_000, "{stats:?}");
}
