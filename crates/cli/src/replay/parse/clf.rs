//! Common and Combined Log Format.
//!
//! ```text
//! address ident user [17/May/2015:10:05:03 +0000] "GET /path HTTP/1.1" 200 512 "referer" "agent"
//! ```
//!
//! Only what is needed is parsed: with the address as the key, nothing after the time.

use std::borrow::Cow;

use memchr::memchr;

use super::time::ClfTimeReader;
use super::{LineKey, Reason, Wanted, wanted};

/// The time of a line, and its key.
pub(super) fn read<'l>(
    line: &'l [u8],
    wanted: &Wanted,
    clock: &mut ClfTimeReader,
) -> Result<(u64, Cow<'l, [u8]>), Reason> {
    let open = memchr(b'[', line).filter(|&open| open > 0).ok_or_else(Reason::not_a_log_line)?;
    let (before, rest) = (&line[..open], &line[open + 1..]);
    let close = memchr(b']', rest).ok_or_else(Reason::not_a_log_line)?;
    let (time, after) = (&rest[..close], &rest[close + 1..]);
    let found = match wanted {
        Wanted::One(key) => Cow::Borrowed(part(before, after, key)?),
        Wanted::Row(keys) => {
            let mut row = Vec::new();
            for key in keys {
                wanted::push(&mut row, part(before, after, key)?);
            }
            Cow::Owned(row)
        }
    };
    Ok((clock.read(time)?, found))
}

/// The part that a key names, from before and after the time.
fn part<'l>(before: &'l [u8], after: &'l [u8], key: &LineKey) -> Result<&'l [u8], Reason> {
    Ok(match key {
        LineKey::Ip(_) => before.split(|&b| b == b' ').next().unwrap_or_default(),
        LineKey::User => user(before),
        LineKey::Method => method(after),
        LineKey::Path => path(after),
        LineKey::Referer => header(after, 0, key)?,
        LineKey::UserAgent => header(after, 1, key)?,
        LineKey::Field(name) => return Err(Reason::not_in_logs(name)),
    })
}

/// The third field. It extends to the time, because names may contain spaces.
fn user(before: &[u8]) -> &[u8] {
    before.splitn(3, |&b| b == b' ').nth(2).unwrap_or_default().trim_ascii()
}

/// The first word of the request, if it has several words.
fn method(after: &[u8]) -> &[u8] {
    let (request, _) = quoted(after).unwrap_or_default();
    request
        .split(|&b| b == b' ')
        .next()
        .filter(|word| word.len() < request.len())
        .unwrap_or_default()
}

/// The second word of the request. A request without one (`-`, a broken handshake) has no path.
fn path(after: &[u8]) -> &[u8] {
    let (request, _) = quoted(after).unwrap_or_default();
    request.split(|&b| b == b' ').nth(1).unwrap_or_default()
}

/// One of the quoted fields after status and size.
fn header<'l>(after: &'l [u8], index: usize, key: &LineKey) -> Result<&'l [u8], Reason> {
    let missing = || Reason::only_in_combined(key.name());
    let (_, mut rest) = quoted(after).ok_or_else(missing)?;
    for _ in 0..index {
        (_, rest) = quoted(rest).ok_or_else(missing)?;
    }
    quoted(rest).map(|(field, _)| field).ok_or_else(missing)
}

/// The next quoted field, and the rest. A backslash escapes a quote. A field without a closing quote extends to the
/// end of the line.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = memchr(b'"', text)? + 1;
    let field = &text[start..];
    let mut from = 0;
    while let Some(found) = memchr(b'"', &field[from..]) {
        let end = from + found;
        let backslashes = field[..end].iter().rev().take_while(|&&b| b == b'\\').count();
        if backslashes % 2 == 0 {
            return Some((&field[..end], &field[end + 1..]));
        }
        from = end + 1;
    }
    Some((field, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMBINED: &str = concat!(
        r#"192.0.2.7 - a user [17/May/2015:10:05:03 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "#,
        r#""http://example.org/\"x\"" "Agent [1] \\""#
    );

    fn key(line: &str, key: &str) -> Result<String, String> {
        let key = Wanted::One(key.parse().expect("every name is a key"));
        read(line.as_bytes(), &key, &mut ClfTimeReader::default())
            .map(|(_, found)| String::from_utf8_lossy(&found).into_owned())
            .map_err(|reason| reason.to_string())
    }

    #[test]
    fn each_key_is_found_in_its_place() {
        assert_eq!(key(COMBINED, "ip").as_deref(), Ok("192.0.2.7"));
        assert_eq!(key(COMBINED, "user").as_deref(), Ok("a user"));
        assert_eq!(key(COMBINED, "method").as_deref(), Ok("GET"));
        assert_eq!(key(COMBINED, "path").as_deref(), Ok("/a?b=1"));
        assert_eq!(key(COMBINED, "referer").as_deref(), Ok(r#"http://example.org/\"x\""#));
        assert_eq!(key(COMBINED, "user-agent").as_deref(), Ok(r"Agent [1] \\"));
    }

    #[test]
    fn a_request_that_is_none_has_no_path_and_is_good() {
        let dash = r#"192.0.2.7 - - [17/May/2015:10:05:03 +0000] "-" 408 -"#;
        assert_eq!(key(dash, "path").as_deref(), Ok(""));
        assert_eq!(key(dash, "method").as_deref(), Ok(""));
        assert_eq!(key(dash, "ip").as_deref(), Ok("192.0.2.7"));
        assert_eq!(key("192.0.2.7 - - [17/May/2015:10:05:03 +0000]", "path").as_deref(), Ok(""));
    }

    #[test]
    fn an_agent_cut_off_before_its_quote_reaches_to_the_end() {
        let cut = r#"192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "Agen"#;
        assert_eq!(key(cut, "user-agent").as_deref(), Ok("Agen"));
    }

    #[test]
    fn common_lines_have_no_headers_and_logs_no_other_fields() {
        let common = r#"192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5"#;
        let reason = key(common, "user-agent").expect_err("there is no agent");
        assert!(reason.starts_with("no user-agent: only Combined Log Format has it"), "{reason}");
        let reason = key(common, "tenant").expect_err("there is no tenant");
        assert!(reason.starts_with("\"tenant\" is not in Common or Combined lines"), "{reason}");
    }
}
