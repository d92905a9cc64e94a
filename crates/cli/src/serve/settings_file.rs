//! [`SettingsFile`]: the lines of an optional TOML file, whose keys are flags without their hyphens.
//!
//! The file is not parsed into a struct, for two reasons. Each value keeps the number of its line, which every error
//! and `--print-config` name. And an unknown key can be compared with all flags, to find the one that may be meant.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

/// The maximum size of a file. There are some fifty settings, so a larger file cannot be a file of settings.
const MAX_BYTES: usize = 1 << 20;

/// The values of a file, by their keys.
#[derive(Clone, Debug)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) entries: BTreeMap<String, Entry>,
}

/// The values of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Counted from 1.
    pub(super) line: usize,
    /// The values as they would be written behind the flag.
    pub(super) texts: Vec<String>,
    pub(super) is_list: bool,
}

/// The reason why a file of settings is refused. It does not quote lines of the file, which may
/// contain a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileError {
    pub(super) file: PathBuf,
    pub(super) line: Option<usize>,
    pub(super) problem: FileProblem,
}

/// The problem of a file of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileProblem {
    Unreadable {
        reason: String,
    },
    TooLarge,
    /// The file is not TOML.
    Syntax {
        reason: String,
    },
    UnknownKey {
        key: String,
        meant: Option<String>,
    },
    /// A key that occurs twice, such as `linger_stop` and `linger-stop`.
    Twice {
        key: String,
        first_line: usize,
    },
    /// A value that is a table or a date.
    Kind {
        key: String,
    },
    /// Several values for a flag that takes one.
    List {
        key: String,
    },
}

impl SettingsFile {
    /// Reads the file. Does not check whether its keys are settings.
    pub(super) fn read(path: &Path) -> Result<Self, FileError> {
        let refused = |problem| FileError { file: path.to_owned(), line: None, problem };
        let unreadable =
            |error: std::io::Error| refused(FileProblem::Unreadable { reason: error.to_string() });
        let mut text = String::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() > MAX_BYTES {
            return Err(refused(FileProblem::TooLarge));
        }
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, FileError> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let refused = |at: Option<usize>, problem| FileError {
            file: path.to_owned(),
            line: at.map(line),
            problem,
        };
        let table = DeTable::parse(text).map_err(|error| {
            let reason = error.message().replace('\n', ", ");
            refused(error.span().map(|span| span.start), FileProblem::Syntax { reason })
        })?;
        let mut entries = BTreeMap::<String, Entry>::new();
        for (key, value) in table.into_inner() {
            let (at, key) = (key.span().start, key.into_inner().replace('_', "-"));
            let Some((texts, is_list)) = texts(value.get_ref()) else {
                return Err(refused(Some(at), FileProblem::Kind { key }));
            };
            let entry = Entry { line: line(at), texts, is_list };
            if let Some(other) = entries.insert(key.clone(), entry) {
                let (first, at) = (other.line.min(line(at)), other.line.max(line(at)));
                let problem = FileProblem::Twice { key, first_line: first };
                return Err(FileError { file: path.to_owned(), line: Some(at), problem });
            }
        }
        Ok(Self { path: path.to_owned(), entries })
    }

    /// Returns the error for a problem in one of its lines.
    pub(super) fn refused(&self, line: usize, problem: FileProblem) -> FileError {
        FileError { file: self.path.clone(), line: Some(line), problem }
    }
}

/// Returns the values as they would be written behind a flag, and whether they are a list.
fn texts(value: &DeValue<'_>) -> Option<(Vec<String>, bool)> {
    match value {
        DeValue::Array(values) => {
            let all = values.iter().map(|value| single(value.get_ref()));
            Some((all.collect::<Option<_>>()?, true))
        }
        value => Some((vec![single(value)?], false)),
    }
}

fn single(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        // A number that does not fit in 128 bits stays as it is, and is refused by its flag.
        DeValue::Integer(number) => Some(
            i128::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.to_string(), |number| number.to_string()),
        ),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.problem {
            FileProblem::Unreadable { reason } => {
                write!(f, ": cannot be read: {reason}; give a file in TOML, as in poll = 30")
            }
            FileProblem::TooLarge => {
                write!(f, ": is larger than {MAX_BYTES} bytes; give a file with settings alone")
            }
            FileProblem::Syntax { reason } => {
                write!(
                    f,
                    ": is no TOML: {reason}; write lines as in poll = 30 or http = \"[::1]:80\""
                )
            }
            FileProblem::UnknownKey { key, meant: Some(meant) } => {
                write!(f, ": there is no setting '{}'; did you mean {meant}?", key.escape_debug())
            }
            FileProblem::UnknownKey { key, meant: None } => write!(
                f,
                ": there is no setting '{}'; keys are flags of tollgate serve without their hyphens, as in \
                 log-level for --log-level",
                key.escape_debug()
            ),
            FileProblem::Twice { key, first_line } => {
                write!(f, ": {key} is in line {first_line} already; leave one of them out")
            }
            FileProblem::Kind { key } => write!(
                f,
                ": '{}' is a table or a date; give a text, a number, true, false, or a list of these",
                key.escape_debug()
            ),
            FileProblem::List { key } => write!(f, ": {key} is a list; give one value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<SettingsFile, String> {
        SettingsFile::parse(Path::new("t.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_read_as_it_would_be_written_behind_the_flag() {
        let text = "# one\npoll = 1_000\nhttp = 'a:1'\nshadow = true\nratio = 0.5\n\
                    state_every = 0x10\nadmin-host = [\n  'a',\n  \"b\",\n]\n";
        let file = parsed(text).expect("good");
        let found: Vec<_> = file.entries.iter().map(|(key, entry)| (key.as_str(), entry)).collect();
        let entry = |line, texts: &[&str], is_list| Entry {
            line,
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            is_list,
        };
        assert_eq!(
            found,
            [
                ("admin-host", &entry(7, &["a", "b"], true)),
                ("http", &entry(3, &["a:1"], false)),
                ("poll", &entry(2, &["1000"], false)),
                ("ratio", &entry(5, &["0.5"], false)),
                ("shadow", &entry(4, &["true"], false)),
                ("state-every", &entry(6, &["16"], false)),
            ]
        );
    }

    #[test]
    fn what_is_no_setting_is_refused_by_its_line_and_never_quoted() {
        for (text, says) in [
            ("a = 1\nb = = 2", "t.toml:2: is no TOML: "),
            ("a = 1\nresp-password = secret", "t.toml:2: is no TOML: "),
            ("a = 1\n\na = 2", "t.toml:3: is no TOML: "),
            ("a_b = 1\n\na-b = 2", "t.toml:3: a-b is in line 1 already; leave one of them out"),
            ("[http]\naddress = 1", "t.toml:1: 'http' is a table or a date; give a text, a number"),
            ("a = [[1]]", "t.toml:1: 'a' is a table or a date; give a text"),
            ("a = 1979-05-27", "t.toml:1: 'a' is a table or a date; give a text"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.starts_with(says) && !error.contains("secret"), "{error}");
        }
    }
}
