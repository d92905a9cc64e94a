//! Regular expressions, which match a whole value in time linear in its length.

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use regex_syntax::hir::{Hir, Look};

use crate::language::error::Problem;
use crate::language::value::ValueMatch;

/// The most bytes of one compiled expression.
const MAX_BYTES: usize = 1 << 18;

/// The maximum number of bytes that a thread caches for the searches of one expression, and for those of one set.
const MAX_CACHED_BYTES: [usize; 2] = [1 << 15, 1 << 20];

/// The most expressions of all rules together. Together with [`MAX_BYTES`] it bounds the memory of all expressions.
/// Each expression is compiled by itself. If its key has several expressions, it is compiled a second time, in a set
/// with them.
const MAX_EXPRESSIONS: usize = 256;

/// A compiled expression.
#[derive(Clone, Debug)]
pub(crate) struct Expression(Regex);

/// A set of expressions. It reads a text once to find the first expression that matches.
#[derive(Debug)]
pub(crate) struct ExpressionSet(RegexSet);

impl ExpressionSet {
    /// Returns `None` for fewer than two expressions, or if the set would take more memory than its expressions may
    /// take one by one.
    pub(crate) fn of<'e>(expressions: impl Iterator<Item = &'e Expression>) -> Option<Self> {
        let texts: Vec<&str> = expressions.map(|expression| expression.0.as_str()).collect();
        if texts.len() < 2 {
            return None;
        }
        let built = RegexSetBuilder::new(&texts)
            .size_limit(texts.len() * MAX_BYTES)
            .dfa_size_limit(MAX_CACHED_BYTES[1])
            .build();
        built.ok().map(Self)
    }

    /// The index of the first expression that matches all of the text.
    pub(crate) fn first(&self, text: &str) -> Option<usize> {
        self.0.matches(text).iter().next()
    }
}

/// Compiles the expressions of one load.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    compiled: usize,
}

impl Expressions {
    /// Compiles the value of a descriptor, if it is a regular expression.
    pub(crate) fn of(&mut self, value: Option<&ValueMatch>) -> Result<Option<Expression>, Problem> {
        let Some(ValueMatch::Expression(text)) = value else { return Ok(None) };
        self.compiled += 1;
        if self.compiled > MAX_EXPRESSIONS {
            return Err(Problem::TooManyExpressions { most: MAX_EXPRESSIONS });
        }
        Expression::of(text).map(Some)
    }
}

impl Expression {
    fn of(text: &str) -> Result<Self, Problem> {
        let parsed = regex_syntax::parse(text).map_err(|error| refused(text, &error))?;
        let no_place = |reason: &str| bad(text, reason, None);
        if parsed.properties().minimum_len().is_none() {
            return Err(no_place("it matches nothing"));
        }
        let built = RegexBuilder::new(&whole(parsed))
            .size_limit(MAX_BYTES)
            .dfa_size_limit(MAX_CACHED_BYTES[0])
            .build();
        built.map(Self).map_err(|_| no_place("it is too large; use shorter repetitions"))
    }

    /// Whether both expressions have the same meaning to the parser, even if they are written differently.
    pub(crate) fn is_equal(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }

    /// Whether the expression matches every text.
    pub(crate) fn is_all(&self) -> bool {
        let all = regex_syntax::parse("(?s).*");
        all.is_ok_and(|all| self.0.as_str() == whole(all))
    }

    /// Whether the expression matches all of the text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// The text of an expression that matches from beginning to end. The text is printed from the parsed expression. If the
/// original text were put in brackets instead, `a)|(b` would escape from them, and a comment of `(?x)` would hide the
/// end.
fn whole(parsed: Hir) -> String {
    Hir::concat([Hir::look(Look::Start), parsed, Hir::look(Look::End)].into()).to_string()
}

fn refused(text: &str, error: &regex_syntax::Error) -> Problem {
    let (reason, offset) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => {
            (error.kind().to_string(), error.span().start.offset)
        }
        other => return bad(text, &other.to_string(), None),
    };
    bad(text, &reason, text.get(..offset).map(|before| before.chars().count() + 1))
}

fn bad(text: &str, reason: &str, character: Option<usize>) -> Problem {
    Problem::BadExpression { found: text.to_owned(), reason: reason.to_owned(), character }
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
