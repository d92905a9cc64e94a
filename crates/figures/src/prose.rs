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
    let (mut words, mut paragraph): (_, Vec<(usize, &str)>) = (Vec::new(), Vec::new());
    let mut in_fence = false;
    for (line, text) in lines {
        let is_fence = text.trim_start().starts_with("```");
        let is_next = paragraph.last().is_some_and(|&(last, _)| last + 1 == line);
        if is_fence || in_fence || !is_next || text.trim().is_empty() {
            words_of_paragraph(&mut paragraph, &mut words);
        }
        match text {
            _ if is_fence => in_fence = !in_fence,
            _ if in_fence => {
                let comment = text.split_once("// ").or_else(|| text.split_once("# "));
                paragraph.extend(comment.map(|(_, said)| (line, said)));
            }
            _ => paragraph.push((line, text)),
        }
    }
    words_of_paragraph(&mut paragraph, &mut words);
    words
}

/// The words outside of code spans, which may go over the end of a line. Backticks that are not closed are text.
fn words_of_paragraph(paragraph: &mut Vec<(usize, &str)>, words: &mut Vec<SaidWord>) {
    let is_ticks = |text: &str| text.starts_with('`');
    let mut parts: Vec<(usize, &str)> = Vec::new();
    for (line, mut rest) in paragraph.drain(..) {
        while !rest.is_empty() {
            let ticks = is_ticks(rest);
            let end = rest.find(|letter| (letter == '`') != ticks).unwrap_or(rest.len());
            parts.push((line, &rest[..end]));
            rest = &rest[end..];
        }
    }
    let mut at = 0;
    while let Some(&(line, part)) = parts.get(at) {
        at += 1;
        if is_ticks(part) {
            // The same run again closes the span.
            let closed = parts[at..].iter().position(|(_, other)| *other == part);
            at += closed.map_or(0, |ahead| ahead + 1);
        } else {
            words.extend(split(part).map(|word| (word, line)));
        }
    }
}

/// The lines of a text, code within it or not, on which one of these begins.
pub(crate) fn lines_saying<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    phrases: &[String],
) -> BTreeSet<usize> {
    let words = lines.flat_map(|(line, text)| split(text).map(move |word| (word, line)));
    said(&words.collect::<Vec<_>>(), phrases)
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
    fn a_code_span_goes_over_the_end_of_a_line_and_not_of_a_paragraph() {
        let page = "So `he\nasks who` is code, and who\nsays ``a ` who`` too.\n";
        assert_eq!(lines(&on_page("page.md", page, &words(&["who", "he"]))), ["page.md:2"]);
        let open = "A ` that is not closed, by who\n\never, `asks`.\n";
        assert_eq!(lines(&on_page("page.md", open, &words(&["who"]))), ["page.md:1"]);
        let file = file("// One `\nfn f() {}\n// who says `.\n");
        assert_eq!(lines(&in_comments(&file, &words(&["who"]))), ["a.rs:3"]);
    }

    #[test]
    fn pages_are_read_without_their_code_but_with_its_comments() {
        let page = "For who asks.\n```rust\nlet who = 1; // who knows\nlet who = 2;\n```\n`who` is code.\n";
        let found = on_page("page.md", page, &words(&["who"]));
        assert_eq!(lines(&found), ["page.md:1", "page.md:3"]);
    }
}
