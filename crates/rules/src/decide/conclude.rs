//! Makes the answer, the counts and the reports from the decisions about the descriptors.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use tollgate::Timestamp;

use super::DecisionMaker;
use super::claim::{Enforcement, LimitedBy, RuleClaim, is_over};
use super::purpose::{CostKind, Purpose};
use super::resolve::Resolved;
use super::tables::Tables;
use crate::counts::full::FullReport;
use crate::counts::rule_counts::HitSplit;
use crate::decide::answer::{Answer, Code, CurrentLimit, LimitPlace, Status};
use crate::decide::receipt::Receipt;
use crate::language::file::Usage;
use crate::set::rule::RuleLimit;
use crate::set::rule_set::RuleSet;

/// The number that envoyproxy/ratelimit reports as remaining under an unlimited rule.
const UNLIMITED_REMAINING: u64 = u32::MAX as u64;

impl DecisionMaker {
    /// Builds the answer, and counts it unless the purpose is [`Purpose::Peek`].
    pub(super) fn conclude(
        &self,
        resolved: Resolved<'_>,
        purpose: Purpose,
        tables: Tables<'_>,
    ) -> Concluded {
        let Resolved { mut claims, keys, is_domain, .. } = resolved;
        let settings = self.cache.settings();
        let mut reports = Vec::new();
        let is_over = is_over(&claims);
        let is_shadowed = is_over && settings.global_shadow_mode;
        if purpose.counts() {
            self.count(&claims, tables);
            claims.iter_mut().for_each(count_uncharged);
            claims.iter_mut().for_each(|claim| self.count_denied_cost(claim, is_over, purpose));
            let now = || tables.now();
            reports.extend(claims.iter().filter_map(|claim| self.count_no_cell(claim, now)));
            if is_shadowed {
                self.cache.count_global_shadow();
            }
            // If the domain is in no file, nothing is limited, even if a limit comes with the request.
            if !is_domain {
                self.cache.count_unknown_domain();
            }
        }
        let code = if is_over && !is_shadowed { Code::OverLimit } else { Code::Ok };
        let waits = |claim: &RuleClaim<'_>| {
            claim.enforcement() != Enforcement::None && !settings.global_shadow_mode
        };
        let status = |claim: &RuleClaim<'_>| {
            let status = status(claim);
            // A request that is denied has borrowed nothing.
            let status = Status { is_borrowed: status.is_borrowed && !is_over, ..status };
            if waits(claim) { status } else { Status { wait: Duration::ZERO, ..status } }
        };
        let statuses = claims.iter().map(status).collect();
        // Under `compat` a request that only the global shadow mode admits may have been charged, too.
        let is_kept = purpose.keeps() && code == Code::Ok;
        let receipt = is_kept.then(|| receipt(&mut claims, keys, tables));
        Concluded { code, statuses, reports, receipt }
    }

    fn count(&self, claims: &[RuleClaim<'_>], tables: Tables<'_>) {
        let settings = self.cache.settings();
        for claim in claims {
            let (rule, verdict) = match (claim.limited_by, claim.verdict) {
                (LimitedBy::Rule(_, rule) | LimitedBy::Unlimited(_, rule), _)
                    if claim.kind == CostKind::Returned =>
                {
                    // If no rule with limits decided, nothing had been charged, so no units came back.
                    let kept =
                        if claim.deciding_rule().is_some() { claim.uncharged } else { claim.cost };
                    rule.counts.given_back(claim.cost, claim.cost.saturating_sub(kept));
                    continue;
                }
                (LimitedBy::Unlimited(_, rule), _) => (rule, None),
                (LimitedBy::Rule(_, rule), Some(verdict)) => (rule, Some(verdict)),
                _ => continue,
            };
            let all = HitSplit { within: claim.cost, ..HitSplit::default() };
            let split =
                verdict.map_or(all, |verdict| verdict.split(claim.cost, settings.near_limit_ratio));
            let of_series = claim.series.as_ref().map(|series| &series.hits);
            for hits in [Some(&rule.counts.hits), of_series].into_iter().flatten() {
                match verdict.filter(|verdict| verdict.is_over) {
                    Some(verdict) => {
                        hits.over(claim.cost, split, rule.is_shadow(), verdict.is_remembered);
                    }
                    None => {
                        hits.admitted(split, verdict.is_some_and(|verdict| verdict.is_borrowed));
                    }
                }
            }
            let is_listed = settings.worst_clients && claim.cost > 0 && claim.is_over();
            // If the key is empty, all clients share one limit.
            if is_listed && !claim.key.is_empty() {
                let now = tables.now();
                rule.counts.worst.add(claim.key, claim.cost, now, &self.cache.lists);
            }
        }
    }

    /// Counts a cost that is denied and charged nowhere. If that cost was used already, the limit's count is too low by
    /// that amount.
    fn count_denied_cost(&self, claim: &mut RuleClaim<'_>, is_over: bool, purpose: Purpose) {
        // Other callers charge used costs by `Purpose::Charge`, so only Envoy's costs are logged.
        let (cost, is_of_envoy) = (claim.cost, purpose == Purpose::CheckEnvoy);
        let is_separate = self.cache.settings().compat;
        let is_denied = claim.is_over() || is_over && !is_separate;
        if cost <= 1 || !is_denied || claim.kind != CostKind::Asked {
            return;
        }
        claim.is_first_denied_cost = match claim.limited_by {
            LimitedBy::Rule(_, rule) => {
                let is_charged = is_separate && rule.limits().iter().all(RuleLimit::drains_denied);
                !is_charged
                    && rule.counts.denied_cost(cost, is_of_envoy)
                    && rule.traits.usage == Usage::Unsaid
            }
            LimitedBy::OwnLimit(_) => {
                !is_separate && self.cache.own_limits.denied_cost(cost, is_of_envoy)
            }
            LimitedBy::Nothing | LimitedBy::Unlimited(..) => false,
        };
    }

    /// Counts a decision about a client without a cell.
    fn count_no_cell(
        &self,
        claim: &RuleClaim<'_>,
        now: impl Fn() -> Timestamp,
    ) -> Option<FullReport> {
        let how = claim.verdict?.no_cell?;
        match claim.limited_by {
            LimitedBy::OwnLimit(_) => self.cache.count_own_limit_full(how, claim.cost, now()),
            _ => claim.deciding_rule()?.count_no_cell(how, claim.cost, now()),
        }
    }
}

/// Counts the units of a charge that a limit could not remember.
fn count_uncharged(claim: &mut RuleClaim<'_>) {
    // Units that could not be given back are counted elsewhere, with those that were given back.
    if let (1.., Some(rule)) = (claim.uncharged, claim.deciding_rule())
        && claim.kind != CostKind::Returned
    {
        claim.is_first_uncharged = rule.counts.uncharged(claim.uncharged);
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

/// The receipt for the charges of all claims.
fn receipt(claims: &mut [RuleClaim<'_>], keys: &[u8], tables: Tables<'_>) -> Receipt {
    let charges = claims.iter_mut().flat_map(|claim| tables.take_lines(claim)).collect();
    Receipt { keys: keys.into(), charges, clock: tables.clock.clone() }
}

fn status(claim: &RuleClaim<'_>) -> Status {
    let (limit, place) = match (claim.limited_by, claim.verdict) {
        (LimitedBy::Unlimited(index, _), _) => {
            let place = Some(LimitPlace { rule: index, limit: 0 });
            return Status { remaining: UNLIMITED_REMAINING, place, ..Status::FREE };
        }
        (LimitedBy::Rule(index, rule), Some(verdict)) => {
            let limit = rule.limits().get(verdict.limit).map(|limit| CurrentLimit {
                requests_per_unit: limit.requests,
                window: limit.window,
                unit: limit.unit,
            });
            (limit, Some(LimitPlace { rule: index, limit: verdict.limit }))
        }
        (LimitedBy::OwnLimit(own), Some(_)) => {
            let limit = own.limit.counted();
            let (requests_per_unit, unit) = (limit.requests_per_unit, Some(limit.unit));
            let window = limit.unit.length();
            (Some(CurrentLimit { requests_per_unit, window, unit }), None)
        }
        _ => return Status::FREE,
    };
    let Some(verdict) = claim.verdict else { return Status::FREE };
    let is_shadow = matches!(claim.limited_by, LimitedBy::Rule(_, rule) if rule.is_shadow());
    let denies = verdict.is_over && !is_shadow;
    Status {
        code: if denies { Code::OverLimit } else { Code::Ok },
        is_over: verdict.is_over,
        wait: verdict.wait,
        uncharged: claim.uncharged,
        is_first_uncharged: claim.is_first_uncharged,
        is_first_denied_cost: claim.is_first_denied_cost,
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
