//! Giving a key its cell: claim, fence, verify, open.
//!
//! At every moment at most one live cell carries a key. To see why, suppose that A opened cell a for a key, and that B
//! opened cell b for it later, while a was still live. Each claim word stood unchanged from its claim to its opening,
//! and its owner's scan lies in between. B's scan read a before A opened it: otherwise B would have seen a live word of
//! its key and given up. If A's scan read b after B's claim, A saw a claim of its key at b: were b the lower cell, A
//! would not have opened a; were it the higher, A would have vacated it and B's opening would have failed. If A's scan
//! read b before B's claim, then A's claim stood before B's scan, so B saw a claim of its key at a, and the same holds
//! with the roles exchanged: were a the lower cell, B would have given b up; were it the higher, B would have vacated
//! a, and A's opening would have failed. "Saw" is true on weak memory because of the fence that each thread puts
//! between its own claim and its scan. A thread may scan twice, both times behind its fence. The first scan counts the
//! words of the tag: if it counts one, and the thread's claim still stands, that one is the claim. Otherwise a second
//! scan judges each word. "Its scan" above is the last one. Both threads scan the same cells and order them alike,
//! because keys with equal tags share both units or none (see `hash`).
//!
//! No thread waits: after [`ROUNDS`] lost rounds or [`ADVANCES`] advances a newcomer is decided in the spill, as it is
//! when there is no cell for it. If there is no spill, it is denied, and counted. A key that gets a cell brings along
//! what it owes in the spill: see `spill.rs`.

mod answer;
mod open;
mod round;

use crossbeam_utils::Backoff;

use crate::algorithm::Held;
use crate::decision::Decision;
use crate::sync::scale;

use super::survey::{Choice, Offer, Reading, Seen, choose, read_all, survey, vacancy};
use crate::hash::UNIT;
use crate::keyed::floors::floor::LAG_NS;
use crate::keyed::memory::ask::{Ask, Fresh};
use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::points;
use crate::keyed::table::words::Key;

use round::Round;

/// A round is lost to another install, a sweep, a charge of the idle key, a charge of the same key in the spill, or a
/// change of its quota; three in a row are rare.
const ROUNDS: usize = 8;

/// Rounds that start at once; later ones spin a little first, so that two threads in lockstep part.
const EAGER_ROUNDS: usize = 3;

/// How often an install advances floors before it gives up. It may have to advance the floor of its cell's shard, so
/// that now is near or a cell becomes free. If it loses the cell, it may have to advance that of another shard, too. If
/// others disturb it, it may have to do the same again.
const ADVANCES: usize = if cfg!(loom) { 4 } else { 8 };

/// Another thread has changed what was being read.
struct Disturbed;

impl Key<'_> {
    /// Decides for a key that the caller has just found in none of its shards.
    #[cold]
    #[inline(never)]
    pub(in crate::keyed) fn install(&self, fresh: &mut Fresh<'_>) -> Decision {
        // The backoff only spins: no thread yields here, or waits for another.
        let backoff = Backoff::new();
        let (mut lost, mut advances) = (0, 0);
        // The loop ends, because each turn returns or counts up one of the two.
        while lost < scale::rounds(ROUNDS) && advances < ADVANCES {
            // Two threads that claim and vacate each other in step could do so for ever. The longer
            // they pause, the likelier one of them ends before the other comes.
            if lost >= EAGER_ROUNDS {
                backoff.spin();
            }
            // Both are `None`, except in a model that plants the fault: they must be read after the claim.
            let early = points::floors_read_early(|| self.headers());
            let early_owed = points::owed_read_early(|| {
                let (asked, mut lane) = (fresh.ask.quota, None);
                let quota = self.words.quota_of(asked, &mut lane);
                self.owed(fresh.ask.now_ns, quota).unwrap_or(Held::IDLE)
            });
            let round = match self.claim(lost, fresh) {
                // The floors are read only now. The floor under which this key was forgotten was published before that,
                // and a thread that sees the key gone sees that floor.
                Round::Verified(claimed) => {
                    let headers = early.unwrap_or_else(|| self.enter(claimed));
                    self.open(claimed, headers, early_owed, fresh)
                }
                // No claim was made, or it was not kept: there is nothing to open.
                other => other,
            };
            match round {
                Round::Decided(decision) => return decision,
                // A claim was not won or not kept, or the survey was disturbed. (`open` never answers `Verified`.)
                Round::Verified(_) | Round::Lost => lost += 1,
                // The request's time is more than an epoch above this shard's floor: no word can be written at it yet.
                Round::Follow(index) => {
                    self.words.follow(index, fresh.ask.now_ns);
                    advances += 1;
                }
                // Keys become idle at a later floor, or the new key starts too far above the present floor.
                Round::Advance(index) => {
                    self.words.advance(index, fresh.ask.now_ns);
                    advances += 1;
                }
            }
            // Another thread may have opened a cell for the key meanwhile.
            if let Some(decision) = self.look(fresh) {
                return decision;
            }
        }
        // All rounds or advances are used up, because other threads were faster in each. Without a spill the key is
        // denied and counted.
        self.decide_in_spill(fresh).unwrap_or_else(|| {
            self.words.tallies.contended(self.home());
            self.no_cell(fresh.ask.now_ns.saturating_add(LAG_NS), fresh)
        })
    }

    /// Looks for a cell, claims it, and verifies that no other install stands in the way.
    fn claim(&self, lost: usize, fresh: &mut Fresh<'_>) -> Round {
        let ask = &fresh.ask;
        // A cost that never fits is denied whatever the key owes, so it takes no cell. One unit always fits, since
        // every limit is at least 1, so most requests need not look up the quota here.
        let never = |layout: &Layout| layout.wish(*ask).is_never(&layout.kernel);
        if ask.cost > 1 && never(self.words.quota_of(ask.quota, &mut None).layout) {
            return Round::Decided(self.newcomer(fresh));
        }
        // A charge first lets a floor follow, which may forget this very key, and then looks for a cell in all of its
        // shards. A question changes nothing, but is answered as if the floor had followed.
        let forgotten = if ask.charge { None } else { self.forgotten_in(ask) };
        // A claim may have been lost to another claim of the key, whose thread has stalled: only a look at every word
        // finds that. And a question about a key that would be forgotten must know which cell would be left.
        let is_first = lost == 0 && forgotten.is_none();
        let vacancy = if is_first { vacancy(self, ask) } else { None };
        let choice = match vacancy {
            // This is nearly always so while the table is below its capacity.
            Some(choice) => Some(choice),
            None => match self.offered(ask, forgotten) {
                Ok(choice) => choice,
                // A floor moved, or the key's own word appeared, during the survey.
                Err(Disturbed) => return Round::Lost,
            },
        };
        match choice {
            // Every cell of its shards holds a claim, or a key that will not be idle at any floor that now allows.
            None => Round::Decided(self.without_cell(fresh)),
            // A question writes nothing, not even a floor. Its answer is the one that the claim would lead to.
            Some(
                Choice::Follow(index)
                | Choice::Advance(index)
                | Choice::Claim(Seen { shard: index, .. }),
            ) if !fresh.ask.charge => Round::Decided(self.question(index, fresh)),
            // A floor that moves changes what the shards offer, so the cell is chosen anew after it.
            Some(Choice::Follow(index)) => Round::Follow(index),
            Some(Choice::Advance(index)) => Round::Advance(index),
            Some(Choice::Claim(victim)) => self.claim_and_verify(victim),
        }
    }

    /// The choice among all that a key's shards offer, by all of their words.
    fn offered(&self, ask: &Ask, forgotten: Option<usize>) -> Result<Option<Choice>, Disturbed> {
        // All shards are read before the first is judged, so that the readings are of nearly one moment.
        let mut readings = [Reading::NONE; 2 * UNIT];
        let mut offers = [Offer::NONE; 2 * UNIT];
        let mut count = 0;
        for (index, reading) in self.shards().zip(&mut readings) {
            // A floor moved while the words were read, so they are not of one time.
            if !read_all(self.words.shard(index), index, reading) {
                return Err(Disturbed);
            }
            count += 1;
        }
        // The copies are judged, and no word is loaded again: so exactly the word that was judged is claimed later.
        for (reading, offer) in readings[..count].iter().zip(&mut offers) {
            let follows = forgotten == Some(reading.shard);
            // The key has a word here by now, or a word's quota was changed: the caller searches again.
            *offer = survey(&self.words, reading, self.tag(), ask, follows).ok_or(Disturbed)?;
        }
        Ok(choose(&offers[..count]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Identity, Tag};
    use crate::keyed::floors::floor::floor_at;
    use crate::keyed::memory::shard::GRANULE_BITS;
    use crate::keyed::quotas::book::own::QuotaId;
    use crate::keyed::table::Table;
    use crate::verb::Verb;
    use crate::verdict::Mark;

    #[test]
    fn a_newcomer_between_two_floors_has_its_own_follow() {
        let policy = "gcra 1/s burst 10".parse().expect("a policy");
        let layout = Layout::plan(&policy).expect("a layout");
        let table = Table::new(layout, 1, 1).expect("a table");
        let Ok(words) = table.words() else { panic!("logs") };
        // The other shard's floor lies a little more than an epoch above the key's own floor, and now lies a little
        // less than an epoch above it.
        let ahead = 1 + layout.division.epoch + 5;
        words.advance(1, (ahead << GRANULE_BITS) + LAG_NS);
        let now_ns = (1 + layout.division.epoch - 3) << GRANULE_BITS;
        let ask = Ask { now_ns, cost: 1, charge: true, verb: Verb::Check, quota: QuotaId::tier(0) };
        let mut fresh = Fresh::new(ask, None);
        let key = Identity { first: 0, tag: Tag::from_bits(7 << layout.division.state_bits) };
        let decision = words.key(key, 1).install(&mut fresh);
        assert!(decision.is_allowed());
        assert_eq!(decision.view().at_ns, ahead << GRANULE_BITS);
        // A floor does not follow by more than an epoch.
        let far = 1 + 3 * layout.division.epoch;
        words.advance(1, (far << GRANULE_BITS) + LAG_NS);
        let key = Identity { first: 0, tag: Tag::from_bits(9 << layout.division.state_bits) };
        let decision = words.key(key, 1).install(&mut fresh);
        let view = decision.view();
        assert_eq!((view.mark, view.at_ns), (Mark::TableFull, far << GRANULE_BITS));
        assert_eq!(table.shard(0).header().floor(), floor_at(now_ns));
    }
}
