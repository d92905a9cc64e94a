//! Addresses as text, and chains of them, as proxies write them.

use tollgate_http::keys::node_address;

/// Returns whether a text is an address, in any form in which servers write one.
pub(crate) fn is_address_text(text: &[u8]) -> bool {
    // A cheap test rules out most texts that are no address.
    let may_start = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'[');
    text.first().is_some_and(may_start) && node_address(text).is_some()
}

/// Returns whether a text is a list of addresses with commas in between, as proxies write them. A missing address may
/// be `-` or `unknown`.
pub(crate) fn is_chain(text: &[u8]) -> bool {
    let is_missing = |part: &[u8]| matches!(part, b"-" | b"unknown");
    memchr::memchr(b',', text).is_some()
        && links(text).all(|part| is_missing(part) || is_address_text(part))
        && links(text).any(is_address_text)
}

/// Returns the parts of a chain, without the blanks around them. A format without blanks has `%20` or `+` in place of a
/// blank, which is cut as well.
pub(crate) fn links(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split(|&byte| byte == b',').map(|part| {
        let part = part.trim_ascii();
        let part = part.strip_prefix(b"%20").or(part.strip_prefix(b"+")).unwrap_or(part);
        part.trim_ascii()
    })
}
