//! [`RuleClaim`]: one descriptor of a request, the limits that it falls under, and the decision about it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Decision, Permit, Wait};

use super::purpose::{CostKind, Purpose};
use super::verdict::RuleVerdict;
use crate::counts::series::Series;
use crate::decide::receipt::ReceiptLine;
use crate::decide::request::{Descriptor, Override, Request};
use crate::language::identifier::readable;
use crate::language::on_full::OnFull;
use crate::language::stem;
use crate::set::rule::{LocalLimit, Rule, RuleLimit};

/// The units that a descriptor asks for, either under the limits of one rule, which are all charged or none, or under a
/// limit that comes with the request. A claim is decided by a [`LimitStore`](crate::LimitStore).
#[derive(Debug)]
pub struct RuleClaim<'r> {
    pub(super) limited_by: LimitedBy<'r>,
    pub(super) request: &'r Request<'r>,
    pub(super) descriptor: &'r Descriptor<'r>,
    pub(super) purpose: Purpose,
    pub(super) kind: CostKind,
    pub(super) cost: u64,
    pub(super) key: &'r [u8],
    /// The range of the key in the buffer of all keys.
    pub(super) key_range: Range<usize>,
    /// Whether the claim has been decided, ahead of the claims that are decided together.
    pub(super) is_settled: bool,
    pub(super) verdict: Option<RuleVerdict>,
    /// If the cost is charged whether it fits or not, the units that could not be charged. If the cost is given back,
    /// the units that could not be given back.
    pub(super) uncharged: u64,
    /// Whether this is the first charge under its rule that left units uncharged.
    pub(super) is_first_uncharged: bool,
    /// Whether this is the first cost under its rule that was denied and charged nowhere.
    pub(super) is_first_denied_cost: bool,
    /// The series that counts the values of this descriptor, if its rule asks for series.
    pub(super) series: Option<Arc<Series>>,
    /// The charges that were made so far in the tables of this process, if a later step needs them.
    pub(super) in_tables: Option<Box<TableCharges>>,
}

/// The rule or the limit that a descriptor falls under.
#[derive(Clone, Copy, Debug)]
pub(super) enum LimitedBy<'r> {
    /// Nothing: no rule matches, or the rule that matches is replaced by another rule of the request.
    Nothing,
    /// A rule without limits, at this index.
    Unlimited(usize, &'r Rule),
    Rule(usize, &'r Rule),
    OwnLimit(OwnLimit<'r>),
}

/// A limit that came with the request, and applies in place of the limits of the rule that matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnLimit<'r> {
    pub(super) limit: Override,
    /// The rule whose limits are replaced, if a rule matches.
    pub(super) rule: Option<&'r Rule>,
    /// Whether the limit is in quota mode, because the settings put every limit in quota mode.
    pub(super) is_quota: bool,
}

/// The charges that the tables of this process have made for a claim. They are kept while several claims are charged
/// together.
#[derive(Debug, Default)]
pub(super) struct TableCharges {
    /// The permit of a limit that came with the request; it refunds the charge.
    pub(super) permit: Option<Permit>,
    /// The charges, if they are kept for a receipt.
    pub(super) lines: Vec<ReceiptLine>,
    /// The time that the request has to wait in a queue.
    pub(super) wait: Duration,
    /// Whether one of the rule's limits has borrowed the units from its pool.
    pub(super) is_borrowed: bool,
    /// The indices of the rule's limits that are not charged, because their tables have no cell for the client and the
    /// rule admits such clients.
    pub(super) left_out: Vec<usize>,
}

/// The effect of a claim's decision on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enforcement {
    /// The decision has no effect: nothing limits the descriptor, or only a rule in shadow mode does, or units are
    /// given back.
    None,
    /// A claim that is over its limit denies the request.
    Binding,
    /// A claim that is over its limit denies the request only if all rules in quota mode are over their limits.
    Quota,
}

/// The answer of one limit in a [`LimitStore`](crate::LimitStore).
#[derive(Debug)]
pub struct StoreAnswer {
    /// The decision of the limit.
    pub decision: Decision,
    /// The time to wait, if the limit gave the request a place in its queue.
    pub wait: Duration,
    /// Whether the request was denied without asking the store, because of an earlier answer of the store.
    pub is_remembered: bool,
    /// Whether the decision was made without the store that keeps the limit, because the store did not answer.
    pub is_without_store: bool,
}

impl From<Decision> for StoreAnswer {
    fn from(decision: Decision) -> Self {
        let (is_remembered, is_without_store) = (false, false);
        Self { decision, wait: Duration::ZERO, is_remembered, is_without_store }
    }
}

impl<'r> RuleClaim<'r> {
    pub(super) fn new(
        limited_by: LimitedBy<'r>,
        request: &'r Request<'r>,
        descriptor: &'r Descriptor<'r>,
        purpose: Purpose,
        key_range: Range<usize>,
    ) -> Self {
        Self {
            limited_by,
            request,
            descriptor,
            purpose,
            kind: CostKind::Asked,
            cost: request.cost(descriptor),
            key: &[],
            key_range,
            is_settled: false,
            verdict: None,
            uncharged: 0,
            is_first_uncharged: false,
            is_first_denied_cost: false,
            series: None,
            in_tables: None,
        }
    }

    /// Whether the store is to decide this claim. The store does not decide it if nothing limits the descriptor, or if
    /// the claim was decided before the others.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.is_settled && matches!(self.limited_by, LimitedBy::Rule(..) | LimitedBy::OwnLimit(_))
    }

    /// Whether the claim is open, and its cost is of this kind.
    pub(super) fn is_open_as(&self, kind: CostKind) -> bool {
        self.kind == kind && self.is_open()
    }

    /// Whether one of its limits is 0. If so, nothing is admitted, and no store is asked.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self.limited_by {
            LimitedBy::Nothing | LimitedBy::Unlimited(..) => false,
            LimitedBy::Rule(_, rule) => rule.blocks(),
            LimitedBy::OwnLimit(own) => own.limit.requests_per_unit == 0,
        }
    }

    /// The rule that matches the descriptor; `None` if no rule matches, or if the rule was replaced by another.
    #[must_use]
    pub fn rule(&self) -> Option<&'r Rule> {
        match self.limited_by {
            LimitedBy::Nothing => None,
            LimitedBy::Unlimited(_, rule) | LimitedBy::Rule(_, rule) => Some(rule),
            LimitedBy::OwnLimit(own) => own.rule,
        }
    }

    /// The limit that came with the request and replaces those of the rule, lowered to the highest that can be counted.
    /// The rule's `on_error` applies to this limit, too.
    #[must_use]
    pub fn own_limit(&self) -> Option<Override> {
        match self.limited_by {
            LimitedBy::OwnLimit(own) => Some(own.limit.counted()),
            _ => None,
        }
    }

    /// The rule by whose limits the claim is decided; `None` if no rule's limits decide.
    pub(super) fn deciding_rule(&self) -> Option<&'r Rule> {
        match self.limited_by {
            LimitedBy::Rule(_, rule) => Some(rule),
            _ => None,
        }
    }

    /// The units to charge, or to give back.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The units that [`LimitStore::look`](crate::LimitStore::look) asks for: the cost; but one unit if the cost was
    /// used already or is given back.
    #[must_use]
    pub fn units_to_look_for(&self) -> u64 {
        if self.kind == CostKind::Asked { self.cost } else { 1 }
    }

    /// The purpose of the request.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The key of the client. No other client of this rule has the same bytes. If the limit came with the request, the
    /// key is that of the whole descriptor, and no other descriptor of any domain has the same bytes.
    #[must_use]
    pub fn key(&self) -> &'r [u8] {
        self.key
    }

    /// The key as text: the values that the rule leaves open, with `,` between them, and `%2C` for a comma within a
    /// value. No other client of this rule has the same text.
    #[must_use]
    pub fn client(&self) -> String {
        readable(self.key)
    }

    /// The key of the client in envoyproxy/ratelimit, without the time of the window at its end. It consists of the
    /// domain and of each key and value, each followed by `_`.
    #[must_use]
    pub fn envoyproxy_stem(&self) -> Vec<u8> {
        let (mut stem, domain) = (Vec::new(), self.request.domain);
        match self.deciding_rule() {
            Some(rule) => rule.stem.append(&mut stem, domain, self.descriptor.entries),
            None => stem::append(&mut stem, domain, self.descriptor.entries, &[]),
        }
        stem
    }

    /// How long this limit of the rule lets the request wait; `None` if it admits the request at once or denies it.
    #[must_use]
    pub fn wait(&self, limit: &RuleLimit) -> Option<Wait> {
        self.wait_at(limit.gate.as_ref()?)
    }

    /// How long this limit lets the request wait. Costs that were used already never wait, and neither do units that
    /// are given back.
    pub(super) fn wait_at(&self, gate: &LocalLimit) -> Option<Wait> {
        self.purpose.wait(gate).filter(|_| self.kind == CostKind::Asked)
    }

    /// Whether the rule is in shadow mode. If so, the claim is counted, but never denies the request.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.deciding_rule().is_some_and(Rule::is_shadow)
    }

    /// Whether the claim is in quota mode. If so, it denies the request only if all other claims of the request in
    /// quota mode are over their limits as well.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        self.enforcement() == Enforcement::Quota
    }

    /// Whether the claim was found to be over its limit.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.is_over)
    }

    pub(super) fn enforcement(&self) -> Enforcement {
        match self.limited_by {
            _ if self.kind == CostKind::Returned => Enforcement::None,
            LimitedBy::Rule(_, rule) if rule.is_shadow() => Enforcement::None,
            LimitedBy::Rule(_, rule) if rule.is_quota() => Enforcement::Quota,
            LimitedBy::OwnLimit(own) if own.is_quota => Enforcement::Quota,
            LimitedBy::Rule(..) | LimitedBy::OwnLimit(_) => Enforcement::Binding,
            LimitedBy::Nothing | LimitedBy::Unlimited(..) => Enforcement::None,
        }
    }

    /// The charges made so far in the tables of this process, to which the caller can add more.
    pub(super) fn in_tables(&mut self) -> &mut TableCharges {
        self.in_tables.get_or_insert_default()
    }

    /// Whether the limit at this index of the rule is not charged, because its table has no cell for the client.
    pub(super) fn leaves_out(&self, limit: usize) -> bool {
        self.in_tables.as_ref().is_some_and(|charges| charges.left_out.contains(&limit))
    }

    /// How the claim's rule treats a client without a cell.
    pub(super) fn on_full(&self) -> OnFull {
        self.deciding_rule().map_or_else(OnFull::default, Rule::on_full)
    }

    /// Reports the limits' answers to a [look](crate::LimitStore::look) for [these
    /// units](RuleClaim::units_to_look_for), in the order of the limits. A limit that came with the request gives one
    /// answer. A missing answer counts as a denial. A limit whose queue has a place for the request counts as having
    /// room.
    pub fn looked(&mut self, answers: &[StoreAnswer]) {
        self.found(self.combined(answers, |limit, asked| self.place_ahead(limit, asked)));
    }

    /// Denies the claim if the store has not reported its decision: a limit without an answer is treated as a denial.
    pub(super) fn deny_unreported(&mut self) {
        let is_limited = matches!(self.limited_by, LimitedBy::Rule(..) | LimitedBy::OwnLimit(_));
        if is_limited && self.verdict.is_none() {
            self.looked(&[]);
        }
    }

    /// Reports the limits' answers to a charge of the cost, in the order of the limits. A missing answer counts as a
    /// denial.
    pub fn charged(&mut self, answers: &[StoreAnswer]) {
        self.found(self.combined(answers, |_, _| None));
    }

    /// Reports that the cost was charged whether it fitted or not, or that it was given back. `answers` are the limits'
    /// answers to a look for one more unit afterwards; they do not put the claim over its limit. `kept` is the number
    /// of units that a limit could not remember, or could not give back; if there are several limits, the largest of
    /// their numbers.
    pub fn settled(&mut self, answers: &[StoreAnswer], kept: u64) {
        self.uncharged = kept;
        self.found(self.combined(answers, |_, _| None).map(RuleVerdict::not_over));
    }

    /// Records the verdict about [these units](RuleClaim::units_to_look_for).
    pub(super) fn found(&mut self, verdict: Option<RuleVerdict>) {
        self.verdict = match self.kind {
            CostKind::Asked | CostKind::Used => verdict,
            // Units can be given back without a cell, so a missing cell does not matter.
            CostKind::Returned => {
                verdict.map(|found| RuleVerdict { no_cell: None, ..found.not_over() })
            }
        };
    }

    /// Combines the verdicts of all limits. For a limit that denies, `place_ahead` returns the wait in its queue, if
    /// the queue has a place.
    fn combined(
        &self,
        answers: &[StoreAnswer],
        place_ahead: impl Fn(&RuleLimit, &Decision) -> Option<Duration>,
    ) -> Option<RuleVerdict> {
        // A limit that came with the request has no `RuleLimit`, so its window is added here.
        let limits = self.deciding_rule().map(Rule::limits).unwrap_or_default();
        let own_window = self.own_limit().map(|limit| limit.unit.length());
        let windows = limits.iter().map(RuleLimit::window).chain(own_window);
        let verdicts = windows.enumerate().map(|(n, window)| {
            let Some(answer) = answers.get(n) else {
                return RuleVerdict::blocked(n, self.cost.max(1), window);
            };
            let verdict = RuleVerdict::of(&answer.decision, n, OnFull::default());
            let StoreAnswer { wait, is_remembered, is_without_store, .. } = *answer;
            let verdict = RuleVerdict { is_without_store, ..verdict };
            // The store keeps the queue. So if the store did not answer, nothing is known about places in it.
            let place = limits.get(n).filter(|_| verdict.is_over && !is_without_store);
            match place.and_then(|limit| place_ahead(limit, &answer.decision)) {
                Some(wait) => RuleVerdict { wait, ..verdict.admitted() },
                None => RuleVerdict { wait, is_remembered, ..verdict },
            }
        });
        verdicts.reduce(RuleVerdict::or)
    }

    /// The time that the request would wait in the queue of a limit that denies it now; `None` if the queue has no
    /// place.
    fn place_ahead(&self, limit: &RuleLimit, asked: &Decision) -> Option<Duration> {
        let gate = limit.gate.as_ref()?;
        let wait = self.wait_at(gate)?;
        if gate.policy.algorithm() != Algorithm::Gcra {
            return None;
        }
        let ahead = asked.retry_after().unwrap_or_else(|| beyond(gate, asked, self.cost));
        let queue = gate.policy.at_limit().queue;
        let most = queue.map_or(Duration::MAX, |queue| queue.max_wait()).min(wait.max_wait());
        let behind = queue.map_or(u64::MAX, |queue| queue.max_behind()).min(wait.max_behind());
        // If `behind` units are in front of a place, its turn comes in `behind * unit_ns`.
        let quota = gate.policy.quota();
        let unit_ns = quota.period().as_nanos() / u128::from(quota.count().max(1));
        let is_near = ahead.as_nanos() <= unit_ns.saturating_mul(u128::from(behind));
        (ahead <= most && is_near).then_some(ahead)
    }

    /// Reports that the store has denied the request. If another request came in between, it may be that no claim was
    /// found to be over its limit. In that case the first claim that can deny by itself is marked as over. If there is
    /// no such claim, all claims in quota mode are marked, because only all of them together deny.
    pub fn denied(claims: &mut [Self]) {
        if is_over(claims) {
            return;
        }
        let is_binding = |claim: &Self| claim.enforcement() == Enforcement::Binding;
        match claims.iter_mut().find(|claim| is_binding(claim)) {
            Some(first) => first.mark_over(),
            None => claims.iter_mut().filter(|claim| claim.is_quota()).for_each(Self::mark_over),
        }
    }

    /// Records that nothing is left of the limit, because a denied cost was counted. A limit of a rule that does not
    /// count denied costs keeps its units; a limit that came with the request counts them always.
    pub(super) fn use_up(&mut self) {
        let rule = self.deciding_rule();
        let drains = |limit: usize| rule?.limits().get(limit).map(RuleLimit::drains_denied);
        if let Some(verdict) = &mut self.verdict
            && drains(verdict.limit).unwrap_or(true)
        {
            verdict.remaining = 0;
        }
    }

    /// Marks the claim as over its limit although it was found to have room: another request came in between.
    pub(super) fn mark_over(&mut self) {
        if let Some(verdict) = &mut self.verdict
            && !verdict.is_over
        {
            // The request was found to fit, at once or after a wait in the queue, so it is worth trying again after
            // that wait. If it would have borrowed, the pool may be unable to lend the units twice, so the request
            // should come back when the limit itself is whole again.
            let wait = if verdict.is_borrowed { verdict.reset_after } else { verdict.wait };
            (verdict.is_over, verdict.retry_after) = (true, Some(wait));
            (verdict.is_borrowed, verdict.wait) = (false, Duration::ZERO);
        }
    }
}

/// Whether the claims that are decided so far deny the request.
pub(super) fn is_over(claims: &[RuleClaim<'_>]) -> bool {
    let (mut has_quotas, mut has_room) = (false, false);
    for claim in claims {
        match claim.enforcement() {
            Enforcement::None => {}
            Enforcement::Binding if claim.is_over() => return true,
            Enforcement::Binding => {}
            Enforcement::Quota => (has_quotas, has_room) = (true, has_room | !claim.is_over()),
        }
    }
    has_quotas && !has_room
}

/// Whether there are claims in quota mode, and all of them are over their limits.
pub(super) fn quota_is_over(claims: &[RuleClaim<'_>]) -> bool {
    let mut quotas = claims.iter().filter(|claim| claim.is_quota()).peekable();
    quotas.peek().is_some() && quotas.all(RuleClaim::is_over)
}

/// The time that a cost above the burst waits in a queue. The request can go when the debt, with this cost included,
/// has drained to the burst. Without a queue such a cost is never admitted.
pub(super) fn beyond(gate: &LocalLimit, asked: &Decision, cost: u64) -> Duration {
    let quota = gate.policy.quota();
    let unit_ns = quota.period().as_nanos() / u128::from(quota.count().max(1));
    let more_ns = unit_ns.saturating_mul(u128::from(cost.saturating_sub(asked.limit())));
    let more_ns = u64::try_from(more_ns).unwrap_or(u64::MAX);
    asked.reset_after().saturating_add(Duration::from_nanos(more_ns))
}
