//! The texts of headers: a fixed prefix and two figures.
//!
//! A text is written from its end to its beginning. So the length of a figure need not be known in advance, and each
//! byte is written to its final place. A response takes the text in one allocation.

use http::HeaderValue;

use crate::name::NAME_MAX;

/// The largest Integer of structured fields: 15 digits (RFC 9651, 3.3.1).
pub(super) const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The longest member of `RateLimit`: a name in which every character is escaped, its quotes, and two parameters of 3
/// + 15 characters.
pub(super) const MEMBER_MAX: usize = 2 * NAME_MAX + 2 + 2 * 18;

/// Most texts fit into this; a shorter buffer is faster to initialise.
const SHORT: usize = 64;
/// The longest rest after the prefix: two figures and the text between them.
const REST_MAX: usize = 15 + 8 + 15;

/// Writes a prefix, a figure, a text in between, and a second figure. Figures are capped at 15 digits. `None` only if
/// the prefix is not valid in a header, or is longer than that of any member.
#[inline]
pub(super) fn two_figures(
    opening: &str,
    first: u64,
    between: &str,
    second: u64,
) -> Option<HeaderValue> {
    if opening.len() <= SHORT - REST_MAX {
        written::<SHORT>(opening, first, between, second)
    } else {
        written::<MEMBER_MAX>(opening, first, between, second)
    }
}

#[inline]
fn written<const ROOM: usize>(
    opening: &str,
    first: u64,
    between: &str,
    second: u64,
) -> Option<HeaderValue> {
    let mut bytes = [0; ROOM];
    let room = digits(&mut bytes, second)?;
    let room = before(room, between)?;
    let room = digits(room, first)?;
    let start = before(room, opening)?.len();
    HeaderValue::from_bytes(&bytes[start..]).ok()
}

/// Copies a text to the end of `room`, and returns the room that is left before it.
#[inline]
fn before<'r>(room: &'r mut [u8], text: &str) -> Option<&'r mut [u8]> {
    let (left, place) = room.split_at_mut_checked(room.len().checked_sub(text.len())?)?;
    place.copy_from_slice(text.as_bytes());
    Some(left)
}

/// Writes the digits of a figure to the end of `room`, and returns the room that is left before them.
#[inline]
fn digits(room: &mut [u8], figure: u64) -> Option<&mut [u8]> {
    let mut rest = figure.min(INTEGER_MAX);
    let mut start = room.len();
    loop {
        start = start.checked_sub(1)?;
        *room.get_mut(start)? = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return room.get_mut(..start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(opening: &str, first: u64, second: u64) -> Option<String> {
        let value = two_figures(opening, first, ";t=", second)?;
        Some(value.to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn figures_stand_where_they_belong() {
        assert_eq!(text("\"a\";r=", 58, 2).as_deref(), Some("\"a\";r=58;t=2"));
        assert_eq!(text("", 0, 0).as_deref(), Some("0;t=0"));
        for figure in [9, 10, 11, 99, 100, 12_345, 999_999, 1_000_000, INTEGER_MAX] {
            assert_eq!(text("r=", figure, 7), Some(format!("r={figure};t=7")));
            assert_eq!(text("r=", 7, figure), Some(format!("r=7;t={figure}")));
        }
    }

    #[test]
    fn no_figure_has_more_than_15_digits() {
        let most = "999999999999999";
        assert_eq!(text("r=", INTEGER_MAX + 1, u64::MAX), Some(format!("r={most};t={most}")));
    }

    #[test]
    fn openings_of_every_length_that_there_is_fit() {
        // The prefix has each length up to that of the longest member.
        for length in 0..=MEMBER_MAX - 15 - 3 - 15 {
            let opening = "x".repeat(length);
            let full = format!("{opening}{INTEGER_MAX};t={INTEGER_MAX}");
            assert_eq!(text(&opening, u64::MAX, u64::MAX), Some(full));
        }
        assert_eq!(text(&"x".repeat(MEMBER_MAX), 1, 1), None);
    }

    #[test]
    fn what_no_header_holds_is_no_value() {
        assert_eq!(text("evil\r\n", 1, 1), None);
    }
}
