//! One descriptor of a request with the rule that it matched: asks, charges and resets the rule's limits.

use std::ops::Range;
use std::time::Duration;

use tollgate::{Clock, Permit, Toll, check_all};

use super::moment::DecisionTime;
use super::overrides::Overrides;
use super::verdict::RuleVerdict;
use crate::full::OnFull;
use crate::request::Override;
use crate::rule::{Limit, Rule};

/// The source of the decision about a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judge<'r> {
    /// None: no rule matches, or another rule replaces it.
    Nobody,
    /// A rule without limits.
    Unlimited(usize, &'r Rule),
    Rule(usize, &'r Rule),
    Override(Override),
}

#[derive(Debug)]
pub(crate) struct Part<'r> {
    pub(crate) judge: Judge<'r>,
    pub(crate) cost: u64,
    /// Its range in the buffer of all keys.
    pub(crate) key: Range<usize>,
    pub(crate) verdict: Option<RuleVerdict>,
    /// Refunds the charge of a limit that came with the request.
    pub(crate) permit: Option<Permit>,
    /// Whether it is admitted, and not charged, because a table has no cell for its client.
    pub(crate) is_full_allowed: bool,
}

/// How a verdict counts for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// Not at all: nothing limits it, or only a rule in shadow mode.
    None,
    /// If over the limit, it denies the request.
    Binding,
    /// If over the limit, it denies the request only if all rules in quota mode are over theirs.
    Quota,
}

/// The input of a decision that all parts share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) keys: &'a [u8],
    pub(crate) moment: DecisionTime,
    pub(crate) overrides: &'a Overrides,
    pub(crate) clock: &'a Clock,
}

impl<'r> Part<'r> {
    pub(crate) fn key<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.key.clone()]
    }

    pub(crate) fn say(&self) -> Enforcement {
        match self.judge {
            Judge::Rule(_, rule) if rule.is_shadow() => Enforcement::None,
            Judge::Rule(_, rule) if rule.is_quota() => Enforcement::Quota,
            Judge::Rule(..) | Judge::Override(_) => Enforcement::Binding,
            Judge::Nobody | Judge::Unlimited(..) => Enforcement::None,
        }
    }

    /// What its rule does with a client without a cell.
    pub(crate) fn on_full(&self) -> OnFull {
        self.rule().map_or_else(OnFull::default, Rule::on_full)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.is_over)
    }

    /// The rule, if it has limits.
    pub(crate) fn rule(&self) -> Option<&'r Rule> {
        match self.judge {
            Judge::Rule(_, rule) => Some(rule),
            _ => None,
        }
    }

    /// The verdict for `cost`. Charges nothing.
    pub(crate) fn ask(&self, cost: u64, with: Context<'_>) -> Option<RuleVerdict> {
        let key = self.key(with.keys);
        match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => None,
            Judge::Override(limit) => Some(with.overrides.ask(limit, key, cost, with.moment)),
            Judge::Rule(_, rule) => {
                let limits = rule.limits().iter().enumerate();
                let on_full = rule.on_full();
                limits
                    .map(|(n, limit)| ask_limit((n, limit), on_full, key, cost, with))
                    .reduce(RuleVerdict::or)
            }
        }
    }

    /// Decides it independently of the other parts.
    pub(crate) fn charge(&mut self, with: Context<'_>) {
        let key = &with.keys[self.key.clone()];
        match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => {}
            Judge::Override(limit) => {
                let (verdict, permit) = with.overrides.charge(limit, key, self.cost, with.moment);
                (self.verdict, self.permit) = (Some(verdict), permit);
            }
            Judge::Rule(_, rule) if rule.blocks() => self.verdict = self.ask(self.cost, with),
            Judge::Rule(_, rule) => {
                self.verdict = match rule.limits() {
                    [Limit { gate: Some(gate), .. }] => {
                        let decision = with.moment.entry(&gate.table, key).check(self.cost);
                        Some(RuleVerdict::of(&decision, 0, rule.on_full()))
                    }
                    _ => self.charge_stacked(rule.on_full(), with),
                };
            }
        }
    }

    /// Charges all of its rule's limits or none; except that a limit without a cell for the client is skipped if the
    /// rule admits such clients.
    fn charge_stacked(&self, on_full: OnFull, with: Context<'_>) -> Option<RuleVerdict> {
        let mut tolls: Vec<Toll<'_>> = self.tolls(with).collect();
        let mut numbers: Vec<usize> = (0..tolls.len()).collect();
        let mut admitting: Option<RuleVerdict> = None;
        loop {
            let joint = check_all(&mut tolls);
            let Some((nth, decision)) = joint.index().zip(joint.decision()) else {
                return admitting; // none of its tables has a cell
            };
            let verdict = RuleVerdict::of(&decision, numbers[nth], on_full);
            if joint.is_allowed() || verdict.is_over {
                let no_cell = verdict.no_cell.or(admitting.and_then(|verdict| verdict.no_cell));
                // Another limit than the one that is reported may be soft.
                let is_within_soft =
                    tolls.iter().filter_map(Toll::permit).any(|permit| permit.is_over());
                return Some(RuleVerdict { no_cell, is_within_soft, ..verdict });
            }
            admitting = Some(verdict);
            tolls.remove(nth);
            numbers.remove(nth);
        }
    }

    /// A toll for each of its rule's tables. The caller has excluded rules with a limit of 0, so there are as many
    /// tables as limits.
    pub(crate) fn tolls(&self, with: Context<'_>) -> impl Iterator<Item = Toll<'r>> {
        let (key, cost) = (self.key(with.keys), self.cost);
        let gates = self.rule().into_iter().flat_map(Rule::gates);
        gates.map(move |gate| with.moment.entry(&gate.table, key).cost(cost))
    }

    /// As in envoyproxy/ratelimit: a request over the limit uses up what was left.
    pub(crate) fn drain_denied(&mut self, with: Context<'_>) {
        let key = self.key(with.keys);
        match self.judge {
            _ if !self.is_over() => return,
            Judge::Override(limit) => {
                with.overrides.drain(limit, key, self.cost, with.moment);
            }
            Judge::Rule(_, rule) => {
                for limit in rule.limits().iter().filter(|limit| limit.drains_denied) {
                    if let Some(gate) = &limit.gate {
                        // As for an override: see `Overrides::drain`.
                        let _ = with.moment.entry(&gate.table, key).charge(self.cost);
                    }
                }
            }
            _ => {}
        }
        if let Some(verdict) = &mut self.verdict {
            verdict.remaining = 0;
        }
    }

    /// Refunds the charge of a limit that came with the request.
    pub(crate) fn give_back(&mut self, with: Context<'_>) {
        if let (Judge::Override(limit), Some(permit)) = (self.judge, self.permit.take()) {
            with.overrides.give_back(limit, self.key(with.keys), permit, with.moment);
        }
    }

    /// Deletes what was charged; returns to how many limits.
    pub(crate) fn reset(&self, with: Context<'_>) -> usize {
        let key = self.key(with.keys);
        match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => 0,
            Judge::Override(limit) => {
                with.overrides.reset(limit, key);
                1
            }
            Judge::Rule(_, rule) => {
                let reset = |gate: &crate::rule::LocalLimit| gate.table.entry(key).reset();
                rule.gates().map(reset).count()
            }
        }
    }
}

fn ask_limit(
    (n, limit): (usize, &Limit),
    on_full: OnFull,
    key: &[u8],
    cost: u64,
    with: Context<'_>,
) -> RuleVerdict {
    match &limit.gate {
        Some(gate) => RuleVerdict::of(&with.moment.entry(&gate.table, key).peek(cost), n, on_full),
        None => {
            RuleVerdict::blocked(n, cost, until_turn(with.moment.read(with.clock), limit.window))
        }
    }
}

/// How long until the next window of the clock begins.
fn until_turn(now: tollgate::Timestamp, window: Duration) -> Duration {
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(window_ns - now.as_nanos() % window_ns)
}
