//! Lists of hops, read from the right: `X-Forwarded-For` and `Forwarded` (RFC 7239).
//!
//! Each proxy appends, at the right end, the address from which it was contacted. Elements further left were written by
//! other parties, and the leftmost by the client itself. So no more is read than needed, and an element cannot change
//! the meaning of the elements to its right. For example, a quote that a client leaves open does not hide the address
//! that its proxy has appended.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue, ValueIter};

use super::node;

/// The maximum number of elements, and of bytes, that are read: more hops than any chain of proxies has.
const ELEMENTS_MAX: usize = 64;
const BYTES_MAX: usize = 8 * 1_024;

/// The elements of a list, over all lines of a header, from the right.
pub(super) struct FromRight<'h> {
    lines: ValueIter<'h, HeaderValue>,
    /// The rest of the current line.
    line: Option<&'h [u8]>,
    /// Whether commas in quotes belong to an element.
    quotes: bool,
    elements_left: usize,
    bytes_left: usize,
}

impl<'h> FromRight<'h> {
    pub(super) fn new(headers: &'h HeaderMap, name: &HeaderName, quotes: bool) -> Self {
        let mut lines = headers.get_all(name).iter();
        let line = lines.next_back().map(HeaderValue::as_bytes);
        let (elements_left, bytes_left) = (ELEMENTS_MAX, BYTES_MAX);
        Self { lines, line, quotes, elements_left, bytes_left }
    }

    /// The index at which the last element of a line begins. `None` if it does not begin within the bytes that may
    /// still be read, or if a quote is still open at the beginning of the line.
    fn start_of_last(&self, line: &[u8]) -> Option<usize> {
        let mut quoted = false;
        for (back, &byte) in line.iter().rev().take(self.bytes_left).enumerate() {
            let at = line.len() - 1 - back;
            match byte {
                b',' if !quoted => return Some(at + 1),
                b'"' if self.quotes && !is_escaped(line, at) => quoted = !quoted,
                _ => {}
            }
        }
        (!quoted && line.len() <= self.bytes_left).then_some(0)
    }
}

/// Whether an odd number of backslashes stands before this byte. At most `RUN_MAX` of them are counted, so that a
/// header of nothing but backslashes and quotes takes no longer than others.
fn is_escaped(line: &[u8], at: usize) -> bool {
    const RUN_MAX: usize = 16;
    let run = line[..at].iter().rev().take(RUN_MAX).take_while(|&&byte| byte == b'\\');
    run.count() % 2 == 1
}

impl<'h> Iterator for FromRight<'h> {
    type Item = &'h [u8];

    /// The next element. Empty elements mean nothing (RFC 9110, 5.6.1) and are skipped.
    fn next(&mut self) -> Option<&'h [u8]> {
        while let Some(line) = self.line {
            if self.elements_left == 0 {
                return None;
            }
            self.elements_left -= 1;
            let start = self.start_of_last(line)?;
            let element = line[start..].trim_ascii();
            self.bytes_left = self.bytes_left.saturating_sub(line.len() - start + 1);
            self.line = match start.checked_sub(1) {
                Some(comma) => Some(&line[..comma]),
                None => self.lines.next_back().map(HeaderValue::as_bytes),
            };
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}

/// The address of `for=` in one element of `Forwarded`. `None` unless there is exactly one `for=`, with a valid
/// address.
pub(super) fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let (mut rest, mut found) = (element, None);
    while !rest.is_empty() {
        let (pair, after) = first_pair(rest)?;
        rest = after;
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else {
            if pair.is_empty() {
                continue;
            }
            return None;
        };
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        if !name.eq_ignore_ascii_case(b"for") {
            continue;
        }
        if found.is_some() {
            return None;
        }
        let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        found = Some(node::address(bare.unwrap_or(value))?);
    }
    found
}

/// The first of the pairs that semicolons separate, and the rest. `None` if a quote stays open.
fn first_pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => return Some((text[..at].trim_ascii(), &text[at + 1..])),
            _ => {}
        }
    }
    (!quoted).then(|| (text.trim_ascii(), &text[text.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(lines: &[&str], quotes: bool) -> Vec<String> {
        let name = HeaderName::from_static("x-forwarded-for");
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&name, HeaderValue::from_str(line).expect("a line"));
        }
        let text = |element: &[u8]| String::from_utf8_lossy(element).into_owned();
        FromRight::new(&headers, &name, quotes).map(text).collect()
    }

    #[test]
    fn all_lines_are_one_list() {
        assert_eq!(elements(&["a, b", "c", "d ,e"], false), ["e", "d", "c", "b", "a"]);
        assert_eq!(elements(&[",, a ,,", "", " , "], false), ["a"]);
        assert_eq!(elements(&[], false), [""; 0]);
    }

    #[test]
    fn a_list_without_end_is_read_for_64_elements() {
        let long = "192.0.2.1, ".repeat(10_000);
        assert_eq!(elements(&[&long], false).len(), ELEMENTS_MAX - 1);
        assert_eq!(elements(&[&",".repeat(60_000)], false).len(), 0);
        assert_eq!(elements(&["a", &"x".repeat(BYTES_MAX + 1)], false).len(), 0);
    }

    #[test]
    fn a_list_is_read_for_8_kib() {
        let long = |bytes| "b".repeat(bytes);
        let read = |line: &str| elements(&[line], false);
        assert_eq!(read(&long(8_192)), [long(8_192)]);
        assert_eq!(read(&long(8_193)), [""; 0]);
        // A comma is a byte, too.
        assert_eq!(read(&format!("a,{}", long(8_190))), [long(8_190), "a".to_owned()]);
        assert_eq!(read(&format!("a,{}", long(8_191))), [long(8_191)]);
        assert_eq!(read(&format!("a,{}", long(8_192))), [""; 0]);
    }

    #[test]
    fn a_comma_in_quotes_parts_nothing() {
        let line = r#"for="a,b", for="c\",d";by=x, for=e"#;
        assert_eq!(elements(&[line], true), ["for=e", r#"for="c\",d";by=x"#, r#"for="a,b""#]);
    }

    #[test]
    fn an_open_quote_swallows_nothing_to_its_right() {
        let line = r#"for="evil, for="[2001:db8::17]:4711", for=192.0.2.60"#;
        let read = elements(&[line], true);
        assert_eq!(read[..2], ["for=192.0.2.60", r#"for="[2001:db8::17]:4711""#]);
        let line = r#"for="evil\, for="[2001:db8::17]""#;
        assert_eq!(elements(&[line], true)[0], r#"for="[2001:db8::17]""#);
    }

    #[test]
    fn forwarded_for_is_what_the_rfc_shows() {
        for (element, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", Some("192.0.2.60")),
            (r#"for="[2001:db8:cafe::17]:4711""#, Some("2001:db8:cafe::17")),
            (r#"For="[2001:db8:cafe::17]""#, Some("2001:db8:cafe::17")),
            ("proto=https; FOR=192.0.2.43", Some("192.0.2.43")),
            (r#"by="a;for=192.0.2.1";for=192.0.2.43"#, Some("192.0.2.43")),
            (r#"by="a\";for=192.0.2.1;";for=192.0.2.43"#, Some("192.0.2.43")),
            (r#"by="a\\";for=192.0.2.43"#, Some("192.0.2.43")),
            // A backslash escapes only within quotes.
            (r"by=a\;for=192.0.2.43", Some("192.0.2.43")),
            ("for=192.0.2.43;", Some("192.0.2.43")),
            (r#"for="_gazonk""#, None),
            ("for=unknown", None),
            ("for=_SEVKISEK", None),
            ("for=", None),
            ("for", None),
            ("", None),
            ("by=203.0.113.43", None),
            ("for=192.0.2.43;for=192.0.2.44", None),
            (r#"for="192.0.2.43"#, None),
            (r#"for="\192.0.2.43""#, None),
        ] {
            let expected = expected.map(|text| text.parse::<IpAddr>().expect(text));
            assert_eq!(forwarded_for(element.as_bytes()), expected, "{element}");
        }
    }
}
