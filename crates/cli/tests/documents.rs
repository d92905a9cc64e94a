//! The pages of the repository: the files that they name exist, and the commands that they show run. (Services and
//! their answers are in `transcripts.rs` and `packaging/minutes`. Rust snippets are compiled and run as doctests. `.ci/book` looks whether links
//! lead somewhere, and whether the index lists every page.)

use std::collections::BTreeSet;
use std::fs;

use crate::common::Scratch;
use crate::pages::{between, read, root, shell_blocks, words};

/// Returns every page that the index lists.
fn pages() -> Vec<String> {
    let index = read("docs/SUMMARY.md");
    let page = |link: &str| match link.strip_prefix("../") {
        Some(page) => page.to_owned(),
        None => format!("docs/{link}"),
    };
    let mut pages: Vec<_> = between(&index, "](", ")").into_iter().map(page).collect();
    pages.sort();
    assert!(pages.iter().any(|page| page == "crates/redis/docs/scale.md"), "{pages:?}");
    pages
}

/// Returns the code spans of a line: every second piece between backquotes.
fn code_spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Paths in code spans exist, on the pages that describe the layout.
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

/// Writes the rule files that a page shows, so that its commands can read them. The first line of each is a comment
/// with its name.
fn write_files(scratch: &Scratch, page: &str) -> usize {
    let blocks = between(page, "```yaml\n# ", "```").into_iter();
    let files: Vec<_> = blocks.filter_map(|block| block.split_once('\n')).collect();
    for (name, content) in &files {
        scratch.file(name.trim(), content);
    }
    files.len()
}

/// Returns the commands of a page. The last command of a block has the output that the page shows.
fn commands(page: &str) -> Vec<(&str, Option<&str>)> {
    let mut commands = Vec::new();
    for (block, printed) in shell_blocks(page) {
        let ours = block.lines().filter_map(|line| line.strip_prefix("tollgate "));
        let is_last = |line: &str| block.trim_end().ends_with(line);
        commands.extend(ours.map(|line| (line, printed.filter(|_| is_last(line)))));
    }
    commands
}

#[test]
fn every_command_of_a_page_runs() {
    let scratch = Scratch::new("commands_of_pages");
    scratch.file("access.log", read("examples/access.log"));
    for example in ["examples/access.log", "examples/rules/shop.yaml"] {
        scratch.file(example, read(example));
    }
    let (mut count, mut pictures, mut files, mut outputs) = (0, 0, 0, 0);
    for page in pages() {
        let text = read(&page);
        files += write_files(&scratch, &text);
        for (command, printed) in commands(&text) {
            let words = words(command);
            let run = scratch.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            // Exit code 1 is right for a command that shows how two sets of rules differ.
            let code = i32::from(words.iter().any(|word| word == "--diff"));
            assert_eq!((run.code, run.err.as_str()), (Some(code), ""), "{page}: {command}");
            if let Some(printed) = printed {
                assert_eq!(run.out, printed, "{page}: {command}");
                outputs += 1;
            }
            count += 1;
            // A picture that a page's command draws equals the committed one.
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
    assert!(count >= 7, "{count} commands");
    assert!(files >= 2 && outputs >= 1, "{files} files, {outputs} outputs");
}

#[test]
fn the_pages_of_the_guide_are_those_that_the_library_shows() {
    let shown_by = |guide: &str| -> Vec<String> {
        let directory = root().join(guide);
        let directory = directory.parent().expect("a file is in a directory");
        // Pages from outside of a package are symbolic links in the package.
        let page = |path: &str| fs::canonicalize(directory.join(path)).expect(path);
        let root = fs::canonicalize(root()).expect("the repository");
        let source = read(guide);
        let shown = between(&source, "include_str!(\"", "\"").into_iter().map(page);
        let shown = shown.map(|path| path.strip_prefix(&root).expect("a page").to_owned());
        shown.map(|path| path.display().to_string()).collect()
    };
    let packaged = shown_by("src/guide.rs");
    let shown = [&packaged[..], &shown_by("crates/tower/src/guide.rs")].concat();
    for page in pages().iter().filter(|page| page.starts_with("docs/")) {
        let has_snippets = read(page).contains("```rust");
        assert_eq!(shown.contains(page), has_snippets, "{page}");
    }
    let manifest = read("Cargo.toml");
    for page in &packaged {
        assert!(manifest.contains(&format!("\"/{page}\"")), "{page} is not packaged");
    }
}

#[test]
fn the_page_of_the_language_of_rules_has_every_key_and_uses_it() {
    let page = read("crates/rules/docs/language.md");
    let example = between(&page, "```yaml\n", "```")[0];
    let mut count = 0;
    for file in ["descriptor", "limit", "pool"] {
        let source = read(&format!("crates/rules/src/language/file/{file}.rs"));
        let keys = between(&source, "const KEYS: &[&str] = &[", "];")[0];
        for key in keys.split('"').skip(1).step_by(2) {
            assert!(page.contains(&format!("\n| `{key}` |")), "{key} has no row");
            assert!(
                example.contains(&format!("{key}: ")) || example.contains(&format!("{key}:\n")),
                "{key}"
            );
            count += 1;
        }
    }
    assert!(count > 35, "{count} keys");
}

/// The program of a server on the library's front page needs another package, so it cannot be compiled there. It has to
/// equal the program in the recipes, which is compiled.
#[test]
fn the_server_on_the_front_page_of_the_library_is_that_of_the_recipes() {
    let front = read("src/lib.rs");
    let lines = between(&front, "//! ```ignore\n", "//! ```")[0].lines();
    let program: Vec<String> = lines.map(|line| line.replacen("//!", "   ", 1)).collect();
    assert!(program.len() >= 5 && read("docs/recipes.md").contains(&program.join("\n")));
}

#[test]
fn the_page_of_log_formats_has_every_name() {
    let page = read("docs/log-formats.md");
    let cells = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('|').nth(1));
    let page: BTreeSet<String> = cells.flat_map(code_spans).map(str::to_owned).collect();
    let scratch = Scratch::new("names_of_formats");
    let told = scratch.replay(&["a.log", "--policy", "1/s", "--format", "no-such-name"]).err;
    let names = between(&told, "or one of ", "\n");
    let names: BTreeSet<String> =
        names.iter().flat_map(|names| names.split(", ")).map(str::to_owned).collect();
    assert_eq!(page, names);
}
