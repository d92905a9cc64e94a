//! Answers a question from limits in Redis: looks, checks, takes places in queues, charges, or forgets.
//!
//! A check of several limits is one call. Places are taken one after the other, since each is a promise by itself. If a
//! limit has no place, the places taken so far are given back, the last one first. A place stays taken if others have
//! queued up behind it meanwhile, or if the store does not take it back. So a denied request is charged at most its own
//! cost.

use std::borrow::Cow;

use tollgate::{Decision, Wait};
use tollgate_redis::{
    Fault, Group, OnError, RedisClaim, RedisLimiter, RedisReservation, RequestLimits, Weight,
    check_request, peek_request,
};
use tollgate_rules::{Act, Claim, Claimed, FoundElsewhere, FoundLimit, Limit, Manner, Question};

use super::own_limits::OwnLimits;

/// A rule that a request falls under, with its limits; or a limit that comes with the request.
struct StoredRule<'a> {
    weight: Weight,
    cost: u64,
    manner: Manner,
    client: String,
    limits: Vec<StoredLimit<'a>>,
}

struct StoredLimit<'a> {
    limiter: Cow<'a, RedisLimiter>,
    wait: Option<Wait>,
    drains_denied: bool,
}

/// A charge of a limit in Redis, kept so that it can be given back.
#[derive(Debug)]
pub(crate) struct StoredCharge {
    limiter: RedisLimiter,
    client: String,
    place: RedisReservation,
}

/// Answers of limits, and their charges, which can be given back.
#[derive(Default)]
struct Found {
    is_denied: bool,
    limits: Vec<FoundLimit>,
    charges: Vec<StoredCharge>,
}

impl Found {
    /// Turns the answers into the answers of a rule that never denies.
    fn not_denied(mut self) -> Self {
        for limit in &mut self.limits {
            limit.uncharged = Some(0);
        }
        Self { is_denied: false, ..self }
    }
}

/// Does what the question asks for. `None` if a limit has no limiter, which does not happen: each got one before its
/// rule came into force.
pub(super) async fn act(
    question: &Question,
    own: &OwnLimits<RequestLimits>,
) -> Option<(FoundElsewhere, Vec<StoredCharge>)> {
    let claims: Vec<StoredRule<'_>> =
        question.claims().map(|claim| StoredRule::of(&claim, own)).collect::<Option<_>>()?;
    let mut rules: Vec<(usize, &StoredRule<'_>)> = claims.iter().enumerate().collect();
    // Rules that give units back go first, as with limits of this process.
    rules.sort_by_key(|(_, rule)| rule.manner != Manner::Back);
    let (places, rules): (Vec<usize>, Vec<&StoredRule<'_>>) = rules.into_iter().unzip();
    let (act, charges) = (question.act(), question.is_to_be_charged());
    let found = match act {
        _ if act == Act::Charge || !question.is_separate() => decide(&rules, act, charges).await,
        _ => {
            let mut all = Found::default();
            for rule in rules.chunks(1) {
                let mut found = decide(rule, act, charges).await;
                let is_over = found.limits.iter().any(|limit| limit.decision.is_denied());
                if charges && is_over && !rule[0].is_apart() {
                    drain(rule).await;
                }
                all.limits.append(&mut found.limits);
                all.charges.append(&mut found.charges);
            }
            all
        }
    };
    let Found { is_denied, limits, charges } = found;
    let mut limits = limits.into_iter();
    let own = |rule: &&StoredRule<'_>| limits.by_ref().take(rule.limits.len()).collect();
    let mut told: Vec<(usize, Vec<FoundLimit>)> =
        places.into_iter().zip(rules.iter().map(own)).collect();
    told.sort_by_key(|(place, _)| *place);
    let limits = told.into_iter().flat_map(|(_, own)| own).collect();
    Some((FoundElsewhere { admitted: !is_denied, limits }, charges))
}

/// Forgets all charges to the clients of a question; returns the number of limits.
pub(super) async fn reset(
    question: &Question,
    own: &OwnLimits<RequestLimits>,
) -> Result<usize, Fault> {
    let mut done = 0;
    for rule in question.claims().filter_map(|claim| StoredRule::of(&claim, own)) {
        for limit in &rule.limits {
            limit.limiter.reset(&rule.client).await?;
            done += 1;
        }
    }
    Ok(done)
}

/// Decides several rules together. Rules that are decided apart are settled first, whatever the others say.
async fn decide(rules: &[&StoredRule<'_>], act: Act, charges: bool) -> Found {
    let mut told: Vec<Vec<FoundLimit>> = rules.iter().map(|_| Vec::new()).collect();
    let (mut is_over, mut quotas) = (false, [0_usize; 2]);
    for (rule, told) in rules.iter().zip(&mut told).filter(|(rule, _)| rule.is_apart()) {
        let found = settle(rule, act).await;
        match rule.weight {
            _ if rule.manner == Manner::Back => {}
            Weight::DeniesTogether => quotas[usize::from(!found.is_denied)] += 1,
            weight => is_over |= found.is_denied && weight == Weight::Denies,
        }
        *told = found.limits;
    }
    // If one rule in quota mode has room, the others in quota mode deny nothing.
    let quota = if quotas[1] > 0 { Weight::Counts } else { Weight::DeniesTogether };
    let others: Vec<&StoredRule<'_>> =
        rules.iter().copied().filter(|rule| !rule.is_apart()).collect();
    let has_others = others.iter().any(|rule| rule.weight == Weight::DeniesTogether);
    is_over |= quotas[0] > 0 && quotas[1] == 0 && !has_others;
    let found = decide_at_once(&others, quota, act, charges && !is_over).await;
    let mut limits = found.limits.into_iter();
    for (rule, told) in rules.iter().zip(&mut told).filter(|(rule, _)| !rule.is_apart()) {
        told.extend(limits.by_ref().take(rule.limits.len()));
    }
    let limits = told.into_iter().flatten().collect();
    Found { is_denied: found.is_denied || is_over, limits, charges: found.charges }
}

/// Settles a rule that is decided apart; for a peek, only looks at it. The answer says that the rule denies if one of
/// its limits is exceeded, even if the rule is in shadow mode.
async fn settle(rule: &StoredRule<'_>, act: Act) -> Found {
    let charges = act != Act::Peek;
    let before = match rule.manner {
        Manner::Back if charges => return give_back_units(rule).await,
        Manner::Back => return look(&[rule], |_| 1).await.not_denied(),
        Manner::Used | Manner::Together => look(&[rule], |_| 1).await,
    };
    // This means that a limit is exceeded. The caller does not deny a request for a rule in shadow mode.
    let is_over = before.limits.iter().any(|limit| limit.decision.is_denied());
    let before = Found { is_denied: is_over, ..before };
    if !charges || rule.cost == 0 {
        return before;
    }
    let after = charge(&[rule]).await;
    if !is_over {
        return after;
    }
    let limits = after.limits.into_iter().zip(before.limits);
    let denied = |(after, before): (FoundLimit, FoundLimit)| {
        let left = Some(before.decision.remaining());
        // Units that have come back since the first look were not there when the request was denied.
        let decision = if after.decision.is_denied() { after.decision } else { before.decision };
        FoundLimit { left, decision, ..before }
    };
    Found { is_denied: true, limits: limits.map(denied).collect(), charges: Vec::new() }
}

/// Gives back at most the rule's cost, and looks whether each limit has room for one unit. Units that the store does
/// not take back stay charged, which can only make the limit stricter.
async fn give_back_units(rule: &StoredRule<'_>) -> Found {
    let mut kept = Vec::new();
    for limit in &rule.limits {
        let back = limit.limiter.uncharge(&rule.client, rule.cost).await;
        kept.push(rule.cost.saturating_sub(back.unwrap_or(0)));
    }
    let mut found = look(&[rule], |_| 1).await.not_denied();
    for (limit, kept) in found.limits.iter_mut().zip(kept) {
        limit.uncharged = Some(kept);
    }
    found
}

/// Decides rules that are not decided apart. `quota` is the weight of rules in quota mode.
async fn decide_at_once(
    rules: &[&StoredRule<'_>],
    quota: Weight,
    act: Act,
    charges: bool,
) -> Found {
    if act == Act::Charge {
        return charge(rules).await;
    }
    let is_at_once = || rules.iter().flat_map(|rule| &rule.limits).all(|one| one.wait.is_none());
    if !charges {
        return ask(rules, quota, |rule| rule.cost, false).await;
    }
    if matches!(act, Act::Reserve { .. }) || !is_at_once() {
        return take_places(rules, quota).await;
    }
    ask(rules, quota, |rule| rule.cost, true).await
}

async fn look<'a>(rules: &'a [&'a StoredRule<'a>], cost: impl Fn(&StoredRule<'a>) -> u64) -> Found {
    ask(rules, Weight::DeniesTogether, cost, false).await
}

/// Decides, or looks at, all limits of these rules in one call.
async fn ask<'a>(
    rules: &'a [&'a StoredRule<'a>],
    quota: Weight,
    cost: impl Fn(&StoredRule<'a>) -> u64,
    charges: bool,
) -> Found {
    let claims: Vec<Vec<RedisClaim<'_>>> = rules
        .iter()
        .map(|rule| {
            let claim =
                |one: &'a StoredLimit<'a>| one.limiter.claim(rule.client.as_str(), cost(rule));
            rule.limits.iter().map(claim).collect()
        })
        .collect();
    let groups: Vec<Group<'_>> = rules
        .iter()
        .zip(&claims)
        .map(|(rule, claims)| Group { claims, weight: rule.weighs(quota) })
        .collect();
    let decision = if charges { check_request(&groups).await } else { peek_request(&groups).await };
    let (is_remembered, is_without_store) = (decision.is_remembered(), decision.fault().is_some());
    let is_denied = !decision.is_allowed();
    let found = |one: Decision| FoundLimit { is_remembered, is_without_store, ..one.into() };
    let limits = decision.into_decisions().into_iter().map(found).collect();
    Found { is_denied, limits, charges: Vec::new() }
}

/// Takes a place in each limit. Every rule that denies must have its places; of the rules in quota mode, one that has
/// its places is enough. Rules in shadow mode come last, so that no request that is denied is charged to them.
async fn take_places(rules: &[&StoredRule<'_>], quota: Weight) -> Found {
    let mut asked: Vec<Vec<FoundLimit>> = rules.iter().map(|_| Vec::new()).collect();
    let mut charges = Vec::new();
    let (mut quotas, mut is_denied) = ([0_usize; 2], false);
    for weight in [Weight::Denies, Weight::DeniesTogether, Weight::Counts] {
        for (rule, asked) in
            rules.iter().zip(&mut asked).filter(|(rule, _)| rule.weighs(quota) == weight)
        {
            if is_denied {
                break;
            }
            let mut own = Vec::new();
            let has_place = rule.take(asked, &mut own).await;
            if !has_place {
                give_back(own.drain(..).rev().collect()).await;
            }
            charges.append(&mut own);
            is_denied |= weight == Weight::Denies && !has_place;
            if weight == Weight::DeniesTogether {
                quotas[usize::from(has_place)] += 1;
            }
        }
        is_denied |= weight == Weight::DeniesTogether && quotas[0] > 0 && quotas[1] == 0;
    }
    if is_denied {
        charges.reverse();
        give_back(std::mem::take(&mut charges)).await;
    }
    // Limits that were not asked, or whose places were given back, are reported as they stand now; a limit that has
    // denied is reported with its denial.
    let is_told = asked.iter().zip(rules).all(|(asked, rule)| asked.len() == rule.limits.len());
    if is_denied || !is_told {
        let stands = ask(rules, quota, |rule| rule.cost, false).await.limits;
        let mut stands = stands.into_iter();
        for (asked, rule) in asked.iter_mut().zip(rules) {
            let own: Vec<FoundLimit> = stands.by_ref().take(rule.limits.len()).collect();
            let is_over = asked.last().is_some_and(|last| last.decision.is_denied());
            if is_denied || is_over {
                let denial = asked.pop().filter(|_| is_over);
                let place = asked.len();
                *asked = own;
                if let (Some(denial), Some(told)) = (denial, asked.get_mut(place)) {
                    // The denial does not say whether the store or this node's share has made it. The look after the
                    // denial says whether the store answers.
                    let is_without_store = told.is_without_store;
                    *told = FoundLimit { is_without_store, ..denial };
                }
            }
        }
    }
    Found { is_denied, limits: asked.into_iter().flatten().collect(), charges }
}

/// Charges all limits, even if the cost does not fit, and looks whether they have room for one unit more.
async fn charge(rules: &[&StoredRule<'_>]) -> Found {
    let mut uncharged = Vec::new();
    for rule in rules {
        for limit in &rule.limits {
            uncharged.push(match limit.limiter.charge(&rule.client, rule.cost).await {
                Ok(units) => units,
                // The cost was charged to this node's share.
                Err(_) if limit.limiter.on_error() == OnError::Local => 0,
                Err(_) => rule.cost,
            });
        }
    }
    let mut found = look(rules, |_| 1).await;
    for (limit, uncharged) in found.limits.iter_mut().zip(uncharged) {
        limit.uncharged = Some(uncharged);
    }
    Found { is_denied: false, ..found }
}

/// Charges a denied request to those limits that count denied requests, as envoyproxy/ratelimit does.
async fn drain(rules: &[&StoredRule<'_>]) {
    for rule in rules {
        for limit in rule.limits.iter().filter(|limit| limit.drains_denied) {
            // A charge that failed needs no action: the limit is used up anyway, or the store does not answer.
            let _ = limit.limiter.count_denied(&rule.client, rule.cost).await;
        }
    }
}

/// Gives charges back. Those that the store does not take back stay charged, which can only make limits stricter.
async fn give_back(charges: Vec<StoredCharge>) {
    for charge in charges {
        let _ = charge.undo().await;
    }
}

impl<'a> StoredRule<'a> {
    fn of(claim: &Claim<'a>, own: &OwnLimits<RequestLimits>) -> Option<Self> {
        let limit = |limit: &'a Limit| {
            let limiter = Cow::Borrowed(limit.keeper::<RedisLimiter>()?);
            let (wait, drains_denied) = (claim.wait(limit), limit.drains_denied());
            Some(StoredLimit { limiter, wait, drains_denied })
        };
        let limits = match claim.of {
            Claimed::Limits(rule) => rule.limits().iter().map(limit).collect::<Option<_>>()?,
            Claimed::OwnLimit { limit, rule } => {
                let limiter = Cow::Owned(own.of(limit, rule)?);
                vec![StoredLimit { limiter, wait: None, drains_denied: true }]
            }
        };
        let weight = match (claim.is_shadow(), claim.is_quota()) {
            (true, _) => Weight::Counts,
            (false, true) => Weight::DeniesTogether,
            (false, false) => Weight::Denies,
        };
        // In a cluster the client's text determines the slot, so limits of rules that take their client from the same
        // values share a slot.
        let client = claim.client();
        let (cost, manner) = (claim.cost, claim.manner);
        Some(Self { weight, cost, manner, client, limits })
    }

    fn is_apart(&self) -> bool {
        self.manner != Manner::Together
    }

    /// The weight of this rule. `quota` is the weight of rules in quota mode.
    fn weighs(&self, quota: Weight) -> Weight {
        if self.weight == Weight::DeniesTogether { quota } else { self.weight }
    }

    /// Takes a place in each limit until a limit has none; returns whether every limit had a place.
    async fn take(&self, told: &mut Vec<FoundLimit>, taken: &mut Vec<StoredCharge>) -> bool {
        for StoredLimit { limiter, wait, .. } in &self.limits {
            let wait = wait.unwrap_or(Wait::at_most(std::time::Duration::ZERO));
            match limiter.reserve(&self.client, self.cost, wait).await {
                Ok(place) => {
                    let decision = Decision::from(place.permit().permit().summary());
                    told.push(FoundLimit { wait: place.wait(), ..decision.into() });
                    let (limiter, client) = (RedisLimiter::clone(limiter), self.client.clone());
                    taken.push(StoredCharge { limiter, client, place });
                }
                Err(denial) => {
                    told.push(Decision::Denied(denial).into());
                    return false;
                }
            }
        }
        true
    }
}

impl StoredCharge {
    /// Gives back as much as possible. Returns true if something was given back, or if nothing had been charged.
    pub(crate) async fn undo(self) -> Result<bool, Fault> {
        let Self { limiter, client, place } = self;
        if place.permit().permit().cost() == 0 {
            return Ok(true);
        }
        // Units that the store let be used at once are refunded, like those of a check. A place in the queue is
        // cancelled instead, which fails if others wait behind it. So is a place in this node's share, which the store
        // does not know.
        if place.wait().is_zero() && place.fault().is_none() {
            return Ok(limiter.refund(&client, place.into_permit()).await? > 0);
        }
        limiter.cancel(&client, place).await
    }

    /// Gives back up to `units`, and returns how many came back.
    pub(crate) async fn refund(self, units: u64) -> Result<u64, Fault> {
        self.limiter.refund(&self.client, self.place.into_permit().portion(units)).await
    }
}
