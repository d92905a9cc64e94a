//! Claim, fence, verify, open: from the cell that was chosen to the live word of its key.

use crate::algorithm::{Held, Kernel};
use crate::decision::Outcome;
use crate::verb::{Charged, Verbs, Wish};
use crate::verdict::{Mark, Verdict};

use super::answer::{no_cell, without_cell};
use super::rival::Rival;
use super::round::Round;
use crate::hash::{Identity, all_shards_of, shards_of};
use crate::keyed::ask::{Ask, Fresh};
use crate::keyed::base::{TierQuota, UnitHeaders, base_ns, headers};
use crate::keyed::floor::floor_at;
use crate::keyed::layout::{Kind, Layout};
#[cfg(any(loom, shuttle))]
use crate::keyed::newest::assert_one_live;
use crate::keyed::points;
use crate::keyed::shard::{GRANULE_BITS, cells};
use crate::keyed::spill::{denied_by_spill, owed, surplus_from_spill};
use crate::keyed::survey::Seen;
use crate::keyed::table::Table;

/// Claims the cell of the word that was chosen, if that still stands, and verifies the claim.
#[inline(always)] // its one caller is out of line, and cold
pub(super) fn claim_and_verify(
    table: &Table,
    identity: Identity,
    second: usize,
    victim: Seen,
) -> Round {
    let tag = identity.tag;
    let shard = table.shard(victim.shard);
    // Only in a model that plants it: another install's claim taken for one's own.
    if points::opens_as_found(table.layout.is_claim_of(victim.word, tag)) {
        return Round::Verified(victim);
    }
    // The nonce tells this claim from others of the same key, so that no CAS takes one for another.
    let claim = table.layout.claim(tag, shard.take_nonce());
    // The key of the idle word was charged since the survey, or another install took the cell.
    if !shard.reclaim(victim.cell, victim.word, claim) {
        return Round::Lost;
    }
    // Over a live word this forgets a key; over a vacant cell or another claim it forgets none.
    // The cell is this thread's from here on, as long as the claim stands: a sweep, another install
    // of the key, a spilled charge of it or a change of quota may vacate it at any time, and then
    // the opening fails.
    if Layout::kind(victim.word) == Kind::Live {
        table.tallies.reclaimed(victim.shard, 1);
    }
    verify(table, identity, second, Seen { word: claim, ..victim })
}

/// Scans all of the key's shards behind a claim that has just been made.
#[inline(always)]
fn verify(table: &Table, identity: Identity, second: usize, mine: Seen) -> Round {
    let Identity { first, tag } = identity;
    // SeqCst: the one place that needs a total order. My claim comes before my scan, another's
    // claim before its scan; with the fence in between, at least one of us sees the other's claim.
    points::fence_after_claim();
    // Only in a model that plants it.
    if points::skips_scan() {
        return Round::Verified(mine);
    }
    // Read into a local: after each load that acquires, the compiler would read it anew. Words of the tag, live or
    // claims, differ from it in no bit above the state but the topmost.
    let states = table.layout.words_per_tag << 1;
    // Counted without a branch: which cells hold what cannot be foreseen.
    // The first scan: behind the fence, as the second is.
    let mut of_tag = 0_u32;
    for index in shards_of(first, second) {
        let shard = table.shard(index);
        for cell in cells() {
            of_tag += u32::from((shard.load(cell) ^ tag) << 1 < states);
        }
    }
    // The common case: this claim is the one word of the tag.
    // One, but it might be another's: of a thread that vacated this claim since.
    if of_tag == 1 && table.shard(mine.shard).load(mine.cell) == mine.word {
        return Round::Verified(mine);
    }
    // The second scan judges each word by itself. Where there is one, it is the scan that the proof
    // speaks of.
    for index in shards_of(first, second) {
        for cell in cells() {
            let word = table.shard(index).load(cell);
            let rival = Rival::of(&table.layout, tag, (word, (index, cell)), mine.position());
            let in_the_way = match points::heeded(rival) {
                None => false,
                // The key's live word decides for it. Of two claims the lower one goes on.
                Some(Rival::Live | Rival::LowerClaim) => true,
                // The lower vacates the higher; if that CAS fails, the higher may just have been opened.
                Some(Rival::HigherClaim) => !table.shard(index).replace(cell, word, 0),
            };
            // The other thread goes on; this one searches again.
            // The CAS above also fails if a sweep has vacated the higher claim first: then this
            // round is lost for nothing.
            if in_the_way {
                give_back(table, mine);
                return Round::Lost;
            }
        }
    }
    // No word of the key but this claim, or those that this thread has vacated, stood in any cell
    // when it was looked at.
    Round::Verified(mine)
}

/// A claim carries no debt, so giving it back loses nothing; if it was re-claimed, it is not mine. Its
/// nonce says so; and if that came round, the install of that claim starts again.
fn give_back(table: &Table, mine: Seen) {
    if points::gives_back() {
        table.shard(mine.shard).replace(mine.cell, mine.word, 0);
    }
}

/// Decides, from the later of now and the highest floor of the key's shards on, and turns the claim into a live
/// word. The header of its own shard comes first.
#[inline(always)] // its one caller is out of line, and cold
pub(super) fn open(
    table: &Table,
    identity: Identity,
    second: usize,
    mine: Seen,
    headers: UnitHeaders,
    early_owed: Option<Held>,
    fresh: &mut Fresh<'_>,
) -> Round {
    // The instant at which the key starts: now, or the latest of all floors that it may have been
    // forgotten below.
    let base_ns = base_ns(headers, fresh);
    // The key would start later than a word of this shard can say.
    if !points::can_start(&table.layout, headers[0], base_ns) {
        return start_later(table, identity, mine, base_ns, &fresh.ask);
    }
    // Read only after the claim: a change of quota vacates every claim that it meets, behind a fence
    // of its own. So if it has not met this one, its tier is read as it has turned it (`book`).
    let (tier, mut lane) = (fresh.ask.tier, None);
    let quota = table.quota_of(tier, &mut lane);
    let TierQuota { layout, mark: index, .. } = quota;
    // In a table of one quota it stays None: the table's own answers.
    if let Some(told_by) = &mut fresh.told_by {
        *told_by = layout.teller();
    }
    let late = points::lateness(layout.kernel.lateness(fresh.ask.now_ns, base_ns));
    // How far ahead a word of this quota may go, which in a table of several is not the table's.
    let wish = Wish { most: layout.ahead, ..table.wish(fresh.ask) };
    // Read only after the claim, as the floors are: a thread that spills a charge looks for this claim behind it.
    let owed = early_owed.or_else(|| owed(table, identity, second, base_ns, quota));
    let Some(owed) = owed else {
        give_back(table, mine);
        return Round::Lost; // its quota has been changed
    };
    let outcome = |verdict, held, at_ns, cost| Outcome {
        before: owed,
        ..Outcome::of_idle(verdict, held, at_ns, cost)
    };
    if owed.ahead > layout.ahead {
        // A request came with a time far ahead. A word has no room for it; the spill has.
        give_back(table, mine);
        return Round::Decided(without_cell(table, identity, second, fresh));
    }
    let first = KeyStart { layout, wish, owed, base_ns, late }.charge();
    let Some(FirstCharge { cost, state, mark, held, at_ns }) = first else {
        let denied = outcome(Verdict::Denied, owed, base_ns, wish.denied_cost());
        return refused(table, identity, mine, layout, denied, fresh);
    };
    if cost == 0 {
        give_back(table, mine); // nothing charged, nothing written
        return Round::Decided(outcome(Verdict::Allowed, owed, base_ns, 0));
    }
    // Dated by the header that `enter` read: base is near that floor, so the word can be read back
    // under it and under the next.
    let surplus = surplus_from_spill(table, identity, second, base_ns, quota);
    let live = identity.tag | index | surplus | state;
    let shard = table.shard(mine.shard);
    let claim = points::openable(shard, mine.cell, mine.word);
    // The claim is gone: a sweep, a lower claim, a spilled charge of the key or a change of quota vacated it.
    // From the exact claim, nonce and all. Release, by `replace`: a thread that reads the word sees
    // the floor that was entered, or a newer one.
    if !shard.replace(mine.cell, claim, live) {
        return Round::Lost;
    }
    #[cfg(any(loom, shuttle))]
    assert_one_live(table, identity, second);
    // The key is live from here on, with its first charge in it: there was no moment at which it
    // stood there idle.
    Round::Decided(Outcome { mark, ..outcome(Verdict::Allowed, held, at_ns, cost) })
}

/// What the first charge of a key leaves.
struct FirstCharge {
    cost: u64,
    /// What its word holds beside the tag, the index and a surplus.
    state: u64,
    /// What is told of it: its mark, and what is held at which instant.
    mark: Mark,
    held: Held,
    at_ns: u64,
}

/// What a key starts from that gets a cell.
struct KeyStart<'a> {
    layout: &'a Layout,
    wish: Wish,
    owed: Held,
    base_ns: u64,
    /// See [`Kernel::lateness`].
    late: u64,
}

impl KeyStart<'_> {
    /// Charges the key; `None` if the request is denied.
    #[inline(always)]
    fn charge(&self) -> Option<FirstCharge> {
        // Plain GCRA by the code that is compiled for it alone, as where a key is hit.
        match &self.layout.kernel {
            Kernel::Gcra(gcra) => self.charge_by(gcra),
            _ => self.charge_by(&self.layout.ruled()),
        }
    }

    #[inline(always)]
    fn charge_by(&self, algorithm: &impl Verbs) -> Option<FirstCharge> {
        let Self { layout, wish, owed, base_ns, late } = *self;
        let moment = algorithm.moment(base_ns);
        let Charged { held, cost } = algorithm.apply(wish, owed, moment, late)?;
        let state = layout.live(0, held, algorithm, moment);
        let (mark, held, at_ns) = algorithm.tell(Verdict::Allowed, held, base_ns, late, 0);
        Some(FirstCharge { cost, state, mark, held, at_ns })
    }
}

/// What becomes of a claim whose key is denied. It has no cell, so a policy that counts denials cannot count this one.
fn refused(
    table: &Table,
    identity: Identity,
    mine: Seen,
    layout: &Layout,
    denied: Outcome,
    fresh: &mut Fresh<'_>,
) -> Round {
    // First: the claim keeps others from the cell.
    give_back(table, mine);
    // `None`: the spill holds nothing against it, so the denial is of its own cost and time.
    Round::Decided(
        denied_by_spill(table, identity, layout, denied.held, denied.at_ns, denied.cost, fresh)
            .unwrap_or(denied),
    )
}

/// What becomes of a claim whose key starts too far above its shard's floor.
fn start_later(table: &Table, identity: Identity, mine: Seen, base_ns: u64, ask: &Ask) -> Round {
    // The claim would only keep others from the cell.
    give_back(table, mine);
    let reach = floor_at(ask.now_ns).saturating_add(table.layout.epoch);
    // Its own floor can come near enough by what now allows.
    if base_ns >> GRANULE_BITS <= reach {
        return Round::Advance(mine.shard);
    }
    // A request of a time far ahead moved another shard's floor: to follow would carry that time on.
    table.tallies.full(identity.first, 1);
    Round::Decided(no_cell(base_ns, ask))
}

/// Reads the floors for a verified claim: that of its own shard first, and then all.
pub(super) fn enter(table: &Table, first: usize, second: usize, mine: Seen) -> UnitHeaders {
    // First, and as a write: see `Shard::enter`. The floors of the others may be older than this
    // one; they date nothing, and only raise the instant that the key starts at.
    let own = table.shard(mine.shard).enter();
    let mut headers = headers(table, first, second);
    // The header of the cell's own shard is among them, and its floor is at least as high as when the shard was entered.
    // Headers come in the order of the key's shards. If both of its units are the same one, each shard comes twice,
    // and its first place is as good as its second.
    let all = all_shards_of(first, second);
    for (nth, index) in all.into_iter().enumerate() {
        if index == mine.shard {
            headers.swap(0, nth);
            break;
        }
    }
    // Not the later reading: the floor that was entered is the one that the word will be dated by.
    headers[0] = own;
    headers
}
