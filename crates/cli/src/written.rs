//! [`WrittenPolicy`]: a policy in the words of its user, for reports; and [`WrittenLimits`]: several limits for a request.

use std::fmt;
use std::str::FromStr;

use tollgate::{Policy, PolicyError};

/// The policies of `--policy`, for the help of a command.
pub(crate) const POLICIES: &str = "\
Policies (--policy):
  gcra 10/m burst 5             10 a minute, 5 at once; gcra may be left out
  leaky-bucket 100/m hard       100 at once, of which one a minute comes back
  fixed-window 100/m            windows of the clock
  fixed-window 100/m from-first windows from a client's first request on
  sliding-window 100/m          what is left of the previous window counts
  segmented-window 100/m x6     a window of 6 parts
  sliding-log 100/m             never more than 100 in any minute
  calendar-month 10000          the months of UTC; also calendar-year 10000
  calendar-week 10000           weeks from Monday on, or: from-sunday

  token-bucket and leaky-bucket are gcra. A period is a number and ns, us, ms, s, m, h or d, as in 10/15m. Behind any of them: what happens at the limit, as in \
soft 5%, count-denied, penalty 10m after 3, queue 50. What each admits at most is in docs/which-algorithm.md.";

/// A policy, and the text in which it was written, which reports repeat so that users recognise it.
#[derive(Clone, Debug)]
pub(crate) struct WrittenPolicy {
    pub(crate) policy: Policy,
    words: String,
}

impl FromStr for WrittenPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        // The number of blanks and line breaks does not matter.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { policy: text.parse()?, words })
    }
}

impl fmt::Display for WrittenPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// The limits that one request is charged to, all or none: `10/s burst 5 and 100/m`. There is at least one limit.
#[derive(Clone, Debug)]
pub(crate) struct WrittenLimits {
    pub(crate) first: WrittenPolicy,
    pub(crate) others: Vec<WrittenPolicy>,
}

/// The word between two limits.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_of_the_help_is_one_and_is_told_in_its_words() {
        let lines = POLICIES.lines().skip(1).take_while(|line| !line.is_empty());
        let policies: Vec<&str> = lines.filter_map(|line| line.get(2..32)).map(str::trim).collect();
        assert_eq!(policies.len(), 9);
        for policy in policies {
            let written: WrittenLimits = policy.parse().expect(policy);
            assert_eq!(written.to_string(), policy);
        }
        for suffix in ["soft 5%", "count-denied", "penalty 10m after 3", "queue 50"] {
            assert!(POLICIES.contains(suffix));
            assert!(format!("100/m {suffix}").parse::<WrittenPolicy>().is_ok(), "{suffix}");
        }
    }
}
