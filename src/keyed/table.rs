//! [`Table`]: the shards, and the path of a decision whose key is there.

use crate::algorithm::{Decides, Held, Kernel, Ruled};
use crate::clock::Clock;
use crate::decision::{Decision, View};
use crate::error::BuildError;
use crate::sync::{Fault, planted};
use crate::verb::{Verb, Verbs, Wish};
use crate::verdict::{Mark, Verdict};

use super::book::Book;
use super::hash::Identity;
use super::hint::hint;
use super::hit::{Missed, Way, priced_decision};
use super::layout::Layout;
use super::memory::Memory;
use super::prefetch::prefetch;
use super::shard::GRANULE_BITS;
use super::shard::{CELLS, Header, Shard, cells};
use super::spill::Spill;
use super::tally::Tallies;
use super::unit::{all_shards_of, shards_of, unit};

/// The share of cells that hold live keys when the table holds its capacity. Simulated with 4 million keys in units of
/// two lines of seven cells: at 65 % none is homeless, at 70 % one, at 72 % five, at 75 % thirty.
const DESIGN_LOAD: (usize, usize) = (70, 100);

/// One request.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    pub(super) now_ns: u64,
    pub(super) cost: u64,
    /// Whether the cost is charged if it is admitted: not for a peek, nor for a cost of 0. A request that does not
    /// charge changes nothing, not even a floor; nor does one that asks for more than ever fits.
    pub(super) charge: bool,
    pub(super) verb: Verb,
    /// Whose quota a new key gets, in a table of several.
    pub(super) tier: u8,
}

/// A request whose key was not found.
pub(super) struct Fresh<'a> {
    pub(super) ask: Ask,
    /// The clock that `now_ns` was read from, to be read once more should the floor be ahead of it.
    pub(super) clock: Option<&'a Clock>,
    /// The arithmetic that decided, if it is not the table's own: that of one of several quotas, or what the
    /// spill answers ([`Kernel::Log`]).
    pub(super) kernel: Option<Kernel>,
}

impl<'a> Fresh<'a> {
    pub(super) fn new(ask: Ask, clock: Option<&'a Clock>) -> Self {
        Self { ask, clock, kernel: None }
    }
}

/// How a request went: what its word holds, seen from `at_ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(super) verdict: Verdict,
    /// What it held before: for a caller that may have to undo the charge.
    pub(super) before: Held,
    pub(super) mark: Mark,
    pub(super) held: Held,
    pub(super) at_ns: u64,
    /// What was charged, or the cost that a denial speaks of.
    pub(super) cost: u64,
}

impl Outcome {
    /// For a policy that says nothing of its limit; `held` is what the word held before and holds now.
    #[inline(always)]
    pub(super) fn plain(
        verdict: Verdict,
        [before, held]: [Held; 2],
        at_ns: u64,
        cost: u64,
    ) -> Self {
        Self { verdict, mark: Mark::None, before, held, at_ns, cost }
    }

    /// For a request whose key was idle.
    pub(super) fn of_idle(verdict: Verdict, held: Held, at_ns: u64, cost: u64) -> Self {
        Self { verdict, mark: Mark::None, before: Held::IDLE, held, at_ns, cost }
    }
}

/// What came of looking for a key in one shard the slow way.
enum SlowHit {
    Decided(Outcome),
    /// The shard does not hold the key.
    Elsewhere,
    /// It does, but its floor is not near, and the word cannot be read as it is.
    Afar,
}

/// All cells of a keyed limiter. Allocated once; never grows, never shrinks.
#[derive(Debug)]
pub(super) struct Table {
    memory: Memory,
    pub(super) layout: Layout,
    pub(super) way: Option<Way>,
    pub(super) tallies: Tallies,
    /// Where keys are decided that find no cell; `None` if they are denied.
    pub(super) spill: Option<Spill>,
    /// The quotas, if there are several or they may change. Then the layout knows only what all of them
    /// share, and no arithmetic: so the path of the plain table is closed to it, at no cost to that.
    pub(super) book: Option<Box<Book>>,
}

impl Table {
    /// A vacant table for `capacity` keys, whose floors stand at `floor`.
    pub(super) fn new(layout: Layout, capacity: usize, floor: u64) -> Result<Self, BuildError> {
        let memory = Memory::new(Self::shards_for(capacity)?, || Shard::new(floor))?;
        Ok(Self::of(memory, layout))
    }

    /// A table for `capacity` keys whose shards are read from `next`, one by one.
    pub(super) fn told<E: From<BuildError>>(
        layout: Layout,
        capacity: usize,
        next: impl FnMut() -> Result<Shard, E>,
    ) -> Result<Self, E> {
        Ok(Self::of(Memory::told(Self::shards_for(capacity)?, next)?, layout))
    }

    fn of(memory: Memory, layout: Layout) -> Self {
        let (way, tallies) = (Way::of(&layout), Tallies::default());
        Self { memory, layout, way, tallies, spill: None, book: None }
    }

    /// The shards of a table for `capacity` keys, whose bytes can be addressed.
    pub(super) fn shards_for(capacity: usize) -> Result<usize, BuildError> {
        if capacity == 0 {
            return Err(BuildError::ZeroCapacity);
        }
        let too_large = || BuildError::CapacityTooLarge { capacity };
        let cells = capacity.checked_mul(DESIGN_LOAD.1).ok_or_else(too_large)? / DESIGN_LOAD.0 + 1;
        let count = cells.div_ceil(CELLS).div_ceil(unit()) * unit();
        let bytes = count.checked_add(1).and_then(|count| count.checked_mul(size_of::<Shard>()));
        bytes.map(|_| count).ok_or_else(too_large)
    }

    #[inline]
    pub(super) fn shards(&self) -> usize {
        self.memory.len()
    }

    pub(super) fn cells(&self) -> usize {
        self.shards() * CELLS
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory.bytes() + self.spill.as_ref().map_or(0, Spill::bytes)
    }

    /// A shard by its number, which is below [`shards`](Self::shards): so `hash` makes them.
    #[inline]
    pub(super) fn shard(&self, index: usize) -> &Shard {
        self.memory.shard(index)
    }

    #[inline]
    pub(super) fn kernel(&self) -> &Kernel {
        &self.layout.kernel
    }

    /// The algorithm with what happens at its limit, which may be nothing.
    pub(super) fn ruled(&self) -> Ruled<'_> {
        self.layout.ruled()
    }

    /// Decides one request: in the key's cell if it has one, else by an install.
    ///
    /// `home` is the shard that is looked at first. `second` names the key's home in its other unit; it is asked
    /// only if the key is not at home. So is the clock that the request's time was read from.
    #[inline(always)]
    pub(super) fn decide(
        &self,
        identity: Identity,
        home: &Shard,
        second: impl Fn() -> usize,
        ask: Ask,
        clock: Option<&Clock>,
    ) -> Decision {
        let tag = identity.tag;
        // The Decision is built in each branch: merged, the outcome of `hit_plain`, which is in line, would go through
        // the stack as well.
        match (self.kernel(), ask.verb) {
            // Plain GCRA, which nearly all tables have: in line. With rules it is a kernel of its own.
            (Kernel::Gcra(gcra), Verb::Check) => {
                if let Some(outcome) = self.hit_plain(gcra, home, tag, ask) {
                    return self.decision(outcome, ask, 0);
                }
            }
            // Every other policy: one call to the code laid out for it.
            (_, Verb::Check) => match self.way {
                Some(way) => {
                    if let Ok(outcome) = way.0(self, home, tag, ask) {
                        return self.decision(outcome, ask, self.layout.rules.soft_bp);
                    }
                }
                // Of several quotas: by the one of the key's word.
                None => {
                    if let Ok(decision) = priced_decision(self, home, tag, ask) {
                        return decision;
                    }
                }
            },
            // Other verbs always go the slow way.
            _ => {}
        }
        let mut fresh = Fresh::new(ask, clock);
        let outcome = self.decide_slowly(identity, second(), &mut fresh);
        self.answer(outcome, &fresh)
    }

    /// The decision on a request whose key may have been new, with the arithmetic that it was made by.
    #[inline(always)]
    pub(super) fn answer(&self, outcome: Outcome, fresh: &Fresh<'_>) -> Decision {
        // Built in each branch, as in `decide`.
        match fresh.kernel {
            // By the table's own arithmetic.
            None => self.decision(outcome, fresh.ask, self.layout.rules.soft_bp),
            // By that of one of several quotas, or by answers that the spill has worked out.
            Some(kernel) => Self::decision_by(kernel, outcome, fresh.ask, 0),
        }
    }

    /// What a request asks of a word of this table.
    #[inline(always)]
    pub(super) fn wish(&self, ask: Ask) -> Wish {
        Wish { verb: ask.verb, cost: ask.cost, most: self.layout.ahead }
    }

    #[inline(always)]
    pub(super) fn decision(&self, outcome: Outcome, ask: Ask, soft_bp: u16) -> Decision {
        Self::decision_by(*self.kernel(), outcome, ask, soft_bp)
    }

    #[inline(always)]
    pub(super) fn decision_by(
        kernel: Kernel,
        outcome: Outcome,
        ask: Ask,
        soft_bp: u16,
    ) -> Decision {
        let Outcome { verdict, mark, held, at_ns, cost, .. } = outcome;
        let now_ns = ask.now_ns;
        Decision::new(verdict, View { kernel, held, at_ns, now_ns, cost, soft_bp, mark })
    }

    /// For what [`decide`](Self::decide) does not decide at home: other verbs, keys that are elsewhere or new, floors
    /// that are not near, quotas that have just been replaced. The request's time may have been read again afterwards.
    #[inline(never)]
    pub(super) fn decide_slowly(
        &self,
        identity: Identity,
        second: usize,
        fresh: &mut Fresh<'_>,
    ) -> Outcome {
        let is_here = |shard: &Shard| hint(shard, identity.tag, &self.layout).is_some();
        let (is_check, home) = (fresh.ask.verb == Verb::Check, self.shard(identity.first));
        let is_home = is_check && is_here(home);
        // One key in twenty lives in its second unit, and a new one looks at all of its shards. The first decision of a
        // shard after an epoch does not.
        if !(is_home && self.has_to_follow(home, fresh.ask)) {
            for index in all_shards_of(identity.first, second).into_iter().skip(unit()) {
                prefetch(self.shard(index));
            }
        }
        let mut is_absent = is_check && fresh.ask.charge;
        if is_check {
            for index in shards_of(identity.first, second) {
                let shard = self.shard(index);
                let is_here = if index == identity.first { is_home } else { is_here(shard) };
                // A hint: a word that it missed is found by the scan after the claim of an install.
                if !is_here {
                    continue;
                }
                let mut hit = self.hit_outcome(shard, identity.tag, fresh.ask);
                // Its floor follows, and then it is a hit.
                if matches!(hit, Err(Missed::Afar)) && self.has_to_follow(shard, fresh.ask) {
                    self.follow(index, fresh.ask.now_ns);
                    hit = self.hit_outcome(shard, identity.tag, fresh.ask);
                }
                match hit {
                    Ok((outcome, kernel)) => {
                        fresh.kernel = kernel;
                        return outcome;
                    }
                    // The word has just been replaced.
                    Err(Missed::Absent) => {}
                    // It may be here, but cannot be decided by the hint: every word is looked at.
                    Err(Missed::Afar) => is_absent = false,
                }
            }
        }
        // Looked for in vain by hints: the words themselves need no second look, since an install has one.
        let found = if is_absent { None } else { self.look(identity, second, fresh) };
        found.unwrap_or_else(|| self.install(identity, second, fresh))
    }

    /// Whether a charge of this shard has its floor follow first. Where there are several quotas their words are looked
    /// at before: see `price`.
    fn has_to_follow(&self, shard: &Shard, ask: Ask) -> bool {
        let is_behind = self.layout.is_behind(shard.header(), ask.now_ns);
        is_behind && ask.charge && self.book.is_none() && !self.wish(ask).is_never(self.kernel())
    }

    /// Counts the denial of a request that was only asked for, and tells of it: `None` if the policy
    /// counts none, if the key has no word to count it in, or if it would be admitted by now. `ask` has the
    /// verb `Refuse`, which charges nothing.
    pub(super) fn refuse(&self, identity: Identity, second: usize, ask: Ask) -> Option<Decision> {
        let rules = &self.layout.rules;
        // There is no denial to count.
        if !rules.count_denials() || ask.cost == 0 {
            return None;
        }
        let outcome = shards_of(identity.first, second)
            .find_map(|index| self.hit_slowly(index, identity.tag, &ask))?;
        // Others have given back meanwhile, and the request would be admitted: no denial of this limit.
        let is_denied = outcome.verdict == Verdict::Denied;
        is_denied.then(|| self.decision(outcome, ask, rules.soft_bp))
    }

    /// Decides in the key's cell, if one of its shards holds it.
    #[inline(always)]
    pub(super) fn look(
        &self,
        identity: Identity,
        second: usize,
        fresh: &mut Fresh<'_>,
    ) -> Option<Outcome> {
        let Identity { first, tag } = identity;
        if let Some(book) = &self.book {
            return self.look_priced(book, identity, second, fresh);
        }
        shards_of(first, second).find_map(|index| self.hit_slowly(index, tag, &fresh.ask))
    }

    /// Decides in the key's cell, if this shard holds it, whatever the algorithm and the time. A question
    /// about a key that a charge would forget first is not decided here: see
    /// [`forgotten_in`](Self::forgotten_in).
    #[inline]
    pub(super) fn hit_slowly(&self, index: usize, tag: u64, ask: &Ask) -> Option<Outcome> {
        // Two calls, so that the arithmetic without rules is compiled without them.
        if self.layout.rules.are_none() {
            self.hit_whole(self.kernel(), index, tag, ask)
        } else {
            self.hit_whole(&self.ruled(), index, tag, ask)
        }
    }

    #[inline(never)]
    fn hit_whole(
        &self,
        algorithm: &impl Verbs,
        index: usize,
        tag: u64,
        ask: &Ask,
    ) -> Option<Outcome> {
        loop {
            // The word's floor is not near. A charge above it leaves, so that the floor can follow; so does a
            // question if the charge would forget the key. All others read the word from where they are.
            let afar = |header: Header, word| {
                let behind =
                    !self.wish(*ask).is_never(self.kernel()) && ask.now_ns > header.floor_ns();
                let leave = behind && (ask.charge || self.is_forgotten(header, word, ask.now_ns));
                (!leave).then(|| self.unpack_afar(header, word, ask.now_ns))
            };
            match self.hit_by(algorithm, self.shard(index), tag, *ask, afar) {
                SlowHit::Decided(outcome) => return Some(outcome),
                // The floor comes near to now; the next turn may find the word, or find it forgotten.
                SlowHit::Afar if ask.charge => self.follow(index, ask.now_ns),
                // Not here; or a question about a key that a charge would forget first.
                SlowHit::Elsewhere | SlowHit::Afar => return None,
            }
        }
    }

    /// The shard of a key that was asked for and is there, but would be forgotten before it is charged.
    pub(super) fn forgotten_in(
        &self,
        identity: Identity,
        second: usize,
        ask: &Ask,
    ) -> Option<usize> {
        shards_of(identity.first, second).find(|&index| {
            let shard = self.shard(index);
            let Some((_, word)) = self.find(shard, identity.tag) else { return false };
            // After the word. Should a floor move meanwhile, the caller looks again.
            let header = shard.header();
            !self.is_near(header, ask.now_ns)
                && ask.now_ns > header.floor_ns()
                && self.is_forgotten(header, word, ask.now_ns)
        })
    }

    /// Whether a floor that follows `now` forgets a live word. Then its key is one without a cell, which may owe
    /// something in the spill, or come too late for another of its shards.
    #[cold]
    #[inline(never)]
    pub(super) fn is_forgotten(&self, header: Header, word: u64, now_ns: u64) -> bool {
        self.last_swept(header, now_ns).is_some_and(|last| self.is_swept(header, word, last))
    }

    /// Whether a sweep under floor `last` forgets a live word.
    pub(super) fn is_swept(&self, header: Header, word: u64, last: u64) -> bool {
        let floors_ns = [header.floor_ns(), last << GRANULE_BITS];
        match &self.book {
            // Should the word be gone meanwhile, the caller looks again.
            Some(book) => self.is_stale_by(book, word, floors_ns).unwrap_or(false),
            None => self.layout.staleness(floors_ns).of(word),
        }
    }

    /// Decides in the key's cell, if this shard holds it. Lock-free: each turn of the loop that does
    /// not end it means that another thread has charged, cleared or advanced something.
    ///
    /// `afar` reads a word whose floor is not near, if that can be done before the floor has advanced.
    #[inline(always)]
    fn hit_by(
        &self,
        algorithm: &impl Verbs,
        shard: &Shard,
        tag: u64,
        ask: Ask,
        afar: impl Fn(Header, u64) -> Option<Held>,
    ) -> SlowHit {
        loop {
            let before = shard.header();
            let Some((cell, word)) = self.find(shard, tag) else { return SlowHit::Elsewhere };
            let header =
                if planted(Fault::HeaderOnlyBeforeWords) { before } else { shard.header() };
            // A floor was published between the loads: unknown which of the two dates the word.
            if header.floor() != before.floor() {
                continue;
            }
            let moment = algorithm.moment(ask.now_ns);
            let held = if self.is_near(header, ask.now_ns) || planted(Fault::DecodeAgainstNow) {
                self.layout.unpack(word, algorithm, moment)
            } else {
                let Some(held) = afar(header, word) else { return SlowHit::Afar };
                held
            };
            let outcome = |verdict, (after, at_ns), cost, unpaid| {
                let (mark, after, at_ns) = algorithm.tell(verdict, after, at_ns, (0, unpaid));
                SlowHit::Decided(Outcome { verdict, mark, before: held, held: after, at_ns, cost })
            };
            let wish = self.wish(ask);
            let Some(next) = algorithm.apply(wish, held, moment, 0) else {
                let cost = wish.denied_cost();
                // Written only where the policy counts denials; for the argument see `cell`.
                if ask.charge
                    && wish.counts_its_denial()
                    && let Some(next) = algorithm.refuse(held, ask.now_ns, cost)
                {
                    let next_word = self.layout.live(tag, next, algorithm, moment);
                    // Another thread was faster: what it left may admit the request.
                    if next_word != word && !shard.charge(cell, word, next_word) {
                        continue;
                    }
                    return outcome(Verdict::Denied, (next, ask.now_ns), cost, 0);
                }
                // A word seen from far away may be cut: the wait is then computed from near its own time.
                let seen = if held.is_cut() { self.near(header, word) } else { (held, ask.now_ns) };
                return outcome(Verdict::Denied, seen, cost, 0);
            };
            // Nothing charged, nothing written: what is seen from too far away could not be written back.
            if !ask.charge || next.cost == 0 {
                let unpaid = if ask.charge { 0 } else { ask.cost };
                return outcome(Verdict::Allowed, (held, ask.now_ns), 0, unpaid);
            }
            if shard.charge(cell, word, self.layout.live(tag, next.held, algorithm, moment)) {
                return outcome(Verdict::Allowed, (next.held, ask.now_ns), next.cost, 0);
            }
        }
    }

    /// The live word of `tag` in a shard, and its cell.
    ///
    /// Compares all cells and then loads the one that was found: which of them holds a key cannot be foreseen, and a
    /// branch taken wrongly costs more than the other comparisons, all in one line.
    #[inline(always)]
    pub(super) fn find(&self, shard: &Shard, tag: u64) -> Option<(usize, u64)> {
        let words_per_tag = self.layout.words_per_tag; // a copy: past a load that acquires it would be loaded anew
        // The words of a tag follow each other, so one comparison tells whether a live word is one of them.
        let is_it = |word: u64| word.wrapping_sub(tag) < words_per_tag;
        // The borrow of each comparison is shifted in: bit n for cell n.
        let found = cells()
            .rev()
            .fold(0_u32, |found, cell| found + found + u32::from(is_it(shard.load(cell))));
        if found == 0 {
            return None;
        }
        let cell = found.trailing_zeros() as usize;
        let word = shard.load(cell);
        // Replaced since it was found: as good as not there. An install looks again.
        is_it(word).then_some((cell, word))
    }

    /// Whether words can be read as they are at an instant, and what is written there can be read back.
    #[inline(always)]
    pub(super) fn is_near(&self, header: Header, instant_ns: u64) -> bool {
        self.layout.is_near(header, instant_ns)
    }

    /// What a live word holds, seen from near its time: for a request so late that it cannot tell.
    #[cold]
    #[inline(never)]
    fn near(&self, header: Header, word: u64) -> (Held, u64) {
        let (ruled, floor_ns) = (self.ruled(), header.floor_ns());
        let held = self.layout.unpack(word, &ruled, ruled.moment(floor_ns));
        self.kernel().seen_nearby(held, floor_ns)
    }

    /// What a live word holds, seen from an instant far below the floor, or far above it: read at the
    /// floor, then carried over. What a late charge writes lies no lower than what it found, so it can
    /// be read back; above the floor nothing may be written before the floor has followed.
    #[cold]
    #[inline(never)]
    fn unpack_afar(&self, header: Header, word: u64, now_ns: u64) -> Held {
        let floor_ns = header.floor_ns();
        let held = self.layout.unpack(word, self.kernel(), self.kernel().moment(floor_ns));
        // Late by more than an epoch.
        if now_ns < floor_ns {
            held.seen_earlier(self.kernel().passed(now_ns, floor_ns))
        } else {
            held.seen_later(self.kernel().passed(floor_ns, now_ns))
        }
    }
}
