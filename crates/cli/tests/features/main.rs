//! `docs/features.md`: which policy works at which place. Every cell is filled here: each policy decides the same
//! requests at each place, and the answers are compared one by one with those of a `Limiter`.
//!
//! With `TOLLGATE_BLESS` in the environment the run writes the page. The tests that the page relies on are listed in
//! `target/ci/features-tests.md`, with the reason for each cell without meaning.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod ask;
mod cells;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/decided.rs"]
mod decided;
mod holders;
mod nodes;
mod page;
#[path = "../common/pages.rs"]
mod pages;
mod reasons;
#[path = "../../../redis/tests/common/server.rs"]
mod server;
mod stores;
mod verbs;

use std::fs;
use std::path::Path;

use ask::Row;
use page::Cell;

/// The policies. Each has a quota of six per period. Over Redis the same quota is per day, because the time there is
/// the server's: see `nodes`.
const ROWS: [Row; 25] = [
    Row::of("gcra 6/m burst 3", "algorithm: gcra, unit: minute, burst: 3"),
    Row::of("token-bucket 6/m burst 3", "algorithm: token-bucket, unit: minute, burst: 3"),
    Row::of("leaky-bucket 6/m soft", "algorithm: leaky-bucket, unit: minute"),
    Row::of("leaky-bucket 6/m hard", "algorithm: leaky-bucket hard, unit: minute"),
    Row::of("spaced 6/m", "algorithm: spaced, unit: minute"),
    Row::of("fixed-window 6/m", "algorithm: fixed-window, unit: minute"),
    Row::of("fixed-window 6/m from-first", "algorithm: fixed-window from-first, unit: minute"),
    Row::of("sliding-window 6/m", "algorithm: sliding-window, unit: minute"),
    Row::of("sliding-window 6/m exact", "algorithm: sliding-window exact, unit: minute"),
    Row::of("sliding-window 6/m strict", "algorithm: sliding-window strict, unit: minute"),
    Row::of("segmented-window 6/m x6", "algorithm: segmented-window x6, unit: minute"),
    Row::of("sliding-log 6/m", "algorithm: sliding-log, unit: minute"),
    Row::of("calendar-month 6", "algorithm: calendar-month, unit: month"),
    Row::of("calendar-year 6", "algorithm: calendar-year, unit: year"),
    Row::of("calendar-week 6 from-sunday", "algorithm: calendar-week from-sunday, unit: week"),
    Row::of("gcra 6/m burst 3 soft 50%", "algorithm: gcra, unit: minute, burst: 3, mode: soft 50%"),
    Row::of(
        "sliding-window 6/m soft 50%",
        "algorithm: sliding-window, unit: minute, mode: soft 50%",
    ),
    Row::of("sliding-log 6/m soft 50%", "algorithm: sliding-log, unit: minute, mode: soft 50%"),
    Row::of(
        "sliding-log 6/m count-denied",
        "algorithm: sliding-log, unit: minute, count_rejected: true",
    ),
    Row::of(
        "gcra 6/m burst 3 count-denied",
        "algorithm: gcra, unit: minute, burst: 3, count_rejected: true",
    ),
    Row::of(
        "fixed-window 6/m count-denied",
        "algorithm: fixed-window, unit: minute, count_rejected: true",
    ),
    Row::of(
        "gcra 6/m burst 3 penalty 2m after 2",
        "algorithm: gcra, unit: minute, burst: 3, penalty: 2m after 2",
    ),
    Row::of(
        "segmented-window 6/m x6 penalty 2m after 2 extended",
        "algorithm: segmented-window x6, unit: minute, penalty: 2m after 2 extended",
    ),
    Row::of("gcra 6/m burst 1 queue 3", "algorithm: gcra, unit: minute, burst: 1, queue: 3"),
    Row::of("gcra 6/m burst 1 wait 25s", "algorithm: gcra, unit: minute, burst: 1, wait: 25s"),
];

#[tokio::test]
async fn the_page_is_what_every_place_does() {
    let server = server::Server::start();
    let mut cells = Vec::new();
    for row in &ROWS {
        let at_one_place = ask::at_one_place(row);
        let over_nodes = nodes::at_each_mode(row, &server.address()).await;
        let answers = at_one_place.into_iter().chain(over_nodes);
        cells.push(answers.map(|answer| Cell::of(row, answer)).collect::<Vec<_>>());
    }
    stores::all_are_as_told();
    nodes::all_or_nothing_is_as_told(&server.address()).await;
    let (page, tests) = page::page(&ROWS, &cells);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::create_dir_all(root.join("target/ci")).unwrap();
    fs::write(root.join("target/ci/features-tests.md"), &tests).unwrap();
    pages::assert_page("docs/features.md", &page);
}

#[test]
fn answers_that_differ_in_one_request_are_no_feature() {
    let row = &ROWS[0];
    let mut answers = ask::reference(row.policy);
    assert!(Cell::compare(row, "keyed", Ok(answers.clone()), &answers).is_ok());
    answers[7] = !answers[7];
    assert!(Cell::compare(row, "keyed", Ok(answers), &ask::reference(row.policy)).is_err());
}

#[test]
fn a_test_that_is_not_there_is_caught() {
    let here = "crates/cli/tests/features/main.rs";
    let missing = |file, test| cells::Elsewhere::Test(file, test).missing();
    assert_eq!(missing(here, "a_test_that_is_not_there_is_caught"), None);
    assert_eq!(missing(here, "a_test").unwrap(), format!("{here} has no test a_test"));
    assert_eq!(missing("no.rs", "a_test").unwrap(), "no file no.rs");
}
