//! How much debt a word remembers and gives back, up to what the word has room for.

use std::time::Duration;

use tollgate::{KeyedLimiter, Limiter, ManualClock, Policy, Quota, Timestamp};

/// The count of denials in a row takes bits of the word, so the word remembers a shorter debt. If a denial reports a
/// debt, that debt is always owed.
#[test]
fn a_debt_beside_denials_in_a_row_is_owed_as_far_as_it_is_told() {
    // The count of denials takes 2 bits for 3 denials, 8 for 231, and 31 for 2^31 - 1.
    for (after, most) in [(3, 1_u64 << 32), (231, 1 << 32), (i32::MAX.cast_unsigned(), 1 << 32)] {
        let text = format!("1/s penalty 10m after {after}");
        let policy: Policy = text.parse().unwrap();
        let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
        let charged = u64::MAX - limiter.entry().charge(u64::MAX);
        assert!((most..=2 * most).contains(&charged), "{text}: {charged}");
        let denial = limiter.check().into_result().unwrap_err();
        assert_eq!(denial.retry_after(), Some(Duration::from_secs(charged)), "{text}");
        // A place that does not fit in the word is not granted either.
        assert!(limiter.entry().reserve(1, Duration::from_secs(u64::MAX)).is_err(), "{text}");
    }
}

/// A table whose burst takes longer to drain than the range of all times.
#[test]
fn a_table_gives_back_all_of_a_burst_of_a_thousand_years() {
    let now = Timestamp::from_secs(1_790_000_000);
    for (count, period_days, burst) in [(1, 3_650, 100), (1, 3_650, 1_000), (10, 40_000, 97)] {
        let quota = Quota::per(count, Duration::from_secs(period_days * 86_400)).burst(burst);
        let limiter =
            KeyedLimiter::<u64>::builder(quota).clock(ManualClock::new()).build(4).unwrap();
        let permit = limiter.entry(&7).at(now).check_n(burst).into_result().unwrap();
        assert_eq!(limiter.entry(&7).at(now).refund(permit), burst, "{quota}");
        assert_eq!(limiter.entry(&7).at(now).peek(0).remaining(), burst, "{quota}");
    }
}

/// A word can hold times up to the end of the granule that lies one epoch above its floor.
#[test]
fn a_refund_at_once_gives_back_everything_wherever_the_floor_stands() {
    let quota = Quota::per_minute(21_616);
    let plain = || KeyedLimiter::<u64>::builder(quota).clock(ManualClock::new()).build(4).unwrap();
    let tiers =
        || KeyedLimiter::<u64>::builder(quota).tier(quota).clock(ManualClock::new()).build(4);
    for ms in (110_000..130_000).step_by(7) {
        for limiter in [&plain(), &*tiers().unwrap()] {
            let now = Timestamp::from_nanos(ms * 1_000_000 + 58);
            assert_eq!(limiter.entry(&7).at(Timestamp::default()).charge(2 * 21_616), 0);
            let taken = limiter.entry(&7).at(now).take_up_to(u64::MAX).into_result().unwrap();
            let left = limiter.entry(&7).at(now).peek(0).remaining();
            assert_eq!(limiter.entry(&7).at(now).refund(taken.portion(121)), 121, "{ms} ms");
            assert_eq!(limiter.entry(&7).at(now).peek(0).remaining(), left + 121, "{ms} ms");
        }
    }
}

/// Settles 1,000 requests of 300 units each at one instant, and returns the number of units that are remembered.
fn settled(charge: impl Fn(u64) -> u64) -> u64 {
    (0..1_000).map(|_| 300 - charge(300)).sum()
}

/// A whole number of windows and of seconds, so that no reading is rounded.
const START: Timestamp = Timestamp::from_secs(3_600 * 1_000);

/// The time after `START` at which a unit is admitted, to the nanosecond. It is not admitted any earlier.
fn admitted_after(entry: &tollgate::Entry<'_>) -> Duration {
    let denial = entry.at(START).peek(1).into_result().unwrap_err();
    let wait = denial.retry_after().unwrap();
    let at = |wait: Duration| {
        Timestamp::from_nanos(START.as_nanos() + u64::try_from(wait.as_nanos()).unwrap())
    };
    assert!(entry.at(at(wait - Duration::from_nanos(1))).peek(1).is_denied());
    assert!(entry.at(at(wait)).check().is_allowed());
    wait
}

/// The time until one unit fits when `owed` units are owed under 1,000 an hour, where a unit drains in 3.6 s.
fn drains(owed: u64) -> Duration {
    Duration::from_millis(3_600 * (owed - 999))
}

/// The quotas of the following tests, and how many of 300,000 charged units a key's word remembers under each.
const HOURLY: [(&str, u64); 6] = [
    ("gcra 1000/h", 2_000),
    ("gcra 1000/h debt 1x", 2_000),
    ("gcra 1000/h debt 2x", 3_000),
    ("gcra 1000/h debt 100x", 101_000),
    ("gcra 1000/h debt 298x", 299_000),
    ("gcra 1000/h debt 1000x", 300_000),
];

#[test]
fn a_keys_debt_is_remembered_as_far_as_its_policy_says_and_drains_at_the_rate() {
    for (text, remembered) in HOURLY {
        let policy: Policy = text.parse().unwrap();
        let plain =
            KeyedLimiter::<u64>::builder(policy).clock(ManualClock::new()).build(100).unwrap();
        let tiers = KeyedLimiter::builder(policy).tier(Quota::per_hour(7));
        let tiers = tiers.clock(ManualClock::new()).build(100).unwrap();
        for limiter in [&plain, &*tiers] {
            let entry = limiter.entry(&7).at(START);
            assert_eq!(settled(|units| entry.charge(units)), remembered, "{text}");
            assert!(limiter.entry(&8).at(START).check_n(1_000).is_allowed(), "{text}");
            assert_eq!(admitted_after(&entry), drains(remembered), "{text}");
        }
    }
}

#[test]
fn a_limit_with_a_word_of_its_own_remembers_all_of_it_whatever_its_policy_says() {
    for (text, _) in HOURLY {
        let policy: Policy = text.parse().unwrap();
        let plain = Limiter::builder(policy).clock(ManualClock::new()).build();
        let changing =
            Limiter::builder(policy).clock(ManualClock::new()).changing().build().unwrap();
        for limiter in [&plain, &*changing] {
            let entry = limiter.entry().at(START);
            assert_eq!(settled(|units| entry.charge(units)), 300_000, "{text}");
            assert_eq!(admitted_after(&entry), drains(300_000), "{text}");
        }
    }
}

/// Keys without a cell share words. With the option `debt` no key's debt denies other keys for longer than without it.
#[test]
fn a_spilled_debt_is_remembered_to_twice_the_burst_and_what_is_not_is_told() {
    for (text, _) in HOURLY {
        let policy: Policy = text.parse().unwrap();
        let limiter =
            KeyedLimiter::<u64>::builder(policy).clock(ManualClock::new()).build(1).unwrap();
        let spilled = (0..100).find(|key| limiter.entry(key).at(START).check().is_spilled());
        let entry = limiter.entry(spilled.as_ref().unwrap()).at(START);
        assert_eq!(settled(|units| entry.charge(units)), 1_999, "{text}: one unit was checked");
        assert!(entry.check().is_spilled(), "{text}");
        assert_eq!(admitted_after(&entry), drains(2_000), "{text}");
    }
}

/// With `debt 20x` a window's count may exceed its limit by twenty limits. The lockout ends at the time that follows
/// from the definition of the algorithm.
#[test]
fn a_windows_debt_counts_in_its_window_and_weighs_in_the_next_as_its_definition_says() {
    let hour_ns = 3_600_000_000_000_u64;
    // While the 21,000 units weigh at most 999 (or less than 1,000, if their weight is rounded down), there is room for
    // one unit.
    let weighs = |units_ns: u64| hour_ns + hour_ns - units_ns / 21_000;
    for (text, wait_ns) in [
        ("fixed-window 1000/h debt 20x", hour_ns),
        ("fixed-window 1000/h from-first debt 20x", hour_ns),
        ("sliding-window 1000/h exact debt 20x", weighs(999 * hour_ns)),
        ("sliding-window 1000/h debt 20x", weighs(1_000 * hour_ns - 1)),
        ("sliding-window 1000/h strict debt 20x", 2 * hour_ns),
    ] {
        let policy: Policy = text.parse().unwrap();
        let one = Limiter::builder(policy).clock(ManualClock::new()).build();
        let changing =
            Limiter::builder(policy).clock(ManualClock::new()).changing().build().unwrap();
        let keyed =
            KeyedLimiter::<u64>::builder(policy).clock(ManualClock::new()).build(100).unwrap();
        let tiers = KeyedLimiter::builder(policy).tier(Quota::per_hour(7));
        let tiers = tiers.clock(ManualClock::new()).build(100).unwrap();
        for entry in [one.entry(), changing.entry(), keyed.entry(&7), tiers.entry(&7)] {
            let entry = entry.at(START);
            // A check is admitted or denied as it is without `debt`.
            assert!(entry.check_n(999).is_allowed() && entry.check_n(2).is_denied(), "{text}");
            assert_eq!(settled(|units| entry.charge(units)), 21_000 - 999, "{text}");
            assert_eq!(admitted_after(&entry), Duration::from_nanos(wait_ns), "{text}");
        }
    }
    let policy: Policy = "calendar-month 1000 debt 20x".parse().unwrap();
    let month = Limiter::builder(policy).clock(ManualClock::new()).build();
    let (entry, days) = (month.entry(), Duration::from_secs(31 * 86_400));
    assert_eq!(settled(|units| entry.at(Timestamp::default()).charge(units)), 21_000);
    let denial = entry.at(Timestamp::default()).check().into_result().unwrap_err();
    assert_eq!(denial.retry_after(), Some(days), "January 1970");
}

/// If a debt has raised a count above the limit, a counted denial does not cut the count to the limit. So the whole
/// debt can be given back.
#[test]
fn counting_a_denial_forgives_no_debt() {
    for text in [
        "fixed-window 10/m count-denied debt 9x",
        "fixed-window 10/m from-first count-denied debt 9x",
        "sliding-window 10/m strict count-denied debt 9x",
        "sliding-window 10/m count-denied debt 9x",
        "gcra 10/m count-denied debt 9x",
    ] {
        let limiter =
            Limiter::builder(text.parse::<Policy>().unwrap()).clock(ManualClock::new()).build();
        let entry = limiter.entry().at(START);
        assert_eq!(entry.charge(100), 0, "{text}");
        assert!(entry.check().is_denied(), "{text}");
        assert_eq!(entry.uncharge(95), 95, "{text}");
        assert_eq!(entry.peek(1).remaining(), 5, "{text}");
    }
}

#[test]
fn a_debt_that_no_word_can_tell_is_refused_with_what_would_be_accepted() {
    for (text, told) in [
        ("gcra 10/m debt 0x", "use at least debt 1x"),
        ("gcra 10/m debt 5", "as in debt 100x"),
        ("gcra 10/m debt", "as in debt 100x"),
        ("gcra 10/m debt 4294967296x", "as in debt 100x"),
        ("gcra 10/m debt 2x debt 2x", "debt is given twice"),
        ("segmented-window 100/m x6 debt 2x", "use sliding-window or gcra"),
        ("sliding-log 100/m debt 2x", "or use gcra"),
        ("fixed-window 2000000000/s debt 4294967295x", "64 are there; at most debt 1x fits"),
        ("fixed-window 20000000000/10s debt 1x", "64 are there; without a debt it fits"),
        ("gcra 1/s burst 9000000000 debt 4294967295x", "at most debt 1024819114x fits"),
    ] {
        let error = text.parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
}

/// Checks each row of the table in `docs/how-it-works.md` that says what a key's word gives up to remember a debt.
#[test]
fn what_a_debt_costs_in_a_keys_word_is_what_the_page_says() {
    let page = include_str!("../docs/how-it-works.md");
    let debts = |quota| if quota == "100000/h" { vec![1, 100, 1_000] } else { vec![1, 100] };
    let rows = ["1000/h", "100/s", "10000/s", "100000/h"].into_iter().flat_map(|quota| {
        debts(quota).into_iter().map(move |times: u32| {
            let policy: Policy = format!("gcra {quota} debt {times}x").parse().unwrap();
            let sole = KeyedLimiter::<u64>::new(policy, 1_000_000).unwrap().stats();
            let tiers = KeyedLimiter::<u64>::builder(policy).changing().build(1_000_000).unwrap().stats();
            let strangers = 1.0 / sole.collision_probability / 1e6;
            let drains = policy.quota().period() * times;
            format!(
                "| `gcra {quota} debt {times}x` | {} | {} | {} | 1 in {strangers:.1} million | {} | {}, {} |\n",
                span(drains),
                sole.state_bits,
                sole.tag_bits,
                span(sole.epoch),
                tiers.tag_bits,
                span(tiers.epoch)
            )
        })
    });
    let rows: String = rows.collect();
    assert!(page.contains(&rows), "the rows are\n{rows}");
}

/// A length of time to two digits, in the largest unit that it contains at least once.
fn span(length: Duration) -> String {
    let seconds = length.as_secs_f64();
    let units = [("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0)];
    let found = units.into_iter().find(|(_, unit)| seconds >= *unit);
    let (unit, size) = found.unwrap_or(("ms", 0.001));
    format!("{} {unit}", (seconds / size * 10.0).round() / 10.0)
}
