//! [`FormatChoice`], the value of `--format`; and [`FileFormat`], the format of a file as it is
//! read.

use std::str::FromStr;
use std::sync::Arc;

use super::Reason;
use super::asked::Asked;
use super::dialect::{self, DialectError, columns_tokens};
use super::field::{self, PartSource};
use super::json::JsonFormat;
use super::named::{LineShape, NAMED, NamedFormat};
use super::template::Template;
use crate::replay::clients::ClientsBy;
use crate::replay::key::LineKey;

/// The name, in reports, of a format that was given as a pattern.
pub(super) const CUSTOM: &str = "custom";

/// The beginning of the line that names columns.
pub(super) const COLUMNS: &[u8] = b"#Fields:";

/// The formats that a file may have. If there are several, its first lines decide between them.
#[derive(Clone, Debug)]
pub(crate) struct FormatChoice(pub(super) Vec<ChosenFormat>);

/// A format that a file may have.
#[derive(Clone, Debug)]
pub(super) struct ChosenFormat {
    pub(super) name: &'static str,
    pub(super) shape: ChosenShape,
}

/// The structure of a format's lines.
#[derive(Clone, Debug)]
pub(super) enum ChosenShape {
    Text(Template),
    /// The columns of the last `#Fields` line, or these columns before the first such line.
    Columns(Option<Template>),
    Json(&'static JsonFormat),
}

impl FromStr for FormatChoice {
    type Err = DialectError;

    fn from_str(text: &str) -> Result<Self, DialectError> {
        let named = NAMED.iter().filter(|format| text == "auto" || format.is_called(text));
        let named: Vec<_> = named.map(ChosenFormat::named).collect::<Result<_, _>>()?;
        if !named.is_empty() {
            return Ok(Self(named));
        }
        let template = dialect::template(CUSTOM, text)?;
        let shape = match text.starts_with("#Fields:") {
            true => ChosenShape::Columns(Some(template)),
            false => ChosenShape::Text(template),
        };
        Ok(Self(vec![ChosenFormat { name: CUSTOM, shape }]))
    }
}

impl ChosenFormat {
    fn named(format: &NamedFormat) -> Result<Self, DialectError> {
        let shape = match &format.shape {
            LineShape::Text(text) => ChosenShape::Text(dialect::template(format.name, text)?),
            LineShape::Columns => ChosenShape::Columns(None),
            LineShape::Json(format) => ChosenShape::Json(format),
        };
        Ok(Self { name: format.name, shape })
    }

    /// Returns the format of a file, prepared to read the parts that are asked for.
    pub(super) fn of_file(&self, asked: &Asked) -> FileFormat {
        let plan = |template: &Template| Arc::new(LinePlan::new(template.clone(), &asked.parts));
        let lines = match &self.shape {
            ChosenShape::Text(template) => LineFormat::Text(plan(template)),
            ChosenShape::Columns(Some(template)) => LineFormat::Columns(Ok(plan(template))),
            ChosenShape::Columns(None) => LineFormat::Columns(Err(Reason::no_columns())),
            ChosenShape::Json(format) => LineFormat::Json(format),
        };
        FileFormat { name: self.name, lines }
    }
}

/// The places of the parts of a line in a text format.
#[derive(Debug)]
pub(super) struct LinePlan {
    pub(super) template: Template,
    /// The number of fields that have to be read.
    pub(super) count: usize,
    /// The source of each part.
    pub(super) sources: Vec<Result<PartSource, Reason>>,
    /// The field of the client, if it is among the fields that are read.
    pub(super) client: Option<PartSource>,
}

impl LinePlan {
    fn new(template: Template, parts: &[LineKey]) -> Self {
        let source = |key: &LineKey| {
            field::source(key, template.fields()).ok_or_else(|| {
                let fields: Vec<_> = template.fields().collect();
                Reason::not_in_format(key.name(), template.name(), &field::names(&fields))
            })
        };
        let sources: Vec<_> = parts.iter().map(source).collect();
        let needed = sources.iter().flatten().flat_map(PartSource::indices);
        let needed = needed.chain(template.time().fields.iter().copied());
        let count = needed.max().map_or(0, |last| last + 1);
        let client = field::source(&LineKey::Ip(ClientsBy::EACH), template.fields());
        let client = client.filter(|source| source.index < count);
        // If no parts are asked for, only the time is needed.
        let client = client.filter(|_| !parts.is_empty());
        Self { template, count, sources, client }
    }
}

/// The format of a file.
#[derive(Clone, Debug)]
pub(super) struct FileFormat {
    pub(super) name: &'static str,
    pub(super) lines: LineFormat,
}

/// The way to read the lines of a file.
#[derive(Clone, Debug)]
pub(super) enum LineFormat {
    Text(Arc<LinePlan>),
    /// Columns, which are read by the plan of the last `#Fields` line.
    Columns(Result<Arc<LinePlan>, Reason>),
    Json(&'static JsonFormat),
}

impl LineFormat {
    /// Takes over the columns that a line names, if this is a format with columns.
    pub(super) fn take_columns(&mut self, line: &[u8], asked: &Asked) -> Result<(), Reason> {
        let (Self::Columns(plan), Some(columns)) = (self, line.strip_prefix(COLUMNS)) else {
            return Ok(());
        };
        let tokens = columns_tokens(&String::from_utf8_lossy(columns));
        *plan = match Template::new("w3c", tokens) {
            Ok(template) => Ok(Arc::new(LinePlan::new(template, &asked.parts))),
            Err(error) => Err(Reason::bad_columns(&error)),
        };
        plan.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Returns whether the times are local, without a zone.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Text(plan) if plan.template.time().form.is_local())
    }
}

impl FileFormat {
    /// Returns a format that stands in for the real one as long as all lines are blank.
    pub(super) fn of_blank_lines() -> Self {
        Self { name: "", lines: LineFormat::Columns(Err(Reason::no_columns())) }
    }

    /// Returns the format at the end of a block, which may have named other columns.
    pub(super) fn behind(mut self, block: &[u8], asked: &Asked) -> Self {
        if let LineFormat::Columns(_) = self.lines {
            let is_start = |at: &usize| *at == 0 || block[at - 1] == b'\n';
            let starts = memchr::memmem::rfind_iter(block, COLUMNS);
            if let Some(start) = starts.into_iter().find(is_start) {
                let line = &block[start..];
                let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
                // If the columns cannot be read, every line after them reports that.
                let _ = self.lines.take_columns(line, asked);
            }
        }
        self
    }
}
