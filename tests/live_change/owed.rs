//! Keys that owe more than their limit, because of charges into debt, when their quota changes.

use super::{Both, at};
use crate::common::{on, policy};

/// The beginning of an hour, at which a window of every length begins.
const START: u64 = 36_000;

impl Both {
    /// Charges all units, whether they fit or not.
    fn charge(&self, units: u64) {
        on(at(START));
        assert_eq!(self.table.entry(&7).at(at(START)).charge(units), 0);
        assert_eq!(self.live.entry().at(at(START)).charge(units), 0);
    }
}

#[test]
fn a_windows_debt_stays_owed_under_a_limit_that_is_no_lower() {
    // The count of the previous hour has weight until the end of the next hour. The second policy remembers less debt,
    // but still enough.
    for next in ["sliding-window 1001/h debt 50x", "sliding-window 1000/h debt 3x"] {
        let before = "sliding-window 1000/h debt 50x";
        let both = Both::among(&[before, next]);
        both.charge(30_000);
        both.set(next, START + 1);
        assert!(!both.check(1, START + 3_600 + 1_800), "{next}");
        assert!(both.check(1, START + 7_200), "{next}");
    }
    let [first, second, third] = [10, 100, 1_000].map(|n| format!("fixed-window {n}/d debt 100x"));
    let both = Both::among(&[&first, &second, &third]);
    both.charge(500);
    both.set(&second, START);
    assert_eq!(both.left(START), 0);
    both.set(&third, START);
    assert_eq!(both.left(START), 500);
}

#[test]
fn a_debt_that_could_be_large_tells_a_small_surplus_no_worse() {
    let [limit, lower, higher] = [1_000, 999, 10_000].map(|n| format!("gcra {n}/h debt 100x"));
    let both = Both::among(&[&limit, &lower, &higher]);
    assert!(both.check(1_000, START));
    both.set(&lower, START);
    assert_eq!(both.left(START), 0);
    both.table.set_quota(policy(&higher)).unwrap();
    both.live.set_quota(policy(&higher)).unwrap();
    // The key owes one unit more than 999. At worst that unit is rounded up to the next of the 31 steps that five bits
    // can hold.
    let left = both.table.entry(&7).at(at(START)).peek(0).remaining();
    assert!((9_000 - 2_000_u64.div_ceil(15)..=9_000).contains(&left), "{left}");
    assert_eq!(both.live.entry().at(at(START)).peek(0).remaining(), 9_000);
}

#[test]
fn of_a_debt_a_lower_limit_leaves_what_the_old_limit_holds_also_when_it_is_put_back() {
    let [limit, lower] = ["gcra 1000/h debt 100x", "gcra 999/h debt 100x"];
    let both = Both::among(&[limit, lower]);
    both.charge(30_000);
    both.set(lower, START);
    both.set(limit, START);
    assert_eq!(both.left(START), 0);
    assert_eq!(both.left(START + 36), 10);
}

/// 38 s before the end of a window, 100 units of the previous window weigh 1.05 units, and 90 of them weigh 0.9.
#[test]
fn shares_of_what_a_window_kept_and_of_what_it_could_not_count_are_rounded_down_together() {
    let [limit, lower] = ["sliding-window 100/h", "sliding-window 10/h"];
    let both = Both::among(&[limit, lower]);
    assert!(both.check(100, START));
    both.set(lower, START);
    both.set(limit, START + 7_200 - 38);
    assert_eq!(both.left(START + 7_200 - 38), 99);
}
