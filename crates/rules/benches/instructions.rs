//! Instructions of one decision by rules, counted by valgrind's callgrind: `cargo bench -p tollgate-rules --bench
//! instructions`. The figures include the loop around a decision, which has a row of its own, and the memory that a
//! decision allocates.

#[path = "../../../benches/common/callgrind.rs"]
mod callgrind;

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_rules::{
    DecisionMaker, Descriptor, Purpose, Request, RuleCache, RuleSettings, RuleText,
};

use callgrind::{Row, count};

const TURNS: u64 = 10_000;

/// The clients that take turns. Each has a cell before anything is counted.
const USERS: [&str; 8] = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"];

const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
  - {key: page, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
  - {key: tenant, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
  - {key: few, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: stacked
    limits: [{unit: hour, requests_per_unit: 1000000000}, {unit: day, requests_per_unit: 1000000000}]
";

const ROWS: [Row; 9] = [
    ("the loop alone", || count(TURNS, |n| !black_box(user(n)).is_empty())),
    ("one rule, admitted", || decide(&["user"], Purpose::Check, true)),
    ("one rule, denied", || decide(&["few"], Purpose::Check, false)),
    ("one rule, peek", || decide(&["user"], Purpose::Peek, true)),
    ("one rule, charge", || decide(&["user"], Purpose::Charge, true)),
    ("one rule of two limits, admitted", || decide(&["stacked"], Purpose::Check, true)),
    ("three rules, admitted", || decide(&["user", "page", "tenant"], Purpose::Check, true)),
    ("three rules, denied", || decide(&["user", "few", "tenant"], Purpose::Check, false)),
    ("three rules, peek", || decide(&["user", "page", "tenant"], Purpose::Peek, true)),
];

/// The client whose turn has this number.
fn user(n: u64) -> &'static str {
    USERS[usize::try_from(n).unwrap_or_default() % USERS.len()]
}

/// Decides requests that have one descriptor for each of these keys, and returns the number of expected answers.
fn decide<const N: usize>(keys: &[&str; N], purpose: Purpose, is_allowed: bool) -> u64 {
    let settings = RuleSettings { default_capacity: Some(100), ..RuleSettings::default() };
    let cache = Arc::new(RuleCache::with_clock(settings, ManualClock::new()));
    cache.load(&[RuleText::new("d.yaml", RULES)]).expect("good rules");
    let maker = DecisionMaker::new(cache).expect("small tables");
    let decide = |n, purpose| {
        let entries = keys.map(|key| [(key, user(n))]);
        let descriptors = entries.each_ref().map(|entries| Descriptor::new(entries));
        let answer = maker.decide(black_box(&Request::new("d", &descriptors)), purpose);
        answer.expect("a good request").is_allowed()
    };
    // Each client asks once, which uses up the limits of 1.
    (0..USERS.len() as u64).for_each(|n| _ = decide(n, Purpose::Check));
    count(TURNS, |n| decide(n, purpose) == is_allowed)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    callgrind::run(&ROWS, TURNS)
}
