//! The pages of the repository, and their contents.

#![allow(dead_code)] // each test file uses only a part

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Asserts that a page of the repository is what a test has made. With `TOLLGATE_BLESS` in the environment the test
/// writes the page instead.
#[track_caller]
pub(crate) fn assert_page(path: &str, made: &str) {
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        fs::write(root().join(path), made).expect("a page of the repository");
    }
    assert!(
        read(path) == made,
        "{path} is old: run this test with TOLLGATE_BLESS=1, which writes it"
    );
}

/// Does the same as [`assert_page`] for the part of a page between two texts.
#[track_caller]
pub(crate) fn assert_part(path: &str, open: &str, close: &str, made: &str) {
    let page = read(path);
    let (before, rest) = page.split_once(open).expect("the beginning of the part");
    let (_, after) = rest.split_once(close).expect("the end of the part");
    assert_page(path, &format!("{before}{open}{made}{close}{after}"));
}

/// Returns the parts of a page between these two texts.
pub(crate) fn between<'p>(page: &'p str, open: &str, close: &str) -> Vec<&'p str> {
    page.split(open)
        .skip(1)
        .filter_map(|rest| rest.split_once(close))
        .map(|(inner, _)| inner)
        .collect()
}

/// Returns each block of shell commands, and the block of output that follows it.
pub(crate) fn shell_blocks(page: &str) -> Vec<(&str, Option<&str>)> {
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split_once("```").expect("a block ends"));
    blocks.map(|(block, after)| (block, text_block(after.trim_start()))).collect()
}

/// Returns the content of a text block at the beginning of this text.
fn text_block(page: &str) -> Option<&str> {
    let (text, _) = page.strip_prefix("```text\n")?.split_once("```")?;
    Some(text)
}

/// Returns the words of a command as a shell would split it: quotes protect spaces, and no other character is special.
pub(crate) fn words(command: &str) -> Vec<String> {
    let pieces = command.split('"').enumerate();
    pieces
        .flat_map(|(n, piece)| match n % 2 {
            0 => piece.split_whitespace().map(str::to_owned).collect(),
            _ => vec![piece.to_owned()],
        })
        .collect()
}
