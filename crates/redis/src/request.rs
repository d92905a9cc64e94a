//! Decides requests under several rules for a rate limit service. Some rules never deny a request.

use std::ops::Range;

use tokio::time::Instant;
use tollgate::Decision;

use crate::all::said;
use crate::claim::RedisClaim;
use crate::decision::{RedisDecision, Source};
use crate::error::Fault;
use crate::script::{GroupRole, ScriptRequest, ScriptVerb, Units};
use crate::settings::OnError;
use crate::slots::{self, StoreVerdict};
use crate::told::Told;

/// The effect that a group of limits has on the decision of a request.
///
/// ```
/// assert_eq!(tollgate_redis::Weight::default(), tollgate_redis::Weight::Denies);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Weight {
    /// The request is denied if one of the group's limits is exceeded.
    #[default]
    Denies,
    /// The group never denies the request. It is charged if the request is admitted and fits in the group. Use it for
    /// rules on trial.
    Counts,
    /// The request is denied if all groups of this weight are over their limits. Groups that are over their limits are
    /// not charged.
    DeniesTogether,
}

/// Limits that are charged together or not at all, such as those of a rule, with the cost of a request under each.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{Group, RedisLimiter, Settings, Store, Weight, check_request};
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let limiter = |policy: &str| -> Result<_, Box<dyn std::error::Error>> {
///     Ok(RedisLimiter::new(&store, Settings::new(policy.parse()?).name(policy))?)
/// };
/// let (minute, hour, trial) = (limiter("10/m")?, limiter("99/h")?, limiter("2/m")?);
/// let user = [minute.claim("alice", 3), hour.claim("alice", 3)];
/// let tried = [trial.claim("alice", 3)];
/// let groups = [Group::new(&user), Group { claims: &tried, weight: Weight::Counts }];
/// let decision = check_request(&groups).await;
/// let over: Vec<bool> = decision.decisions().iter().map(|one| !one.is_allowed()).collect();
/// assert_eq!((decision.is_allowed(), over), (true, vec![false, false, true]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The limits of the group, and the cost under each.
    pub claims: &'a [RedisClaim<'a>],
    /// The weight of the group in the decision.
    pub weight: Weight,
}

impl<'a> Group<'a> {
    /// Makes a group of the weight [`Weight::Denies`].
    ///
    /// ```
    /// use tollgate_redis::{Group, Weight};
    /// assert_eq!(Group::new(&[]).weight, Weight::Denies);
    /// ```
    #[must_use]
    pub fn new(claims: &'a [RedisClaim<'a>]) -> Self {
        Self { claims, weight: Weight::Denies }
    }
}

/// The answer to a request under several groups.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let decision = tollgate_redis::check_request(&[]).await;
/// assert!(decision.is_allowed() && decision.decisions().is_empty());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct RequestDecision {
    allowed: bool,
    decisions: Vec<Decision>,
    source: Source,
    fault: Option<Fault>,
    is_remembered: bool,
}

impl RequestDecision {
    /// Whether the request may go.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(tollgate_redis::check_request(&[]).await.is_allowed());
    /// # }
    /// ```
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// The answer for all limits together.
    fn by(source: Source, allowed: bool, decisions: Vec<Decision>, fault: Option<Fault>) -> Self {
        Self { allowed, decisions, source, fault, is_remembered: false }
    }

    /// The answer for one limit alone.
    fn of(decision: RedisDecision, weight: Weight) -> Self {
        let allowed = decision.is_allowed() || weight == Weight::Counts;
        let (source, fault) = (decision.source(), decision.fault());
        let is_remembered = decision.is_remembered();
        Self { is_remembered, ..Self::by(source, allowed, vec![decision.into_decision()], fault) }
    }

    /// Whether the request was denied by an earlier answer of the store, without asking the store again. That happens
    /// only to a request under a single limit with leases.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(!tollgate_redis::check_request(&[]).await.is_remembered());
    /// # }
    /// ```
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    /// The decision of each limit, in the order of the groups and of their claims.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(tollgate_redis::check_request(&[]).await.decisions().is_empty());
    /// # }
    /// ```
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The decision of each limit, by value, in the same order.
    #[must_use]
    pub fn into_decisions(self) -> Vec<Decision> {
        self.decisions
    }

    /// Why the store did not decide, if it failed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(tollgate_redis::check_request(&[]).await.fault(), None);
    /// # }
    /// ```
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }
}

/// Decides one request under several groups of limits, and charges it if it may go. A request under a single limit is
/// decided as by [`RedisLimiter::check`](crate::RedisLimiter::check), in the mode of the limit. A request under several
/// limits is decided by the store, in one call.
///
/// If the store fails, each limit decides by its [`OnError`], and all limits are charged or none. If the limits are not
/// all of one store, they are decided in the same way, with the fault [`Fault::MixedStores`]. A limit may be in several
/// groups.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{Fault, Group, RedisLimiter, Settings, Store, check_request};
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
/// let decision = check_request(&[Group::new(&[limiter.claim("alice", 3)])]).await;
/// assert_eq!((decision.is_allowed(), decision.fault()), (true, Some(Fault::Unreachable)));
/// # Ok(())
/// # }
/// ```
pub async fn check_request(groups: &[Group<'_>]) -> RequestDecision {
    if let [Group { claims: [only], weight }] = groups {
        let decision = only.limiter.check_n(only.key, only.cost).await;
        return RequestDecision::of(decision, *weight);
    }
    decide(groups, ScriptVerb::Check).await
}

/// Finds out whether a request would be admitted. It charges nothing, and always asks the store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{Group, RedisLimiter, Settings, Store, peek_request};
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
/// for _ in 0..20 {
///     assert!(peek_request(&[Group::new(&[limiter.claim("alice", 3)])]).await.is_allowed());
/// }
/// # Ok(())
/// # }
/// ```
pub async fn peek_request(groups: &[Group<'_>]) -> RequestDecision {
    match groups {
        [Group { claims: [only], weight }] => {
            RequestDecision::of(only.limiter.peek(only.key, only.cost).await, *weight)
        }
        _ => decide(groups, ScriptVerb::Peek).await,
    }
}

impl Weight {
    fn say(self) -> GroupRole {
        match self {
            Self::Denies => GroupRole::Denies,
            Self::Counts => GroupRole::Counts,
            Self::DeniesTogether => GroupRole::DeniesTogether,
        }
    }
}

async fn decide(groups: &[Group<'_>], verb: ScriptVerb) -> RequestDecision {
    let claims = || groups.iter().flat_map(|group| group.claims);
    let Some(first) = claims().next() else {
        return RequestDecision::by(Source::Store, true, Vec::new(), None);
    };
    let inner = first.inner();
    let is_one_store = claims().all(|claim| claim.inner().is_same_store(inner));
    let slot = first.slot();
    let is_one_slot = claims().all(|claim| claim.slot() == slot);
    let result = match (is_one_store, is_one_slot) {
        (true, true) => {
            let claims: Vec<RedisClaim<'_>> = claims().copied().collect();
            slots::ask_one(&claims, ask(groups, verb), inner.due()).await
        }
        (true, false) => across(groups, verb, inner.due()).await,
        (false, _) => {
            inner.counters().fault(Fault::MixedStores);
            Err(Fault::MixedStores)
        }
    };
    let decision = match result {
        Ok(verdict) => by_store(groups, verb, &verdict),
        Err(fault) => fall_back(groups, verb, fault),
    };
    if verb == ScriptVerb::Check {
        inner.counters().decision(decision.source, decision.allowed);
    }
    decision
}

fn ask(groups: &[Group<'_>], verb: ScriptVerb) -> ScriptRequest {
    let mut parts = Vec::with_capacity(groups.len());
    for group in groups {
        for (n, claim) in group.claims.iter().enumerate() {
            let part = claim.inner().part(claim.key, Units::exactly(claim.cost));
            parts.push(crate::script::ScriptPart {
                say: group.weight.say(),
                begins: n == 0,
                ..part
            });
        }
    }
    ScriptRequest { verb, parts }
}

/// Decides limits in several slots of a cluster: see slots.rs.
async fn across(
    groups: &[Group<'_>],
    verb: ScriptVerb,
    due: Instant,
) -> Result<StoreVerdict, Fault> {
    let mut claims: Vec<RedisClaim<'_>> = Vec::new();
    let mut of_groups = Vec::with_capacity(groups.len());
    for group in groups {
        of_groups.push(claims.len()..claims.len() + group.claims.len());
        claims.extend(group.claims);
    }
    let mut sights = slots::look(&claims, due).await?;
    let admits = |range: &Range<usize>| sights[range.clone()].iter().all(|one| one.seen.admits);
    let fits: Vec<bool> = of_groups.iter().map(admits).collect();
    let mut admitted = goes(groups, &fits);
    if admitted && verb == ScriptVerb::Check {
        let is_tried = |n: &usize| groups[*n].weight == Weight::Counts;
        let fitting = || (0..groups.len()).filter(|n| fits[*n]);
        let decisive = fitting().filter(|n| !is_tried(n)).flat_map(|n| of_groups[n].clone());
        let decisive: Vec<usize> = decisive.collect();
        admitted = slots::charge(&claims, &decisive, due, &mut sights).await?;
        for n in fitting().filter(|n| admitted && is_tried(n)) {
            let tried: Vec<usize> = of_groups[n].clone().collect();
            // If this fails, the request is admitted nevertheless, and only the group on trial is not charged.
            _ = slots::charge(&claims, &tried, due, &mut sights).await;
        }
    }
    if verb == ScriptVerb::Check {
        // A group with `DeniesTogether` counts no denial if another such group admits the request.
        let is_denied = |place: usize| {
            let group = of_groups.iter().position(|range| range.contains(&place));
            let weight = group.map(|n| groups[n].weight);
            !(admitted && weight == Some(Weight::DeniesTogether))
        };
        slots::refuse(&claims, is_denied, due, &mut sights).await;
    }
    Ok(StoreVerdict { admitted, sights })
}

/// Whether a request is admitted, given which of its groups are within their limits.
fn goes(groups: &[Group<'_>], fits: &[bool]) -> bool {
    let of = |weight| (0..groups.len()).filter(move |n| groups[*n].weight == weight);
    let together =
        of(Weight::DeniesTogether).next().is_none() || of(Weight::DeniesTogether).any(|n| fits[n]);
    together && of(Weight::Denies).all(|n| fits[n])
}

fn by_store(groups: &[Group<'_>], verb: ScriptVerb, verdict: &StoreVerdict) -> RequestDecision {
    let claims = groups.iter().flat_map(|group| group.claims).zip(&verdict.sights);
    let decisions = claims.map(|(claim, sight)| {
        let told = said(claim, sight, verdict.admitted);
        let charged = if verb == ScriptVerb::Peek && told.allowed { 0 } else { told.cost };
        Told { cost: charged, ..told }.into()
    });
    RequestDecision::by(Source::Store, verdict.admitted, decisions.collect(), None)
}

/// A limit, the index of its group, and the decision that it makes without the store.
struct GroupedClaim<'a> {
    claim: &'a RedisClaim<'a>,
    group: usize,
    told: Told,
}

impl<'a> GroupedClaim<'a> {
    fn new(claim: &'a RedisClaim<'a>, group: usize) -> Self {
        let mut seen = Self { claim, group, told: claim.inner().ruled(claim.cost, 0) };
        seen.look(claim.cost);
        seen
    }

    fn is_local(&self) -> bool {
        self.claim.inner().on_error == OnError::Local
    }

    fn look(&mut self, cost: u64) {
        let inner = self.claim.inner();
        if self.is_local() {
            self.told = inner.share.peek(self.claim.key, cost, self.claim.isolated());
        }
    }
}

fn fall_back(groups: &[Group<'_>], verb: ScriptVerb, fault: Fault) -> RequestDecision {
    let mut seen: Vec<GroupedClaim<'_>> = Vec::new();
    for (n, group) in groups.iter().enumerate() {
        seen.extend(group.claims.iter().map(|claim| GroupedClaim::new(claim, n)));
    }
    let fits: Vec<bool> = (0..groups.len())
        .map(|n| seen.iter().filter(|one| one.group == n).all(|one| one.told.allowed))
        .collect();
    let mut allowed = goes(groups, &fits);
    if allowed && verb == ScriptVerb::Check {
        let says = |n: usize| fits[n] && groups[n].weight != Weight::Counts;
        let charged = charge(&seen, says);
        allowed = charged.is_ok();
        match charged {
            Ok(()) => {
                let is_tried = |n: &usize| groups[*n].weight == Weight::Counts;
                for n in (0..groups.len()).filter(|n| fits[*n] && is_tried(n)) {
                    // If another request has taken the units since the peek, this request is still admitted, but does
                    // not charge this group.
                    _ = charge(&seen, |group| group == n);
                }
                for one in seen.iter_mut().filter(|one| fits[one.group]) {
                    one.look(0);
                    one.told = Told { allowed: true, cost: one.claim.cost, ..one.told };
                }
            }
            // Another request has taken units since the peek, so this request is denied. It may be repeated at once.
            Err(place) => seen[place].told.allowed = false,
        }
    }
    let is_ruled = seen.iter().all(|one| !one.is_local());
    let source = if is_ruled { Source::Rule } else { Source::Share };
    let decisions = seen.into_iter().map(|one| one.told.into()).collect();
    RequestDecision::by(source, allowed, decisions, Some(fault))
}

/// Charges the shares of some groups, all or none. If none is charged, returns the index of the limit that denied.
fn charge(seen: &[GroupedClaim<'_>], is_charged: impl Fn(usize) -> bool) -> Result<(), usize> {
    let places: Vec<usize> =
        (0..seen.len()).filter(|n| seen[*n].is_local() && is_charged(seen[*n].group)).collect();
    // As in all.rs, the smallest isolation time is used, since the shares have regained the fewest units by then.
    let isolated = |place: &usize| seen[*place].claim.isolated();
    let now = places.iter().map(isolated).min().unwrap_or_default();
    let mut claims = Vec::with_capacity(places.len());
    for place in &places {
        let claim = seen[*place].claim;
        claims.push(claim.inner().share.claim(claim.key, claim.cost, now));
    }
    let joint = tollgate::check_all(&mut claims);
    joint.denied_by().map_or(Ok(()), |index| Err(places[index]))
}
