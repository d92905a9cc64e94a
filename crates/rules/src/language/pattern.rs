//! [`Pattern`]: a text in which `*` stands for any text, also for an empty one.
//!
//! A pattern is the list of its pieces between the stars. Each piece is searched for once, in the text after the
//! previous piece. The earliest match of a piece is the best one, because it leaves the most text for the other pieces.
//! So a match needs no backtracking, and takes time linear in the text for every pattern.

/// A text that may contain stars.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    pieces: Box<[Box<str>]>,
}

impl Pattern {
    /// Makes the pattern of a text. A pattern without a star matches only its own text.
    pub(crate) fn of(text: &str) -> Self {
        Self { pieces: text.split('*').map(Box::from).collect() }
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &*self.pieces else {
            return self.pieces.first().is_some_and(|only| **only == *text);
        };
        let Some(rest) = text.strip_prefix(&**first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
        for piece in middle {
            let Some(at) = rest.find(&**piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }

    /// The text of this pattern, with its stars. Another pattern matches this text if and only if it matches every text
    /// that this pattern matches.
    ///
    /// Proof: no piece contains a star, so a star in a text acts as a letter that occurs in no pattern. If another
    /// pattern matches the text, its stars have matched the text's stars, so it also matches every text that has other
    /// letters in place of the text's stars. If another pattern does not match the text, put a letter that no pattern
    /// uses in place of the text's stars: only this pattern matches the result.
    pub(crate) fn text(&self) -> String {
        self.pieces.join("*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_also_none() {
        let cases = [
            ("foo*", "foo", true),
            ("foo*", "foobar", true),
            ("foo*", "fo", false),
            ("bar*b", "barb", true),
            ("bar*b", "barxxb", true),
            ("bar*b", "bar", false),
            ("foo*bar*baz", "foobarbaz", true),
            ("foo*bar*baz", "foo1bar2baz", true),
            ("foo*bar*baz", "foobaz", false),
            ("foo*bar*baz", "foo-baz-bar", false),
            ("*", "", true),
            ("**", "x", true),
            ("a*a", "a", false),
            ("*é*", "caféé", true),
            ("plain", "plain", true),
            ("plain", "plainer", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Pattern::of(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_covers_what_matches_no_more_than_it_does() {
        let texts = ["*", "**", "a", "a*", "*a", "a*b", "a*b*c", "*b*", "ab*", "", "a*a", "a**b"];
        // Compares the result with the definition, on all texts that are short but long enough for a star to stand for
        // more than one letter.
        let letters = ["a", "b", "c"];
        let mut words = vec![String::new()];
        for _ in 0..5 {
            let longer =
                words.iter().flat_map(|word| letters.map(|letter| format!("{word}{letter}")));
            words = words.iter().cloned().chain(longer).collect();
        }
        for one in texts {
            for other in texts {
                let (one, other) = (Pattern::of(one), Pattern::of(other));
                let holds = |word: &String| one.matches(word) || !other.matches(word);
                assert_eq!(
                    one.matches(&other.text()),
                    words.iter().all(holds),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn a_pattern_made_to_backtrack_does_not() {
        let pattern = Pattern::of(&("a*".repeat(10_000) + "b"));
        assert!(!pattern.matches(&"a".repeat(100_000)));
    }
}
