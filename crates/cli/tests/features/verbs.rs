//! Every verb at every place: in the library by doing it, elsewhere by the test that does.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tollgate::{Entry, KeyedLimiter, Limiter, ManualClock, Tiers, Timestamp, Wait, check_all};

use crate::ask::now_or_never;

/// A verb, what it does where all verbs are, and where else a test shows it.
pub(crate) struct VerbRow {
    pub(crate) name: &'static str,
    /// Looks at an entry with five units, all there, at time 0; what it says is wrong otherwise.
    does: fn(&dyn Fn() -> Entry<'static>) -> Result<(), &'static str>,
    /// Stripes and sketches, the middleware, the rules, Redis.
    pub(crate) elsewhere: [Elsewhere; 4],
}

/// How a verb stands at a place whose entries do not have all of them.
#[derive(Clone, Copy)]
pub(crate) enum Elsewhere {
    /// In this file there is this test.
    Test(&'static str, &'static str),
    /// It cannot be, or has no meaning.
    Never(&'static str),
    /// It is not built.
    NotYet(&'static str),
}

use Elsewhere::{Never, NotYet, Test};

const LAYER: &str = "crates/tower/tests/layer.rs";
const DELAY: &str = "crates/tower/tests/delay.rs";
const ANY_LIMIT: &str = "crates/tower/tests/any_limit.rs";
const SETTLE: &str = "crates/tower/tests/settle.rs";
const DECISIONS: &str = "crates/rules/tests/decisions.rs";
const ACTS: &str = "crates/rules/tests/verbs.rs";
const EXACT: &str = "crates/redis/tests/exact.rs";

const SHARED: Elsewhere = Never(
    "Cells of a sketch are shared, and one that is full takes no more: were something given back to one key, what \
     another was charged there meanwhile would be forgiven. A permit of stripes does not say which of them was charged.",
);
const YES_OR_NO: Elsewhere =
    Never("A request is admitted or denied as a whole: there is no part of it to serve.");
const NO_WAIT: Elsewhere =
    Never("A service that kept requests waiting would hold their connections, without a bound.");
const IN_THE_PROGRAM: Elsewhere =
    Never("The program has the limiter itself, in an `Arc`, and its verbs with it.");

pub(crate) const VERBS: [VerbRow; 12] = [
    VerbRow {
        name: "check",
        does: |entry| {
            let admitted = (0..7).filter(|_| entry().check(1).is_allowed()).count();
            ensure(admitted == 5, "five of seven are admitted")
        },
        elsewhere: [
            Test("tests/striped.rs", "the_whole_burst_is_there_whichever_thread_asks"),
            Test(LAYER, "a_client_is_told_where_it_stands_until_it_is_denied_and_when_to_return"),
            Test(DECISIONS, "a_window_admits_its_limit_and_turns_on_the_clock"),
            Test(EXACT, "three_nodes_admit_what_one_would"),
        ],
    },
    VerbRow {
        name: "check at a time",
        does: |entry| {
            let later = entry().at(Timestamp::from_secs(120));
            let both = entry().check(5).is_allowed() && later.check(5).is_allowed();
            ensure(both, "all is there again after two periods")
        },
        elsewhere: [
            Test("tests/striped.rs", "a_window_in_stripes_turns_on_the_clock_for_all_of_them"),
            Never("A request is decided when it comes."),
            Test(
                "crates/rules/tests/lingering.rs",
                "a_stated_time_holds_to_the_nanosecond_whatever_the_window",
            ),
            Never("The time is the server's: nodes whose clocks differ would otherwise disagree."),
        ],
    },
    VerbRow {
        name: "peek",
        does: |entry| {
            let before = entry().peek(5).is_allowed() && entry().peek(5).is_allowed();
            let spent = entry().check(5).is_allowed() && !entry().peek(1).is_allowed();
            ensure(before && spent, "it charges nothing, and sees what was charged")
        },
        elsewhere: [
            Test("tests/striped.rs", "a_denial_waits_for_the_first_stripe_that_admits"),
            Test(LAYER, "what_costs_nothing_is_told_where_it_stands_and_always_passes"),
            Test(DECISIONS, "peek_charges_and_counts_nothing_and_reset_forgets"),
            Test(EXACT, "a_decision_tells_what_is_left_and_when_to_return"),
        ],
    },
    VerbRow {
        name: "take_up_to",
        does: |entry| {
            let taken = entry().take_up_to(9).into_result().map(|permit| permit.cost());
            ensure(taken.is_ok_and(|taken| taken == 5), "five of nine are taken")
        },
        elsewhere: [
            Test("tests/sketch/verbs.rs", "as_much_as_fits_is_taken_from_all_cells_of_a_key"),
            YES_OR_NO,
            YES_OR_NO,
            NotYet("The script can: leases take so. There is no verb for it."),
        ],
    },
    VerbRow {
        name: "charge into debt",
        does: |entry| {
            let _ = entry().charge(7);
            ensure(!entry().check(1).is_allowed(), "what was charged is not there")
        },
        elsewhere: [
            Test("tests/striped.rs", "a_charge_fills_all_stripes_and_divides_what_they_owe"),
            Test(SETTLE, "what_a_request_turned_out_to_cost_is_settled_once"),
            Test(ACTS, "a_charge_goes_into_debt_in_every_limit_and_is_never_denied"),
            NotYet("The script can: mode `async` reports so. There is no verb for it."),
        ],
    },
    VerbRow {
        name: "refund",
        does: |entry| {
            let permit = entry().check(5).into_result().map_err(|_| "five are there")?;
            let back = entry().refund(permit.portion(3));
            ensure(back == 3 && entry().peek(3).is_allowed(), "three of five come back")?;
            ensure(!entry().peek(4).is_allowed(), "and no more")
        },
        elsewhere: [
            SHARED,
            Test(SETTLE, "what_a_request_turned_out_to_cost_is_settled_once"),
            Test(ACTS, "a_refund_gives_back_what_was_not_used_and_not_what_is_over"),
            Test(EXACT, "a_refund_gives_back_what_was_charged"),
        ],
    },
    VerbRow {
        name: "reserve and cancel",
        does: |entry| {
            let minute = Duration::from_secs(60);
            ensure(entry().check(5).is_allowed(), "five are there")?;
            let place = entry().reserve(1, minute).map_err(|_| "a place within a minute")?;
            let wait = place.wait();
            ensure(!wait.is_zero() && entry().cancel(place), "the last place is given back")?;
            let again = entry().reserve(1, minute).map(|place| place.wait());
            ensure(again.is_ok_and(|again| again == wait), "the next one gets it")
        },
        elsewhere: [
            SHARED,
            Test(DELAY, "a_caller_that_gives_up_gives_its_place_back"),
            Test(ACTS, "a_caller_that_gives_up_gives_its_place_back_unless_another_stands_behind_it"),
            NotYet("The script would have to store a debt for what is only reserved."),
        ],
    },
    VerbRow {
        name: "acquire",
        does: |entry| {
            ensure(entry().check(5).is_allowed(), "five are there")?;
            let wait = Wait::at_most(Duration::from_secs(60));
            let turn = entry().acquire(1, wait, |_| std::future::ready(()));
            ensure(now_or_never(turn).is_ok(), "its turn comes")
        },
        elsewhere: [
            SHARED,
            Test(DELAY, "requests_wait_for_their_turn_and_no_longer_than_was_said"),
            NO_WAIT,
            NotYet("It needs reservations."),
        ],
    },
    VerbRow {
        name: "reset",
        does: |entry| {
            ensure(entry().check(5).is_allowed(), "five are there")?;
            entry().reset();
            ensure(entry().check(5).is_allowed(), "all of it is there again")
        },
        elsewhere: [
            SHARED,
            IN_THE_PROGRAM,
            Test(DECISIONS, "peek_charges_and_counts_nothing_and_reset_forgets"),
            NotYet("Nodes that hold leases would have to be told."),
        ],
    },
    VerbRow {
        name: "all or nothing",
        does: |entry| {
            let other = Limiter::with_clock(tollgate::Quota::per_minute(1), ManualClock::new());
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
    },
    VerbRow {
        name: "or elsewhere (elastic)",
        does: |entry| {
            ensure(entry().check(5).is_allowed(), "five are there")?;
            let lent = entry().check_or(1, |_, _| true).is_allowed();
            ensure(lent && !entry().check_or(1, |_, _| false).is_allowed(), "as the other says")
        },
        elsewhere: [
            Test(
                "tests/check_or.rs",
                "a_limit_in_any_store_asks_elsewhere_once_its_own_units_are_spent",
            ),
            Test(ANY_LIMIT, "clients_over_their_quota_borrow_what_the_server_can_spare"),
            Never(
                "A request is charged to all of its limits or to none, and a loan cannot be taken back. A domain has \
                 no pool, and the service does not measure headroom.",
            ),
            NotYet("The headroom of all nodes would have to be shared."),
        ],
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
            SHARED,
            IN_THE_PROGRAM,
            Test(
                "crates/service/tests/with_redis/global.rs",
                "row_100_a_service_that_stops_gives_back_what_it_holds_in_leases",
            ),
            Test(
                "crates/redis/tests/leased.rs",
                "three_nodes_admit_exactly_the_limit_from_the_start",
            ),
        ],
    },
];

fn ensure(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}

/// Makes a limit, and of it as many entries as are asked for.
type MakeStore = fn() -> Box<dyn Fn() -> Entry<'static>>;

/// What has every verb.
const STORES: [(&str, MakeStore); 6] = [
    ("`Limiter`", || one("gcra 5/m")),
    ("`KeyedLimiter`", || keyed("gcra 5/m")),
    ("`Tiers`", || {
        let tiers = Tiers::of(tollgate::Quota::per_minute(1)).and(tollgate::Quota::per_minute(5));
        let limiter = tiers.build_with_clock::<str>(100, ManualClock::new()).unwrap();
        let limiter = &*Box::leak(Box::new(limiter));
        Box::new(|| limiter.entry("a").tier(1).unwrap())
    }),
    ("changing quota", || {
        let quota = tollgate::Quota::per_minute(5);
        let limiter = Limiter::changing_with_clock(quota, ManualClock::new()).unwrap();
        let limiter = &*Box::leak(Box::new(limiter));
        Box::new(|| limiter.entry())
    }),
    ("log", || one("sliding-log 5/m")),
    ("keyed log", || keyed("sliding-log 5/m")),
];

fn one(policy: &str) -> Box<dyn Fn() -> Entry<'static>> {
    let policy: tollgate::Policy = policy.parse().unwrap();
    let limiter = &*Box::leak(Box::new(Limiter::with_clock(policy, ManualClock::new())));
    Box::new(|| limiter.entry())
}

fn keyed(policy: &str) -> Box<dyn Fn() -> Entry<'static>> {
    let policy: tollgate::Policy = policy.parse().unwrap();
    let limiter = KeyedLimiter::<str>::with_clock(policy, 100, ManualClock::new()).unwrap();
    let limiter = &*Box::leak(Box::new(limiter));
    Box::new(|| limiter.entry("a"))
}

/// Does every verb at every store, and looks whether the named tests are there.
pub(crate) fn all_are_as_told() {
    for row in &VERBS {
        for (store, make) in STORES {
            let done = (row.does)(&*make());
            assert_eq!(done, Ok(()), "{} of {store}", row.name);
        }
        for cell in row.elsewhere {
            let Test(file, test) = cell else { continue };
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
            let text = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{file} is not there"));
            assert!(text.contains(&format!("fn {test}(")), "{file} has no test {test}");
        }
    }
}

/// The table, its list of tests, and the arguments, each with its number.
pub(crate) fn section() -> String {
    let stores = STORES.map(|(name, _)| name).join(" | ");
    let mut page = format!("| | {stores} | stripes, sketch | middleware | rules | Redis |\n");
    page += &format!("|---|{}\n", ":-:|".repeat(STORES.len() + 4));
    let (mut reasons, mut tests): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for row in &VERBS {
        let shown = row.elsewhere.map(|cell| match cell {
            Test(file, test) => {
                tests.push(format!("| {} | `{file}` `{test}` |\n", row.name));
                "yes".to_owned()
            }
            Never(why) | NotYet(why) => {
                let at = reasons.iter().position(|known| *known == why).unwrap_or_else(|| {
                    reasons.push(why);
                    reasons.len() - 1
                });
                let word = if matches!(cell, Never(_)) { "never" } else { "not yet" };
                format!("{word} {}", letter(at))
            }
        });
        let done = "yes | ".repeat(STORES.len());
        page += &format!("| {} | {done}{} |\n", row.name, shown.join(" | "));
    }
    page += "\n";
    for (n, why) in reasons.iter().enumerate() {
        page += &crate::page::wrapped(&format!("* **{}**", letter(n)), " ", why);
    }
    page + "\nThe tests behind the last four columns:\n\n| | |\n|---|---|\n"
        + &tests.concat()
        + "\n"
}

/// a, b, .. z; there are no more.
fn letter(n: usize) -> char {
    char::from(b'a' + u8::try_from(n).unwrap())
}
