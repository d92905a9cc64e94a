//! [`Condition`]: selects the lines to replay, for `--where`.

use std::fmt;
use std::str::FromStr;

use regex::bytes::Regex;

use super::clients::ClientsBy;
use super::key::LineKey;
use super::reason::Reason;

/// A condition that a part of a line has to meet.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    key: LineKey,
    test: ConditionTest,
    is_negated: bool,
}

#[derive(Clone, Debug)]
enum ConditionTest {
    Is(Box<[u8]>),
    Matches(Regex),
}

impl Condition {
    /// Returns the part of a line that the condition tests.
    pub(crate) fn key(&self) -> &LineKey {
        &self.key
    }

    /// Returns the same condition, except that `clients` says which client an address belongs to.
    pub(crate) fn by(&self, clients: &ClientsBy) -> Self {
        Self { key: self.key.by(clients), ..self.clone() }
    }

    /// Returns whether the condition holds for a line in which the part has this spelling.
    pub(crate) fn holds(&self, found: &[u8]) -> Result<bool, Reason> {
        let value = self.key.canonical(found)?;
        let is_met = match &self.test {
            ConditionTest::Is(expected) => *value == **expected,
            ConditionTest::Matches(pattern) => pattern.is_match(&value),
        };
        Ok(is_met != self.is_negated)
    }
}

/// The reason why a text is no condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConditionError {
    NoOperator,
    NoField,
    Pattern(regex::Error),
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOperator => f.write_str(
                "nothing is compared; write a field and a value as FIELD=VALUE, FIELD!=VALUE, FIELD~REGEX or \
                 FIELD!~REGEX, as in status!=304",
            ),
            Self::NoField => {
                f.write_str("no field stands in front of the comparison; write one, as in path=/login")
            }
            Self::Pattern(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConditionError {}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let at = text.find(['=', '~']).ok_or(ConditionError::NoOperator)?;
        let (field, value) = (&text[..at], &text[at + 1..].trim());
        let (field, is_negated) =
            field.strip_suffix('!').map_or((field, false), |field| (field, true));
        let field = field.trim();
        if field.is_empty() {
            return Err(ConditionError::NoField);
        }
        let Ok(key) = field.parse();
        let test = if text[at..].starts_with('~') {
            ConditionTest::Matches(Regex::new(value).map_err(ConditionError::Pattern)?)
        } else {
            ConditionTest::Is(value.as_bytes().into())
        };
        Ok(Self { key, test, is_negated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(condition: &str, found: &str) -> bool {
        let condition: Condition = condition.parse().unwrap_or_else(|error| panic!("{error}"));
        condition.holds(found.as_bytes()).expect("a good part")
    }

    #[test]
    fn parts_are_compared_as_keys_are() {
        assert!(holds("path=/a", "http://www.example.com/a?b=1"));
        assert!(!holds("path != /a", "/a") && holds("path!=/a", "/b"));
        assert!(holds("ip=192.0.2.1", "::ffff:192.0.2.1"));
        assert!(holds("user=-", ""));
        assert!(holds("path~^/api/", "/api/v1") && !holds("path~^/api/", "/x/api/"));
        assert!(!holds("user-agent!~(?i)bot", "A Bot") && holds("user-agent!~bot", "A Bot"));
        assert!(holds("tenant=a=b", "a=b"));
    }

    #[test]
    fn a_part_that_is_no_address_is_no_answer() {
        let condition: Condition = "ip=192.0.2.1".parse().expect("a condition");
        assert!(condition.holds(b"1.2.3").is_err());
    }
}
