//! Cuts the prefixes that tools write in front of the lines of a log: syslog, container runtimes, grep, tail.
//!
//! ```text
//! Feb  6 12:14:14 host haproxy[14389]: ...              RFC 3164, with <134> in front or not, and the journal
//! <134>1 2015-02-06T12:14:14.655Z host haproxy 14389 - - ...                                        RFC 5424
//! 2015-02-06T12:14:14.655Z stdout F ...                 container runtimes; with `docker logs -t` the time alone
//! web-1  | ...                                          compose, swarm, foreman, pm2
//! pod container ...     [pod/name/container] ...        kubectl, stern
//! access.log:12:...     access.log-12-...               grep
//! ==> access.log <== ...                                tail
//! ```
//!
//! Most of these could also be the beginning of some format. So an ambiguous prefix is cut only if the rest begins like
//! a line of a server: with an address, or as an object of JSON.

use crate::replay::chain::is_address_text;

/// The maximum number of prefixes in front of one line.
const MOST: usize = 4;

/// The maximum length of a container's name. A `|` further from the start of a line is not the end of a name.
const NAME_MOST: usize = 120;

/// Returns the line without its prefixes.
#[inline]
pub(super) fn without_prefix(line: &[u8]) -> &[u8] {
    // A cheap test finds most lines that have no prefix.
    if begins_with_ipv4(line) || line.first() == Some(&b'{') { line } else { cut(line) }
}

fn cut(line: &[u8]) -> &[u8] {
    let mut rest = line;
    for _ in 0..MOST {
        match behind_one(rest) {
            Some(behind) => rest = behind.trim_ascii_start(),
            None => break,
        }
    }
    rest
}

/// Returns whether a line begins with digits that have three dots in between, and a blank.
#[inline]
fn begins_with_ipv4(line: &[u8]) -> bool {
    let mut dots = 0;
    for (place, byte) in line.iter().enumerate().take(16) {
        match byte {
            b'0'..=b'9' => {}
            b'.' if place > 0 => dots += 1,
            b' ' => return dots == 3,
            _ => return false,
        }
    }
    false
}

/// Returns the rest of a line behind its first prefix.
fn behind_one(line: &[u8]) -> Option<&[u8]> {
    match line.first()? {
        b'{' => None,
        b'<' => behind_priority(line),
        b'=' => behind_file_name(line),
        b'[' => behind_brackets(line),
        _ if is_start(line) => behind_match(line),
        _ => behind_stamp(line)
            .or_else(|| behind_time(line))
            .or_else(|| behind_bar(line))
            .or_else(|| behind_tag(line))
            .or_else(|| behind_match(line))
            .or_else(|| behind_names(line)),
    }
}

/// Returns whether a text begins like a line of a server: with an address, or as an object.
fn is_start(line: &[u8]) -> bool {
    let (first, _) = word(line);
    line.first() == Some(&b'{') || is_address_text(first.strip_suffix(b",").unwrap_or(first))
}

/// Returns the rest behind `<134>` and the header of RFC 5424 or RFC 3164.
fn behind_priority(line: &[u8]) -> Option<&[u8]> {
    let (digits, rest) = line[1..].split_at_checked(memchr::memchr(b'>', line)? - 1)?;
    if digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let rest = &rest[1..];
    let Some(mut rest) = rest.strip_prefix(b"1 ") else {
        return behind_stamp(rest).or_else(|| behind_time(rest)).or_else(|| behind_tag(rest));
    };
    // Skips time, host, program, process and message id; then data follows.
    for _ in 0..5 {
        (_, rest) = word_and_blank(rest)?;
    }
    if !rest.starts_with(b"[") {
        return rest.strip_prefix(b"- ");
    }
    while rest.starts_with(b"[") {
        rest = &rest[end_of_data(rest)?..];
    }
    rest.strip_prefix(b" ")
}

/// Returns the index of the end of an element of data. Its values are quoted, and quotes and brackets in them are
/// escaped.
fn end_of_data(element: &[u8]) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (place, byte) in element.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => is_quoted = !is_quoted,
            b']' if !is_quoted => return Some(place + 1),
            _ => {}
        }
    }
    None
}

/// Returns the rest behind `Feb  6 12:14:14 `, a host and a program.
fn behind_stamp(line: &[u8]) -> Option<&[u8]> {
    let (stamp, rest) = line.split_first_chunk::<15>()?;
    let is = |at: usize, byte: u8| stamp[at] == byte;
    let is_stamp = is(3, b' ') && is(6, b' ') && is(9, b':') && is(12, b':');
    if !is_stamp || !stamp[0].is_ascii_uppercase() || !stamp[14].is_ascii_digit() {
        return None;
    }
    let fraction = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',');
    let end = rest.iter().position(|byte| !fraction(byte))?;
    let rest = rest[end..].strip_prefix(b" ")?;
    if let Some(message) = behind_program(rest) {
        return Some(message);
    }
    if is_start(rest) {
        // The first address may be that of the host. Then the client's address follows it.
        let (_, behind) = word(rest);
        return Some(if is_start(behind) { behind } else { rest });
    }
    let (_host, behind) = word(rest);
    is_start(behind).then_some(behind)
}

/// Returns the rest of a line behind a leading time: RFC 3339, a clock time or a Unix time. Words that a tool writes
/// between that time and the message, such as the name of a stream, are cut as well.
fn behind_time(line: &[u8]) -> Option<&[u8]> {
    let (time, rest) = word(line);
    if is_clock_time(time) {
        return behind_bar(rest).or_else(|| is_start(rest).then_some(rest));
    }
    if is_unix_time(time) {
        return behind_program(rest);
    }
    if !is_whole_time(time) {
        return None;
    }
    let (first, behind) = word(rest);
    let (second, message) = word(behind);
    match first {
        // F marks a whole line, P a part of one.
        b"stdout" | b"stderr" if matches!(second, b"F" | b"P") => return Some(message),
        [b'[', inner @ .., b']'] if is_name(inner) && matches!(second, b"OUT" | b"ERR") => {
            return Some(message);
        }
        // The bracket holds a name, which is cut next, or the time that some formats begin with.
        [b'[', ..] => return Some(rest),
        _ => {}
    }
    if let Some(message) = behind_program(rest) {
        return Some(message);
    }
    is_start(rest).then_some(rest)
}

/// Returns the rest behind `host program[1]: `, or behind the program alone.
fn behind_program(line: &[u8]) -> Option<&[u8]> {
    let (host, behind) = word_and_blank(line)?;
    if is_program(host) {
        return Some(behind);
    }
    let (program, behind) = word_and_blank(behind)?;
    is_program(program).then_some(behind)
}

fn is_program(word: &[u8]) -> bool {
    word.ends_with(b":") && !is_address_text(word)
}

/// Returns the rest behind `web-1  | `.
fn behind_bar(line: &[u8]) -> Option<&[u8]> {
    let near = &line[..line.len().min(NAME_MOST)];
    // The bar before a line has blanks around it. The first bar in `0|web  | `, as pm2 writes it, has none.
    let end = memchr::memmem::find(near, b" | ")?;
    let names = near[..end].trim_ascii_end();
    let words = names.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let is_label = |word: &[u8]| {
        let is_known = |b: &u8| b.is_ascii_alphanumeric() || b"._-@/:|".contains(b);
        word.iter().all(is_known) && !is_address_text(word)
    };
    let mut words = words.peekable();
    (words.peek().is_some() && words.all(is_label)).then(|| &line[end + 3..])
}

/// Returns the rest behind `==> access.log <==`.
fn behind_file_name(line: &[u8]) -> Option<&[u8]> {
    let name = line.strip_prefix(b"==> ")?;
    Some(&name[memchr::memmem::find(name, b" <==")? + 4..])
}

/// Returns the rest behind `[pod/name/container] ` or `[  12.345] host program: `.
fn behind_brackets(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b']', line).filter(|&end| end < NAME_MOST)?;
    let (inner, rest) = (&line[1..end], line[end + 1..].strip_prefix(b" ")?);
    let is_uptime = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b' ');
    if inner.iter().all(is_uptime) {
        return behind_program(rest);
    }
    let names = inner.split(|&byte| byte == b' ');
    names.into_iter().all(is_name).then_some(rest)
}

/// Returns the rest behind `nginx: ` or `INFO:     `, if a line begins there.
fn behind_tag(line: &[u8]) -> Option<&[u8]> {
    let (tag, rest) = word(line);
    (is_program(tag) && is_start(rest)).then_some(rest)
}

/// Returns the rest behind a prefix of grep: `12:`, `access.log:` and `access.log-12-`, without a blank behind it.
fn behind_match(line: &[u8]) -> Option<&[u8]> {
    let brace = memchr::memchr(b'{', &line[..line.len().min(NAME_MOST)]);
    let token = &line[..brace.unwrap_or_else(|| word(line).0.len())];
    if let (Some(at), [.., b':' | b'-']) = (brace, token)
        && !token.iter().any(|byte| matches!(byte, b' ' | b'"'))
    {
        return Some(&line[at..]);
    }
    if token.contains(&b'=') {
        return None;
    }
    // An IPv6 address with a number in front of it may look like another address.
    let is_whole = is_address_text(token);
    if is_whole && is_likely_address(token) {
        return None;
    }
    let is_end = |place: &usize| {
        matches!(token[*place], b':' | b'-')
            && !(is_whole && token[..*place].iter().any(|byte| !byte.is_ascii_digit()))
    };
    let mut starts = (0..token.len()).filter(is_end).map(|place| place + 1);
    let start = starts.find(|&start| is_likely_address(&token[start..]))?;
    Some(&line[start..])
}

/// Returns whether a text is an address that a host can have. `12:2001:db8::1` is none: it is an address with a line
/// number in front of it.
fn is_likely_address(text: &[u8]) -> bool {
    let first = text.split(|&byte| byte == b':').next().unwrap_or_default();
    // All IPv6 addresses of hosts begin with 2 or 3, or are local, mapped or translated ones.
    let is_given = match first {
        [b'2' | b'3', rest @ ..] => rest.len() == 3,
        _ => [&b""[..], b"64", b"100", b"fe8", b"fe9", b"fea", b"feb", b"fc", b"fd", b"["]
            .iter()
            .any(|start| first == *start || start.len() > 1 && first.starts_with(start)),
    };
    (is_given || first.contains(&b'.')) && is_address_text(text)
}

/// Returns the rest behind `pod container `, `pod > container ` or `service 2015-02-06T12:14:14Z `, if a line begins
/// there.
fn behind_names(line: &[u8]) -> Option<&[u8]> {
    let (first, rest) = word(line);
    if !is_name(first) {
        return None;
    }
    let rest = rest.strip_prefix(b"> ").unwrap_or(rest);
    let (second, behind) = word(rest);
    ((is_name(second) || is_whole_time(second)) && is_start(behind)).then_some(behind)
}

/// Returns whether a text may be the name of a pod, a container or a service, and is no address.
fn is_name(text: &[u8]) -> bool {
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/@".contains(byte);
    text.iter().all(is_known) && text.iter().any(u8::is_ascii_alphabetic) && !is_address_text(text)
}

/// Returns whether a text is a time such as `2015-02-06T12:14:14.655+01:00`.
fn is_whole_time(text: &[u8]) -> bool {
    let is = |at: usize, byte: u8| text.get(at) == Some(&byte);
    text.len() >= 19 && is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')
}

/// Returns whether a text is a clock time such as `12:14:14`, with or without a fraction.
fn is_clock_time(text: &[u8]) -> bool {
    let is_known = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b',');
    text.len() >= 8 && text[2] == b':' && text[5] == b':' && text.iter().all(is_known)
}

/// Returns whether a text is a Unix time such as `1423217654.655123`.
fn is_unix_time(text: &[u8]) -> bool {
    text.len() >= 10 && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Returns the first word, and the rest behind its blanks.
fn word(line: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr2(b' ', b'\t', line).unwrap_or(line.len());
    (&line[..end], line[end..].trim_ascii_start())
}

/// Returns the first word, and the rest behind its one blank.
fn word_and_blank(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', line)?;
    Some((&line[..end], &line[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_syslog_are_cut_whatever_follows() {
        for header in [
            "Feb  6 12:14:14 host haproxy[14389]: ",
            "<134>Feb 16 12:14:14 host haproxy[14389]: ",
            "2015-02-06T12:14:14.655123+01:00 host haproxy[14389]: ",
            "<134>1 2015-02-06T12:14:14.655Z host haproxy 14389 - - ",
            "<134>1 2015-02-06T12:14:14.655Z host haproxy 14389 - [a b=\"]\\\"\"][c] ",
            "",
        ] {
            let line = format!("{header}a.b:80 [...] a: b");
            let message = without_prefix(line.as_bytes());
            assert_eq!(message.escape_ascii().to_string(), "a.b:80 [...] a: b", "{header}");
        }
    }

    #[test]
    fn what_only_looks_like_a_prefix_is_kept() {
        for line in [
            "2001:db8::1 - - [17/May/2015:10:05:03 +0000]",
            "2001:db8:: - - [17/May/2015:10:05:03 +0000]",
            "fe80::1%eth0 - - [17/May/2015:10:05:03 +0000]",
            "[17/May/2015:10:05:03 +0000] 192.0.2.1",
            "[2015-05-17T10:05:03Z] \"GET / HTTP/1.1\"",
            "2015-05-17 10:05:03 192.0.2.1 GET / 200",
            "2015-05-17T10:05:03Z lb 192.0.2.1:80 GET / 200",
            "https 2015-05-17T10:05:03Z app/lb 192.0.2.1:80",
            "www.example.com:443 192.0.2.1 - - [17/May/2015:10:05:03 +0000]",
            "1431857103.123    45 192.0.2.1 TCP_MISS/200",
            "192.0.2.1 | 2015-05-17T10:05:03Z | GET",
            "192.0.2.1:80 [17/May/2015:10:05:03.1]",
            "192.0.2.1, 192.0.2.2 - - [17/May/2015:10:05:03 +0000]",
            "<>",
            "<",
            "[",
            "==> a",
            "<1234>Feb  6 12:14:14 host a: b",
            "Feb  6 12:14:14 host",
            "",
        ] {
            assert_eq!(
                without_prefix(line.as_bytes()).escape_ascii().to_string(),
                line.as_bytes().escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn a_number_in_front_of_an_address_of_ipv6_is_no_part_of_it() {
        for (line, expected) in [
            ("12:2001:db8::1 - -", "2001:db8::1 - -"),
            ("a.log:12:2001:db8::1 - -", "2001:db8::1 - -"),
            ("a.log:fe80::1 - -", "fe80::1 - -"),
            ("a.log-12-192.0.2.1 - -", "192.0.2.1 - -"),
        ] {
            assert_eq!(without_prefix(line.as_bytes()), expected.as_bytes(), "{line}");
        }
    }
}
