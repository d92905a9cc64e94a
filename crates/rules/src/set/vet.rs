//! [`Vet`]: checks whether the limits of rules can be kept in a store outside this process.

use std::fmt;

use crate::language::error::{Problem, RuleError};
use crate::set::rule::Rule;
use crate::set::rule_set::RuleSet;

/// Decides whether the store that is to keep the rules' limits supports them.
pub(crate) struct Vet(pub(crate) Box<Vetting>);

pub(crate) type Vetting = dyn Fn(&Rule) -> Result<(), String> + Send + Sync;

impl Vet {
    /// An error for each rule that is refused.
    pub(crate) fn errors(&self, rules: &RuleSet) -> Vec<RuleError> {
        let refused = |rule: &Rule| {
            let file = format!("{}.{}", rule.domain(), rule.path()).escape_debug().to_string();
            let problem = |reason| Problem::Elsewhere { reason };
            self.0(rule).err().map(|reason| RuleError { file, at: None, problem: problem(reason) })
        };
        rules.rules().iter().filter_map(refused).collect()
    }
}

impl fmt::Debug for Vet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vet")
    }
}
