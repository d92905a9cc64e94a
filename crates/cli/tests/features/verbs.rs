//! Every verb at every place. In the library the test does it; elsewhere the row names the test that does it.

use std::time::Duration;

use tollgate::{Entry, Limiter, ManualClock, Timestamp, Wait, check_all};

use crate::cells::Elsewhere;
use crate::decided::now_or_never;

/// A verb, its effect at the stores that have all verbs, and the tests that show it at other places.
pub(crate) struct VerbRow {
    pub(crate) name: &'static str,
    /// Does the verb at an entry that has all of its five units, at time 0. The error is the reason why the effect is
    /// wrong.
    pub(crate) does: fn(&dyn Fn() -> Entry<'static>) -> Result<(), &'static str>,
    /// The cells for stripes, the middleware, the rules, and Redis in the mode exact.
    pub(crate) elsewhere: [Elsewhere; 4],
    /// The cells for Redis in the modes leased and async.
    pub(crate) modes: [Elsewhere; 2],
    pub(crate) sketch: Elsewhere,
    /// The cells for replay and simulate.
    pub(crate) traffic: [Elsewhere; 2],
}

use Elsewhere::{Done, Never, NoMeaning, Test};

pub(crate) const LAYER: &str = "crates/tower/tests/layer.rs";
const DELAY: &str = "crates/tower/tests/delay.rs";
pub(crate) const ANY_LIMIT: &str = "crates/tower/tests/any_limit.rs";
const SETTLE: &str = "crates/tower/tests/settle.rs";
const DECISIONS: &str = "crates/rules/tests/decisions.rs";
const USAGE: &str = "crates/rules/tests/usage.rs";
const ACTS: &str = "crates/rules/tests/verbs.rs";
pub(crate) const EXACT: &str = "crates/redis/tests/exact.rs";
pub(crate) const LEASED: &str = "crates/redis/tests/leased.rs";
pub(crate) const COUNTED: &str = "crates/redis/tests/counted.rs";
const REMAINING: &str = "crates/redis/tests/remaining.rs";
const POOL: &str = "crates/redis/tests/pool.rs";
const RANDOM: &str = "crates/model/tests/random.rs";
const SKETCH: &str = "tests/sketch/mod.rs";
const SKETCH_VERBS: &str = "tests/sketch/verbs.rs";
pub(crate) const REPLAY: &str = "crates/cli/tests/replay.rs";
pub(crate) const SIMULATE: &str = "crates/cli/tests/simulate.rs";
const SIMULATE_LIMITS: &str = "crates/cli/tests/simulate_limits.rs";
pub(crate) const GLOBAL: &str = "crates/service/tests/with_redis/global.rs";

/// The tests over Redis, each in all modes.
const REDIS: &str = "crates/redis/tests/verbs.rs";
const TAKES_WHAT_FITS: Elsewhere =
    Test(REDIS, "as_much_as_fits_is_taken_also_beside_what_a_node_holds");
const OWES: Elsewhere = Test(REDIS, "what_is_owed_is_charged_in_full_and_keeps_later_requests_out");
const COMES_BACK: Elsewhere = Test(
    REDIS,
    "units_that_come_back_are_there_in_each_mode_and_what_a_node_holds_is_not_forgiven",
);
const PLACES: Elsewhere =
    Test(REDIS, "places_of_all_nodes_are_in_one_order_and_the_last_one_can_be_given_back");
const TURN: Elsewhere =
    Test(REDIS, "a_caller_waits_for_its_turn_and_gives_its_place_back_when_it_gives_up");
const FORGETS: Elsewhere =
    Test(REDIS, "a_limit_that_was_reset_is_as_never_used_whatever_its_node_held");

const SERVERS_TIME: Elsewhere = Never(
    "Redis decides at its own server's time; otherwise nodes whose clocks differ would disagree.",
);
/// The cells of verbs about which recorded traffic tells nothing.
pub(crate) const REQUESTS_ALONE: [Elsewhere; 2] = [NoMeaning(
    "Recorded traffic says that a request came, and when. It does not say what else its caller asked, what the request \
     cost in the end, or what was given back.",
); 2];

pub(crate) const SHARED: Elsewhere = Never(
    "Several keys share a cell of a sketch, and a full cell takes no further charge. If one key gave units back, it \
     would erase what another key was charged in that cell.",
);
pub(crate) const DIVIDED: Elsewhere = Never(
    "A permit does not say which stripe was charged, and a queue needs one word for the whole limit.",
);
const YES_OR_NO: Elsewhere =
    NoMeaning("A request is admitted or denied as a whole; no part of it could be served.");
const NO_WAIT: Elsewhere = Never(
    "A service that kept requests waiting would have to hold any number of their connections.",
);
pub(crate) const IN_THE_PROGRAM: Elsewhere = NoMeaning(
    "The program shares the limiter with the middleware, in an `Arc`, and calls the verb itself.",
);

pub(crate) const VERBS: [VerbRow; 13] = [
    VerbRow {
        name: "check",
        does: |entry| {
            let admitted = (0..7).filter(|_| entry().check().is_allowed()).count();
            ensure(admitted == 5, "five of seven are admitted")
        },
        elsewhere: [
            Test("tests/striped.rs", "the_whole_burst_is_there_whichever_thread_asks"),
            Test(LAYER, "a_client_is_told_where_it_stands_until_it_is_denied_and_when_to_return"),
            Test(DECISIONS, "a_window_admits_its_limit_and_turns_on_the_clock"),
            Test(EXACT, "three_nodes_admit_what_one_would"),
        ],
        modes: [
            Test(LEASED, "three_nodes_admit_exactly_the_limit_from_the_start"),
            Test(COUNTED, "a_hot_key_is_decided_here_and_the_store_hears_of_it"),
        ],
        sketch: Test(RANDOM, "a_sketch_never_gives_a_key_more_than_its_quota"),
        traffic: [
            Test(REPLAY, "an_unordered_log_is_decided_in_the_order_of_time"),
            Test(SIMULATE, "every_decision_is_the_reference_models"),
        ],
    },
    VerbRow {
        name: "check at a time",
        does: |entry| {
            let later = entry().at(Timestamp::from_secs(120));
            let both = entry().check_n(5).is_allowed() && later.check_n(5).is_allowed();
            ensure(both, "all is there again after two periods")
        },
        elsewhere: [
            Test("tests/striped.rs", "a_window_in_stripes_turns_on_the_clock_for_all_of_them"),
            NoMeaning("A request is decided at the moment at which it arrives."),
            Test(
                "crates/rules/tests/lingering.rs",
                "a_stated_time_holds_to_the_nanosecond_whatever_the_window",
            ),
            SERVERS_TIME,
        ],
        modes: [SERVERS_TIME; 2],
        sketch: Test(SKETCH, "a_late_request_counts_in_the_earliest_window_of_its_cells"),
        traffic: [
            Test(REPLAY, "zones_put_requests_at_the_same_instant"),
            Test(SIMULATE, "times_of_a_file_are_decided_in_seconds_or_by_the_calendar"),
        ],
    },
    VerbRow {
        name: "peek",
        does: |entry| {
            let before = entry().peek(5).is_allowed() && entry().peek(5).is_allowed();
            let spent = entry().check_n(5).is_allowed() && !entry().peek(1).is_allowed();
            ensure(before && spent, "it charges nothing, and sees what was charged")
        },
        elsewhere: [
            Test("tests/striped.rs", "a_denial_waits_for_the_first_stripe_that_admits"),
            Test(LAYER, "what_costs_nothing_is_told_where_it_stands_and_always_passes"),
            Test(DECISIONS, "peek_charges_and_counts_nothing_and_reset_forgets"),
            Test(EXACT, "a_decision_tells_what_is_left_and_when_to_return"),
        ],
        modes: [
            Test(REMAINING, "a_look_counts_units_that_are_held_as_a_request_does"),
            Test(
                REMAINING,
                "a_look_during_a_report_neither_forgets_its_units_nor_counts_them_twice",
            ),
        ],
        sketch: Test(SKETCH, "a_cost_of_nothing_waits_for_the_row_that_it_fits_first"),
        traffic: REQUESTS_ALONE,
    },
    VerbRow {
        name: "take_up_to",
        does: |entry| {
            let taken = entry().take_up_to(9).into_result().map(|permit| permit.cost());
            ensure(taken.is_ok_and(|taken| taken == 5), "five of nine are taken")
        },
        elsewhere: [
            Test("tests/striped.rs", "as_much_as_fits_is_taken_from_all_stripes"),
            YES_OR_NO,
            YES_OR_NO,
            TAKES_WHAT_FITS,
        ],
        modes: [TAKES_WHAT_FITS; 2],
        sketch: Test(SKETCH_VERBS, "as_much_as_fits_is_taken_from_all_cells_of_a_key"),
        traffic: REQUESTS_ALONE,
    },
    VerbRow {
        name: "charge into debt",
        does: |entry| {
            let _ = entry().charge(7);
            ensure(!entry().check().is_allowed(), "what was charged is not there")
        },
        elsewhere: [
            Test("tests/striped.rs", "a_charge_fills_all_stripes_and_divides_what_they_owe"),
            Test(SETTLE, "what_a_request_turned_out_to_cost_is_settled_once"),
            Test(ACTS, "a_charge_goes_into_debt_in_every_limit_and_is_never_denied"),
            OWES,
        ],
        modes: [OWES; 2],
        sketch: Test(SKETCH_VERBS, "a_charge_goes_into_debt_up_to_two_bursts"),
        traffic: REQUESTS_ALONE,
    },
    VerbRow {
        name: "refund",
        does: |entry| {
            let permit = entry().check_n(5).into_result().map_err(|_| "five are there")?;
            let back = entry().refund(permit.portion(3));
            ensure(back == 3 && entry().peek(3).is_allowed(), "three of five come back")?;
            ensure(!entry().peek(4).is_allowed(), "and no more")
        },
        elsewhere: [
            DIVIDED,
            Test(SETTLE, "what_a_request_turned_out_to_cost_is_settled_once"),
            Test(ACTS, "a_refund_gives_back_what_was_not_used_and_not_what_is_over"),
            Test(EXACT, "a_refund_gives_back_what_was_charged"),
        ],
        modes: [
            Test(LEASED, "a_refund_of_leased_units_goes_to_the_store"),
            NoMeaning(
                "The store has not charged what a node admitted in mode async, and the node reports sums only, so there \
                 is no charge to give back.",
            ),
        ],
        sketch: SHARED,
        traffic: REQUESTS_ALONE,
    },
    VerbRow {
        name: "uncharge",
        does: |entry| {
            ensure(entry().uncharge(1) == 0, "nothing was charged")?;
            let _ = entry().charge(5);
            ensure(entry().uncharge(3) == 3 && entry().peek(3).is_allowed(), "three come back")?;
            ensure(entry().uncharge(9) == 2 && !entry().peek(6).is_allowed(), "and two, no more")
        },
        elsewhere: [
            Never(
                "Nobody knows which stripe was charged. If a stripe got back more than it was charged, the limit would \
                 admit too much.",
            ),
            NoMeaning("The program has the permit of each request and refunds that."),
            Test(USAGE, "negative_hits_give_back_what_was_charged_and_never_more"),
            Test(REDIS, "units_come_back_without_a_permit_and_never_more_than_are_charged"),
        ],
        modes: [COMES_BACK; 2],
        sketch: SHARED,
        traffic: REQUESTS_ALONE,
    },
    VerbRow {
        name: "reserve and cancel",
        does: |entry| {
            let minute = Duration::from_secs(60);
            ensure(entry().check_n(5).is_allowed(), "five are there")?;
            let place = entry().reserve(1, minute).map_err(|_| "a place within a minute")?;
            let wait = place.wait();
            ensure(!wait.is_zero() && entry().cancel(place), "the last place is given back")?;
            let again = entry().reserve(1, minute).map(|place| place.wait());
            ensure(again.is_ok_and(|again| again == wait), "the next one gets it")
        },
        elsewhere: [
            DIVIDED,
            Test(DELAY, "a_caller_that_gives_up_gives_its_place_back"),
            Test(
                ACTS,
                "a_caller_that_gives_up_gives_its_place_back_unless_another_stands_behind_it",
            ),
            PLACES,
        ],
        modes: [PLACES; 2],
        sketch: SHARED,
        traffic: [
            Test(REPLAY, "a_queue_is_told_as_delays"),
            Test(SIMULATE_LIMITS, "a_queue_is_told_as_delays"),
        ],
    },
    VerbRow {
        name: "acquire",
        does: |entry| {
            ensure(entry().check_n(5).is_allowed(), "five are there")?;
            let wait = Wait::at_most(Duration::from_secs(60));
            let turn = entry().acquire(1, wait, |_| std::future::ready(()));
            ensure(now_or_never(turn).is_ok(), "its turn comes")
        },
        elsewhere: [
            DIVIDED,
            Test(DELAY, "requests_wait_for_their_turn_and_no_longer_than_was_said"),
            NO_WAIT,
            TURN,
        ],
        modes: [TURN; 2],
        sketch: SHARED,
        traffic: [NoMeaning(
            "Nothing waits in a replay. The report says how long each request would have waited: see `reserve`.",
        ); 2],
    },
    VerbRow {
        name: "reset",
        does: |entry| {
            ensure(entry().check_n(5).is_allowed(), "five are there")?;
            entry().reset();
            ensure(entry().check_n(5).is_allowed(), "all of it is there again")
        },
        elsewhere: [
            DIVIDED,
            IN_THE_PROGRAM,
            Test(DECISIONS, "peek_charges_and_counts_nothing_and_reset_forgets"),
            FORGETS,
        ],
        modes: [FORGETS; 2],
        sketch: SHARED,
        traffic: REQUESTS_ALONE,
    },
    VerbRow {
        name: "all or nothing",
        does: |entry| {
            let other =
                Limiter::builder(tollgate::Quota::per_minute(1)).clock(ManualClock::new()).build();
            let both = || check_all(&mut [entry().cost(1), other.entry().cost(1)]).is_allowed();
            ensure(both() && !both(), "the other limit denies the second")?;
            ensure(entry().peek(4).is_allowed(), "and nothing was charged for it")
        },
        elsewhere: [
            Test("tests/all_stores.rs", "limits_of_all_stores_are_charged_together_or_not_at_all"),
            Test(LAYER, "several_gates_charge_all_or_none_and_the_tightest_is_told"),
            Test(DECISIONS, "stacked_limits_are_charged_together_and_the_tightest_one_answers"),
            Test(EXACT, "several_limits_are_charged_together_or_not_at_all"),
        ],
        modes: [Done; 2],
        sketch: Test(
            "tests/all_stores.rs",
            "of_two_sketches_the_one_that_was_charged_keeps_the_cost_of_one_request",
        ),
        traffic: [
            Test(
                "crates/cli/tests/replay_rules.rs",
                "rules_are_reported_one_by_one_and_all_together",
            ),
            NoMeaning("A run compares policies, so each of them decides all requests by itself."),
        ],
    },
    VerbRow {
        name: "or elsewhere (elastic)",
        does: |entry| {
            ensure(entry().check_n(5).is_allowed(), "five are there")?;
            let lent = entry().check_or(1, |_, _| true).is_allowed();
            ensure(lent && !entry().check_or(1, |_, _| false).is_allowed(), "as the other says")
        },
        elsewhere: [
            Test(
                "tests/check_or.rs",
                "a_limit_in_any_store_asks_elsewhere_once_its_own_units_are_spent",
            ),
            Test(ANY_LIMIT, "clients_over_their_quota_borrow_what_the_server_can_spare"),
            Test(
                "crates/rules/tests/elastic.rs",
                "what_a_limit_denies_is_borrowed_at_the_reported_headroom_and_nothing_without_a_report",
            ),
            Test(POOL, "all_nodes_together_lend_the_pool_at_the_least_headroom"),
        ],
        modes: [
            Test(POOL, "loans_from_leases_are_no_more_than_the_pool_either"),
            Test(POOL, "loans_that_are_counted_here_stop_when_the_nodes_know_of_each_other"),
        ],
        sketch: Test(
            "tests/check_or.rs",
            "a_limit_in_any_store_asks_elsewhere_once_its_own_units_are_spent",
        ),
        traffic: [NoMeaning(
            "A pool lends what a running server can spare, and recorded traffic does not say how much that was.",
        ); 2],
    },
    VerbRow {
        name: "lease",
        does: |entry| {
            let lease = entry().lease(3).map_err(|_| "five are there")?;
            ensure(lease.left() == 3 && !entry().peek(3).is_allowed(), "three are held")?;
            drop(lease);
            ensure(entry().peek(5).is_allowed(), "and given back at its end")
        },
        elsewhere: [
            DIVIDED,
            IN_THE_PROGRAM,
            Test(GLOBAL, "row_100_a_service_that_stops_gives_back_what_it_holds_in_leases"),
            NoMeaning("Use mode leased, which takes leases."),
        ],
        modes: [
            Test(LEASED, "three_nodes_admit_exactly_the_limit_from_the_start"),
            NoMeaning("Use mode leased, which takes leases."),
        ],
        sketch: SHARED,
        traffic: REQUESTS_ALONE,
    },
];

fn ensure(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}
