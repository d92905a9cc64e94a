//! [`RedisStore`]: the store of one request whose limits are kept in Redis.
//!
//! A check asks Redis about all of its limits in one call. Places in queues are taken one after the other, with one
//! call for each place. If a limit has no place, the places taken so far are given back, the last one first. A place
//! stays taken if other requests have queued up behind it meanwhile, or if the store does not take it back. So a denied
//! request is charged at most its own cost.

use std::borrow::Cow;
use std::slice::from_mut;
use std::time::Duration;

use tollgate::{Decision, Wait};
use tollgate_redis::{
    Fault, OnError, RedisClaim, RedisLimiter, RedisReservation, RequestLimits, Weight, check_all,
    peek_all,
};
use tollgate_rules::{LimitStore, Purpose, RuleClaim, RuleLimit, StoreAnswer};

use super::own_limits::OwnLimits;

/// The store of one request whose limits are kept in Redis.
pub(super) struct RedisStore<'a> {
    /// The limiters for limits that come with requests.
    own: &'a OwnLimits<RequestLimits>,
    /// The places that were taken, which can be given back.
    pub(super) charges: Vec<StoredCharge>,
}

/// An open claim of the request, with its limits.
struct StoredClaim<'a> {
    /// The index of the claim.
    place: usize,
    weight: Weight,
    cost: u64,
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

/// The answers of the limits of some claims.
struct Answers {
    is_allowed: bool,
    /// The answers of each claim, in the order of its limits.
    of_claims: Vec<Vec<StoreAnswer>>,
}

impl LimitStore for RedisStore<'_> {
    async fn look(&mut self, claims: &mut [RuleClaim<'_>]) {
        let Some(stored) = self.stored(claims) else { return deny(claims) };
        let units: Vec<u64> = claims.iter().map(RuleClaim::units_to_look_for).collect();
        let answers = ask(&stored, |claim| units[claim.place], false).await;
        answers.report(&stored, claims, false);
    }

    async fn charge_together(&mut self, claims: &mut [RuleClaim<'_>]) {
        let Some(stored) = self.stored(claims) else { return deny(claims) };
        let has_wait = stored.iter().flat_map(|claim| &claim.limits).any(|one| one.wait.is_some());
        let keeps = claims.iter().any(|claim| matches!(claim.purpose(), Purpose::Reserve { .. }));
        let answers = match keeps || has_wait {
            true => take_places(&stored, &mut self.charges).await,
            false => ask(&stored, |claim| claim.cost, true).await,
        };
        answers.report(&stored, claims, answers.is_allowed);
        if !answers.is_allowed {
            RuleClaim::denied(claims);
        }
    }

    async fn charge_used(&mut self, claims: &mut [RuleClaim<'_>]) {
        let Some(stored) = self.stored(claims) else { return deny(claims) };
        let mut kept = Vec::with_capacity(stored.len());
        for claim in &stored {
            kept.push(charge_used(claim).await);
        }
        let answers = ask(&stored, |_| 1, false).await.of_claims;
        for ((claim, answers), kept) in stored.iter().zip(answers).zip(kept) {
            claims[claim.place].settled(&answers, kept);
        }
    }

    /// Units that the store does not take back stay charged, so the limit can only become stricter.
    async fn give_back(&mut self, claim: &mut RuleClaim<'_>) {
        let claims = from_mut(claim);
        let Some(stored) = self.stored(claims) else {
            let cost = claims[0].cost();
            return claims[0].settled(&[], cost);
        };
        let mut kept = 0;
        for StoredClaim { cost, client, limits, .. } in &stored {
            for StoredLimit { limiter, .. } in limits {
                let back = limiter.entry(client).uncharge(*cost).await;
                kept = kept.max(cost.saturating_sub(back.unwrap_or(0)));
            }
        }
        let answers = ask(&stored, |_| 1, false).await.of_claims;
        answers.iter().for_each(|answers| claims[0].settled(answers, kept));
    }

    async fn count_denied(&mut self, claim: &RuleClaim<'_>) {
        let Some(stored) = StoredClaim::of(0, claim, self.own) else { return };
        for limit in stored.limits.iter().filter(|limit| limit.drains_denied) {
            // A charge that failed needs no action: the limit is used up anyway, or the store does not answer.
            let _ = limit.limiter.entry(&stored.client).count_denied(stored.cost).await;
        }
    }
}

impl<'a> RedisStore<'a> {
    pub(super) fn new(own: &'a OwnLimits<RequestLimits>) -> Self {
        Self { own, charges: Vec::new() }
    }

    /// The open claims. `None` if a limit has no limiter, which does not happen: each limit got a limiter before its
    /// rule came into force.
    fn stored<'r>(&self, claims: &[RuleClaim<'r>]) -> Option<Vec<StoredClaim<'r>>> {
        let open = claims.iter().enumerate().filter(|(_, claim)| claim.is_open());
        let stored = open.map(|(place, claim)| StoredClaim::of(place, claim, self.own));
        let mut stored = stored.collect::<Option<Vec<_>>>()?;
        // One rule in quota mode with room is enough to admit a request. If such a rule was decided earlier, the other
        // rules in quota mode only count.
        let has_room =
            |claim: &RuleClaim<'_>| claim.is_quota() && !claim.is_open() && !claim.is_over();
        if claims.iter().any(has_room) {
            let quotas = stored.iter_mut().filter(|claim| claim.weight == Weight::DeniesTogether);
            quotas.for_each(|claim| claim.weight = Weight::Counts);
        }
        Some(stored)
    }

    /// The limits of these claims, with their clients. A rule with a limit of 0 is not kept in Redis.
    pub(super) fn to_reset(&self, claims: &[RuleClaim<'_>]) -> Vec<(RedisLimiter, String)> {
        let stored = claims.iter().filter(|claim| claim.is_open() && !claim.is_closed());
        let stored = stored.filter_map(|claim| StoredClaim::of(0, claim, self.own));
        let limits = stored.flat_map(|StoredClaim { client, limits, .. }| {
            limits.into_iter().map(move |limit| (limit.limiter.into_owned(), client.clone()))
        });
        limits.collect()
    }
}

/// Denies all open claims.
fn deny(claims: &mut [RuleClaim<'_>]) {
    claims.iter_mut().filter(|claim| claim.is_open()).for_each(|claim| claim.looked(&[]));
}

/// Asks Redis about all limits of these claims in one call: charges them if `charges` is true, and only looks
/// otherwise.
async fn ask(
    stored: &[StoredClaim<'_>],
    units: impl Fn(&StoredClaim<'_>) -> u64,
    charges: bool,
) -> Answers {
    let mut asked: Vec<RedisClaim<'_>> = Vec::with_capacity(stored.len());
    for (group, claim) in stored.iter().enumerate() {
        let units = units(claim);
        let limits = claim.limits.iter();
        let costs = limits.map(|limit| limit.limiter.entry(&claim.client).cost(units));
        asked.extend(costs.map(|cost| cost.in_group(group, claim.weight)));
    }
    let decision = if charges { check_all(&asked).await } else { peek_all(&asked).await };
    let (is_allowed, is_remembered) = (decision.is_allowed(), decision.is_remembered());
    let is_without_store = decision.fault().is_some();
    let found = |one: Decision| StoreAnswer { is_remembered, is_without_store, ..one.into() };
    let mut answers = decision.into_decisions().into_iter().map(found);
    let own = |claim: &StoredClaim<'_>| answers.by_ref().take(claim.limits.len()).collect();
    Answers { is_allowed, of_claims: stored.iter().map(own).collect() }
}

/// Takes a place in each limit. A claim that can deny by itself must get a place in each of its limits. Claims in quota
/// mode deny only if none of them gets its places. Claims in shadow mode come last, so that a denied request is not
/// charged to them.
async fn take_places(stored: &[StoredClaim<'_>], charges: &mut Vec<StoredCharge>) -> Answers {
    let mut asked: Vec<Vec<StoreAnswer>> = stored.iter().map(|_| Vec::new()).collect();
    let mut taken = Vec::new();
    let (mut has_quotas, mut has_room, mut is_denied) = (false, false, false);
    for weight in [Weight::Denies, Weight::DeniesTogether, Weight::Counts] {
        for (claim, asked) in
            stored.iter().zip(&mut asked).filter(|(claim, _)| claim.weight == weight)
        {
            if is_denied {
                break;
            }
            let mut own = Vec::new();
            let has_place = claim.take(asked, &mut own).await;
            if !has_place {
                give_back(std::mem::take(&mut own)).await;
            }
            taken.append(&mut own);
            is_denied |= weight == Weight::Denies && !has_place;
            if weight == Weight::DeniesTogether {
                (has_quotas, has_room) = (true, has_room | has_place);
            }
        }
        is_denied |= weight == Weight::DeniesTogether && has_quotas && !has_room;
    }
    if is_denied {
        give_back(std::mem::take(&mut taken)).await;
    }
    charges.append(&mut taken);
    // A limit that has denied is reported with its denial. A limit that was not asked, or whose place was given back,
    // is reported with its present state.
    let is_whole = asked.iter().zip(stored).all(|(asked, claim)| asked.len() == claim.limits.len());
    if is_denied || !is_whole {
        let stands = ask(stored, |claim| claim.cost, false).await.of_claims;
        for (asked, own) in asked.iter_mut().zip(stands) {
            let is_over = asked.last().is_some_and(|last| last.decision.is_denied());
            if is_denied || is_over {
                let denial = asked.pop().filter(|_| is_over);
                let place = asked.len();
                *asked = own;
                if let (Some(denial), Some(stands)) = (denial, asked.get_mut(place)) {
                    // The denial does not say whether it came from the store or from this node's share. The look that
                    // follows says whether the store answers, so `is_without_store` comes from the look.
                    let is_without_store = stands.is_without_store;
                    *stands = StoreAnswer { is_without_store, ..denial };
                }
            }
        }
    }
    Answers { is_allowed: !is_denied, of_claims: asked }
}

/// Charges the cost of a claim to all of its limits, even if it does not fit. Returns the number of units that could
/// not be recorded: the largest such number of any limit.
async fn charge_used(claim: &StoredClaim<'_>) -> u64 {
    let mut kept = 0;
    for StoredLimit { limiter, .. } in &claim.limits {
        kept = kept.max(match limiter.entry(&claim.client).charge(claim.cost).await {
            Ok(units) => units,
            // The cost was charged to this node's share.
            Err(_) if limiter.on_error() == OnError::Local => 0,
            Err(_) => claim.cost,
        });
    }
    kept
}

/// Gives charges back, the last one first. Charges that the store does not take back stay, so limits can only become
/// stricter.
async fn give_back(charges: Vec<StoredCharge>) {
    for charge in charges.into_iter().rev() {
        let _ = charge.undo().await;
    }
}

impl Answers {
    fn report(&self, stored: &[StoredClaim<'_>], claims: &mut [RuleClaim<'_>], is_charged: bool) {
        for (StoredClaim { place, .. }, answers) in stored.iter().zip(&self.of_claims) {
            match is_charged {
                true => claims[*place].charged(answers),
                false => claims[*place].looked(answers),
            }
        }
    }
}

impl<'a> StoredClaim<'a> {
    fn of(place: usize, claim: &RuleClaim<'a>, own: &OwnLimits<RequestLimits>) -> Option<Self> {
        let limit = |limit: &'a RuleLimit| {
            let limiter = Cow::Borrowed(limit.attached::<RedisLimiter>()?);
            let (wait, drains_denied) = (claim.wait(limit), limit.drains_denied());
            Some(StoredLimit { limiter, wait, drains_denied })
        };
        let limits = match claim.own_limit() {
            None => claim.rule()?.limits().iter().map(limit).collect::<Option<_>>()?,
            Some(limit) => {
                let limiter = Cow::Owned(own.of(limit, claim.rule())?);
                vec![StoredLimit { limiter, wait: None, drains_denied: true }]
            }
        };
        let weight = match (claim.is_shadow(), claim.is_quota()) {
            (true, _) => Weight::Counts,
            (false, true) => Weight::DeniesTogether,
            (false, false) => Weight::Denies,
        };
        // In a Redis cluster the client's text determines the slot. So limits of rules share a slot if they take their
        // client from the same values.
        Some(Self { place, weight, cost: claim.cost(), client: claim.client(), limits })
    }

    /// Takes a place in each limit until a limit has none; returns whether every limit had a place.
    async fn take(&self, asked: &mut Vec<StoreAnswer>, taken: &mut Vec<StoredCharge>) -> bool {
        for StoredLimit { limiter, wait, .. } in &self.limits {
            let wait = wait.unwrap_or(Wait::at_most(Duration::ZERO));
            match limiter.entry(&self.client).queue(self.cost, wait).await {
                Ok(place) => {
                    let decision = Decision::from(place.permit().permit().summary());
                    let (wait, is_without_store) = (place.wait(), place.fault().is_some());
                    asked.push(StoreAnswer { wait, is_without_store, ..decision.into() });
                    let (limiter, client) = (RedisLimiter::clone(limiter), self.client.clone());
                    taken.push(StoredCharge { limiter, client, place });
                }
                Err(denial) => {
                    asked.push(Decision::Denied(denial).into());
                    return false;
                }
            }
        }
        true
    }
}

impl StoredCharge {
    /// Gives back as many units as possible. Returns true if something was given back, or if nothing had been charged.
    pub(crate) async fn undo(self) -> Result<bool, Fault> {
        let Self { limiter, client, place } = self;
        if place.permit().permit().cost() == 0 {
            return Ok(true);
        }
        // If the request did not have to wait, its units are refunded, like the units of a check. A place in the queue
        // is cancelled instead, which fails if others wait behind it. A place in this node's share is also cancelled,
        // because the store has no record of the place.
        if place.wait().is_zero() && place.fault().is_none() {
            return Ok(limiter.entry(&client).refund(place.into_permit()).await? > 0);
        }
        limiter.entry(&client).cancel(place).await
    }

    /// Gives back up to `units` units, and returns the number that the limit took back.
    pub(crate) async fn refund(self, units: u64) -> Result<u64, Fault> {
        self.limiter.entry(&self.client).refund(self.place.into_permit().portion(units)).await
    }
}
