//! Small repositories for the tests of the checks.

use crate::report::Offender;
use crate::source::RustFile;
use crate::workspace::Repository;

/// Files by path and text, of which the first is the root of the only target.
pub(crate) fn repository(files: &[(&str, &str)]) -> Repository {
    let owned = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Repository::of(owned, vec![files[0].0.to_owned()]).unwrap()
}

pub(crate) fn file(text: &str) -> RustFile {
    RustFile::parse("a.rs", text).unwrap()
}

/// Places as `path:line`.
pub(crate) fn lines(places: &[Offender]) -> Vec<String> {
    places.iter().map(|place| format!("{}:{}", place.path, place.line)).collect()
}

pub(crate) fn whats(places: &[Offender]) -> Vec<&str> {
    places.iter().map(|place| place.what.as_str()).collect()
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
