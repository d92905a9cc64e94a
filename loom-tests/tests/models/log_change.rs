//! A sliding log whose count changes while other threads make requests and give units back.
//!
//! Property, in every model: when all threads have ended, the units left are exactly the limit in force minus the units
//! in the window. The window counts all units that were admitted in it and not given back, whatever the limit was at
//! that time. So once the requests in flight have ended, nothing is admitted above the limit in force, and units spent
//! before a limit is restored stay spent.
//!
//! These models are sufficient because a change only reads all slots and changes some by compare-and-swap. With two or
//! three slots, each step of a request can come before and after each step of the change. If another thread has taken
//! one slot of a request for two, that request puts its mark back before, between or after the readings.

use std::sync::Arc;

use loom::thread;
use loom_tests::race::ask_all;
use loom_tests::suite::{Bound, Model};
use loom_tests::verdict::{ABOVE_BOUND, LOST_CHARGE, REFUSED, assert_admitted};
use tollgate::control::{self, Fault};
use tollgate::{ChangeError, Limiter, ManualClock, Policy, Timestamp};

use crate::limiter::ask;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// A log of `slots` slots whose count may change.
fn changing(slots: u64) -> Arc<Limiter> {
    control::use_row_bits(u32::MAX);
    control::tell_answers(false);
    // A change reads the marks of unfinished requests only once, because reading again would lead to the same cases.
    control::use_rounds(1);
    Arc::new(
        Limiter::builder(of_count(slots))
            .clock(ManualClock::new())
            .changing()
            .build()
            .expect("a log")
            .into_limiter(),
    )
}

fn of_count(count: u64) -> Policy {
    format!("sliding-log {count}/10s").parse().expect("a policy")
}

/// Lowers a limit, and returns the limit that is in force afterwards. The log may refuse the change.
fn lowered(log: &Limiter, [from, to]: [u64; 2]) -> u64 {
    match log.set_quota_at(of_count(to), at(6_000)) {
        Ok(()) => to,
        Err(refused) => {
            assert_eq!(refused, ChangeError::Busy);
            from
        }
    }
}

/// Asserts the units left under the limit in force, and under a limit of all slots, when `units` units are in the
/// window.
fn assert_left(log: &Limiter, units: u64, [limit, slots]: [u64; 2]) {
    control::plant(None); // only what the race has left behind is checked
    assert_eq!(log.policy(), of_count(limit));
    for limit in [limit, slots, limit] {
        log.set_quota_at(of_count(limit), at(6_000)).expect("nothing is in flight");
        let left = log.entry().at(at(6_000)).peek(0).remaining();
        assert!(left <= limit.saturating_sub(units), "{LOST_CHARGE}: {left} of {limit}, {units}");
        assert!(left >= limit.saturating_sub(units), "{REFUSED}: {left} of {limit}, {units}");
    }
}

fn asked(log: &Limiter, cost: u64) -> u64 {
    if log.entry().at(at(6_000)).check_n(cost).is_allowed() { cost } else { 0 }
}

/// 2 threads: one asks for a second unit, the other lowers the limit from two to one. When the first unit has left the
/// window, a unit is left under the lower limit exactly if the second was denied.
fn lowered_against_take() {
    let log = changing(2);
    assert_admitted(&ask_all(&*log, &[ask(1, 5_000)]));
    let other = Arc::clone(&log);
    let taking = thread::spawn(move || other.entry().at(at(6_000)).check().is_allowed());
    log.set_quota_at(of_count(1), at(6_000)).expect("one slot is free or taken");
    let taken = taking.join().expect("the other thread");
    control::plant(None);
    let left = log.entry().at(at(15_500)).peek(0).remaining();
    assert!(left + u64::from(taken) <= 1, "{LOST_CHARGE}: {left} left");
    assert!(left + u64::from(taken) >= 1, "{REFUSED}: {left} left");
}

/// 2 threads: one takes both slots or none. The other lowers the limit to one, unless both slots are marked at that
/// time.
fn lowered_against_two() {
    let log = changing(2);
    let other = Arc::clone(&log);
    let taking = thread::spawn(move || asked(&other, 2));
    let limit = lowered(&log, [2, 1]);
    let units = taking.join().expect("the other thread");
    assert_left(&log, units, [limit, 2]);
}

/// 2 threads and three slots, one of them taken. One thread takes both free slots or none. The other takes one of the
/// free slots, so that the first may have to put its mark back, and lowers the limit to two. The slots that hold units
/// must stay in use, rather than a free one.
fn lowered_beside_marks() {
    let log = changing(3);
    assert_admitted(&ask_all(&*log, &[ask(1, 5_000)]));
    let other = Arc::clone(&log);
    let taking = thread::spawn(move || asked(&other, 2));
    let own = asked(&log, 1);
    let limit = lowered(&log, [3, 2]);
    let units = 1 + own + taking.join().expect("the other thread");
    assert_left(&log, units, [limit, 3]);
}

/// 2 threads and three slots, two of them taken, under a limit of one. The first thread raises the limit to two, which
/// leaves no unit, and then to three, which leaves one. Neither change is refused. The other thread asks for a unit
/// meanwhile.
fn raised_against_take() {
    let log = changing(3);
    assert_admitted(&ask_all(&*log, &[ask(1, 5_000), ask(1, 5_500)]));
    log.set_quota_at(of_count(1), at(5_500)).expect("nothing is in flight");
    let other = Arc::clone(&log);
    let taking = thread::spawn(move || asked(&other, 1));
    log.set_quota_at(of_count(2), at(6_000)).expect("it is raised");
    assert_eq!(asked(&log, 1), 0, "{ABOVE_BOUND}: three units of two");
    log.set_quota_at(of_count(3), at(6_000)).expect("it is raised");
    let units = 2 + asked(&log, 1) + taking.join().expect("the other thread");
    assert_left(&log, units, [3, 3]);
}

/// 2 threads and two slots, both taken. One thread gives the newer unit back, with its permit or without. The other
/// lowers the limit to one.
fn lowered_against_giving_back(has_permit: bool) {
    let log = changing(2);
    assert_admitted(&ask_all(&*log, &[ask(1, 5_000)]));
    let permit = log.entry().at(at(6_000)).check().into_result().expect("a slot is free");
    let other = Arc::clone(&log);
    let giving = thread::spawn(move || {
        let entry = other.entry().at(at(6_000));
        if has_permit { entry.refund(permit) } else { entry.uncharge(1) }
    });
    let limit = lowered(&log, [2, 1]);
    let units = 2 - giving.join().expect("the other thread");
    assert_left(&log, units, [limit, 2]);
}

/// 2 threads, two slots and a limit of one. One thread takes a unit and gives it back. The other raises the limit,
/// takes a unit, and puts the limit back.
fn to_and_fro_against_a_refund() {
    let log = changing(2);
    log.set_quota_at(of_count(1), at(5_000)).expect("nothing is in flight");
    let other = Arc::clone(&log);
    let asking = thread::spawn(move || {
        let entry = other.entry().at(at(6_000));
        entry.check().into_result().map_or(0, |permit| 1 - entry.refund(permit))
    });
    let raised = log.set_quota_at(of_count(2), at(6_000)).is_ok();
    let own = asked(&log, 1);
    let limit = if raised { lowered(&log, [2, 1]) } else { 1 };
    let units = own + asking.join().expect("the other thread");
    assert_left(&log, units, [limit, 2]);
}

/// 2 threads and two slots, both taken. One thread resets the log, the other lowers the limit to one. At the end no
/// unit is in the window.
fn lowered_against_a_reset() {
    let log = changing(2);
    assert_admitted(&ask_all(&*log, &[ask(1, 5_000), ask(1, 5_500)]));
    let other = Arc::clone(&log);
    let resetting = thread::spawn(move || other.entry().at(at(6_000)).reset());
    let limit = lowered(&log, [2, 1]);
    resetting.join().expect("the other thread");
    assert_left(&log, 0, [limit, 2]);
}

pub(crate) fn models() -> Vec<Model> {
    use Bound::{None as Whole, Preemptions};
    vec![
        Model::new("lowered_against_take", Whole, lowered_against_take).control(
            "a_slot_closed_over_a_unit_is_caught",
            Fault::PlainStoreForCas,
            LOST_CHARGE,
        ),
        Model::new("lowered_against_two", Preemptions(3), lowered_against_two).control(
            "a_mark_left_while_slots_close_is_caught",
            Fault::MarksForgotten,
            REFUSED,
        ),
        Model::new("lowered_beside_marks", Preemptions(3), lowered_beside_marks).control(
            "a_slot_closed_beside_an_earlier_mark_is_caught",
            Fault::ClosedBesideMarks,
            LOST_CHARGE,
        ),
        Model::new("raised_against_take", Preemptions(3), raised_against_take).control(
            "the_earliest_slot_opened_is_caught",
            Fault::EarliestOpened,
            ABOVE_BOUND,
        ),
        Model::new("lowered_against_a_refund", Whole, || lowered_against_giving_back(true))
            .control("a_refund_in_a_change_is_caught", Fault::GivenBackInChange, LOST_CHARGE),
        Model::new("lowered_against_an_uncharge", Whole, || lowered_against_giving_back(false))
            .control("an_uncharge_in_a_change_is_caught", Fault::GivenBackInChange, LOST_CHARGE)
            .control("an_uncharge_of_slots_in_use_is_caught", Fault::SlotsInUseFirst, LOST_CHARGE),
        Model::new("to_and_fro_against_a_refund", Preemptions(3), to_and_fro_against_a_refund)
            .control(
                "a_permit_that_outlives_changes_is_caught",
                Fault::PermitOutlivesChange,
                LOST_CHARGE,
            ),
        Model::new("lowered_against_a_reset", Whole, lowered_against_a_reset).control(
            "a_reset_that_writes_over_a_change_is_caught",
            Fault::GivenBackWhatever,
            REFUSED,
        ),
    ]
}
