//! Section B: time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{Clock, CoarseClock, Entry, KeyedLimiter, Limiter, ManualClock, Quota, Timestamp};

use crate::bad_inputs::concurrency::on_threads;
use crate::common::{each, policy};

const ALGORITHMS: [&str; 6] = [
    "gcra 10/m",
    "fixed-window 10/m",
    "fixed-window 10/m from-first",
    "sliding-window 10/m exact",
    "sliding-window 10/m strict",
    "segmented-window 10/m x6",
];

/// The number of single units that a limit admits at `now`, one after the other.
fn drain(entry: Entry<'_>, now: Timestamp) -> usize {
    (0..50).filter(|_| entry.at(now).check().is_allowed()).count()
}

#[test]
fn row_27_threads_whose_clocks_disagree_admit_no_more_than_the_bound() {
    // Each of four threads advances its own time over 2 seconds, and their times are up to 10 ms apart.
    let keyed = KeyedLimiter::builder(Quota::per_second(1_000).burst(10))
        .clock(ManualClock::new())
        .build(10);
    let keyed = keyed.unwrap();
    let latest_ns = AtomicU64::new(0);
    let admitted = on_threads(4, |thread| {
        let mut admitted = 0;
        for step in 0..200_000_u64 {
            let jitter_ns =
                (step.wrapping_mul(thread + 7).wrapping_mul(0x9e37_79b9) >> 7) % 10_000_000;
            let now_ns = step * 10_000 + jitter_ns;
            latest_ns.fetch_max(now_ns, Ordering::Relaxed);
            admitted += u64::from(
                keyed.entry("key").at(Timestamp::from_nanos(now_ns)).check().is_allowed(),
            );
        }
        admitted
    });
    let bound = 10 + latest_ns.into_inner() / 1_000_000 + 1;
    assert!(admitted <= bound, "{admitted} above {bound}");
    assert!(admitted >= bound * 99 / 100, "{admitted} far below {bound}");
}

#[test]
fn row_28_and_45_a_step_back_gives_nothing_and_locks_no_key_out() {
    for text in ALGORITHMS {
        // In row 45 a thread slept for ten seconds after it had read its clock.
        for back in [1, 10, 3_600] {
            each(text, Timestamp::default(), |entry, _, kind| {
                let start = Timestamp::from_secs(7_200);
                assert_eq!(drain(entry, start), 10, "{text}, {kind}");
                assert_eq!(drain(entry, Timestamp::from_secs(7_200 - back)), 0, "{text}, {kind}");
                // Two windows after the time from which the clock stepped back, the whole limit is left again.
                assert_eq!(drain(entry, start + Duration::from_secs(120)), 10, "{text}, {kind}");
            });
        }
    }
}

#[test]
fn row_15_29_and_30_a_step_forward_or_any_idle_time_gives_one_burst() {
    for text in ALGORITHMS {
        for hours in [1, 8, 12, 24 * 365, 24 * 3_650] {
            each(text, Timestamp::default(), |entry, _, kind| {
                assert_eq!(drain(entry, Timestamp::from_secs(60)), 10, "{text}, {kind}");
                let later = Timestamp::from_secs(60 + hours * 3_600);
                assert_eq!(drain(entry, later), 10, "{text}, {kind}, after {hours} h");
            });
        }
    }
}

#[test]
fn row_31_the_clock_of_the_operating_system_can_be_chosen() {
    let limiter = Limiter::builder(Quota::per_hour(3)).clock(Clock::system()).build();
    assert_eq!((0..10).filter(|_| limiter.check().is_allowed()).count(), 3);
}

#[test]
fn row_32_a_clock_that_runs_fast_gives_that_much_more_and_nothing_else() {
    // The clock is 83 parts in a million too fast, for a day of true time.
    let limiter = Limiter::builder(policy("gcra 10/s burst 1")).clock(ManualClock::new()).build();
    let mut admitted = 0;
    for tick in 0..=864_000 * 2_u64 {
        let true_ns = tick * 50_000_000;
        let told_ns = true_ns + true_ns / 1_000_000 * 83;
        admitted +=
            u64::from(limiter.entry().at(Timestamp::from_nanos(told_ns)).check().is_allowed());
    }
    let bound = 1 + 864_000 + 864_000 * 83 / 1_000_000;
    assert!(admitted <= bound + 1, "{admitted} above {bound}");
}

#[test]
fn row_36_a_clock_that_goes_backward_neither_panics_nor_gives() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_minute(10)).clock(clock.clone()).build();
    let keyed =
        KeyedLimiter::builder(Quota::per_minute(10)).clock(clock.clone()).build(10).unwrap();
    clock.set(Timestamp::from_secs(1_000_000));
    assert!(limiter.check_n(10).is_allowed() && keyed.check_n("key", 10).is_allowed());
    for secs in [999_999, 500_000, 60, 0] {
        clock.set(Timestamp::from_secs(secs));
        assert!(!limiter.check().is_allowed() && !keyed.check("key").is_allowed());
        let wait = limiter.check().into_result().unwrap_err().retry_after().unwrap();
        assert_eq!(wait, Duration::from_secs(1_000_006 - secs));
    }
    assert!(keyed.stats().live == 1);
}

#[test]
fn row_39_a_container_that_is_restored_later_or_elsewhere_gives_no_more_than_a_step_of_the_clock() {
    // A restored container reads its clock again after an hour in which it did not run. The clock of its new machine is
    // ahead or behind.
    let at = Timestamp::from_secs;
    for text in ALGORITHMS {
        for (restored_at, admitted) in [(7_200 + 3_600, 10), (7_200, 0), (3_600, 0)] {
            each(text, at(7_200), |entry, clock, kind| {
                let permit = entry.check_n(10).into_result().unwrap();
                clock.set(at(restored_at));
                // Requests in flight may refund their charge. A refund adds nothing to the units that have drained
                // meanwhile.
                if restored_at > 7_200 {
                    let _ = entry.refund(permit);
                }
                let found = (0..50).filter(|_| entry.check().is_allowed()).count();
                assert_eq!(found, admitted, "{text}, {kind}, at {restored_at}");
                // A key is denied at most until the clock has come back to its earlier time.
                clock.set(at(restored_at.max(7_200) + 120));
                assert!(entry.check_n(10).is_allowed(), "{text}, {kind}");
            });
        }
    }
}

#[test]
fn row_34_while_a_coarse_clock_stalls_nothing_is_refilled() {
    let coarse = CoarseClock::new();
    let limiter =
        Limiter::builder(Quota::per_second(2_000_000_000).burst(3)).clock(coarse.clock()).build();
    // A unit drains in half a nanosecond, but the clock does not advance.
    assert_eq!((0..100_000).filter(|_| limiter.check().is_allowed()).count(), 3);
    let before = limiter.now();
    while limiter.now() == before {
        coarse.tick();
    }
    assert!(limiter.check().is_allowed());
}
