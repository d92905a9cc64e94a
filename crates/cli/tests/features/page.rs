//! The page.

use crate::ask::{Answers, Asked, Row};
use crate::reasons::{Refusal, reason};

/// What a cell shows: nothing but that it works, or the error and why.
pub(crate) struct Cell {
    place: &'static str,
    refusal: Option<(String, Refusal)>,
}

impl Cell {
    pub(crate) fn of(row: &Row, asked: Asked) -> Self {
        let compared = Self::compare(row, asked.place, asked.answers, &asked.reference);
        compared.unwrap_or_else(|difference| panic!("{difference}"))
    }

    pub(crate) fn compare(
        row: &Row,
        place: &'static str,
        answers: Answers,
        reference: &[bool],
    ) -> Result<Self, String> {
        match answers {
            Ok(answers) if answers == reference => Ok(Self { place, refusal: None }),
            Ok(answers) => Err(format!(
                "{}, {place}: {answers:?}, but a Limiter says {reference:?}",
                row.policy
            )),
            Err(error) => match reason(row.policy, place) {
                Some(reason) => Ok(Self { place, refusal: Some((error, reason)) }),
                None => Err(format!("{}, {place} refuses without a reason: {error}", row.policy)),
            },
        }
    }
}

const HEAD: &str = "\
# Features, and where they work

Each policy decided the same requests at each place, and each answer was that of a `Limiter`: 32 requests in five
minutes, with pauses, rows of denials and a last burst; over Redis, whose clock is the server's, nine of one to three
units at one instant. A test makes this page (`crates/cli/tests/features`), and fails where it differs. What the
service answers is decided by the rules.

A policy that a place cannot keep is refused with a typed error when the limit is built, never kept in part. *never*
is followed by the number of the argument, *not yet* by that of what is missing.

";

const VERBS_HEAD: &str = "\
## Verbs

The first six have every verb, and the test does each of them there.

";

/// The page as one text, with the section of the verbs at its end.
pub(crate) fn page(rows: &[Row], cells: &[Vec<Cell>], verbs: &str) -> String {
    let mut page = HEAD.to_owned();
    let places: Vec<_> = cells[0].iter().map(|cell| cell.place).collect();
    let mut refusals: Vec<(&str, Refusal)> = Vec::new();
    // Two tables: what fits on a screen.
    for (first, last) in [(0, 8), (8, places.len())] {
        let title = if first == 0 { "In the library" } else { "Around it" };
        page += &format!("## {title}\n\n| | {} |\n", places[first..last].join(" | "));
        page += &format!("|---|{}\n", ":-:|".repeat(last - first));
        for (row, cells) in rows.iter().zip(cells) {
            let shown = cells[first..last].iter().map(|cell| shown(cell, &mut refusals));
            page += &format!("| `{}` | {} |\n", row.policy, shown.collect::<Vec<_>>().join(" | "));
        }
        page += "\n";
    }
    page += "## Refusals\n\nEach with the first of its errors.\n\n";
    for (n, (error, refusal)) in refusals.iter().enumerate() {
        let (Refusal::Never(why) | Refusal::NotYet(why)) = refusal;
        page += &wrapped(&format!("{}.", n + 1), "  ", why);
        page += "\n";
        page += &wrapped("   >", "   >", error);
        page += "\n";
    }
    page += VERBS_HEAD;
    page += verbs;
    page.truncate(page.trim_end().len());
    page + "\n"
}

/// What stands in a cell. Refusals for one reason have one number.
fn shown<'a>(cell: &'a Cell, refusals: &mut Vec<(&'a str, Refusal)>) -> String {
    let Some((error, refusal)) = &cell.refusal else { return "yes".to_owned() };
    let known = refusals.iter().position(|(_, known)| known == refusal);
    let at = known.unwrap_or_else(|| {
        refusals.push((error, *refusal));
        refusals.len() - 1
    });
    let word = if matches!(refusal, Refusal::Never(_)) { "never" } else { "not yet" };
    format!("{word} {}", at + 1)
}

/// The text behind its mark, in lines of 120 characters at most, each but the first behind an indent.
pub(crate) fn wrapped(mark: &str, indent: &str, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), mark.to_owned());
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 120 {
            lines += &line;
            lines += "\n";
            indent.clone_into(&mut line);
        }
        line += " ";
        line += word;
    }
    lines + &line + "\n"
}
