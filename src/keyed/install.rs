//! Giving a key its cell: claim, fence, verify, open.
//!
//! At every moment at most one live cell carries a key. Why: suppose cell a was opened for a key by A,
//! and cell b later by B while a was still live. Each claim word stood unchanged from its claim to its
//! opening, and its owner's scan lies in between. B's scan read a before A opened it. If A's scan read
//! b after B's claim, A saw a claim of its key at b: were b the lower cell, A would not have opened a;
//! were it the higher, A would have vacated it and B's opening would have failed. If A's scan read b
//! before B's claim, then A's claim stood before B's scan, so B saw a claim of its key at a, and the
//! same two cases apply with the roles exchanged. What makes "saw" true on weak memory is the fence
//! that each thread puts between its own claim and its scan. A thread may scan twice, both times behind its fence: the
//! first time it only counts, and one word of the tag is its own claim, if that still stands; else the second scan
//! judges each word. Its scan is the one by which it opens. Both threads scan the same cells and order them alike,
//! because keys with equal tags share both units or none (see `unit`).
//!
//! No thread waits: after [`ROUNDS`] lost rounds or [`ADVANCES`] advances a newcomer is decided in the spill, as it is
//! when there is no cell for it; or denied, and counted, if there is none. What it owes there it brings along when it
//! gets a cell: see [`super::spill`].

use crossbeam_utils::Backoff;

use crate::algorithm::{Decides, Held};
use crate::sync::{Fault, Ordering, fence, planted, scale};
use crate::verb::{Charged, Verbs, Wish};
use crate::verdict::{Mark, Verdict};

use super::ask::{Ask, Fresh, Outcome};
use super::floor::{LAG_NS, floor_at};
use super::hash::Identity;
use super::layout::{Kind, Layout};
use super::shard::GRANULE_BITS;
use super::shard::{Header, cells};
use super::survey::{Choice, Offer, Reading, Seen, choose};
use super::table::Table;
use super::unit::{UNIT, all_shards_of, shards_of};

/// A round is lost to another install, a sweep, a charge of the idle key, a charge of the same key in the spill, or a
/// change of its quota; three in a row are rare.
const ROUNDS: usize = 8;

/// Rounds that start at once; later ones spin a little first, so that two threads in lockstep part.
const EAGER_ROUNDS: usize = 3;

/// How often an install advances a floor before it gives up: that of its cell's shard for now to be near, or for a
/// cell; that of another shard, should the cell be lost; and as often again if others disturb it.
const ADVANCES: usize = if cfg!(loom) { 4 } else { 8 };

/// The headers of a key's shards.
type Headers = [Header; 2 * UNIT];

/// How a round went.
enum Round {
    Decided(Outcome),
    /// The claim is held and verified: no other thread can open this key.
    Verified(Seen),
    /// Another thread was in the way: search and survey again.
    Lost,
    /// A floor has to advance first, of this shard: until now is near.
    Follow(usize),
    /// As far as now allows, so that idle words are free to take.
    Advance(usize),
}

/// Another thread has changed what was being read.
struct Disturbed;

impl Table {
    /// Decides for a key that the caller has just found in none of its shards.
    #[cold]
    #[inline(never)]
    pub(super) fn install(
        &self,
        identity: Identity,
        second: usize,
        fresh: &mut Fresh<'_>,
    ) -> Outcome {
        let Identity { first, .. } = identity;
        // A key that is not there is priced by the quota in force; `open` reads that again.
        if let Some(book) = &self.book {
            fresh.kernel = Some(book.in_force(fresh.ask.tier.into()).layout.kernel);
        }
        let backoff = Backoff::new();
        let (mut lost, mut advances) = (0, 0);
        while lost < scale::rounds(ROUNDS) && advances < ADVANCES {
            if lost >= EAGER_ROUNDS {
                backoff.spin();
            }
            // Faults only: what must be read after the claim is read before it.
            let early = planted(Fault::FloorsBeforeClaim).then(|| self.headers(first, second));
            let early_owed = planted(Fault::EstimateBeforeClaim).then(|| {
                let (tier, mut lane) = (fresh.ask.tier, None);
                let quota = self.quota_of(tier, &mut lane);
                self.owed(identity, second, fresh.ask.now_ns, (tier, quota)).unwrap_or(Held::IDLE)
            });
            let round = match self.claim(identity, second, lost, fresh) {
                // Only now: the thread that forgot this key did so below a floor that was published before,
                // and a thread that sees the cell gone sees that floor.
                Round::Verified(claimed) => {
                    let headers = early.unwrap_or_else(|| self.enter(first, second, claimed));
                    self.open(identity, second, claimed, (headers, early_owed), fresh)
                }
                other => other,
            };
            match round {
                Round::Decided(outcome) => return outcome,
                // A claim was not won or not kept, or the survey was disturbed. (`open` never answers `Verified`.)
                Round::Verified(_) | Round::Lost => lost += 1,
                // Now is more than an epoch above this shard's floor: no word can be written at it yet.
                Round::Follow(index) => {
                    self.follow(index, fresh.ask.now_ns);
                    advances += 1;
                }
                // Keys become idle at a later floor, or the new key starts too far above the present one.
                Round::Advance(index) => {
                    self.advance(index, fresh.ask.now_ns);
                    advances += 1;
                }
            }
            // Another thread may have opened a cell for the key meanwhile.
            if let Some(outcome) = self.look(identity, second, fresh) {
                return outcome;
            }
        }
        // Out of rounds or of advances, because other threads were faster in each. Without a spill the key is denied and counted.
        self.spill(identity, second, fresh).unwrap_or_else(|| {
            self.tallies.contended(first);
            no_cell(fresh.ask.now_ns.saturating_add(LAG_NS), &fresh.ask)
        })
    }

    /// Looks for a cell, claims it, and verifies that no other install stands in the way.
    fn claim(
        &self,
        identity: Identity,
        second: usize,
        lost: usize,
        fresh: &mut Fresh<'_>,
    ) -> Round {
        let ask = &fresh.ask;
        // A cost that never fits is denied whatever the key owes: it takes no cell.
        if self.wish(*ask).is_never(&self.quota_of(ask.tier, &mut None).0.kernel) {
            return Round::Decided(self.newcomer(identity, second, fresh));
        }
        // A charge first lets a floor follow, which may forget this very key, and then looks for a cell in all of its
        // shards. A question is answered as if that had happened.
        let forgotten = if ask.charge { None } else { self.forgotten_in(identity, second, ask) };
        // A lost claim may have met one of the same key whose thread has stalled, which only a look at every word finds.
        let is_first = lost == 0 && forgotten.is_none();
        let vacancy = if is_first { self.vacancy(identity, second, ask) } else { None };
        let choice = match vacancy {
            // Nearly always while the table is below its capacity.
            Some(choice) => Some(choice),
            None => match self.offered(identity, second, ask, forgotten) {
                Ok(choice) => choice,
                // A floor moved, or the key's own word appeared, during the survey.
                Err(Disturbed) => return Round::Lost,
            },
        };
        match choice {
            // Every cell of its shards holds a claim, or a key that will not be idle at any floor that now allows.
            None => Round::Decided(self.without_cell(identity, second, fresh)),
            // A question writes nothing, not even a floor: it is answered as the claim would be.
            Some(
                Choice::Follow(index)
                | Choice::Advance(index)
                | Choice::Claim(Seen { shard: index, .. }),
            ) if !fresh.ask.charge => Round::Decided(self.question(identity, second, index, fresh)),
            Some(Choice::Follow(index)) => Round::Follow(index),
            Some(Choice::Advance(index)) => Round::Advance(index),
            Some(Choice::Claim(victim)) => self.claim_and_verify(identity, second, victim),
        }
    }

    /// What all of a key's shards offer together, by all of their words.
    fn offered(
        &self,
        Identity { first, tag }: Identity,
        second: usize,
        ask: &Ask,
        forgotten: Option<usize>,
    ) -> Result<Option<Choice>, Disturbed> {
        let mut readings = [Reading::NONE; 2 * UNIT];
        let mut offers = [Offer::NONE; 2 * UNIT];
        let mut count = 0;
        for (index, reading) in shards_of(first, second).zip(&mut readings) {
            // A floor moved between the words: they are not of one time.
            if !self.read_all(index, reading) {
                return Err(Disturbed);
            }
            count += 1;
        }
        for (reading, offer) in readings[..count].iter().zip(&mut offers) {
            let follows = forgotten == Some(reading.shard);
            // The key has a word here by now, or a word's quota was changed: the caller searches again.
            *offer = self.survey(reading, tag, ask, follows).ok_or(Disturbed)?;
        }
        Ok(choose(&offers[..count]))
    }

    /// Decides in the spill, or denies.
    fn without_cell(&self, identity: Identity, second: usize, fresh: &mut Fresh<'_>) -> Outcome {
        // No spill, or one that was disturbed too often: denied until a cell of its shards may be free.
        self.spill(identity, second, fresh).unwrap_or_else(|| {
            let (first, ask) = (identity.first, &fresh.ask);
            self.tallies.full(first, u64::from(ask.charge));
            no_cell(self.first_free_ns(first, second, ask), ask)
        })
    }

    fn claim_and_verify(&self, identity: Identity, second: usize, victim: Seen) -> Round {
        let Identity { first, tag } = identity;
        let shard = self.shard(victim.shard);
        let own_claim = self.layout.is_claim_of(victim.word, tag);
        if planted(Fault::HelpWithoutReclaim) && own_claim {
            return Round::Verified(victim);
        }
        // The nonce tells this claim from others of the same key, so that no CAS takes one for another.
        let claim = self.layout.claim(tag, shard.take_nonce());
        // The key of the idle word was charged since the survey, or another install took the cell.
        if !shard.replace(victim.cell, shard.reclaimable(victim.cell, victim.word), claim) {
            return Round::Lost;
        }
        // Over a live word this forgets a key; over a vacant cell or another claim it forgets none.
        let reclaimed = Layout::kind(victim.word) == Kind::Live;
        self.tallies.reclaimed(victim.shard, u64::from(reclaimed));
        let mine = Seen { word: claim, ..victim };
        // SeqCst: the one place that needs a total order. My claim comes before my scan, another's
        // claim before its scan; with the fence in between, at least one of us sees the other's claim.
        if !planted(Fault::NoFence) {
            fence(Ordering::SeqCst);
        }
        if planted(Fault::NoVerify) {
            return Round::Verified(mine);
        }
        // Read into a local: after each load that acquires, the compiler would read it anew. Words of the tag, live or
        // claims, differ from it in no bit above the state but the topmost.
        let states = self.layout.words_per_tag << 1;
        // Counted without a branch: which cells hold what cannot be foreseen.
        let mut of_tag = 0_u32;
        for index in shards_of(first, second) {
            let shard = self.shard(index);
            for cell in cells() {
                of_tag += u32::from((shard.load(cell) ^ tag) << 1 < states);
            }
        }
        // The common case: this claim is the one word of the tag.
        if of_tag == 1 && shard.load(mine.cell) == claim {
            return Round::Verified(mine);
        }
        for index in shards_of(first, second) {
            for cell in cells() {
                let word = self.shard(index).load(cell);
                let other = Seen { shard: index, cell, word };
                let rival =
                    self.layout.is_claim_of(word, tag) && other.position() != mine.position();
                let (live, lower) =
                    (self.layout.is_live(word, tag), other.position() < mine.position());
                // A live word of the key decides for it. Of two claims the lower one goes on, and vacates the higher;
                // if that CAS fails, the higher may just have been opened.
                let in_the_way = (live && !planted(Fault::VerifyIgnoresLive))
                    || (rival && lower && !planted(Fault::VerifyIgnoresLower))
                    || (rival
                        && !lower
                        && !planted(Fault::VerifyIgnoresHigher)
                        && !self.shard(index).replace(cell, word, 0));
                // The other thread goes on; this one searches again.
                if in_the_way {
                    self.give_back(mine);
                    return Round::Lost;
                }
            }
        }
        Round::Verified(mine)
    }

    /// Decides, from the later of now and the highest floor of the key's shards on, and turns the claim into a live
    /// word. The header of its own shard comes first.
    fn open(
        &self,
        identity: Identity,
        second: usize,
        mine: Seen,
        (headers, early_owed): (Headers, Option<Held>),
        fresh: &mut Fresh<'_>,
    ) -> Round {
        let base_ns = base_ns(headers, fresh);
        let near = self.is_near(headers[0], base_ns);
        // The key would start later than a word of this shard can say.
        if !near && !planted(Fault::FloorLeftOutOfBase) {
            self.give_back(mine);
            let reach = floor_at(fresh.ask.now_ns).saturating_add(self.layout.epoch);
            if base_ns >> GRANULE_BITS <= reach {
                return Round::Advance(mine.shard);
            }
            // A request of a time far ahead moved another shard's floor: to follow would carry that time on.
            self.tallies.full(identity.first, 1);
            return Round::Decided(no_cell(base_ns, &fresh.ask));
        }
        // Read only after the claim: see `book`.
        let mut lane = None;
        let tier = fresh.ask.tier;
        let (layout, index) = self.quota_of(tier, &mut lane);
        fresh.kernel = fresh.kernel.map(|_| layout.kernel);
        let ruled = layout.ruled();
        let moment = ruled.moment(base_ns);
        let late = layout.kernel.lateness(fresh.ask.now_ns, base_ns);
        let late = if planted(Fault::LateTestedAtFloor) { 0 } else { late };
        let wish = Wish { most: layout.ahead, ..self.wish(fresh.ask) };
        // Read only after the claim, as the floors are: a thread that spills a charge looks for this claim behind it.
        let owed =
            early_owed.or_else(|| self.owed(identity, second, base_ns, (tier, (layout, index))));
        let Some(owed) = owed else {
            self.give_back(mine);
            return Round::Lost; // its quota has been changed
        };
        let outcome = |verdict, held, at_ns, cost| Outcome {
            before: owed,
            ..Outcome::of_idle(verdict, held, at_ns, cost)
        };
        if owed.ahead > layout.ahead {
            // A request came with a time far ahead. A word has no room for it; the spill has.
            self.give_back(mine);
            return Round::Decided(self.without_cell(identity, second, fresh));
        }
        let Some(Charged { held, cost }) = ruled.apply(wish, owed, moment, late) else {
            // It has no cell, so a policy that counts denials cannot count this one.
            self.give_back(mine);
            return Round::Decided(outcome(Verdict::Denied, owed, base_ns, wish.denied_cost()));
        };
        if cost == 0 {
            self.give_back(mine); // nothing charged, nothing written
            return Round::Decided(outcome(Verdict::Allowed, owed, base_ns, 0));
        }
        let live = layout.live(identity.tag | index, held, &ruled, moment);
        let shard = self.shard(mine.shard);
        let claim =
            if planted(Fault::OpenWithoutExactWord) { shard.load(mine.cell) } else { mine.word };
        // The claim is gone: a sweep, a lower claim, a spilled charge of the key or a change of quota vacated it.
        if !shard.replace(mine.cell, claim, live) {
            return Round::Lost;
        }
        #[cfg(any(loom, shuttle))]
        self.assert_one_live(identity, second);
        let verdict = Verdict::Allowed;
        let (mark, held, at_ns) = ruled.tell(verdict, held, base_ns, (late, 0));
        Round::Decided(Outcome { mark, ..outcome(verdict, held, at_ns, cost) })
    }

    /// The headers of all shards of a key; of small units the last ones again.
    pub(super) fn headers(&self, first: usize, second: usize) -> Headers {
        all_shards_of(first, second).map(|index| self.shard(index).header())
    }

    /// Reads the floors for a verified claim: that of its own shard first, and then all.
    fn enter(&self, first: usize, second: usize, mine: Seen) -> Headers {
        let own = self.shard(mine.shard).enter();
        let mut headers = self.headers(first, second);
        // Its own stands among them, at least as high as it was when it was entered.
        let all = all_shards_of(first, second);
        for (nth, index) in all.into_iter().enumerate() {
            if index == mine.shard {
                headers.swap(0, nth);
                break;
            }
        }
        headers[0] = own;
        headers
    }

    /// A claim carries no debt, so giving it back loses nothing; if it was re-claimed, it is not mine. Its
    /// nonce says so; and if that came round, the install of that claim starts again.
    fn give_back(&self, mine: Seen) {
        if !planted(Fault::GiveBackForgotten) {
            self.shard(mine.shard).replace(mine.cell, mine.word, 0);
        }
    }

    /// The answer to a question about a key that has no cell, or that would be forgotten before it is charged:
    /// what [`open`](Self::open) would make of a claim in shard `own`.
    fn question(
        &self,
        identity: Identity,
        second: usize,
        own: usize,
        fresh: &mut Fresh<'_>,
    ) -> Outcome {
        let base_ns = base_ns(self.headers(identity.first, second), fresh);
        // Its own floor would come as far as now, and not further.
        let floor = self.shard(own).header().floor().max(floor_at(fresh.ask.now_ns));
        let is_far = base_ns >> GRANULE_BITS > floor.saturating_add(self.layout.epoch);
        // `open` would give its claim back here, and deny.
        if is_far {
            return no_cell(base_ns, &fresh.ask);
        }
        self.newcomer(identity, second, fresh)
    }

    /// The answer to a question about a key that is not there, or to a cost that never fits.
    fn newcomer(&self, identity: Identity, second: usize, fresh: &mut Fresh<'_>) -> Outcome {
        let at_ns = base_ns(self.headers(identity.first, second), fresh);
        let (tier, mut lane) = (fresh.ask.tier, None);
        let (layout, owed) = loop {
            let quota = self.quota_of(tier, &mut lane);
            // Lock-free: a turn in vain means that the quota has been changed.
            if let Some(owed) = self.owed(identity, second, at_ns, (tier, quota)) {
                break (*quota.0, owed);
            }
        };
        fresh.kernel = self.book.is_some().then_some(layout.kernel);
        let ruled = layout.ruled();
        let late = layout.kernel.lateness(fresh.ask.now_ns, at_ns);
        let moment = ruled.moment(at_ns);
        // How much a word of its tier holds does not matter: nothing is charged.
        let wish = self.wish(fresh.ask);
        // Only asked for: an admission charges nothing here.
        let (verdict, cost) = match ruled.apply(wish, owed, moment, late) {
            Some(_) => (Verdict::Allowed, 0),
            None => (Verdict::Denied, wish.denied_cost()),
        };
        let (mark, held, at_ns) = ruled.tell(verdict, owed, at_ns, (late, fresh.ask.cost));
        Outcome { mark, ..Outcome::of_idle(verdict, held, at_ns, cost) }
    }
}

/// The denial of a newcomer for which there is no cell before `free_ns`.
fn no_cell(free_ns: u64, ask: &Ask) -> Outcome {
    let at_ns = free_ns.max(ask.now_ns);
    let full = Outcome::of_idle(Verdict::Denied, Held::IDLE, at_ns, ask.cost);
    Outcome { mark: Mark::TableFull, ..full }
}

/// The instant that a new key starts at: now, or the highest floor of its shards if that is later.
pub(super) fn base_ns<const N: usize>(headers: [Header; N], fresh: &mut Fresh<'_>) -> u64 {
    let floors = headers.map(Header::floor_ns);
    let floor_ns = if planted(Fault::FloorLeftOutOfBase) {
        0
    } else if planted(Fault::OneFloorLeftOut) {
        floors[0]
    } else {
        floors.into_iter().fold(0, u64::max)
    };
    // A thread with a later time moved the floor. This request may just have read its clock a while ago: it is
    // read once more, and only once.
    if floor_ns > fresh.ask.now_ns
        && let Some(clock) = fresh.clock.take()
    {
        fresh.ask.now_ns = fresh.ask.now_ns.max(clock.now().as_nanos());
    }
    floor_ns.max(fresh.ask.now_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::Verb;
    use crate::{ManualClock, Timestamp};

    #[test]
    fn the_clock_is_read_again_only_if_a_floor_is_ahead() {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(9 << GRANULE_BITS));
        let clock = clock.into();
        for (floors, base, read_again) in
            [([7, 0], 9, true), ([0, 12], 12, true), ([5, 4], 5, false)]
        {
            let now_ns = 5 << GRANULE_BITS;
            let ask = Ask { now_ns, cost: 1, charge: true, verb: Verb::Check, tier: 0 };
            let mut fresh = Fresh::new(ask, Some(&clock));
            assert_eq!(base_ns(floors.map(Header::first), &mut fresh), base << GRANULE_BITS);
            assert_eq!(fresh.clock.is_none(), read_again, "{floors:?}");
            assert_eq!(fresh.ask.now_ns, (if read_again { 9 } else { 5 }) << GRANULE_BITS);
        }
    }

    #[test]
    fn a_newcomer_between_two_floors_has_its_own_follow() {
        let policy = "gcra 1/s burst 10".parse().expect("a policy");
        let layout = Layout::plan(&policy).expect("a layout");
        let table = Table::new(layout, 1, 1).expect("a table");
        // The other shard's floor lies a little more than an epoch above its own, now a little less.
        let ahead = 1 + layout.epoch + 5;
        table.advance(1, (ahead << GRANULE_BITS) + LAG_NS);
        let now_ns = (1 + layout.epoch - 3) << GRANULE_BITS;
        let ask = Ask { now_ns, cost: 1, charge: true, verb: Verb::Check, tier: 0 };
        let mut fresh = Fresh::new(ask, None);
        let key = Identity { first: 0, tag: 7 << layout.state_bits() };
        let outcome = table.install(key, 1, &mut fresh);
        assert_eq!((outcome.verdict, outcome.at_ns), (Verdict::Allowed, ahead << GRANULE_BITS));
        // One that would have to follow by more than an epoch does not.
        let far = 1 + 3 * layout.epoch;
        table.advance(1, (far << GRANULE_BITS) + LAG_NS);
        let key = Identity { first: 0, tag: 9 << layout.state_bits() };
        let outcome = table.install(key, 1, &mut fresh);
        assert_eq!((outcome.mark, outcome.at_ns), (Mark::TableFull, far << GRANULE_BITS));
        assert_eq!(table.shard(0).header().floor(), floor_at(now_ns));
    }
}
