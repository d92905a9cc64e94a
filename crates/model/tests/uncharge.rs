//! Giving back without a permit gives back as many units as the model says, whatever has been charged.

mod common;

use std::time::Duration;

use common::policy;
use tollgate::{Limiter, ManualClock, Timestamp};
use tollgate_model::{Draw, Plant, TimeFineness};
use tollgate_oracle::Verdict;

const WINDOWS: [&str; 7] = [
    "fixed-window 10/h",
    "fixed-window 10/h from-first",
    "sliding-window 10/h",
    "segmented-window 10/h x6",
    "calendar-month 10",
    "calendar-year 10",
    "calendar-week 10 from-sunday",
];

/// The number of random sequences in which the limiter differs from the reference model. When the model takes back n
/// units, the limiter is told to take back `asked(n)`.
fn sequences_that_differ(asked: fn(u64) -> u64) -> usize {
    const RULED: [&str; 4] = [
        "gcra 10/s burst 10",
        "gcra 10/s burst 10 penalty 3s after 2",
        "fixed-window 10/s count-denied",
        "sliding-window 10/s soft 20%",
    ];
    let windows = WINDOWS.map(|text| text.replace("/h", "/s").replace("x6", "x5"));
    let mut differ = 0;
    for text in windows.iter().map(String::as_str).chain(RULED) {
        for seed in 1..60_u64 {
            let (clock, policy, mut random) = (ManualClock::new(), policy(text), Draw::new(seed));
            clock.set(Timestamp::from_secs(1_000));
            let limiter = Limiter::builder(policy).clock(clock.clone()).build();
            let mut model = TimeFineness::unkeyed(policy).model(policy, Plant::Nothing);
            let mut window = None;
            let is_same = (0..100).all(|_| {
                let (what, units) = (random.below(4), random.below(15));
                let now_ns = clock.now().as_nanos();
                let (told, expected) = match what {
                    0 => {
                        // The units that are owed now have not drained, so all of them may come back. No unit of a
                        // window that is over comes back.
                        let is_in_force = window == Some(model.place(now_ns));
                        let back = if is_in_force { model.undo(now_ns, now_ns, units) } else { 0 };
                        (limiter.entry().uncharge(asked(units)), back)
                    }
                    1 => {
                        clock.advance(Duration::from_millis(70 * units));
                        (0, 0)
                    }
                    _ => {
                        let before = model.clone();
                        let is_allowed = model.check(now_ns, units) == Verdict::Allowed;
                        if model != before {
                            window = Some(model.place(now_ns));
                        }
                        (limiter.check_n(units).is_allowed().into(), is_allowed.into())
                    }
                };
                let now_ns = clock.now().as_nanos();
                told == expected && limiter.entry().peek(0).remaining() == model.remaining(now_ns)
            });
            differ += usize::from(!is_same);
        }
    }
    differ
}

#[test]
fn what_comes_back_without_a_permit_is_what_the_model_says() {
    assert_eq!(sequences_that_differ(|units| units), 0);
}

#[test]
fn an_uncharge_of_one_unit_more_is_caught() {
    assert!(sequences_that_differ(|units| units + 1) > 400);
}
