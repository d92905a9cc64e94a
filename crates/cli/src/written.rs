//! [`WrittenPolicy`]: a policy in the words of its user, for reports; [`WrittenLimits`]: several for one request.

use std::fmt;
use std::str::FromStr;

use tollgate::{Policy, PolicyError};

/// A policy, and how it was written: a report in other words would have to be read twice.
#[derive(Clone, Debug)]
pub(crate) struct WrittenPolicy {
    pub(crate) policy: Policy,
    words: String,
}

impl FromStr for WrittenPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        // Blanks and line breaks are not among the words.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { policy: text.parse()?, words })
    }
}

impl fmt::Display for WrittenPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// The limits that one request spends from, all or none: `10/s burst 5 and 100/m`. At least one.
#[derive(Clone, Debug)]
pub(crate) struct WrittenLimits {
    pub(crate) first: WrittenPolicy,
    pub(crate) others: Vec<WrittenPolicy>,
}

/// What stands between two limits.
const AND: &str = "and";

impl WrittenLimits {
    pub(crate) fn all(&self) -> impl Iterator<Item = &WrittenPolicy> {
        [&self.first].into_iter().chain(&self.others)
    }

    pub(crate) fn has_queue(&self) -> bool {
        self.all().any(|written| written.policy.at_limit().queue.is_some())
    }
}

impl FromStr for WrittenLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let limits = words.split(|word| word.eq_ignore_ascii_case(AND));
        let limit = |words: &[&str]| words.join(" ").parse::<WrittenPolicy>();
        let mut limits = limits.map(limit).collect::<Result<Vec<_>, _>>().map_err(|error| {
            let hint = if words.iter().any(|word| word.eq_ignore_ascii_case(AND)) {
                "; several limits are written as in \"10/s burst 5 and 100/m\""
            } else {
                ""
            };
            format!("{error}{hint}")
        })?;
        let first = limits.remove(0); // a split has at least one part
        let limits = Self { first, others: limits };
        if !limits.others.is_empty() && limits.has_queue() {
            return Err("a request of several limits cannot wait in the queue of one of them; leave out queue and wait"
                .to_owned());
        }
        Ok(limits)
    }
}

impl fmt::Display for WrittenLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.others.iter().try_for_each(|other| write!(f, " {AND} {other}"))
    }
}
