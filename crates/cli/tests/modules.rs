//! ARCHITECTURE.md names every module, by its folder.

#[path = "common/pages.rs"]
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use pages::{read, root};

/// Files that are no module of their own name: roots, and tests beside the code.
const UNNAMED: [&str; 4] = ["lib", "main", "mod", "tests"];

/// The modules of each folder below this one.
fn modules_below(folder: &Path, all: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(root().join(folder)).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        let path = folder.join(name);
        if root().join(&path).is_dir() {
            modules_below(&path, all);
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name in UTF-8");
        if path.extension().is_some_and(|extension| extension == "rs") && !UNNAMED.contains(&stem) {
            let modules = all.entry(format!("{}/", folder.display())).or_default();
            modules.insert(stem.to_owned());
        }
    }
}

/// The core's modules and those of the crates.
fn modules() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    modules_below(Path::new("src"), &mut all);
    for entry in fs::read_dir(root().join("crates")).expect("the crates") {
        let name = entry.expect("an entry").file_name();
        modules_below(&Path::new("crates").join(name).join("src"), &mut all);
    }
    all
}

/// The modules that a page names in its table of them.
fn named_on(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let (_, rest) = page.split_once("\n## Every module, by folder\n").expect("the table's head");
    let table = rest.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let spans = |line: &str| -> Vec<String> {
        line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    rows.map(|row| {
        let mut names = spans(row).into_iter();
        (names.next().expect("a folder"), names.collect())
    })
    .collect()
}

#[test]
fn every_module_is_named_in_its_folder() {
    let (named, found) = (named_on(&read("ARCHITECTURE.md")), modules());
    for (folder, modules) in &found {
        let list: Vec<_> = modules.iter().map(|module| format!("`{module}`")).collect();
        let row = format!("| `{folder}` | {} |", list.join(", "));
        assert_eq!(named.get(folder), Some(modules), "the row should be: {row}");
    }
    assert!(found.len() > 30 && found["src/"].contains("limiter"), "{found:?}");
    assert_eq!(named.len(), found.len(), "a folder that is named is not there");
}

#[test]
fn a_module_that_is_not_named_is_seen() {
    let page = read("ARCHITECTURE.md").replace("`limiter`, ", "");
    assert_ne!(named_on(&page).get("src/"), modules().get("src/"));
}
