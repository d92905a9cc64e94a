//! Requests whose time is behind that of earlier requests, by a little or by whole windows.

use std::time::Duration;

use crate::common::{policy, seeded_table as table};
use tollgate::{Changing, Decision, KeyedLimiter, ManualClock, Quota, Timestamp};

#[test]
fn threads_a_millisecond_apart_are_in_step() {
    let table = table("1/s burst 1", 100);
    let now_ms = 1_000_000;
    for key in 0..50 {
        assert!(table.entry(&key).at(Timestamp::from_millis(now_ms)).check().is_allowed());
    }
    // Every floor has advanced by now to a little before these late requests, so a new key has its whole burst.
    for key in 50..100 {
        let decision = table.entry(&key).at(Timestamp::from_millis(now_ms - 1)).check();
        assert!(decision.is_allowed(), "{key}");
    }
}

#[test]
fn a_late_request_is_counted_in_its_own_window_while_the_key_is_there() {
    let table = table("fixed-window 10/m", 1);
    assert!(table.entry(&1).at(Timestamp::from_secs(10)).check_n(10).is_allowed());
    // The first instant at which a floor advances. It advances by a whole epoch, past the key's window. The key's word
    // stays until the next sweep.
    let granule_ns = 1 << 20;
    let after_ns = u64::try_from(table.stats().epoch.as_nanos()).unwrap() + granule_ns;
    for other in 2..8 {
        assert!(table.entry(&other).at(Timestamp::from_nanos(after_ns)).check().is_allowed());
    }
    assert!(!table.entry(&1).at(Timestamp::from_secs(20)).check().is_allowed());
    assert_eq!(table.entry(&1).at(Timestamp::from_secs(60)).peek(1).remaining(), 10);
}

#[test]
fn a_silence_as_long_as_a_clock_tells_is_passed_in_a_few_steps() {
    // An epoch is about a minute here. If the floor advanced by 2^26 single epochs, the test would visibly hang.
    let table = table("gcra 1000/s burst 10", 100);
    let latest = Timestamp::from_secs(4_102_444_799);
    for key in 0..50 {
        assert!(table.entry(&key).at(Timestamp::from_secs(1)).check_n(10).is_allowed());
    }
    for key in 50..100 {
        assert!(table.entry(&key).at(latest).check_n(10).is_allowed());
    }
    assert_eq!(table.stats().contended, 0);
}

/// A function that checks a key, a function that peeks at key 7, and the epoch of their table.
type Asks<'a> =
    (&'a dyn Fn(u64, u64, Timestamp) -> Decision, &'a dyn Fn(u64, Timestamp) -> Decision, Duration);

/// 2^64 ticks of a keyed word under this policy last between 126 days and 5.6 years, depending on the length of a tick.
/// So a word cannot hold such a distance.
#[test]
fn a_wait_is_told_to_the_nanosecond_to_a_request_that_is_2_to_the_64_ticks_late() {
    let (policy, base_ns) = (policy("411267/1ms"), 4_000_000_000_000_000_000_u64);
    let tiers: Changing<KeyedLimiter<u64>> =
        KeyedLimiter::builder(policy).changing().clock(ManualClock::new()).build(1).unwrap();
    let table = table("411267/1ms", 1);
    let asks: [Asks<'_>; 2] = [
        (
            &|key, cost, at| table.entry(&key).at(at).check_n(cost),
            &|cost, at| table.entry(&7).at(at).peek(cost),
            table.stats().epoch,
        ),
        (
            &|key, cost, at| tiers.entry(&key).at(at).check_n(cost),
            &|cost, at| tiers.entry(&7).at(at).peek(cost),
            tiers.stats().epoch,
        ),
    ];
    let at = Timestamp::from_nanos;
    for (check, peek, epoch) in asks {
        assert!(check(7, 411_267, at(base_ns)).is_allowed());
        let span_ns = u64::try_from(epoch.as_nanos()).unwrap() + (1 << 22);
        // The floors are first before the time at which the debt has drained, and then after it.
        for floor_ns in [base_ns, base_ns + span_ns] {
            (10..16).for_each(|key| assert!(check(key, 1, at(floor_ns)).is_allowed()));
            for (unit_bits, step) in (8..=12).flat_map(|bits| (0..800).map(move |n| (bits, n))) {
                let far_ns = u128::pow(2, 64) * 1_000_000 / (411_267 << unit_bits);
                let far_ns = u64::try_from(far_ns).unwrap();
                let now = at(floor_ns - far_ns - span_ns + step * (span_ns / 400));
                let cost = 1 + step * 513;
                let told = peek(cost, now).into_result().unwrap_err();
                let ready = now + told.retry_after().unwrap();
                assert!(peek(cost, ready).is_allowed(), "{cost} at {now:?}: {told:?}");
                let before = at(ready.as_nanos() - 1);
                assert!(!peek(cost, before).is_allowed(), "{cost} at {now:?}: {told:?}");
            }
        }
    }
}

/// These times are too far apart for a word, so no wait is known to be long enough. A reservation of 0 units is denied,
/// too.
#[test]
fn no_place_is_promised_for_later_than_the_wait_that_was_asked_for() {
    let (count, period) = (3_827_189_472_688_564_951, 2_036_145_191_635_830_242);
    let quota = Quota::per(count, Duration::from_nanos(period)).burst(1);
    let table = KeyedLimiter::<u64>::builder(quota).clock(ManualClock::new()).build(30).unwrap();
    (0..30).for_each(|key| _ = table.entry(&key).at(Timestamp::from_nanos(3 << 62)).check());
    for years in [1, 100, 272, 400] {
        let max_wait = Duration::from_secs(years * 365 * 86_400);
        for (key, cost) in [(7, 0), (7, 1), (77, 0), (77, 1)] {
            let place = table.entry(&key).at(Timestamp::default()).reserve(cost, max_wait);
            assert!(place.is_err(), "{years}: {place:?}");
        }
    }
}

/// A key whose units have all been given back still keeps its latest time. Otherwise a window that opened before that
/// time would lie below its shard's floor, and would be read as a window of an epoch or more later.
#[test]
fn a_late_request_opens_no_window_before_the_time_of_its_key() {
    let (at, far) = (Timestamp::from_secs, 189);
    let table = table("fixed-window 23780/m from-first", 8);
    for key in 0..8 {
        let permit = table.entry(&key).at(at(far)).check_n(9).into_result().unwrap();
        if key % 2 == 0 {
            table.entry(&key).at(at(0)).reset();
        } else {
            assert_eq!(table.entry(&key).at(at(far)).refund(permit), 9);
        }
        assert_eq!(table.entry(&key).at(at(0)).charge(7), 0);
        // The late charge opened a window at the key's latest time, so the window ends a minute after that. If the key
        // had lost its latest time, the window would be read as one of an epoch later.
        for later in [far, far + 30, far + 59] {
            let Err(denial) = table.entry(&key).at(at(later)).peek(23_780).into_result() else {
                continue;
            };
            let open = Duration::from_secs(far + 60 - later);
            assert!(denial.retry_after().unwrap() <= open, "{later}: {denial:?}");
        }
        assert!(table.entry(&key).at(at(far + 60)).peek(23_780).is_allowed());
    }
}
