//! Parses the bytes of a block into requests: one time and one key per good line.
//!
//! A block is parsed by itself, so that blocks can be parsed in parallel. Its keys are numbered in the order of their
//! first appearance, and borrow their text from the block. Most lines repeat a key; they cost one look-up and no
//! allocation.

mod asked;
mod common;
mod detect;
mod dialect;
mod field;
mod format;
mod json;
mod line;
mod logfmt;
mod marker;
mod mend;
mod named;
mod prefix;
mod propose;
mod tally;
mod template;
mod time;
mod time_form;

use std::borrow::Cow;
use std::collections::HashMap;

pub(crate) use asked::Asked;
use common::CommonClient;
pub(crate) use detect::DetectError;
pub(crate) use format::FormatChoice;
pub(crate) use tally::{BAD_LINES_NAMED, LineTally};
pub(crate) use time::{instant, nanos_of_text, wait};

use super::event::ReplayEvent;
use super::reason::Reason;
use super::wanted::Wanted;
use format::{ChosenShape, FileFormat};
use line::{LineRead, LineReader, lines};

/// Reads lines.
#[derive(Debug)]
pub(crate) struct Parser {
    asked: Asked,
    choice: FormatChoice,
}

impl Parser {
    /// Makes a parser for lines of one of these formats, and for the parts that are asked for.
    pub(crate) fn new(asked: Asked, choice: FormatChoice) -> Self {
        Self { asked, choice }
    }

    /// Returns whether to take lines out of the objects of a collector. If the command line gives a JSON format, the
    /// objects are the lines, because their fields are wanted.
    pub(crate) fn may_be_wrapped(&self) -> bool {
        !matches!(&self.choice.0[..], [format] if matches!(format.shape, ChosenShape::Json(_)))
    }

    /// Returns the parser for the blocks of a file.
    pub(crate) fn file(&self) -> FileParser<'_> {
        FileParser { parser: self, format: None }
    }
}

/// The state while a file is read: its format, which is known after the first line that is not blank, and its last
/// columns.
#[derive(Debug)]
pub(crate) struct FileParser<'p> {
    parser: &'p Parser,
    format: Option<FileFormat>,
}

impl<'p> FileParser<'p> {
    /// Returns the parser of the next block. Blocks have to be passed in their order, but may be parsed in any order.
    pub(crate) fn block(&mut self, bytes: &[u8]) -> Result<BlockParser<'p>, DetectError> {
        let asked = &self.parser.asked;
        let format = match self.format.take() {
            Some(format) => Some(format),
            None => detect::format(&self.parser.choice, asked, bytes)?,
        };
        self.format = format.clone().map(|format| format.behind(bytes, asked));
        Ok(BlockParser { asked, format: format.unwrap_or_else(FileFormat::of_blank_lines) })
    }
}

/// Reads one block.
#[derive(Debug)]
pub(crate) struct BlockParser<'p> {
    asked: &'p Asked,
    format: FileFormat,
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
    /// The first key that is an unresolved chain of addresses.
    chain: Option<Box<[u8]>>,
}

impl<'b> BlockKeys<'b> {
    /// Returns the number of a key as spelled in a line. Two spellings of one key may get two numbers here; both have
    /// the same canonical text, and become one key when blocks are merged.
    fn number(&mut self, found: Cow<'b, [u8]>, key: &Wanted) -> Result<u32, Reason> {
        if let Some(&number) = self.numbers.get(&found) {
            return Ok(number);
        }
        if self.chain.is_none() {
            self.chain = key.chain(&found).map(Box::from);
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

impl BlockParser<'_> {
    /// Reads every line. The last need not end with a newline.
    pub(crate) fn read<'b>(self, bytes: &'b [u8]) -> Parsed<'b> {
        let mut parsed = Parsed::default();
        let mut keys = BlockKeys::default();
        let FileFormat { name, lines: format } = self.format;
        parsed.tally.format = Some(name).filter(|name| !name.is_empty());
        parsed.tally.left_out = (!self.asked.conditions.is_empty()).then_some(0);
        parsed.tally.is_local = format.is_local();
        let wanted = &self.asked.wanted;
        let mut reader = LineReader::new(self.asked, format);
        for line in lines(bytes) {
            match reader.read(line) {
                Ok(LineRead::Request(nanos, key)) => match keys.number(key, wanted) {
                    Ok(key) => {
                        parsed.events.push(ReplayEvent::new(nanos, key));
                        parsed.tally.add_good();
                    }
                    Err(reason) => parsed.tally.add_bad(reason),
                },
                Ok(LineRead::LeftOut) => parsed.tally.add_left_out(),
                Ok(LineRead::Nothing) => parsed.tally.add_blank(),
                Err(reason) => parsed.tally.add_bad(reason),
            }
        }
        parsed.tally.is_local |= reader.saw_local();
        parsed.tally.chain = keys.chain;
        parsed.tally.last_of = reader.last_of();
        parsed.tally.common = CommonClient::of(&parsed.events, &keys.texts, wanted);
        parsed.keys = keys.texts;
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::clients::ClientsBy;
    use crate::replay::key::LineKey;

    fn block(text: &str) -> Parsed<'_> {
        let wanted = Wanted::One(LineKey::Ip(ClientsBy::EACH));
        let choice = "combined".parse().expect("a name");
        let parser = Parser::new(Asked::new(wanted, &[], None), choice);
        parser.file().block(text.as_bytes()).expect("it is named").read(text.as_bytes())
    }

    #[test]
    fn lines_are_read_whatever_ends_them_and_others_are_bad() {
        let parsed = block(concat!(
            "\u{FEFF}192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"-\" 408 -\r\n",
            "\n",
            "  {\"time\":\"2015-05-17T10:05:03Z\",\"ip\":\"::ffff:192.0.2.1\"}\n",
            "nothing of use\n",
            "::ffff:192.0.2.1 - - [17/May/2015:10:05:03 +0000]\n",
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
        assert_eq!((parsed.tally.good, parsed.tally.bad), (3, 2));
        assert_eq!(parsed.tally.named[0].0, 3);
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
