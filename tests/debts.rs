//! What a word remembers of a debt, and gives back of it, at the edges of what it has room for.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::time::Duration;

use tollgate::{KeyedLimiter, Limiter, ManualClock, Policy, Quota, Tiers, Timestamp};

/// Denials in a row take bits of the word, so it remembers a shorter debt. Every debt that a denial tells is owed.
#[test]
fn a_debt_beside_denials_in_a_row_is_owed_as_far_as_it_is_told() {
    // 2 bits for 3 denials, 8 for 231, 31 for 2^31 - 1.
    for (after, most) in [(3, 1_u64 << 32), (231, 1 << 32), (i32::MAX.cast_unsigned(), 1 << 32)] {
        let text = format!("1/s penalty 10m after {after}");
        let policy: Policy = text.parse().unwrap();
        let limiter = Limiter::with_clock(policy, ManualClock::new());
        let charged = u64::MAX - limiter.entry().charge(u64::MAX);
        assert!((most..=2 * most).contains(&charged), "{text}: {charged}");
        let denial = limiter.check().into_result().unwrap_err();
        assert_eq!(denial.retry_after(), Some(Duration::from_secs(charged)), "{text}");
        // A debt that the word cannot hold is not promised as a place either.
        assert!(limiter.entry().reserve(1, Duration::from_secs(u64::MAX)).is_err(), "{text}");
    }
}

/// A table whose burst takes longer to drain than the range of all times.
#[test]
fn a_table_gives_back_all_of_a_burst_of_a_thousand_years() {
    let now = Timestamp::from_secs(1_790_000_000);
    for (count, period_days, burst) in [(1, 3_650, 100), (1, 3_650, 1_000), (10, 40_000, 97)] {
        let quota = Quota::per(count, Duration::from_secs(period_days * 86_400)).burst(burst);
        let limiter = KeyedLimiter::<u64>::with_clock(quota, 4, ManualClock::new()).unwrap();
        let permit = limiter.entry(&7).at(now).check(burst).into_result().unwrap();
        assert_eq!(limiter.entry(&7).at(now).refund(permit), burst, "{quota}");
        assert_eq!(limiter.entry(&7).at(now).peek(0).remaining(), burst, "{quota}");
    }
}

/// A word is written up to the end of the granule that is an epoch above its floor.
#[test]
fn a_refund_at_once_gives_back_everything_wherever_the_floor_stands() {
    let quota = Quota::per_minute(21_616);
    let plain = || KeyedLimiter::<u64>::with_clock(quota, 4, ManualClock::new()).unwrap();
    let tiers = || Tiers::of(quota).and(quota).build_with_clock::<u64>(4, ManualClock::new());
    for ms in (110_000..130_000).step_by(7) {
        for limiter in [plain(), tiers().unwrap()] {
            let now = Timestamp::from_nanos(ms * 1_000_000 + 58);
            assert_eq!(limiter.entry(&7).at(Timestamp::default()).charge(2 * 21_616), 0);
            let taken = limiter.entry(&7).at(now).take_up_to(u64::MAX).into_result().unwrap();
            let left = limiter.entry(&7).at(now).peek(0).remaining();
            assert_eq!(limiter.entry(&7).at(now).refund(taken.portion(121)), 121, "{ms} ms");
            assert_eq!(limiter.entry(&7).at(now).peek(0).remaining(), left + 121, "{ms} ms");
        }
    }
}
