//! [`FormatChoice`], what `--format` says, and [`FileFormat`], the format of a file as it is read.

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

/// The name of a format that the command line spells out.
pub(super) const CUSTOM: &str = "custom";

/// What starts the line that names columns.
pub(super) const COLUMNS: &[u8] = b"#Fields:";

/// Which formats a file may have: one, or several of which its first lines choose.
#[derive(Clone, Debug)]
pub(crate) struct FormatChoice(pub(super) Vec<ChosenFormat>);

/// A format that a file may have.
#[derive(Clone, Debug)]
pub(super) struct ChosenFormat {
    pub(super) name: &'static str,
    pub(super) shape: ChosenShape,
}

/// How its lines are built.
#[derive(Clone, Debug)]
pub(super) enum ChosenShape {
    Text(Template),
    /// By the last `#Fields` line, or by these columns before the first.
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

    /// The format, to be read as it is asked.
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

/// Where the parts of a line are in a text format.
#[derive(Debug)]
pub(super) struct LinePlan {
    pub(super) template: Template,
    /// So many fields have to be read.
    pub(super) count: usize,
    /// Where each part is.
    pub(super) sources: Vec<Result<PartSource, Reason>>,
    /// The field of the client, if it is among those that are read.
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
        // Without parts the time is all that is asked for.
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

/// How the lines of a file are read.
#[derive(Clone, Debug)]
pub(super) enum LineFormat {
    Text(Arc<LinePlan>),
    /// With what the last `#Fields` line says.
    Columns(Result<Arc<LinePlan>, Reason>),
    Json(&'static JsonFormat),
}

impl LineFormat {
    /// Takes the columns that a line names, if this is a format with columns.
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

    /// Whether the times are local, and do not say of where.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Text(plan) if plan.template.time().form.is_local())
    }
}

impl FileFormat {
    /// For blank lines, before others have told the format.
    pub(super) fn of_blank_lines() -> Self {
        Self { name: "", lines: LineFormat::Columns(Err(Reason::no_columns())) }
    }

    /// The format as it is behind a block.
    pub(super) fn behind(mut self, block: &[u8], asked: &Asked) -> Self {
        if let LineFormat::Columns(_) = self.lines {
            let is_start = |at: &usize| *at == 0 || block[at - 1] == b'\n';
            let starts = memchr::memmem::rfind_iter(block, COLUMNS);
            if let Some(start) = starts.into_iter().find(is_start) {
                let line = &block[start..];
                let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
                // If they cannot be read, every line behind says so.
                let _ = self.lines.take_columns(line, asked);
            }
        }
        self
    }
}
