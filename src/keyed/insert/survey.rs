//! Chooses the cell that a new key is to get, among those that its shards offer.
//!
//! A new key gets a vacant cell, as near to its home as possible. Only if none of its shards has one does it get the
//! cell of a key that is idle. So keys that are idle now and then keep their cells while there is room, and are found
//! when they come back.

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

/// A key goes to its home unit while fewer cells than this are taken there, or if no fewer are taken in its second
/// unit. In a simulation with 4 million keys at the design load of 70 %, 4.6 % of the keys were in their second unit,
/// 2.7 % in their home's sibling, and one had no cell. With a bound of one cell more, 2.8 % were in the second unit,
/// but 202 had no cell.
const NEARLY_FULL: usize = if cfg!(loom) { UNIT * CELLS + 1 } else { UNIT * CELLS - 2 };

/// A new key takes a cell that seems vacant only while its shards have at least this many of them. Threads that bring
/// the same new key at once may each claim a cell until their scans. They must not take the last cells from other keys.
const ENOUGH_VACANT: usize = 4;

/// The prospect that a word of another key leaves to a newcomer.
enum Outlook {
    Idle,
    IdleSoon,
    Busy,
}

/// A word as it was read, and its place.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Seen {
    pub(in crate::keyed) shard: usize,
    pub(in crate::keyed) cell: usize,
    pub(in crate::keyed) word: TableWord,
}

impl Seen {
    /// The place of the cell in the order of all cells of the table, which is the same for all threads.
    pub(in crate::keyed) fn position(&self) -> (usize, usize) {
        (self.shard, self.cell)
    }
}

/// A shard as it was read. Its words stood there under this header.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Reading {
    pub(in crate::keyed) shard: usize,
    header: Header,
    words: [TableWord; CELLS],
}

/// The cells that one shard offers a new key.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Offer {
    shard: usize,
    /// A claim of the key's own tag.
    own_claim: Option<Seen>,
    vacant: Option<Seen>,
    /// A live word that is idle at the published floor.
    idle: Option<Seen>,
    /// True if some live word would be idle at a floor that the request's time allows.
    idle_soon: bool,
    /// True if the floor lies so far below the request's time that it has to advance before a word can be written.
    behind: bool,
    /// Cells that are not vacant.
    held: usize,
    /// Cells that hold claims, or words that are live at the floor that the request's time allows.
    taken: usize,
}

impl Offer {
    /// No offer: a place in an array that has not been filled yet.
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
        // A word that is already idle is preferred to a word that is idle only after an advance.
        self.idle.map(|idle| self.cell(idle)).or(soon)
    }

    fn cell(&self, free: Seen) -> Choice {
        // The floor is too far behind: a word that is written now could not be read back by it.
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
        // The cell is taken for one in which 0 was read. If another word stands there, the CAS of the claim fails.
        let claim = |cell| Choice::Claim(Seen { shard: self.shard, cell, word: TableWord::VACANT });
        self.vacant.first().map(claim)
    }
}

/// The next step of a new key on its way to a cell.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) enum Choice {
    Claim(Seen),
    /// There is a cell, but its shard's floor has to come near now first.
    Follow(usize),
    /// There is no cell until the floor of this shard has advanced as far as now allows.
    Advance(usize),
}

impl Reading {
    /// A place in an array that has not been filled yet.
    pub(in crate::keyed) const NONE: Self =
        Self { shard: 0, header: Header::first(0), words: [TableWord::VACANT; CELLS] };
}

/// Reads the words of a shard. Returns `false` if the floor has moved meanwhile.
#[inline(always)]
pub(in crate::keyed) fn read_all(shard: &Shard, index: usize, reading: &mut Reading) -> bool {
    // Header, words, header are read in this order, as for a decision.
    (reading.shard, reading.header) = (index, shard.header());
    for cell in cells() {
        // Acquire: the header that is read afterwards has the floor of each word's writer, or a newer one.
        reading.words[cell] = shard.load(cell);
    }
    // The header after the words equals the one before, so each word is judged by the floor that dates it.
    points::header_behind_survey(shard, reading.header).floor() == reading.header.floor()
}

/// Chooses a cell for a new key while there seem to be enough vacant ones; `None` if there are not. It looks at no live
/// word, and does not see another install of the same key: the scan after the claim sees it.
#[inline(always)] // its one caller is out of line, and cold
pub(in crate::keyed) fn vacancy(key: &Key<'_>, ask: &Ask) -> Option<Choice> {
    let words = &key.words;
    let enough = scale::vacancies(ENOUGH_VACANT);
    // A model that does without vacant cells explores no loads for them.
    if enough == usize::MAX {
        return None;
    }
    // These are hints: only the CAS of the claim relies on a cell being vacant.
    let mut offers = [Vacancy::default(); 2 * UNIT];
    let mut count = 0;
    for (shard, offer) in key.shards().zip(&mut offers) {
        *offer = Vacancy { shard, vacant: words.shard(shard).vacant() };
        count += 1;
    }
    let offers = &offers[..count];
    let vacant = |offer: &Vacancy| offer.vacant.count();
    // There are too few for all threads that may bring this key at once. So every word is looked at, which also shows
    // the claim of another thread.
    if offers.iter().map(vacant).sum::<usize>() < enough {
        return None;
    }
    // The shards are ordered by the cells that are held, as `choose` orders vacant cells.
    let choice = first_of(offers, |offer| cells().len() - vacant(offer), Vacancy::choice)?;
    match choice {
        Choice::Claim(Seen { shard, .. })
            // The header is newer than the hint: if a floor has followed meanwhile, it needs no second advance.
            if words.division.is_behind(words.shard(shard).header(), ask.now_ns) =>
        {
            Some(Choice::Follow(shard))
        }
        choice => Some(choice),
    }
}

/// Judges a shard as it was read for a new key; `None` if the key has a word there, or a quota has been changed.
///
/// With `follows` the shard is judged as a charge of the key would leave it. Then its floor has moved up to the
/// request's time, and the sweep has forgotten the key's own word, which was idle for too long.
pub(in crate::keyed) fn survey(
    words: &Words<'_>,
    reading: &Reading,
    tag: Tag,
    ask: &Ask,
    follows: bool,
) -> Option<Offer> {
    let Reading { shard: index, header, words: read } = *reading;
    // The floor that a charge of this key would leave, and the later one that the request's time allows.
    let swept = if follows { words.last_swept(header, ask.now_ns) } else { None };
    // A late request's time allows nothing that the published floor does not.
    let goal = floor_at(ask.now_ns).max(header.floor());
    // A floor that follows ends an epoch above the last sweep, or at the goal if that comes first.
    let floor = swept.map_or(header.floor(), |last| goal.min(last + words.division.epoch));
    let floors_ns = [header.floor(), floor, goal].map(|floor| floor << GRANULE_BITS);
    // This is worked out once for all words of the shard. They are read by its floor and judged by the other two.
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
            // A sweep would vacate the claim before the floor has come near.
            Kind::Claim if follows => {
                offer.vacant = offer.vacant.or(Some(seen));
                continue;
            }
            // This is another key's install, or an unfinished one of this key, which can be taken over.
            Kind::Claim => {
                offer.taken += 1;
                if words.division.is_claim_of(word, tag) {
                    offer.own_claim = offer.own_claim.or(Some(seen));
                }
            }
            // A sweep would forget the word before the floor has come near.
            Kind::Live if is_swept(word) => {
                offer.vacant = offer.vacant.or(Some(seen));
                continue;
            }
            // This is the key's own word: it was installed since the key was looked for.
            Kind::Live if points::is_own(&words.division, word, tag) => {
                // Then the key is decided in its cell: the caller looks again.
                return None;
            }
            Kind::Live => match judge.outlook(word)? {
                // The first idle one is taken, since no idle key has a better right to its cell than another.
                Outlook::Idle => offer.idle = offer.idle.or(Some(seen)),
                // The cell is free only once the floor has advanced: at the present floor its key may still owe
                // something.
                Outlook::IdleSoon => offer.idle_soon = true,
                Outlook::Busy => offer.taken += 1,
            },
        }
        // The cell is neither vacant now nor after a sweep.
        offer.held += 1;
    }
    Some(offer)
}

/// Judges the words of a shard by three floors: they are read by one, and judged by two others. These are the floor
/// that a charge would leave, and the floor to which the shard may advance.
enum Judge<'a> {
    One(Idleness<'a, 2>),
    /// Each word says which arithmetic reads it.
    Several(&'a Book, [u64; 3]),
}

impl Judge<'_> {
    /// The prospect that a live word leaves to a newcomer; `None` if the word is gone.
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

/// The instant at which the first cell of the key's shards can be taken over, if nothing else happens. It is a hint:
/// changes that come meanwhile are not looked at.
pub(in crate::keyed) fn first_free_ns(key: &Key<'_>, ask: &Ask) -> u64 {
    let words = &key.words;
    // Only live words count: a claim ends soon by itself. Each word is read by the floor that was loaded before it. A
    // word that was written under a newer floor may be read wrongly, and then the hint is wrong, too.
    let idle_ns = key.shards().flat_map(|index| {
        let shard = words.shard(index);
        let floor_ns = shard.header().floor_ns();
        let live = cells().map(|cell| shard.load(cell));
        live.filter(|&word| Kind::of(word) == Kind::Live)
            .map(move |word| words.idle_ns(word, floor_ns))
    });
    // The key is idle at that instant. Its cell is free as soon as a floor is published that is no earlier.
    first_instant_of_floor(idle_ns.min().unwrap_or(ask.now_ns))
}

/// Chooses for a new key, by the offers of its shards in their order: an unfinished install of the same tag, or else a
/// vacant cell, or else the cell of a key that is idle.
///
/// The key goes to its home unit, unless that is nearly full and the other one is emptier. At home its own shard comes
/// first; in the second unit the emptier shard does.
pub(in crate::keyed) fn choose(offers: &[Offer]) -> Option<Choice> {
    let claims = offers.iter().filter_map(|offer| offer.own_claim);
    // An unfinished install of the key is taken over, since two claims of it would only vacate each other. The lowest
    // claim is taken, because the lower one of two goes on: see `install/open`.
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
    // The offers stand in the order of `shards_of`: first those of the home unit, and no others if the key has only one
    // unit.
    let (home, second) = offers.split_at(unit().min(offers.len()));
    let sum = |unit: &[T]| unit.iter().map(&full).sum::<usize>();
    let at_home = || home.iter().find_map(&choice);
    // In the second unit the emptier of the two shards comes first.
    let abroad = || {
        let is_swapped = second.len() == 2 && full(&second[1]) < full(&second[0]);
        // In a model a unit may be of one shard.
        let mut order = [second.first(), second.get(1)];
        if is_swapped {
            order.swap(0, 1);
        }
        order.into_iter().flatten().find_map(&choice)
    };
    // If the home is nearly full, the key goes to the emptier unit. Otherwise it stays at home, where a search finds it
    // first.
    if sum(home) >= NEARLY_FULL && sum(second) < sum(home) {
        abroad().or_else(at_home)
    } else {
        at_home().or_else(abroad)
    }
}

#[cfg(test)]
mod tests;
