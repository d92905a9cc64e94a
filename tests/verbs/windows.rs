//! Refunds, reservations and charges of a window: a count contains no units of future windows, and none of other
//! windows.

use std::time::Duration;

use tollgate::{Limiter, Timestamp};

use super::{WINDOWS, each_of, left};
use crate::common::policy;

#[test]
fn a_window_gives_back_only_while_it_is_the_one_that_was_charged() {
    each_of(&WINDOWS, |entry, clock, text| {
        let mut permit = entry.check_n(6).into_result().unwrap();
        assert_eq!(entry.uncharge(4), 4, "{text}");
        assert_eq!(left(entry), 8, "{text}");
        // At most the units that are owed can come back.
        assert_eq!(entry.refund(permit.split_off(5)), 2, "{text}");
        assert_eq!(entry.refund(permit), 0, "{text}");
        assert_eq!(left(entry), 10, "{text}");
        let permit = entry.check_n(6).into_result().unwrap();
        clock.advance(Duration::from_secs(60));
        assert!(entry.check_n(1).is_allowed(), "{text}");
        let remains = left(entry);
        assert_eq!(entry.refund(permit), 0, "{text}");
        assert_eq!(left(entry), remains, "{text}");
    });
}

#[test]
fn a_segment_gives_back_its_own_units_alone() {
    each_of(&["segmented-window 10/m x2", "segmented-window 10/m x6"], |entry, clock, text| {
        let old = entry.check_n(3).into_result().unwrap();
        clock.advance(Duration::from_secs(30));
        let new = entry.check_n(5).into_result().unwrap();
        assert_eq!(entry.refund(old), 0, "{text}");
        assert_eq!(left(entry), 2, "{text}");
        assert_eq!(entry.refund(new), 5, "{text}");
        assert_eq!(left(entry), 7, "{text}");
    });
}

#[test]
fn a_window_is_charged_no_further_than_its_limit() {
    each_of(&WINDOWS, |entry, clock, text| {
        assert!(entry.check_n(4).is_allowed());
        assert_eq!(entry.charge(5), 0, "{text}");
        assert_eq!(entry.charge(5), 4, "{text}");
        assert_eq!(entry.charge(5), 5, "{text}");
        assert!(!entry.check_n(1).is_allowed(), "{text}");
        clock.advance(Duration::from_secs(120));
        assert_eq!(left(entry), 10, "{text}");
    });
}

#[test]
fn a_window_reserves_what_fits_now_and_nothing_else() {
    each_of(&WINDOWS, |entry, _, text| {
        let place = entry.reserve(10, Duration::from_secs(600)).unwrap();
        assert_eq!(place.wait(), Duration::ZERO, "{text}");
        assert!(entry.reserve(1, Duration::from_secs(600)).is_err(), "{text}");
        assert!(entry.cancel(place), "{text}");
        assert_eq!(left(entry), 10, "{text}");
    });
}

#[test]
fn a_late_request_uses_what_it_reserves_of_a_window_at_once() {
    for text in WINDOWS {
        let limiter = Limiter::new(policy(text));
        assert!(limiter.entry().at(Timestamp::from_secs(120)).check_n(3).is_allowed(), "{text}");
        let late = Timestamp::from_secs(119);
        let place = limiter.entry().at(late).reserve(2, Duration::from_secs(600)).unwrap();
        assert_eq!((place.ready_at(), place.wait()), (late, Duration::ZERO), "{text}");
    }
}
