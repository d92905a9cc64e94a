//! Decides one request under several limits: charges all of them, or none. Groups of limits may count without denying.
//!
//! All requests go through [`decide`]. It asks the store in one call ([`slots::ask_one`]) or, for several slots of a
//! cluster, slot by slot ([`across`]). If the store fails, the shares of this node decide ([`fall_back`]). Only a
//! request with a single claim is decided like a check, in the mode of its limit.

use std::iter::repeat_n;
use std::time::Duration;

use tokio::time::Instant;
use tollgate::{Decision, JointDecision};

use crate::claim::RedisClaim;
use crate::decision::{RedisDecision, Source};
use crate::error::Fault;
use crate::script::view::StateView;
use crate::script::{ScriptPart, ScriptRequest, ScriptVerb, Units};
use crate::settings::OnError;
use crate::slots::{self, Sight, StoreVerdict};
use crate::told::Told;
use crate::weight::Weight;

/// The answer to one request under several limits.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use tollgate_redis::{RedisLimiter, Settings, Store, check_all};
/// # let store = Store::open("redis://127.0.0.1:1/")?;
/// let [wide, tight] = ["9/h", "5/h"].map(|policy| {
///     RedisLimiter::new(&store, Settings::new(policy.parse().unwrap()).name(policy)).unwrap()
/// });
/// let joint = check_all(&[wide.entry("key").cost(1), tight.entry("key").cost(6)]).await;
/// assert!(!joint.is_allowed() && joint.fault().is_some());
/// let of_each = joint.decisions().iter().map(|decision| decision.is_allowed());
/// assert_eq!(of_each.collect::<Vec<_>>(), [true, false]);
/// assert_eq!(joint.into_joint().denied_by(), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct RedisJointDecision {
    allowed: bool,
    decisions: Vec<Decision>,
    /// The indices of the claims that `into_joint` never reports.
    silent: Vec<usize>,
    fault: Option<Fault>,
    is_remembered: bool,
}

impl RedisJointDecision {
    fn new(claims: &[RedisClaim<'_>], allowed: bool, told: impl Iterator<Item = Told>) -> Self {
        let decisions: Vec<Decision> = told.map(Decision::from).collect();
        let silent = silent(claims, &decisions);
        Self { allowed, decisions, silent, fault: None, is_remembered: false }
    }

    /// The answer for one limit alone.
    fn alone(claim: &RedisClaim<'_>, decision: RedisDecision) -> Self {
        let fault = decision.fault();
        let is_remembered = decision.is_remembered();
        Self {
            allowed: decision.is_allowed() || claim.is_tried(),
            decisions: vec![decision.into_decision()],
            silent: if claim.is_tried() { vec![0] } else { Vec::new() },
            fault,
            is_remembered,
        }
    }

    /// Returns true if the request may go. In that case every group that had room for it was charged, and otherwise no
    /// limit was charged.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// The decision of each limit, in the order of the claims.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The decision of each limit, by value, in the same order. They contain permits of the core, which cannot be
    /// refunded to the store.
    #[must_use]
    pub fn into_decisions(self) -> Vec<Decision> {
        self.decisions
    }

    /// The one answer for all limits, as [`tollgate::check_all`] gives it: the denial with the longest wait; if the
    /// request was admitted, the permit with the fewest units left. A limit in a group of the weight [`Weight::Counts`]
    /// is never the answer. If all groups of the weight [`Weight::DeniesTogether`] are over, the group with the
    /// shortest wait is the answer for all of them; if one of them has room, none of them denies.
    pub fn into_joint(self) -> JointDecision {
        let Self { allowed, decisions, silent, .. } = self;
        let answers = |(place, decision): &(usize, Decision)| {
            decision.is_allowed() == allowed && !silent.contains(place)
        };
        decisions.into_iter().enumerate().filter(answers).collect()
    }

    /// Returns true if an earlier answer of the store denied the request, so that the store was not asked again. This
    /// happens only to a request under a single limit with leases.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    /// Why the store did not decide, if this process had to decide without it.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }
}

/// Decides one request under several limits of one store, in one call: all are charged, or none. The weight of a
/// [group] of limits may say that the group only counts, or denies only together with other groups. The store is always
/// asked, even for limits with leases; only a request with a single claim is decided as by
/// [`check_n`](crate::RedisEntry::check_n), in the limit's mode. A limit that a group names twice is decided once, for
/// the sum of the costs, and both claims get this decision.
///
/// In a cluster, limits of different clients need several calls: all limits are looked at first, and then charged slot
/// by slot. If a later slot denies nevertheless, the charges of the earlier slots are given back. Until then other
/// requests may be denied because these units are missing. If the call that gives them back is lost, the units stay
/// charged until they drain. In neither case is a request admitted wrongly.
///
/// If the store fails, each limit decides by its own [`OnError`]. In that case, too, all limits are charged or none,
/// and a limit with [`OnError::Deny`] denies the request, as far as the weight of its group lets it deny. Limits of
/// different stores are decided in this way, too, with the fault [`Fault::MixedStores`].
///
/// [group]: RedisClaim::in_group
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{RedisLimiter, Settings, Store, check_all};
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let posts = RedisLimiter::new(&store, Settings::new("1/s burst 1".parse()?).name("posts"))?;
/// let friends = RedisLimiter::new(&store, Settings::new("150/d".parse()?).name("friends"))?;
/// let claims = [friends.entry("alice").cost(1), posts.entry("alice").cost(1)];
/// assert!(check_all(&claims).await.is_allowed());
/// assert_eq!(check_all(&claims).await.into_joint().denied_by(), Some(1));
/// # Ok(())
/// # }
/// ```
pub async fn check_all(claims: &[RedisClaim<'_>]) -> RedisJointDecision {
    if let [only] = claims {
        // These are the two steps of `check_n`. Calling `check_n` would copy a lease's decision once more, which takes
        // some 50 instructions.
        let decision = match only.entry.spend_held(only.cost) {
            Some(decision) => decision,
            None => only.entry.check_slowly(only.cost).await,
        };
        return RedisJointDecision::alone(only, decision);
    }
    decide(claims, ScriptVerb::Check).await
}

/// Finds out what [`check_all`] would answer. It charges nothing, and always asks the store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::{RedisLimiter, Settings, Store, peek_all};
/// let store = Store::open("redis://127.0.0.1:1/")?;
/// let limiter = RedisLimiter::new(&store, Settings::new("10/m".parse()?))?;
/// for _ in 0..20 {
///     assert!(peek_all(&[limiter.entry("alice").cost(3)]).await.is_allowed());
/// }
/// # Ok(())
/// # }
/// ```
pub async fn peek_all(claims: &[RedisClaim<'_>]) -> RedisJointDecision {
    if let [only] = claims {
        return RedisJointDecision::alone(only, only.entry.peek(only.cost).await);
    }
    decide(claims, ScriptVerb::Peek).await
}

async fn decide(asked: &[RedisClaim<'_>], verb: ScriptVerb) -> RedisJointDecision {
    let Gathered { claims, places } = Gathered::of(asked);
    let claims = &claims[..];
    let Some(first) = claims.first() else {
        return RedisJointDecision::new(claims, true, std::iter::empty());
    };
    let (inner, slot) = (first.inner(), first.entry.slot());
    let is_one_store = claims.iter().all(|claim| claim.inner().is_same_store(inner));
    let is_one_slot = claims.iter().all(|claim| claim.entry.slot() == slot);
    let verdict = match (is_one_store, is_one_slot) {
        (true, true) => slots::ask_one(claims, ask(claims, verb), inner.due()).await,
        (true, false) => across(claims, verb, inner.due()).await,
        (false, _) => {
            inner.counters().fault(Fault::MixedStores);
            Err(Fault::MixedStores)
        }
    };
    let answer = match verdict {
        Ok(verdict) if verdict.admitted || has_denied(claims, &verdict.sights) => {
            by_store(claims, verb, &verdict)
        }
        // If the script denies a request, it names a limit that denies. Any other answer is unexpected.
        Ok(_) => {
            inner.counters().fault(Fault::Unexpected);
            fall_back(claims, verb, Fault::Unexpected)
        }
        Err(fault) => fall_back(claims, verb, fault),
    };
    let JointAnswer { allowed, told, source, fault } = answer;
    if verb == ScriptVerb::Check {
        inner.counters().decision(source, allowed);
    }
    let joint = RedisJointDecision::new(asked, allowed, places.iter().map(|place| told[*place]));
    RedisJointDecision { fault, ..joint }
}

/// The answer to a request, with one element for each gathered claim.
struct JointAnswer {
    allowed: bool,
    told: Vec<Told>,
    source: Source,
    fault: Option<Fault>,
}

/// The claims of a request in the form in which they are decided: the claims of a group stand beside each other, and a
/// limit that a group names twice is one claim for the sum of the costs.
struct Gathered<'a> {
    claims: Vec<RedisClaim<'a>>,
    /// For each claim of the caller, its place among `claims`.
    places: Vec<usize>,
}

impl<'a> Gathered<'a> {
    fn of(asked: &[RedisClaim<'a>]) -> Self {
        let mut claims: Vec<RedisClaim<'a>> = Vec::with_capacity(asked.len());
        let mut places = vec![0; asked.len()];
        for (n, first) in asked.iter().enumerate() {
            // All claims of a group are collected at the group's first claim.
            if asked[..n].iter().any(|earlier| earlier.is_grouped_with(first)) {
                continue;
            }
            let begin = claims.len();
            for (place, claim) in places.iter_mut().zip(asked).skip(n) {
                if !claim.is_grouped_with(first) {
                    continue;
                }
                match claims[begin..].iter().position(|known| known.has_limit_of(claim)) {
                    Some(known) => {
                        *place = begin + known;
                        let cost = &mut claims[*place].cost;
                        *cost = cost.saturating_add(claim.cost);
                    }
                    None => {
                        *place = claims.len();
                        claims.push(*claim);
                    }
                }
            }
        }
        Self { claims, places }
    }
}

/// The indices of the claims that [`RedisJointDecision::into_joint`] never reports. These are all claims that only
/// count, and all claims of groups that deny together, except for one case: if all those groups are over, the group
/// with the shortest wait is reported.
fn silent(claims: &[RedisClaim<'_>], decisions: &[Decision]) -> Vec<usize> {
    let of_group = |first: usize| {
        (0..claims.len()).filter(move |n| claims[*n].is_grouped_with(&claims[first]))
    };
    // `None` if the group has room.
    let wait = |first: usize| {
        let denied = of_group(first).filter_map(|n| decisions[n].denial());
        denied.map(|denial| denial.retry_after().unwrap_or(Duration::MAX)).max()
    };
    let is_together = |n: &usize| claims[*n].weight == Weight::DeniesTogether;
    let mut together = (0..claims.len()).filter(is_together);
    // If two groups have the same wait, the first is reported.
    let answers = together.clone().min_by_key(|n| wait(*n));
    let all_deny = together.all(|n| wait(n).is_some());
    let is_silent = |n: &usize| {
        let answers = answers.filter(|_| all_deny);
        let is_answering =
            answers.is_some_and(|answers| claims[*n].is_grouped_with(&claims[answers]));
        let is_denial = decisions[*n].is_denied();
        claims[*n].is_tried() || is_together(n) && is_denial && !is_answering
    };
    (0..claims.len()).filter(is_silent).collect()
}

fn has_denied(claims: &[RedisClaim<'_>], sights: &[Sight]) -> bool {
    let seen = claims.iter().zip(sights);
    seen.into_iter().any(|(claim, sight)| !claim.is_tried() && !sight.seen.admits)
}

fn ask(claims: &[RedisClaim<'_>], verb: ScriptVerb) -> ScriptRequest {
    let part = |(n, claim): (usize, &RedisClaim<'_>)| ScriptPart {
        say: claim.weight,
        begins: n == 0 || !claims[n - 1].is_grouped_with(claim),
        ..claim.entry.part(Units::exactly(claim.cost))
    };
    ScriptRequest { verb, parts: claims.iter().enumerate().map(part).collect() }
}

/// Decides limits in several slots of a cluster: see slots.rs.
async fn across(
    claims: &[RedisClaim<'_>],
    verb: ScriptVerb,
    due: Instant,
) -> Result<StoreVerdict, Fault> {
    let mut sights = slots::look(claims, due).await?;
    let seen: Vec<bool> = sights.iter().map(|sight| sight.seen.admits).collect();
    let fits = fitting(claims, &seen);
    let mut admitted = goes(claims, &fits);
    if verb == ScriptVerb::Peek {
        return Ok(StoreVerdict { admitted, sights });
    }
    if admitted {
        let (decisive, tried) = charged(claims, &fits);
        admitted = slots::charge(claims, &decisive, due, &mut sights).await?;
        for group in tried.iter().filter(|_| admitted) {
            // This group only counts ([`Weight::Counts`]), so if its charge fails, the request is admitted all the
            // same.
            _ = slots::charge(claims, group, due, &mut sights).await;
        }
    }
    // A denied charge has already counted its denial. A group with `DeniesTogether` counts no denial if another such
    // group admits the request.
    let is_let_off = |n: &usize| admitted && claims[*n].weight == Weight::DeniesTogether;
    let denied = (0..claims.len()).filter(|n| !seen[*n] && !is_let_off(n));
    slots::refuse(claims, denied, due, &mut sights).await;
    Ok(StoreVerdict { admitted, sights })
}

/// Returns, for each claim, whether its group is within its limits. For each claim, `admits` says whether its limit
/// alone would admit the request.
fn fitting(claims: &[RedisClaim<'_>], admits: &[bool]) -> Vec<bool> {
    let mut fits = Vec::with_capacity(claims.len());
    for group in claims.chunk_by(RedisClaim::is_grouped_with) {
        let fit = admits.iter().skip(fits.len()).take(group.len()).all(|admits| *admits);
        fits.extend(repeat_n(fit, group.len()));
    }
    fits
}

/// Whether a request is admitted. `fits` says for each claim whether its group is within its limits.
fn goes(claims: &[RedisClaim<'_>], fits: &[bool]) -> bool {
    let of = |weight| {
        claims
            .iter()
            .zip(fits)
            .filter(move |(claim, _)| claim.weight == weight)
            .map(|(_, fit)| *fit)
    };
    let mut together = of(Weight::DeniesTogether).peekable();
    of(Weight::Denies).all(|fit| fit) && (together.peek().is_none() || together.any(|fit| fit))
}

/// The indices of the claims to charge for an admitted request. The first list is charged together; each group that
/// only counts and has room is a list of its own, and is charged by itself.
fn charged(claims: &[RedisClaim<'_>], fits: &[bool]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let places: Vec<usize> = (0..claims.len()).collect();
    let groups = places.chunk_by(|one, next| claims[*one].is_grouped_with(&claims[*next]));
    let fitting = groups.filter(|group| fits[group[0]]);
    let (tried, decisive): (Vec<&[usize]>, Vec<_>) =
        fitting.partition(|group| claims[group[0]].is_tried());
    (decisive.concat(), tried.into_iter().map(<[usize]>::to_vec).collect())
}

fn by_store(claims: &[RedisClaim<'_>], verb: ScriptVerb, verdict: &StoreVerdict) -> JointAnswer {
    let told = claims.iter().zip(&verdict.sights).map(|(claim, sight)| {
        let told = said(claim, sight, verdict.admitted);
        let charged = if verb == ScriptVerb::Peek && told.allowed { 0 } else { told.cost };
        Told { cost: charged, ..told }
    });
    let (allowed, told) = (verdict.admitted, told.collect());
    JointAnswer { allowed, told, source: Source::Store, fault: None }
}

/// The store's decision for one limit. If another limit denied the request, nothing was charged under this limit.
fn said(claim: &RedisClaim<'_>, sight: &Sight, admitted: bool) -> Told {
    let Sight { seen, now_us, held } = sight;
    let view = StateView { plan: &claim.inner().plan, state: &seen.state, now_us: *now_us };
    // A group that may be left out of an admitted request, and that did not fit, is not charged.
    let charged = match (seen.admits, admitted) {
        (true, true) => seen.units,
        (true, false) => 0,
        (false, _) => claim.cost,
    };
    let told = view.told(seen.admits, charged);
    // Only the store decides a request under several limits. If this limit denies, the answer leaves out the units of
    // this node's leases, since those cannot admit the request.
    let held = if seen.admits { *held } else { 0 };
    Told { remaining: told.remaining.saturating_add(held).min(told.limit), ..told }
}

/// Decides without the store: all limits are charged in their shares, or none.
fn fall_back(claims: &[RedisClaim<'_>], verb: ScriptVerb, fault: Fault) -> JointAnswer {
    let mut told: Vec<Told> = claims.iter().map(|claim| without_store(claim, claim.cost)).collect();
    let admits: Vec<bool> = told.iter().map(|told| told.allowed).collect();
    let fits = fitting(claims, &admits);
    let mut allowed = goes(claims, &fits);
    if allowed && verb == ScriptVerb::Check {
        let (decisive, tried) = charged(claims, &fits);
        match charge_shares(claims, &decisive) {
            Ok(()) => {
                for group in tried {
                    // If another request has taken the units since the peek, this request is still admitted, but does
                    // not charge this group.
                    _ = charge_shares(claims, &group);
                }
                for n in (0..claims.len()).filter(|n| fits[*n]) {
                    let (after, cost) = (without_store(&claims[n], 0), claims[n].cost);
                    told[n] = Told { allowed: true, cost, ..after };
                }
            }
            // Another request has taken units since the peek, so this request is denied. The caller may repeat it at
            // once.
            Err(place) => (allowed, told[place].allowed) = (false, false),
        }
    }
    let source = if claims.iter().any(is_local) { Source::Share } else { Source::Rule };
    JointAnswer { allowed, told, source, fault: Some(fault) }
}

fn is_local(claim: &RedisClaim<'_>) -> bool {
    claim.inner().on_error == OnError::Local
}

/// The answer of one limit without the store, before anything is charged.
fn without_store(claim: &RedisClaim<'_>, cost: u64) -> Told {
    let (inner, key) = (claim.inner(), claim.entry.key);
    if is_local(claim) {
        inner.share.peek(key, cost, claim.entry.isolated())
    } else {
        inner.ruled(cost, 0)
    }
}

/// Charges the shares of the limits at `places`, all or none. If none is charged, returns the place of the limit that
/// denied.
fn charge_shares(claims: &[RedisClaim<'_>], places: &[usize]) -> Result<(), usize> {
    let local: Vec<usize> = places.iter().copied().filter(|n| is_local(&claims[*n])).collect();
    // Each link has its own isolation clock. The smallest of their times is used: at an earlier time the shares have
    // regained fewer units, so this errs towards denying.
    let now = local.iter().map(|n| claims[*n].entry.isolated()).min().unwrap_or_default();
    let share = |n: &usize| {
        let RedisClaim { entry, cost, .. } = claims[*n];
        entry.inner().share.claim(entry.key, cost, now)
    };
    let joint = tollgate::check_all(&mut local.iter().map(share).collect::<Vec<_>>());
    joint.denied_by().map_or(Ok(()), |index| Err(local[index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::PartReply;
    use crate::script::state::State;
    use crate::{RedisLimiter, Settings, Store};

    /// Limiters with these policies, whose store is never there.
    fn limiters<const COUNT: usize>(policies: [&str; COUNT]) -> [RedisLimiter; COUNT] {
        let store = Store::open("redis://127.0.0.1:1/").unwrap();
        policies.map(|policy| {
            let settings = Settings::new(policy.parse().unwrap()).name(policy);
            RedisLimiter::new(&store, settings).unwrap()
        })
    }

    /// The request uses up the whole share. A peek after its charge would say that the cost does not fit, but the
    /// answer must say that the request was admitted.
    #[tokio::test]
    async fn without_the_store_a_request_that_takes_all_of_a_share_is_told_that_it_may_go() {
        let [one, other] = limiters(["10/h", "20/h"]);
        let both = async |cost| {
            check_all(&[one.entry("key").cost(cost), other.entry("key").cost(cost)]).await
        };
        for (cost, left) in [(4, 6), (6, 0)] {
            let told = both(cost).await.into_joint().into_decision().unwrap();
            assert_eq!((told.is_allowed(), told.limit(), told.remaining()), (true, 10, left));
            assert_eq!(told.summary().cost, cost);
        }
        assert!(!both(1).await.is_allowed());
    }

    #[tokio::test]
    async fn a_trial_that_did_not_fit_in_an_admitted_request_is_told_no_cost() {
        let [trial] = limiters(["1/d"]);
        let claim = trial.entry("key").cost(3).in_group(1, Weight::Counts);
        let told = |units| {
            let state = State::Gcra { debt: 0 };
            let seen = PartReply { admits: true, broken: false, astray: false, units, state };
            said(&claim, &Sight { seen, now_us: 7, held: 0 }, true).cost
        };
        assert_eq!([told(0), told(3)], [0, 3]);
    }

    #[tokio::test]
    async fn a_limit_on_trial_never_answers_for_the_request() {
        let [trial, tight, wide] = limiters(["1/d", "2/h", "9/h"]);
        let tried = trial.entry("key").cost(1).in_group(1, Weight::Counts);
        let claims = [tried, tight.entry("key").cost(1), wide.entry("key").cost(1)];
        let mut answers = Vec::new();
        for _ in 0..3 {
            let joint = check_all(&claims).await;
            let denied = joint.decisions().iter().map(Decision::is_denied).collect::<Vec<_>>();
            answers.push((denied, joint.into_joint()));
        }
        let told = answers
            .iter()
            .map(|(denied, joint)| (denied.as_slice(), joint.is_allowed(), joint.reported_by()));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (&[false, false, false][..], true, Some(1)),
                (&[true, false, false], true, Some(1)),
                // The claim that only counts has a longer wait, but is not reported.
                (&[true, true, false], false, Some(1)),
            ]
        );
        // A request whose claims all only count is admitted, whether it has one claim or two.
        for claims in [&claims[..1], &[tried, tried]] {
            let joint = check_all(claims).await;
            assert!(joint.is_allowed() && joint.decisions()[0].is_denied());
            assert_eq!(joint.into_joint().reported_by(), None);
        }
    }

    /// The share is 10 units an hour. Two claims of 4 are one claim of 8 under the limit, so they are denied together,
    /// and the wait is the wait for 8.
    #[tokio::test]
    async fn a_limit_that_is_named_twice_is_decided_for_the_sum() {
        let [limiter] = limiters(["10/h"]);
        assert!(limiter.check_n("key", 3).await.is_allowed());
        let twice = async |cost| check_all(&[limiter.entry("key").cost(cost); 2]).await;
        let reason = |joint: &RedisJointDecision| {
            let denials = joint.decisions().iter().map(|one| one.denial().unwrap().reason());
            denials.collect::<Vec<_>>()
        };
        let joint = twice(4).await;
        assert_eq!(reason(&joint), [tollgate::DenialReason::OverLimit; 2]);
        let wait = joint.decisions()[0].denial().unwrap().retry_after().unwrap();
        assert!(wait > Duration::from_secs(300), "a unit has to drain: {wait:?}");
        assert_eq!(reason(&twice(6).await), [tollgate::DenialReason::NeverFits; 2]);
        let joint = twice(3).await;
        assert!(joint.is_allowed());
        let told = joint.decisions().iter().map(|one| (one.summary().cost, one.remaining()));
        assert_eq!(told.collect::<Vec<_>>(), [(6, 1); 2]);
    }

    /// Claims with the same group number belong together wherever they are in the list: if one of them is over, the
    /// whole group is over.
    #[tokio::test]
    async fn the_claims_of_a_group_need_not_stand_beside_each_other() {
        let [full, room, other] = limiters(["1/d", "9/h", "5/h"]);
        let [one, two] = [&full, &room]
            .map(|limit| limit.entry("key").cost(1).in_group(1, Weight::DeniesTogether));
        let claims = [one, other.entry("key").cost(1), two];
        assert!(check_all(&claims).await.is_allowed());
        let joint = check_all(&claims).await;
        assert!(!joint.is_allowed());
        assert_eq!(joint.into_joint().denied_by(), Some(0));
        // One of two groups has room, so neither of them has denied the request.
        let alone = room.entry("key").cost(1).in_group(2, Weight::DeniesTogether);
        let joint = check_all(&[one, alone, other.entry("key").cost(9)]).await;
        assert!(!joint.is_allowed());
        assert_eq!(joint.into_joint().denied_by(), Some(2));
    }

    /// The request fits as soon as one of two groups has room.
    #[tokio::test]
    async fn of_groups_that_deny_together_the_one_with_the_shortest_wait_answers() {
        let [day, hour] = limiters(["1/d", "1/h"]);
        let claims = [&day, &hour].map(|limit| limit.entry("key").cost(1));
        assert!(check_all(&claims).await.is_allowed());
        let together = [0, 1].map(|n| claims[n].in_group(n, Weight::DeniesTogether));
        let joint = check_all(&together).await;
        assert!(!joint.is_allowed());
        assert_eq!(joint.into_joint().denied_by(), Some(1));
    }
}
