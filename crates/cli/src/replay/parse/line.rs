//! [`LineReader`]: reads the lines of a block, one after the other.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::Reason;
use super::asked::Asked;
use super::field::{Cut, PartSource};
use super::format::{CUSTOM, LineFormat, LinePlan};
use super::json::JsonLine;
use super::prefix::without_prefix;
use super::time::ClfTimeReader;
use super::time_form::WrittenTime;
use crate::replay::chain::{is_address_text, is_chain};
use crate::replay::key::LineKey;

/// A line that is not blank, and its number in the file.
pub(super) type NumberedLine<'l> = (usize, &'l [u8]);

/// The content of a line.
pub(super) enum LineRead<'l> {
    /// A request, with its time and its key as it is spelled.
    Request(u64, Cow<'l, [u8]>),
    /// A line that a condition leaves out.
    LeftOut,
    /// A blank line, or a line about the file, such as `#Fields`.
    Nothing,
}

/// Reads lines, and keeps its state from line to line.
pub(super) struct LineReader<'p, 'l> {
    asked: &'p Asked,
    format: LineFormat,
    clock: ClfTimeReader,
    /// The fields of the line.
    found: Vec<&'l [u8]>,
    /// True if the command line gave the format as a pattern.
    is_spelled_out: bool,
    /// The first list of addresses of which only the last address was used.
    last_of: OnceCell<Box<[u8]>>,
}

impl<'p, 'l> LineReader<'p, 'l> {
    pub(super) fn new(asked: &'p Asked, format: LineFormat) -> Self {
        let is_spelled_out =
            matches!(&format, LineFormat::Text(plan) if plan.template.name() == CUSTOM);
        Self {
            asked,
            format,
            clock: ClfTimeReader::default(),
            found: Vec::new(),
            is_spelled_out,
            last_of: OnceCell::new(),
        }
    }

    /// Returns the rest of a line behind all fields of the format; `None` if the line does not have all of them.
    pub(super) fn behind_all(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        match &self.format {
            LineFormat::Text(plan) | LineFormat::Columns(Ok(plan)) => {
                plan.template.behind_all(without_prefix(content(line)))
            }
            LineFormat::Columns(Err(_)) => None,
            LineFormat::Json(_) => Some(b""),
        }
    }

    #[inline]
    pub(super) fn read(&mut self, line: &'l [u8]) -> Result<LineRead<'l>, Reason> {
        let line = content(line);
        if line.is_empty() {
            return Ok(LineRead::Nothing);
        }
        if let (LineFormat::Columns(_), b'#') = (&self.format, line[0]) {
            return self.format.take_columns(line, self.asked).map(|()| LineRead::Nothing);
        }
        let behind = without_prefix(line);
        if behind.is_empty() {
            return Ok(LineRead::Nothing);
        }
        let read = self.read_as_it_is(behind);
        // If the format was given as a pattern, a text that looks like a prefix may belong to the format.
        if behind.len() == line.len() || !self.is_spelled_out || self.has_address(&read) {
            return read;
        }
        let whole = self.read_as_it_is(line);
        if whole.is_ok() && (read.is_err() || self.has_address(&whole)) { whole } else { read }
    }

    /// Returns the first list of addresses of which only the last address was used.
    pub(super) fn last_of(self) -> Option<Box<[u8]>> {
        self.last_of.into_inner()
    }

    /// Returns whether a time was local, without a zone.
    pub(super) fn saw_local(&self) -> bool {
        self.clock.saw_local
    }

    /// Returns whether a line was read and has an address for the client. A format without a client needs no address.
    fn has_address(&self, read: &Result<LineRead<'l>, Reason>) -> bool {
        let client = match &self.format {
            LineFormat::Text(plan) | LineFormat::Columns(Ok(plan)) => plan.client.as_ref(),
            LineFormat::Columns(Err(_)) | LineFormat::Json(_) => None,
        };
        let is_address = |client: &PartSource| {
            let text = client.text(&self.found);
            is_address_text(text) || is_chain(text)
        };
        read.is_ok() && client.is_none_or(is_address)
    }

    #[inline]
    fn read_as_it_is(&mut self, line: &'l [u8]) -> Result<LineRead<'l>, Reason> {
        match &self.format {
            LineFormat::Text(plan) | LineFormat::Columns(Ok(plan)) => {
                plan.template.read(line, plan.count, &mut self.found)?;
                if let Some(client) = &plan.client {
                    check_client(line, client.text(&self.found), plan, &self.found)?;
                }
                let values = TextValues { plan, found: &self.found, last_of: &self.last_of };
                let clock = &mut self.clock;
                read(self.asked, |place, _| values.part(place), || values.time(clock))
            }
            LineFormat::Columns(Err(reason)) => Err(reason.clone()),
            LineFormat::Json(format) => {
                let line = JsonLine::parse(line, format)?;
                let part = |_, key: &LineKey| Ok(Cow::Owned(line.part(key)?.into_bytes()));
                let clock = &mut self.clock;
                read(self.asked, part, || line.time(self.asked.time_field.as_deref(), clock))
            }
        }
    }
}

/// Refuses a line in which a prefix was taken for the client: the client is no address, but an address follows before
/// the time and before the first quote.
#[inline]
fn check_client(
    line: &[u8],
    client: &[u8],
    plan: &LinePlan,
    found: &[&[u8]],
) -> Result<(), Reason> {
    // A cheap test accepts IPv4 addresses.
    if client.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') {
        return Ok(());
    }
    client_behind(line, client, plan, found)
}

fn client_behind(
    line: &[u8],
    client: &[u8],
    plan: &LinePlan,
    found: &[&[u8]],
) -> Result<(), Reason> {
    if is_address_text(client) || is_chain(client) {
        return Ok(());
    }
    // All parts are slices of the line, so their pointers show where in the line they are.
    let place = |part: &[u8]| part.as_ptr() as usize - line.as_ptr() as usize;
    let from = place(client) + client.len();
    let times = plan.template.time().fields.iter().map(|&index| place(found[index]));
    let quote = memchr::memchr(b'"', &line[from..]).map_or(line.len(), |at| from + at);
    let to = times.filter(|&at| at >= from).min().unwrap_or(line.len()).min(quote);
    let words = line[from..to].split(|byte| b" \t,|()[]".contains(byte));
    match words.into_iter().find(|word| is_address_text(word)) {
        Some(later) => Err(Reason::client_behind(client, later, plan.template.name())),
        None => Ok(()),
    }
}

/// Returns the line without a byte order mark, which some editors write at the start of a file.
pub(super) fn content(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii_start()
}

/// Returns the key and the time of a line, unless a condition leaves it out.
#[inline]
fn read<'l>(
    asked: &Asked,
    part: impl Fn(usize, &LineKey) -> Result<Cow<'l, [u8]>, Reason>,
    time: impl FnOnce() -> Result<u64, Reason>,
) -> Result<LineRead<'l>, Reason> {
    let keys = asked.wanted.keys();
    for (place, condition) in (keys.len()..).zip(&asked.conditions) {
        if !condition.holds(&part(place, condition.key())?)? {
            return Ok(LineRead::LeftOut);
        }
    }
    let key = asked.wanted.gather(|place| part(place, &keys[place]))?;
    Ok(LineRead::Request(time()?, key))
}

/// The fields of a line of a text format.
struct TextValues<'v, 'l> {
    plan: &'v LinePlan,
    found: &'v [&'l [u8]],
    last_of: &'v OnceCell<Box<[u8]>>,
}

impl<'l> TextValues<'_, 'l> {
    #[inline]
    fn part(&self, place: usize) -> Result<Cow<'l, [u8]>, Reason> {
        let source = self.plan.sources[place].as_ref().map_err(Clone::clone)?;
        let field = self.found[source.index];
        let text = source.cut.of(field);
        if source.cut == Cut::LastOfList && text.len() < field.len() && self.last_of.get().is_none()
        {
            // The `OnceCell` was empty, so `set` succeeds.
            let _ = self.last_of.set(field.into());
        }
        match source.forwarded {
            Some(index) => Ok(Cow::Owned([self.found[index], text].join(&b", "[..]))),
            None => Ok(Cow::Borrowed(text)),
        }
    }

    #[inline]
    fn time(&self, clock: &mut ClfTimeReader) -> Result<u64, Reason> {
        let WrittenTime { form, fields } = self.plan.template.time();
        match fields[..] {
            [index] => form.read(self.found[index], clock),
            _ => {
                let parts: Vec<_> = fields.iter().map(|index| self.found[*index]).collect();
                form.read(&parts.join(&b' '), clock)
            }
        }
    }
}

/// Returns the lines of a block, without their ends.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut ends = memchr::memchr_iter(b'\n', bytes);
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = ends.next().unwrap_or(bytes.len());
        // If nothing follows the last newline, there is no further line.
        let line = bytes.get(start..end).filter(|line| end < bytes.len() || !line.is_empty())?;
        start = end + 1;
        Some(line.trim_ascii_end())
    })
}
