//! Makes the claims of a request: finds the rule of each descriptor, builds its key, and finds how its cost is treated.

use super::claim::{LimitedBy, OwnLimit, RuleClaim};
use super::purpose::{CostKind, Purpose};
use crate::decide::request::Request;
use crate::language::identifier;
use crate::set::rule::Rule;
use crate::set::rule_set::RuleSet;
use crate::set::settings::RuleSettings;

/// The purpose and the settings by which a request is decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'s> {
    pub(super) purpose: Purpose,
    pub(super) settings: &'s RuleSettings,
    /// Whether limits are kept in a store outside this process.
    pub(super) is_elsewhere: bool,
}

/// A request with the rules that its descriptors match.
pub(super) struct Resolved<'r> {
    /// One claim for each descriptor.
    pub(super) claims: Vec<RuleClaim<'r>>,
    /// The keys of all claims.
    pub(super) keys: &'r [u8],
    /// Whether the request's domain is in the rules.
    pub(super) is_domain: bool,
    /// Whether some claims are decided before the claims that are decided together.
    pub(super) has_early: bool,
}

/// Makes a claim of each descriptor. The keys are built in the buffer `keys`, which the caller passes empty.
pub(super) fn resolve<'r>(
    rules: &'r RuleSet,
    request: &'r Request<'r>,
    way: Way<'_>,
    keys: &'r mut Vec<u8>,
) -> Resolved<'r> {
    let domain = rules.domains.get(request.domain);
    let mut replaces = false;
    let mut claims: Vec<RuleClaim<'r>> = Vec::with_capacity(request.descriptors.len());
    for descriptor in request.descriptors {
        let start = keys.len();
        // `None` if nothing matches.
        let found = domain.and_then(|domain| domain.find(descriptor.entries));
        let limited_by = match descriptor.limit {
            // If the domain is in no file, a limit that comes with the request is ignored, too.
            Some(limit) if domain.is_some() => {
                identifier::append_all(keys, request.domain, descriptor.entries, rules.bits);
                let rule = found.map(|index| &rules.rules()[index]);
                let is_quota = way.settings.global_quota_mode;
                LimitedBy::OwnLimit(OwnLimit { limit, rule, is_quota })
            }
            _ => match found {
                None => LimitedBy::Nothing,
                Some(index) => {
                    let rule = &rules.rules()[index];
                    replaces |= !rule.replaces.is_empty();
                    identifier::append(keys, &rules.identifiers[index], descriptor.entries);
                    if rule.is_unlimited() {
                        LimitedBy::Unlimited(index, rule)
                    } else {
                        LimitedBy::Rule(index, rule)
                    }
                }
            },
        };
        claims.push(RuleClaim::new(
            limited_by,
            request,
            descriptor,
            way.purpose,
            start..keys.len(),
        ));
    }
    if replaces {
        replace(&mut claims);
    }
    let keys: &'r [u8] = keys;
    let mut has_early = false;
    for claim in &mut claims {
        claim.key = &keys[claim.key_range.clone()];
        // This comes after `replace`, because a rule that was replaced has no say in how the cost is treated.
        claim.kind = cost_kind(claim, way);
        has_early |= claim.kind != CostKind::Asked || claim.is_closed();
        if way.purpose.counts() {
            find_series(claim);
        }
    }
    Resolved { claims, keys, is_domain: domain.is_some(), has_early }
}

/// Removes each rule whose name is in the `replaces` of another rule of the same request.
fn replace(claims: &mut [RuleClaim<'_>]) {
    let rule_of = |claim: &RuleClaim<'_>| match claim.limited_by {
        LimitedBy::Rule(index, _) | LimitedBy::Unlimited(index, _) => Some(index),
        _ => None,
    };
    let is_replaced = |claim: &RuleClaim<'_>| match claim.limited_by {
        LimitedBy::Rule(_, rule) | LimitedBy::Unlimited(_, rule) => {
            rule.name().is_some_and(|name| {
                claims.iter().any(|other| match other.limited_by {
                    LimitedBy::Rule(_, by) | LimitedBy::Unlimited(_, by) => {
                        rule_of(other) != rule_of(claim)
                            && by.replaces.iter().any(|one| **one == *name)
                    }
                    _ => false,
                })
            })
        }
        _ => false,
    };
    let replaced: Vec<bool> = claims.iter().map(is_replaced).collect();
    for (claim, _) in claims.iter_mut().zip(replaced).filter(|(_, replaced)| *replaced) {
        claim.limited_by = LimitedBy::Nothing;
    }
}

/// Finds how the cost of a descriptor is treated.
fn cost_kind(claim: &RuleClaim<'_>, way: Way<'_>) -> CostKind {
    let is_usage = match claim.limited_by {
        LimitedBy::Nothing | LimitedBy::Unlimited(..) => false,
        LimitedBy::Rule(..) | LimitedBy::OwnLimit(_) => claim.rule().is_some_and(Rule::is_usage),
    };
    let remembers_denied =
        || claim.deciding_rule().is_none_or(|rule| rule.remembers_denied(way.is_elsewhere));
    // A cost of 0 from Envoy is a question. Other callers ask questions by `Purpose::Peek`.
    let is_question = claim.cost == 0 && way.purpose == Purpose::CheckEnvoy;
    match way.purpose {
        _ if claim.descriptor.is_negative => CostKind::Returned,
        Purpose::Charge => CostKind::Asked,
        _ if is_usage => CostKind::Used,
        // Under `compat` a check of cost 0 is answered as by envoyproxy/ratelimit: it is denied only if the limit has
        // been exceeded.
        _ if is_question && !(way.settings.compat && remembers_denied()) => CostKind::Used,
        _ => CostKind::Asked,
    }
}

/// Finds the series that counts the values of a descriptor. A claim that counts no hits needs no series.
fn find_series(claim: &mut RuleClaim<'_>) {
    if claim.cost == 0 || claim.kind == CostKind::Returned {
        return;
    }
    if let LimitedBy::Rule(_, rule) | LimitedBy::Unlimited(_, rule) = claim.limited_by {
        let table = rule.series.as_ref();
        claim.series = table.map(|table| table.of(claim.descriptor.entries));
    }
}
