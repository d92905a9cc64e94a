//! Decides one request under several limits: charges all of them, or none.

use tollgate::{Decision, JointDenial};

use crate::claim::RedisClaim;
use crate::decision::Source;
use crate::error::Fault;
use crate::script::view::StateView;
use crate::script::{ScriptRequest, ScriptVerb, Units};
use crate::settings::OnError;
use crate::slots::{self, Sight, StoreVerdict};
use crate::told::Told;

/// The answer of several limits to one request.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use tollgate_redis::{RedisLimiter, Settings, Store, check_all};
/// # let store = Store::open("redis://127.0.0.1:1/")?;
/// let [wide, tight] = ["9/h", "5/h"].map(|policy| {
///     RedisLimiter::new(&store, Settings::new(policy.parse().unwrap()).name(policy)).unwrap()
/// });
/// let joint = check_all(&[wide.claim("key", 1), tight.claim("key", 6)]).await;
/// assert_eq!((joint.is_allowed(), joint.denied_by()), (false, Some(1)));
/// assert!(joint.is_degraded());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct RedisJointDecision {
    answer: Option<(usize, Decision)>,
    source: Source,
    fault: Option<Fault>,
}

impl RedisJointDecision {
    /// Whether the request may go. If so, every limit was charged; if not, none was.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(tollgate_redis::check_all(&[]).await.is_allowed());
    /// # }
    /// ```
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.answer.as_ref().is_none_or(|(_, decision)| decision.is_allowed())
    }

    /// The index, from 0, of the claim that denied. If several claims denied, it is the index of the one with the
    /// longest wait. `None` if the request was admitted.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(tollgate_redis::check_all(&[]).await.denied_by(), None);
    /// # }
    /// ```
    #[must_use]
    pub fn denied_by(&self) -> Option<usize> {
        let (index, decision) = self.answer.as_ref()?;
        decision.is_denied().then_some(*index)
    }

    /// The index, from 0, of the claim whose decision [`decision`](RedisJointDecision::decision) returns, whether it
    /// admits or denies. `None` only if there were no claims.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(tollgate_redis::check_all(&[]).await.reported_by(), None);
    /// # }
    /// ```
    #[must_use]
    pub fn reported_by(&self) -> Option<usize> {
        self.answer.as_ref().map(|(index, _)| *index)
    }

    /// The decision that answers for all limits: the denial with the longest wait; if no limit denied, the permit with
    /// the fewest units left.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(tollgate_redis::check_all(&[]).await.decision().is_none());
    /// # }
    /// ```
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.answer.as_ref().map(|(_, decision)| decision)
    }

    /// The decision that answers for all limits, by value. Its permit cannot be refunded to the store.
    #[must_use]
    pub fn into_decision(self) -> Option<Decision> {
        self.answer.map(|(_, decision)| decision)
    }

    /// Whether the store failed, so that this process had to decide.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(!tollgate_redis::check_all(&[]).await.is_degraded());
    /// # }
    /// ```
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.source.is_degraded()
    }

    /// Why the store did not decide, if it failed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(tollgate_redis::check_all(&[]).await.fault(), None);
    /// # }
    /// ```
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The answer as a `Result`, for `?`.
    ///
    /// # Errors
    /// If the request is denied: the denial with the longest wait, and the index of its claim.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(tollgate_redis::check_all(&[]).await.into_result().is_ok());
    /// # }
    /// ```
    pub fn into_result(self) -> Result<(), JointDenial> {
        match self.answer {
            Some((index, Decision::Denied(denial))) => Err(JointDenial::new(index, denial)),
            _ => Ok(()),
        }
    }

    /// Chooses the denial with the longest wait; if no limit denied, the permit with the fewest units left.
    fn of(decisions: impl Iterator<Item = Told>, source: Source, fault: Option<Fault>) -> Self {
        let rank = |told: &Told| match told.allowed {
            // The decision with the largest rank answers for all limits. A permit ranks higher the fewer units it
            // leaves. Every denial ranks above every permit, and higher the longer its wait is. The denial of a cost
            // that never fits ranks highest.
            true => (0, u128::from(u64::MAX - Decision::from(*told).remaining())),
            false if told.cost > told.limit => (2, 0),
            false => (1, told.retry_after.as_nanos()),
        };
        let answer = decisions.enumerate().max_by_key(|(_, told)| rank(told));
        Self { answer: answer.map(|(index, told)| (index, told.into())), source, fault }
    }
}

/// Decides one request under several limits of one store, in one call: all are charged, or none. The store is always
/// asked, even for limits with leases.
///
/// In a cluster, limits of different clients need several calls: all limits are looked at first, and then charged slot
/// by slot. If a later slot denies nevertheless, the charges of the earlier slots are given back. Until then other
/// requests may be denied because these units are missing. If the call that gives them back is lost, the units stay
/// charged until they drain. In neither case is a request admitted wrongly.
///
/// If the store fails, each limit decides by its own [`OnError`]. All limits are charged then, or none, and a limit
/// with [`OnError::Deny`] denies the request. Limits of different stores are decided in the same way, with the fault
/// [`Fault::MixedStores`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{RedisLimiter, Settings, Store, check_all};
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let posts = RedisLimiter::new(&store, Settings::new("1/s burst 1".parse()?).name("posts"))?;
/// let friends = RedisLimiter::new(&store, Settings::new("150/d".parse()?).name("friends"))?;
/// let both = async || check_all(&[friends.claim("alice", 1), posts.claim("alice", 1)]).await;
/// assert!(both().await.is_allowed());
/// assert_eq!(both().await.denied_by(), Some(1));
/// # Ok(())
/// # }
/// ```
pub async fn check_all(claims: &[RedisClaim<'_>]) -> RedisJointDecision {
    let Some(first) = claims.first() else {
        return RedisJointDecision::of(std::iter::empty(), Source::Store, None);
    };
    // A limit that is named twice is asked once, for the sum of the costs.
    let mut sums: Vec<RedisClaim<'_>> = Vec::with_capacity(claims.len());
    for claim in claims {
        match sums.iter_mut().find(|sum| sum.is_same_limit(claim)) {
            Some(sum) => sum.cost = sum.cost.saturating_add(claim.cost),
            None => sums.push(*claim),
        }
    }
    let place = |claim: &RedisClaim<'_>| sums.iter().position(|sum| sum.is_same_limit(claim));
    let inner = first.inner();
    let is_one_store = claims.iter().all(|claim| claim.inner().is_same_store(inner));
    let slot = first.slot();
    let is_one_slot = sums.iter().all(|sum| sum.slot() == slot);
    let result = match (is_one_store, is_one_slot) {
        (true, true) => {
            let part = |sum: &RedisClaim<'_>| sum.inner().part(sum.key, Units::exactly(sum.cost));
            let ask =
                ScriptRequest { verb: ScriptVerb::Check, parts: sums.iter().map(part).collect() };
            slots::ask_one(&sums, ask, inner.due()).await
        }
        (true, false) => slots::check(&sums, inner.due()).await,
        (false, _) => {
            inner.counters().fault(Fault::MixedStores);
            Err(Fault::MixedStores)
        }
    };
    let joint = match result {
        Ok(StoreVerdict { admitted, sights }) => {
            let told: Vec<Told> =
                sums.iter().zip(&sights).map(|(sum, sight)| said(sum, sight, admitted)).collect();
            let told = claims.iter().filter_map(|claim| place(claim).map(|n| told[n]));
            RedisJointDecision::of(told, Source::Store, None)
        }
        Err(fault) => fall_back(&sums, claims, fault),
    };
    inner.counters().decision(joint.source, joint.is_allowed());
    joint
}

/// The store's decision for one limit. If another limit denied the request, nothing was charged under this limit.
pub(crate) fn said(claim: &RedisClaim<'_>, sight: &Sight, admitted: bool) -> Told {
    let Sight { seen, now_us, held } = sight;
    let view = StateView { plan: &claim.inner().plan, state: &seen.state, now_us: *now_us };
    let charged = if admitted || !seen.admits { claim.cost } else { 0 };
    let told = view.told(seen.admits, charged);
    // Only the store decides a request under several limits. If it denied under this limit, the units of this node's
    // leases are left out of the answer, since they do not admit the request.
    let held = if seen.admits { *held } else { 0 };
    Told { remaining: told.remaining.saturating_add(held).min(told.limit), ..told }
}

/// Decides without the store: all limits are charged in their shares, or none.
fn fall_back(
    sums: &[RedisClaim<'_>],
    claims: &[RedisClaim<'_>],
    fault: Fault,
) -> RedisJointDecision {
    let degraded = |told: Vec<Told>, source| {
        // The decisions, in the order of the claims.
        let place = |claim: &RedisClaim<'_>| sums.iter().position(|sum| sum.is_same_limit(claim));
        let told =
            claims.iter().filter_map(|claim| place(claim).map(|n| told[n])).collect::<Vec<_>>();
        RedisJointDecision::of(told.into_iter(), source, Some(fault))
    };
    let ruled = |sum: &RedisClaim<'_>| sum.inner().ruled(sum.cost, sum.cost);
    let is_local = |sum: &&RedisClaim<'_>| sum.inner().on_error == OnError::Local;
    let rules: Vec<Told> = sums.iter().filter(|sum| !is_local(sum)).map(ruled).collect();
    // Each link has its own isolation clock. The smallest of their times is used, since the shares have regained the
    // fewest units by then.
    let now = sums.iter().map(RedisClaim::isolated).min().unwrap_or_default();
    let mut local = Vec::new();
    for sum in sums.iter().filter(is_local) {
        local.push(sum.inner().share.claim(sum.key, sum.cost, now));
    }
    let is_ruled_out = rules.iter().any(|told| !told.allowed);
    let joint = if is_ruled_out { None } else { Some(tollgate::check_all(&mut local)) };
    let is_allowed = joint.is_some_and(|joint| joint.is_allowed());
    let mut told: Vec<Told> = Vec::with_capacity(sums.len());
    for sum in sums {
        told.push(match sum.inner().on_error {
            OnError::Local => {
                let peeked = sum.inner().share.peek(sum.key, sum.cost, now);
                // The request is decided already: all shares were charged, or none. The peek above only provides the
                // figures.
                if is_allowed { Told { allowed: true, cost: sum.cost, ..peeked } } else { peeked }
            }
            _ => ruled(sum),
        });
    }
    if !is_allowed && told.iter().all(|told| told.allowed) {
        // The charge was denied, but units have come back since, and each limit would admit the request now. It stays
        // denied, and may be repeated at once.
        told[0].allowed = false;
    }
    degraded(told, if local.is_empty() { Source::Rule } else { Source::Share })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RedisLimiter, Settings, Store};

    /// The cost takes the whole share. A peek after the charge finds that the cost would not fit again, but the request
    /// was admitted.
    #[tokio::test]
    async fn without_the_store_a_request_that_takes_all_of_a_share_is_told_that_it_may_go() {
        let store = Store::open("redis://127.0.0.1:1/").unwrap();
        let limiter = |policy: &str| {
            let settings = Settings::new(policy.parse().unwrap()).name(policy);
            RedisLimiter::new(&store, settings).unwrap()
        };
        let (one, other) = (limiter("10/h"), limiter("20/h"));
        for (cost, left) in [(4, 6), (6, 0)] {
            let joint = check_all(&[one.claim("key", cost), other.claim("key", cost)]).await;
            let told = joint.decision().unwrap();
            assert_eq!((told.is_allowed(), told.limit(), told.remaining()), (true, 10, left));
            assert_eq!(told.summary().cost, cost);
        }
        assert!(!check_all(&[one.claim("key", 1), other.claim("key", 1)]).await.is_allowed());
    }
}
