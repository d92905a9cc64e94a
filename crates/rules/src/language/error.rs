//! [`RuleError`]: the reason why a rule file was refused, with the place, the value that was found, and the values that
//! would be accepted.

mod texts;

use std::fmt::{self, Write};
use std::time::Duration;

use tollgate::{BuildError, ChangeError, PolicyError};

use crate::language::position::Position;

/// The reason why a rule file was refused, and the place.
///
/// ```
/// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
/// let cache = RuleCache::new(RuleSettings::default());
/// let text = RuleText::new("shop.yaml", "domain: shop\ndescriptors:\n  - kye: user\n");
/// let errors = cache.load(&[text]).unwrap_err();
/// assert!(errors[0].to_string().starts_with("shop.yaml:3:5: config error, unknown key 'kye'"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RuleError {
    /// The file, as its source names it.
    pub file: String,
    /// The position in the file, if the problem has one.
    pub at: Option<Position>,
    /// The problem.
    pub problem: Problem,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Escaped(f);
        match self.at {
            Some(at) => write!(line, "{}:{at}: {}", self.file, self.problem),
            None => write!(line, "{}: {}", self.file, self.problem),
        }
    }
}

/// Escapes control characters: the content and the name of a file end up in logs and terminals.
struct Escaped<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            self.0.write_str(plain)?;
            write!(self.0, "{}", part[plain.len()..].escape_debug())?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleError {}

/// The problem of a rule file. If envoyproxy/ratelimit has a message for the same problem, the words here are the same,
/// so that searches of logs still find them.
///
/// ```
/// use tollgate_rules::{Problem, RuleCache, RuleText, RuleSettings};
/// let text = "domain: shop\ndescriptors:\n  - {key: path, regex: '/users/(.*'}\n";
/// let cache = RuleCache::new(RuleSettings::default());
/// let errors = cache.load(&[RuleText::new("shop.yaml", text)]).unwrap_err();
/// assert!(matches!(errors[0].problem, Problem::BadExpression { .. }));
/// assert_eq!(
///     errors[0].to_string(),
///     "shop.yaml:3:24: regex '/users/(.*' cannot be used: unclosed group (at character 8)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The source could not be read.
    Unreadable {
        /// The system's error message.
        reason: String,
    },
    /// A directory without a rule file.
    NoFiles,
    /// More bytes than a file may have.
    TooLarge {
        /// The maximum number of bytes.
        most: usize,
    },
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// Invalid YAML.
    Syntax {
        /// The parser's message.
        reason: String,
    },
    /// Lists and maps are nested too deeply.
    TooDeep {
        /// The maximum depth.
        most: usize,
    },
    /// Too many values. The values of an alias are counted again each time it is used.
    TooManyNodes {
        /// The maximum number.
        most: usize,
    },
    /// An alias of an anchor that does not exist, or whose value is not complete yet.
    BadAlias,
    /// A second document in one file.
    SecondDocument,
    /// A value of the wrong kind, such as a list where a map is needed.
    Kind {
        /// The key of the value.
        key: &'static str,
        /// The kind that is needed.
        accepted: &'static str,
        /// The kind that was found.
        found: &'static str,
    },
    /// A list with an item that is not a map.
    NotAMap {
        /// The item.
        found: String,
    },
    /// A key that is a list or a map.
    KeyNotText,
    /// An unknown key.
    UnknownKey {
        /// The key.
        key: String,
        /// The keys that would be accepted.
        accepted: &'static [&'static str],
    },
    /// An object of Kubernetes in place of a rule file.
    Manifest {
        /// Its kind, such as `ConfigMap`.
        kind: String,
        /// The first of the files that it holds.
        file: Option<String>,
    },
    /// A map in place of a list, because no space follows the dash of an entry.
    DashWithoutBlank {
        /// The key, with its dash.
        key: String,
    },
    /// The same key twice in one map.
    DuplicateKey {
        /// The key.
        key: String,
        /// The position of its first occurrence.
        first: Position,
    },
    /// A value that its key does not accept.
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        found: String,
        /// The values that would be accepted.
        accepted: &'static str,
    },
    /// A required key is missing.
    Missing {
        /// The key, or the keys of which one is required.
        key: &'static str,
    },
    /// Two keys that exclude each other.
    Together {
        /// One of them.
        key: &'static str,
        /// The other one.
        with: &'static str,
    },
    /// A domain that is absent or empty.
    EmptyDomain,
    /// The same domain in two files that may not share it.
    DuplicateDomain {
        /// The domain.
        domain: String,
        /// The first file that has it.
        first: String,
    },
    /// A descriptor without a key.
    EmptyKey,
    /// Two descriptors that match the same requests.
    DuplicateDescriptor {
        /// The domain and the keys and values from the root, as `domain.key_value.key`.
        path: String,
        /// The position of the first of them, with the file if that is another file.
        first: String,
    },
    /// A unit of time that does not exist.
    BadUnit {
        /// The text that was found.
        unit: String,
    },
    /// A rule that is both unlimited and limited.
    UnlimitedUnit,
    /// An entry of `replaces` without a name.
    EmptyReplaces,
    /// A rule that replaces itself.
    ReplacesItself {
        /// Its name.
        name: String,
    },
    /// A network under `value`. Values are compared as texts, and no address is equal to the text of a network.
    LooksLikeRange {
        /// The value.
        value: String,
    },
    /// An entry that never matches, because an earlier entry matches all values that it would match. Its file is loaded
    /// all the same: see [`RuleSet::hidden`](crate::RuleSet::hidden).
    Hidden {
        /// The entry: key and value, as in a rule's path.
        entry: String,
        /// The entry that hides it.
        by: String,
        /// The position of the entry that hides it, with the file if that is another file.
        at: String,
    },
    /// A text that is not a regular expression, or is one that is not supported here.
    BadExpression {
        /// The text.
        found: String,
        /// The error in it.
        reason: String,
        /// The place of the error in the text, in characters from 1, if it has one.
        character: Option<usize>,
    },
    /// More regular expressions than rules may have.
    TooManyExpressions {
        /// The maximum number, in all files together.
        most: usize,
    },
    /// A text in `forward_auth` that names no part of a request.
    UnknownPart {
        /// The text.
        found: String,
        /// A known word that is close to the text's first word, and was probably meant.
        meant: Option<&'static str>,
    },
    /// A text in `forward_auth` in place of a header's name.
    BadHeader {
        /// The text.
        found: String,
    },
    /// The descriptors of `forward_auth` could be larger than a request may be.
    ForwardTooLarge {
        /// The largest number that the descriptors could have.
        found: usize,
        /// The largest number that a request may have.
        most: usize,
        /// The word for the things that are counted.
        of: &'static str,
    },
    /// A descriptor of `forward_auth` whose keys no rule of the domain has in this order. Its file is loaded all the
    /// same: see [`RuleSet::hidden`](crate::RuleSet::hidden).
    ForwardInVain {
        /// The keys, with commas between them.
        keys: String,
    },
    /// `share_threshold` in a descriptor that does not match several values.
    ShareWithoutWildcard,
    /// The core refuses the policy of the limit.
    Policy {
        /// The core's error.
        error: Box<PolicyError>,
    },
    /// The limit's table cannot be built.
    Table {
        /// The limit, as a policy's text.
        policy: String,
        /// The core's error.
        error: Box<BuildError>,
    },
    /// The limit in force cannot be changed to the limit of the file.
    Change {
        /// The limit, as a policy's text.
        policy: String,
        /// The core's error.
        error: Box<ChangeError>,
    },
    /// All tables together would be too large.
    TooMuchMemory {
        /// The bytes that are needed.
        bytes: u64,
        /// The most bytes that are accepted.
        most: u64,
        /// A capacity with which all rules would fit if those without a capacity had it; `None` if there is none.
        fitting: Option<usize>,
    },
    /// The store that is to keep the limit does not support it. If this was found when the whole rule was checked
    /// (`Vet`), the error has the name of the rule in place of the file's name.
    Elsewhere {
        /// The reason.
        reason: String,
    },
    /// A limit with `mode: elastic` in a domain that has no pool.
    NoPool {
        /// The domain.
        domain: String,
    },
    /// A limit or a pool whose rate is too high to be counted exactly. Its file is loaded all the same, with the
    /// highest rate that can be counted, which is stricter: see [`RuleSet::lowered`](crate::RuleSet::lowered).
    Lowered {
        /// The requests in one window, as the file says.
        asked: u32,
        /// The requests in one window, as they are counted.
        counted: u32,
        /// The window.
        window: Duration,
    },
}

impl std::error::Error for Problem {}

/// A problem and its position, before the name of the file is known.
#[derive(Debug)]
pub(crate) struct LocatedProblem {
    pub(crate) at: Position,
    pub(crate) problem: Problem,
}

impl LocatedProblem {
    pub(crate) fn in_file(self, file: &str) -> RuleError {
        RuleError { file: file.to_owned(), at: Some(self.at), problem: self.problem }
    }
}
