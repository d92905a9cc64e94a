//! What comments and pages say: words, and phrases of several.

use std::collections::BTreeSet;

use crate::report::Offender;
use crate::source::RustFile;

/// A word in lower case, and its line.
type SaidWord = (String, usize);

/// Lines of comments, documentation among them, that say one of these.
pub(crate) fn in_comments(file: &RustFile, banned: &[String]) -> Vec<Offender> {
    let lines = file.comments.iter().map(|comment| (comment.line, comment.text.as_str()));
    let said = said(&words_of(lines), banned);
    said.into_iter().map(|line| file.offender(line, file.line(line).trim())).collect()
}

/// Lines of a page of Markdown that say one of these.
pub(crate) fn on_page(path: &str, text: &str, banned: &[String]) -> Vec<Offender> {
    let lines: Vec<&str> = text.lines().collect();
    let numbered = lines.iter().enumerate().map(|(index, &line)| (index + 1, line));
    let said = said(&words_of(numbered), banned).into_iter();
    said.map(|line| Offender {
        path: path.to_owned(),
        line,
        what: lines[line - 1].trim().to_owned(),
    })
    .collect()
}

/// Code is left out: between backticks, and in a fenced block all but its comments.
fn words_of<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<SaidWord> {
    let mut words = Vec::new();
    let mut in_fence = false;
    for (line, text) in lines {
        if text.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        let text = match in_fence {
            false => text,
            true => text
                .split_once("// ")
                .or_else(|| text.split_once("# "))
                .map_or("", |(_, said)| said),
        };
        let prose = text.split('`').step_by(2);
        words.extend(prose.flat_map(split).map(|word| (word, line)));
    }
    words
}

/// Whether a text, code within it or not, has one of these.
pub(crate) fn says_any(text: &str, phrases: &[String]) -> bool {
    !said(&split(text).map(|word| (word, 1)).collect::<Vec<_>>(), phrases).is_empty()
}

fn split(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// The lines on which one of these words or phrases begins. A phrase may go over the end of a line.
fn said(words: &[SaidWord], banned: &[String]) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    for phrase in banned {
        let parts: Vec<String> = phrase.split(' ').map(str::to_lowercase).collect();
        let found =
            words.windows(parts.len()).filter(|at| at.iter().map(|(word, _)| word).eq(&parts));
        lines.extend(found.map(|at| at[0].1));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{file, lines, words};

    #[test]
    fn words_are_found_in_comments_and_not_in_code() {
        let file = file(
            "/// Who asks is told.\nfn who() {\n    // a whole word: whose, `who`\n\
             let he = \"who\"; // he's there\n}\n",
        );
        let found = in_comments(&file, &words(&["who", "he"]));
        assert_eq!(lines(&found), ["a.rs:1", "a.rs:4"]);
        assert_eq!(found[0].what, "/// Who asks is told.");
    }

    #[test]
    fn a_phrase_goes_over_the_end_of_a_line() {
        let file =
            file("// The exchange that\n// replaces the word.\n// An exchange replaces that.\n");
        assert_eq!(lines(&in_comments(&file, &words(&["exchange that replaces"]))), ["a.rs:1"]);
    }

    #[test]
    fn pages_are_read_without_their_code_but_with_its_comments() {
        let page = "For who asks.\n```rust\nlet who = 1; // who knows\nlet who = 2;\n```\n`who` is code.\n";
        let found = on_page("page.md", page, &words(&["who"]));
        assert_eq!(lines(&found), ["page.md:1", "page.md:3"]);
    }
}
