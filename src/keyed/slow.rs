//! The slow way to a word that is there: every word of a key's shards is looked at, whatever the verb, the time and the
//! floor. What it does not find is for an install.

use crate::algorithm::{Decides, Held, Kernel};
use crate::decision::Outcome;
use crate::verb::Verbs;
use crate::verdict::Verdict;

use super::ask::{Ask, Fresh};
use super::floor::{follow, is_forgotten};
use super::hit::wished;
use super::price::look::look_priced;
use super::shard::{Header, Near, Shard, dates};
use super::table::Table;
use crate::hash::{Identity, shards_of};

/// What came of looking for a key in one shard the slow way.
enum SlowHit {
    Decided(Outcome),
    /// The shard does not hold the key.
    Elsewhere,
    /// It does, but its floor is not near, and the word cannot be read as it is.
    Afar,
}

/// Decides in the key's cell, if one of its shards holds it.
#[inline(always)]
pub(super) fn look(
    table: &Table,
    identity: Identity,
    second: usize,
    fresh: &mut Fresh<'_>,
) -> Option<Outcome> {
    let Identity { first, tag } = identity;
    // The table's own layout has no arithmetic then: a word is read by the quota that it names.
    if let Some(book) = &table.book {
        return look_priced(table, book, identity, second, fresh);
    }
    // Home first, where nearly all keys are. A key that moves while its shards are looked at may be
    // missed in all of them: then the scan after an install's claim finds it.
    shards_of(first, second).find_map(|index| hit_slowly(table, index, tag, &fresh.ask))
}

/// Decides in the key's cell, if this shard holds it, whatever the algorithm and the time. A question
/// about a key that a charge would forget first is not decided here: see
/// [`forgotten_in`].
#[inline]
pub(super) fn hit_slowly(table: &Table, index: usize, tag: u64, ask: &Ask) -> Option<Outcome> {
    let rules = &table.layout.rules;
    // Three calls: plain GCRA is compiled alone, and so are all algorithms without rules.
    match table.kernel() {
        // Without rules: with them it is `Kernel::RuledGcra`.
        Kernel::Gcra(gcra) => hit_whole(table, gcra, index, tag, ask),
        // The debt of a window is a rule, too, for a charge.
        kernel if rules.are_none() && rules.debt == 0 => hit_whole(table, kernel, index, tag, ask),
        _ => hit_whole(table, &table.ruled(), index, tag, ask),
    }
}

#[inline(never)]
fn hit_whole(
    table: &Table,
    algorithm: &impl Verbs,
    index: usize,
    tag: u64,
    ask: &Ask,
) -> Option<Outcome> {
    loop {
        // The word's floor is not near. A charge above it leaves, so that the floor can follow; so does a
        // question if the charge would forget the key. All others read the word from where they are.
        let afar = |header: Header, word| {
            let behind =
                !table.wish(*ask).is_never(table.kernel()) && ask.now_ns > header.floor_ns();
            let leave = behind && (ask.charge || is_forgotten(table, header, word, ask.now_ns));
            (!leave).then(|| unpack_afar(table, header, word, ask.now_ns))
        };
        // Lock-free: a turn that lets the floor follow and finds it far off again means that other
        // threads have changed the shard in each round of that advance.
        match hit_by(table, algorithm, table.shard(index), tag, *ask, afar) {
            SlowHit::Decided(outcome) => return Some(outcome),
            // The floor comes near to now; the next turn may find the word, or find it forgotten.
            SlowHit::Afar if ask.charge => follow(table, index, ask.now_ns),
            // Not here; or a question about a key that a charge would forget first.
            SlowHit::Elsewhere | SlowHit::Afar => return None,
        }
    }
}

/// The shard of a key that was asked for and is there, but would be forgotten before it is charged.
pub(super) fn forgotten_in(
    table: &Table,
    identity: Identity,
    second: usize,
    ask: &Ask,
) -> Option<usize> {
    shards_of(identity.first, second).find(|&index| {
        let shard = table.shard(index);
        // Not in this shard. (A claim of the key is no word of it yet, and is not found.)
        let Some((_, word)) = table.find(shard, identity.tag) else { return false };
        // After the word. Should a floor move meanwhile, the caller looks again.
        let header = shard.header();
        // A charge has the floor follow only from a now that it is not near to, and only upward.
        !header.is_near(ask.now_ns, table.layout.epoch)
            && ask.now_ns > header.floor_ns()
            && is_forgotten(table, header, word, ask.now_ns)
    })
}

/// Decides in the key's cell, if this shard holds it. Lock-free: each turn of the loop that does
/// not end it means that another thread has charged, cleared or advanced something.
///
/// `afar` reads a word whose floor is not near, if that can be done before the floor has advanced.
#[inline(always)]
fn hit_by(
    table: &Table,
    algorithm: &impl Verbs,
    shard: &Shard,
    tag: u64,
    ask: Ask,
    afar: impl Fn(Header, u64) -> Option<Held>,
) -> SlowHit {
    loop {
        // Header, words, header: the order of the loads is what dates the word, see the head of
        // `shard`.
        let before = shard.header();
        // Seen in no cell. A key that was installed behind this look is found by the next one, or
        // by the scan of this thread's own install.
        let Some((cell, word)) = table.find(shard, tag) else { return SlowHit::Elsewhere };
        let header = shard.header_behind_word(before);
        // A floor was published between the loads: unknown which of the two dates the word.
        if header.floor() != before.floor() {
            continue;
        }
        let moment = algorithm.moment(ask.now_ns);
        // Near: the low bits name one instant, counted from now. Else they are read at the floor,
        // and carried over to now.
        let held = if dates(header, Near::to(ask.now_ns, table.layout.epoch)) {
            table.layout.unpack(word, algorithm, moment)
        } else {
            let Some(held) = afar(header, word) else { return SlowHit::Afar };
            held
        };
        let (outcome, next) = wished(&table.layout, algorithm, tag, word, held, moment, ask);
        // Denied, and the word was seen from so far away that its time is cut: the wait is computed from near that time.
        if held.is_cut() && next == word && outcome.verdict == Verdict::Denied {
            let (seen, at_ns) = near(table, header, word);
            let (mark, held, at_ns) = algorithm.tell(Verdict::Denied, seen, at_ns, 0, 0);
            return SlowHit::Decided(Outcome { mark, held, at_ns, ..outcome });
        }
        // If it fails, the word was charged or swept by another thread meanwhile, or the CAS failed
        // for no reason. The word is read anew, with its floor.
        if next == word || shard.charge(cell, word, next) {
            return SlowHit::Decided(outcome);
        }
    }
}

/// What a live word holds, seen from near its time: for a request so late that it cannot tell.
#[cold]
#[inline(never)]
fn near(table: &Table, header: Header, word: u64) -> (Held, u64) {
    let (ruled, floor_ns) = (table.ruled(), header.floor_ns());
    // At its own floor, where every word can be read.
    let held = table.layout.unpack(word, &ruled, ruled.moment(floor_ns));
    table.kernel().seen_nearby(held, floor_ns)
}

/// What a live word holds, seen from an instant far below the floor, or far above it: read at the
/// floor, then carried over. What a late charge writes lies no lower than what it found, so it can
/// be read back; above the floor nothing may be written before the floor has followed.
#[cold]
#[inline(never)]
fn unpack_afar(table: &Table, header: Header, word: u64, now_ns: u64) -> Held {
    let floor_ns = header.floor_ns();
    let held = table.layout.unpack(word, table.kernel(), table.kernel().moment(floor_ns));
    // Late by more than an epoch.
    if now_ns < floor_ns {
        held.seen_earlier(table.kernel().passed(now_ns, floor_ns))
    } else {
        // A question, or a cost that never fits, which waits for no floor: nothing is written at
        // this now.
        held.seen_later(table.kernel().passed(floor_ns, now_ns))
    }
}
