//! The report as text: a line about the log, a row per policy, and the worst keys of each.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use super::{PolicyReport, Report};
use crate::replay::parse::wait;
use crate::replay::text;

/// Keys are cut here: a user agent would push the numbers off the screen.
const KEY_CHARS: usize = 60;

pub(super) fn write(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} lines, {} bad", grouped(report.lines), grouped(report.bad_lines))?;
    if let Some(late) = report.late_lines {
        write!(f, ", {} late", grouped(late))?;
    }
    writeln!(f, ", {} to {}\n", report.first, report.last)?;
    let mut table = aligned(&[
        "policy",
        "requests",
        "admitted",
        "refused",
        "share refused",
        "keys",
        "keys refused",
        "longest wait",
        "peak admitted/s",
    ]);
    for policy in &report.policies {
        table.add_row([
            policy.policy.clone(),
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
    write_table(&table, f)?;
    report.policies.iter().try_for_each(|policy| write_worst(policy, f))
}

fn write_worst(policy: &PolicyReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if policy.worst.is_empty() {
        return writeln!(f, "\n{}: nothing refused", policy.policy);
    }
    writeln!(f, "\nmost refused by {}\n", policy.policy)?;
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

/// A table without lines: names to the left, numbers to the right.
fn aligned(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding(if index == 0 { (0, 1) } else { (1, 1) });
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn write_table(table: &Table, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    table.lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A share in hundredths of a percent. One refusal in a million is not none, and all but one is not
/// all, so neither end is reached by rounding.
fn share(part: u64, whole: u64) -> String {
    let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
    let hundredths = (part * 10_000 + whole / 2) / whole;
    let low = u128::from(part > 0);
    let high = 10_000 - u128::from(part < whole);
    let hundredths = hundredths.clamp(low, high);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_share_is_none_or_all_only_if_it_is() {
        for (part, whole, text) in [
            (0, 9, "0.00 %"),
            (1, 1_000_000, "0.01 %"),
            (1, 3, "33.33 %"),
            (2, 3, "66.67 %"),
            (999_999, 1_000_000, "99.99 %"),
            (7, 7, "100.00 %"),
        ] {
            assert_eq!(share(part, whole), text);
        }
    }
}
