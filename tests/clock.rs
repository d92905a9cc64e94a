//! Clocks of restored limiters. They go on from the time of the old clocks. A clock of Unix time is never set back.

use std::time::Duration;

use tollgate::{Clock, ManualClock, Timestamp};

#[test]
fn a_resumed_clock_goes_on_from_the_reading_that_it_is_told() {
    let hour = Timestamp::from_secs(3_600);
    for clock in [Clock::monotonic(), Clock::system()] {
        let resumed = clock.resumed_at(hour);
        let read = resumed.now();
        assert!(read >= hour && read < hour + Duration::from_secs(60));
        // These two clocks can also be set to an earlier time. Their readings have no relation to those of another
        // process, however long they have run.
        let back = resumed.resumed_at(Timestamp::from_secs(1)).now();
        assert!(back >= Timestamp::from_secs(1) && back < hour);
    }
    let unix = Clock::unix();
    let ahead = unix.now() + Duration::from_secs(86_400);
    assert!(unix.clone().resumed_at(ahead).now() >= ahead);
    let before = unix.now();
    assert!(unix.resumed_at(hour).now() >= before, "never set back");
    let far = Clock::monotonic().resumed_at(Timestamp::from_nanos(u64::MAX));
    assert!(far.now() >= Timestamp::from_nanos(1 << 63));
}

#[test]
fn a_clock_that_others_hold_is_not_resumed() {
    let manual = ManualClock::new();
    let clock = Clock::from(manual.clone()).resumed_at(Timestamp::from_secs(5));
    assert_eq!((clock.now(), manual.now()), (Timestamp::default(), Timestamp::default()));
}
