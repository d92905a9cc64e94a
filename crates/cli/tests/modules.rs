//! ARCHITECTURE.md names every module, by its folder, and the files of a decision.

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

/// A section of a page, without its head.
fn section<'a>(page: &'a str, head: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {head}\n")).expect(head);
    rest.split("\n## ").next().unwrap_or_default()
}

/// What stands between backticks.
fn spans(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The modules that a page names in its table of them.
fn named_on(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let rows = section(page, "Every module, by folder").lines();
    let rows = rows.filter(|line| line.starts_with("| `"));
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

/// The files that a walk enters, in their order.
fn files_of(walk: &str) -> Vec<String> {
    spans(walk).into_iter().filter(|span| span.starts_with("src/")).collect()
}

/// Files that a walk names and that are not there, or are named twice.
fn astray(walk: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let files = files_of(walk).into_iter();
    files.filter(|file| !seen.insert(file.clone()) || !root().join(file).is_file()).collect()
}

#[test]
fn a_walk_of_check_names_files_that_are_there_and_each_once() {
    let page = read("ARCHITECTURE.md");
    let walks = section(&page, "A walk of `check`");
    assert_eq!(astray(walks), [""; 0]);
    let (hit, new) = walks.split_once("**A new key**").expect("two walks");
    for (walk, entered) in [(hit, "src/keyed/mod.rs"), (new, "src/keyed/install.rs")] {
        assert!(files_of(walk).contains(&entered.to_owned()), "{walk}");
    }
    assert_eq!(
        astray("`src/gone.rs`, `src/word.rs`, `src/word.rs`"),
        ["src/gone.rs", "src/word.rs"]
    );
}

#[test]
fn a_module_that_is_not_named_is_seen() {
    let page = read("ARCHITECTURE.md").replace("`limiter`, ", "");
    assert_ne!(named_on(&page).get("src/"), modules().get("src/"));
}
