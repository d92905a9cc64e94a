//! Tests of windows of the calendar in cases that the reference model does not cover: clocks that differ, and a policy
//! or a clock that changes.

use tollgate::CalendarUnit;

use super::{NEVER_SET_BACK, SLACK_US, ask, plan, start, view};
use crate::script::calendar::WindowEnds;
use crate::script::plan::ScriptPlan;
use crate::script::state::State;
use crate::script::{ScriptReply, ScriptRequest, ScriptVerb, Units};

const DAY: u64 = 86_400_000_000;
/// The beginning of February 2025, which has 28 days, and the ends of that month and the next ones.
const FEBRUARY: u64 = 1_738_368_000_000_000;
const MARCH: u64 = FEBRUARY + 28 * DAY;
const APRIL: u64 = MARCH + 31 * DAY;
const MAY: u64 = APRIL + 30 * DAY;
const JUNE: u64 = MAY + 31 * DAY;
/// 1 January 2027, a Friday.
const YEAR: u64 = 1_798_761_600_000_000;

fn check(plan: &ScriptPlan, cost: u64) -> ScriptRequest {
    super::check("key", plan, cost)
}

fn month(reply: &ScriptReply) -> (u64, u64) {
    let State::Calendar { ends, count } = reply.parts[0].state else { panic!("{reply:?}") };
    (ends, count)
}

#[test]
#[ignore = "needs redis-server"]
fn months_turn_at_midnight_and_keys_say_which_one_it_is() {
    let (server, mut told) = start(NEVER_SET_BACK);
    let plan = plan("calendar-month 10");
    for (now_us, admitted, left) in [
        (FEBRUARY - 1, true, (FEBRUARY, 8)),
        (FEBRUARY, true, (MARCH, 8)),
        (MARCH - 1, false, (MARCH, 8)),
        (MARCH, true, (APRIL, 8)),
        (APRIL + 17 * DAY, true, (MAY, 8)),
    ] {
        let reply = told.call(now_us, check(&plan, 8));
        assert_eq!((reply.admitted, month(&reply)), (admitted, left), "{now_us}");
        let view = view(&plan, &reply);
        let found = (view.ready_us(8), view.turns_us(), view.stamp());
        assert_eq!(found, (left.0, Some(left.0), left.0));
        let stored: String = server.run(&["GET", "key"]);
        assert_eq!(stored, format!("7 1 1 10 0 {} {}", left.0, left.1));
    }
}

/// A node sends the months around the time of its own clock, and the server picks the month of the server's clock. If
/// that month was not sent, nothing is charged.
#[test]
#[ignore = "needs redis-server"]
fn a_node_whose_clock_is_a_month_off_is_told_so_and_one_that_is_less_decides_as_all_do() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let plan = plan("calendar-month 10");
    let mut at = |node_us: u64, now_us: u64| {
        let mut asked = check(&plan, 1);
        asked.parts[0].turns = Some(WindowEnds::around(CalendarUnit::Month, node_us));
        let mut call = crate::script::command(
            crate::script::Invoked::ByDigest(&told.digest),
            [&asked].into_iter(),
        );
        let value = call.arg(now_us).query(&mut told.connection).unwrap();
        let reply = crate::script::replies(&value, [&asked].into_iter()).unwrap().remove(0);
        let units = reply.parts[0].units;
        (units, reply.in_a_window().map(|reply| month(&reply)).map_err(|fault| fault.to_string()))
    };
    let apart = || {
        Err("the clocks of the server and of this node are a whole window of the calendar apart"
            .to_string())
    };
    assert_eq!(at(MARCH, MARCH), (1, Ok((APRIL, 1))));
    assert_eq!(at(MARCH + 31 * DAY, MARCH), (1, Ok((APRIL, 2))));
    assert_eq!(at(MARCH + 31 * DAY + 1, MARCH), (0, apart()));
    // The node is in March. The server's clock may be as late as April, but not yet in May.
    assert_eq!(at(MARCH, MAY - 1), (1, Ok((MAY, 1))));
    assert_eq!(at(MARCH, MAY), (0, apart()));
    assert_eq!(at(APRIL - 1, JUNE - 1), (1, Ok((JUNE, 1))));
    let nothing: ScriptReply = told.call(MAY, ask(ScriptVerb::Peek, "key", &plan, Units::owed(0)));
    assert_eq!(month(&nothing), (JUNE, 1), "and nothing was charged");
}

#[test]
#[ignore = "needs redis-server"]
fn what_was_spent_goes_on_under_another_policy_and_ends_with_the_month() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let [old, new, bucket] = ["calendar-month 10", "calendar-month 12", "100/h"].map(plan);
    assert!(told.call(FEBRUARY, check(&old, 8)).admitted);
    assert_eq!(month(&told.call(FEBRUARY + DAY, check(&new, 5))), (MARCH, 8));
    assert_eq!(month(&told.call(FEBRUARY + DAY, check(&new, 4))), (MARCH, 12));
    // Each request is charged to the states of both policies, and both states end with the month.
    assert!(!told.call(MARCH - 1, check(&old, 1)).admitted);
    assert_eq!(month(&told.call(MARCH, check(&new, 3))), (APRIL, 3));
    assert_eq!(month(&told.call(MARCH, check(&old, 9))), (APRIL, 3));
    // Requests under the GCRA policy send no months. They are charged to the stored month until it ends.
    let reply = told.call(MARCH + DAY, check(&bucket, 20));
    assert!(reply.admitted);
    assert_eq!(month(&told.call(MARCH + DAY, check(&new, 1))), (APRIL, 23));
    assert!(told.call(APRIL, check(&bucket, 20)).admitted);
    assert_eq!(month(&told.call(APRIL, check(&new, 1))), (MAY, 20));
}

/// If the stored month is more than one month ahead, it was written before the clock was set back. Like other windows,
/// it is then moved, and becomes the next month. So at least a whole month passes before its count is forgotten.
#[test]
#[ignore = "needs redis-server"]
fn a_clock_set_back_by_months_makes_of_a_month_the_next_one() {
    let (server, mut told) = start(SLACK_US);
    let plan = plan("calendar-month 10");
    assert_eq!(month(&told.call(JUNE - DAY, check(&plan, 8))), (JUNE, 8));
    // The clock goes back into the previous month: the stored month stays.
    assert_eq!(month(&told.call(APRIL + DAY, check(&plan, 3))), (JUNE, 8));
    // The clock goes back two months or more: the stored month is moved, even by a denied request, and keeps its count
    // until the clock reaches it.
    for back_us in [MARCH + DAY, FEBRUARY - 300 * DAY] {
        server.run::<()>(&["DEL", "key"]);
        assert_eq!(month(&told.call(JUNE - DAY, check(&plan, 8))), (JUNE, 8));
        let WindowEnds(ends) = WindowEnds::around(CalendarUnit::Month, back_us);
        let this = ends.iter().position(|end| *end > back_us).unwrap();
        let moved = told.call(back_us, check(&plan, 3));
        assert_eq!((moved.admitted, month(&moved)), (false, (ends[this + 1], 8)));
        assert_eq!(month(&told.call(ends[this], check(&plan, 2))), (ends[this + 1], 10));
        assert_eq!(month(&told.call(ends[this + 1], check(&plan, 1))), (ends[this + 2], 1));
    }
}

/// The times begin on Monday, 30 November 2026. That year ends on a Thursday, at the same instant as a week that begins
/// on Fridays.
#[test]
#[ignore = "needs redis-server"]
fn years_and_weeks_turn_at_midnight_and_are_told_apart_in_a_key() {
    const MONDAY: u64 = 1_795_996_800_000_000;
    let (server, mut told) = start(NEVER_SET_BACK);
    let [year, week, friday] =
        ["calendar-year 10", "calendar-week 10", "calendar-week 10 from-friday"].map(plan);
    for (plan, now_us, ends) in [
        (&year, MONDAY, YEAR),
        (&year, YEAR - 1, YEAR),
        (&year, YEAR, YEAR + 365 * DAY),
        (&week, MONDAY - 1, MONDAY),
        (&week, MONDAY, MONDAY + 7 * DAY),
        (&week, MONDAY + 7 * DAY - 1, MONDAY + 7 * DAY),
        (&friday, YEAR - 1, YEAR),
        (&friday, YEAR, YEAR + 7 * DAY),
    ] {
        server.run::<()>(&["DEL", "key"]);
        assert_eq!(month(&told.call(now_us, check(plan, 8))), (ends, 8), "{now_us}");
        assert!(!told.call(ends - 1, check(plan, 3)).admitted, "{now_us}");
        assert!(told.call(ends, check(plan, 3)).admitted, "{now_us}");
    }
    // Units that were spent under one policy also count under the other policy, in that policy's window.
    server.run::<()>(&["DEL", "key"]);
    assert!(told.call(MONDAY, check(&year, 8)).admitted);
    assert_eq!(month(&told.call(MONDAY, check(&week, 2))), (MONDAY + 7 * DAY, 10));
    assert!(!told.call(MONDAY, check(&week, 1)).admitted);
    assert_eq!(month(&told.call(MONDAY + 7 * DAY, check(&week, 1))), (MONDAY + 14 * DAY, 1));
    let stored: String = server.run(&["GET", "key"]);
    assert_eq!(stored, format!("7 1 1 10 2 {} 1;7 1 1 10 1 {YEAR} 11", MONDAY + 14 * DAY));
}

/// A year and a week end together. Units that were charged before that week began are given back to the year, but not
/// to the week.
#[test]
#[ignore = "needs redis-server"]
fn what_is_given_back_to_a_year_is_not_given_back_to_a_week_that_ends_with_it() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let [year, friday] = ["calendar-year 10", "calendar-week 10 from-friday"].map(plan);
    let before = YEAR - 20 * DAY;
    assert!(told.call(before, check(&year, 4)).admitted);
    assert!(told.call(before, check(&friday, 1)).admitted);
    assert_eq!(month(&told.call(YEAR - DAY, check(&friday, 5))), (YEAR, 5));
    let units = Units { share: before, stamp: YEAR, ..Units::owed(4) };
    let refunded = told.call(YEAR - DAY, ask(ScriptVerb::Refund, "key", &year, units));
    assert_eq!((refunded.parts[0].units, month(&refunded)), (4, (YEAR, 6)));
    assert_eq!(month(&told.call(YEAR - DAY, check(&friday, 5))), (YEAR, 10));
    assert!(!told.call(YEAR - DAY, check(&friday, 1)).admitted);
}
