//! Finds how the cost of each descriptor is treated, and decides the descriptors that do not depend on the others.

use super::act::{Act, Manner};
use super::context::Context;
use super::part::{Judge, Part, told};
use super::verdict::RuleVerdict;
use crate::decide::request::Descriptor;
use crate::set::rule::Limit;
use crate::set::settings::Settings;

/// The facts that decide how the costs of a request are treated.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestCounting<'s> {
    pub(super) act: Act,
    pub(super) settings: &'s Settings,
    /// Whether limits are kept elsewhere.
    pub(super) is_elsewhere: bool,
}

/// Finds how the costs of a request are treated.
pub(super) fn find(
    parts: &mut [Part<'_>],
    descriptors: &[Descriptor<'_>],
    how: RequestCounting<'_>,
) {
    for (part, descriptor) in parts.iter_mut().zip(descriptors) {
        part.find_manner(descriptor.is_negative, how);
    }
}

/// Decides the descriptors that do not depend on the others: first those that give units back, then those whose cost
/// was already used.
pub(super) fn settle(parts: &mut [Part<'_>], with: Context<'_>) {
    for gives_back in [true, false] {
        let now = parts.iter_mut().filter(|part| (part.manner == Manner::Back) == gives_back);
        now.for_each(|part| part.settle(with));
    }
}

/// The descriptors that are decided together.
pub(super) fn others<'p, 'r>(parts: &'p mut [Part<'r>]) -> impl Iterator<Item = &'p mut Part<'r>> {
    parts.iter_mut().filter(|part| !part.is_apart())
}

impl Part<'_> {
    /// Finds how the cost of this descriptor is treated.
    fn find_manner(&mut self, is_negative: bool, how: RequestCounting<'_>) {
        let (is_usage, remembers_denied) = match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => (false, true),
            Judge::Rule(_, rule) => (rule.is_usage(), rule.remembers_denied(how.is_elsewhere)),
            Judge::Override(own) => (own.is_usage, true),
        };
        // Envoy asks a question by a cost of 0. Other callers have `Act::Peek`.
        let is_question = self.cost == 0 && how.act == Act::CheckEnvoy;
        self.manner = match how.act {
            _ if is_negative => Manner::Back,
            Act::Charge => Manner::Together,
            _ if is_usage => Manner::Used,
            // Under `compat` a check of cost 0 is answered as by envoyproxy/ratelimit: it is denied only if the limit
            // has been exceeded.
            _ if is_question && !(how.settings.compat && remembers_denied) => Manner::Used,
            _ => Manner::Together,
        };
    }

    /// Whether this descriptor is decided before the others and independently of them.
    pub(crate) fn is_apart(&self) -> bool {
        self.manner != Manner::Together
    }

    /// Finds the verdict for the cost, and charges nothing.
    pub(crate) fn look(&mut self, with: Context<'_>) {
        self.verdict = match self.manner {
            Manner::Together => self.ask(self.cost, with),
            Manner::Used => self.ask(1, with),
            // Units can be given back without a cell, so a missing cell does not matter.
            Manner::Back => {
                self.ask(1, with).map(|asked| RuleVerdict { no_cell: None, ..told(asked) })
            }
        };
    }

    /// Decides this descriptor, if it does not depend on the others.
    pub(crate) fn settle(&mut self, with: Context<'_>) {
        match self.manner {
            Manner::Together => return,
            Manner::Used => self.look(with),
            Manner::Back => {
                self.uncharge(with);
                return self.look(with);
            }
        }
        let before = self.verdict;
        if self.cost > 0 {
            self.charge_late(with);
            if let (Some(verdict), Some(before)) = (&mut self.verdict, before) {
                // Hits are split by the state of the limit before the charge.
                let RuleVerdict { is_over, burst, left, .. } = before;
                *verdict = RuleVerdict { is_over, burst, left, ..*verdict };
            }
        }
    }

    /// Gives the cost back, except for units that are not charged any more.
    fn uncharge(&mut self, with: Context<'_>) {
        let (key, cost) = (self.key(with.keys), self.cost);
        let back = match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => 0,
            Judge::Override(own) => with.overrides.uncharge(own.limit, key, cost, with.moment),
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
