//! The pages of the repository: their links lead somewhere, what they name is there, and the commands they
//! show run. (Their Rust snippets are compiled and run as tests of the documentation.)

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::Scratch;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page: those at the root, and those of the directories that have some.
fn pages() -> Vec<String> {
    let in_directory = |directory: &str| {
        let entries = fs::read_dir(root().join(directory)).expect("a directory of the repository");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.into_string().expect("a name in ASCII"));
        let pages = names.filter(|name| name.ends_with(".md"));
        pages.map(|name| Path::new(directory).join(name).display().to_string()).collect::<Vec<_>>()
    };
    let mut pages: Vec<_> =
        ["", "docs", "benches", "fuzz"].into_iter().flat_map(in_directory).collect();
    pages.sort();
    pages
}

/// What stands between two texts.
fn between<'p>(page: &'p str, open: &str, close: &str) -> Vec<&'p str> {
    page.split(open)
        .skip(1)
        .filter_map(|rest| rest.split_once(close))
        .map(|(inner, _)| inner)
        .collect()
}

/// The code spans of a line: every second piece between backquotes.
fn code_spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_link_within_the_repository_leads_to_a_file() {
    let mut links = 0;
    for page in pages() {
        let text = read(&page);
        let directory = Path::new(&page).parent().expect("a page is in a directory");
        for link in between(&text, "](", ")") {
            if link.contains("://") || link.starts_with('#') {
                continue;
            }
            let file = link.split('#').next().unwrap_or_default();
            assert!(root().join(directory).join(file).exists(), "{page}: ({link}) leads nowhere");
            links += 1;
        }
    }
    assert!(links >= 6, "{links} links");
}

/// Each row of the page says which test holds a promise: a file, and then the tests in it.
#[test]
fn every_name_among_the_promises_is_there() {
    let page = read("docs/promises.md");
    let (mut files, mut names) = (BTreeSet::new(), 0);
    for line in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Promise"))
    {
        let cells: Vec<&str> = line.split(" | ").collect();
        let mut source = String::new();
        for span in cells[1..].iter().flat_map(|cell| code_spans(cell)) {
            if span.contains('/') {
                source = read(span);
                files.insert(span);
            } else if span == "retry_after" {
                panic!("a promise is no name of a test: {line}");
            } else {
                let is_test = source.contains(&format!("fn {span}("))
                    || source.contains(&format!("\"{span}\""));
                assert!(is_test, "{span} is not where {line} says");
                names += 1;
            }
        }
        assert!(!cells[1].trim().is_empty(), "nothing holds {line}");
    }
    assert!(files.len() >= 30 && names >= 80, "{} files, {names} names", files.len());
}

/// Paths in code spans, of the pages that say what is where.
#[test]
fn every_path_on_the_maps_is_there() {
    let is_path = |span: &str| {
        let first = span.split('/').next().unwrap_or_default();
        let ours = ["src", "crates", "tests", "docs", "benches", "fuzz", "loom-tests", ".ci"];
        span.contains('/') && ours.contains(&first) && !span.contains([' ', '*', '<'])
    };
    let mut paths = 0;
    for page in
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "README.md", "docs/how-it-works.md"]
    {
        let text = read(page);
        for span in text.lines().flat_map(code_spans).filter(|span| is_path(span)) {
            assert!(root().join(span).exists(), "{page}: `{span}` is not there");
            paths += 1;
        }
    }
    assert!(paths >= 40, "{paths} paths");
}

/// The words of a command as a shell would take them: quotes hold spaces, and nothing else is special.
fn words(command: &str) -> Vec<String> {
    let pieces = command.split('"').enumerate();
    pieces
        .flat_map(|(n, piece)| match n % 2 {
            0 => piece.split_whitespace().map(str::to_owned).collect(),
            _ => vec![piece.to_owned()],
        })
        .collect()
}

#[test]
fn every_command_of_a_page_runs() {
    let scratch = Scratch::new("commands_of_pages");
    scratch.file("access.log", read("examples/access.log"));
    let (mut commands, mut pictures) = (0, 0);
    for page in pages() {
        let text = read(&page);
        let blocks = between(&text, "```sh\n", "```");
        for command in blocks.iter().flat_map(|block| block.lines()) {
            let Some(command) = command.strip_prefix("tollgate ") else { continue };
            let words = words(command);
            let run = scratch.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{page}: {command}");
            commands += 1;
            // What a page says that a command draws is what is committed.
            let drawn = words.iter().skip_while(|word| *word != "--svg").nth(1);
            let committed = drawn.map(|name| root().join("docs/pictures").join(name));
            if let Some(committed) = committed.and_then(|path| fs::read_to_string(path).ok()) {
                let is_same = drawn.is_some_and(|name| scratch.read(name) == committed);
                assert!(is_same, "{page}: draw it again and look at it: {command}");
                pictures += 1;
            }
        }
    }
    assert_eq!(pictures, fs::read_dir(root().join("docs/pictures")).expect("pictures").count());
    assert!(commands >= 4, "{commands} commands");
}

#[test]
fn the_pages_of_the_guide_are_those_that_the_library_shows() {
    let shown: Vec<String> = [read("src/guide.rs"), read("src/which_algorithm.rs")]
        .concat()
        .split("include_str!(\"../")
        .skip(1)
        .filter_map(|rest| rest.split_once('"'))
        .map(|(path, _)| path.to_owned())
        .collect();
    for page in pages().iter().filter(|page| page.starts_with("docs/")) {
        let has_snippets = read(page).contains("```rust");
        assert_eq!(shown.contains(page), has_snippets, "{page}");
    }
    let manifest = read("Cargo.toml");
    for page in &shown {
        assert!(manifest.contains(&format!("\"{page}\"")), "{page} is not packaged");
    }
}
