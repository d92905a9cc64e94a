//! These tests set the counter, the wall clock and the system's monotonic clock, so values are exact. The counter
//! counts nanoseconds, so an epoch is 2^24 ns, and R = 2^-10 of an epoch is 2^14 ns.

#![expect(clippy::cast_possible_wrap, reason = "times of a few days, in nanoseconds")]

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::clock::Clock;
use crate::{Limiter, Policy};

const EPOCH_NS: u64 = 1 << EPOCH_BITS;
/// The time that the clock loses in an epoch, because its counter runs too slowly by R.
const LATE_NS: u64 = EPOCH_NS >> SLEW_BITS;
/// The time that the clock gains in an epoch in which it catches up: twice R is added, and R is lost.
const GAIN_NS: u64 = 2 * (LATE_NS - (LATE_NS >> SLEW_BITS)) - LATE_NS;
const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;
/// 2026-10-01 00:00.
const OCTOBER_NS: u64 = 1_790_812_800 * SECOND_NS;

/// A machine whose clocks a test moves.
struct Machine {
    counter: Arc<quanta::Mock>,
    wall: ManualClock,
    monotonic: ManualClock,
    clock: Clock,
}

impl Machine {
    /// A machine that has been running for an epoch and whose wall clock reads `wall_ns`, with a new clock.
    fn at(wall_ns: u64) -> Self {
        let (source, counter) = quanta::Clock::mock();
        let (wall, monotonic) = (ManualClock::new(), ManualClock::new());
        counter.increment(EPOCH_NS);
        wall.set(Timestamp::from_nanos(wall_ns));
        let told = [wall.clone(), monotonic.clone()];
        let clock = Clock::following(WallFollower::told(source, told));
        Self { counter, wall, monotonic, clock }
    }

    /// Lets the machine run for `ns`. Its counter is too fast by `ppm` millionths.
    fn run(&self, ns: u64, ppm: i64) {
        let counted = i128::from(ns) * (1_000_000 + i128::from(ppm)) / 1_000_000;
        self.counter.increment(u64::try_from(counted).expect("forward"));
        self.wall.advance(Duration::from_nanos(ns));
        self.monotonic.advance(Duration::from_nanos(ns));
    }

    /// The same as [`run`](Self::run), with a reading of the clock in every epoch. Returns the last reading.
    fn run_read(&self, ns: u64, ppm: i64) -> u64 {
        let mut last_ns = self.now();
        for _ in 0..ns / EPOCH_NS {
            self.run(EPOCH_NS, ppm);
            let now_ns = self.now();
            assert!(now_ns > last_ns, "it stands, or runs backward: {now_ns} after {last_ns}");
            last_ns = now_ns;
        }
        last_ns
    }

    /// Sets the wall clock forward or back.
    fn set(&self, by_ns: i64) {
        let wall_ns = self.wall.now().as_nanos().saturating_add_signed(by_ns);
        self.wall.set(Timestamp::from_nanos(wall_ns));
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// The time by which the clock is ahead of the wall clock when it is read now.
    fn ahead(&self) -> i64 {
        let wall_ns = self.wall.now().as_nanos();
        i64::try_from(i128::from(self.now()) - i128::from(wall_ns)).expect("less than 292 years")
    }
}

#[test]
fn a_clock_starts_at_the_wall_clock_and_is_late_by_no_more_than_the_slew_of_an_epoch() {
    let machine = Machine::at(OCTOBER_NS);
    assert_eq!(machine.ahead(), 0);
    machine.run(EPOCH_NS - 1, 0);
    // The loss is R of the time that has passed, rounded up, since the reading drops a part of a nanosecond.
    assert_eq!(machine.ahead(), -(LATE_NS as i64));
    machine.run(1, 0);
    assert_eq!(machine.ahead(), 0, "the first reading of an epoch reads the wall clock");
    machine.run(1_024, 0);
    assert_eq!(machine.ahead(), -1);
}

/// The errors include 6 millionths (0.52 s a day) and 83 millionths, which were seen on real machines.
#[test]
fn the_drift_of_the_counter_is_followed_for_days() {
    for ppm in [-400, -83, -6, 0, 6, 83, 400] {
        let machine = Machine::at(OCTOBER_NS);
        for _ in 0..2 {
            // The clock is read once an hour, and each reading is right.
            for _ in 0..24 {
                machine.run(3_600 * SECOND_NS, ppm);
                assert_eq!(machine.ahead(), 0, "{ppm}");
            }
            // The clock is read in every epoch. Within an epoch it is late by no more than (R + D) P, and it is right
            // when it reads the wall clock.
            machine.run_read(SECOND_NS, ppm);
            assert_eq!(machine.ahead(), 0, "{ppm}");
            machine.run(EPOCH_NS / 2, ppm);
            let most = (LATE_NS + EPOCH_NS * ppm.unsigned_abs() / 1_000_000 + 1) as i64;
            assert!((-most..=0).contains(&machine.ahead()), "{ppm}: {}", machine.ahead());
        }
    }
}

#[test]
fn a_machine_that_slept_for_hours_is_followed_by_the_next_reading() {
    let machine = Machine::at(OCTOBER_NS);
    machine.run_read(SECOND_NS, 0);
    // Neither clock of the machine counts while it sleeps.
    machine.set((8 * 3_600 * SECOND_NS) as i64);
    machine.run(EPOCH_NS, 0);
    assert_eq!(machine.ahead(), 0);
    // A counter that goes on while the machine sleeps gives the same result.
    machine.run(8 * 3_600 * SECOND_NS, 0);
    assert_eq!(machine.ahead(), 0);
}

#[test]
fn up_to_a_second_is_caught_up_with_at_the_slew_and_more_at_once() {
    let machine = Machine::at(OCTOBER_NS);
    machine.set(SECOND_NS as i64);
    let missing = |epochs: u64| (SECOND_NS - epochs * GAIN_NS) as i64;
    for epoch in 1..=100 {
        machine.run(EPOCH_NS, 0);
        assert_eq!(machine.ahead(), -missing(epoch));
    }
    // The clock has caught up after 1,026 s.
    let epochs = SECOND_NS / GAIN_NS - 100;
    machine.run_read(epochs * EPOCH_NS, 0);
    assert_eq!(machine.ahead(), -missing(epochs + 100));
    machine.run(EPOCH_NS, 0);
    assert_eq!(machine.ahead(), 0);
    for (more_ns, missing_ns) in [(0, SECOND_NS), (1, 0)] {
        let machine = Machine::at(OCTOBER_NS);
        machine.set((SECOND_NS + GAIN_NS + more_ns) as i64);
        machine.run(EPOCH_NS, 0);
        assert_eq!(machine.ahead(), -(missing_ns as i64));
    }
}

#[test]
fn a_clock_set_back_never_runs_backward_and_goes_on_slower_by_the_slew() {
    let machine = Machine::at(OCTOBER_NS);
    let before = machine.now();
    machine.set(-(SECOND_NS as i64) * 3);
    assert_eq!(machine.now(), before);
    // `run_read` asserts that the clock never stands still.
    let read = machine.run_read(1_000 * SECOND_NS, 0) - before;
    let passed = 1_000 * SECOND_NS / EPOCH_NS * EPOCH_NS;
    assert_eq!(read, passed - (passed >> SLEW_BITS));
    let told = machine.clock.now() - machine.clock.wall();
    assert_eq!(told, Duration::from_nanos(3 * SECOND_NS - (passed >> SLEW_BITS)));
    // After 3,072 s the wall clock has caught up with the clock.
    machine.run_read(2_072 * SECOND_NS + 2 * EPOCH_NS, 0);
    assert_eq!(machine.ahead(), 0);
}

#[test]
fn to_and_fro_gives_no_more_time_than_the_wall_clock_has_at_its_latest() {
    let machine = Machine::at(OCTOBER_NS);
    let hour = 3_600 * SECOND_NS as i64;
    for _ in 0..100 {
        machine.set(hour);
        machine.run(EPOCH_NS, 0);
        machine.now();
        machine.set(-hour);
        machine.run(EPOCH_NS, 0);
        machine.now();
    }
    assert!(machine.now() <= OCTOBER_NS + 3_600 * SECOND_NS + 200 * EPOCH_NS);
}

/// A wall clock repeats the second at which a leap second is inserted.
#[test]
fn a_leap_second_is_slewed_over_and_a_day_turns_no_more_than_a_second_early() {
    let machine = Machine::at(OCTOBER_NS - 100 * EPOCH_NS);
    machine.run_read(100 * EPOCH_NS, 0);
    assert_eq!(machine.now(), OCTOBER_NS);
    machine.set(-(SECOND_NS as i64));
    assert_eq!(machine.ahead(), SECOND_NS as i64);
    machine.run_read(1_024 * SECOND_NS + 2 * EPOCH_NS, 0);
    assert_eq!(machine.ahead(), 0);
    // At a negative leap second the wall clock skips a second.
    machine.set(SECOND_NS as i64);
    machine.run_read((SECOND_NS / GAIN_NS + 1) * EPOCH_NS, 0);
    assert_eq!(machine.ahead(), 0);
}

#[test]
fn a_counter_that_begins_anew_is_left_for_the_monotonic_clock() {
    let machine = Machine::at(OCTOBER_NS);
    machine.run_read(DAY_NS, 0);
    let before = machine.now();
    // The machine slept for an hour, and its counter starts again from 0.
    machine.counter.decrement(machine.counter.value());
    machine.set(3_600 * SECOND_NS as i64);
    // The monotonic clock is now in an epoch in which no thread has read the wall clock.
    machine.run(EPOCH_NS, 0);
    let first = machine.now();
    assert!(first >= before, "it ran backward");
    assert!(machine.ahead() <= 0);
    machine.run(EPOCH_NS, 0);
    assert_eq!(machine.ahead(), 0);
    // From here on the clock works like any other clock, no matter what the counter does.
    machine.counter.increment(DAY_NS * 400);
    machine.run_read(SECOND_NS, 0);
    assert_eq!(machine.ahead(), 0);
    let before = machine.now();
    machine.set(-3_600 * SECOND_NS as i64);
    let epochs = SECOND_NS / EPOCH_NS;
    assert_eq!(machine.run_read(SECOND_NS, 0) - before, epochs * (EPOCH_NS - LATE_NS));
}

#[test]
fn a_counter_that_begins_anew_under_a_clock_that_is_ahead_does_not_freeze_it() {
    let machine = Machine::at(OCTOBER_NS);
    machine.run_read(DAY_NS, 0);
    machine.set(-3_600 * SECOND_NS as i64);
    let before = machine.now();
    machine.counter.decrement(machine.counter.value());
    let first = machine.now();
    assert!((before..=before + EPOCH_NS).contains(&first), "{}", first - before);
    machine.run_read(SECOND_NS, 0);
}

/// If a core's counter is behind by less than a second, readings on that core are late, and the counter stays in use.
#[test]
fn a_core_whose_counter_is_behind_is_not_a_counter_that_begins_anew() {
    let machine = Machine::at(OCTOBER_NS);
    machine.run_read(DAY_NS, 0);
    let before = machine.now();
    machine.counter.decrement(SECOND_NS);
    let behind = SECOND_NS - (SECOND_NS >> SLEW_BITS);
    assert!(machine.now().abs_diff(before - behind) <= 1);
    machine.counter.increment(SECOND_NS);
    assert_eq!(machine.now(), before);
    machine.run_read(SECOND_NS, 0);
    assert_eq!(machine.ahead(), 0);
}

#[test]
fn a_wall_clock_that_is_unset_or_beyond_its_end_is_cut() {
    let machine = Machine::at(0);
    assert_eq!(machine.now(), EPOCH_NS - LATE_NS, "the machine's own time, until the clock is set");
    machine.set(OCTOBER_NS as i64);
    machine.run(EPOCH_NS, 0);
    assert_eq!(machine.ahead(), 0);
    machine.wall.set(Timestamp::from_nanos(u64::MAX));
    machine.run(EPOCH_NS, 0);
    assert_eq!(machine.now(), LATEST_NS);
    // The clock runs on from the latest time.
    machine.run_read(SECOND_NS, 0);
    assert!(machine.now() > LATEST_NS);
}

#[test]
fn a_resumed_clock_is_put_forward_never_back_and_follows() {
    let machine = Machine::at(OCTOBER_NS);
    let ahead = Timestamp::from_nanos(OCTOBER_NS + SECOND_NS);
    let resumed = machine.clock.clone().resumed_at(ahead);
    assert_eq!(resumed.now(), ahead);
    assert_eq!(machine.now(), OCTOBER_NS, "others hold this one");
    machine.run(EPOCH_NS, 0);
    let late = Duration::from_nanos(LATE_NS);
    assert_eq!(resumed.now(), ahead + Duration::from_nanos(EPOCH_NS) - late);
    let same = machine.clock.clone().resumed_at(Timestamp::from_secs(5));
    assert_eq!(same.now(), machine.clock.now());
}

/// Tests counters of 3 GHz, 1 GHz and 24 MHz, and one that counts microseconds, as emulated clocks do.
#[test]
fn a_counter_of_any_rate_is_corrected_every_17_ms() {
    for (ns, steps) in [(1, 3), (1, 1), (125, 3), (1_000, 1)] {
        let track = Track::new(ONE_STEP_A_NS * ns / steps);
        let epoch_ns = (1_u64 << track.bits) * ns / steps;
        assert!((3_000_000..17_000_000).contains(&epoch_ns), "{ns}/{steps}: {epoch_ns}");
        assert_eq!(track.mark == SLOW, ns >= 1_000 || ns == 125, "{ns}/{steps}");
        // This is a second of the counter, less R of a second.
        let second = track.steps.ns(SECOND_NS * steps / ns);
        assert!(second.abs_diff(SECOND_NS - (SECOND_NS >> SLEW_BITS)) <= 50, "{second}");
    }
}

#[test]
fn a_window_at_midnight_turns_with_the_wall_clock_after_a_day_of_drift() {
    let machine = Machine::at(OCTOBER_NS - DAY_NS);
    let policy: Policy = "fixed-window 3/d".parse().expect("a policy");
    let limiter = Limiter::builder(policy).clock(machine.clock.clone()).build();
    assert!(limiter.check_n(3).is_allowed());
    // The counter loses 0.52 s a day. Without corrections the window would begin too late by this time.
    machine.run(DAY_NS - EPOCH_NS, -6);
    assert!(!limiter.check().is_allowed());
    machine.run(EPOCH_NS - 1, -6);
    assert!(!limiter.check().is_allowed(), "a nanosecond before midnight");
    machine.run(1 + LATE_NS * 2, -6);
    assert!(limiter.check_n(3).is_allowed(), "34 us after midnight");
    // The wall clock is set back over midnight. Units that were spent in the new day stay spent.
    machine.set(-(SECOND_NS as i64));
    assert!(!limiter.check().is_allowed());
    machine.run(SECOND_NS, -6);
    assert!(!limiter.check().is_allowed());
}

/// A wall clock that is set back does not keep a limit from refilling: the limit refills at most R more slowly.
#[test]
fn a_limit_goes_on_while_the_wall_clock_is_hours_behind() {
    let machine = Machine::at(OCTOBER_NS);
    let limiter =
        Limiter::builder(crate::Quota::per_second(1).burst(1)).clock(machine.clock.clone()).build();
    assert!(limiter.check().is_allowed());
    machine.set(-5 * 3_600 * SECOND_NS as i64);
    machine.run(SECOND_NS, 0);
    assert!(!limiter.check().is_allowed(), "a part in a thousand is missing");
    machine.run(SECOND_NS >> (SLEW_BITS - 1), 0);
    assert!(limiter.check().is_allowed());
}

#[test]
fn what_threads_read_of_one_clock_never_runs_backward() {
    let clock = Clock::unix();
    let latest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (clock, latest) = (clock.clone(), &latest);
            scope.spawn(move || {
                for _ in 0..50_000 {
                    let before = latest.load(Ordering::SeqCst);
                    let now_ns = clock.now().as_nanos();
                    // The counters of two cores of a virtual machine differ by a few microseconds. If a correction were
                    // lost, the clock would be behind by R of an epoch: 17 us.
                    assert!(now_ns + 10_000 >= before, "{now_ns} after {before}");
                    latest.fetch_max(now_ns, Ordering::SeqCst);
                }
            });
        }
    });
}
