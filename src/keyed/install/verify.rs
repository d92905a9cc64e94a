//! Claim, fence, verify: the claim of a cell, and the scan that shows that no other install of its key is in the way.

use super::rival::Rival;
use super::round::Round;
use crate::hash::Identity;
use crate::keyed::layout::{Kind, Layout};
use crate::keyed::points;
use crate::keyed::shard::cells;
use crate::keyed::survey::Seen;
use crate::keyed::table::Table;
use crate::keyed::unit::shards_of;

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
    let reclaimed = Layout::kind(victim.word) == Kind::Live;
    table.tallies.reclaimed(victim.shard, u64::from(reclaimed));
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
pub(super) fn give_back(table: &Table, mine: Seen) {
    if points::gives_back() {
        table.shard(mine.shard).replace(mine.cell, mine.word, 0);
    }
}
