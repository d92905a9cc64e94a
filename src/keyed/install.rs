//! Giving a key its cell: claim, fence, verify, open.
//!
//! At every moment at most one live cell carries a key. Why: suppose cell a was opened for a key by A,
//! and cell b later by B while a was still live. Each claim word stood unchanged from its claim to its
//! opening, and its owner's scan lies in between. B's scan read a before A opened it. If A's scan read
//! b after B's claim, A saw a claim of its key at b: were b the lower cell, A would not have opened a;
//! were it the higher, A would have vacated it and B's opening would have failed. If A's scan read b
//! before B's claim, then A's claim stood before B's scan, so B saw a claim of its key at a, and the
//! same two cases apply with the roles exchanged. What makes "saw" true on weak memory is the fence
//! that each thread puts between its own claim and its scan. Both scan the same cells and order them
//! alike, because keys with equal tags share both shards or none.
//!
//! No thread waits: after [`ROUNDS`] rounds a newcomer is denied, and counted.

use crossbeam_utils::Backoff;

use crate::algorithm::{Held, Moment};
use crate::decision::Verdict;
use crate::sync::{Ordering, fence};

use super::floor::{first_instant_of_floor, floor_at};
use super::hash::Identity;
use super::layout::{GRANULE_BITS, Kind, Layout};
use super::shard::CELLS;
use super::table::{Ask, Outcome, Table};

/// An install is disturbed only by installs of the same tag or a sweep; three rounds are rare.
const ROUNDS: usize = 8;

/// Rounds that start at once; later ones spin a little first, so that two threads in lockstep part.
const EAGER_ROUNDS: usize = 3;

/// While the first shard holds fewer live cells than this, a new key goes there; then into the emptier
/// of the two. Simulated: keeps 4 of 5 keys in their first shard, and fewer than 1 in 100,000 homeless
/// at the design load ("first unless full" leaves 8 in 1,000 at 70 %).
const FIRST_SHARD_SHARE: usize = 4;

/// A word as it was read, and where.
#[derive(Clone, Copy, Debug)]
struct Seen {
    shard: usize,
    cell: usize,
    word: u64,
}

impl Seen {
    /// All threads order cells alike, by their number in the whole table.
    fn position(&self) -> (usize, usize) {
        (self.shard, self.cell)
    }
}

/// What one shard offers a new key.
#[derive(Debug, Default)]
struct Offer {
    /// A claim of the key's own tag.
    own_claim: Option<Seen>,
    vacant: Option<Seen>,
    /// A live word that is idle at the published floor.
    idle: Option<Seen>,
    /// Whether some live word would be idle at a floor that now allows.
    idle_soon: bool,
    /// Cells that hold live words or claims.
    taken: usize,
}

impl Offer {
    fn free(&self) -> Option<Seen> {
        self.vacant.or(self.idle)
    }
}

/// How a round went.
enum Round {
    Decided(Outcome),
    /// The claim is held and verified: nobody else can open this key.
    Verified(Seen),
    /// Somebody was in the way: look again.
    Again,
}

impl Table {
    /// Decides for a key that was found in neither of its shards.
    #[cold]
    #[inline(never)]
    pub(super) fn install(&self, identity: Identity, second: usize, ask: &mut Ask<'_>) -> Outcome {
        let backoff = Backoff::new();
        for round in 0..ROUNDS {
            if round >= EAGER_ROUNDS {
                backoff.spin();
            }
            let claimed = match self.claim(identity, second, ask) {
                Round::Decided(outcome) => return outcome,
                Round::Verified(claimed) => claimed,
                Round::Again => continue,
            };
            if let Some(outcome) = self.open(identity, second, claimed, ask) {
                return outcome;
            }
        }
        self.tallies.contended(identity.first);
        no_cell(ask.now_ns, ask)
    }

    /// Looks for the key and for a cell, claims the cell, and verifies that no other stands in the way.
    fn claim(&self, identity: Identity, second: usize, ask: &mut Ask<'_>) -> Round {
        let Identity { first, tag } = identity;
        for index in pair(first, second) {
            if let Some(outcome) = self.hit(index, tag, ask) {
                return Round::Decided(outcome);
            }
            if self.place(self.shard(index).header(), ask).is_none() {
                self.advance(index, ask.now_ns);
                return Round::Again;
            }
        }
        let (Some(here), Some(there)) =
            (self.survey(first, tag, ask), self.survey(second, tag, ask))
        else {
            return Round::Again;
        };
        let Some(victim) = choose(&here, &there, first == second) else {
            for (index, offer) in [(first, &here), (second, &there)] {
                if offer.idle_soon {
                    self.advance(index, ask.now_ns);
                    return Round::Again;
                }
            }
            self.tallies.full(first, u64::from(ask.charge));
            return Round::Decided(no_cell(self.first_free_ns(first, second), ask));
        };
        if !ask.charge || ask.cost > self.kernel().limit() {
            return Round::Decided(self.newcomer(first, second, ask));
        }
        self.claim_and_verify(identity, second, victim)
    }

    fn claim_and_verify(&self, identity: Identity, second: usize, victim: Seen) -> Round {
        let Identity { first, tag } = identity;
        let shard = self.shard(victim.shard);
        let claim = self.layout.claim(tag, shard.take_nonce());
        if !shard.replace(victim.cell, victim.word, claim) {
            return Round::Again;
        }
        let reclaimed = Layout::kind(victim.word) == Kind::Live;
        self.tallies.reclaimed(victim.shard, u64::from(reclaimed));
        let mine = Seen { word: claim, ..victim };
        // SeqCst: the one place that needs a total order. My claim comes before my scan, another's
        // claim before his; with the fence in between, at least one of us sees the other's claim.
        fence(Ordering::SeqCst);
        for index in pair(first, second) {
            for cell in 0..CELLS {
                let word = self.shard(index).load(cell);
                let other = Seen { shard: index, cell, word };
                if self.layout.is_live(word, tag) {
                    self.give_back(mine);
                    return Round::Again;
                }
                if !self.layout.is_claim_of(word, tag) || other.position() == mine.position() {
                    continue;
                }
                let higher = other.position() > mine.position();
                if !higher || !self.shard(index).replace(cell, word, 0) {
                    return Round::Again;
                }
            }
        }
        Round::Verified(mine)
    }

    /// Reads the floors, decides, and turns the claim into a live word. `None`: start again.
    fn open(
        &self,
        identity: Identity,
        second: usize,
        mine: Seen,
        ask: &mut Ask<'_>,
    ) -> Option<Outcome> {
        // Only now: whoever forgot this key did so below a floor that was published before, and who
        // sees the cell gone sees that floor.
        let base_ns = self.base_ns(identity.first, second, ask);
        let header = self.shard(mine.shard).header();
        if self.gap(header, base_ns) > self.layout.epoch {
            self.give_back(mine);
            self.advance(mine.shard, base_ns);
            return None;
        }
        let moment = self.kernel().moment(base_ns);
        let late = self.lateness(ask.now_ns, base_ns);
        let Some(next) = self.kernel().step(Held::IDLE, moment, late, ask.cost) else {
            self.give_back(mine);
            return Some(Outcome { verdict: Verdict::Denied, held: Held::IDLE, at_ns: base_ns });
        };
        let live = self.layout.live(identity.tag, next, moment);
        self.shard(mine.shard).replace(mine.cell, mine.word, live).then_some(Outcome {
            verdict: Verdict::Allowed,
            held: next,
            at_ns: base_ns,
        })
    }

    /// The instant that a new key starts at: now, or the floor of either shard if that is later.
    fn base_ns(&self, first: usize, second: usize, ask: &mut Ask<'_>) -> u64 {
        let floors = [first, second].map(|index| self.shard(index).header().floor_ns());
        let floor_ns = floors[0].max(floors[1]);
        if floor_ns > ask.now_ns
            && let Some(clock) = ask.clock.take()
        {
            ask.now_ns = ask.now_ns.max(clock.now().as_nanos());
        }
        floor_ns.max(ask.now_ns)
    }

    /// A claim carries no debt, so giving it back loses nothing; if it was re-claimed, it is not mine.
    fn give_back(&self, mine: Seen) {
        self.shard(mine.shard).replace(mine.cell, mine.word, 0);
    }

    /// The answer to a question about a key that is not there, or to a cost that never fits.
    fn newcomer(&self, first: usize, second: usize, ask: &mut Ask<'_>) -> Outcome {
        let at_ns = self.base_ns(first, second, ask);
        let late = self.lateness(ask.now_ns, at_ns);
        let moment = self.kernel().moment(at_ns);
        let verdict = match self.kernel().step(Held::IDLE, moment, late, ask.cost) {
            Some(_) => Verdict::Allowed,
            None => Verdict::Denied,
        };
        Outcome { verdict, held: Held::IDLE, at_ns }
    }

    /// What a shard offers a new key, or `None` if it was changed meanwhile.
    fn survey(&self, index: usize, tag: u64, ask: &Ask<'_>) -> Option<Offer> {
        let shard = self.shard(index);
        let header = shard.header();
        let at_floor = self.kernel().moment(header.floor_ns());
        let goal_ns = (floor_at(ask.now_ns) << GRANULE_BITS).max(header.floor_ns());
        let at_goal = self.kernel().moment(goal_ns);
        let passed = at_goal.unit.wrapping_sub(at_floor.unit);
        let mut offer = Offer::default();
        for cell in 0..CELLS {
            let word = shard.load(cell);
            let seen = Seen { shard: index, cell, word };
            match Layout::kind(word) {
                Kind::Vacant => offer.vacant = offer.vacant.or(Some(seen)),
                Kind::Claim => {
                    offer.taken += 1;
                    if self.layout.is_claim_of(word, tag) {
                        offer.own_claim = offer.own_claim.or(Some(seen));
                    }
                }
                Kind::Live => {
                    let held = self.layout.unpack(word, at_floor);
                    if self.kernel().is_idle(held, at_floor) {
                        offer.idle = offer.idle.or(Some(seen));
                    } else {
                        offer.taken += 1;
                        offer.idle_soon |= self.kernel().is_idle(held.seen_later(passed), at_goal);
                    }
                }
            }
        }
        // After the words, and equal: so each word was judged by the floor it is dated by.
        (shard.header().floor() == header.floor()).then_some(offer)
    }

    /// When the first cell of the two shards can be taken over, if nothing else happens.
    fn first_free_ns(&self, first: usize, second: usize) -> u64 {
        let mut free_ns = u64::MAX;
        for index in [first, second] {
            let shard = self.shard(index);
            let floor_ns = shard.header().floor_ns();
            let moment: Moment = self.kernel().moment(floor_ns);
            for cell in 0..CELLS {
                let word = shard.load(cell);
                if Layout::kind(word) == Kind::Live {
                    let held = self.layout.unpack(word, moment);
                    free_ns = free_ns.min(self.kernel().idle_ns(held, floor_ns));
                }
            }
        }
        first_instant_of_floor(free_ns)
    }
}

/// The denial of a newcomer for which there is no cell before `free_ns`.
fn no_cell(free_ns: u64, ask: &Ask<'_>) -> Outcome {
    Outcome { verdict: Verdict::Full, held: Held::IDLE, at_ns: free_ns.max(ask.now_ns) }
}

/// The shards of a key, each once.
fn pair(first: usize, second: usize) -> impl Iterator<Item = usize> {
    std::iter::once(first).chain((second != first).then_some(second))
}

/// The word that a new key should replace: an unfinished install of the same tag, else a free cell.
fn choose(here: &Offer, there: &Offer, same_shard: bool) -> Option<Seen> {
    let claims = [here.own_claim, there.own_claim];
    if let Some(claim) = claims.into_iter().flatten().min_by_key(Seen::position) {
        return Some(claim);
    }
    if same_shard || here.taken < FIRST_SHARD_SHARE || here.taken <= there.taken {
        here.free().or(there.free())
    } else {
        there.free().or(here.free())
    }
}
