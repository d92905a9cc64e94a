//! The slow way to a word that is there. It looks at every word of a key's shards, and it takes every verb, time, floor
//! and quota. A key that it does not find is left to an install.
//!
//! A word is decided on, and amended, by the quota that it is counted in. In a table of several quotas, a quota that
//! has been replaced gives way to the quota in force.

mod own;

use crate::hash::Tag;
use std::cell::Cell;

use crate::algorithm::{Decides, Gcra, Held, Kernel, Ruled};
use crate::clock::Timestamp;
use crate::decision::{Decision, Outcome, View};
use crate::refund::Amendment;
use crate::slot::{Reading, Slot, amend, decide, plan_by};
use crate::verb::Wish;
use crate::verdict::Verdict;

use super::price::Priced;
use crate::keyed::memory::ask::{Ask, Fresh};
use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{Near, OwnBits, TableWord, dates};
use crate::keyed::quotas::book::own::Void;
use crate::keyed::quotas::book::{Book, Quotas};
use crate::keyed::table::words::{FoundWord, Key, Words};
use own::Brought;

/// A key's word as a request reads it: by the quota in force, seen from the instant of the request.
struct KeyWord<T> {
    found: FoundWord,
    terms: T,
    own: OwnBits,
    held: Held,
    at_ns: u64,
    /// For an amendment: the charges whose permits are worth nothing any more. See `slow/own.rs`.
    void: Void,
}

impl<T: Terms> KeyWord<T> {
    /// The plan, with the carried word to write if this denial writes it.
    #[inline(always)]
    fn with_rebase(
        &self,
        wish: Wish,
        (outcome, next): (Outcome, Option<Held>),
    ) -> (Outcome, Option<Held>) {
        let rebases = self.terms.rebases()
            && outcome.verdict == Verdict::Denied
            && wish.charge
            && !wish.is_never(&self.terms.layout().kernel)
            && !self.held.is_cut();
        (outcome, if rebases { Some(self.held) } else { next })
    }
}

/// The quota that a word is counted in, for the code that reads and writes it.
trait Terms {
    /// The quota that the word is decided and written in.
    fn layout(&self) -> &Layout;

    /// The word's own bits beside the tag: the index of that quota, and the surplus.
    fn quota_bits(&self) -> OwnBits {
        OwnBits::default()
    }

    /// The instant at which the quota that the word is counted in was replaced; 0 if that quota is in force.
    fn replaced_ns(&self) -> u64 {
        0
    }

    /// The instant at which a request of this time is decided.
    #[inline(always)]
    fn instant_ns(&self, asked_ns: u64) -> u64 {
        asked_ns
    }

    /// The state of the word, seen from an instant at which it is about to be decided or amended.
    fn seen(&mut self, found: &FoundWord, at_ns: u64) -> Held;

    /// The state of the word, seen from its shard's floor, where every word can be read.
    fn at_floor(&self, found: &FoundWord) -> Held;

    /// The word with these bits of its own and this state, at an instant.
    #[inline(always)]
    fn live(&self, own: OwnBits, held: Held, at_ns: u64) -> TableWord {
        let ruled = self.layout().ruled();
        self.layout().live(own, held, &ruled, ruled.moment(at_ns))
    }

    /// Plain GCRA's arithmetic, if the quota is that.
    #[inline(always)]
    fn gcra(&self) -> Option<&Gcra> {
        None
    }

    /// True if a denial also writes the word: see `slow/own.rs`.
    #[inline(always)]
    fn rebases(&self) -> bool {
        false
    }

    /// Called before each write of the word.
    #[inline(always)]
    fn before_write(&self) {}

    /// True if a charge was made under the quota of a word with these bits.
    fn is_of(&self, _own: OwnBits, _charge: &View, _void: Void) -> bool {
        true
    }
}

/// The one quota of a table, if it is plain GCRA. Code that is compiled for plain GCRA alone takes half the
/// instructions.
#[derive(Clone, Copy)]
struct PlainQuota<'t> {
    layout: &'t Layout,
    gcra: &'t Gcra,
}

impl Terms for PlainQuota<'_> {
    #[inline(always)]
    fn layout(&self) -> &Layout {
        self.layout
    }

    #[inline(always)]
    fn seen(&mut self, found: &FoundWord, at_ns: u64) -> Held {
        self.layout.seen_by(self.gcra, found, at_ns)
    }

    fn at_floor(&self, found: &FoundWord) -> Held {
        self.layout.at_floor(found)
    }

    #[inline(always)]
    fn gcra(&self) -> Option<&Gcra> {
        Some(self.gcra)
    }

    #[inline(always)]
    fn live(&self, own: OwnBits, held: Held, at_ns: u64) -> TableWord {
        self.layout.live(own, held, self.gcra, self.gcra.moment(at_ns))
    }
}

impl Layout {
    /// The arithmetic of a quota that is GCRA without rules, for the code that is compiled for that alone.
    #[inline(always)]
    pub(in crate::keyed) fn plain_gcra(&self) -> Option<&Gcra> {
        match &self.kernel {
            Kernel::Gcra(gcra) if self.rules.are_none() => Some(gcra),
            _ => None,
        }
    }

    /// The state of a live word of this quota, seen from an instant. `algorithm` must be that of this layout.
    #[inline(always)]
    pub(super) fn seen_by(&self, algorithm: &impl Decides, found: &FoundWord, at_ns: u64) -> Held {
        // Near the floor the low bits name one instant, counted from now. Otherwise they are read at the floor, and the
        // state is carried over to now.
        if dates(found.header, Near::to(at_ns, self.division.epoch)) {
            return self.unpack(found.word, algorithm, algorithm.moment(at_ns));
        }
        seen_afar(self, found, at_ns)
    }
}

/// The one quota of a table, whichever it is.
impl Terms for &Layout {
    #[inline(always)]
    fn layout(&self) -> &Layout {
        self
    }

    #[inline(always)]
    fn seen(&mut self, found: &FoundWord, at_ns: u64) -> Held {
        self.seen_by(&self.ruled(), found, at_ns)
    }

    fn at_floor(&self, found: &FoundWord) -> Held {
        let ruled = self.ruled();
        self.unpack(found.word, &ruled, ruled.moment(found.header.floor_ns()))
    }
}

/// One of several quotas: the quota that the word names or, if that has been replaced, the quota in force.
impl Terms for (&Book, Priced) {
    fn layout(&self) -> &Layout {
        &self.1.lane.layout
    }

    fn quota_bits(&self) -> OwnBits {
        self.1.lane.own
    }

    fn replaced_ns(&self) -> u64 {
        self.1.replaced_ns.unwrap_or(0)
    }

    fn seen(&mut self, found: &FoundWord, at_ns: u64) -> Held {
        // The word was read at the floor. Its state is carried from there to now, which may be earlier or later.
        self.1.seen_from(found.header.floor_ns(), at_ns).held
    }

    fn at_floor(&self, _: &FoundWord) -> Held {
        self.1.held
    }

    fn gcra(&self) -> Option<&Gcra> {
        self.layout().plain_gcra()
    }

    fn is_of(&self, own: OwnBits, charge: &View, void: Void) -> bool {
        self.0.is_of(own, charge, void)
    }
}

/// How the words of a table are read: by their one quota, or by one of several.
trait Pricing<'t>: Copy {
    type Terms: Terms;

    /// The quota that a word is counted in; `None` if the word has been replaced meanwhile.
    fn terms(self, words: &Words<'t>, found: &FoundWord) -> Option<Self::Terms>;
}

impl<'t> Pricing<'t> for &'t Layout {
    type Terms = Self;

    #[inline(always)]
    fn terms(self, _: &Words<'t>, _: &FoundWord) -> Option<Self> {
        Some(self)
    }
}

impl<'t> Pricing<'t> for PlainQuota<'t> {
    type Terms = Self;

    #[inline(always)]
    fn terms(self, _: &Words<'t>, _: &FoundWord) -> Option<Self> {
        Some(self)
    }
}

impl<'t> Pricing<'t> for &'t Book {
    type Terms = (Self, Priced);

    fn terms(self, words: &Words<'t>, found: &FoundWord) -> Option<(Self, Priced)> {
        Some((self, words.priced(self, found)?))
    }
}

impl<T: Terms> Reading for KeyWord<T> {
    fn ruled(&self) -> Ruled<'_> {
        self.terms.layout().ruled()
    }

    fn seen(&self) -> (Held, u64) {
        (self.held, self.at_ns)
    }

    fn most(&self) -> u64 {
        // A word can hold no longer debt, so nothing is charged further ahead.
        self.terms.layout().ahead
    }

    #[inline(always)]
    fn plan(&self, wish: Wish) -> (Outcome, Option<Held>) {
        match self.terms.gcra() {
            Some(gcra) => self.with_rebase(wish, plan_by(gcra, wish, self.seen())),
            None => plan_by(&self.ruled(), wish, self.seen()),
        }
    }

    #[cold]
    #[inline(never)]
    fn nearby(&self) -> (Held, u64) {
        let held = self.terms.at_floor(&self.found);
        self.terms.layout().kernel.seen_nearby(held, self.found.header.floor_ns())
    }

    fn is_left(&self, charge: &View) -> bool {
        // The word has these bits if no other thread has changed it since the charge.
        let left = self.terms.live(self.own, self.ruled().left(charge), charge.at_ns);
        points::is_as_left(self.found.word == left)
    }

    fn is_of(&self, charge: &View) -> bool {
        self.terms.is_of(self.own, charge, self.void)
    }

    fn has_surplus(&self) -> bool {
        self.terms.layout().surplus_of(self.own) != OwnBits::default()
    }
}

impl<T: Terms> Slot<KeyWord<T>> for Words<'_> {
    /// Writes the word in the quota in force, which re-bases a word of a replaced quota. The CAS is from the exact
    /// word, so the numbers by which the word was read were those of its quota: see the head of `price`.
    fn write(&self, read: &KeyWord<T>, next: Held) -> bool {
        self.put(read, read.own, next)
    }

    fn clear(&self, read: &KeyWord<T>) -> bool {
        let surplus = read.terms.layout().surplus_of(read.own);
        self.put(read, read.own.without(surplus), Held::IDLE)
    }
}

impl Words<'_> {
    fn put<T: Terms>(&self, read: &KeyWord<T>, own: OwnBits, held: Held) -> bool {
        read.terms.before_write();
        let FoundWord { index, cell, word, .. } = read.found;
        self.shard(index).charge(cell, word, read.terms.live(own, held, read.at_ns))
    }
}

/// A key's word in one shard, which has been found there once.
struct Search {
    index: usize,
    tag: Tag,
    /// The word as it was found, for the first turn. Every later turn looks for it again.
    found: Cell<Option<FoundWord>>,
}

impl<'t> Words<'t> {
    /// Finds a key in one shard. Most shards that are looked at do not have it, so a decision is set up only after
    /// this.
    #[inline(always)]
    fn search(&self, index: usize, tag: Tag) -> Option<Search> {
        let found = Cell::new(Some(self.find_dated(index, tag)?));
        Some(Search { index, tag, found })
    }

    /// Reads the word of a key in one shard. `at` is given the word and its quota. It returns the instant from which
    /// the word is to be seen, or the reason why it cannot be read yet or at all.
    #[inline(always)]
    fn read_word<P: Pricing<'t>>(
        &self,
        pricing: P,
        search: &Search,
        at: impl Fn(&FoundWord, &P::Terms) -> Reach,
    ) -> Option<KeyWord<P::Terms>> {
        // Lock-free: a turn that does not return has brought the floor near to the instant that is to be written. If
        // the next turn finds it far off again, other threads have changed the shard in each round of that advance.
        loop {
            let found =
                search.found.take().or_else(|| self.find_dated(search.index, search.tag))?;
            // Another thread has replaced the word, and its numbers may be another quota's.
            let Some(mut terms) = pricing.terms(self, &found) else { continue };
            match at(&found, &terms) {
                Reach::At(at_ns) => {
                    // This comes first, since it decides in which quota the word is written.
                    let held = terms.seen(&found, at_ns);
                    let own = terms.quota_bits().and(search.tag.into());
                    return Some(KeyWord { found, terms, own, held, at_ns, void: Void::NONE });
                }
                Reach::Leave => return None,
                // The floor comes near; the next turn may find the word, or find it forgotten.
                Reach::Follow(goal_ns) => self.follow(search.index, goal_ns),
                Reach::Advance(goal_ns) => self.advance(search.index, goal_ns),
            }
        }
    }

    /// Decides in the key's cell, if this shard holds it, whatever the algorithm and the time. A question
    /// about a key that a charge would forget first is not decided here: see [`Key::forgotten_in`].
    #[inline(always)]
    pub(in crate::keyed) fn hit_slowly(
        &self,
        key: &Key<'_>,
        index: usize,
        fresh: &mut Fresh<'_>,
    ) -> Option<Decision> {
        let search = &self.search(index, key.tag())?;
        match self.quotas {
            Quotas::One(layout) => match layout.plain_gcra() {
                Some(gcra) => self.hit_by(PlainQuota { layout, gcra }, search, fresh),
                None => self.hit_by(layout, search, fresh),
            },
            Quotas::Several(book) if book.takes_own() => {
                // The place of the quota is pinned, so its numbers do not change.
                let (ask, lane) = (fresh.ask, &book.in_force(fresh.ask.quota.number.into()));
                let (clock, group) = (fresh.behind_word, key.group());
                self.hit_by(Brought { book, ask, lane, clock, group }, search, fresh)
            }
            Quotas::Several(book) => self.hit_by(book, search, fresh),
        }
    }

    #[inline(never)]
    fn hit_by<P: Pricing<'t>>(
        &self,
        pricing: P,
        search: &Search,
        fresh: &mut Fresh<'_>,
    ) -> Option<Decision> {
        let asked = fresh.ask;
        // This is the time of the request, unless the word is carried over.
        let decided_ns = Cell::new(asked.now_ns);
        let at = |found: &FoundWord, terms: &P::Terms| {
            let layout = terms.layout();
            let at_ns = terms.instant_ns(asked.now_ns);
            decided_ns.set(at_ns);
            let ask = Ask { now_ns: at_ns, ..asked };
            // A cost that never fits waits for no floor, and changes nothing.
            if layout.wish(ask).is_never(&layout.kernel) {
                return Reach::At(at_ns);
            }
            // Nothing may be written so far above the floor that it could not be read back: neither at the instant of
            // the change nor at now.
            let goal_ns = terms.replaced_ns().max(at_ns);
            if ask.charge && self.division.is_behind(found.header, goal_ns) {
                return Reach::Follow(goal_ns);
            }
            // A question waits for no floor, but its answer must be the one that a charge would get.
            if !ask.charge && self.is_forgotten_first(found, ask) {
                return Reach::Leave;
            }
            Reach::At(at_ns)
        };
        let read = || self.read_word(pricing, search, at);
        let decided = decide(self, asked.verb, asked.cost, asked.charge, read);
        // This is also done if the key has been forgotten meanwhile: then it comes back at this time.
        fresh.ask.now_ns = decided_ns.get();
        let (read, outcome) = decided?;
        Some(fresh.told(outcome, read.terms.layout()))
    }

    /// Amends the key's word, if this shard holds it, and returns how many units that gave back.
    pub(in crate::keyed) fn amend_in(
        &self,
        key: &Key<'_>,
        index: usize,
        now: &impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> Option<u64> {
        let search = &self.search(index, key.tag())?;
        match self.quotas {
            Quotas::One(layout) => match layout.plain_gcra() {
                Some(gcra) => {
                    self.amend_by(PlainQuota { layout, gcra }, search, now, amendment, || {
                        Void::NONE
                    })
                }
                None => self.amend_by(layout, search, now, amendment, || Void::NONE),
            },
            Quotas::Several(book) => {
                // `void` is read after the word.
                let void = || book.void_of(key.group());
                self.amend_by(book, search, now, amendment, void)
            }
        }
    }

    fn amend_by<P: Pricing<'t>>(
        &self,
        pricing: P,
        search: &Search,
        now: &impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
        void: impl Fn() -> Void,
    ) -> Option<u64> {
        let told_ns = Cell::new(0);
        let at = |found: &FoundWord, terms: &P::Terms| {
            let (layout, replaced_ns) = (terms.layout(), terms.replaced_ns());
            // The change lies out of the floor's reach: a word that is written at its instant could not be read back.
            if self.division.is_behind(found.header, replaced_ns) {
                return Reach::Advance(replaced_ns);
            }
            // The time is read only now, after the word: see `slot::amend`.
            told_ns.set(now().as_nanos());
            // Within this range the word can be read directly, and a word that is written can be read back.
            let (floor_ns, latest_ns) =
                (found.header.floor_ns(), layout.division.latest_ns(found.header.floor()));
            Reach::At(told_ns.get().clamp(floor_ns, latest_ns.max(floor_ns)))
        };
        amend(self, amendment, || {
            let read = self.read_word(pricing, search, at)?;
            Some((KeyWord { void: void(), ..read }, told_ns.get()))
        })
    }

    /// True if a charge would first forget the key that is asked for: see [`Key::forgotten_in`].
    fn is_forgotten_first(&self, found: &FoundWord, ask: Ask) -> bool {
        !found.header.is_near(ask.now_ns, self.division.epoch)
            && self.is_forgotten(found.header, found.word, ask.now_ns)
    }
}

/// When a word can be read for a request.
#[derive(Clone, Copy)]
enum Reach {
    /// The word can be read at once, seen from this instant.
    At(u64),
    /// The word can be read when the floor of its shard has come near to this instant.
    Follow(u64),
    /// The word can be read when the floor of its shard has advanced as far as it may at this instant.
    Advance(u64),
    /// The word cannot be read: the request is not decided in it.
    Leave,
}

/// The state of a live word of one quota, seen from an instant far below the floor or far above it. It is read at the
/// floor and then carried over. A late charge writes no earlier time than it found, so its word can be read back. Far
/// above the floor nothing may be written before the floor has followed.
#[cold]
#[inline(never)]
fn seen_afar(layout: &Layout, found: &FoundWord, now_ns: u64) -> Held {
    let (kernel, floor_ns): (&Kernel, _) = (&layout.kernel, found.header.floor_ns());
    let held = layout.unpack(found.word, kernel, kernel.moment(floor_ns));
    // The request is late by more than an epoch.
    if now_ns < floor_ns {
        held.seen_earlier(kernel.passed(now_ns, floor_ns))
    } else {
        // This is a question, or a cost that never fits. Neither waits for a floor, because nothing is written at this
        // instant.
        held.seen_later(kernel.passed(floor_ns, now_ns))
    }
}

impl Key<'_> {
    /// Decides in the key's cell, if one of its shards holds it.
    #[inline(always)] // its callers are out of line
    pub(in crate::keyed) fn look(&self, fresh: &mut Fresh<'_>) -> Option<Decision> {
        // The home comes first, since nearly all keys are there. A key that moves while its shards are looked at may be
        // missed in all of them: then the scan after an install's claim finds it.
        self.shards().find_map(|index| self.words.hit_slowly(self, index, fresh))
    }

    /// The shard of a key that is there, but that a charge would forget before it charges it.
    pub(in crate::keyed) fn forgotten_in(&self, ask: &Ask) -> Option<usize> {
        self.shards().find(|&index| {
            let shard = self.words.shard(index);
            // The key is not in this shard. (A claim of the key is not yet a live word, and is not found.)
            let Some((cell, word)) = self.words.find(shard, self.tag()) else { return false };
            // The header is read after the word. If a floor moves meanwhile, the caller looks again.
            let header = shard.header();
            // A charge lets the floor follow only if its time is later than the floor and not near to it.
            ask.now_ns > header.floor_ns()
                && self.words.is_forgotten_first(&FoundWord { index, cell, word, header }, *ask)
        })
    }
}
