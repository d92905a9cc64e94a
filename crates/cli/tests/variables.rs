//! The README of the service has a row for each variable of envoyproxy/ratelimit.

#[allow(dead_code, reason = "here only the list is of use")]
#[path = "../src/serve/environment.rs"]
mod environment;

use environment::Fate::{Honoured, Meaningless, NotYet};
use environment::VARIABLES;

#[test]
fn the_readme_says_of_each_variable_what_becomes_of_it() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../service/README.md");
    let readme = std::fs::read_to_string(file).expect("the README of the service");
    for (name, fate) in VARIABLES {
        let (what, why) = match fate {
            Honoured(why) => ("honoured", why),
            Meaningless(why) => ("meaningless here", why),
            NotYet(why) => ("not yet", why),
        };
        let row = format!("| `{name}` | {what} | {why} |");
        assert!(readme.lines().any(|line| line == row), "not in the README: {row}");
    }
    let mut names: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), VARIABLES.len(), "each once");
}
