//! Calendar weeks, months and years in every kind of limiter that takes a policy: exact times, the clock that they
//! need, and the policies that are refused.

mod windows;

use std::time::Duration;

use crate::common::policy;
use tollgate::{
    BuildError, CalendarUnit, ChangeError, Changing, Clock, KeyedLimiter, Limiter, ManualClock,
    Policy, Quota, SketchLimiter, SketchSize, Timestamp, Weekday,
};
use windows::{CALENDAR, DAY_S, calendar};

fn at(second: u64) -> Timestamp {
    Timestamp::from_secs(second)
}

fn just_before(second: u64) -> Timestamp {
    Timestamp::from_nanos(second * 1_000_000_000 - 1)
}

#[test]
fn a_window_of_the_calendar_gives_its_limit_once_and_says_when_it_ends() {
    let windows = |(plan, windows, _)| {
        <[(u64, u64)]>::iter(windows).map(move |(first, days)| (plan, *first, *days))
    };
    for (plan, first, days) in calendar(5).flat_map(windows) {
        let limiter = Limiter::builder(plan).clock(ManualClock::new()).build();
        let (middle, next) = (first + 3 * DAY_S, first + days * DAY_S);
        let decision = limiter.entry().at(at(middle)).check_n(4);
        assert!(decision.is_allowed());
        assert_eq!((decision.limit(), decision.remaining()), (5, 1));
        let left = Duration::from_secs((days - 3) * DAY_S);
        assert_eq!(decision.reset_after(), left, "{plan} from {first}");
        let denied = limiter.entry().at(just_before(next)).check_n(2).into_result().unwrap_err();
        assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)), "{plan} from {first}");
        assert_eq!(limiter.entry().at(at(next)).peek(1).remaining(), 5, "{plan} from {first}");
        assert!(!limiter.entry().at(at(next)).check_n(6).is_allowed());
        assert!(limiter.entry().at(at(middle + 1)).check().is_allowed());
    }
}

/// A year of monthly limits in a table: each key gets its limit twelve times. A late request counts in the current
/// month.
#[test]
fn keys_of_a_table_get_their_limit_in_every_month() {
    let table =
        KeyedLimiter::builder(policy("calendar-month 3")).clock(ManualClock::new()).build(100);
    let table = table.unwrap();
    let start = 1_735_689_600; // 1 January 2025
    let keys = 0..50_u64;
    let mut admitted = 0;
    for hour in 0..365 * 24 {
        let now = at(start + hour * 3_600);
        let key = hour % 50;
        admitted += u64::from(table.entry(&key).at(now).check().is_allowed());
    }
    assert_eq!(admitted, 50 * 3 * 12);
    for key in keys {
        let decision = table.entry(&key).at(at(start + 365 * DAY_S)).check_n(3);
        assert!(decision.is_allowed());
        let late = table.entry(&key).at(just_before(start + 365 * DAY_S)).check();
        assert!(!late.is_allowed());
        let wait = Duration::from_secs(31 * DAY_S) + Duration::from_nanos(1);
        assert_eq!(late.into_result().unwrap_err().retry_after(), Some(wait));
    }
}

/// The interval lasts from the last moment of March, over all of April, to the first of May. So 31 days can contain
/// parts of three months.
#[test]
fn two_limits_fit_into_28_days_and_three_into_31_and_no_more() {
    let most = |days: u64| {
        let starts = (0..400).map(|day| 1_735_689_600 + (day + 1) * DAY_S - 1);
        let admitted = |start: u64| {
            let limiter =
                Limiter::builder(policy("calendar-month 1")).clock(ManualClock::new()).build();
            // One request comes at the start, one each hour, and one just before the end.
            let hours = (0..days * 24).map(|hour| at(start + hour * 3_600));
            let times = hours.chain([just_before(start + days * DAY_S)]);
            times.filter(|now| limiter.entry().at(*now).check().is_allowed()).count()
        };
        starts.map(admitted).max()
    };
    assert_eq!([28, 29, 30, 31].map(most), [2, 3, 3, 3].map(Some));
}

/// In every kind of store a new window begins when the last one ends, up to the last instant that a clock can show.
#[test]
fn windows_of_the_calendar_turn_in_every_store_up_to_the_end_of_time() {
    for (plan, windows, last) in calendar(1) {
        turns_in_every_store(plan, windows, last);
    }
}

fn turns_in_every_store(plan: Policy, windows: &[(u64, u64)], last: u64) {
    let clock = ManualClock::new();
    let one = Limiter::builder(plan).clock(clock.clone()).build();
    let changing = Limiter::builder(plan).clock(clock.clone()).changing().build().unwrap();
    let table = KeyedLimiter::builder(plan).clock(clock.clone()).build(10).unwrap();
    let tiers = KeyedLimiter::builder(plan).tier(policy("calendar-month 9"));
    let tiers = tiers.clock(clock.clone()).build(10).unwrap();
    let sketch =
        SketchLimiter::builder(plan).clock(clock).build(SketchSize::new(4, 64).unwrap()).unwrap();
    let ask = |now: Timestamp| {
        [
            one.entry().at(now).check(),
            changing.entry().at(now).check(),
            table.entry("alice").at(now).check(),
            tiers.entry("alice").at(now).check(),
            sketch.entry("alice").at(now).check(),
        ]
        .map(|decision| decision.into_result().map_err(|denial| denial.retry_after()))
        .map(Result::err)
    };
    for (first, days) in windows {
        let next = first + days * DAY_S;
        assert_eq!(ask(at(*first)), [None; 5], "{plan}: the first instant of {first}");
        let wait = Some(Some(Duration::from_nanos(1)));
        assert_eq!(ask(just_before(next)), [wait; 5], "{plan}: the last instant of {first}");
    }
    assert_eq!(ask(at(last)), [None; 5], "{plan}");
    // There is no later instant than this.
    assert_eq!(ask(Timestamp::from_nanos(u64::MAX)), [Some(Some(Duration::ZERO)); 5]);
}

/// A charge can be given back within its own month, and a change of quota keeps the month's count, in any year.
#[test]
fn months_after_2100_are_amended_and_changed_as_those_before() {
    let feb_2200 = at(7_260_796_800);
    let march_2200 = at(7_260_796_800 + 28 * DAY_S);
    let clock = ManualClock::new();
    clock.set(feb_2200);
    let limiter = Limiter::builder(policy("calendar-month 5"))
        .clock(clock.clone())
        .changing()
        .build()
        .unwrap();
    let fixed = Limiter::builder(policy("calendar-month 5")).clock(clock.clone()).build();
    assert!(limiter.check_n(4).is_allowed());
    let permit = fixed.check_n(4).into_result().unwrap();
    limiter.set_quota(policy("calendar-month 6")).unwrap();
    assert_eq!(limiter.entry().peek(1).remaining(), 2);
    assert_eq!(fixed.entry().refund(permit), 4);
    clock.set(march_2200);
    assert_eq!(limiter.entry().peek(1).remaining(), 6);
}

/// A key that finds no cell is counted in the spill, where new months begin in the same way.
#[test]
fn months_of_the_spill_turn_after_2100() {
    let table =
        KeyedLimiter::builder(policy("calendar-month 5")).clock(ManualClock::new()).build(1);
    let table = table.unwrap();
    let february = at(4_105_123_200);
    let spilled: Vec<u64> =
        (0..64).filter(|key| table.entry(key).at(february).check_n(5).is_spilled()).collect();
    assert!(spilled.len() > 20, "{}", spilled.len());
    let key = spilled[0];
    assert!(!table.entry(&key).at(just_before(4_107_542_400)).check().is_allowed());
    assert!(table.entry(&key).at(at(4_107_542_400)).check_n(5).is_allowed());
}

/// The number of the year takes ten bits of a word, that of the month thirteen, and that of the week fifteen. The
/// remaining bits are for the count.
#[test]
fn the_largest_limit_is_what_the_windows_leave_room_for() {
    let sunday = CalendarUnit::Week(Weekday::Sunday);
    for (unit, bits) in [(CalendarUnit::Year, 54), (CalendarUnit::Month, 51), (sunday, 49)] {
        let most = (1_u64 << bits) - 1;
        let plan = Policy::calendar(unit, most).unwrap();
        let limiter = Limiter::builder(plan).clock(ManualClock::new()).build();
        let last = Timestamp::from_nanos(u64::MAX);
        assert!(limiter.entry().at(last).check_n(most).is_allowed());
        assert!(!limiter.entry().at(last).check().is_allowed());
        let refused = Policy::calendar(unit, most + 1).unwrap_err().to_string();
        assert!(refused.contains("need 65 bits"), "{refused}");
    }
}

#[test]
fn a_wall_clock_that_is_set_back_gives_nothing_twice() {
    let limiter = Limiter::builder(policy("calendar-month 2")).clock(ManualClock::new()).build();
    assert!(limiter.entry().at(at(1_738_368_000)).check_n(2).is_allowed());
    // One request is an hour late, in January, and one is a day late.
    for back in [3_600, DAY_S] {
        let denied = limiter.entry().at(at(1_738_368_000 - back)).check();
        let wait = Duration::from_secs(28 * DAY_S + back);
        assert_eq!(denied.into_result().unwrap_err().retry_after(), Some(wait));
    }
}

#[test]
fn a_soft_month_marks_and_a_counted_denial_fills_it() {
    let limiter =
        Limiter::builder(policy("calendar-month 10 soft 50%")).clock(ManualClock::new()).build();
    let over = |cost| limiter.check_n(cost).into_result().map(|permit| permit.is_over());
    assert_eq!([over(10).ok(), over(5).ok(), over(1).ok()], [Some(false), Some(true), None]);
    let limiter = Limiter::builder(policy("calendar-month 10 count-denied"))
        .clock(ManualClock::new())
        .build();
    assert!(limiter.check_n(8).is_allowed());
    assert!(!limiter.check_n(3).is_allowed());
    assert!(!limiter.check().is_allowed());
    assert!(limiter.entry().at(at(31 * DAY_S)).check_n(10).is_allowed());
    for (plan, name) in calendar(10).map(|(plan, ..)| plan).zip(CALENDAR.map(|(name, ..)| name)) {
        let error = plan.penalty(Duration::from_secs(366 * DAY_S), 3).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name} takes no penalty")), "{error}");
    }
}

#[test]
fn what_was_used_of_another_quota_counts_in_the_month_of_the_change() {
    let (day, next) = (1_738_368_000 + 9 * DAY_S, 1_740_787_200);
    let month = policy("calendar-month 100");
    let clock = ManualClock::new();
    let limiter =
        Limiter::builder(Quota::per_day(50)).clock(clock.clone()).changing().build().unwrap();
    assert!(limiter.entry().at(at(day)).check_n(30).is_allowed());
    clock.set(at(day));
    limiter.set_quota(month).unwrap();
    assert_eq!(limiter.entry().at(at(day)).peek(1).remaining(), 70);
    assert_eq!(limiter.entry().at(just_before(next)).peek(1).remaining(), 70);
    assert_eq!(limiter.entry().at(at(next)).peek(1).remaining(), 100);
    // A change from one monthly quota to another keeps the count, up to the new limit.
    assert!(limiter.entry().at(at(next)).check_n(40).is_allowed());
    clock.set(at(next + DAY_S));
    limiter.set_quota(policy("calendar-month 60")).unwrap();
    assert_eq!(limiter.entry().at(at(next + DAY_S)).peek(1).remaining(), 20);
    assert_eq!(limiter.entry().at(at(next + 31 * DAY_S)).peek(1).remaining(), 60);
    // After a change back to a bucket, the units of the month's count are owed.
    limiter.set_quota(Quota::per_day(50)).unwrap();
    assert_eq!(limiter.entry().at(at(next + DAY_S)).peek(1).remaining(), 10);
}

/// A week's count does not belong to a month, and a week from Sunday is not a week from Monday. So the used units are
/// carried over to the window in which the change is made, and no window begins with all units.
#[test]
fn what_was_used_of_one_window_of_the_calendar_counts_in_another() {
    let now = at(1_795_392_000 + 3 * DAY_S); // Thursday, 26 November 2026
    let clock = ManualClock::new();
    clock.set(now);
    let limiter = Limiter::builder(policy("calendar-week 10"))
        .clock(clock.clone())
        .changing()
        .build()
        .unwrap();
    assert!(limiter.check_n(7).is_allowed());
    for (plan, left, end) in [
        ("calendar-week 10 from-sunday", 3, 1_795_305_600 + 7 * DAY_S),
        ("calendar-month 12", 5, 1_796_083_200),
        ("calendar-year 20", 13, 1_798_761_600),
        ("calendar-year 15", 8, 1_798_761_600),
    ] {
        limiter.set_quota(policy(plan)).unwrap();
        assert_eq!(limiter.entry().peek(1).remaining(), left, "{plan}");
        assert_eq!(limiter.entry().at(just_before(end)).peek(1).remaining(), left, "{plan}");
        assert_ne!(limiter.entry().at(at(end)).peek(1).remaining(), left, "{plan}");
    }
}

#[test]
fn tiers_of_months_and_of_buckets_share_a_table() {
    let tiers = || {
        KeyedLimiter::builder(policy("calendar-month 100")).tier(Quota::per_second(10).burst(50))
    };
    let clock = ManualClock::new();
    let limiter: Changing<KeyedLimiter<str>> = tiers().clock(clock.clone()).build(100).unwrap();
    let (free, paid) = (limiter.entry("alice"), limiter.entry("bob").tier(1).unwrap());
    let (february, march) = (1_738_368_000, 1_740_787_200);
    for second in (february..march).step_by(86_400) {
        assert!(paid.at(at(second)).check_n(50).is_allowed());
        let left = free.at(at(second)).peek(1).remaining();
        assert!(free.at(at(second)).check_n(left.min(5)).is_allowed());
    }
    assert_eq!(free.at(just_before(march)).peek(1).remaining(), 0);
    clock.set(just_before(march));
    limiter.set_quota(policy("calendar-month 120")).unwrap();
    assert_eq!(free.at(just_before(march)).peek(1).remaining(), 20);
    assert_eq!(free.at(at(march)).peek(1).remaining(), 120);
}

#[test]
fn what_chooses_its_own_clock_chooses_one_that_tells_the_date() {
    let plan = policy("calendar-month 100");
    let limiter = Limiter::new(plan);
    let sketch = SketchLimiter::<str>::new(plan, SketchSize::new(2, 10).unwrap()).unwrap();
    let table = KeyedLimiter::<str>::new(plan, 10).unwrap();
    // A quota that was named by `headroom` may be set later.
    let tiers = || KeyedLimiter::builder(Quota::per_day(1)).headroom(plan);
    let tiers_built: Changing<KeyedLimiter<str>> = tiers().build(10).unwrap();
    let changing = Limiter::builder(plan).changing().build().unwrap();
    for now in [limiter.now(), sketch.now(), table.now(), tiers_built.now(), changing.now()] {
        assert!(now > at(1_700_000_000), "{now:?}");
    }
    tiers_built.set_quota(plan).unwrap();
}

#[test]
fn a_clock_that_counts_from_its_own_start_is_refused() {
    let plan = policy("calendar-month 100");
    let clocks = || [Clock::monotonic(), Clock::system()];
    let no_date = BuildError::Policy(ChangeError::NoDate.to_string());
    for clock in clocks() {
        let refused = KeyedLimiter::<str>::builder(plan).clock(clock.clone()).build(10).map(|_| ());
        assert_eq!(refused, Err(no_date.clone()));
        let tiers = KeyedLimiter::<str>::builder(Quota::per_second(1)).tier(plan);
        let refused = tiers.clock(clock.clone()).build(10).map(|_| ());
        assert_eq!(refused, Err(no_date.clone()));
        let size = SketchSize::new(2, 10).unwrap();
        let refused =
            SketchLimiter::<str>::builder(plan).clock(clock.clone()).build(size).map(|_| ());
        assert_eq!(refused, Err(no_date.clone()));
        let refused = Limiter::builder(plan).clock(clock.clone()).changing().build().map(|_| ());
        assert_eq!(refused, Err(ChangeError::NoDate));
        let changing =
            Limiter::builder(Quota::per_second(1)).clock(clock.clone()).changing().build().unwrap();
        assert_eq!(changing.set_quota(plan), Err(ChangeError::NoDate));
        let tiers = KeyedLimiter::builder(Quota::per_day(1)).headroom(plan);
        let table: Changing<KeyedLimiter<str>> = tiers.clock(clock).build(10).unwrap();
        assert_eq!(table.set_quota(plan), Err(ChangeError::NoDate));
        assert_eq!(
            ChangeError::NoDate.to_string(),
            "the clock cannot tell the date, which windows of the calendar need; use Clock::unix(), or a \
             clock that is resumed at the time of the wall clock"
        );
    }
    for clock in clocks() {
        let resumed = clock.resumed_at(at(1_738_368_000));
        let table = KeyedLimiter::<str>::builder(plan).clock(resumed).build(10).unwrap();
        let ends = table.entry("alice").check_n(100).reset_after();
        assert!(ends > Duration::from_secs(27 * DAY_S) && ends <= Duration::from_secs(28 * DAY_S));
    }
}
