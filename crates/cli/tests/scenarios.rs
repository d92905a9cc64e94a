//! `docs/from-envoy.md` lists the scenarios with a real Envoy, each as it is called. (They run with `.ci/run envoy`.)

#[path = "common/pages.rs"]
mod pages;

use std::fs;

use pages::{between, read, root};

const PAGE: &str = "docs/from-envoy.md";

/// The tests of each file, as rows of the table.
fn tests_as_rows() -> Vec<String> {
    let folder = root().join("crates/cli/tests/envoy");
    let entries = fs::read_dir(folder).expect("the scenarios");
    let mut rows = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let Some(file) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".rs"))
        else {
            continue;
        };
        let text = fs::read_to_string(&path).expect("a source file");
        // What is ignored has its attribute in between.
        for name in between(&text, "#[test]\nfn ", "(") {
            rows.push(format!("| `{file}` | {} |", name.replace('_', " ")));
        }
    }
    rows.sort();
    rows
}

/// The rows of the page's table.
fn rows(page: &str) -> Vec<String> {
    let (_, section) = page.split_once("\n## Tested with Envoy\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    section.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect()
}

#[test]
fn the_page_lists_every_scenario_with_envoy() {
    let (listed, found) = (rows(&read(PAGE)), tests_as_rows());
    assert_eq!(listed, found, "the rows should be:\n{}", found.join("\n"));
    assert!(found.len() >= 40, "{}", found.len());
}

#[test]
fn a_scenario_that_is_not_listed_is_caught() {
    let page = read(PAGE);
    let row = tests_as_rows().swap_remove(7);
    assert!(rows(&page).contains(&row));
    assert_ne!(rows(&page.replace(&row, "")), tests_as_rows());
}
