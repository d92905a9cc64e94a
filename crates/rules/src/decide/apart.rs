//! What is done with the cost of each descriptor, and all that is decided whatever the others of a request say.

use super::act::{Act, Manner};
use super::context::Context;
use super::part::{Judge, Part, told};
use super::verdict::RuleVerdict;
use crate::request::Descriptor;
use crate::rule::Limit;

/// Finds what is done with the costs of a request. Questions first: costs that come with them are of the same kind.
pub(super) fn find(parts: &mut [Part<'_>], descriptors: &[Descriptor<'_>], act: Act) {
    for asks in [true, false] {
        for (part, descriptor) in parts.iter_mut().zip(descriptors) {
            if (descriptor.hits == Some(0)) == asks {
                part.find_manner(descriptor.is_negative, asks, act);
            }
        }
    }
}

/// Decides what is decided whatever the others say: first what is given back, then what was used.
pub(super) fn settle(parts: &mut [Part<'_>], with: Context<'_>) {
    for gives_back in [true, false] {
        let now = parts.iter_mut().filter(|part| (part.manner == Manner::Back) == gives_back);
        now.for_each(|part| part.settle(with));
    }
}

/// Those that are decided together.
pub(super) fn others<'p, 'r>(parts: &'p mut [Part<'r>]) -> impl Iterator<Item = &'p mut Part<'r>> {
    parts.iter_mut().filter(|part| !part.is_apart())
}

impl Part<'_> {
    /// Finds what is done with its cost. `asks` says that it brings a cost of 0.
    fn find_manner(&mut self, is_negative: bool, asks: bool, act: Act) {
        self.manner = match self.rule() {
            _ if is_negative => Manner::Back,
            _ if act == Act::Charge => Manner::Together,
            Some(rule) if rule.is_usage() => Manner::Used,
            // What Envoy sends. Others say what they want.
            Some(rule) if act == Act::CheckEnvoy && rule.sees_usage() => {
                if asks {
                    self.is_first_question = rule.counts.question();
                    Manner::Used
                } else if rule.counts.has_questions() {
                    Manner::Tried
                } else {
                    Manner::Together
                }
            }
            _ => Manner::Together,
        };
    }

    /// Whether it is decided whatever the others say, before them.
    pub(crate) fn is_apart(&self) -> bool {
        self.manner != Manner::Together
    }

    /// The verdict for its cost. Charges nothing.
    pub(crate) fn look(&mut self, with: Context<'_>) {
        self.verdict = match self.manner {
            Manner::Together | Manner::Tried => self.ask(self.cost, with),
            Manner::Used => self.ask(1, with),
            // Nothing is asked of the table, so it does not matter whether there is a cell.
            Manner::Back => {
                self.ask(1, with).map(|asked| RuleVerdict { no_cell: None, ..told(asked) })
            }
        };
    }

    /// Decides what is decided whatever the others say.
    pub(crate) fn settle(&mut self, with: Context<'_>) {
        match self.manner {
            Manner::Together => return,
            Manner::Tried => self.charge(with),
            Manner::Used => self.look(with),
            Manner::Back => {
                self.uncharge(with);
                return self.look(with);
            }
        }
        let before = self.verdict;
        if self.cost > 0 && (self.is_over() || self.manner == Manner::Used) {
            self.charge_late(with);
            if let (Some(verdict), Some(before)) = (&mut self.verdict, before) {
                // What its hits are split by is how the limit stood before.
                let RuleVerdict { is_over, burst, left, .. } = before;
                *verdict = RuleVerdict { is_over, burst, left, ..*verdict };
            }
        }
    }

    /// Gives its cost back, as far as it is charged.
    fn uncharge(&mut self, with: Context<'_>) {
        let (key, cost) = (self.key(with.keys), self.cost);
        let back = match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => 0,
            Judge::Override(limit) => with.overrides.uncharge(limit, key, cost, with.moment),
            Judge::Rule(_, rule) => {
                let back = |limit: &Limit| {
                    limit.gate.as_ref().map_or(0, |gate| with.entry(gate, key).uncharge(cost))
                };
                rule.limits().iter().map(back).min().unwrap_or(0)
            }
        };
        self.uncharged = cost.saturating_sub(back);
    }
}
