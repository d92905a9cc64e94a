//! Chooses the cell for a new key, among those that its shards offer.
//!
//! A new key gets a vacant cell, as near to its home as possible. If none of its shards has a vacant cell, the new key
//! gets the cell of an idle key. So while there is room, a key that is idle for a while keeps its cell and is found
//! there when it comes back.

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

/// A new key goes to its home unit while fewer than this many of the unit's 14 cells are taken, or if its second unit
/// is at least as full. In a simulation with 4 million keys at the design load of 70 %, 4.6 % of the keys were in their
/// second unit, 2.7 % were in their home's sibling, and one key had no cell. With this number raised by one, 2.8 % were
/// in their second unit, but 202 keys had no cell.
const NEARLY_FULL: usize = if cfg!(loom) { UNIT * CELLS + 1 } else { UNIT * CELLS - 2 };

/// A new key takes a seemingly vacant cell without a survey only while its shards have at least this many vacant cells.
/// Several threads that install the same key at once may each hold a cell until their scans. They must not take the
/// last cells from other keys.
const ENOUGH_VACANT: usize = 4;

/// When a new key could take the cell of another key's live word: now, after an advance of the floor, or not yet.
enum Outlook {
    Idle,
    IdleSoon,
    Busy,
}

/// A word that was read, and its place.
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

/// A copy of a shard: its words, and the header that dates them.
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
    /// True if the floor must advance before a word can be written at the request's time.
    behind: bool,
    /// The number of cells that are not vacant, and that a sweep would not vacate first.
    held: usize,
    /// The number of cells that hold a claim, or a word that is not idle even at the highest floor that the request's
    /// time allows.
    taken: usize,
}

impl Offer {
    /// The initial value of an element in an array of offers.
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

    /// The vacant cell, or the advance that must come before its use.
    fn vacant(&self) -> Option<Choice> {
        self.vacant.map(|vacant| self.cell(vacant))
    }

    /// A cell whose key is idle, or the advance that would free such a cell.
    fn idle(&self) -> Option<Choice> {
        let soon = self.idle_soon.then_some(Choice::Advance(self.shard));
        // A word that is already idle is preferred to a word that is idle only after an advance.
        self.idle.map(|idle| self.cell(idle)).or(soon)
    }

    fn cell(&self, free: Seen) -> Choice {
        // If the floor is too far behind, it could not date a word that is written at the request's time.
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
        // The cell's word is not loaded. The cell is assumed to be vacant. If it is not, the CAS of the claim fails.
        let claim = |cell| Choice::Claim(Seen { shard: self.shard, cell, word: TableWord::VACANT });
        self.vacant.first().map(claim)
    }
}

/// The next step of a new key on its way to a cell.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) enum Choice {
    Claim(Seen),
    /// There is a cell, but the floor of this shard must first come near to the request's time.
    Follow(usize),
    /// There is no cell until the floor of this shard has advanced as far as the request's time allows.
    Advance(usize),
}

impl Reading {
    /// The initial value of an element in an array of readings.
    pub(in crate::keyed) const NONE: Self =
        Self { shard: 0, header: Header::first(0), words: [TableWord::VACANT; CELLS] };
}

/// Reads the words of a shard. Returns `false` if the floor has moved meanwhile.
#[inline(always)]
pub(in crate::keyed) fn read_all(shard: &Shard, index: usize, reading: &mut Reading) -> bool {
    // As in a decision, the header is read first, then the words, then the header again.
    (reading.shard, reading.header) = (index, shard.header());
    for cell in cells() {
        // Acquire: the header that is read afterwards has the floor of each word's writer, or a newer one.
        reading.words[cell] = shard.load(cell);
    }
    // If the floor after the words equals the floor before them, it dates each word.
    points::header_behind_survey(shard, reading.header).floor() == reading.header.floor()
}

/// Chooses a cell for a new key while there seem to be enough vacant ones; `None` if there are not. This does not look
/// at live words or claims, so an install of the same key by another thread is found only by the scan after the claim.
#[inline(always)] // its one caller is out of line, and cold
pub(in crate::keyed) fn vacancy(key: &Key<'_>, ask: &Ask) -> Option<Choice> {
    let words = &key.words;
    let enough = scale::vacancies(ENOUGH_VACANT);
    // A model can switch this path off, to save the exploration of its loads.
    if enough == usize::MAX {
        return None;
    }
    // These readings are hints. The CAS of the claim makes sure that the cell is vacant.
    let mut offers = [Vacancy::default(); 2 * UNIT];
    let mut count = 0;
    for (shard, offer) in key.shards().zip(&mut offers) {
        *offer = Vacancy { shard, vacant: words.shard(shard).vacant() };
        count += 1;
    }
    let offers = &offers[..count];
    let vacant = |offer: &Vacancy| offer.vacant.count();
    // If there are too few vacant cells, the caller looks at every word, and then also sees a claim of another thread
    // for this key.
    if offers.iter().map(vacant).sum::<usize>() < enough {
        return None;
    }
    // The shards are ordered by their number of cells that are not vacant, as in `choose`.
    let choice = first_of(offers, |offer| cells().len() - vacant(offer), Vacancy::choice)?;
    match choice {
        Choice::Claim(Seen { shard, .. })
            // The header is read after the hint, so a floor that another thread has just moved is not advanced again.
            if words.division.is_behind(words.shard(shard).header(), ask.now_ns) =>
        {
            Some(Choice::Follow(shard))
        }
        choice => Some(choice),
    }
}

/// Judges for a new key what a copied shard offers; `None` if the key has a word there, or if a word has been replaced
/// since it was copied.
///
/// If `follows` is true, the shard is judged as if its floor had followed the request's time, as it does for a charge.
/// The sweep would then have forgotten the key's own word, which has been idle for an epoch.
pub(in crate::keyed) fn survey(
    words: &Words<'_>,
    reading: &Reading,
    tag: Tag,
    ask: &Ask,
    follows: bool,
) -> Option<Offer> {
    let Reading { shard: index, header, words: read } = *reading;
    // Two floors are computed: the floor that a charge of this key would leave, and the highest floor that the
    // request's time allows.
    let swept = if follows { words.last_swept(header, ask.now_ns) } else { None };
    // If the request's time is too early to move the floor, the goal is the published floor.
    let goal = floor_at(ask.now_ns).max(header.floor());
    // A floor that follows the request's time ends an epoch above the floor of the last sweep, or at the goal if the
    // goal is lower.
    let floor = swept.map_or(header.floor(), |last| goal.min(last + words.division.epoch));
    let floors_ns = [header.floor(), floor, goal].map(|floor| floor << GRANULE_BITS);
    // The judge is made once for all words of the shard. Its first floor dates the words, and its other two floors
    // judge them.
    let judge = match words.quotas {
        Quotas::One(layout) => {
            Judge::One(layout.idleness(floors_ns[0], [floors_ns[1], floors_ns[2]]))
        }
        Quotas::Several(book) => Judge::Several(book, floors_ns),
    };
    let is_swept = |word: TableWord| swept.is_some_and(|last| words.is_swept(header, word, last));
    // No word may be written at the request's time while the floor lies more than an epoch below that time.
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
            // When the floor follows, a sweep vacates this claim.
            Kind::Claim if follows => {
                offer.vacant = offer.vacant.or(Some(seen));
                continue;
            }
            // The claim belongs to another key's install, or to an unfinished install of this key, which can be taken
            // over.
            Kind::Claim => {
                offer.taken += 1;
                if words.division.is_claim_of(word, tag) {
                    offer.own_claim = offer.own_claim.or(Some(seen));
                }
            }
            // When the floor follows, a sweep forgets this word.
            Kind::Live if is_swept(word) => {
                offer.vacant = offer.vacant.or(Some(seen));
                continue;
            }
            // This word is the key's own. Another thread has installed the key since the caller's search.
            Kind::Live if points::is_own(&words.division, word, tag) => {
                // Then the key is decided in its cell: the caller looks again.
                return None;
            }
            Kind::Live => match judge.outlook(word)? {
                // The first idle word will do, since all idle keys have the same right to their cells.
                Outlook::Idle => offer.idle = offer.idle.or(Some(seen)),
                // The cell is free only after the floor has advanced, since its key may still owe something at the
                // present floor.
                Outlook::IdleSoon => offer.idle_soon = true,
                Outlook::Busy => offer.taken += 1,
            },
        }
        // This cell is not vacant, and a sweep would not vacate it.
        offer.held += 1;
    }
    Some(offer)
}

/// Judges the words of a shard by three floors. The first floor dates the words. The other two are the floor that a
/// charge would leave, and the floor to which the shard may advance.
enum Judge<'a> {
    One(Idleness<'a, 2>),
    /// Each word carries the index of the quota by which it is judged.
    Several(&'a Book, [u64; 3]),
}

impl Judge<'_> {
    /// When a new key could take the cell of this live word; `None` if the word has been replaced.
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

/// The earliest instant at which a cell of the key's shards can be taken over if nothing changes. It is a hint, since
/// the shards may change while they are read.
pub(in crate::keyed) fn first_free_ns(key: &Key<'_>, ask: &Ask) -> u64 {
    let words = &key.words;
    // Only live words count: a claim ends soon by itself. Each word is read by a floor that was loaded before the word.
    // A word that was written under a newer floor may be misread, which makes the hint wrong.
    let idle_ns = key.shards().flat_map(|index| {
        let shard = words.shard(index);
        let floor_ns = shard.header().floor_ns();
        let live = cells().map(|cell| shard.load(cell));
        live.filter(|&word| Kind::of(word) == Kind::Live)
            .map(move |word| words.idle_ns(word, floor_ns))
    });
    // The earliest of these instants is when the first key becomes idle. Its cell is free as soon as a floor at or
    // above that instant is published.
    first_instant_of_floor(idle_ns.min().unwrap_or(ask.now_ns))
}

/// Chooses a cell for a new key among the offers of its shards: the cell of an unfinished install of the same tag, or
/// else a vacant cell, or else the cell of an idle key.
///
/// The key goes to its home unit, unless that unit is nearly full and the second unit is emptier. In the home unit the
/// home shard comes first, in the second unit the emptier shard.
pub(in crate::keyed) fn choose(offers: &[Offer]) -> Option<Choice> {
    let claims = offers.iter().filter_map(|offer| offer.own_claim);
    // An unfinished install of the key is taken over, since two claims of one key would only vacate each other. The
    // lowest claim is chosen, because the install with the lower claim goes on: see `install/open.rs`.
    if let Some(claim) = claims.min_by_key(Seen::position) {
        return Some(Choice::Claim(claim));
    }
    let held = |offer: &Offer| offer.held;
    let taken = |offer: &Offer| offer.taken;
    // A vacant cell anywhere comes before an idle key's cell at home.
    first_of(offers, held, Offer::vacant).or_else(|| first_of(offers, taken, Offer::idle))
}

/// Goes through the shards in an order that depends on how `full` they are, and returns the first `choice` that is not
/// `None`.
fn first_of<T>(
    offers: &[T],
    full: impl Fn(&T) -> usize,
    choice: impl Fn(&T) -> Option<Choice>,
) -> Option<Choice> {
    // The offers are in the order of `shards_of`: first those of the home unit, then those of the second unit if the
    // key has two units.
    let (home, second) = offers.split_at(unit().min(offers.len()));
    let sum = |unit: &[T]| unit.iter().map(&full).sum::<usize>();
    let at_home = || home.iter().find_map(&choice);
    // In the second unit the emptier of the two shards comes first.
    let abroad = || {
        let is_swapped = second.len() == 2 && full(&second[1]) < full(&second[0]);
        // In a model a unit may have only one shard.
        let mut order = [second.first(), second.get(1)];
        if is_swapped {
            order.swap(0, 1);
        }
        order.into_iter().flatten().find_map(&choice)
    };
    // If the home unit is nearly full, the key goes to the emptier unit. Otherwise it stays at home, where a search
    // finds it first.
    if sum(home) >= NEARLY_FULL && sum(second) < sum(home) {
        abroad().or_else(at_home)
    } else {
        at_home().or_else(abroad)
    }
}

#[cfg(test)]
mod tests;
