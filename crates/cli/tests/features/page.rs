//! Makes the page `docs/features.md`.

use crate::ask::{self, Asked, Row};
use crate::cells::{Tables, wrapped};
use crate::decided::Answers;
use crate::reasons::{Refusal, reason};

/// The content of a cell: that the policy works, or why it does not.
pub(crate) struct Cell {
    place: &'static str,
    refusal: Option<Refusal>,
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
            // A place where requests cannot wait decides as if the policy had no queue.
            Ok(answers) => match reason(row.policy, place) {
                Some(reason @ Refusal::NoMeaning(_)) if answers == Self::at_once(row) => {
                    Ok(Self { place, refusal: Some(reason) })
                }
                _ => Err(format!(
                    "{}, {place}: {answers:?}, but a Limiter says {reference:?}",
                    row.policy
                )),
            },
            Err(error) => match reason(row.policy, place) {
                Some(reason) => Ok(Self { place, refusal: Some(reason) }),
                None => Err(format!("{}, {place} refuses without a reason: {error}", row.policy)),
            },
        }
    }

    /// Returns the answers of a place where nothing can wait.
    fn at_once(row: &Row) -> Vec<bool> {
        ask::reference(ask::without_queue(row.policy))
    }
}

const HEAD: &str = "\
# Features, and where they work

A test writes this page (`crates/cli/tests/features`) and fails if the committed page differs. The service decides by
the rules, so its column is that of the rules.

* *yes*: it works. The test of this page shows it, or names another test that does.
* *never*: it is refused, by a typed error when the limit is built, or because there is no method for it. The number or
  letter leads to the reason.
* *–*: it would have no meaning there. For example, recorded traffic does not say what was given back, and the program
  that has the middleware's limiter calls `reset` itself.

## Policies, and what happens at the limit

Each policy decided the same requests at each place, and each answer was that of a `Limiter`. Redis decides at its
server's time, so all requests came there at one instant. Under policies with a queue, each request asked for a place in
it (by `reserve`, or by a gate that delays). A limit that borrows once it is spent (elastic) is no policy but a verb: see
*or elsewhere*.

";

const VERBS_HEAD: &str = "\
## Verbs

The test of this page did each verb in the first six columns of the first table.

";

const HOLDERS_HEAD: &str = "\
## Kinds of limits

The first table of this page has the kinds of limiters in the library as its columns. Around the library there are:

";

const ARGUMENTS_HEAD: &str = "\
## Reasons

The letters in the tables of verbs and of kinds of limits lead here.

";

/// Returns the page, and the list of the tests that its cells name.
pub(crate) fn page(rows: &[Row], cells: &[Vec<Cell>]) -> (String, String) {
    let mut page = HEAD.to_owned();
    let places: Vec<_> = cells[0].iter().map(|cell| cell.place).collect();
    let mut refusals: Vec<Refusal> = Vec::new();
    // There are two tables, so that each fits on a screen.
    for (first, last) in [(0, 8), (8, places.len())] {
        let title = if first == 0 { "In the library" } else { "Around it" };
        page += &format!("### {title}\n\n| | {} |\n", places[first..last].join(" | "));
        page += &format!("|---|{}\n", ":-:|".repeat(last - first));
        let mut everywhere = Vec::new();
        for (row, cells) in rows.iter().zip(cells) {
            let cells = &cells[first..last];
            if cells.iter().all(|cell| cell.refusal.is_none()) {
                everywhere.push(format!("`{}`", row.policy));
                continue;
            }
            let shown = cells.iter().map(|cell| shown(cell, &mut refusals));
            page += &format!("| `{}` | {} |\n", row.policy, shown.collect::<Vec<_>>().join(" | "));
        }
        let everywhere = match first {
            0 => format!("All of these places also take {}.", everywhere.join(", ")),
            _ => "All of these places also take all other policies of this page.".to_owned(),
        };
        page += &format!("\n{}\n", wrapped("*", " ", &everywhere));
    }
    page += "### Refusals\n\n";
    for (n, refusal) in refusals.iter().enumerate() {
        page += &wrapped(&format!("{}.", n + 1), "  ", refusal.why());
    }
    page += "\n";
    let mut tables = Tables::default();
    page += VERBS_HEAD;
    page += &crate::stores::section(&mut tables);
    page += "\n";
    page += HOLDERS_HEAD;
    page += &crate::holders::section(&mut tables);
    page += "\n";
    page += ARGUMENTS_HEAD;
    page += &tables.reasons();
    (page, tables.tests())
}

/// Returns the text of a cell. Refusals for the same reason have the same number.
fn shown(cell: &Cell, refusals: &mut Vec<Refusal>) -> String {
    let refusal = match &cell.refusal {
        None => return "yes".to_owned(),
        Some(Refusal::NoMeaning(_)) => return "–".to_owned(),
        Some(refusal) => refusal,
    };
    let known = refusals.iter().position(|known| known == refusal);
    let at = known.unwrap_or_else(|| {
        refusals.push(*refusal);
        refusals.len() - 1
    });
    format!("never {}", at + 1)
}
