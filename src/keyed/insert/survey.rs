//! Where a new key could go: what its shards offer, and which is chosen.
//!
//! A vacant cell, as near to home as there is one; and only if none of the key's shards has one, the cell of a key
//! that is idle. So keys that are idle now and then keep their cells while there is room, and are found when they come
//! back.

use crate::sync::scale;

use crate::hash::{Tag, UNIT, unit};
use crate::keyed::floors::floor::{first_instant_of_floor, floor_at};
use crate::keyed::lookup::price::priced_idle;
use crate::keyed::memory::ask::Ask;
use crate::keyed::memory::layout::{Idleness, Kind};
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{CELLS, CellMask, GRANULE_BITS, Header, Shard, TableWord, cells};
use crate::keyed::quotas::book::{Book, Quotas};
use crate::keyed::table::words::{Key, Words};

/// A key goes to its home unit while fewer cells than this are taken there, or no fewer in its second unit. Simulated
/// with 4 million keys at the design load of 70 %: 4.6 % of keys in their second unit, 2.7 % in their home's sibling,
/// one homeless; with one cell more 2.8 % in the second unit, but 202 homeless.
const NEARLY_FULL: usize = if cfg!(loom) { UNIT * CELLS + 1 } else { UNIT * CELLS - 2 };

/// A new key takes a cell that seems vacant while its shards have so many of them. Threads that bring one new key at
/// once may claim one each in that way, until their scans: so the last ones are not taken from other keys.
const ENOUGH_VACANT: usize = 4;

/// What a word of another key means for a newcomer.
enum Outlook {
    Idle,
    IdleSoon,
    Busy,
}

/// A word as it was read, and where.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Seen {
    pub(in crate::keyed) shard: usize,
    pub(in crate::keyed) cell: usize,
    pub(in crate::keyed) word: TableWord,
}

impl Seen {
    /// All threads order cells alike, by their number in the whole table.
    pub(in crate::keyed) fn position(&self) -> (usize, usize) {
        (self.shard, self.cell)
    }
}

/// A shard as it was read: its words stood there under this header.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Reading {
    pub(in crate::keyed) shard: usize,
    header: Header,
    words: [TableWord; CELLS],
}

/// What one shard offers a new key.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Offer {
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
    /// Cells that are not vacant.
    held: usize,
    /// Cells that hold claims, or words that are live at the floor that now allows.
    taken: usize,
}

impl Offer {
    /// What no shard offers: a place in an array that has not been filled yet.
    pub(in crate::keyed) const NONE: Self = Self {
        shard: 0,
        own_claim: None,
        vacant: None,
        idle: None,
        idle_soon: false,
        behind: false,
        held: 0,
        taken: 0,
    };

    /// The vacant cell, or the advance that it needs first.
    fn vacant(&self) -> Option<Choice> {
        self.vacant.map(|vacant| self.cell(vacant))
    }

    /// A cell whose key is idle, or the advance that would free one.
    fn idle(&self) -> Option<Choice> {
        let soon = self.idle_soon.then_some(Choice::Advance(self.shard));
        // A word that is idle by now comes before one that needs an advance.
        self.idle.map(|idle| self.cell(idle)).or(soon)
    }

    fn cell(&self, free: Seen) -> Choice {
        // Behind: what is written at now could not be read back by this floor.
        if self.behind { Choice::Follow(self.shard) } else { Choice::Claim(free) }
    }
}

/// The cells of a shard that seem vacant.
#[derive(Clone, Copy, Default)]
struct Vacancy {
    shard: usize,
    vacant: CellMask,
}

impl Vacancy {
    fn choice(&self) -> Option<Choice> {
        // As if 0 had been read there. If another word stands in the cell, the CAS of the claim
        // fails.
        let claim = |cell| Choice::Claim(Seen { shard: self.shard, cell, word: TableWord::VACANT });
        self.vacant.first().map(claim)
    }
}

/// What to do for a cell.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) enum Choice {
    Claim(Seen),
    /// There is a cell, but its shard's floor has to come near now first.
    Follow(usize),
    /// There is none before this shard's floor has advanced as far as now allows.
    Advance(usize),
}

impl Reading {
    /// A place in an array that has not been filled yet.
    pub(in crate::keyed) const NONE: Self =
        Self { shard: 0, header: Header::first(0), words: [TableWord::VACANT; CELLS] };
}

/// Reads the words of a shard; `false` if it was changed meanwhile.
#[inline(always)]
pub(in crate::keyed) fn read_all(shard: &Shard, index: usize, reading: &mut Reading) -> bool {
    // Header, words, header: as for a decision.
    (reading.shard, reading.header) = (index, shard.header());
    for cell in cells() {
        // Acquire: the header that is read behind has the floor of each word's writer, or a newer
        // one.
        reading.words[cell] = shard.load(cell);
    }
    // After the words, and equal: so each word is judged by the floor it is dated by.
    points::header_behind_survey(shard, reading.header).floor() == reading.header.floor()
}

/// Where a new key should go while there seem to be enough vacant cells: `None` if there are not. No key that is
/// there is asked anything, and another install of the same key is not seen: the scan after the claim sees it.
#[inline(always)] // its one caller is out of line, and cold
pub(in crate::keyed) fn vacancy(key: &Key<'_>, ask: &Ask) -> Option<Choice> {
    let words = &key.words;
    let enough = scale::vacancies(ENOUGH_VACANT);
    // A model that does without this explores no loads for it.
    if enough == usize::MAX {
        return None;
    }
    // Hints only: nothing but the CAS of the claim relies on a cell being vacant.
    let mut offers = [Vacancy::default(); 2 * UNIT];
    let mut count = 0;
    for (shard, offer) in key.shards().zip(&mut offers) {
        *offer = Vacancy { shard, vacant: words.shard(shard).vacant() };
        count += 1;
    }
    let offers = &offers[..count];
    let vacant = |offer: &Vacancy| offer.vacant.count();
    // Too few for all threads that may bring this key at once: every word is looked at, and the
    // claim of another thread is seen.
    if offers.iter().map(vacant).sum::<usize>() < enough {
        return None;
    }
    // Ordered by cells that are held, as `choose` orders vacant cells.
    let choice = first_of(offers, |offer| cells().len() - vacant(offer), Vacancy::choice)?;
    match choice {
        Choice::Claim(Seen { shard, .. })
            // A header that is newer than the hint: a floor that has followed meanwhile needs no
            // second advance.
            if words.division.is_behind(words.shard(shard).header(), ask.now_ns) =>
        {
            Some(Choice::Follow(shard))
        }
        choice => Some(choice),
    }
}

/// What a shard offers a new key, as it was read; `None` if the key has a word there, or a quota has been changed.
///
/// With `follows` the shard is judged as a charge of the key would leave it: its floor has moved up to the request's
/// time, and the sweep has forgotten the key's own word, which was idle for too long.
pub(in crate::keyed) fn survey(
    words: &Words<'_>,
    reading: &Reading,
    tag: Tag,
    ask: &Ask,
    follows: bool,
) -> Option<Offer> {
    let Reading { shard: index, header, words: read } = *reading;
    // The floor that a charge of this key would leave, and the later one that now allows.
    let swept = if follows { words.last_swept(header, ask.now_ns) } else { None };
    // A late now allows nothing that the published floor does not.
    let goal = floor_at(ask.now_ns).max(header.floor());
    // A floor that follows ends an epoch above the last sweep, or at the goal if that comes first.
    let floor = swept.map_or(header.floor(), |last| goal.min(last + words.division.epoch));
    let floors_ns = [header.floor(), floor, goal].map(|floor| floor << GRANULE_BITS);
    // Computed once for the words of this shard: they are read by its floor, and judged by the
    // other two.
    let judge = match words.quotas {
        Quotas::One(layout) => {
            Judge::One(layout.idleness(floors_ns[0], [floors_ns[1], floors_ns[2]]))
        }
        Quotas::Several(book) => Judge::Several(book, floors_ns),
    };
    let is_swept = |word: TableWord| swept.is_some_and(|last| words.is_swept(header, word, last));
    // Nothing may be written at now while the floor that dates it lies more than an epoch below.
    let mut offer = Offer {
        shard: index,
        behind: ask.now_ns >> GRANULE_BITS > floor.saturating_add(words.division.epoch),
        ..Offer::NONE
    };
    for cell in cells() {
        let word = read[cell];
        let seen = Seen { shard: index, cell, word };
        match Kind::of(word) {
            Kind::Vacant => {
                offer.vacant = offer.vacant.or(Some(seen));
                continue;
            }
            // The sweep on the way to now would vacate it.
            Kind::Claim if follows => {
                offer.vacant = offer.vacant.or(Some(seen));
                continue;
            }
            // Another key's install, or an unfinished one of this key, which can be taken over.
            Kind::Claim => {
                offer.taken += 1;
                if words.division.is_claim_of(word, tag) {
                    offer.own_claim = offer.own_claim.or(Some(seen));
                }
            }
            // The sweep on the way to now would forget it.
            Kind::Live if is_swept(word) => {
                offer.vacant = offer.vacant.or(Some(seen));
                continue;
            }
            // The key's own word, not another key's: it was installed since the key was not found.
            Kind::Live if points::is_own(&words.division, word, tag) => {
                // Then the key is decided in its cell: the caller looks again.
                return None;
            }
            Kind::Live => match judge.outlook(word)? {
                // The first of them: one idle key has no better right to its cell than another.
                Outlook::Idle => offer.idle = offer.idle.or(Some(seen)),
                // Free only once the floor has advanced: judged by now alone, its key might still owe something.
                Outlook::IdleSoon => offer.idle_soon = true,
                Outlook::Busy => offer.taken += 1,
            },
        }
        // Neither vacant by now nor by a sweep on the way to it.
        offer.held += 1;
    }
    Some(offer)
}

/// What judges the words of a shard, by the floor that they are read by, the one that would be left, and the one to which
/// it may advance.
enum Judge<'a> {
    One(Idleness<'a, 2>),
    /// Each word says which arithmetic reads it.
    Several(&'a Book, [u64; 3]),
}

impl Judge<'_> {
    /// What a live word means for a newcomer. `None` if it is gone.
    #[inline(always)]
    fn outlook(&self, word: TableWord) -> Option<Outlook> {
        let idle = match self {
            Self::One(idleness) => idleness.of(word),
            Self::Several(book, floors_ns) => priced_idle(book, word, *floors_ns)?,
        };
        Some(match points::judged(idle) {
            [true, _] => Outlook::Idle,
            [false, true] => Outlook::IdleSoon,
            [false, false] => Outlook::Busy,
        })
    }
}

/// When the first cell of the key's shards can be taken over, if nothing else happens. A hint: what
/// changes meanwhile is not looked at again.
pub(in crate::keyed) fn first_free_ns(key: &Key<'_>, ask: &Ask) -> u64 {
    let words = &key.words;
    // Only live words: a claim ends in its own time, which is soon.
    // Each word is read by the floor that was loaded before it. One that was written under a newer
    // floor may be read wrongly, and the hint be wrong with it.
    let idle_ns = key.shards().flat_map(|index| {
        let shard = words.shard(index);
        let floor_ns = shard.header().floor_ns();
        let live = cells().map(|cell| shard.load(cell));
        live.filter(|&word| Kind::of(word) == Kind::Live)
            .map(move |word| words.idle_ns(word, floor_ns))
    });
    // Idle by then; free once a floor has been published that is as late.
    first_instant_of_floor(idle_ns.min().unwrap_or(ask.now_ns))
}

/// Where a new key should go, by the offers of its shards in their order: to an unfinished install of the same tag;
/// else to a vacant cell; else to the cell of a key that is idle.
///
/// It goes to its home unit, unless that is nearly full and the other is emptier: at home to its own shard
/// first, in the second unit to the emptier.
pub(in crate::keyed) fn choose(offers: &[Offer]) -> Option<Choice> {
    let claims = offers.iter().filter_map(|offer| offer.own_claim);
    // An unfinished install of the key: two claims of it would only vacate each other.
    // The lowest, since of two claims the lower goes on: see `install/open`.
    if let Some(claim) = claims.min_by_key(Seen::position) {
        return Some(Choice::Claim(claim));
    }
    let held = |offer: &Offer| offer.held;
    let taken = |offer: &Offer| offer.taken;
    // A vacant cell anywhere comes before an idle key's cell at home.
    first_of(offers, held, Offer::vacant).or_else(|| first_of(offers, taken, Offer::idle))
}

/// The first choice that one of the shards gives, in an order that follows from how `full` they are.
fn first_of<T>(
    offers: &[T],
    full: impl Fn(&T) -> usize,
    choice: impl Fn(&T) -> Option<Choice>,
) -> Option<Choice> {
    // The offers stand in the order of `shards_of`: the home unit first, and none behind it if the
    // key has only one.
    let (home, second) = offers.split_at(unit().min(offers.len()));
    let sum = |unit: &[T]| unit.iter().map(&full).sum::<usize>();
    let at_home = || home.iter().find_map(&choice);
    // The emptier of the two shards there comes first.
    let abroad = || {
        let is_swapped = second.len() == 2 && full(&second[1]) < full(&second[0]);
        // In a model a unit may be of one shard.
        let mut order = [second.first(), second.get(1)];
        if is_swapped {
            order.swap(0, 1);
        }
        order.into_iter().flatten().find_map(&choice)
    };
    // Nearly full at home: the emptier unit. Otherwise a key stays at home, where a search finds it first.
    if sum(home) >= NEARLY_FULL && sum(second) < sum(home) {
        abroad().or_else(at_home)
    } else {
        at_home().or_else(abroad)
    }
}

#[cfg(test)]
mod tests;
