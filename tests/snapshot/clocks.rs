//! The time between two processes: a restored clock goes on by the time that has passed on the wall clock, never by
//! more.
//!
//! A monotonic clock is read a little later than it was set, so its reading is only checked to within a minute. Charges
//! are checked at exact times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate::{Clock, CoarseClock, KeyedLimiter, Limiter, ManualClock, RestoreError, Timestamp};

use crate::common::policy;
use crate::snapshot::file::at_wall;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Takes a snapshot at this wall time, and restores it now. Returns the reading of the clock at the snapshot, and that
/// of the restored clock.
fn readings(clock: fn() -> Clock, saved: SystemTime) -> [Timestamp; 2] {
    let policy = policy("fixed-window 1/h");
    let (table, limit) = (
        KeyedLimiter::<str>::builder(policy).clock(clock()).build(9).unwrap(),
        Limiter::builder(policy).clock(clock()).build(),
    );
    let (mut of_table, mut of_limit) = (Vec::new(), Vec::new());
    let before = table.snapshot(&mut of_table).unwrap().now;
    let other = limit.snapshot(&mut of_limit).unwrap().now;
    let [of_table, of_limit] = [of_table, of_limit].map(|file| at_wall(file, saved));
    let table = KeyedLimiter::<str>::builder(policy).clock(clock()).restore(&of_table[..]).unwrap();
    let limit = Limiter::builder(policy).clock(clock()).restore(&of_limit[..]).unwrap();
    let after = table.now();
    assert!(limit.now() - other < after - before + MINUTE);
    assert!(after - before < limit.now() - other + MINUTE);
    [before, after]
}

fn is_about(passed: Duration, expected: Duration) -> bool {
    passed >= expected && passed < expected + MINUTE
}

#[test]
fn a_monotonic_clock_goes_on_by_what_the_wall_clock_says() {
    for clock in [Clock::monotonic, Clock::system] {
        let [before, after] = readings(clock, SystemTime::now() - 2 * HOUR);
        assert!(is_about(after - before, 2 * HOUR), "{before:?} {after:?}");
    }
}

#[test]
fn row_35_no_time_has_passed_if_the_wall_clock_went_backward_or_is_unknown() {
    // A wall clock that is unknown at the restore is tested in `src/snapshot/mod.rs`.
    let unset = UNIX_EPOCH + Duration::from_secs(30);
    for saved in [SystemTime::now() + 2 * HOUR, unset, UNIX_EPOCH] {
        for clock in [Clock::monotonic, Clock::system] {
            let [before, after] = readings(clock, saved);
            assert!(is_about(after - before, Duration::ZERO) && after >= before);
        }
    }
}

#[test]
fn unix_time_is_the_wall_clocks_and_never_less_than_it_was() {
    // This clock asks the system for the time itself. The wall time in the file is for clocks without a fixed origin.
    let [before, after] = readings(Clock::unix, SystemTime::now() - 2 * HOUR);
    assert!(after >= before && is_about(after - before, Duration::ZERO));
    let policy = policy("gcra 1/h");
    let ahead = Clock::unix().resumed_at(Clock::unix().now() + 24 * HOUR);
    let limiter = KeyedLimiter::<str>::builder(policy).clock(ahead).build(9).unwrap();
    let mut file = Vec::new();
    let saved = limiter.snapshot(&mut file).unwrap().now;
    let restored =
        KeyedLimiter::<str>::builder(policy).clock(Clock::unix()).restore(&file[..]).unwrap();
    assert!(restored.now() >= saved && is_about(restored.now() - saved, Duration::ZERO));
}

#[test]
fn what_has_drained_meanwhile_has_drained_to_the_nanosecond() {
    let policy = policy("gcra 2/h burst 4");
    let clock = ManualClock::new();
    // An hour is a whole number of ticks, so nothing is rounded.
    clock.set(Timestamp::from_secs(3_600));
    let table = KeyedLimiter::<str>::builder(policy).clock(clock.clone()).build(9).unwrap();
    assert!(table.check_n("alice", 4).is_allowed());
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    clock.advance(HOUR);
    let restored = KeyedLimiter::<str>::builder(policy).clock(clock).restore(&file[..]).unwrap();
    assert_eq!(restored.entry("alice").peek(1).remaining(), 2);
    let third = Timestamp::from_secs(3_600) + HOUR + HOUR / 2;
    let just_before = Timestamp::from_nanos(third.as_nanos() - 1);
    assert!(!restored.entry("alice").at(just_before).peek(3).is_allowed());
    assert!(restored.entry("alice").at(third).peek(3).is_allowed());
}

#[test]
fn windows_stay_on_their_grid() {
    // Windows of 10 s are counted from the old clock's origin, however long the new process has run.
    let policy = policy("fixed-window 5/10s");
    let start = || Clock::monotonic().resumed_at(Timestamp::from_secs(1_003));
    let table = KeyedLimiter::<str>::builder(policy).clock(start()).build(9).unwrap();
    assert!(table.entry("alice").at(Timestamp::from_secs(1_003)).check_n(5).is_allowed());
    let mut file = Vec::new();
    table.snapshot(&mut file).unwrap();
    let file = at_wall(file, SystemTime::now() - Duration::from_secs(4));
    let restored =
        KeyedLimiter::<str>::builder(policy).clock(Clock::monotonic()).restore(&file[..]).unwrap();
    assert!(restored.now() >= Timestamp::from_secs(1_007));
    assert!(!restored.entry("alice").at(Timestamp::from_millis(1_009_999)).peek(1).is_allowed());
    assert!(restored.entry("alice").at(Timestamp::from_secs(1_010)).peek(5).is_allowed());
}

#[test]
fn a_clock_that_is_told_the_time_must_have_been_told() {
    let policy = policy("gcra 1/h");
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(100));
    let limiter = Limiter::builder(policy).clock(clock).build();
    let mut file = Vec::new();
    assert_eq!(limiter.snapshot(&mut file).unwrap().now, Timestamp::from_secs(100));
    let clock = ManualClock::new();
    clock.set(Timestamp::from_millis(99_999));
    match Limiter::builder(policy).clock(clock.clone()).restore(&file[..]) {
        Err(error @ RestoreError::ClockBehind { found, saved }) => {
            assert_eq!((found, saved), (Timestamp::from_millis(99_999), Timestamp::from_secs(100)));
            let told = "the clock reads 99999000000 ns, less than the 100000000000 ns of the snapshot; \
                        set it to at least that";
            assert_eq!(error.to_string(), told);
        }
        other => panic!("{other:?}"),
    }
    clock.set(Timestamp::from_secs(100));
    let restored = Limiter::builder(policy).clock(clock).restore(&file[..]).unwrap();
    assert_eq!(restored.now(), Timestamp::from_secs(100));
}

#[test]
fn a_coarse_clock_goes_on_when_its_source_does() {
    let policy = policy("gcra 1/h");
    let source = Clock::monotonic().resumed_at(Timestamp::from_secs(5_000));
    let limiter = Limiter::builder(policy).clock(CoarseClock::of(source).clock()).build();
    let mut file = Vec::new();
    let saved = limiter.snapshot(&mut file).unwrap();
    let behind = CoarseClock::new();
    let refused = Limiter::builder(policy).clock(behind.clock()).restore(&file[..]);
    assert!(matches!(refused, Err(RestoreError::ClockBehind { .. })));
    let coarse = CoarseClock::of(Clock::monotonic().resumed_at(saved.now));
    assert!(Limiter::builder(policy).clock(coarse.clock()).restore(&file[..]).is_ok());
}

#[test]
fn times_of_another_origin_are_refused() {
    let policy = policy("fixed-window 1/h");
    let clocks = || {
        [
            (Clock::monotonic(), "the start of a clock"),
            (Clock::unix(), "the Unix epoch"),
            (ManualClock::new().into(), "wherever its owner does (a ManualClock or CoarseClock)"),
        ]
    };
    for (clock, saved) in clocks() {
        let mut file = Vec::new();
        let table = KeyedLimiter::<str>::builder(policy).clock(clock).build(9).unwrap();
        table.snapshot(&mut file).unwrap();
        for (clock, expected) in clocks() {
            match KeyedLimiter::<str>::builder(policy).clock(clock).restore(&file[..]) {
                Ok(_) => assert_eq!(saved, expected),
                Err(RestoreError::Mismatch(told)) => {
                    assert_ne!(saved, expected);
                    let counted = format!("count from {saved} and the clock's from {expected};");
                    assert!(told.contains(&counted), "{told}");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}
