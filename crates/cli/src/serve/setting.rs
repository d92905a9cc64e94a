//! [`SettingSource`]: where a value comes from; and the errors of refused values.

use std::fmt;
use std::path::PathBuf;

use tollgate_service::AddressError;

use super::environment::BadVariable;
use super::settings_file::FileError;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingSource {
    Default,
    Flag(String),
    /// One of Tollgate's own variables.
    Variable(String),
    /// One or several variables of envoyproxy/ratelimit.
    Envoyproxy(&'static str),
    Line {
        file: PathBuf,
        line: usize,
    },
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Flag(name) => f.write_str(name),
            Self::Variable(name) => f.write_str(name),
            Self::Envoyproxy(name) => f.write_str(name),
            Self::Line { file, line } => write!(f, "{}:{line}", file.display()),
        }
    }
}

/// The reason why the service cannot be started with these settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingError {
    Variable(BadVariable),
    File(FileError),
    Value(Box<BadValue>),
    /// No setting names the rules.
    NoRules,
    /// The address of the rules is neither that of a Redis nor that of a control plane.
    Address(AddressError),
    /// A setting is given without another one that it needs, such as a certificate without a key.
    Half {
        found: String,
        missing: String,
    },
}

/// A value that its flag does not take, from one of Tollgate's own variables or from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadValue {
    pub(super) name: String,
    pub(super) source: SettingSource,
    pub(super) found: String,
    pub(super) reason: Option<String>,
    pub(super) accepted: String,
}

impl From<BadVariable> for SettingError {
    fn from(error: BadVariable) -> Self {
        Self::Variable(error)
    }
}

impl From<FileError> for SettingError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Value(error) => error.fmt(f),
            Self::NoRules => f.write_str(
                "no setting says where rules are; give --rules DIR, TOLLGATE_RULES or rules = \"DIR\" in the file of \
                 --config, or set RUNTIME_ROOT or RUNTIME_SUBDIRECTORY in the environment",
            ),
            Self::Address(error) => error.fmt(f),
            Self::Half { found, missing } => {
                write!(f, "{found} is given without {missing}; give both")
            }
        }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, source, found, reason, accepted } = self;
        let found = found.escape_debug();
        match source {
            SettingSource::Line { .. } => write!(f, "{source}: {name} is '{found}'")?,
            _ => write!(f, "{source} is '{found}' in the environment")?,
        }
        if let Some(reason) = reason {
            write!(f, ": {reason}")?;
        }
        write!(f, "; use {accepted}")
    }
}

/// Returns the error for a bad value of a variable of envoyproxy/ratelimit.
pub(super) fn bad(name: &'static str, found: &str, accepted: &'static str) -> SettingError {
    BadVariable { name, found: found.to_owned(), accepted }.into()
}
