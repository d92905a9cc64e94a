//! Proposes a format for lines that no named format reads: it is built from the first line, and
//! tried on it.

use super::asked::Asked;
use super::format::FormatChoice;
use super::line::{LineRead, LineReader, NumberedLine, content};
use super::prefix::without_prefix;
use super::time::{ClfTimeReader, from_text};
use crate::replay::chain::is_address_text;

/// Returns a format in the language of nginx that reads the first line, if there is one.
pub(super) fn proposed(asked: &Asked, lines: &[NumberedLine<'_>]) -> Option<String> {
    let (_, first) = lines.first()?;
    let format = built(without_prefix(content(first)))?;
    let choice: FormatChoice = format.parse().ok()?;
    let [chosen] = &choice.0[..] else { return None };
    let mut reader = LineReader::new(asked, chosen.of_file(asked).lines);
    match reader.read(first) {
        Ok(LineRead::Request(_, key)) => asked.wanted.canonical(&key).ok().map(|_| format),
        Ok(LineRead::LeftOut) => Some(format),
        Ok(LineRead::Nothing) | Err(_) => None,
    }
}

/// Returns the format of a line: its first address, its first time, and anything between these.
fn built(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?;
    let (mut format, mut rest) = (String::new(), text);
    let (mut has_address, mut has_time) = (false, false);
    while !(has_address && has_time) {
        rest = rest.trim_start();
        let (piece, behind) = match bracketed_time(rest).filter(|_| !has_time) {
            Some(behind) => {
                has_time = true;
                ("[$time_local]", behind)
            }
            None => {
                let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
                if word.is_empty() {
                    return None;
                }
                match word {
                    _ if !has_address && is_address_text(word.as_bytes()) => {
                        has_address = true;
                        ("$remote_addr", behind)
                    }
                    _ if !has_time && is_time(word) => {
                        has_time = true;
                        let is_unix = word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
                        (if is_unix { "$msec" } else { "$time_iso8601" }, behind)
                    }
                    _ => ("$_", behind),
                }
            }
        };
        // One `$_` reads several words if a bracket follows, because it ends at the bracket.
        while piece.starts_with('[') && format.ends_with("$_ $_") {
            format.truncate(format.len() - " $_".len());
        }
        if !format.is_empty() {
            format.push(' ');
        }
        format.push_str(piece);
        rest = behind;
    }
    if !rest.trim().is_empty() {
        format.push_str(" $_");
    }
    Some(format)
}

/// Returns the rest behind a time in brackets.
fn bracketed_time(text: &str) -> Option<&str> {
    let (inner, behind) = text.strip_prefix('[')?.split_once(']')?;
    ClfTimeReader::default().read_any(inner.as_bytes()).ok().map(|_| behind)
}

/// Returns whether a word is a time. A number counts as a time only if it has a fraction, or as many digits as a Unix
/// time.
fn is_time(word: &str) -> bool {
    word.len() >= 10 && from_text(word.as_bytes()).is_ok()
}
