//! Where a new key could go: what its two shards offer, and which is chosen.

use crate::algorithm::Decides;
use crate::sync::{Fault, planted};

use super::floor::{first_instant_of_floor, floor_at};
use super::layout::{GRANULE_BITS, Kind, Layout};
use super::price::Outlook;
use super::shard::{cells, is_upper};
use super::table::{Ask, Table};

/// While the first shard holds fewer live cells than this, a new key goes there; then into the emptier
/// of the two. Simulated: keeps 4 of 5 keys in their first shard, and fewer than 1 in 100,000 homeless
/// at the design load ("first unless full" leaves 8 in 1,000 at 70 %).
const FIRST_SHARD_SHARE: usize = 4;

/// A word as it was read, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) shard: usize,
    pub(super) cell: usize,
    pub(super) word: u64,
}

impl Seen {
    /// All threads order cells alike, by their number in the whole table.
    pub(super) fn position(&self) -> (usize, usize) {
        (self.shard, self.cell)
    }
}

/// What one shard offers a new key.
#[derive(Debug)]
pub(super) struct Offer {
    shard: usize,
    /// A claim of the key's own tag.
    own_claim: Option<Seen>,
    vacant: Option<Seen>,
    /// A live word that is idle at the published floor.
    idle: Option<Seen>,
    /// Whether some live word would be idle at a floor that now allows.
    idle_soon: bool,
    /// Whether the floor lies so far below now that nothing may be written at now before it advances.
    behind: bool,
    /// Cells that hold claims, or words that are live at the floor that now allows.
    taken: usize,
}

impl Offer {
    /// A cell to claim, or the advance that would free one, or nothing.
    fn best(&self) -> Option<Choice> {
        match self.vacant.or(self.idle) {
            Some(free) if !self.behind => Some(Choice::Claim(free)),
            None if !self.idle_soon => None,
            _ => Some(Choice::Advance(self.shard)),
        }
    }
}

/// What to do for a cell.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    Claim(Seen),
    /// The shard whose floor has to advance first.
    Advance(usize),
}

impl Table {
    /// What a shard offers a new key, or `None` if it was changed meanwhile. `forgets` says that an advance to
    /// now forgets the key's own word there.
    pub(super) fn survey(&self, index: usize, tag: u64, ask: &Ask, forgets: bool) -> Option<Offer> {
        let shard = self.shard(index);
        let header = shard.header();
        let floor_ns = header.floor_ns();
        let ruled = self.ruled();
        let at_floor = ruled.moment(floor_ns);
        let goal_ns = (floor_at(ask.now_ns) << GRANULE_BITS).max(floor_ns);
        let at_goal = ruled.moment(goal_ns);
        let passed = self.kernel().passed(floor_ns, goal_ns);
        let mut offer = Offer {
            shard: index,
            own_claim: None,
            vacant: None,
            idle: None,
            idle_soon: false,
            behind: ask.now_ns >> GRANULE_BITS > header.floor().saturating_add(self.layout.epoch),
            taken: 0,
        };
        // The first of several cells for a key whose home is the lower half, else the last: so one of its
        // home, if there is any.
        let nearest = |found: Option<Seen>, seen| match found {
            Some(_) if !is_upper(tag) => found,
            _ => Some(seen),
        };
        let book = self.book.as_deref(); // once: past a load that acquires it would be loaded anew
        for cell in cells() {
            let word = shard.load(cell);
            let seen = Seen { shard: index, cell, word };
            match Layout::kind(word) {
                Kind::Vacant => offer.vacant = nearest(offer.vacant, seen),
                Kind::Claim => {
                    offer.taken += 1;
                    if self.layout.is_claim_of(word, tag) {
                        offer.own_claim = offer.own_claim.or(Some(seen));
                    }
                }
                // Not a stranger's cell, but the key's own: installed since it was not found, unless it is the
                // one that goes.
                Kind::Live
                    if self.layout.is_live(word, tag) && !planted(Fault::OwnWordForStrangers) =>
                {
                    if !forgets {
                        return None;
                    }
                    offer.idle_soon = true;
                }
                Kind::Live => {
                    if let Some(book) = book {
                        match self.outlook(book, word, [floor_ns, goal_ns])? {
                            Outlook::Idle => offer.idle = nearest(offer.idle, seen),
                            Outlook::IdleSoon => offer.idle_soon = true,
                            Outlook::Busy => offer.taken += 1,
                        }
                        continue;
                    }
                    let held = self.layout.unpack(word, &ruled, at_floor);
                    if ruled.is_idle(held, at_floor) || planted(Fault::EvictLive) {
                        offer.idle = nearest(offer.idle, seen);
                    } else if ruled.is_idle(held.seen_later(passed), at_goal) {
                        offer.idle_soon = true;
                        if planted(Fault::ForgetByOwnClock) {
                            offer.idle = nearest(offer.idle, seen);
                        }
                    } else {
                        offer.taken += 1;
                    }
                }
            }
        }
        // After the words, and equal: so each word was judged by the floor it is dated by.
        let stale = shard.header().floor() != header.floor();
        (!stale || planted(Fault::SurveyWithStaleHeader)).then_some(offer)
    }

    /// When the first cell of the two shards can be taken over, if nothing else happens. A hint: what
    /// changes meanwhile is not looked at again.
    pub(super) fn first_free_ns(&self, first: usize, second: usize, ask: &Ask) -> u64 {
        let idle_ns = pair(first, second).flat_map(|index| {
            let shard = self.shard(index);
            let floor_ns = shard.header().floor_ns();
            let moment = self.ruled().moment(floor_ns);
            let live = cells().map(|cell| shard.load(cell));
            live.filter(|&word| Layout::kind(word) == Kind::Live).map(move |word| {
                if let Some(book) = &self.book {
                    return self.idle_ns(book, word, floor_ns);
                }
                let ruled = self.ruled();
                ruled.idle_ns(self.layout.unpack(word, &ruled, moment), floor_ns)
            })
        });
        first_instant_of_floor(idle_ns.min().unwrap_or(ask.now_ns))
    }
}

/// The shards of a key, each once.
pub(super) fn pair(first: usize, second: usize) -> impl Iterator<Item = usize> {
    std::iter::once(first).chain((second != first).then_some(second))
}

/// Where a new key should go: to an unfinished install of the same tag, else to the first shard while
/// it has few live keys, else to the emptier of the two.
pub(super) fn choose(here: &Offer, there: &Offer) -> Option<Choice> {
    let claims = [here.own_claim, there.own_claim];
    if let Some(claim) = claims.into_iter().flatten().min_by_key(Seen::position) {
        return Some(Choice::Claim(claim));
    }
    if here.taken < FIRST_SHARD_SHARE || here.taken <= there.taken {
        here.best().or_else(|| there.best())
    } else {
        there.best().or_else(|| here.best())
    }
}

#[cfg(test)]
mod tests {
    use super::super::shard::Row;
    use super::*;
    use crate::algorithm::Held;
    use crate::verb::Verb;

    fn offer(shard: usize, taken: usize) -> Offer {
        let vacant = Some(Seen { shard, cell: taken, word: 0 });
        Offer { shard, own_claim: None, vacant, idle: None, idle_soon: false, behind: false, taken }
    }

    fn chosen(choice: Option<Choice>) -> (usize, usize) {
        match choice {
            Some(Choice::Claim(seen)) => seen.position(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_key_goes_to_its_first_shard_while_that_has_few_and_then_to_the_emptier() {
        for (here, there, shard) in
            [(0, 0, 0), (3, 0, 0), (4, 3, 1), (4, 4, 0), (5, 6, 0), (6, 5, 1)]
        {
            let (one, other) = (offer(0, here), offer(1, there));
            assert_eq!(chosen(choose(&one, &other)).0, shard, "{here} here, {there} there");
        }
    }

    #[test]
    fn a_full_shard_sends_to_the_other_and_two_full_ones_send_away() {
        let full = |shard| Offer { vacant: None, ..offer(shard, 7) };
        assert_eq!(chosen(choose(&full(0), &offer(1, 6))).0, 1);
        assert_eq!(chosen(choose(&offer(0, 6), &full(1))).0, 0);
        assert!(choose(&full(0), &full(1)).is_none());
        let soon = Offer { idle_soon: true, ..full(1) };
        assert!(matches!(choose(&full(0), &soon), Some(Choice::Advance(1))));
    }

    #[test]
    fn a_shard_whose_floor_is_an_epoch_behind_has_to_advance_first() {
        let policy = "gcra 1/s burst 1".parse().expect("a policy");
        let layout = Layout::plan(&policy).expect("a layout");
        let table = Table::new(layout, 1, 10).expect("a table");
        for (granule, behind) in
            [(0, false), (9, false), (10 + layout.epoch, false), (11 + layout.epoch, true)]
        {
            let ask = Ask {
                now_ns: granule << GRANULE_BITS,
                cost: 1,
                charge: true,
                verb: Verb::Check,
                tier: 0,
            };
            let offer = table.survey(0, 1, &ask, false).expect("nobody disturbs");
            assert_eq!(offer.behind, behind, "at granule {granule}");
            let advances = matches!(offer.best(), Some(Choice::Advance(0)));
            assert_eq!(advances, behind, "at granule {granule}");
        }
    }

    #[test]
    fn a_new_key_takes_a_cell_of_its_home_while_there_is_one() {
        let policy = "gcra 1/s burst 1".parse().expect("a policy");
        let layout = Layout::plan(&policy).expect("a layout");
        let ask =
            Ask { now_ns: 11 << GRANULE_BITS, cost: 1, charge: true, verb: Verb::Check, tier: 0 };
        for (tag, cells) in [(1 << 61, [0, 1, 2, 3, 4, 5, 6]), (1 << 62, [6, 5, 4, 3, 2, 1, 0])] {
            let table = Table::new(layout, 1, 10).expect("a table");
            for (nth, cell) in cells.into_iter().enumerate() {
                let offer = table.survey(0, tag, &ask, false).expect("nobody disturbs");
                let vacant = offer.vacant.expect("a vacant cell").cell;
                assert_eq!(vacant, cell);
                let Row { first, count, .. } = Row::home(table.shard(0), tag);
                assert_eq!((first..first + count).contains(&vacant), nth < 4);
                // Taken by another of the same home, busy for a second.
                let held = Held { ahead: 1 << 12, ..Held::IDLE };
                let moment = table.kernel().moment(10 << GRANULE_BITS);
                let word = layout.live(tag | 1 << 40, held, table.kernel(), moment);
                assert!(table.shard(0).replace(cell, 0, word));
            }
            assert!(table.survey(0, tag, &ask, false).expect("nobody disturbs").vacant.is_none());
        }
    }

    #[test]
    fn claims_count_as_taken() {
        let policy = "gcra 1/s burst 1".parse().expect("a policy");
        let layout = Layout::plan(&policy).expect("a layout");
        let table = Table::new(layout, 1, 10).expect("a table");
        let ask =
            Ask { now_ns: 11 << GRANULE_BITS, cost: 1, charge: true, verb: Verb::Check, tier: 0 };
        for cell in 0..3 {
            let offer = table.survey(0, 1, &ask, false).expect("nobody disturbs");
            assert_eq!(offer.taken, cell);
            assert!(table.shard(0).replace(cell, 0, layout.claim(7 << layout.state_bits(), 1)));
        }
    }

    #[test]
    fn an_unfinished_install_of_the_key_is_taken_up_the_lowest_first() {
        let claim = |shard, cell| Some(Seen { shard, cell, word: 1 });
        let here = Offer { own_claim: claim(3, 5), ..offer(3, 1) };
        let there = Offer { own_claim: claim(2, 6), ..offer(2, 1) };
        assert_eq!(chosen(choose(&here, &there)), (2, 6));
        assert_eq!(chosen(choose(&here, &offer(2, 0))), (3, 5));
    }
}
