//! Reads whole numbers of JSON.
//!
//! JSON has one kind of number: 5.0 and 5e0 are 5. Some languages write a whole number so, and JSON Schema calls it an
//! integer.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// A whole number from 0 to 2^64 - 1.
#[derive(Clone, Copy)]
struct Whole(u64);

pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Whole::deserialize(deserializer).map(|Whole(number)| number)
}

/// A number, or null.
pub(super) fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let whole = Option::<Whole>::deserialize(deserializer)?;
    Ok(whole.map(|Whole(number)| number))
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number that is not negative, as in 5")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }

            /// The number is negative: serde_json hands any other to `visit_u64`.
            fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
                Err(E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Whole, E> {
                const BEYOND: f64 = 18_446_744_073_709_551_616.0; // 2^64
                if number.fract() != 0.0 || !(0.0..BEYOND).contains(&number) {
                    return Err(E::invalid_value(Unexpected::Float(number), &self));
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is whole, and of the range"
                )]
                Ok(Whole(number as u64))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_read_in_every_form_and_no_other_number() {
        for (text, expected) in [
            ("0", Some(0)),
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("-0.0", Some(0)),
            ("2e3", Some(2_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1.8446744073709549568e19", Some(18_446_744_073_709_549_568)),
            ("18446744073709551616", None),
            ("1e99", None),
            ("5.5", None),
            ("-1", None),
            ("-1.0", None),
            ("\"5\"", None),
            ("null", None),
        ] {
            let found: Option<Whole> = serde_json::from_str(text).ok();
            assert_eq!(found.map(|Whole(number)| number), expected, "{text}");
        }
    }
}
