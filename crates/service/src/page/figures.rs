//! Formats numbers and names for the page.

use tollgate_rules::Rule;

pub(super) fn name(rule: &Rule) -> String {
    format!("{}.{}", rule.domain().escape_debug(), rule.path().escape_debug())
}

#[expect(clippy::cast_precision_loss, reason = "a share, to be shown")]
pub(super) fn part(of: u64, all: u64) -> f64 {
    if all > 0 { of as f64 / all as f64 } else { 0.0 }
}

/// A rate with few digits: from 1,000 on in thousands (`k`), from 1,000,000 on in millions (`M`).
pub(super) fn rate(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.1} M", v / 1e6),
        v if v >= 1e3 => format!("{:.1} k", v / 1e3),
        v if v >= 10.0 => format!("{v:.0}"),
        v if v > 0.0 => format!("{v:.1}"),
        _ => "0".to_owned(),
    }
}

pub(super) fn share(value: f64) -> String {
    match 100.0 * value {
        percent if percent > 0.0 && percent < 0.1 => "< 0.1 %".to_owned(),
        percent if percent > 0.0 && percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A number with commas between its groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let rates = [0.0, 0.25, 9.99, 10.0, 9_999.0, 12_345.0, 12_345_678.0].map(rate);
        assert_eq!(rates, ["0", "0.2", "10.0", "10", "10.0 k", "12.3 k", "12.3 M"]);
        assert_eq!(
            [0.0, 0.0001, 0.05, 0.5, 1.0].map(share),
            ["0 %", "< 0.1 %", "5.0 %", "50 %", "100 %"]
        );
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
