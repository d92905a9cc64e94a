//! Appends answers to the answers that wait to be sent.

use std::fmt::Display;
use std::io::Write;

pub(super) fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// An error begins with its kind, usually `ERR`. Its text must not contain a line break.
pub(super) fn error(out: &mut Vec<u8>, kind: &str, reason: impl Display) {
    // Writing to memory does not fail.
    let _ = write!(out, "-{kind} {reason}\r\n");
}

pub(super) fn integer(out: &mut Vec<u8>, number: i64) {
    number_after(out, b':', number);
}

pub(super) fn array(out: &mut Vec<u8>, length: i64) {
    number_after(out, b'*', length);
}

/// The head of a map with this many pairs. RESP2 has no maps, so there it is the head of an array of twice as many
/// elements.
pub(super) fn map(out: &mut Vec<u8>, pairs: i64, is_resp3: bool) {
    if is_resp3 { number_after(out, b'%', pairs) } else { array(out, 2 * pairs) }
}

pub(super) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    number_after(out, b'$', i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn number_after(out: &mut Vec<u8>, sign: u8, number: i64) {
    out.push(sign);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}
