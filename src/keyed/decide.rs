//! The path of a decision that is not made at home: in another cell of the key, or by an install.

use crate::algorithm::Gcra;
use crate::decision::{Decision, Outcome};
use crate::hash::{Identity, all_shards_of, prefetch, shards_of, unit};
use crate::verb::Verb;
use crate::verdict::Verdict;

use super::ask::{Ask, Fresh};
use super::floor::follow;
use super::install::install;
use super::shard::{Missed, Shard};
use super::slow::look;
use super::table::Table;

/// The decision on a request whose key may have been new, with the arithmetic that it was made by.
#[inline(always)]
pub(super) fn answer(table: &Table, outcome: Outcome, fresh: &Fresh<'_>) -> Decision {
    let now_ns = fresh.ask.now_ns;
    // Built in each branch, as in `Place::decide`.
    match fresh.told_by {
        // By the table's own arithmetic.
        None => outcome.told(*table.kernel(), now_ns, table.layout.rules.soft_bp),
        // By that of one of several quotas, or by answers that the spill has worked out.
        Some((kernel, soft_bp)) => outcome.told(kernel, now_ns, soft_bp),
    }
}

/// Decides a check, under plain GCRA with one quota, that its home has `missed`. One key in twenty lies in the home's
/// sibling or in its second unit; there it is decided by the code of a hit. All others go the slow way.
#[inline(never)]
pub(super) fn decide_elsewhere(
    table: &Table,
    gcra: &Gcra,
    identity: Identity,
    second: usize,
    missed: Missed,
    fresh: &mut Fresh<'_>,
) -> Outcome {
    let others = all_shards_of(identity.first, second);
    for &index in &others[1..] {
        prefetch(table.shard(index));
    }
    let mut missed = missed;
    for &index in &others[1..] {
        // It may be here or there: all words have to be looked at.
        if let Missed::Afar = missed {
            break;
        }
        let shard = table.shard(index);
        // The hint alone, first: a new key has none in any shard.
        if shard.hint(identity.tag, table.layout.state_bits).is_none() {
            continue;
        }
        match table.hit_plain(gcra, shard, identity.tag, fresh.ask) {
            Ok(outcome) => return outcome,
            Err(now_missed) => missed = now_missed,
        }
    }
    match missed {
        // No hint in any of its shards: as in `decide_slowly`.
        Missed::Absent if fresh.ask.charge => install(table, identity, second, fresh),
        _ => decide_slowly(table, identity, second, fresh),
    }
}

/// For what is not decided at home: other verbs, keys that are elsewhere or new, floors
/// that are not near, quotas that have just been replaced. The request's time may have been read again afterwards.
#[inline(never)]
pub(super) fn decide_slowly(
    table: &Table,
    identity: Identity,
    second: usize,
    fresh: &mut Fresh<'_>,
) -> Outcome {
    if let Some(logs) = table.logs() {
        return logs.outcome(identity, second, fresh);
    }
    // One look at a line, which is in the cache already if it is home.
    let is_here = |shard: &Shard| shard.hint(identity.tag, table.layout.state_bits).is_some();
    let (is_check, home) = (fresh.ask.verb == Verb::Check, table.shard(identity.first));
    let is_home = is_here(home);
    // Few keys live in their second unit, but a new one looks at all of its shards: so those lines are asked for.
    // Two things are done at home and need no other line: the first check of a shard after an epoch, and every other
    // verb of a key that is there.
    if !(is_home && (!is_check || has_to_follow(table, home, fresh.ask))) {
        for index in all_shards_of(identity.first, second).into_iter().skip(unit()) {
            prefetch(table.shard(index));
        }
    }
    // Until a shard says otherwise. A question installs nothing, so no scan would find what a hint
    // has missed: it looks at the words themselves.
    let mut is_absent = is_check && fresh.ask.charge;
    if is_check {
        for index in shards_of(identity.first, second) {
            let shard = table.shard(index);
            let is_here = if index == identity.first { is_home } else { is_here(shard) };
            // A hint: a word that it missed is found by the scan after the claim of an install.
            if !is_here {
                continue;
            }
            let mut hit = table.hit_outcome(shard, identity.tag, fresh.ask);
            // Its floor follows, and then it is a hit.
            // Only a charge whose now lies more than an epoch above the floor. A late one is read
            // from afar, the slow way.
            if matches!(hit, Err(Missed::Afar)) && has_to_follow(table, shard, fresh.ask) {
                follow(table, index, fresh.ask.now_ns);
                hit = table.hit_outcome(shard, identity.tag, fresh.ask);
            }
            // Missed again after the floor has followed: the sweep has forgotten the key, which was
            // idle for an epoch, or other threads keep the shard busy.
            match hit {
                Ok((outcome, told_by)) => {
                    fresh.told_by = told_by;
                    return outcome;
                }
                // The word has just been replaced.
                Err(Missed::Absent) => {}
                // It may be here, but cannot be decided by the hint: every word is looked at.
                Err(Missed::Afar) => is_absent = false,
            }
        }
    }
    // Looked for in vain by hints: the words themselves need no second look, since an install has one.
    // Otherwise the key may be here: under a floor that is not near, or in a cell that no hint
    // named.
    let found = if is_absent { None } else { look(table, identity, second, fresh) };
    found.unwrap_or_else(|| install(table, identity, second, fresh))
}

/// Whether a charge of this shard has its floor follow first. Where there are several quotas their words are looked
/// at before: see `price`.
fn has_to_follow(table: &Table, shard: &Shard, ask: Ask) -> bool {
    // A question, or a cost that never fits, changes nothing, not even a floor: see `Ask`.
    let is_behind = table.layout.is_behind(shard.header(), ask.now_ns);
    is_behind && ask.charge && table.book.is_none() && !table.wish(ask).is_never(table.kernel())
}

/// Counts the denial of a request that was only asked for, and tells of it: `None` if the policy
/// counts none, if the key has no word to count it in, or if it would be admitted by now. `ask` has the
/// verb `Refuse`, which charges nothing.
pub(super) fn refuse(
    table: &Table,
    identity: Identity,
    second: usize,
    ask: Ask,
) -> Option<Decision> {
    // There is no denial to count.
    if !table.quota_of(ask.tier, &mut None).layout.rules.count_denials() || ask.cost == 0 {
        return None;
    }
    let mut fresh = Fresh::new(ask, None);
    let outcome = match table.logs() {
        Some(logs) => logs.refuse(identity, second, &mut fresh)?,
        None => look(table, identity, second, &mut fresh)?,
    };
    // Others have given back meanwhile, and the request would be admitted: no denial of this limit.
    let is_denied = outcome.verdict == Verdict::Denied;
    is_denied.then(|| answer(table, outcome, &fresh))
}
