//! Decides one request under limits in several slots of a cluster. All limits are charged, or none.
//!
//! No script can read two slots, so the limits are charged in steps. First a peek asks all slots at the same time, and
//! if one of them denies, nothing is written. Then the slots are charged one after another. All nodes charge in the
//! order of the slot numbers, so if two requests want the same units, one of them is admitted. If a later slot denies
//! or does not answer, or the caller drops the future, the charges of the earlier slots are given back.
//!
//! A request is admitted only after it was charged in every slot. So the bound on admitted units (`docs/failures.md`)
//! holds in each slot as if that slot alone decided. The bound holds whatever fails, and in every mode, since the store
//! always decides requests under several limits. But some requests may be denied wrongly. A request that was charged in
//! some slots and is then denied, or gets no answer, may cause denials that a single script would not have caused. Such
//! denials may come:
//!
//! * until its units are given back. Charging takes one deadline at most. The refund is sent at once, and takes another
//!   deadline at most. If the refund is refused, because the node of the slot is away, it is repeated for a minute;
//! * until the units drain like spent units, if it is not known whether a call was carried out. A charge with an
//!   unknown outcome is not undone, and a refund with an unknown outcome is not repeated: units that were given back
//!   twice would be admitted although they are spent. A call with an unknown outcome takes at most the units that it
//!   asked for. A request makes at most one such call for each slot, so no limit loses more than the request's cost.
//!
//! So a limit wrongly counts at most these units as spent: the costs of the requests under way, and the costs of the
//! requests with lost calls. The latter drain like other spent units.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::claim::RedisClaim;
use crate::error::Fault;
use crate::leased::holding::Glance;
use crate::script::view::StateView;
use crate::script::{PartReply, ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::store::backoff::Backoff;
use crate::store::link::Link;

/// For this long a refused refund is repeated. A refund is refused while the slot's node is away.
const RETURNING: Duration = Duration::from_secs(60);

/// The store's reply about one limit, and the store's time.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) seen: PartReply,
    pub(crate) now_us: u64,
    /// The units in leases of this node, which the store counts as spent.
    pub(crate) held: u64,
}

/// The store's reply to a request, with one element for each limit.
#[derive(Clone, Debug)]
pub(crate) struct StoreVerdict {
    pub(crate) admitted: bool,
    pub(crate) sights: Vec<Sight>,
}

impl From<ScriptReply> for StoreVerdict {
    fn from(ScriptReply { now_us, admitted, parts }: ScriptReply) -> Self {
        let sights = parts.into_iter().map(|seen| Sight { seen, now_us, held: 0 }).collect();
        Self { admitted, sights }
    }
}

/// Asks the store about limits of one slot, and adds the units of this node's leases to its reply. If a limit denies,
/// but would have room with the leased units, these are given back, and the store is asked again.
pub(crate) async fn ask_one(
    claims: &[RedisClaim<'_>],
    ask: ScriptRequest,
    due: Instant,
) -> Result<StoreVerdict, Fault> {
    let verdict = ask_once(claims, ask.clone(), due).await?;
    // An admitted request has been charged. If one of its limits denies, that limit only counts, so its leases stay.
    if verdict.admitted || !give_back_held(claims, &verdict.sights, due).await {
        return Ok(verdict);
    }
    // If the store does not answer the second time, its first answer stands, so the request is denied.
    Ok(ask_once(claims, ask, due).await.unwrap_or(verdict))
}

/// Gives back this node's leases of the limits that deny, if all of these limits would admit the request with the
/// leased units. Returns whether units were given back. If one of the limits would deny in any case, nothing is given
/// back and the store is not asked again, so it counts no denial twice.
async fn give_back_held(claims: &[RedisClaim<'_>], sights: &[Sight], due: Instant) -> bool {
    // A limit that only counts denies nothing, so its leases stay.
    let is_denying =
        |claim: &RedisClaim<'_>, sight: &Sight| !claim.is_tried() && !sight.seen.admits;
    let denying = || claims.iter().zip(sights).filter(|(claim, sight)| is_denying(claim, sight));
    let mut is_any = false;
    for (claim, sight) in denying() {
        let Some(held) = claim.entry.held() else { return false };
        let view =
            StateView { plan: &claim.inner().plan, state: &sight.seen.state, now_us: sight.now_us };
        let is_enough = held.glance().left.saturating_add(view.remaining()) >= claim.cost;
        if !is_enough {
            return false;
        }
        is_any = true;
    }
    let mut has_returned = false;
    for (claim, _) in denying() {
        if let Some(held) = claim.entry.held() {
            has_returned |= held.return_all(due).await;
        }
    }
    is_any && has_returned
}

async fn ask_once(
    claims: &[RedisClaim<'_>],
    ask: ScriptRequest,
    due: Instant,
) -> Result<StoreVerdict, Fault> {
    let Some(first) = claims.first() else { return Err(Fault::Unexpected) };
    let mut before = Vec::with_capacity(claims.len());
    for claim in claims {
        before.push(match claim.entry.held() {
            Some(held) => held.before(ask.verb, due).await,
            None => Glance::default(),
        });
    }
    let mut verdict = StoreVerdict::from(first.inner().link(first.entry.key).call(ask, due).await?);
    for ((claim, before), sight) in claims.iter().zip(before).zip(&mut verdict.sights) {
        let held = claim.entry.held();
        sight.held = held.map_or(0, |held| held.after(before, sight.seen.units));
    }
    Ok(verdict)
}

/// Counts the denials that the peek has found, under policies for which a denial changes the state. The answers of the
/// peek stand, even if a slot does not answer this call, or would admit the request by now.
pub(crate) async fn refuse(
    claims: &[RedisClaim<'_>],
    denied: impl Iterator<Item = usize>,
    due: Instant,
    sights: &mut [Sight],
) {
    let places: Vec<usize> = denied.filter(|n| claims[*n].inner().plan.rules.is_some()).collect();
    for (link, places) in by_slot(claims, &places) {
        let reply = link.call(ask(ScriptVerb::Refuse, claims, &places), due).await;
        let Ok(reply) = reply.map(StoreVerdict::from) else { continue };
        for (place, sight) in places.into_iter().zip(reply.sights) {
            if !sight.seen.admits {
                sights[place] = sight;
            }
        }
    }
}

/// Peeks at all of these limits at the same time. If the denied costs fit with the units of this node's leases, the
/// leases are given back, and the peek is repeated.
pub(crate) async fn look(claims: &[RedisClaim<'_>], due: Instant) -> Result<Vec<Sight>, Fault> {
    let sights = look_once(claims, due).await?;
    if give_back_held(claims, &sights, due).await {
        return look_once(claims, due).await;
    }
    Ok(sights)
}

async fn look_once(claims: &[RedisClaim<'_>], due: Instant) -> Result<Vec<Sight>, Fault> {
    let all: Vec<usize> = (0..claims.len()).collect();
    let mut under_way = JoinSet::new();
    for (link, places) in by_slot(claims, &all) {
        let ask = ask(ScriptVerb::Peek, claims, &places);
        under_way.spawn(async move { (places, link.call(ask, due).await) });
    }
    let mut sights = vec![None; claims.len()];
    while let Some(Ok((places, reply))) = under_way.join_next().await {
        for (place, sight) in places.into_iter().zip(StoreVerdict::from(reply?).sights) {
            sights[place] = Some(sight);
        }
    }
    sights.into_iter().collect::<Option<Vec<_>>>().ok_or(Fault::Unexpected)
}

/// Charges the limits in `places`, all or none. Returns `false` if one of them has denied. Enters the answers of the
/// slots in `sights`, except those of slots whose charges are given back.
pub(crate) async fn charge(
    claims: &[RedisClaim<'_>],
    places: &[usize],
    due: Instant,
    sights: &mut [Sight],
) -> Result<bool, Fault> {
    let deadline =
        claims.first().map_or(Duration::ZERO, |claim| claim.inner().store.links.deadline());
    let mut reserved = Reserved { units: Vec::new(), deadline };
    let mut entries = Vec::with_capacity(places.len());
    let mut is_denied = false;
    for (link, places) in by_slot(claims, places) {
        let reply = link.call(ask(ScriptVerb::Check, claims, &places), due).await?;
        let (admitted, replies) = (reply.admitted, StoreVerdict::from(reply).sights);
        if !admitted {
            is_denied = true;
            entries.clear();
        } else {
            reserved.units.push((link, refund(claims, &places, &replies)));
        }
        entries.extend(places.into_iter().zip(replies));
        if !admitted {
            break;
        }
    }
    let is_whole = !is_denied && entries.len() == places.len();
    let all = is_whole && entries.iter().all(|(_, sight)| sight.seen.admits);
    if all {
        reserved.units.clear();
    }
    for (place, sight) in entries {
        let (claim, units) = (&claims[place], if all { sight.seen.units } else { 0 });
        if let Some(held) = claim.entry.held() {
            held.after(Glance::default(), units);
        }
        sights[place] = sight;
    }
    Ok(all)
}

/// Groups the limits by slot, in the order in which the slots are charged. Each group comes with the slot's link.
fn by_slot(claims: &[RedisClaim<'_>], places: &[usize]) -> Vec<(Arc<Link>, Vec<usize>)> {
    let mut slots: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for place in places {
        slots.entry(claims[*place].entry.slot()).or_default().push(*place);
    }
    let of_slot = |(slot, places): (u16, Vec<usize>)| {
        let links = &claims[places[0]].inner().store.links;
        (Arc::clone(links.of(slot)), places)
    };
    slots.into_iter().map(of_slot).collect()
}

fn ask(verb: ScriptVerb, claims: &[RedisClaim<'_>], places: &[usize]) -> ScriptRequest {
    let part = |place: &usize| claims[*place].entry.part(Units::exactly(claims[*place].cost));
    ScriptRequest { verb, parts: places.iter().map(part).collect() }
}

/// The request that gives back the charges of these limits.
fn refund(claims: &[RedisClaim<'_>], places: &[usize], replies: &[Sight]) -> ScriptRequest {
    let mut ask = ask(ScriptVerb::Refund, claims, places);
    for ((part, place), sight) in ask.parts.iter_mut().zip(places).zip(replies) {
        let plan = &claims[*place].inner().plan;
        let view = StateView { plan, state: &sight.seen.state, now_us: sight.now_us };
        part.units = Units { stamp: view.stamp(), ..Units::exactly(sight.seen.units) };
    }
    ask
}

/// Charges of slots so far. When this is dropped, they are given back, unless `units` was emptied before.
struct Reserved {
    units: Vec<(Arc<Link>, ScriptRequest)>,
    deadline: Duration,
}

impl Drop for Reserved {
    /// Gives the units back in separate tasks, so that no caller waits for it.
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        for (link, refund) in std::mem::take(&mut self.units) {
            runtime.spawn(give_back(link, refund, self.deadline));
        }
    }
}

/// Gives back units, and repeats the call while the store refuses it. A call with an unknown outcome is not repeated:
/// units that were given back twice would be admitted although they are spent.
async fn give_back(link: Arc<Link>, refund: ScriptRequest, deadline: Duration) {
    let (mut backoff, until) = (Backoff::new(), Instant::now() + RETURNING);
    while Instant::now() < until {
        match link.call(refund.clone(), Instant::now() + deadline).await {
            Err(fault) if fault.is_refusal() => sleep(backoff.next()).await,
            _ => return,
        }
    }
}
