//! [`Counting`]: the answers of the rules of one directory to all requests.

use tollgate_rules::Answer;

use super::count::{Count, Said};
use super::descriptors::DescriptorRow;
use super::engine::Engine;
use crate::failure::Failure;
use crate::replay::decide::NamedOutcome;
use crate::replay::gather::Keys;
use crate::replay::report::RulesAbout;

/// The name of the row in the report that counts the answers to whole requests.
const ALL: &str = "all rules";

/// Decides requests, and counts the answers.
pub(super) struct Counting<'e> {
    engine: &'e Engine,
    domain: &'e str,
    all: Count,
    of_rules: Vec<Count>,
    unasked: u64,
    unmatched: u64,
}

impl<'e> Counting<'e> {
    pub(super) fn new(engine: &'e Engine, domain: &'e str) -> Self {
        let of_rules = engine.rules.rules().iter().map(|_| Count::default()).collect();
        Self { engine, domain, all: Count::default(), of_rules, unasked: 0, unmatched: 0 }
    }

    /// Decides the next request. Requests must come in the order of time.
    pub(super) fn add(&mut self, row: &DescriptorRow<'_>, nanos: u64) -> Result<(), Failure> {
        if row.descriptors.is_empty() {
            self.unasked += 1;
            return Ok(());
        }
        let answer = self.engine.decide(self.domain, row, nanos)?;
        self.all.add(row.name, nanos, said(&answer));
        let mut is_matched = false;
        for (place, (status, name)) in answer.statuses().iter().zip(&row.numbers).enumerate() {
            let Some(rule) = answer.rule_index(place) else { continue };
            is_matched = true;
            let said =
                if status.is_over { Said::Refused(status.retry_after) } else { Said::Admitted };
            self.of_rules[rule].add(*name, nanos, said);
        }
        self.unmatched += u64::from(!is_matched);
        Ok(())
    }

    /// Returns the results: first those of all rules together, then those of each rule. `names` has the texts of the
    /// names.
    pub(super) fn finish(self, names: &Keys) -> (RulesAbout, Vec<NamedOutcome>) {
        let rules = self.engine.rules.rules().iter().zip(self.of_rules);
        let rules = rules.filter(|(rule, _)| rule.domain() == self.domain);
        let outcomes = std::iter::once((ALL.to_owned(), self.all))
            .chain(rules.map(|(rule, count)| (rule.to_string(), count)))
            .map(|(name, count)| NamedOutcome { name, outcome: count.finish(names) })
            .collect();
        let about = RulesAbout {
            domain: self.domain.to_owned(),
            unasked: self.unasked,
            unmatched: self.unmatched,
            crowded_out: self.engine.crowded_out(),
        };
        (about, outcomes)
    }
}

/// Returns the answer to the whole request.
fn said(answer: &Answer) -> Said {
    if answer.is_allowed() { Said::Admitted } else { Said::Refused(answer.retry_after()) }
}
