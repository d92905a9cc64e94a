//! [`Position`]: the line and the column of a place in a rule file.

use std::fmt;
use std::sync::Arc;

/// A place in a rule file.
///
/// ```
/// use tollgate_rules::Position;
/// assert_eq!(Position { line: 3, column: 5 }.to_string(), "3:5");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The file and the position of an entry, with its name.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) file: Arc<str>,
    pub(crate) at: Position,
    /// The key and the value of the entry, as in a rule's path.
    pub(crate) name: Box<str>,
}
