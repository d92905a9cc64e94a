//! The steps of a decision, whatever store keeps the limits: see the head of [`super`].

use std::pin::pin;
use std::slice::from_mut;
use std::task::{Context, Poll, Waker};

use super::claim::{RuleClaim, is_over};
use super::purpose::{CostKind, Purpose};
use super::resolve::{Resolved, Way};
use super::store::LimitStore;
use super::tables::Tables;
use super::verdict::RuleVerdict;

/// Decides all claims of a request. Claims with a limit of 0 are decided without the store, and all other claims by the
/// store.
pub(super) async fn decide(
    resolved: &mut Resolved<'_>,
    way: Way<'_>,
    mut tables: Tables<'_>,
    store: &mut impl LimitStore,
) {
    let claims = &mut resolved.claims[..];
    if !resolved.has_early {
        return decide_rest(claims, way, store).await;
    }
    for claim in claims.iter_mut().filter(|claim| claim.is_closed()) {
        let claims = from_mut(claim);
        decide_early(claims, way, &mut tables).await;
        decide_rest(claims, way, &mut tables).await;
        claim.is_settled = true;
    }
    decide_early(claims, way, store).await;
    // If a claim that has been decided denies the request, the rest is only looked at, and not charged.
    let is_joint = way.purpose != Purpose::Charge && !way.settings.compat;
    if is_joint && is_over(claims) {
        return store.look(claims).await;
    }
    decide_rest(claims, way, store).await;
}

/// Decides the claims that do not depend on the others: first those that give units back, then those whose cost was
/// used already.
async fn decide_early(claims: &mut [RuleClaim<'_>], way: Way<'_>, store: &mut impl LimitStore) {
    let is_peek = way.purpose == Purpose::Peek;
    for claim in claims.iter_mut().filter(|claim| claim.is_open_as(CostKind::Returned)) {
        match is_peek {
            true => store.look(from_mut(claim)).await,
            false => store.give_back(claim).await,
        }
        claim.is_settled = true;
    }
    for claim in claims.iter_mut().filter(|claim| claim.is_open_as(CostKind::Used)) {
        store.look(from_mut(claim)).await;
        if claim.cost > 0 && !is_peek {
            charge_used(claim, store).await;
        }
        claim.is_settled = true;
    }
}

/// Decides the claims that are still open.
async fn decide_rest(claims: &mut [RuleClaim<'_>], way: Way<'_>, store: &mut impl LimitStore) {
    match way.purpose {
        Purpose::Peek if way.settings.compat => store.look_each(claims).await,
        Purpose::Peek => store.look(claims).await,
        Purpose::Charge => store.charge_used(claims).await,
        _ if way.settings.compat => {
            store.charge_each(claims).await;
            for claim in claims.iter_mut().filter(|claim| claim.is_open() && claim.is_over()) {
                claim.use_up();
            }
        }
        _ => store.charge_together(claims).await,
    }
}

/// Charges a cost that was used already. Whether the claim is over its limit was decided by the look before the charge.
async fn charge_used(claim: &mut RuleClaim<'_>, store: &mut impl LimitStore) {
    let before = claim.verdict;
    store.charge_used(from_mut(claim)).await;
    if let (Some(after), Some(before)) = (&mut claim.verdict, before) {
        // The hits are counted as within, near or over the limit by its state before the charge.
        let RuleVerdict { is_over, burst, left, .. } = before;
        // If units have come back since the request was denied, one more unit fits now, but the denial still needs a
        // `retry_after`.
        let retry_after = after.retry_after.or(before.retry_after);
        let is_without_store = before.is_without_store || after.is_without_store;
        *after = RuleVerdict { is_over, burst, left, retry_after, is_without_store, ..*after };
    }
}

/// Runs a future that never waits, and returns its result. The steps never wait if the tables of this process keep all
/// limits.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        // The methods of `Tables` await nothing, and the steps await nothing else.
        Poll::Pending => unreachable!("the tables of this process answer at once"),
    }
}
