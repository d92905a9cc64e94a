//! [`Part`]: one descriptor of a request with the rule that it matched. It asks, charges and resets the rule's limits.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Decision, Permit};

use super::act::{Act, Manner};
use super::context::Context;
use super::dues::{Due, DueCharge, DueDecision, Outcome, charge_dues};
use super::verdict::RuleVerdict;
use crate::counts::series::Series;
use crate::decide::receipt::{Charged, ReceiptLine};
use crate::decide::request::{Override, Request};
use crate::language::on_full::OnFull;
use crate::language::value::DescriptorEntry;
use crate::set::pool::Peeked;
use crate::set::rule::{Limit, LocalLimit, Rule};
use crate::set::rule_set::RuleSet;
use crate::set::settings::Settings;

/// The source of the decision about a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judge<'r> {
    /// Nothing decides: no rule matches, or another rule replaces it.
    Nobody,
    /// A rule without limits.
    Unlimited(usize, &'r Rule),
    Rule(usize, &'r Rule),
    Override(OwnLimit),
}

/// A limit that came with the request, and replaces those of the rule that matches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnLimit {
    pub(crate) limit: Override,
    /// The rule whose limits are replaced, if a rule matches.
    pub(crate) rule: Option<usize>,
    /// Whether that rule says `usage: true`.
    pub(crate) is_usage: bool,
    /// Whether every limit is in quota mode.
    pub(crate) is_quota: bool,
}

/// The charge of one limit of a rule.
#[derive(Debug)]
pub(crate) struct GateCharge<'r> {
    pub(crate) gate: &'r LocalLimit,
    pub(crate) charged: Charged,
}

#[derive(Debug)]
pub(crate) struct Part<'r> {
    pub(crate) judge: Judge<'r>,
    pub(crate) manner: Manner,
    pub(crate) cost: u64,
    /// The range of the part's key in the buffer of all keys.
    pub(crate) key: Range<usize>,
    pub(crate) verdict: Option<RuleVerdict>,
    /// Refunds the charge of a limit that came with the request.
    pub(crate) permit: Option<Permit>,
    /// The charges of the rule's limits, if they are kept for a receipt.
    pub(crate) charges: Vec<GateCharge<'r>>,
    /// The time until the turn of the request's place in a queue.
    pub(crate) wait: Duration,
    /// Whether one of the rule's limits has borrowed the units from its pool.
    pub(crate) is_borrowed: bool,
    /// The units that were not charged by a charge that need not fit; or the units that could not be given back.
    pub(crate) uncharged: u64,
    /// Whether the part is admitted, and not charged, because a table has no cell for its client.
    pub(crate) is_full_allowed: bool,
    /// Whether this is the first charge under its rule that left units uncharged.
    pub(crate) is_first_uncharged: bool,
    /// Whether this is the first cost under its rule that was denied and charged nowhere.
    pub(crate) is_first_denied_cost: bool,
    /// The series that counts the values of this descriptor, if its rule asks for series.
    pub(crate) series: Option<Arc<Series>>,
}

impl OwnLimit {
    pub(super) fn of(
        limit: Override,
        rule: Option<usize>,
        rules: &RuleSet,
        settings: &Settings,
    ) -> Self {
        let is_usage = rule.is_some_and(|index| rules.rules()[index].is_usage());
        Self { limit, rule, is_usage, is_quota: settings.global_quota_mode }
    }
}

/// The effect of a part's verdict on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// The verdict has no effect: nothing limits the descriptor, or only a rule in shadow mode does, or units are given
    /// back.
    None,
    /// A part that is over its limit denies the request.
    Binding,
    /// A part that is over its limit denies the request only if all rules in quota mode are over their limits.
    Quota,
}

impl<'r> Part<'r> {
    pub(crate) fn new(judge: Judge<'r>, cost: u64, key: Range<usize>) -> Self {
        Self {
            judge,
            manner: Manner::Together,
            cost,
            key,
            verdict: None,
            permit: None,
            charges: Vec::new(),
            wait: Duration::ZERO,
            is_borrowed: false,
            uncharged: 0,
            is_full_allowed: false,
            is_first_uncharged: false,
            is_first_denied_cost: false,
            series: None,
        }
    }

    pub(crate) fn key<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.key.clone()]
    }

    pub(crate) fn say(&self) -> Enforcement {
        match self.judge {
            _ if self.manner == Manner::Back => Enforcement::None,
            Judge::Rule(_, rule) if rule.is_shadow() => Enforcement::None,
            Judge::Rule(_, rule) if rule.is_quota() => Enforcement::Quota,
            Judge::Override(own) if own.is_quota => Enforcement::Quota,
            Judge::Rule(..) | Judge::Override(_) => Enforcement::Binding,
            Judge::Nobody | Judge::Unlimited(..) => Enforcement::None,
        }
    }

    /// The treatment of a client without a cell under its rule.
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

    /// Whether one of the rule's limits is 0. Then the rule admits nothing, and no store is asked.
    pub(super) fn blocks(&self) -> bool {
        match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => false,
            Judge::Rule(_, rule) => rule.blocks(),
            Judge::Override(own) => own.limit.requests_per_unit == 0,
        }
    }

    /// Finds the series that counts the values of this descriptor. A part that counts no hits needs no series.
    pub(crate) fn find_series(&mut self, entries: &[DescriptorEntry<'_>]) {
        if self.cost == 0 || self.manner == Manner::Back {
            return;
        }
        let (Judge::Rule(_, rule) | Judge::Unlimited(_, rule)) = self.judge else { return };
        self.series = rule.series.as_ref().map(|table| table.of(entries));
    }

    /// Finds the verdict for `cost`, and charges nothing.
    pub(crate) fn ask(&self, cost: u64, with: Context<'_>) -> Option<RuleVerdict> {
        let key = self.key(with.keys);
        match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => None,
            Judge::Override(own) => Some(with.overrides.ask(own.limit, key, cost, with.moment)),
            Judge::Rule(_, rule) => {
                let limits = rule.limits().iter().enumerate();
                let on_full = rule.on_full();
                limits
                    .map(|(n, limit)| ask_limit(n, limit, on_full, key, cost, with))
                    .reduce(RuleVerdict::or)
            }
        }
    }

    /// Decides and charges this part independently of the other parts.
    pub(crate) fn charge(&mut self, with: Context<'_>) {
        let key = &with.keys[self.key.clone()];
        match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => {}
            Judge::Override(own) => {
                let charged = with.overrides.charge(own.limit, key, self.cost, with.moment);
                let (verdict, permit) = charged;
                (self.verdict, self.permit) = (Some(verdict), permit);
            }
            Judge::Rule(_, rule) if rule.blocks() => self.verdict = self.ask(self.cost, with),
            Judge::Rule(_, rule) => {
                self.verdict = match rule.limits() {
                    [Limit { gate: Some(gate), .. }]
                        if gate.pool.is_none()
                            && with.act.wait(gate).is_none()
                            && !with.act.keeps() =>
                    {
                        let decision = with.entry(gate, key).check_n(self.cost);
                        Some(RuleVerdict::of(&decision, 0, rule.on_full()))
                    }
                    _ => self.charge_stacked(rule.on_full(), with),
                };
            }
        }
    }

    /// Charges all limits of the rule or none. A limit that has no cell for the client is skipped if the rule admits
    /// such clients.
    fn charge_stacked(&mut self, on_full: OnFull, with: Context<'_>) -> Option<RuleVerdict> {
        let mut dues: Vec<Due<'r, '_>> = self.dues(with).collect();
        let mut numbers: Vec<usize> = (0..dues.len()).collect();
        let mut admitting: Option<RuleVerdict> = None;
        loop {
            let Outcome { told, is_allowed, is_within_soft, charges } = charge_dues(&dues, with);
            let Some(DueDecision { due, decision }) = told else {
                return admitting; // none of its tables has a cell
            };
            let verdict = RuleVerdict::of(&decision, numbers[due], on_full);
            if is_allowed || verdict.is_over {
                let no_cell = verdict.no_cell.or(admitting.and_then(|verdict| verdict.no_cell));
                let wait = charges.iter().map(|charge| charge.charged.wait()).max();
                let is_borrowed = charges.iter().any(|charge| charge.charged.is_borrowed());
                let charges = charges
                    .into_iter()
                    .map(|DueCharge { due, charged }| GateCharge { gate: dues[due].gate, charged });
                self.charges.extend(charges.filter(|_| with.act.keeps()));
                // The verdict is that of one limit. Another limit may have admitted within its soft share, borrowed, or
                // given a later place.
                let wait = wait.unwrap_or_default();
                return Some(RuleVerdict { no_cell, is_within_soft, is_borrowed, wait, ..verdict });
            }
            admitting = Some(verdict);
            dues.remove(due);
            numbers.remove(due);
        }
    }

    /// The charges that the limits of the rule are to make. The caller has excluded rules with a limit of 0, so every
    /// limit has a table.
    pub(super) fn dues<'k>(&self, with: Context<'k>) -> impl Iterator<Item = Due<'r, 'k>> {
        let (key, cost) = (&with.keys[self.key.clone()], self.cost);
        let gates = self.rule().into_iter().flat_map(Rule::gates);
        let is_shadow = self.rule().is_some_and(Rule::is_shadow);
        gates.map(move |gate| Due { gate, key, cost, wait: with.act.wait(gate), is_shadow })
    }

    /// Charges the cost whether it fits or not, and then reads the state of the limits.
    pub(crate) fn charge_late(&mut self, with: Context<'_>) {
        let (key, cost) = (self.key(with.keys), self.cost);
        self.uncharged = match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => return,
            Judge::Override(own) => with.overrides.drain(own.limit, key, cost, with.moment),
            Judge::Rule(_, rule) => {
                let charge = |limit: &Limit| {
                    // A limit of 0 has nothing that could be charged.
                    limit.gate.as_ref().map_or(cost, |gate| with.entry(gate, key).charge(cost))
                };
                rule.limits().iter().map(charge).max().unwrap_or(0)
            }
        };
        self.verdict = self.ask(1, with).map(told);
    }

    /// The charge of a limit that came with the request.
    pub(crate) fn own_charge(&mut self, with: Context<'_>) -> Option<ReceiptLine> {
        let Judge::Override(own) = self.judge else { return None };
        let table = Arc::clone(with.overrides.table(own.limit)?);
        let charged = Charged::At(self.permit.take()?);
        Some(ReceiptLine { table, zone: None, key: self.key.clone(), charged })
    }

    /// Lets a denied request use up what was left of its limits, as in envoyproxy/ratelimit.
    pub(crate) fn drain_denied(&mut self, with: Context<'_>) {
        let key = self.key(with.keys);
        match self.judge {
            _ if !self.is_over() => return,
            Judge::Override(own) => {
                // Units that could not be charged need no action: the limit is exhausted anyway.
                let _ = with.overrides.drain(own.limit, key, self.cost, with.moment);
            }
            Judge::Rule(_, rule) => {
                for limit in rule.limits().iter().filter(|limit| limit.drains_denied) {
                    if let Some(gate) = &limit.gate {
                        let _ = with.entry(gate, key).charge(self.cost);
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
        if let (Judge::Override(own), Some(permit)) = (self.judge, self.permit.take()) {
            with.overrides.give_back(own.limit, self.key(with.keys), permit, with.moment);
        }
    }

    /// Deletes the charges of this descriptor. Returns the number of limits that were reset.
    pub(crate) fn reset(&self, with: Context<'_>) -> usize {
        let key = self.key(with.keys);
        match self.judge {
            Judge::Nobody | Judge::Unlimited(..) => 0,
            Judge::Override(own) => {
                with.overrides.reset(own.limit, key);
                1
            }
            Judge::Rule(_, rule) => {
                let reset = |gate: &LocalLimit| with.entry(gate, key).reset();
                rule.gates().map(reset).count()
            }
        }
    }
}

/// Finds the series of each part whose hits are counted.
pub(super) fn find_series(parts: &mut [Part<'_>], request: &Request<'_>, act: Act) {
    for (part, descriptor) in parts.iter_mut().zip(request.descriptors).filter(|_| act.counts()) {
        part.find_series(descriptor.entries);
    }
}

/// The verdict to report for a cost that is not denied. Its `retry_after` is the time until one more unit fits.
pub(super) fn told(verdict: RuleVerdict) -> RuleVerdict {
    RuleVerdict { is_over: false, is_borrowed: false, ..verdict }
}

fn ask_limit(
    n: usize,
    limit: &Limit,
    on_full: OnFull,
    key: &[u8],
    cost: u64,
    with: Context<'_>,
) -> RuleVerdict {
    match &limit.gate {
        Some(gate) => {
            let Peeked { decision, is_borrowed } = with.peek(gate, key, cost);
            let verdict = RuleVerdict { is_borrowed, ..RuleVerdict::of(&decision, n, on_full) };
            let has_place = |wait| with.entry(gate, key).peek_queue(cost, wait).is_allowed();
            match with.act.wait(gate) {
                Some(wait) if verdict.is_over && has_place(wait) => {
                    let wait =
                        decision.retry_after().unwrap_or_else(|| beyond(gate, &decision, cost));
                    RuleVerdict { wait, ..verdict.admitted() }
                }
                _ => verdict,
            }
        }
        None => {
            RuleVerdict::blocked(n, cost, until_turn(with.moment.read(with.clock), limit.window))
        }
    }
}

/// The time that a cost above the burst waits in a queue. It can go when the debt together with this cost is down to
/// the burst. Without a queue no check admits such a cost.
pub(super) fn beyond(gate: &LocalLimit, asked: &Decision, cost: u64) -> Duration {
    let quota = gate.policy.quota();
    let unit_ns = quota.period().as_nanos() / u128::from(quota.count().max(1));
    let more_ns = unit_ns.saturating_mul(u128::from(cost.saturating_sub(asked.limit())));
    let more_ns = u64::try_from(more_ns).unwrap_or(u64::MAX);
    asked.reset_after().saturating_add(Duration::from_nanos(more_ns))
}

/// The time until the next window of the clock begins.
fn until_turn(now: tollgate::Timestamp, window: Duration) -> Duration {
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(window_ns - now.as_nanos() % window_ns)
}
