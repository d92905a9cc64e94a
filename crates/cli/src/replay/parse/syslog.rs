//! The header that syslog writes in front of a line, which is skipped.
//!
//! ```text
//! Feb  6 12:14:14 host haproxy[14389]: ...                          RFC 3164, with <134> in front or not
//! 2015-02-06T12:14:14.655+01:00 host haproxy[14389]: ...            the same with a whole time
//! <134>1 2015-02-06T12:14:14.655Z host haproxy 14389 - - ...        RFC 5424
//! ```

/// The line behind the header, if it has one.
#[inline]
pub(super) fn without_header(line: &[u8]) -> &[u8] {
    // Cheap for the lines that have none.
    match line.first() {
        Some(b'<' | b'A' | b'D' | b'F' | b'J' | b'M' | b'N' | b'O' | b'S' | b'1'..=b'2') => {
            message(line).unwrap_or(line)
        }
        _ => line,
    }
}

fn message(line: &[u8]) -> Option<&[u8]> {
    let rest = priority(line).unwrap_or(line);
    if let Some(rest) = rest.strip_prefix(b"1 ") {
        // Time, host, program, process, message id; then data, of which a `-` says that there is none.
        let mut rest = rest;
        for _ in 0..5 {
            (_, rest) = word(rest)?;
        }
        return rest.strip_prefix(b"- ");
    }
    let rest = behind_stamp(rest).or_else(|| behind_whole_time(rest))?;
    let (_host, rest) = word(rest)?;
    let (program, rest) = word(rest)?;
    program.ends_with(b":").then_some(rest)
}

/// What follows `<134>`.
fn priority(line: &[u8]) -> Option<&[u8]> {
    let (digits, rest) =
        line.strip_prefix(b"<")?.split_at_checked(memchr::memchr(b'>', line)? - 1)?;
    (digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit)).then(|| &rest[1..])
}

/// What follows `Feb  6 12:14:14 `.
fn behind_stamp(line: &[u8]) -> Option<&[u8]> {
    let (stamp, rest) = line.split_first_chunk::<16>()?;
    let is = |at: usize, byte: u8| stamp[at] == byte;
    (is(3, b' ') && is(6, b' ') && is(9, b':') && is(12, b':') && is(15, b' ')).then_some(rest)
}

/// What follows `2015-02-06T12:14:14.655+01:00 `.
fn behind_whole_time(line: &[u8]) -> Option<&[u8]> {
    // First what costs nothing: most lines that come here begin with an address.
    if line.get(10) != Some(&b'T') || line.get(4) != Some(&b'-') {
        return None;
    }
    let (time, rest) = word(line)?;
    (time.len() >= 20).then_some(rest)
}

/// The first word, and what follows its blank.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', line)?;
    Some((&line[..end], &line[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_kind_are_skipped() {
        for header in [
            "Feb  6 12:14:14 host haproxy[14389]: ",
            "<134>Feb 16 12:14:14 host haproxy[14389]: ",
            "2015-02-06T12:14:14.655123+01:00 host haproxy[14389]: ",
            "<134>1 2015-02-06T12:14:14.655Z host haproxy 14389 - - ",
            "",
        ] {
            let line = format!("{header}192.0.2.1:80 [...] a: b");
            let message = without_header(line.as_bytes());
            assert_eq!(message.escape_ascii().to_string(), "192.0.2.1:80 [...] a: b", "{header}");
        }
    }

    #[test]
    fn what_only_looks_like_a_header_is_kept() {
        for line in [
            "2001:db8::1 - - [17/May/2015:10:05:03 +0000]",
            "2015-05-17 10:05:03 192.0.2.1 GET / 200",
            "2015-05-17T10:05:03Z 192.0.2.1 GET / 200",
            "<>",
            "<",
            "<1234>Feb  6 12:14:14 host a: b",
            "Feb  6 12:14:14 host",
            "",
        ] {
            assert_eq!(without_header(line.as_bytes()), line.as_bytes(), "{line}");
        }
    }
}
