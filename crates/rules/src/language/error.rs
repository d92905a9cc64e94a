//! [`RuleError`]: the reason why a rule file was refused, with the place, the value that was found, and the values that
//! would be accepted.

use std::fmt::{self, Write};

use tollgate::{BuildError, ChangeError, PolicyError};

use crate::language::forward::ForwardError;
use crate::language::manifest::Manifest;
use crate::language::match_error::MatchError;
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
    Manifest(Manifest),
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
    /// A descriptor's value cannot be used for matching.
    Match {
        /// The reason.
        error: MatchError,
    },
    /// A descriptor of `forward_auth` cannot be used.
    Forward {
        /// The reason.
        error: ForwardError,
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
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { .. }
            | Self::NoFiles
            | Self::TooLarge { .. }
            | Self::NotUtf8
            | Self::Syntax { .. }
            | Self::TooDeep { .. }
            | Self::TooManyNodes { .. }
            | Self::BadAlias
            | Self::SecondDocument
            | Self::KeyNotText => self.describe_text(f),
            Self::Policy { .. }
            | Self::Table { .. }
            | Self::Change { .. }
            | Self::TooMuchMemory { .. }
            | Self::Elsewhere { .. }
            | Self::NoPool { .. }
            | Self::Manifest(_) => self.describe_limit(f),
            _ => self.describe_rule(f),
        }
    }
}

impl Problem {
    /// Messages for problems of the text itself.
    fn describe_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { reason } => write!(f, "cannot be read: {reason}"),
            Self::NoFiles => f.write_str(
                "holds no rules; put a file there whose name ends in .yaml or .yml, or allow it to be empty \
                 (--allow-empty)",
            ),
            Self::TooLarge { most } => {
                write!(f, "is larger than {most} bytes; divide it into several domains")
            }
            Self::NotUtf8 => f.write_str("holds bytes that are no UTF-8; save it as UTF-8"),
            Self::Syntax { reason } => write!(f, "error loading config file: {reason}"),
            Self::TooDeep { most } => {
                write!(f, "is nested too deeply; at most {most} lists and maps in each other")
            }
            Self::TooManyNodes { most } => write!(
                f,
                "holds too many values, aliases counted each time; at most {most}, in several files"
            ),
            Self::BadAlias => f.write_str("an alias stands before the end of what it names"),
            Self::SecondDocument => {
                f.write_str("a second document begins here; write one domain per file")
            }
            _ => f.write_str("config error, key is not of type string: a list or a map"),
        }
    }

    /// Messages for problems of a rule's numbers.
    fn describe_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { error } => write!(f, "{error}"),
            Self::Table { policy, error } => write!(f, "no table can hold {policy}: {error}"),
            Self::Change { policy, error } => {
                write!(f, "the limit in force cannot be changed to {policy}: {error}")
            }
            Self::TooMuchMemory { bytes, most, fitting } => too_much(f, *bytes, *most, *fitting),
            Self::Elsewhere { reason } => f.write_str(reason),
            Self::NoPool { domain } => write!(
                f,
                "mode: elastic borrows from the pool of its domain, and '{domain}' has none; write pool: \
                 {{unit: second, requests_per_unit: 100}} beside domain:"
            ),
            Self::Manifest(manifest) => write!(f, "{manifest}"),
            _ => Ok(()),
        }
    }

    /// Messages for problems of the rules' meaning.
    fn describe_rule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind { key, accepted, found } => {
                write!(f, "{key} is {found}; it must be {accepted}")
            }
            Self::NotAMap { found } => write!(
                f,
                "config error, yaml file contains list of type other than map: {found}; begin each \
                 entry with a key, as in - key: user"
            ),
            Self::UnknownKey { key, accepted } => {
                write!(f, "config error, unknown key '{key}'; ")?;
                let known = crate::language::meant::elsewhere(key, accepted);
                if let Some(meant) = known.or_else(|| crate::language::meant::meant(key, accepted)) {
                    write!(f, "did you mean '{meant}'? ")?;
                }
                write!(f, "use one of {}", accepted.join(", "))
            }
            Self::DashWithoutBlank { key } => write!(
                f,
                "config error, unknown key '{key}'; did you mean '- {}'? An entry of a list begins with a dash and a blank",
                key.trim_start_matches('-')
            ),
            Self::DuplicateKey { key, first } => {
                write!(f, "key '{key}' is here twice, first at {first}; leave one out")
            }
            Self::Value { key, found, accepted } => {
                write!(f, "error checking config: {key} {found} is not understood; use {accepted}")
            }
            Self::Missing { key } => write!(f, "{key} is missing"),
            Self::Together { key, with } => {
                write!(f, "{key} and {with} exclude each other; leave one out")
            }
            Self::EmptyDomain => {
                f.write_str("config file cannot have empty domain; write domain: and a name")
            }
            Self::DuplicateDomain { domain, first } => write!(
                f,
                "duplicate domain '{domain}' in config file, first in {first}; write all of it in one \
                 file, or allow domains to be merged"
            ),
            Self::EmptyKey => f.write_str("descriptor has empty key; write key: and a name"),
            Self::DuplicateDescriptor { path, first } => write!(
                f,
                "duplicate descriptor composite key '{path}', first at {first}; leave one out"
            ),
            Self::BadUnit { unit } => write!(
                f,
                "invalid rate limit unit '{unit}'; use second, minute, hour, day, week, month or \
                 year, or leave unit out and write window: 30s"
            ),
            Self::UnlimitedUnit => {
                f.write_str("should not specify rate limit unit when unlimited; leave one out")
            }
            Self::EmptyReplaces => {
                f.write_str("should not have an empty replaces entry; write - name: and a rule's name")
            }
            Self::ReplacesItself { name } => write!(
                f,
                "replaces should not contain name of same descriptor: '{name}' would never count"
            ),
            Self::ShareWithoutWildcard => f.write_str(
                "share_threshold shares one limit between all values that a *, a cidr or a regex matches; \
                 here is none of them",
            ),
            Self::Match { error } => write!(f, "{error}"),
            Self::Forward { error } => write!(f, "{error}"),
            _ => Ok(()),
        }
    }
}

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

/// Says that the tables need more bytes than are allowed. `fitting` is a capacity with which they would fit if all
/// rules without a capacity had it.
fn too_much(
    f: &mut fmt::Formatter<'_>,
    bytes: u64,
    most: u64,
    fitting: Option<usize>,
) -> fmt::Result {
    write!(
        f,
        "with this rule the tables need {bytes} bytes and {most} are allowed (--table-bytes of serve and check); "
    )?;
    match fitting {
        None => f.write_str(
            "there are too many rules, or some have too large a capacity: lower it, or raise the allowance",
        ),
        Some(most) => {
            write!(f, "all fit with --capacity {most} at most, or in shares without it")
        }
    }
}
