//! Cells that are proven by other tests, and tables of them.

use std::fs;
use std::path::Path;

/// The state of a feature at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// It works, and the test of this page shows it.
    Done,
    /// It works, and the test of this name in this file shows it.
    Test(&'static str, &'static str),
    /// It is refused, for this reason.
    Never(&'static str),
    /// It would have no meaning there, for this reason.
    NoMeaning(&'static str),
}

use Elsewhere::{Done, Never, NoMeaning, Test};

impl Elsewhere {
    /// Returns a description of the missing test, if this names a test that does not exist.
    pub(crate) fn missing(self) -> Option<String> {
        let Test(file, test) = self else { return None };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let Ok(text) = fs::read_to_string(path) else { return Some(format!("no file {file}")) };
        let is_there = text.contains(&format!("fn {test}("));
        (!is_there).then(|| format!("{file} has no test {test}"))
    }
}

/// A row of a table: its name, and a cell for each column.
pub(crate) struct CellRow {
    pub(crate) name: &'static str,
    pub(crate) cells: Vec<Elsewhere>,
}

/// Tables that share their reasons and the list of their tests.
#[derive(Default)]
pub(crate) struct Tables {
    reasons: Vec<&'static str>,
    tests: Vec<String>,
}

impl Tables {
    /// Makes a table. All tests that its cells name must exist.
    pub(crate) fn add(&mut self, columns: &[&'static str], rows: &[CellRow]) -> String {
        let mut table = format!("| | {} |\n", columns.join(" | "));
        table += &format!("|---|{}\n", ":-:|".repeat(columns.len()));
        let mut everywhere = Vec::new();
        for row in rows {
            assert_eq!(row.cells.len(), columns.len(), "{}", row.name);
            let named = columns.iter().zip(&row.cells);
            let shown: Vec<_> = named.map(|(place, cell)| self.cell(row, place, *cell)).collect();
            if shown.iter().all(|word| word == "yes") {
                everywhere.push(format!("*{}*", row.name));
                continue;
            }
            table += &format!("| {} | {} |\n", row.name, shown.join(" | "));
        }
        let everywhere = format!("All of these places also have {}.", everywhere.join(", "));
        table + "\n" + &wrapped("*", " ", &everywhere)
    }

    fn cell(&mut self, row: &CellRow, place: &str, cell: Elsewhere) -> String {
        assert_eq!(cell.missing(), None, "{} of {place}", row.name);
        let why = match cell {
            Done => return "yes".to_owned(),
            Test(file, test) => {
                self.tests.push(format!("| {} | {place} | `{file}` `{test}` |\n", row.name));
                return "yes".to_owned();
            }
            NoMeaning(why) => {
                self.tests.push(format!("| {} | {place} | – {why} |\n", row.name));
                return "–".to_owned();
            }
            Never(why) => why,
        };
        let known = self.reasons.iter().position(|known| *known == why);
        let at = known.unwrap_or_else(|| {
            self.reasons.push(why);
            self.reasons.len() - 1
        });
        format!("never {}", letters(at))
    }

    /// Returns the reasons for refusals, each behind its letters.
    pub(crate) fn reasons(&self) -> String {
        let reason = |(n, why): (usize, &&str)| wrapped(&format!("* **{}**", letters(n)), " ", why);
        self.reasons.iter().enumerate().map(reason).collect()
    }

    /// Returns the tests that the cells name, and the reasons why cells have no meaning.
    pub(crate) fn tests(&self) -> String {
        format!("| | at | test |\n|---|---|---|\n{}", self.tests.concat())
    }
}

/// a, b, .. z, aa, ab ..
pub(crate) fn letters(n: usize) -> String {
    let letter = |n: usize| char::from(b'a' + u8::try_from(n).unwrap());
    if n < 26 {
        return letter(n).into();
    }
    [letter(n / 26 - 1), letter(n % 26)].into_iter().collect()
}

/// Returns the text behind its mark, in lines of 120 characters at most, each but the first behind an indent.
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
