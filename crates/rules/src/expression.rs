//! Regular expressions, which match a whole value in time linear in its length.

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, Look};

use crate::match_error::MatchError;
use crate::value::ValueMatch;

/// The most bytes of one compiled expression.
const MAX_BYTES: usize = 1 << 18;

/// The most expressions of all rules together, which with [`MAX_BYTES`] bounds their memory; and each may be tried on
/// the values of one key.
const MAX_EXPRESSIONS: usize = 256;

/// A compiled expression.
#[derive(Clone, Debug)]
pub(crate) struct Expression(Regex);

/// Compiles the expressions of one load.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    compiled: usize,
}

impl Expressions {
    /// The expression, if a descriptor's value is one.
    pub(crate) fn of(
        &mut self,
        value: Option<&ValueMatch>,
    ) -> Result<Option<Expression>, MatchError> {
        let Some(ValueMatch::Expression(text)) = value else { return Ok(None) };
        self.compiled += 1;
        if self.compiled > MAX_EXPRESSIONS {
            return Err(MatchError::TooManyExpressions { most: MAX_EXPRESSIONS });
        }
        Expression::of(text).map(Some)
    }
}

impl Expression {
    fn of(text: &str) -> Result<Self, MatchError> {
        let parsed = regex_syntax::parse(text).map_err(|error| refused(text, &error))?;
        let no_place = |reason: &str| bad(text, reason, None);
        if parsed.properties().minimum_len().is_none() {
            return Err(no_place("it matches nothing"));
        }
        // What was parsed is printed, because around the text itself `a)|(b` would pass, and a comment of `(?x)` would
        // hide the end.
        let parts = [Hir::look(Look::Start), parsed, Hir::look(Look::End)];
        let whole = Hir::concat(parts.into()).to_string();
        let built = RegexBuilder::new(&whole).size_limit(MAX_BYTES).build();
        built.map(Self).map_err(|_| no_place("it is too large; use shorter repetitions"))
    }

    /// Whether it matches all of the text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

fn refused(text: &str, error: &regex_syntax::Error) -> MatchError {
    let (reason, offset) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => {
            (error.kind().to_string(), error.span().start.offset)
        }
        other => return bad(text, &other.to_string(), None),
    };
    bad(text, &reason, text.get(..offset).map(|before| before.chars().count() + 1))
}

fn bad(text: &str, reason: &str, character: Option<usize>) -> MatchError {
    MatchError::Expression { found: text.to_owned(), reason: reason.to_owned(), character }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_matched_as_a_whole() {
        for (expression, text, expected) in [
            ("a|ab", "ab", true),
            ("a|ab", "abc", false),
            ("^a$", "a", true),
            ("a", "a\n", false),
            ("(?m)^a$", "a\nb", false),
            ("(?x)a b # c", "ab", true),
            ("(?i)straße", "STRASSE", false),
            ("(?i)É+", "éÉ", true),
            ("", "", true),
            ("", "a", false),
            (r"/v\d+/users/[^/]+", "/v12/users/alice", true),
            (r"/v\d+/users/[^/]+", "/v12/users/alice/x", false),
            (r"10\.0\.0\.0/8", "10.0.0.0/8", true),
        ] {
            let compiled = Expression::of(expression).expect(expression);
            assert_eq!(compiled.matches(text), expected, "{expression} {text:?}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_its_place() {
        for (text, reason, character) in [
            ("a)|(?:b", "unopened group", Some(2)),
            ("é(", "unclosed group", Some(2)),
            (r"[^\s\S]", "it matches nothing", None),
            (r"\w{1000}{1000}", "it is too large; use shorter repetitions", None),
            (r"(a)\1", "backreferences are not supported", Some(4)),
            (
                "(?=a)",
                "look-around, including look-ahead and look-behind, is not supported",
                Some(1),
            ),
        ] {
            let refused = Expression::of(text).expect_err(text);
            assert_eq!(refused, bad(text, reason, character));
        }
    }

    #[test]
    fn an_expression_made_to_backtrack_does_not() {
        let expression = Expression::of("(a*)*(a|aa)+b").expect("an expression");
        assert!(!expression.matches(&"a".repeat(60_000)));
    }
}
