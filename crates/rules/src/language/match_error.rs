//! [`MatchError`]: the reason why a descriptor matches nothing, or cannot be matched.

use std::fmt;

/// The reason why a descriptor's value cannot be matched.
///
/// ```
/// use tollgate_rules::{Problem, RuleCache, RuleText, RuleSettings};
/// let text = "domain: shop\ndescriptors:\n  - {key: path, regex: '/users/(.*'}\n";
/// let cache = RuleCache::new(RuleSettings::default());
/// let errors = cache.load(&[RuleText::new("shop.yaml", text)]).unwrap_err();
/// assert!(matches!(errors[0].problem, Problem::Match { .. }));
/// assert_eq!(
///     errors[0].to_string(),
///     "shop.yaml:3:24: regex '/users/(.*' cannot be used: unclosed group (at character 8)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatchError {
    /// A network under `value`. Values are compared as texts, and no address is equal to the text of a network.
    LooksLikeRange {
        /// The value.
        value: String,
    },
    /// An entry that never matches, because an earlier entry matches all values that it would match.
    Hidden {
        /// The entry: key and value, as in a rule's path.
        entry: String,
        /// The entry that hides it.
        by: String,
        /// The position of the entry that hides it, with the file if that is another file.
        at: String,
    },
    /// A text that is not a regular expression, or is one that is not supported here.
    Expression {
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
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            Self::Expression { found, reason, character } => {
                write!(f, "regex '{}' cannot be used: {reason}", found.escape_debug())?;
                character.map_or(Ok(()), |at| write!(f, " (at character {at})"))
            }
            Self::TooManyExpressions { most } => write!(
                f,
                "there are too many regular expressions; at most {most} in all files, so write some as value with *, \
                 or several as one with |"
            ),
        }
    }
}

impl std::error::Error for MatchError {}
