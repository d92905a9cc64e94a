//! Decides all descriptors of a request together: all are charged or none.
//!
//! # What is charged
//! If the request is admitted, every limit that can deny it is charged, and each rule in shadow mode that has room. If
//! it is denied, nothing is charged. There is one exception, as in [`tollgate::check_all`]: when two requests run
//! concurrently, a denied request may leave part of its cost in a limit for a while.
//!
//! # What is decided apart
//! Costs that were used already ([`Manner::Used`](super::Manner::Used)) are charged first; if they are over their
//! limit, they deny the whole request. Units that are given back ([`Manner::Back`](super::Manner::Back)) are given back
//! first. Neither is undone if the request is denied.
//!
//! # Rules in quota mode
//! A request passes if one of its rules in quota mode has room. Rules in quota mode without room are left out of the
//! charge. If such a rule loses its room to a concurrent request, it is left out as well, and the remaining rules are
//! checked again. Each round leaves one rule out, so there are at most as many rounds as rules in quota mode.

use std::time::Duration;

use super::context::Context;
use super::dues::{Due, DueCharge, DueDecision, charge_dues};
use super::part::{Enforcement, GateCharge, Judge, Part};
use super::verdict::RuleVerdict;
use crate::counts::full::NoCell;
use crate::set::rule::Rule;

pub(crate) fn decide(parts: &mut [Part<'_>], with: Context<'_>) {
    if let [part] = parts {
        if !part.is_apart() {
            part.charge(with);
        }
        return;
    }
    let admitted = charge_all(parts, with);
    // The time is read after the charge, so that `remaining` is current.
    let since = with.read();
    for part in parts.iter_mut().filter(|part| !part.is_apart()) {
        let left_out = part.say() == Enforcement::Quota && part.is_over();
        part.verdict = match (admitted, part.say()) {
            (Ok(()), Enforcement::Binding | Enforcement::Quota) if !left_out => {
                let verdict = part.ask(0, since).map(RuleVerdict::admitted);
                let full = part.is_full_allowed.then_some(NoCell::Allowed);
                let (wait, is_borrowed) = (part.wait, part.is_borrowed);
                let no_cell = |verdict: &RuleVerdict| full.or(verdict.no_cell);
                verdict.map(|verdict| {
                    let no_cell = no_cell(&verdict);
                    RuleVerdict { no_cell, wait, is_borrowed, ..verdict }
                })
            }
            (Ok(()), Enforcement::None) => {
                part.charge(with);
                part.verdict
            }
            _ => part.ask(part.cost, since),
        };
        // A rule that was left out counts as over its limit, although there may be room again.
        if left_out {
            mark_over(part);
        }
    }
    if let Err(Some(denied)) = admitted {
        mark_over(&mut parts[denied]);
    }
}

pub(crate) fn mark_over(part: &mut Part<'_>) {
    if let Some(verdict) = &mut part.verdict
        && !verdict.is_over
    {
        // The request would fit by now, so the wait is zero. But if it would borrow from a pool that can lend the units
        // only once, it fits when the limit itself is whole again.
        let wait = if verdict.is_borrowed { verdict.reset_after } else { Duration::ZERO };
        (verdict.is_over, verdict.retry_after) = (true, Some(wait));
        verdict.is_borrowed = false;
    }
}

/// Charges all parts that count and have room. If the request is denied, returns the part that denied it, or `None` if
/// several parts denied it, or if asking the parts again will show which one it was.
fn charge_all(parts: &mut [Part<'_>], with: Context<'_>) -> Result<(), Option<usize>> {
    // Parts that are decided apart have their verdict already.
    for part in parts.iter_mut().filter(|part| !part.is_apart()) {
        if part.say() == Enforcement::Quota {
            part.verdict = part.ask(part.cost, with);
        }
    }
    let blocks = |part: &Part<'_>| {
        part.say() == Enforcement::Binding
            && match part.is_apart() {
                true => part.is_over(),
                false => part.cost > 0 && part.rule().is_some_and(Rule::blocks),
            }
    };
    if parts.iter().any(blocks) || quota_is_over(parts) {
        return Err(None);
    }
    let charged = charge_overrides(parts, with).and_then(|()| charge_claims(parts, with));
    if charged.is_err() {
        parts.iter_mut().for_each(|part| part.give_back(with));
    }
    charged
}

fn charge_overrides(parts: &mut [Part<'_>], with: Context<'_>) -> Result<(), Option<usize>> {
    for (n, part) in parts.iter_mut().enumerate() {
        // A part in quota mode was asked above. It is not charged if it is over its limit.
        if matches!(part.judge, Judge::Override(_)) && !part.is_apart() && !part.is_over() {
            part.charge(with);
            if part.is_over() && part.say() != Enforcement::Quota {
                return Err(Some(n));
            }
        }
    }
    if quota_is_over(parts) { Err(None) } else { Ok(()) }
}

fn charge_claims(parts: &mut [Part<'_>], with: Context<'_>) -> Result<(), Option<usize>> {
    loop {
        let mut dues: Vec<Due<'_, '_>> = Vec::with_capacity(parts.len());
        let mut owners: Vec<usize> = Vec::with_capacity(parts.len());
        for (n, part) in parts.iter().enumerate() {
            let is_asked = part.say() != Enforcement::None
                && !part.is_apart()
                && !part.is_over()
                && !part.is_full_allowed;
            for due in part.dues(with).filter(|_| is_asked) {
                dues.push(due);
                owners.push(n);
            }
        }
        let outcome = charge_dues(&dues, with);
        if outcome.is_allowed {
            for DueCharge { due, charged } in outcome.charges {
                let part = &mut parts[owners[due]];
                part.wait = part.wait.max(charged.wait());
                part.is_borrowed |= charged.is_borrowed();
                if with.act.keeps() {
                    part.charges.push(GateCharge { gate: dues[due].gate, charged });
                }
            }
            return Ok(());
        }
        let Some(DueDecision { due, decision }) = outcome.told else { return Err(None) };
        let denied = owners[due];
        let part = &mut parts[denied];
        if NoCell::of(&decision, part.on_full()) == Some(NoCell::Allowed) {
            // The client has no cell, and the rule admits such clients. So none of the rule's limits is charged, and
            // the other parts are checked again. Each round leaves one descriptor out.
            part.is_full_allowed = true;
            continue;
        }
        if part.say() != Enforcement::Quota {
            return Err(Some(denied));
        }
        part.verdict = Some(RuleVerdict::of(&decision, 0, part.on_full()));
        if quota_is_over(parts) {
            return Err(Some(denied));
        }
    }
}

/// Whether the request is denied by the parts that count.
pub(super) fn is_over(parts: &[Part<'_>]) -> bool {
    let denies = |part: &Part<'_>| part.say() == Enforcement::Binding && part.is_over();
    parts.iter().any(denies) || quota_is_over(parts)
}

/// Whether there are rules in quota mode, and all of them are over their limits.
pub(crate) fn quota_is_over(parts: &[Part<'_>]) -> bool {
    let mut quotas = parts.iter().filter(|part| part.say() == Enforcement::Quota).peekable();
    quotas.peek().is_some() && quotas.all(Part::is_over)
}
