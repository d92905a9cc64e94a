//! The report as text: a line about the log, a row per policy, and the worst keys of each.

use std::fmt;

use super::{PolicyReport, ReplayReport};
use crate::replay::parse::wait;
use crate::replay::text;
use crate::tables::{aligned, grouped, share, write_table};

/// Longer keys are cut: a key may be a whole `User-Agent` header, and such keys would push the numbers off the screen.
const KEY_CHARS: usize = 60;

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.log)?;
        if let Some(about) = &self.about {
            writeln!(f, "{}", about.in_words())?;
        }
        writeln!(f)?;
        let mut table = aligned(&[
            self.noun(),
            "requests",
            "admitted",
            "refused",
            "share refused",
            "keys",
            "keys refused",
            "longest wait",
            "peak admitted/s",
        ]);
        for policy in self.rows() {
            table.add_row([
                policy.name().to_owned(),
                grouped(policy.requests),
                grouped(policy.admitted),
                grouped(policy.refused),
                share(policy.refused, policy.requests),
                grouped(policy.keys),
                grouped(policy.keys_refused),
                wait(policy.longest_wait),
                grouped(policy.peak_admitted_per_second),
            ]);
        }
        if !self.rows().is_empty() {
            write_table(&table, f)?;
        }
        for policy in self.rows() {
            if let Some(delays) = &policy.delays {
                writeln!(f, "\n{}: {delays}", policy.name())?;
            }
        }
        self.rows().iter().try_for_each(|policy| write_worst(policy, f))?;
        match &self.suggestion {
            Some(suggestion) if self.rows().is_empty() => write!(f, "{suggestion}"),
            Some(suggestion) => write!(f, "\n{suggestion}"),
            None => Ok(()),
        }
    }
}

fn write_worst(policy: &PolicyReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if policy.worst.is_empty() {
        return writeln!(f, "\n{}: nothing refused", policy.name());
    }
    writeln!(f, "\nmost refused by {}\n", policy.name())?;
    let mut table = aligned(&["key", "requests", "refused", "share refused"]);
    for worst in &policy.worst {
        table.add_row([
            text::shortened(&worst.raw, KEY_CHARS),
            grouped(worst.requests),
            grouped(worst.refused),
            share(worst.refused, worst.requests),
        ]);
    }
    write_table(&table, f)
}
