use super::super::{
    FixedWindow, FromFirst, Gcra, Packing, Rounding, SegmentedWindow, SlidingWindow,
};
use super::*;

const SECOND: u64 = 1_000_000_000;

fn gcra(count: u64, period_s: u64, burst: u64, unit_bits: u8) -> Kernel {
    Kernel::Gcra(Gcra::new(count, period_s * SECOND, burst, unit_bits))
}

/// A change between policies without a queue, whose words have room for any debt.
fn change<'a>(old: &'a Kernel, new: &'a Kernel, at_ns: u64) -> Change<'a> {
    let [old_queue_ticks, queue_ticks] = [0; 2];
    Change {
        old,
        new,
        at_ns,
        old_queue_ticks,
        queue_ticks,
        most: u64::MAX,
        max_counts: new.limit(),
    }
}

/// The debt at `later` in ticks of the new quota, after a debt of `ahead` ticks of the old quota at `seen`.
fn owed(old: &Kernel, new: &Kernel, ahead: u64, [seen, changed, later]: [u64; 3]) -> u64 {
    let [seen_ns, at_ns, later_ns] = [seen, changed, later].map(|second| second * SECOND);
    let change = change(old, new, at_ns);
    let held = change.rebased(Held { ahead, ..Held::IDLE }, None, seen_ns).held;
    held.seen_later(new.passed(seen_ns, later_ns)).ahead
}

#[test]
fn a_debt_is_the_same_whenever_it_is_read() {
    let [old, new] = [gcra(1, 1, 40, 8), gcra(6, 60, 40, 12)];
    // The debt is 30 units at 100 s, and 20 units at the change at 110 s. After the change one unit drains in each 10
    // s.
    for seen in [100, 104, 110, 115, 120] {
        let ahead = (30 - (seen - 100)) << 8;
        assert_eq!(owed(&old, &new, ahead, [seen, 110, 120]), 19 << 12, "seen at {seen} s");
        assert_eq!(owed(&old, &new, ahead, [seen, 110, 150]), 16 << 12, "seen at {seen} s");
    }
}

#[test]
fn a_debt_that_coarser_ticks_cannot_tell_is_rounded_up_and_one_above_the_burst_is_cut() {
    let [fine, coarse] = [gcra(1, 1, 40, 12), gcra(1, 1, 4, 8)];
    assert_eq!(owed(&fine, &coarse, 1, [100, 100, 100]), 1);
    assert_eq!(owed(&fine, &coarse, (1 << 12) + 1, [100, 100, 100]), (1 << 8) + 1);
    assert_eq!(owed(&fine, &coarse, 30 << 12, [100, 100, 100]), 4 << 8);
    assert_eq!(owed(&coarse, &fine, 3, [100, 100, 100]), 3 << 4);
}

#[test]
fn what_was_idle_owes_nothing_and_what_had_not_drained_by_the_change_does() {
    let [fast, slow] = [gcra(1, 1, 40, 8), gcra(1, 3_600, 40, 8)];
    let change = |at_s: u64| change(&fast, &slow, at_s * SECOND);
    assert_eq!(change(110).rebased(Held::IDLE, None, 100 * SECOND), Rebased::NOTHING);
    // At the old rate the debt would have drained by 104 s. The new rate came into force at 102 s, when two units were
    // still owed.
    let held = Held { behind: 6 << 8, ..Held::IDLE };
    let owed = change(102).rebased(held, None, 110 * SECOND).held.ahead;
    let passed = slow.passed(102 * SECOND, 110 * SECOND);
    assert_eq!(owed, (2 << 8) - passed);
}

#[test]
fn counts_of_equal_windows_are_kept_up_to_the_new_limit() {
    let fixed = |limit| Kernel::FixedWindow(FixedWindow::new(limit, 60 * SECOND));
    let sliding = |limit, bits| {
        let window = SlidingWindow::new(limit, 60 * SECOND, Rounding::Exact, bits);
        Kernel::SlidingWindow(window)
    };
    let ring = |limit, packing| {
        Kernel::SegmentedWindow(SegmentedWindow::new(limit, 20 * SECOND, 3, 4, packing))
    };
    let counts = |old: &Kernel, new: &Kernel, counts| {
        let change = change(old, new, 70 * SECOND);
        change.rebased(Held { counts, ..Held::IDLE }, None, 70 * SECOND).held.counts
    };
    assert_eq!(counts(&fixed(9), &fixed(12), 8), 8);
    assert_eq!(counts(&fixed(9), &fixed(5), 8), 5);
    let from_first = |limit| Kernel::FromFirst(FromFirst::new(limit, 60 * SECOND, SECOND));
    assert_eq!(counts(&from_first(9), &from_first(12), 8), 8);
    assert_eq!(counts(&from_first(9), &from_first(5), 8), 5);
    // The previous count is 7 and the current count is 6. Each has four bits before the change and three bits after it.
    assert_eq!(counts(&sliding(9, 4), &sliding(5, 3), 0x76), 0o55);
    assert_eq!(counts(&sliding(9, 4), &sliding(6, 3), 0x76), 0o66);
    // The counts are 4, 3 and 2, the oldest first. The units of the newest counts are kept.
    assert_eq!(
        counts(&ring(9, Packing::SIDE_BY_SIDE), &ring(12, Packing::SIDE_BY_SIDE), 0x432),
        0x432
    );
    assert_eq!(
        counts(&ring(9, Packing::SIDE_BY_SIDE), &ring(6, Packing::SIDE_BY_SIDE), 0x432),
        0x132
    );
    assert_eq!(
        counts(&ring(9, Packing::SIDE_BY_SIDE), &ring(4, Packing::SIDE_BY_SIDE), 0x432),
        0x022
    );
    for (packing, _) in Packing::all(6, 3) {
        let packed = counts(&ring(9, Packing::SIDE_BY_SIDE), &ring(6, packing), 0x432);
        assert_eq!(counts(&ring(6, packing), &ring(6, Packing::SIDE_BY_SIDE), packed), 0x132);
    }
}

/// Decisions of other threads may already have opened the window that follows the change.
#[test]
fn a_window_ahead_of_the_change_is_kept_where_windows_are_equal_and_counted_at_it_where_not() {
    let kernels: [fn(u64) -> Kernel; 4] = [
        |s| Kernel::FixedWindow(FixedWindow::new(9, s * SECOND)),
        |s| Kernel::FromFirst(FromFirst::new(9, s * SECOND, SECOND)),
        |s| Kernel::SlidingWindow(SlidingWindow::new(9, s * SECOND, Rounding::Exact, 4)),
        |s| {
            Kernel::SegmentedWindow(SegmentedWindow::new(
                9,
                s * SECOND,
                3,
                4,
                Packing::SIDE_BY_SIDE,
            ))
        },
    ];
    for kernel in kernels {
        let [old, equal, other] = [60, 60, 30].map(kernel);
        let held = Held { ahead: 1, behind: 0, counts: 5 };
        let rebased = |new| change(&old, new, 70 * SECOND).rebased(held, None, 70 * SECOND).held;
        assert_eq!(rebased(&equal), held, "{old:?}");
        assert_eq!(rebased(&other), Held { ahead: 0, ..held }, "{old:?}");
    }
}

#[test]
fn what_was_used_is_counted_anew_where_windows_differ() {
    let [long, short] = [60, 10].map(|s| Kernel::FixedWindow(FixedWindow::new(9, s * SECOND)));
    let bucket = gcra(1, 1, 20, 8);
    let rebased =
        |old, new, held| change(old, new, 70 * SECOND).rebased(held, None, 70 * SECOND).held;
    let held = Held { counts: 8, ..Held::IDLE };
    let used = |kernel: &Kernel, held| kernel.used(held, kernel.moment(70 * SECOND));
    assert_eq!(used(&short, rebased(&long, &short, held)), 8);
    assert_eq!(used(&bucket, rebased(&long, &bucket, held)), 8);
    let debt = Held { ahead: (7 << 8) + 1, ..Held::IDLE };
    assert_eq!(used(&long, rebased(&bucket, &long, debt)), 8);
    let deep = Held { ahead: 40 << 8, ..Held::IDLE };
    assert_eq!(used(&long, rebased(&bucket, &long, deep)), 9);
    // The debt may be larger than the burst of the bucket.
    let wide = Kernel::FixedWindow(FixedWindow::new(50, 60 * SECOND));
    assert_eq!(used(&wide, rebased(&bucket, &wide, deep)), 40);
}

/// Asks for a hundred units at each step, charges as many as fit, and returns the number of units that each step
/// admitted. A step is an instant in seconds and the index of the quota that comes into force then.
fn admitted(quotas: &[Kernel], steps: &[(u64, usize)]) -> Vec<u64> {
    let (mut word, mut quota, mut former, mut last) =
        (Rebased::NOTHING, steps[0].1, None, steps[0].0 * SECOND);
    let step = |&(at_s, next): &(u64, usize)| {
        let (at_ns, old, new) = (at_s * SECOND, &quotas[quota], &quotas[next]);
        let held = word.held.seen_later(old.passed(last, at_ns));
        let kept = former.as_ref().filter(|_| word.surplus > 0);
        let kept = kept.map(|former| (former, word.surplus));
        let rebased = change(old, new, at_ns).rebased(held, kept, at_ns);
        former = Some(Former::of(*old, 2 * old.limit(), former, at_ns));
        let moment = new.moment(at_ns);
        let fits = new.remaining(rebased.held, moment, 0).min(100);
        let held = new.step(rebased.held, moment, 0, fits).unwrap_or(rebased.held);
        (word, quota, last) = (Rebased { held, ..rebased }, next, at_ns);
        fits
    };
    steps.iter().map(step).collect()
}

/// Every kind of word whose quota may change. Each kind has three kernels: for 100, 10 and 1 units in 100 s.
fn families() -> Vec<[Kernel; 3]> {
    let each = |kernel: &dyn Fn(u64) -> Kernel| [100, 10, 1].map(kernel);
    let windows = 100 * SECOND;
    vec![
        each(&|limit| gcra(limit, 100, limit, 8)),
        each(&|limit| Kernel::FixedWindow(FixedWindow::new(limit, windows))),
        each(&|limit| Kernel::FromFirst(FromFirst::new(limit, windows, SECOND))),
        each(&|limit| Kernel::SlidingWindow(SlidingWindow::new(limit, windows, Rounding::Down, 7))),
        each(&|limit| {
            Kernel::SegmentedWindow(SegmentedWindow::new(
                limit,
                20 * SECOND,
                5,
                7,
                Packing::SIDE_BY_SIDE,
            ))
        }),
    ]
}

#[test]
fn under_a_lower_limit_the_wait_is_that_for_one_unit_of_it() {
    for quotas in families() {
        let mut ready = Vec::new();
        for limit in [1, 2] {
            let at_ns = 1_000 * SECOND;
            let full = quotas[0].step(Held::IDLE, quotas[0].moment(at_ns), 0, 100);
            let new = &quotas[limit];
            let rebased =
                change(&quotas[0], new, at_ns).rebased(full.expect("it fits"), None, at_ns);
            // The word is the same as if the whole new limit had been used at the change.
            let used = new.step(Held::IDLE, new.moment(at_ns), 0, new.limit());
            assert_eq!(Some(rebased.held), used, "{new:?}");
            assert_eq!(rebased.surplus, 100 - new.limit());
            ready.push(new.ready_ns(rebased.held, at_ns, 1) / SECOND - 1_000);
        }
        assert!(ready.iter().all(|wait_s| *wait_s <= 100), "{ready:?} {quotas:?}");
    }
}

#[test]
fn what_is_put_back_within_the_old_window_counts_and_after_it_does_not() {
    let [bucket, fixed, from_first, sliding, segmented] =
        <[_; 5]>::try_from(families()).expect("five");
    // Units are spent at 1,000 s. The limit is lowered at 1,010 s and raised again at `at_s`.
    let back = |quotas: &[Kernel], at_s| {
        let steps = [(1_000, 0), (1_010, 2), (at_s, 0)];
        admitted(quotas, &steps)[2]
    };
    // Ten units come back in each ten seconds, as if the limit had not been changed. The drained part is rounded down
    // by one tick, so all results but the first are one unit lower.
    assert_eq!([1_010, 1_020, 1_050, 1_099].map(|at_s| back(&bucket, at_s)), [10, 19, 49, 98]);
    assert_eq!([1_010, 1_099, 1_100].map(|at_s| back(&fixed, at_s)), [0, 0, 100]);
    // The window began with the first request. A surplus that is added again counts for a whole window from the change
    // on.
    assert_eq!([1_010, 1_099, 1_110].map(|at_s| back(&from_first, at_s)), [0, 0, 100]);
    assert_eq!([1_010, 1_099, 1_150, 1_200].map(|at_s| back(&sliding, at_s)), [0, 0, 50, 100]);
    assert_eq!([1_010, 1_099, 1_100].map(|at_s| back(&segmented, at_s)), [0, 0, 100]);
}

#[test]
fn an_overdraft_outlasts_a_change_for_the_time_that_it_would_have_taken_but_a_lower_limit_has_none()
{
    let [old, slow, fast] = [gcra(10, 1, 10, 8), gcra(1, 1, 10, 8), gcra(100, 1, 10, 8)];
    let low = gcra(10, 1, 9, 8);
    let held = Held { ahead: 30 << 8, ..Held::IDLE };
    let at_ns = 1_000 * SECOND;
    let units = |new: &Kernel| {
        let rebased = change(&old, new, at_ns).rebased(held, None, at_ns);
        (rebased.held.ahead >> 8, rebased.surplus)
    };
    // 20 of the 30 units are beyond the burst. They drain in two seconds at the old rate, in which the slow quota
    // drains two units. The 18 other units are the surplus.
    assert_eq!(units(&slow), (12, 18));
    assert_eq!(units(&fast), (30, 0));
    assert_eq!(units(&low), (9, 21));
}
