//! The tables of this process as a [`LimitStore`], which answers at once.
//!
//! # Claims that are charged together
//! If the request is admitted, every limit that can deny it is charged, and so is each rule in shadow mode that has
//! room. If it is denied, nothing is charged. There is one exception, as in [`tollgate::check_all`]: when two requests
//! run concurrently, a denied request may leave part of its cost in a limit for a while.
//!
//! # Rules in quota mode
//! A request passes if one of its rules in quota mode has room. Rules in quota mode without room are left out of the
//! charge. If such a rule loses its room to a concurrent request, it is left out as well, and the remaining rules are
//! checked again. Each round leaves one rule out, so there are at most as many rounds as rules in quota mode.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Timestamp;

use super::charges::{LimitCharge, LimitDecision, MadeCharge, Outcome, charge_all};
use super::claim::{Enforcement, LimitedBy, RuleClaim, TableCharges, beyond, quota_is_over};
use super::store::LimitStore;
use super::tables::Tables;
use super::verdict::RuleVerdict;
use crate::counts::full::NoCell;
use crate::decide::receipt::{Charged, ReceiptLine};
use crate::language::on_full::OnFull;
use crate::set::pool::Peeked;
use crate::set::rule::{LocalLimit, Rule, RuleLimit};

impl LimitStore for Tables<'_> {
    async fn look(&mut self, claims: &mut [RuleClaim<'_>]) {
        for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
            claim.found(self.ask(claim, claim.units_to_look_for()));
        }
    }

    async fn charge_together(&mut self, claims: &mut [RuleClaim<'_>]) {
        match claims {
            [claim] if claim.is_open() => self.charge_alone(claim, claim.purpose.keeps()),
            [_] => {}
            _ => self.charge_several(claims),
        }
    }

    async fn charge_used(&mut self, claims: &mut [RuleClaim<'_>]) {
        for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
            claim.uncharged = self.drain(claim, |_| true);
            claim.found(self.ask(claim, 1).map(RuleVerdict::not_over));
        }
    }

    async fn give_back(&mut self, claim: &mut RuleClaim<'_>) {
        let (key, cost) = (claim.key, claim.cost);
        let back = match claim.limited_by {
            LimitedBy::Nothing | LimitedBy::Unlimited(..) => 0,
            LimitedBy::OwnLimit(own) => self.overrides.uncharge(own.limit, key, cost, self.moment),
            LimitedBy::Rule(_, rule) => {
                let back = |limit: &RuleLimit| {
                    limit.gate.as_ref().map_or(0, |gate| self.entry(gate, key).uncharge(cost))
                };
                rule.limits().iter().map(back).min().unwrap_or(0)
            }
        };
        claim.uncharged = cost.saturating_sub(back);
        claim.found(self.ask(claim, claim.units_to_look_for()));
    }

    async fn count_denied(&mut self, claim: &RuleClaim<'_>) {
        // If the limit could not take all units, nothing has to be done: it is exhausted anyway.
        let _ = self.drain(claim, |limit| limit.drains_denied);
    }
}

impl Tables<'_> {
    /// Finds the verdict for `cost`, and charges nothing.
    fn ask(&self, claim: &RuleClaim<'_>, cost: u64) -> Option<RuleVerdict> {
        self.ask_some(claim, cost, |_| true)
    }

    /// Like [`ask`](Self::ask), but of a rule's limits asks only those whose indices `is_asked` selects.
    fn ask_some(
        &self,
        claim: &RuleClaim<'_>,
        cost: u64,
        is_asked: impl Fn(usize) -> bool,
    ) -> Option<RuleVerdict> {
        match claim.limited_by {
            LimitedBy::Nothing | LimitedBy::Unlimited(..) => None,
            LimitedBy::OwnLimit(own) => {
                Some(self.overrides.ask(own.limit, claim.key, cost, self.moment))
            }
            LimitedBy::Rule(_, rule) => {
                let asked = rule.limits().iter().enumerate().filter(|(n, _)| is_asked(*n));
                let verdicts = asked.map(|(n, limit)| {
                    let on_full = rule.on_full();
                    match &limit.gate {
                        Some(gate) => self.ask_limit(n, gate, on_full, claim, cost),
                        None => RuleVerdict::blocked(n, cost, until_turn(self.now(), limit.window)),
                    }
                });
                verdicts.reduce(RuleVerdict::or)
            }
        }
    }

    fn ask_limit(
        &self,
        n: usize,
        gate: &LocalLimit,
        on_full: OnFull,
        claim: &RuleClaim<'_>,
        cost: u64,
    ) -> RuleVerdict {
        let Peeked { decision, is_borrowed } = self.peek(gate, claim.key, cost);
        let verdict = RuleVerdict { is_borrowed, ..RuleVerdict::of(&decision, n, on_full) };
        let has_place = |wait| self.entry(gate, claim.key).peek_queue(cost, wait).is_allowed();
        match claim.wait_at(gate) {
            Some(wait) if verdict.is_over && has_place(wait) => {
                let wait = decision.retry_after().unwrap_or_else(|| beyond(gate, &decision, cost));
                RuleVerdict { wait, ..verdict.admitted() }
            }
            _ => verdict,
        }
    }

    /// Charges the cost to the limits of a claim that `is_charged` selects, whether it fits or not. Returns the number
    /// of units that a limit could not remember; if there are several limits, the largest of their numbers. A limit of
    /// 0 remembers nothing.
    fn drain(&self, claim: &RuleClaim<'_>, is_charged: impl Fn(&RuleLimit) -> bool) -> u64 {
        let (key, cost) = (claim.key, claim.cost);
        match claim.limited_by {
            LimitedBy::Nothing | LimitedBy::Unlimited(..) => 0,
            LimitedBy::OwnLimit(own) => self.overrides.drain(own.limit, key, cost, self.moment),
            LimitedBy::Rule(_, rule) => {
                let charge = |limit: &RuleLimit| {
                    limit.gate.as_ref().map_or(cost, |gate| self.entry(gate, key).charge(cost))
                };
                let limits = rule.limits().iter().filter(|limit| is_charged(limit));
                limits.map(charge).max().unwrap_or(0)
            }
        }
    }

    /// Decides and charges a claim independently of the other claims. `keeps` says whether the charge of a limit that
    /// came with the request may have to be given back later.
    fn charge_alone(&self, claim: &mut RuleClaim<'_>, keeps: bool) {
        claim.verdict = match claim.limited_by {
            LimitedBy::Nothing | LimitedBy::Unlimited(..) => None,
            LimitedBy::OwnLimit(own) => {
                let (verdict, permit) =
                    self.overrides.charge(own.limit, claim.key, claim.cost, self.moment);
                if permit.is_some() && keeps {
                    claim.in_tables().permit = permit;
                }
                Some(verdict)
            }
            LimitedBy::Rule(_, rule) => match rule.limits() {
                [RuleLimit { gate: Some(gate), .. }]
                    if gate.pool.is_none()
                        && claim.wait_at(gate).is_none()
                        && !claim.purpose.keeps() =>
                {
                    let decision = self.entry(gate, claim.key).check_n(claim.cost);
                    Some(RuleVerdict::of(&decision, 0, rule.on_full()))
                }
                _ if rule.blocks() => self.ask(claim, claim.cost),
                _ => self.charge_stacked(claim, rule.on_full()),
            },
        };
    }

    /// Charges all limits of the rule or none. A limit that has no cell for the client is skipped if the rule admits
    /// such clients.
    fn charge_stacked(&self, claim: &mut RuleClaim<'_>, on_full: OnFull) -> Option<RuleVerdict> {
        let (mut numbers, mut planned): (Vec<usize>, Vec<LimitCharge<'_>>) =
            limit_charges(claim).unzip();
        let mut admitting: Option<RuleVerdict> = None;
        loop {
            let keeps = claim.purpose.keeps();
            let Outcome { reported, is_allowed, is_within_soft, is_spilled, made } =
                charge_all(&planned, *self, keeps);
            let Some(LimitDecision { place, decision }) = reported else {
                return admitting; // none of its tables has a cell
            };
            let verdict = RuleVerdict::of(&decision, numbers[place], on_full);
            if is_allowed || verdict.is_over {
                let left_out = admitting.and_then(|verdict| verdict.no_cell);
                let spilled = is_spilled.then_some(NoCell::Spilled);
                let no_cell = verdict.no_cell.or(left_out).or(spilled);
                let wait = made.iter().map(|made| made.charged.wait()).max().unwrap_or_default();
                let is_borrowed = made.iter().any(|made| made.charged.is_borrowed());
                if keeps {
                    let lines = made.into_iter().map(|made| {
                        line(planned[made.place].gate, claim.key_range.clone(), made.charged)
                    });
                    let lines: Vec<ReceiptLine> = lines.collect();
                    claim.in_tables().lines.extend(lines);
                }
                // The verdict is that of one limit. The four fields below take all limits into account: another limit
                // may have had no cell, admitted the request within its soft share, borrowed, or given a later place.
                return Some(RuleVerdict { no_cell, is_within_soft, is_borrowed, wait, ..verdict });
            }
            admitting = Some(verdict);
            planned.remove(place);
            numbers.remove(place);
        }
    }

    /// Charges all open claims or none.
    fn charge_several(&self, claims: &mut [RuleClaim<'_>]) {
        let admitted = self.charge_decisive(claims);
        // The time is read after the charge, so that `remaining` is current.
        let since = self.read();
        for claim in claims.iter_mut().filter(|claim| claim.is_open()) {
            let left_out = claim.is_quota() && claim.is_over();
            match (admitted, claim.enforcement()) {
                (Ok(()), Enforcement::Binding | Enforcement::Quota) if !left_out => {
                    // A limit without a cell has nothing left, so another limit is reported if there is one.
                    let charged = since.ask_some(claim, 0, |limit| !claim.leaves_out(limit));
                    let verdict =
                        charged.or_else(|| since.ask(claim, 0)).map(RuleVerdict::admitted);
                    claim.verdict = verdict.map(|verdict| match claim.in_tables.as_deref() {
                        None => RuleVerdict { is_borrowed: false, wait: Duration::ZERO, ..verdict },
                        Some(TableCharges { wait, is_borrowed, left_out, .. }) => {
                            let full = (!left_out.is_empty()).then_some(NoCell::Allowed);
                            let no_cell = full.or(verdict.no_cell);
                            let (wait, is_borrowed) = (*wait, *is_borrowed);
                            RuleVerdict { no_cell, wait, is_borrowed, ..verdict }
                        }
                    });
                }
                (Ok(()), Enforcement::None) => self.charge_alone(claim, claim.purpose.keeps()),
                _ => claim.verdict = since.ask(claim, claim.cost),
            }
            // A rule that was left out is reported as over its limit, although there may be room again.
            if left_out {
                claim.mark_over();
            }
        }
        if let Err(Some(denied)) = admitted {
            claims[denied].mark_over();
        }
    }

    /// Charges all open claims that can deny and have room. If the request is denied, the error is the claim that
    /// denied it. The error is `None` if several claims denied it, or if a later look will show which claim it was.
    fn charge_decisive(&self, claims: &mut [RuleClaim<'_>]) -> Result<(), Option<usize>> {
        for claim in claims.iter_mut().filter(|claim| claim.is_open() && claim.is_quota()) {
            claim.verdict = self.ask(claim, claim.cost);
        }
        if quota_is_over(claims) {
            return Err(None);
        }
        let charged = self.charge_own_limits(claims).and_then(|()| self.charge_rules(claims));
        if charged.is_err() {
            for claim in claims {
                let permit = claim.in_tables.as_mut().and_then(|charges| charges.permit.take());
                if let (LimitedBy::OwnLimit(own), Some(permit)) = (claim.limited_by, permit) {
                    self.overrides.give_back(own.limit, claim.key, permit, self.moment);
                }
            }
        }
        charged
    }

    fn charge_own_limits(&self, claims: &mut [RuleClaim<'_>]) -> Result<(), Option<usize>> {
        for (n, claim) in claims.iter_mut().enumerate() {
            // Claims in quota mode were asked before. Those that are over their limits are not charged.
            let is_own = matches!(claim.limited_by, LimitedBy::OwnLimit(_));
            if is_own && claim.is_open() && !claim.is_over() {
                self.charge_alone(claim, true);
                if claim.is_over() && !claim.is_quota() {
                    return Err(Some(n));
                }
            }
        }
        if quota_is_over(claims) { Err(None) } else { Ok(()) }
    }

    fn charge_rules(&self, claims: &mut [RuleClaim<'_>]) -> Result<(), Option<usize>> {
        loop {
            let mut planned: Vec<LimitCharge<'_>> = Vec::with_capacity(claims.len());
            // For each planned charge, the index of its claim, and the index of the limit in the claim's rule.
            let mut owners: Vec<(usize, usize)> = Vec::with_capacity(claims.len());
            for (n, claim) in claims.iter().enumerate() {
                let is_asked =
                    claim.enforcement() != Enforcement::None && claim.is_open() && !claim.is_over();
                if is_asked {
                    let charges = limit_charges(claim);
                    for (limit, charge) in charges.filter(|(limit, _)| !claim.leaves_out(*limit)) {
                        planned.push(charge);
                        owners.push((n, limit));
                    }
                }
            }
            let keeps = claims.iter().any(|claim| claim.purpose.keeps());
            let outcome = charge_all(&planned, *self, keeps);
            if outcome.is_allowed {
                for MadeCharge { place, charged } in outcome.made {
                    let claim = &mut claims[owners[place].0];
                    let gate = planned[place].gate;
                    let key = claim.key_range.clone();
                    let charges = claim.in_tables();
                    charges.wait = charges.wait.max(charged.wait());
                    charges.is_borrowed |= charged.is_borrowed();
                    if keeps {
                        charges.lines.push(line(gate, key, charged));
                    }
                }
                return Ok(());
            }
            let Some(LimitDecision { place, decision }) = outcome.reported else {
                return Err(None);
            };
            let (denied, limit) = owners[place];
            let claim = &mut claims[denied];
            if NoCell::of(&decision, claim.on_full()) == Some(NoCell::Allowed) {
                // The client has no cell, and the rule admits such clients. So this limit is not charged, and the
                // others are checked again, also those of the same rule. Each round leaves out one limit, so the loop
                // ends.
                claim.in_tables().left_out.push(limit);
                continue;
            }
            if !claim.is_quota() {
                return Err(Some(denied));
            }
            claim.verdict = Some(RuleVerdict::of(&decision, limit, claim.on_full()));
            if quota_is_over(claims) {
                return Err(Some(denied));
            }
        }
    }

    /// Takes the charges out of a claim, for a receipt.
    pub(crate) fn take_lines(&self, claim: &mut RuleClaim<'_>) -> Vec<ReceiptLine> {
        let Some(charges) = claim.in_tables.take() else { return Vec::new() };
        let TableCharges { permit, mut lines, .. } = *charges;
        if let (LimitedBy::OwnLimit(own), Some(permit)) = (claim.limited_by, permit)
            && let Some(table) = self.overrides.table(own.limit)
        {
            let (table, key) = (Arc::clone(table), claim.key_range.clone());
            lines.push(ReceiptLine { table, zone: None, key, charged: Charged::At(permit) });
        }
        lines
    }

    /// Deletes the charges of a claim. Returns the number of limits that were reset.
    pub(crate) fn reset(&self, claim: &RuleClaim<'_>) -> usize {
        match claim.limited_by {
            LimitedBy::Nothing | LimitedBy::Unlimited(..) => 0,
            LimitedBy::OwnLimit(own) => {
                self.overrides.reset(own.limit, claim.key);
                1
            }
            LimitedBy::Rule(_, rule) => {
                let reset = |gate: &LocalLimit| self.entry(gate, claim.key).reset();
                rule.gates().map(reset).count()
            }
        }
    }
}

/// The charges to make to the limits of a claim's rule, each with the index of its limit. The caller has excluded rules
/// with a limit of 0, so every limit has a table.
fn limit_charges<'r>(
    claim: &RuleClaim<'r>,
) -> impl Iterator<Item = (usize, LimitCharge<'r>)> + use<'r> {
    let (key, cost, purpose) = (claim.key, claim.cost, claim.purpose);
    let is_shadow = claim.is_shadow();
    let gates = claim.deciding_rule().into_iter().flat_map(Rule::gates);
    gates.enumerate().map(move |(limit, gate)| {
        (limit, LimitCharge { gate, key, cost, wait: purpose.wait(gate), is_shadow })
    })
}

/// The charge of a rule's limit, for a receipt.
fn line(gate: &LocalLimit, key: Range<usize>, charged: Charged) -> ReceiptLine {
    ReceiptLine { table: Arc::clone(&gate.table), zone: gate.zone.clone(), key, charged }
}

/// The time until the next window of the clock begins.
fn until_turn(now: Timestamp, window: Duration) -> Duration {
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(window_ns - now.as_nanos() % window_ns)
}
