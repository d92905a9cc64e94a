//! The difference as text: both sets side by side, then the rules, keys and requests that differ.

use std::fmt;

use super::{Diff, DiffChange, Moved};
use crate::replay::text;
use crate::tables::{aligned, grouped, share, write_table};

/// Longer keys are cut: a key may be a whole `User-Agent` header, and such keys would push the numbers off the screen.
const KEY_CHARS: usize = 60;

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.log)?;
        writeln!(f, "domain {}\n", self.domain.escape_debug())?;
        let mut table = aligned(&["", "requests", "admitted", "refused", "share refused"]);
        for (name, side) in [("old", &self.old), ("new", &self.new)] {
            table.add_row([
                name.to_owned(),
                grouped(side.requests),
                grouped(side.admitted),
                grouped(side.refused),
                share(side.refused, side.requests),
            ]);
        }
        write_table(&table, f)?;
        write_rules(self, f)?;
        if !self.is_different() {
            return writeln!(f, "\nno request is answered otherwise");
        }
        let moved = |moved: &Moved| {
            format!("{} requests, of keys: {}", grouped(moved.requests), grouped(moved.keys))
        };
        writeln!(f, "\nnewly refused: {}", moved(&self.newly_refused))?;
        writeln!(f, "newly admitted: {}", moved(&self.newly_admitted))?;
        write_keys(self, f)?;
        write_requests(self, f)
    }
}

fn write_rules(diff: &Diff, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if diff.rules.is_empty() {
        return writeln!(f, "\nthe rules say the same");
    }
    writeln!(f, "\nrules that differ\n")?;
    for rule in &diff.rules {
        let none = "not there".to_owned();
        let (old, new) = (rule.old.as_ref().unwrap_or(&none), rule.new.as_ref().unwrap_or(&none));
        write!(f, "{}: ", rule.rule.escape_debug())?;
        if old == new {
            writeln!(f, "{old}")?;
        } else {
            writeln!(f, "{old} -> {new}")?;
        }
        writeln!(
            f,
            "  refuses {} -> {}: {} newly refused, {} newly admitted",
            grouped(rule.refused_by_old),
            grouped(rule.refused_by_new),
            grouped(rule.newly_refused),
            grouped(rule.newly_admitted)
        )?;
    }
    Ok(())
}

fn write_keys(diff: &Diff, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\nmost changed keys\n")?;
    let mut table = aligned(&["key", "newly refused", "newly admitted"]);
    for key in &diff.keys {
        table.add_row([
            text::shortened(&key.raw, KEY_CHARS),
            grouped(key.newly_refused),
            grouped(key.newly_admitted),
        ]);
    }
    write_table(&table, f)
}

fn write_requests(diff: &Diff, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\nfirst changed requests\n")?;
    for request in &diff.requests {
        let how = match request.is {
            DiffChange::NewlyRefused => "newly refused ",
            DiffChange::NewlyAdmitted => "newly admitted",
        };
        writeln!(f, "{}  {how}  {}", request.time, text::shortened(&request.raw, KEY_CHARS))?;
    }
    Ok(())
}
