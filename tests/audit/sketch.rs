//! The sketch: the bound of every key holds in every interval, however many keys share its cells.
//!
//! Under GCRA a sketch keeps the bound if one of two conditions holds. Both conditions are about requests of one key
//! that are decided at the same moment. Either their times are no further apart than a burst takes to come back, or
//! together they ask for no more than a burst. Four threads that each ask for up to 3 units together ask for at most
//! 12, which is below every burst here. So their requests may be as late as they like.

use ahash::RandomState;
use tollgate::{Decision, ManualClock, SketchLimiter, SketchSize, Timestamp};

use crate::common::policy;
use crate::gcra::audit_gcra;
use crate::run::{Random, rounds, run};
use crate::windows::{IN_STEP, LIMIT, in_each_window, max_in_any_window, request};

fn sketch(
    text: &str,
    rows: usize,
    cells_per_row: usize,
) -> impl Fn(u64, u64, u64) -> Decision + Sync + 'static {
    let size = SketchSize::new(rows, cells_per_row).unwrap();
    let seeds = RandomState::with_seeds(1, 2, 3, 4);
    let sketch = SketchLimiter::builder(policy(text))
        .clock(ManualClock::new())
        .hasher(seeds)
        .build(size)
        .unwrap();
    move |key, now_ns, cost| sketch.entry(&key).at(Timestamp::from_nanos(now_ns)).check_n(cost)
}

#[test]
fn a_hot_key_of_a_sketch_never_exceeds_the_bound_in_any_interval() {
    // Each thread advances at its own pace. Times are up to 2 ms apart, and sometimes 50 ms late. A burst comes back in
    // 0.5 ms.
    let text = "gcra 100000/s burst 50";
    audit_gcra(
        text,
        1,
        || sketch(text, 4, 100),
        |random, n| {
            let late_ns = if random.below(100) == 0 { 50_000_000 } else { 0 };
            let now_ns = 1_000_000_000 + n * 1_000 + random.below(2_000_000);
            (7, now_ns.saturating_sub(late_ns), random.below(3) + 1)
        },
    );
}

#[test]
fn keys_that_share_all_their_cells_never_exceed_the_bound_in_any_interval() {
    // 200 keys share 2 rows of 8 cells, so about 25 keys share each cell, and every key is sometimes denied.
    let text = "gcra 1000/s burst 15";
    audit_gcra(
        text,
        1,
        || sketch(text, 2, 8),
        |random, n| (random.below(200), n * 20_000 + random.below(3_000_000), random.below(3) + 1),
    );
}

#[test]
fn many_keys_of_a_sketch_never_exceed_the_bound_in_any_interval() {
    let text = "gcra 100/s burst 15";
    audit_gcra(
        text,
        1,
        || sketch(text, 3, 5_000),
        |random, n| (random.below(5_000), n * 3_000 + random.below(1_000_000), 1),
    );
}

#[test]
fn windows_of_a_sketch_admit_no_more_than_their_bound() {
    rounds(|count| {
        let sketch = sketch("fixed-window 100/s", 3, 40);
        let mut admissions = run(count, IN_STEP, request(150), sketch);
        in_each_window(&mut admissions, |units| assert!(units <= LIMIT, "{units}"))
    });
    rounds(|count| {
        let sketch = sketch("sliding-window 100/s exact", 3, 40);
        let mut admissions = run(count, IN_STEP, request(150), sketch);
        let most = max_in_any_window(&mut admissions);
        assert!(most < 2 * LIMIT, "{most}");
        admissions.len()
    });
}

#[test]
fn a_sketch_that_grants_one_unit_more_is_caught() {
    let caught = std::panic::catch_unwind(|| {
        let request = |random: &mut Random, n: u64| (random.below(4), n * 1_000, 1);
        audit_gcra("gcra 100/s burst 15", 1, || sketch("gcra 100/s burst 16", 3, 100), request);
    });
    assert!(caught.is_err());
}
