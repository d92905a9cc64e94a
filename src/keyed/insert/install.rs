//! Giving a key its cell: claim, fence, verify, open.
//!
//! At every moment at most one live cell carries a key. To see why, suppose that thread A opened cell a for a key.
//! Later, while a was still live, thread B opened cell b for the same key. Each thread made its claim, then scanned the
//! key's cells, and then opened the claim, which had stood unchanged until then. B's scan read a before A opened it:
//! otherwise B would have seen a live word of its key and given up. There are two cases, and both are impossible:
//!
//! * A's scan read b after B's claim. Then A saw B's claim. If b is the lower cell, A would not have opened a. If b is
//!   the higher cell, A would have vacated B's claim, and B's opening would have failed.
//! * A's scan read b before B's claim. Then A's claim stood before B's scan, so B saw A's claim. If a is the lower
//!   cell, B would have given b up. If a is the higher cell, B would have vacated A's claim, and A's opening would have
//!   failed.
//!
//! "Saw" is true on weak memory because each thread puts a fence between its claim and its scan. A thread may scan
//! twice, both times after its fence. The first scan counts the words that have the tag. If it counts one word, and the
//! thread's claim still stands, that word is the claim. Otherwise a second scan judges each word. "Scan" in the proof
//! means a thread's last scan. Both threads scan the same cells, because keys with equal tags share both units or
//! neither (see `hash`). They agree which of two cells is the lower one, because the order of cells is the same for all
//! threads.
//!
//! No thread waits: after [`ROUNDS`] lost rounds or [`ADVANCES`] advances the new key is decided in the spill, as if
//! there were no cell for it. Without a spill the request is denied and counted as contended. A key that gets a cell
//! still owes there what it owes in the spill: see `spill.rs`.

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

/// The most rounds that an install may lose. It loses a round to another install, a sweep, a charge of the idle key
/// whose cell it wants, a charge of its own key in the spill, or a change of quota. Three lost rounds in a row are
/// rare.
const ROUNDS: usize = 8;

/// The number of rounds that start without a pause. A later round spins a little first, so that two threads get out of
/// lockstep.
const EAGER_ROUNDS: usize = 3;

/// The most floor advances of one install. An advance may be needed to bring a shard's floor near to the request's
/// time, or to free a cell. If the install then loses the cell, another shard's floor may have to advance, too. An
/// advance that other threads disturb may have to be repeated.
const ADVANCES: usize = if cfg!(loom) { 4 } else { 8 };

/// The error of a survey: another thread changed a shard while it was being read.
struct Disturbed;

impl Key<'_> {
    /// Decides a request after the caller has looked in all shards of the key and has not found the key.
    #[cold]
    #[inline(never)]
    pub(in crate::keyed) fn install(&self, fresh: &mut Fresh<'_>) -> Decision {
        // The backoff only spins: no thread yields here, or waits for another.
        let backoff = Backoff::new();
        let (mut lost, mut advances) = (0, 0);
        // The loop ends, because each turn either returns or adds one to `lost` or `advances`.
        while lost < scale::rounds(ROUNDS) && advances < ADVANCES {
            // Two threads could vacate each other's claims in lockstep for ever. The longer they pause, the likelier it
            // is that one of them finishes before the other begins.
            if lost >= EAGER_ROUNDS {
                backoff.spin();
            }
            // Floors and debt must be read after the claim. Only a model that plants the fault reads them here;
            // otherwise both are `None`.
            let early = points::floors_read_early(|| self.headers());
            let early_owed = points::owed_read_early(|| {
                let (asked, mut lane) = (fresh.ask.quota, None);
                let quota = self.words.quota_of(asked, &mut lane);
                self.owed(fresh.ask.now_ns, quota).unwrap_or(Held::IDLE)
            });
            let round = match self.claim(lost, fresh) {
                // The floors are read only now, after the scan. A thread that sees that the key is gone also sees every
                // floor below which the key was forgotten.
                Round::Verified(claimed) => {
                    let headers = early.unwrap_or_else(|| self.enter(claimed));
                    self.open(claimed, headers, early_owed, fresh)
                }
                // The install holds no claim, so there is nothing to open.
                other => other,
            };
            match round {
                Round::Decided(decision) => return decision,
                // The claim failed or was vacated, or the survey was disturbed. (`open` never returns `Verified`.)
                Round::Verified(_) | Round::Lost => lost += 1,
                // The request's time is more than an epoch above this shard's floor, so no word can be written at that
                // time yet.
                Round::Follow(index) => {
                    self.words.follow(index, fresh.ask.now_ns);
                    advances += 1;
                }
                // At a later floor, another key is idle and its cell can be taken, or the start of the new key is near
                // to the floor.
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
        // All rounds or advances are used up, because other threads were in the way each time. Without a spill the key
        // is denied and counted.
        self.decide_in_spill(fresh).unwrap_or_else(|| {
            self.words.tallies.contended(self.home());
            self.no_cell(fresh.ask.now_ns.saturating_add(LAG_NS), fresh)
        })
    }

    /// Looks for a cell, claims it, and verifies that no other install of the key is in the way.
    fn claim(&self, lost: usize, fresh: &mut Fresh<'_>) -> Round {
        let ask = &fresh.ask;
        // A cost that never fits is denied whatever the key owes, so it takes no cell. One unit always fits, since
        // every limit is at least 1, so most requests need not look up the quota here.
        let never = |layout: &Layout| layout.wish(*ask).is_never(&layout.kernel);
        if ask.cost > 1 && never(self.words.quota_of(ask.quota, &mut None).layout) {
            let told = self.newcomer(fresh);
            // The quota was raised in between, so that the cost fits by now. Nothing has been charged yet, so a charge
            // is decided anew.
            let is_raised = told.is_allowed() && fresh.ask.charge && points::decides_anew();
            return if is_raised { Round::Lost } else { Round::Decided(told) };
        }
        // A charge lets the floor of its key's shard follow first. If the sweep forgets this very key, a cell is looked
        // for in all shards of the key. A request that does not charge changes nothing, but is answered as if the floor
        // had followed.
        let forgotten = if ask.charge { None } else { self.forgotten_in(ask) };
        // `vacancy` does not look at claims, so it is used only in the first round. Another claim of the key may belong
        // to a thread that has stalled, and only a survey of every word finds such a claim. If the key would be
        // forgotten, `vacancy` is not used at all, since the answer depends on the cells that the sweep would leave.
        let is_first = lost == 0 && forgotten.is_none();
        let vacancy = if is_first { vacancy(self, ask) } else { None };
        let choice = match vacancy {
            // Nearly every install takes this branch while the table is below its capacity.
            Some(choice) => Some(choice),
            None => match self.offered(ask, forgotten) {
                Ok(choice) => choice,
                // During the survey a floor moved, the key's own word appeared, or a word was replaced.
                Err(Disturbed) => return Round::Lost,
            },
        };
        match choice {
            // Each cell of the key's shards has a claim, or the word of a key that is not idle at any floor that the
            // request's time allows.
            None => Round::Decided(self.without_cell(fresh)),
            // A request that does not charge writes nothing, not even a floor. It gets the answer that a charging
            // request would get after its claim.
            Some(
                Choice::Follow(index)
                | Choice::Advance(index)
                | Choice::Claim(Seen { shard: index, .. }),
            ) if !fresh.ask.charge => Round::Decided(self.question(index, fresh)),
            // When a floor has moved, the shards may offer other cells, so the cell is chosen anew.
            Some(Choice::Follow(index)) => Round::Follow(index),
            Some(Choice::Advance(index)) => Round::Advance(index),
            Some(Choice::Claim(victim)) => self.claim_and_verify(victim),
        }
    }

    /// Reads all words of the key's shards, and chooses among the cells that they offer.
    fn offered(&self, ask: &Ask, forgotten: Option<usize>) -> Result<Option<Choice>, Disturbed> {
        // All shards are read before the first is judged, so that all words are read at nearly the same moment.
        let mut readings = [Reading::NONE; 2 * UNIT];
        let mut offers = [Offer::NONE; 2 * UNIT];
        let mut count = 0;
        for (index, reading) in self.shards().zip(&mut readings) {
            // A floor moved while the words were read, so one floor does not date all of them.
            if !read_all(self.words.shard(index), index, reading) {
                return Err(Disturbed);
            }
            count += 1;
        }
        // The copies are judged, and no word is loaded again. So the CAS of the claim expects exactly the word that was
        // judged.
        for (reading, offer) in readings[..count].iter().zip(&mut offers) {
            let follows = forgotten == Some(reading.shard);
            // `None` means that the key has a word here by now, or that a word has been replaced. The caller searches
            // again.
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
        let Ok(words) = table.words() else { panic!("a table of logs") };
        // The floor of shard 1 lies a little more than an epoch above the floor of shard 0. The request's time lies a
        // little less than an epoch above the floor of shard 0.
        let ahead = 1 + layout.division.epoch + 5;
        words.advance(1, (ahead << GRANULE_BITS) + LAG_NS);
        let now_ns = (1 + layout.division.epoch - 3) << GRANULE_BITS;
        let ask = Ask { now_ns, cost: 1, charge: true, verb: Verb::Check, quota: QuotaId::tier(0) };
        let mut fresh = Fresh::new(ask, None);
        let key = Identity { first: 0, tag: Tag::from_bits(7 << layout.division.state_bits) };
        let decision = words.key(key, 1).install(&mut fresh);
        assert!(decision.is_allowed());
        assert_eq!(decision.view().at_ns, ahead << GRANULE_BITS);
        // The floor of shard 0 does not move beyond this request's time, so a key that starts more than an epoch later
        // is denied.
        let far = 1 + 3 * layout.division.epoch;
        words.advance(1, (far << GRANULE_BITS) + LAG_NS);
        let key = Identity { first: 0, tag: Tag::from_bits(9 << layout.division.state_bits) };
        let decision = words.key(key, 1).install(&mut fresh);
        let view = decision.view();
        assert_eq!((view.mark, view.at_ns), (Mark::TableFull, far << GRANULE_BITS));
        assert_eq!(table.shard(0).header().floor(), floor_at(now_ns));
    }
}
