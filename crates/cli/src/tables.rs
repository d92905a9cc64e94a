//! Text tables, and the format of numbers in them.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

/// Returns a table without lines: names to the left, numbers to the right.
pub(crate) fn aligned(header: &[&str]) -> Table {
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

/// Writes a table without spaces at the ends of lines.
pub(crate) fn write_table(table: &Table, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    table.lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
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

/// Returns a share in percent with two decimals. It is never 0 % if the part is above zero, and never 100 % if the part
/// is less than the whole.
pub(crate) fn share(part: u64, whole: u64) -> String {
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
