//! Parses the bytes of a block into requests: one time and one key per good line.
//!
//! A block is parsed by itself, so that blocks can be parsed in parallel. Its keys are numbered in the order of their
//! first appearance, and borrow their text from the block: most lines repeat a key, and then cost one look-up and no
//! allocation.

mod clf;
mod json;
mod tally;
mod time;

use std::borrow::Cow;
use std::collections::HashMap;

pub(crate) use tally::{BAD_LINES_NAMED, LineTally};
pub(crate) use time::{instant, nanos_of_text, wait};

use super::event::ReplayEvent;
use super::key::LineKey;
use super::reason::Reason;
use super::wanted::{self, Wanted};
use time::ClfTimeReader;

/// Which parts of a line matter.
#[derive(Debug)]
pub(crate) struct Parser {
    /// The key.
    pub(crate) key: Wanted,
    /// The field of the time in JSON lines, if it has none of the usual names.
    pub(crate) time_field: Option<String>,
}

/// The content of a block.
#[derive(Debug, Default)]
pub(crate) struct Parsed<'b> {
    /// Good lines in their order. Their keys are indices into `keys`.
    pub(crate) events: Vec<ReplayEvent>,
    /// The distinct keys.
    pub(crate) keys: Vec<Cow<'b, [u8]>>,
    /// The counts of its lines.
    pub(crate) tally: LineTally,
}

/// The keys of one block while it is parsed.
#[derive(Default)]
struct BlockKeys<'b> {
    numbers: HashMap<Cow<'b, [u8]>, u32, ahash::RandomState>,
    texts: Vec<Cow<'b, [u8]>>,
}

impl<'b> BlockKeys<'b> {
    /// The number of a key as spelled in a line. Two spellings of one key may get two numbers here; both have the
    /// same canonical text, and become one key when blocks are merged.
    fn number(&mut self, found: Cow<'b, [u8]>, key: &Wanted) -> Result<u32, Reason> {
        if let Some(&number) = self.numbers.get(&found) {
            return Ok(number);
        }
        let text = match &found {
            Cow::Borrowed(bytes) => key.canonical(bytes)?,
            Cow::Owned(bytes) => Cow::Owned(key.canonical(bytes)?.into_owned()),
        };
        let number = u32::try_from(self.texts.len()).map_err(|_| Reason::block_too_large())?;
        self.texts.push(text);
        self.numbers.insert(found, number);
        Ok(number)
    }
}

impl Parser {
    /// Reads every line of a block. The last line need not end with a newline.
    pub(crate) fn block<'b>(&self, bytes: &'b [u8]) -> Parsed<'b> {
        let mut parsed = Parsed::default();
        let mut keys = BlockKeys::default();
        let mut clock = ClfTimeReader::default();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]) {
            let line = bytes[start..end].trim_ascii_end();
            start = end + 1;
            if end == bytes.len() && line.is_empty() {
                break; // nothing follows the last newline
            }
            if line.is_empty() {
                parsed.tally.add_blank();
                continue;
            }
            match self.line(line, &mut keys, &mut clock) {
                Ok(event) => {
                    parsed.tally.add_good();
                    parsed.events.push(event);
                }
                Err(reason) => parsed.tally.add_bad(reason),
            }
        }
        parsed.keys = keys.texts;
        parsed
    }

    /// Each line's format is detected by its first byte.
    fn line<'b>(
        &self,
        line: &'b [u8],
        keys: &mut BlockKeys<'b>,
        clock: &mut ClfTimeReader,
    ) -> Result<ReplayEvent, Reason> {
        // Some editors write a byte order mark at the start of a file.
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii_start();
        let (nanos, key) = if line.first() == Some(&b'{') {
            let (nanos, key) = json::read(line, &self.key, self.time_field.as_deref())?;
            (nanos, Cow::Owned(key))
        } else {
            clf::read(line, &self.key, clock)?
        };
        Ok(ReplayEvent::new(nanos, keys.number(key, &self.key)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Parsed<'_> {
        Parser { key: Wanted::One(LineKey::Ip(128)), time_field: None }.block(text.as_bytes())
    }

    #[test]
    fn lines_of_several_formats_and_line_ends_may_be_mixed() {
        let parsed = block(concat!(
            "\u{FEFF}192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"-\" 408 -\r\n",
            "\n",
            "  {\"time\":\"2015-05-17T10:05:03Z\",\"ip\":\"::ffff:192.0.2.1\"}\n",
            "nothing of use\n",
            "2001:db8::1 - - [17/May/2015:10:05:04 +0000]",
        ));
        let second = 1_431_857_103_000_000_000;
        let expected = [
            ReplayEvent::new(second, 0),
            ReplayEvent::new(second, 1),
            ReplayEvent::new(second + 1_000_000_000, 2),
        ];
        assert_eq!(parsed.events, expected);
        assert_eq!(parsed.keys, [&b"192.0.2.1"[..], b"192.0.2.1", b"2001:db8::1"]);
        assert_eq!((parsed.tally.good, parsed.tally.bad), (3, 1));
        assert_eq!(parsed.tally.named[0].0, 4);
    }

    #[test]
    fn only_the_first_bad_lines_are_kept_and_all_are_counted() {
        let mut tally = block(&"bad\n".repeat(4)).tally;
        tally.append(block(&"\nbad\n".repeat(100)).tally);
        assert_eq!((tally.counted(), tally.bad), (104, 104));
        let lines: Vec<_> = tally.named.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 6]);
    }
}
