//! [`LineReader`]: reads the lines of a block, one after the other.

use std::borrow::Cow;

use super::Reason;
use super::asked::Asked;
use super::format::{LineFormat, LinePlan};
use super::json::JsonLine;
use super::syslog;
use super::time::ClfTimeReader;
use crate::replay::key::LineKey;

/// What a line is.
pub(super) enum LineRead<'l> {
    /// A request: its time, and its key as it is spelled.
    Request(u64, Cow<'l, [u8]>),
    /// What a condition leaves out.
    LeftOut,
    /// A blank line, or one about the file.
    Nothing,
}

/// What is kept from line to line.
pub(super) struct LineReader<'p, 'l> {
    asked: &'p Asked,
    format: LineFormat,
    clock: ClfTimeReader,
    /// The fields of the line.
    found: Vec<&'l [u8]>,
}

impl<'p, 'l> LineReader<'p, 'l> {
    pub(super) fn new(asked: &'p Asked, format: LineFormat) -> Self {
        Self { asked, format, clock: ClfTimeReader::default(), found: Vec::new() }
    }

    /// What a line that has all that the format has is followed by.
    pub(super) fn behind_all(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        match &self.format {
            LineFormat::Text(plan) | LineFormat::Columns(Ok(plan)) => {
                plan.template.behind_all(syslog::without_header(content(line)))
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
        let line = syslog::without_header(line);
        match &self.format {
            LineFormat::Text(plan) | LineFormat::Columns(Ok(plan)) => {
                plan.template.read(line, plan.count, &mut self.found)?;
                let values = TextValues { plan, found: &self.found };
                let clock = &mut self.clock;
                read(self.asked, |place, _| values.part(place), || values.time(clock))
            }
            LineFormat::Columns(Err(reason)) => Err(reason.clone()),
            LineFormat::Json(format) => {
                let line = JsonLine::parse(line, format)?;
                let part = |_, key: &LineKey| Ok(Cow::Owned(line.part(key)?.into_bytes()));
                read(self.asked, part, || line.time(self.asked.time_field.as_deref()))
            }
        }
    }
}

/// Some editors write a byte order mark at the start of a file.
fn content(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii_start()
}

/// The key and the time of a line, unless a condition leaves it out.
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
}

impl<'l> TextValues<'_, 'l> {
    #[inline]
    fn part(&self, place: usize) -> Result<Cow<'l, [u8]>, Reason> {
        let (index, cut) = self.plan.sources[place].as_ref().map_err(Clone::clone)?;
        Ok(Cow::Borrowed(cut.of(self.found[*index])))
    }

    #[inline]
    fn time(&self, clock: &mut ClfTimeReader) -> Result<u64, Reason> {
        let (form, indices) = self.plan.template.time();
        match indices {
            [index] => form.read(self.found[*index], clock),
            _ => {
                let parts: Vec<_> = indices.iter().map(|index| self.found[*index]).collect();
                form.read(&parts.join(&b' '), clock)
            }
        }
    }
}

/// The lines of a block, without what ends them.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut ends = memchr::memchr_iter(b'\n', bytes);
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = ends.next().unwrap_or(bytes.len());
        // Nothing follows the last newline.
        let line = bytes.get(start..end).filter(|line| end < bytes.len() || !line.is_empty())?;
        start = end + 1;
        Some(line.trim_ascii_end())
    })
}
