//! [`Template`]: the lines of a text format, as fields with texts between them.
//!
//! ```text
//! $remote_addr - $remote_user [$time_local] "$request" ...
//! ```
//!
//! Every text format is a template: those with a name, those that are written on the command line, and the columns that
//! a `#Fields` line names. A field ends where the text behind it in the format begins. Only the needed fields are read:
//! if the key is the address, nothing behind the time is read, so anything may follow.

use std::fmt;

use super::Reason;
use super::field::{FieldKind, FormatField};
use super::marker::Marker;
use super::time_form::{TimeField, TimeForm, WrittenTime};
use crate::replay::chain::is_address_text;

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FormatToken {
    Text(String),
    /// A blank or a tab.
    Blank,
    Field(FormatField),
}

/// The reason why a list of fields and texts is no format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplateError {
    /// Two fields with nothing in between, which cannot be told apart.
    Adjacent { first: String, second: String },
    /// No time, or none that has both a date and a clock time.
    NoTime,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adjacent { first, second } => write!(
                f,
                "nothing stands between {first} and {second}, so nothing tells where one ends; put a text \
                 between them"
            ),
            Self::NoTime => f.write_str(
                "no time of a date and a clock time is in it; have one, such as $time_local, %t or %START_TIME%",
            ),
        }
    }
}

impl std::error::Error for TemplateError {}

/// The end of a field.
#[derive(Clone, Debug)]
enum FieldEnd {
    Text(Marker),
    Blank,
    /// The end of the line, or a blank if nothing encloses the field.
    Line,
}

#[derive(Clone, Debug)]
struct TemplateField {
    field: FormatField,
    end: FieldEnd,
    /// Whether neither quotes nor brackets enclose the field, so that it has no blanks.
    is_bare: bool,
    /// Whether the field is bare and does not end at a blank, so that its text has to be searched for blanks.
    may_catch_blanks: bool,
}

/// A text format that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// The name of the format, for messages.
    name: String,
    lead: Vec<u8>,
    fields: Vec<TemplateField>,
    time: WrittenTime,
}

impl Template {
    pub(super) fn new(name: &str, tokens: Vec<FormatToken>) -> Result<Self, TemplateError> {
        let mut template = Self {
            name: name.to_owned(),
            lead: Vec::new(),
            fields: Vec::new(),
            time: WrittenTime { form: TimeForm::Zoned, fields: Vec::new() },
        };
        for token in tokens {
            template.push(token)?;
        }
        for field in &mut template.fields {
            field.may_catch_blanks = field.is_bare
                && matches!(&field.end, FieldEnd::Text(marker) if marker.text() != b" ");
        }
        let fields = template.fields.iter().enumerate();
        let parts: Vec<TimeField<'_>> = fields
            .filter_map(|(index, field)| match &field.field.kind {
                FieldKind::Time(part) => Some(TimeField { index, part }),
                _ => None,
            })
            .collect();
        let time = WrittenTime::of(&parts).filter(|time| time.form.is_complete());
        Ok(Self { time: time.ok_or(TemplateError::NoTime)?, ..template })
    }

    fn push(&mut self, token: FormatToken) -> Result<(), TemplateError> {
        let last = self.fields.last_mut();
        match (token, last) {
            (FormatToken::Text(text), None) => self.lead.extend_from_slice(text.as_bytes()),
            (FormatToken::Text(text), Some(last)) => {
                let before = match &last.end {
                    FieldEnd::Text(marker) => marker.text(),
                    FieldEnd::Blank | FieldEnd::Line => b"",
                };
                if let Some(marker) = Marker::new(&[before, text.as_bytes()].concat()) {
                    last.end = FieldEnd::Text(marker);
                }
            }
            (FormatToken::Blank, None) => {}
            (FormatToken::Blank, Some(last)) => last.end = FieldEnd::Blank,
            (FormatToken::Field(field), None) => self.add(field, b""),
            (FormatToken::Field(field), Some(last)) => match &last.end {
                FieldEnd::Text(marker) => {
                    let before = marker.text().to_vec();
                    self.add(field, &before);
                }
                FieldEnd::Blank => self.add(field, b" "),
                // The query directly follows the path and is read with it. Keys leave it out.
                FieldEnd::Line if field.kind == FieldKind::Query => {}
                FieldEnd::Line => {
                    let first = last.field.name.clone();
                    return Err(TemplateError::Adjacent { first, second: field.name });
                }
            },
        }
        Ok(())
    }

    fn add(&mut self, field: FormatField, before: &[u8]) {
        let has_blank = before.last().is_none_or(|&b| b == b' ');
        let is_bare = has_blank && !field.kind.may_have_blanks();
        self.fields.push(TemplateField {
            field,
            end: FieldEnd::Line,
            is_bare,
            may_catch_blanks: false,
        });
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = &FormatField> + Clone {
        self.fields.iter().map(|field| &field.field)
    }

    pub(super) fn time(&self) -> &WrittenTime {
        &self.time
    }

    /// Reads the first `count` fields of a line, and returns the rest behind them.
    pub(super) fn read<'l>(
        &self,
        line: &'l [u8],
        count: usize,
        found: &mut Vec<&'l [u8]>,
    ) -> Result<&'l [u8], Reason> {
        found.clear();
        let mut rest = line;
        // Most formats begin with a field. For these the test saves a call that would compare with an empty text.
        if !self.lead.is_empty() {
            let no_lead = || Reason::no_text(&self.lead, None, &self.name);
            rest = line.strip_prefix(&*self.lead).ok_or_else(no_lead)?;
        }
        let mut is_cut = false;
        for field in self.fields.iter().take(count) {
            if is_cut {
                return Err(Reason::ended(&field.field.name, &self.name));
            }
            if field.field.kind == FieldKind::Padded {
                rest = rest.trim_ascii_start();
            }
            let (mut text, mut after) =
                field.split(rest).ok_or_else(|| self.reason(field, rest))?;
            if field.is_bare && text.ends_with(b",") {
                (text, after) = field.chain(rest, text, after);
                if !field.field.kind.may_be_chain() && is_address_text(&text[..text.len() - 1]) {
                    return Err(Reason::part_of_chain(text, &field.field.name, &self.name));
                }
            }
            if field.may_catch_blanks && has_blank(text, field) {
                return Err(Reason::blank_inside(text, &field.field.name, &self.name));
            }
            found.push(text);
            is_cut = after.is_none();
            rest = after.unwrap_or_default();
        }
        Ok(rest)
    }

    /// Returns the rest of a line behind all fields; `None` if the line does not have all of them.
    pub(super) fn behind_all<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        self.read(line, self.fields.len(), &mut Vec::new()).ok()
    }

    /// Returns the reason why a field has no end.
    #[cold]
    fn reason(&self, field: &TemplateField, rest: &[u8]) -> Reason {
        let name = &field.field.name;
        match &field.end {
            _ if rest.is_empty() => Reason::ended(name, &self.name),
            FieldEnd::Text(marker) => Reason::no_text(marker.text(), Some(name), &self.name),
            FieldEnd::Blank | FieldEnd::Line => Reason::no_text(b" ", Some(name), &self.name),
        }
    }
}

/// Returns whether a text has a blank, except between the addresses of a chain.
fn has_blank(text: &[u8], field: &TemplateField) -> bool {
    let may_be_chain = field.field.kind.may_be_chain();
    let mut blanks = memchr::memchr_iter(b' ', text);
    blanks.any(|at| !(may_be_chain && text[..at].ends_with(b",")))
}

impl TemplateField {
    /// Joins a text that ends with a comma with the next one, since proxies write a blank behind the comma.
    #[cold]
    fn chain<'l>(
        &self,
        rest: &'l [u8],
        mut text: &'l [u8],
        mut after: Option<&'l [u8]>,
    ) -> (&'l [u8], Option<&'l [u8]>) {
        while self.field.kind.may_be_chain() && text.ends_with(b",") {
            let Some(behind) = after.map(<[u8]>::trim_ascii_start) else { break };
            let Some((next, after_next)) = self.split(behind) else { break };
            let start = rest.len() - behind.len();
            text = &rest[..start + next.len()];
            after = after_next;
        }
        (text, after)
    }

    /// Returns the text of the field and the rest behind it. There is no rest if the line ends in the field, or in the
    /// text behind it.
    #[inline]
    fn split<'l>(&self, rest: &'l [u8]) -> Option<(&'l [u8], Option<&'l [u8]>)> {
        let marker = match &self.end {
            FieldEnd::Text(marker) => marker,
            FieldEnd::Blank => {
                if let Some((text, behind)) = quoted(rest) {
                    return Some((text, behind));
                }
                let end = memchr::memchr2(b' ', b'\t', rest);
                return Some(
                    end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..]))),
                );
            }
            FieldEnd::Line => {
                let end = if self.is_bare { memchr::memchr2(b' ', b'\t', rest) } else { None };
                return Some(end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end..]))));
            }
        };
        let needle = marker.text();
        let is_quoted = needle[0] == b'"';
        let mut from = 0;
        while let Some(found) = marker.find(&rest[from..]) {
            let end = from + found;
            if !is_quoted || !is_escaped(&rest[..end]) {
                return Some((&rest[..end], Some(&rest[end + needle.len()..])));
            }
            from = end + 1;
        }
        Self::cut_off(rest, needle)
    }

    /// Returns the text of a field if the text that ends it is missing from the line, or is there only in part.
    #[cold]
    fn cut_off<'l>(rest: &'l [u8], needle: &[u8]) -> Option<(&'l [u8], Option<&'l [u8]>)> {
        let is_quoted = needle[0] == b'"';
        let ends_in = |length: &usize| rest.ends_with(&needle[..*length]);
        match (1..needle.len()).rev().find(ends_in) {
            Some(length) => Some((&rest[..rest.len() - length], None)),
            // Some servers and collectors cut long lines, mostly within a long header.
            None if is_quoted && !rest.is_empty() => Some((rest, None)),
            None => None,
        }
    }
}

/// Returns the text of a quoted column, and the rest behind its blank; `None` if the column is not quoted. A quote
/// within the text is doubled.
fn quoted(rest: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let inner = rest.strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'"', &inner[from..])?;
        match inner.get(end + 1) {
            None => return Some((&inner[..end], None)),
            Some(b' ' | b'\t') => return Some((&inner[..end], Some(&inner[end + 2..]))),
            Some(b'"') => from = end + 2,
            Some(_) => from = end + 1,
        }
    }
}

/// Returns whether the character after this text is escaped by a backslash.
fn is_escaped(text: &[u8]) -> bool {
    text.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}
