//! `take_up_to`, and charges into debt: a key's least loaded cell decides, and all its cells are charged.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use tollgate::Timestamp;

use crate::common::policy;
use crate::sketch::{sketch, small};

const NOW: Timestamp = Timestamp::from_secs(7_200);

#[test]
fn as_much_as_fits_is_taken_from_all_cells_of_a_key() {
    for (text, limit) in [
        ("gcra 5/m", 5),
        ("fixed-window 5/m", 5),
        ("sliding-window 5/m", 5),
        ("sliding-window 5/m exact", 5),
        ("segmented-window 6/m x6", 6),
        ("gcra 5/m soft 100%", 10),
    ] {
        let sketch = sketch(policy(text), small(3, 1_000));
        let entry = sketch.entry(&1).at(NOW);
        assert_eq!(entry.take_up_to(3).into_result().unwrap().cost(), 3, "{text}");
        assert_eq!(entry.take_up_to(u64::MAX).into_result().unwrap().cost(), limit - 3, "{text}");
        let denial = entry.take_up_to(7).into_result().unwrap_err();
        assert_eq!(denial.cost(), 1, "{text}");
        // Every cell was charged, because a cell that was left out would admit this request.
        assert!(!entry.check().is_allowed(), "{text}");
        assert!(entry.is_live());
        assert!(sketch.entry(&2).at(NOW).check().is_allowed());
        assert!(entry.take_up_to(0).is_allowed());
    }
}

#[test]
fn a_charge_goes_into_debt_up_to_two_bursts() {
    let sketch = sketch(policy("gcra 5/m"), small(3, 1_000));
    let at = |second: u64| sketch.entry(&1).at(Timestamp::from_secs(7_200 + second));
    assert!(at(0).check().is_allowed());
    assert_eq!(at(0).charge(7), 0);
    // Three units more than the burst are owed, and a unit drains in 12 s.
    assert!(!at(47).check().is_allowed());
    assert!(at(48).check().is_allowed());
    assert_eq!(at(48).charge(100), 95);
    assert!(!at(48 + 71).check().is_allowed());
    assert!(at(48 + 72).check().is_allowed());
    assert_eq!(at(48 + 72).charge(0), 0);
}

#[test]
fn a_window_is_charged_what_fits() {
    for text in ["fixed-window 5/m", "sliding-window 5/m exact", "segmented-window 6/m x6"] {
        let sketch = sketch(policy(text), small(3, 1_000));
        let entry = sketch.entry(&1).at(NOW);
        assert_eq!(entry.charge(4), 0, "{text}");
        let left = entry.peek(0).remaining();
        assert_eq!((entry.charge(4), entry.charge(4)), (4 - left, 4), "{text}");
        assert!(!entry.check().is_allowed());
    }
}

/// At one instant nothing drains. Exactly 10,000 units are taken, however many threads take units at once. A thread
/// that loses its last step looks again, so no unit is left over.
#[test]
fn threads_that_take_what_fits_take_the_whole_burst_and_no_more() {
    let sketch = sketch(policy("gcra 1/h burst 10000"), small(3, 1_000));
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 1..5_u64 {
            let (sketch, taken) = (&sketch, &taken);
            scope.spawn(move || {
                for n in 0..2_000 {
                    let told = sketch.entry(&1).at(NOW).take_up_to(1 + (n * thread) % 7);
                    taken.fetch_add(told.into_result().map_or(0, |permit| permit.cost()), Relaxed);
                }
            });
        }
    });
    assert!(taken.load(Relaxed) <= 10_000);
    assert!(sketch.entry(&1).at(NOW).peek(1).is_denied());
}
