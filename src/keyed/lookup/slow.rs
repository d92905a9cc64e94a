//! The slow way to a key's word. It looks at every word of the key's shards, and it handles every verb, time, floor and
//! quota. If it does not find the key, an install decides the request.
//!
//! A request is decided, and a word is amended, by the quota in which the word is counted. In a table of several
//! quotas, the quota in force is used if the word's quota has been replaced. If callers bring their own quotas, the
//! rules of `slow/own.rs` apply.

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

/// A key's word as a request reads it: in the quota that decides the request, and as of the instant of the decision.
struct KeyWord<T> {
    found: FoundWord,
    terms: T,
    own: OwnBits,
    held: Held,
    at_ns: u64,
    /// The charges whose permits have become worthless: see `slow/own.rs`. Only amendments use this.
    void: Void,
}

impl<T: Terms> KeyWord<T> {
    /// Returns the plan. If the plan is a denial that must carry the word over to a faster quota, the state to write is
    /// added.
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

/// The quota by which a word is read, decided and written.
trait Terms {
    /// The quota in which the word is decided and written.
    fn layout(&self) -> &Layout;

    /// The word's own bits except the tag: the index of the quota, and the surplus.
    fn quota_bits(&self) -> OwnBits {
        OwnBits::default()
    }

    /// The instant at which the word's quota was replaced; 0 if that quota is in force.
    fn replaced_ns(&self) -> u64 {
        0
    }

    /// The instant at which a request with the time `asked_ns` is decided.
    #[inline(always)]
    fn instant_ns(&self, asked_ns: u64) -> u64 {
        asked_ns
    }

    /// The state of the word as of the instant of the decision or amendment.
    fn seen(&mut self, found: &FoundWord, at_ns: u64) -> Held;

    /// The state of the word as of its shard's floor. Every word can be read as of that instant.
    fn at_floor(&self, found: &FoundWord) -> Held;

    /// A live word whose own bits are `own`, and whose state at the instant `at_ns` is `held`.
    #[inline(always)]
    fn live(&self, own: OwnBits, held: Held, at_ns: u64) -> TableWord {
        let ruled = self.layout().ruled();
        self.layout().live(own, held, &ruled, ruled.moment(at_ns))
    }

    /// The arithmetic of plain GCRA, if that is the quota's policy.
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

    /// True if a charge was made under the quota whose index is in `own`, and the charge's permit is not among those
    /// that `void` makes worthless.
    fn is_of(&self, _own: OwnBits, _charge: &View, _void: Void) -> bool {
        true
    }
}

/// The one quota of a table, if it is plain GCRA. Code that is compiled for plain GCRA alone takes fewer instructions.
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
    /// The arithmetic of the quota if it is GCRA without rules, for code that is compiled for plain GCRA alone.
    #[inline(always)]
    pub(in crate::keyed) fn plain_gcra(&self) -> Option<&Gcra> {
        match &self.kernel {
            Kernel::Gcra(gcra) if self.rules.are_none() => Some(gcra),
            _ => None,
        }
    }

    /// The state of a live word of this quota as of `at_ns`. `algorithm` must be the algorithm of this layout.
    #[inline(always)]
    pub(super) fn seen_by(&self, algorithm: &impl Decides, found: &FoundWord, at_ns: u64) -> Held {
        // If `at_ns` is near to the floor, the low bits can be read relative to `at_ns`. Otherwise the word is read as
        // of the floor, and its state is then converted to `at_ns`.
        if dates(found.header, Near::to(at_ns, self.division.epoch)) {
            return self.unpack(found.word, algorithm, algorithm.moment(at_ns));
        }
        seen_afar(self, found, at_ns)
    }
}

/// The one quota of a table, with any policy.
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

/// One of several quotas: the quota that the word names or, if that quota has been replaced, the quota in force.
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
        // The word was read as of the floor. Its state is converted to `at_ns`, which may be earlier or later than the
        // floor.
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

/// How the words of a table are read: by the table's one quota, or by one of several.
trait Pricing<'t>: Copy {
    type Terms: Terms;

    /// The quota by which a word is decided; `None` if the word has been replaced meanwhile.
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
        // A word cannot hold a longer debt, so nothing is charged further ahead.
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
        // The word has these bits if no thread has changed it since the charge, or if later changes have restored them.
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
    /// Writes the word in the ticks of the quota that decided. This re-bases a word of a replaced quota. The CAS
    /// expects the exact word. If it succeeds, the word was read by the numbers of its own quota: see the head of
    /// `lookup/price.rs`.
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

/// A search for the word of a key in a shard where it has been found once.
struct Search {
    index: usize,
    tag: Tag,
    /// The word that was found, for the first turn of the loop. Later turns look for the word again.
    found: Cell<Option<FoundWord>>,
}

impl<'t> Words<'t> {
    /// Looks for a key in one shard. Most shards do not have the key, so a decision is prepared only after a search has
    /// found it.
    #[inline(always)]
    fn search(&self, index: usize, tag: Tag) -> Option<Search> {
        let found = Cell::new(Some(self.find_dated(index, tag)?));
        Some(Search { index, tag, found })
    }

    /// Reads the word of a key in one shard. The closure `at` gets the word and its quota, and returns the instant as
    /// of which the word should be read. Instead it may name an advance of the floor that must come first, or refuse to
    /// use this word.
    #[inline(always)]
    fn read_word<P: Pricing<'t>>(
        &self,
        pricing: P,
        search: &Search,
        at: impl Fn(&FoundWord, &P::Terms) -> Reach,
    ) -> Option<KeyWord<P::Terms>> {
        // Lock-free: each repetition means that another thread has replaced the word, or that the floor was advanced.
        // If the floor is still too far away after the advance, other threads have changed the shard in each round of
        // the advance.
        loop {
            let found =
                search.found.take().or_else(|| self.find_dated(search.index, search.tag))?;
            // `None` means that another thread has replaced the word, and the numbers may be those of another quota.
            let Some(mut terms) = pricing.terms(self, &found) else { continue };
            match at(&found, &terms) {
                Reach::At(at_ns) => {
                    // `seen` must be called first, because it may choose another quota in which the word is written.
                    let held = terms.seen(&found, at_ns);
                    let own = terms.quota_bits().and(search.tag.into());
                    return Some(KeyWord { found, terms, own, held, at_ns, void: Void::NONE });
                }
                Reach::Leave => return None,
                // Moving the floor may forget the word, so the next turn looks for the word again.
                Reach::Follow(goal_ns) => self.follow(search.index, goal_ns),
                Reach::Advance(goal_ns) => self.advance(search.index, goal_ns),
            }
        }
    }

    /// Decides in the key's cell if this shard has the key, whatever the algorithm and the time. If a charge would
    /// first forget the key, a request that does not charge is not decided here: see [`Key::forgotten_in`].
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
                // The caller has pinned the place of the quota, so its numbers do not change.
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
        // The decision is made at the request's time, unless the word is carried over.
        let decided_ns = Cell::new(asked.now_ns);
        let at = |found: &FoundWord, terms: &P::Terms| {
            let layout = terms.layout();
            let at_ns = terms.instant_ns(asked.now_ns);
            decided_ns.set(at_ns);
            let ask = Ask { now_ns: at_ns, ..asked };
            // A cost that never fits changes nothing, so the floor need not follow first.
            if layout.wish(ask).is_never(&layout.kernel) {
                return Reach::At(at_ns);
            }
            // A charge writes a word as of the request's time, and re-bases it as of the change. Neither instant may
            // lie more than an epoch above the floor, since the word could then not be read back.
            let goal_ns = terms.replaced_ns().max(at_ns);
            if ask.charge && self.division.is_behind(found.header, goal_ns) {
                return Reach::Follow(goal_ns);
            }
            // A request that does not charge does not move the floor, but must get the answer that a charge would get.
            if !ask.charge && self.is_forgotten_first(found, ask) {
                return Reach::Leave;
            }
            Reach::At(at_ns)
        };
        let read = || self.read_word(pricing, search, at);
        let decided = decide(self, asked.verb, asked.cost, asked.charge, read);
        // The request takes this time even if its key has been forgotten meanwhile, since an install then decides it at
        // this instant.
        fresh.ask.now_ns = decided_ns.get();
        let (read, outcome) = decided?;
        Some(fresh.told(outcome, read.terms.layout()))
    }

    /// Amends the key's word if it is in this shard, and returns the number of units given back.
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
                // `void` must be called after the word has been read.
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
            // If the change is too far above the floor, a word that is written as of the change could not be read back.
            if self.division.is_behind(found.header, replaced_ns) {
                return Reach::Advance(replaced_ns);
            }
            // The clock is read only now, after the word: see `slot::amend`.
            told_ns.set(now().as_nanos());
            // At every instant in this range, the word can be read directly, and a word written as of that instant can
            // be read back.
            let (floor_ns, latest_ns) =
                (found.header.floor_ns(), layout.division.latest_ns(found.header.floor()));
            Reach::At(told_ns.get().clamp(floor_ns, latest_ns.max(floor_ns)))
        };
        amend(self, amendment, || {
            let read = self.read_word(pricing, search, at)?;
            Some((KeyWord { void: void(), ..read }, told_ns.get()))
        })
    }

    /// True if a charge would first forget the key: see [`Key::forgotten_in`].
    fn is_forgotten_first(&self, found: &FoundWord, ask: Ask) -> bool {
        !found.header.is_near(ask.now_ns, self.division.epoch)
            && self.is_forgotten(found.header, found.word, ask.now_ns)
    }
}

/// Whether a request can be decided, or a word amended, now.
#[derive(Clone, Copy)]
enum Reach {
    /// The word can be used at once, as of this instant.
    At(u64),
    /// The floor of the word's shard must first follow until it is near to this instant.
    Follow(u64),
    /// The floor of the word's shard must first advance as far as this instant allows.
    Advance(u64),
    /// The request must not be decided in this word, because a charge would forget the key first.
    Leave,
}

/// The state of a live word of one quota as of `now_ns`, which is not near to the floor. The word is read as of the
/// floor, and its state is then converted to `now_ns`. If `now_ns` is below the floor, a charge can still be written: a
/// charge writes no earlier time than the word had, so the new word can be read back. If `now_ns` is far above the
/// floor, nothing may be written until the floor has followed.
#[cold]
#[inline(never)]
fn seen_afar(layout: &Layout, found: &FoundWord, now_ns: u64) -> Held {
    let (kernel, floor_ns): (&Kernel, _) = (&layout.kernel, found.header.floor_ns());
    let held = layout.unpack(found.word, kernel, kernel.moment(floor_ns));
    // The request's time is before the floor.
    if now_ns < floor_ns {
        held.seen_earlier(kernel.passed(now_ns, floor_ns))
    } else {
        // The request does not charge, or its cost never fits. Nothing is written, so the floor has not been moved.
        held.seen_later(kernel.passed(floor_ns, now_ns))
    }
}

impl Key<'_> {
    /// Decides in the key's cell, if one of its shards has the key.
    #[inline(always)] // its callers are out of line
    pub(in crate::keyed) fn look(&self, fresh: &mut Fresh<'_>) -> Option<Decision> {
        // The home comes first, since nearly all keys are there. A key that moves between its shards during the search
        // may be missed in all of them. Then the scan after an install's claim finds the key.
        self.shards().find_map(|index| self.words.hit_slowly(self, index, fresh))
    }

    /// The shard that has the key, if a charge would first let the floor of this shard follow and thereby forget the
    /// key.
    pub(in crate::keyed) fn forgotten_in(&self, ask: &Ask) -> Option<usize> {
        self.shards().find(|&index| {
            let shard = self.words.shard(index);
            // `find` finds only live words, and no claims of the key.
            let Some((cell, word)) = self.words.find(shard, self.tag()) else { return false };
            // The header is read after the word. If a floor moves meanwhile, the caller looks again.
            let header = shard.header();
            // A charge lets the floor follow only if the charge's time is later than the floor and not near to it.
            ask.now_ns > header.floor_ns()
                && self.words.is_forgotten_first(&FoundWord { index, cell, word, header }, *ask)
        })
    }
}
