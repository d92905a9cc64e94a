//! Makes text from a log safe to print.

/// Returns the text with escapes for all characters that a terminal might interpret or could not show.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                // Quotes and backslashes are harmless, and hard to read when escaped.
                '"' | '\'' | '\\' => out.push(c),
                // Control characters, and those that change the direction of writing.
                _ => out.extend(c.escape_debug()),
            }
        }
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    out
}

/// Returns the printable text, cut to this many characters.
pub(crate) fn shortened(bytes: &[u8], chars_max: usize) -> String {
    // A character has at most 4 bytes, so the text beyond would be cut anyway.
    let head = &bytes[..bytes.len().min(4 * (chars_max + 1))];
    let whole = printable(head);
    match whole.char_indices().nth(chars_max) {
        Some((cut, _)) => format!("{}…", &whole[..cut]),
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_acts_on_is_printed() {
        assert_eq!(printable(b"a\x1b[2Jb\nc\x00"), "a\\u{1b}[2Jb\\nc\\0");
        assert_eq!(printable("caf\u{e9} \u{202e}x".as_bytes()), "caf\u{e9} \\u{202e}x");
        assert_eq!(printable(b"\"q\" \\ \xff\xfe"), "\"q\" \\ \\xFF\\xFE");
    }

    #[test]
    fn a_long_text_is_cut_and_shows_it() {
        assert_eq!(shortened(b"12345", 5), "12345");
        assert_eq!(shortened(b"123456", 5), "12345…");
        assert_eq!(shortened("\u{e9}".repeat(900).as_bytes(), 3), "\u{e9}\u{e9}\u{e9}…");
    }
}
