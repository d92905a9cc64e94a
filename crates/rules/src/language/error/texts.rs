//! The messages for problems of rule files.

use std::fmt;

use super::Problem;
use crate::language::meant::{elsewhere, meant};

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
            | Self::Lowered { .. }
            | Self::Manifest { .. } => self.describe_limit(f),
            Self::LooksLikeRange { .. }
            | Self::Hidden { .. }
            | Self::BadExpression { .. }
            | Self::TooManyExpressions { .. } => self.describe_match(f),
            Self::UnknownPart { .. }
            | Self::BadHeader { .. }
            | Self::ForwardTooLarge { .. }
            | Self::ForwardInVain { .. } => self.describe_forward(f),
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
            Self::Lowered { asked, counted, window } => write!(
                f,
                "{asked} in {window:?} is too many to be counted exactly: {counted} in {window:?} are counted, the most \
                 that can be"
            ),
            Self::Manifest { kind, file } => {
                write!(f, "config error, this is a {kind} of Kubernetes, ")?;
                match file {
                    Some(file) => write!(
                        f,
                        "which holds the rule file {file}; give that file, as from yq '.data[\"{file}\"]', or the \
                         directory where the {kind} is mounted"
                    ),
                    None => f.write_str("not a rule file; give a file that begins with domain:"),
                }
            }
            _ => Ok(()),
        }
    }

    /// Messages for values that cannot be matched, or that nothing matches.
    fn describe_match(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LooksLikeRange { value } => write!(
                f,
                "value '{value}' is compared as text, which no address is; write cidr: '{value}', or for this very \
                 text regex: '{}'",
                regex_syntax::escape(value)
            ),
            Self::Hidden { entry, by, at } => write!(
                f,
                "'{entry}' never matches, because '{by}' at {at} is tried before it and matches all that it would; \
                 write it before that one, make it an exact value, or leave one out"
            ),
            Self::BadExpression { found, reason, character } => {
                write!(f, "regex '{}' cannot be used: {reason}", found.escape_debug())?;
                character.map_or(Ok(()), |at| write!(f, " (at character {at})"))
            }
            Self::TooManyExpressions { most } => write!(
                f,
                "there are too many regular expressions; at most {most} in all files, so write some as value with *, \
                 or several as one with |"
            ),
            _ => Ok(()),
        }
    }

    /// Messages for problems of `forward_auth`.
    fn describe_forward(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPart { found, meant } => {
                write!(f, "'{}' is no part of a request; ", found.escape_debug())?;
                if let Some(meant) = meant {
                    write!(f, "did you mean '{meant}'? ")?;
                }
                f.write_str(
                    "use address, method, host or path, alone or with a header as in path of x-original-url; \
                     header x-user; or text web; behind all but the last a value for its absence may follow, as in \
                     header x-user else anonymous",
                )
            }
            Self::BadHeader { found } => write!(
                f,
                "'{}' is no name of a header; use letters, digits and dashes, as in x-user",
                found.escape_debug()
            ),
            Self::ForwardTooLarge { found, most, of } => write!(
                f,
                "a forwarded request could have {found} {of}, of at most {most}; leave some out of forward_auth"
            ),
            Self::ForwardInVain { keys } => write!(
                f,
                "forward_auth makes a descriptor of {}, and no rule of the domain has these keys in this order, so it \
                 limits nothing; write a descriptor with them, or leave it out",
                keys.escape_debug()
            ),
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
                let known = elsewhere(key, accepted);
                if let Some(meant) = known.or_else(|| meant(key, accepted)) {
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
            _ => Ok(()),
        }
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
