//! A share of the keys, as `99.9%`.

use std::fmt;
use std::str::FromStr;

/// The number of units in 100 %: a share has four decimals.
const PARTS: u64 = 1_000_000;

/// A share above 0 % and of at most 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyShare {
    parts: u64,
}

/// An invalid share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoShare;

impl fmt::Display for NoShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a share of the keys such as 99.9%, above 0% and at most 100%, with at most four digits behind the point")
    }
}

impl std::error::Error for NoShare {}

impl FromStr for KeyShare {
    type Err = NoShare;

    fn from_str(text: &str) -> Result<Self, NoShare> {
        let digits = text.trim().strip_suffix('%').ok_or(NoShare)?.trim_end();
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let number = |part: &str| {
            let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if is_number { part.parse::<u64>().map_err(|_| NoShare) } else { Err(NoShare) }
        };
        if fraction.len() > 4 {
            return Err(NoShare);
        }
        let parts = number(whole)?
            .checked_mul(10_000)
            .and_then(|parts| parts.checked_add(number(&format!("{fraction:0<4}")).ok()?))
            .filter(|parts| (1..=PARTS).contains(parts))
            .ok_or(NoShare)?;
        number(fraction)?;
        Ok(Self { parts })
    }
}

impl fmt::Display for KeyShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.parts / 10_000, self.parts % 10_000);
        let fraction = format!("{fraction:04}");
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{whole} %"),
            fraction => write!(f, "{whole}.{fraction} %"),
        }
    }
}

impl KeyShare {
    /// Returns how many of `keys` keys may be outside of the share. The number is rounded down, so that the share is
    /// never smaller than requested.
    pub(crate) fn others(self, keys: u64) -> u64 {
        let others = u128::from(keys) * u128::from(PARTS - self.parts) / u128::from(PARTS);
        u64::try_from(others).unwrap_or(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_exactly() {
        for (text, shown, others) in [
            ("99.9%", "99.9 %", 1),
            ("100%", "100 %", 0),
            ("99 %", "99 %", 17),
            ("0.0001%", "0.0001 %", 1_752),
            ("99.99%", "99.99 %", 0),
            (" 050.0% ", "50 %", 876),
        ] {
            let share: KeyShare = text.parse().expect("a share");
            assert_eq!(
                (share.to_string().as_str(), share.others(1_753)),
                (shown, others),
                "{text}"
            );
        }
        let share: KeyShare = "50%".parse().expect("a share");
        assert_eq!(share.others(u64::MAX), u64::MAX / 2);
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for text in [
            "",
            "%",
            "99.9",
            "0%",
            "0.00001%",
            "100.1%",
            "-1%",
            "1e1%",
            "99.%",
            ".5%",
            "99,9%",
            "+5%",
            "18446744073709551616%",
            "٩٩%",
        ] {
            assert_eq!(text.parse::<KeyShare>(), Err(NoShare), "{text:?}");
        }
    }
}
