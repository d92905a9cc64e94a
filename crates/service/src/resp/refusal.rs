//! [`RespRefusal`]: the reason why a request is not decided. The connection stays open.

use std::fmt;

use tollgate_rules::{PaceError, RequestError};

/// The maximum length of the text that an error repeats from a request.
const MAX_REPEATED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespRefusal<'a> {
    /// The request does not have the words that the command takes.
    Words {
        command: &'static str,
        takes: &'static str,
    },
    Unknown(&'a [u8]),
    UnknownPart {
        command: &'static str,
        part: &'a [u8],
    },
    /// An argument that is not a whole number from `least` to `most`.
    Number {
        name: &'static str,
        found: &'a [u8],
        least: i64,
        most: i64,
    },
    /// An argument that is not UTF-8.
    Text {
        name: &'static str,
        found: &'a [u8],
    },
    Database(&'a [u8]),
    Pace(PaceError),
    Request(RequestError),
    /// A limit that comes with the request cannot be kept in Redis, where this service keeps its limits.
    InRedis {
        command: &'static str,
    },
}

impl fmt::Display for RespRefusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words { command, takes } => {
                write!(f, "wrong number of arguments for '{command}' command; it takes {takes}")
            }
            Self::Unknown(name) => write!(f, "unknown command '{}'", Repeated(name)),
            Self::UnknownPart { command, part } => {
                write!(f, "unknown subcommand '{}' of {command}", Repeated(part))
            }
            Self::Number { name, found, least, most } => {
                write!(f, "{name} '{}' is no whole number from {least} to {most}", Repeated(found))
            }
            Self::Text { name, found } => write!(f, "{name} '{}' is no UTF-8", Repeated(found)),
            Self::Database(found) => {
                write!(f, "there is no database '{}'; select 0", Repeated(found))
            }
            Self::Pace(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::InRedis { command } => write!(
                f,
                "{command} counts in this process alone, and the limits of this service are in Redis; ask by rules, \
                 with TOLLGATE.CHECK"
            ),
        }
    }
}

/// A client's words as text without line breaks, shortened if they are long.
struct Repeated<'a>(&'a [u8]);

impl fmt::Display for Repeated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(MAX_REPEATED)];
        shown.escape_ascii().fmt(f)?;
        if shown.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}
