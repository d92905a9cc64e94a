//! Latency compensation: a late request is decided at its own earlier time, which never admits more.

use std::time::Duration;

use crate::common::policy;
use proptest::prelude::*;
use tollgate::{KeyedLimiter, Limiter, ManualClock, Meter, Timestamp, Word};

const START_MS: u64 = 1_000_000;

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_millis(START_MS + ms)
}

#[test]
fn an_arrival_is_believed_between_the_longest_lateness_ago_and_now() {
    let now = ms(1_000);
    let late = Duration::from_millis(300);
    for (arrived, decided) in [(0, 700), (699, 700), (700, 700), (701, 701), (1_000, 1_000)] {
        assert_eq!(ms(arrived).clamp(now - late, now), ms(decided));
    }
    let latest = Timestamp::from_nanos(u64::MAX);
    assert_eq!(latest.clamp(now - late, now), now);
    // If the earlier time is before the origin, the origin is used, and nothing overflows.
    assert_eq!(Timestamp::from_nanos(7) - late, Timestamp::default());
    assert_eq!(latest - Duration::MAX, Timestamp::default());
    assert_eq!(latest - Duration::ZERO, latest);
}

/// The numbers of requests that a limiter and a table admit. The requests arrived every 100 ms for 2 s, and are all
/// decided together 500 ms after the last.
fn held_up(text: &str, late: Duration) -> [usize; 2] {
    let now = ms(2_400);
    let limiter = Limiter::builder(policy(text)).clock(ManualClock::new()).build();
    let keyed =
        KeyedLimiter::<str>::builder(policy(text)).clock(ManualClock::new()).build(10).unwrap();
    let arrivals = (0..20).map(|nth| ms(100 * nth).clamp(now - late, now));
    let admitted = arrivals.map(|at| {
        (
            limiter.entry().at(at).check().is_allowed(),
            keyed.entry("key").at(at).check().is_allowed(),
        )
    });
    let told: Vec<_> = admitted.collect();
    [told.iter().filter(|told| told.0).count(), told.iter().filter(|told| told.1).count()]
}

#[test]
fn even_arrivals_that_were_held_up_are_admitted_as_if_on_time() {
    let late = Duration::from_secs(3);
    assert_eq!(held_up("gcra 10/s burst 1", late), [20, 20]);
    assert_eq!(held_up("gcra 10/s burst 3", late), [20, 20]);
    // Without compensation, or if they are later than the compensation allows, the requests count as a burst.
    assert_eq!(held_up("gcra 10/s burst 3", Duration::ZERO), [3, 3]);
    assert_eq!(held_up("gcra 10/s burst 1", Duration::from_millis(900)), [5, 5]);
}

#[test]
fn what_is_left_of_a_wait_is_told_from_when_it_is_answered() {
    let limiter = Limiter::builder(policy("gcra 1/s burst 1")).clock(ManualClock::new()).build();
    assert!(limiter.entry().at(ms(0)).check().is_allowed());
    let denial = limiter.entry().at(ms(100)).check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(Duration::from_millis(900)));
    let left = |at| (denial.ready_at().unwrap() - ms(at)).as_millis();
    assert_eq!([0, 100, 400, 999, 1_000, 5_000].map(left), [1_000, 900, 600, 1, 0, 0]);
    let never = limiter.entry().at(ms(100)).check_n(2).into_result().unwrap_err();
    assert_eq!(never.ready_at(), None);
}

proptest! {
    /// In the limiter's time a closed interval of length W holds at most burst + floor(rate * (W + late)) units.
    #[test]
    fn in_the_limiters_time_an_interval_holds_no_more_than_the_bound_of_one_that_is_longer(
        burst in 1_u64..5,
        max_ms in 0_u64..400,
        requests in prop::collection::vec((0_u64..60, 0_u64..600, any::<bool>()), 1..120),
    ) {
        // At 10 a second all times are whole ticks.
        let policy = policy(&format!("gcra 10/s burst {burst}"));
        let (meter, late) = (Meter::new(policy).unwrap(), Duration::from_millis(max_ms));
        let (mut word, mut now_ms, mut admitted) = (Word::UNUSED, 1_000, Vec::new());
        for (on_ms, late_ms, is_ahead) in requests {
            now_ms += on_ms;
            let claimed = if is_ahead { now_ms + late_ms } else { now_ms - late_ms };
            let at = ms(claimed).clamp(ms(now_ms) - late, ms(now_ms));
            let (decision, next) = meter.check(word, at, 1);
            word = next;
            if decision.is_allowed() {
                admitted.push(now_ms);
            }
        }
        for (nth, first) in admitted.iter().enumerate() {
            for (other, last) in admitted.iter().enumerate().skip(nth) {
                let units = (other - nth) as u64 + 1;
                prop_assert!(units <= burst + (last - first + max_ms) / 100);
            }
        }
    }
}
