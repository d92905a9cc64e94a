//! Turns the decisions about the descriptors into an answer, counts and reports.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use tollgate::Timestamp;

use super::DecisionMaker;
use super::act::{Act, Manner};
use super::context::Context;
use super::joint::is_over;
use super::part::{Enforcement, GateCharge, Judge, Part};
use crate::counts::full::FullReport;
use crate::counts::rule_counts::HitSplit;
use crate::decide::answer::{Answer, Code, CurrentLimit, LimitPlace, Status};
use crate::decide::receipt::{Receipt, ReceiptLine};
use crate::language::file::Usage;
use crate::set::rule::Limit;
use crate::set::rule_set::RuleSet;

/// The number that envoyproxy/ratelimit reports as remaining under an unlimited rule.
const UNLIMITED_REMAINING: u64 = u32::MAX as u64;

impl DecisionMaker {
    /// Builds the answer, and counts it unless the act is [`Act::Peek`].
    pub(super) fn conclude(
        &self,
        mut parts: Vec<Part<'_>>,
        with: Context<'_>,
        is_domain: bool,
    ) -> Concluded {
        let settings = self.cache.settings();
        let mut reports = Vec::new();
        let is_over = is_over(&parts);
        let is_shadowed = is_over && settings.global_shadow_mode;
        if with.act.counts() {
            self.count(&parts, with);
            parts.iter_mut().for_each(count_uncharged);
            parts.iter_mut().for_each(|part| self.count_denied_cost(part, is_over, with.act));
            let now = || with.moment.read(with.clock);
            reports.extend(parts.iter().filter_map(|part| self.count_no_cell(part, now)));
            if is_shadowed {
                self.cache.count_global_shadow();
            }
            // An unknown domain is not limited, even if the request brings a limit.
            if !is_domain {
                self.cache.count_unknown_domain();
            }
        }
        let code = if is_over && !is_shadowed { Code::OverLimit } else { Code::Ok };
        let waits =
            |part: &Part<'_>| part.say() != Enforcement::None && !settings.global_shadow_mode;
        let status = |part: &Part<'_>| {
            let told = status(part);
            // A request that is denied has borrowed nothing.
            let told = Status { is_borrowed: told.is_borrowed && !is_over, ..told };
            if waits(part) { told } else { Status { wait: Duration::ZERO, ..told } }
        };
        let statuses = parts.iter().map(status).collect();
        let receipt = (with.act.keeps() && !is_over).then(|| receipt(&mut parts, with));
        Concluded { code, statuses, reports, receipt }
    }

    fn count(&self, parts: &[Part<'_>], with: Context<'_>) {
        let settings = self.cache.settings();
        for part in parts {
            let (rule, verdict) = match (part.judge, part.verdict) {
                (Judge::Rule(_, rule) | Judge::Unlimited(_, rule), _)
                    if part.manner == Manner::Back =>
                {
                    // If no rule with limits decided, nothing was charged, so nothing came back.
                    let kept = if part.rule().is_some() { part.uncharged } else { part.cost };
                    rule.counts.given_back(part.cost, part.cost.saturating_sub(kept));
                    continue;
                }
                (Judge::Unlimited(_, rule), _) => (rule, None),
                (Judge::Rule(_, rule), Some(verdict)) => (rule, Some(verdict)),
                _ => continue,
            };
            let all = HitSplit { within: part.cost, ..HitSplit::default() };
            let split =
                verdict.map_or(all, |verdict| verdict.split(part.cost, settings.near_limit_ratio));
            let of_series = part.series.as_ref().map(|series| &series.hits);
            for hits in [Some(&rule.counts.hits), of_series].into_iter().flatten() {
                match verdict.filter(|verdict| verdict.is_over) {
                    Some(verdict) => {
                        hits.over(part.cost, split, rule.is_shadow(), verdict.is_remembered);
                    }
                    None => {
                        hits.admitted(split, verdict.is_some_and(|verdict| verdict.is_borrowed));
                    }
                }
            }
            let is_told = settings.worst_clients && part.cost > 0 && part.is_over();
            // If the key is empty, all clients share one limit.
            if is_told && !part.key.is_empty() {
                let now = with.moment.read(with.clock);
                rule.counts.worst.add(part.key(with.keys), part.cost, now, &self.cache.lists);
            }
        }
    }

    /// Counts a cost that is denied and charged nowhere. If that cost was used already, the limit's count is too low by
    /// that amount.
    fn count_denied_cost(&self, part: &mut Part<'_>, is_over: bool, act: Act) {
        // Other callers charge used costs by `Act::Charge`, so only Envoy's costs are logged.
        let (cost, is_of_envoy) = (part.cost, act == Act::CheckEnvoy);
        let is_separate = self.cache.settings().compat;
        let is_denied = part.is_over() || is_over && !is_separate;
        if cost <= 1 || !is_denied || part.manner != Manner::Together {
            return;
        }
        part.is_first_denied_cost = match part.judge {
            Judge::Rule(_, rule) => {
                let is_charged = is_separate && rule.limits().iter().all(Limit::drains_denied);
                !is_charged
                    && rule.counts.denied_cost(cost, is_of_envoy)
                    && rule.traits.usage == Usage::Unsaid
            }
            Judge::Override(_) => {
                !is_separate && self.cache.own_limits.denied_cost(cost, is_of_envoy)
            }
            Judge::Nobody | Judge::Unlimited(..) => false,
        };
    }

    /// Counts a decision about a client without a cell.
    fn count_no_cell(&self, part: &Part<'_>, now: impl Fn() -> Timestamp) -> Option<FullReport> {
        let how = part.verdict?.no_cell?;
        match part.judge {
            Judge::Override(_) => self.cache.count_own_limit_full(how, part.cost, now()),
            _ => part.rule()?.count_no_cell(how, part.cost, now()),
        }
    }
}

/// Counts the units of a charge that are not remembered.
fn count_uncharged(part: &mut Part<'_>) {
    // Units that could not be given back are counted elsewhere, with those that were given back.
    if let (1.., Some(rule)) = (part.uncharged, part.rule())
        && part.manner != Manner::Back
    {
        part.is_first_uncharged = rule.counts.uncharged(part.uncharged);
    }
}

/// An answer without the rules by which it was decided. They are attached later.
pub(super) struct Concluded {
    code: Code,
    statuses: Vec<Status>,
    reports: Vec<FullReport>,
    receipt: Option<Receipt>,
}

impl Concluded {
    pub(super) fn answer(self, rules: Guard<Option<Arc<RuleSet>>>) -> Answer {
        let Self { code, statuses, reports, receipt } = self;
        Answer { rules, code, statuses, reports, receipt }
    }
}

/// The receipt for the charges of all parts.
fn receipt(parts: &mut [Part<'_>], with: Context<'_>) -> Receipt {
    let charges = parts.iter_mut().flat_map(|part| {
        let (key, own) = (part.key.clone(), part.own_charge(with));
        let of_rule = std::mem::take(&mut part.charges).into_iter();
        let of_rule = of_rule.map(move |GateCharge { gate, charged }| ReceiptLine {
            table: Arc::clone(&gate.table),
            zone: gate.zone.clone(),
            key: key.clone(),
            charged,
        });
        of_rule.chain(own)
    });
    let charges = charges.collect();
    Receipt { keys: with.keys.into(), charges, clock: with.clock.clone() }
}

fn status(part: &Part<'_>) -> Status {
    let (limit, place) = match (part.judge, part.verdict) {
        (Judge::Unlimited(index, _), _) => {
            let place = Some(LimitPlace { rule: index, limit: 0 });
            return Status { remaining: UNLIMITED_REMAINING, place, ..Status::FREE };
        }
        (Judge::Rule(index, rule), Some(verdict)) => {
            let limit = rule.limits().get(verdict.limit).map(|limit| CurrentLimit {
                requests_per_unit: limit.requests,
                window: limit.window,
                unit: limit.unit,
            });
            (limit, Some(LimitPlace { rule: index, limit: verdict.limit }))
        }
        (Judge::Override(own), Some(_)) => {
            let limit = own.limit.counted();
            let (requests_per_unit, unit) = (limit.requests_per_unit, Some(limit.unit));
            let window = limit.unit.length();
            (Some(CurrentLimit { requests_per_unit, window, unit }), None)
        }
        _ => return Status::FREE,
    };
    let Some(verdict) = part.verdict else { return Status::FREE };
    let is_shadow = matches!(part.judge, Judge::Rule(_, rule) if rule.is_shadow());
    let denies = verdict.is_over && !is_shadow;
    Status {
        code: if denies { Code::OverLimit } else { Code::Ok },
        is_over: verdict.is_over,
        wait: verdict.wait,
        uncharged: part.uncharged,
        is_first_uncharged: part.is_first_uncharged,
        is_first_denied_cost: part.is_first_denied_cost,
        is_within_soft: verdict.is_within_soft,
        is_borrowed: verdict.is_borrowed,
        limit,
        remaining: verdict.remaining,
        reset_after: verdict.reset_after,
        retry_after: verdict.retry_after,
        no_cell: verdict.no_cell,
        is_without_store: verdict.is_without_store,
        place,
    }
}
