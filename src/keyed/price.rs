//! Reading words whose quota is found by their index, and re-basing those whose quota has been replaced.
//!
//! A word whose quota has been replaced is *re-based* when it is touched: read in its old ticks at the
//! shard's floor, carried over the change (`algorithm/rebase.rs`), and written in the new quota's. Forward
//! only: the word's own index says which quota it is counted in, and the numbers are read after it.
//!
//! Two others re-base words that no request touches, each by a compare-and-swap from the exact word: the change itself,
//! which goes through the whole table before it returns; and a sweep of a shard's floor, should the floor
//! move on before the change has come by. So a floor above the change stands over no word in old ticks,
//! and old ticks need not be told apart for longer than an epoch.
//!
//! # A word and its numbers
//! They are two loads. A writer's CAS validates the pair, a reader loads the word once more after its
//! numbers: as long as the word stands, its numbers do (`book.rs`). There is one
//! way past both: the thread sleeps between its loads for so long that the index is retired, free
//! and taken again, *and* then finds the same bits in the cell, tag and index and time alike. That is the
//! assumption on sleeping threads that the table makes anyhow, with several changes of quota in
//! place of a whole wrap.

pub(super) mod spent;

use crate::algorithm::{Change, Decides, Held, Kernel};
use crate::clock::Timestamp;
use crate::refund::{Amendment, Found};
use crate::sync::{Fault, planted};
use crate::verb::{Verbs, Wish};
use crate::verdict::Verdict;

use super::ask::{Fresh, Outcome};
use super::book::{Book, Lane, Page};
use super::hash::Identity;
use super::layout::{Kind, Layout};
use super::shard::GRANULE_BITS;
use super::shard::{Header, cells};
use super::table::Table;
use super::unit::shards_of;

/// What a sweep has made of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It is forgotten.
    Stale,
    /// It stays, in the quota in force.
    Kept,
}

/// What a word holds under the quota in force.
#[derive(Clone, Copy, Debug)]
struct Priced {
    lane: Lane,
    /// Seen from the instant that was asked for.
    held: Held,
    /// When its quota was replaced, if it still is in the old one's ticks.
    replaced_ns: Option<u64>,
}

impl Priced {
    fn kernel(&self) -> &Kernel {
        &self.lane.layout.kernel
    }

    /// Whether the change lies so far above the floor that nothing may be written at its instant yet.
    fn is_ahead_of(&self, header: Header, epoch: u64) -> bool {
        self.replaced_ns
            .is_some_and(|at_ns| at_ns >> GRANULE_BITS > header.floor().saturating_add(epoch))
    }

    /// The same, seen from another instant.
    fn seen_from(self, at_ns: u64, from_ns: u64) -> Self {
        let (later, earlier) =
            (self.kernel().passed(at_ns, from_ns), self.kernel().passed(from_ns, at_ns));
        Self { held: self.held.seen_later(later).seen_earlier(earlier), ..self }
    }
}

/// The division of words that keys of a tier get, and its index where it stands in them.
pub(super) type Quota<'a> = (&'a Layout, u64);

impl Table {
    /// The division of words that new keys of a tier get, and the index in it. In a table of one quota
    /// that is all there is; else it is read now, and `lane` holds it.
    pub(super) fn quota_of<'a>(&'a self, tier: u8, lane: &'a mut Option<Lane>) -> Quota<'a> {
        let Some(book) = &self.book else { return (&self.layout, 0) };
        let lane = lane.insert(book.in_force(tier.into()));
        (&lane.layout, lane.mark)
    }

    /// What a live word holds, seen from the floor of its shard; `None` if it is gone.
    fn price(book: &Book, word: u64, floor_ns: u64) -> Option<Priced> {
        let unpack = |layout: &Layout| {
            let kernel = &layout.kernel;
            layout.unpack(word, kernel, kernel.moment(floor_ns))
        };
        // `None`: its index is being written for another quota, so the word has been replaced.
        Some(match book.page(word)? {
            Page::InForce(lane) => Priced { lane, held: unpack(&lane.layout), replaced_ns: None },
            // Read in the ticks that it was written in, then carried over the change.
            Page::Retired { old, at_ns, new } => {
                let held = unpack(&old);
                let change = Change { old: &old.kernel, new: &new.layout.kernel, at_ns };
                let held = change.rebased(held, floor_ns);
                Priced { lane: new, held, replaced_ns: Some(at_ns) }
            }
        })
    }

    /// The word of `tag` in one shard, its cell, the header it is dated by, and what it holds, seen from
    /// the floor. `None` if the key is not there.
    fn find_priced(&self, book: &Book, index: usize, tag: u64) -> Option<(Standing, Priced)> {
        let shard = self.shard(index);
        loop {
            let before = shard.header();
            let (cell, word) = self.find(shard, tag)?;
            let header = shard.header();
            // A floor was published between the two loads: it is unknown which of the two dates the word.
            if header.floor() != before.floor() {
                continue;
            }
            // `None` if the numbers are being written: then the word is gone as well.
            let priced = Self::price(book, word, header.floor_ns());
            // Loaded again after its numbers, which are its own only while it stands. If it does not, another
            // thread has replaced it: lock-free.
            let stands = shard.load(cell) == word || planted(Fault::QuotaReadTorn);
            if let (Some(priced), true) = (priced, stands) {
                return Some((Standing { cell, word, header }, priced));
            }
        }
    }

    /// [`look`](Self::look) in a table of several quotas. Out of line, so that it costs others nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn look_priced(
        &self,
        book: &Book,
        identity: Identity,
        second: usize,
        fresh: &mut Fresh<'_>,
    ) -> Option<Outcome> {
        let Identity { first, tag } = identity;
        // A key that is not there is priced by the quota in force, until an install has one.
        fresh.kernel = Some(book.in_force(fresh.ask.tier.into()).layout.kernel);
        shards_of(first, second).find_map(|index| self.hit_priced(book, index, tag, fresh))
    }

    pub(super) fn hit_priced(
        &self,
        book: &Book,
        index: usize,
        tag: u64,
        fresh: &mut Fresh<'_>,
    ) -> Option<Outcome> {
        let ask = fresh.ask;
        loop {
            let (Standing { cell, word, header }, priced) = self.find_priced(book, index, tag)?;
            let layout = priced.lane.layout;
            let kernel = layout.kernel;
            let wish = Wish { verb: ask.verb, cost: ask.cost, most: layout.ahead };
            if ask.charge && !wish.is_never(&kernel) {
                // Nothing may be written further above the floor than it can be read back.
                let goal_ns = priced.replaced_ns.unwrap_or(0).max(ask.now_ns);
                // Now, or the change that the word has to be carried over, is out of the floor's reach.
                if goal_ns >> GRANULE_BITS > header.floor().saturating_add(layout.epoch) {
                    self.follow(index, goal_ns);
                    continue;
                }
            }
            // A question about a key that a charge would forget first: see `forgotten_in`.
            let is_asked = !ask.charge && !wish.is_never(&kernel);
            if is_asked
                && !self.is_near(header, ask.now_ns)
                && self.is_forgotten(header, word, ask.now_ns)
            {
                return None;
            }
            let Priced { held, .. } = priced.seen_from(header.floor_ns(), ask.now_ns);
            let moment = kernel.moment(ask.now_ns);
            // The decision answers by the quota that it was made by.
            fresh.kernel = Some(kernel);
            let outcome = |verdict, (after, at_ns), cost| {
                Some(Outcome { before: held, ..Outcome::of_idle(verdict, after, at_ns, cost) })
            };
            let seen = (held, ask.now_ns);
            let Some(next) = kernel.apply(wish, held, moment, 0) else {
                let near = || kernel.seen_nearby(priced.held, header.floor_ns());
                // The request comes so late that the word cannot tell its wait: see `Table::near`.
                let seen = if held.is_cut() { near() } else { seen };
                return outcome(Verdict::Denied, seen, wish.denied_cost());
            };
            // A question, or a charge of nothing: nothing is written.
            if !ask.charge || next.cost == 0 {
                return outcome(Verdict::Allowed, seen, 0);
            }
            // Written in the quota in force: this re-bases a word of a replaced one.
            let next_word = layout.live(tag | priced.lane.mark, next.held, &kernel, moment);
            // Lock-free: if the CAS fails, another thread has charged, cleared or re-based the word.
            if self.shard(index).charge(cell, word, next_word) {
                return outcome(Verdict::Allowed, (next.held, ask.now_ns), next.cost);
            }
        }
    }

    /// [`amend`](Self::amend) for one shard of a table of several quotas: `None` if the key is not there.
    #[cold]
    #[inline(never)]
    pub(super) fn amend_priced(
        &self,
        book: &Book,
        index: usize,
        tag: u64,
        now: &impl Fn() -> Timestamp,
        amendment: Amendment<'_>,
    ) -> Option<u64> {
        loop {
            let (Standing { cell, word, header }, priced) = self.find_priced(book, index, tag)?;
            let layout = priced.lane.layout;
            // The change lies out of the floor's reach, so what would be written at it could not be read back.
            if priced.is_ahead_of(header, layout.epoch) {
                self.advance(index, priced.replaced_ns.unwrap_or(0));
                continue;
            }
            let kernel = layout.kernel;
            let floor_ns = header.floor_ns();
            let now_ns = now().as_nanos();
            let latest_ns = layout.latest_ns(header.floor());
            // The instant nearest to now at which this floor lets the word be written.
            let at_ns = now_ns.clamp(floor_ns, latest_ns.max(floor_ns));
            let Priced { held, .. } = priced.seen_from(floor_ns, at_ns);
            let own = tag | priced.lane.mark;
            let found = Found { held, at_ns, now_ns: now_ns.max(at_ns) };
            let (next, units) = match amendment {
                Amendment::Refund(charge) | Amendment::Undo(charge)
                    // Charged under an earlier quota, whose units are not this one's: it stays until it has drained.
                    if !book.is_of(priced.lane.mark, charge) =>
                {
                    (held, 0)
                }
                Amendment::Refund(charge) => kernel.given_back(found, charge),
                Amendment::Undo(charge) => {
                    let moment = kernel.moment(charge.at_ns);
                    // Equal bits may be another charge's, as in `Table::amended`.
                    let same = word == layout.live(own, charge.held, &kernel, moment);
                    if same { kernel.undone(found, charge) } else { (held, 0) }
                }
                // The word stays, idle from now on, until a sweep or a newcomer takes its cell.
                Amendment::Reset => (Held::IDLE, 0),
            };
            // Nothing to give back: nothing is written.
            if next == held {
                return Some(0);
            }
            let next = layout.live(own, next, &kernel, kernel.moment(at_ns));
            // Lock-free, as in `hit_priced`.
            if self.shard(index).charge(cell, word, next) {
                return Some(units);
            }
        }
    }

    /// Whether a live word, read by the first of these floors, is idle at each of the others; `None` if it is gone.
    #[cold]
    #[inline(never)]
    pub(super) fn priced_idle(
        &self,
        book: &Book,
        word: u64,
        [read_ns, floors_ns @ ..]: [u64; 3],
    ) -> Option<[bool; 2]> {
        let priced = Self::price(book, word, read_ns)?;
        let kernel = priced.kernel();
        let is_idle = |at_ns| {
            let held = priced.seen_from(read_ns, at_ns).held;
            kernel.is_idle(held, kernel.moment(at_ns))
        };
        Some(floors_ns.map(is_idle))
    }

    /// Whether a sweep under the second floor forgets a live word, which is read by the first; `None` if it is gone.
    #[cold]
    pub(super) fn is_stale_by(
        &self,
        book: &Book,
        word: u64,
        [floor_ns, swept_ns]: [u64; 2],
    ) -> Option<bool> {
        let priced = Self::price(book, word, floor_ns)?;
        let layout = priced.lane.layout;
        Some(match priced.replaced_ns {
            // In the quota in force: stale as in a table of one quota.
            None => layout.staleness([floor_ns, swept_ns]).of(word),
            // Idle at the first sweep, or kept by it in the quota in force, and as old then as it may be.
            Some(_) => layout.kernel.is_idle(priced.held, layout.kernel.moment(floor_ns)),
        })
    }

    /// When a live word becomes idle; at its floor if it is gone.
    pub(super) fn idle_ns(&self, book: &Book, word: u64, floor_ns: u64) -> u64 {
        Self::price(book, word, floor_ns)
            .map_or(floor_ns, |priced| priced.kernel().idle_ns(priced.held, floor_ns))
    }

    /// Judges a word of a shard by its floor, and re-bases it if its quota has been replaced; `None` if the
    /// shard was changed meanwhile.
    ///
    /// Not while the change lies beyond the reach of the floor: until it has come, the old quota prices
    /// what is there, and no floor below it is too far for the old ticks.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(
        &self,
        book: &Book,
        index: usize,
        cell: usize,
        word: u64,
    ) -> Option<Settled> {
        let shard = self.shard(index);
        let header = shard.header();
        let priced = Self::price(book, word, header.floor_ns())?;
        let Priced { lane: Lane { layout, mark }, held, replaced_ns } = priced;
        let floor_ns = header.floor_ns();
        let moment = layout.kernel.moment(floor_ns);
        let is_idle = layout.kernel.is_idle(held, moment);
        // What is counted in a quota that has been replaced is not kept while it is idle.
        let is_kept = replaced_ns.is_none() && !layout.staleness([floor_ns; 2]).of(word);
        // The caller vacates the cell.
        if is_idle && !is_kept {
            return Some(Settled::Stale);
        }
        let stays = replaced_ns.is_none() || priced.is_ahead_of(header, layout.epoch);
        // In the quota in force already, or the change is still out of this floor's reach.
        if stays || planted(Fault::OldTicksLeft) {
            return Some(Settled::Kept);
        }
        let next = layout.live(layout.tag(word) | mark, held, &layout.kernel, moment);
        // `None` if it was charged meanwhile: the caller reads the shard again.
        shard.replace(cell, word, next).then_some(Settled::Kept)
    }

    /// Re-bases every word with a retired index, and vacates every claim, so that none is left. `at_ns` is
    /// when its quota was replaced. Reads the whole table; waits for no thread.
    pub(super) fn settle_all(&self, book: &Book, retired: usize, at_ns: u64) {
        for index in 0..self.shards() {
            // Begun again until a whole turn over the shard met no other thread.
            while self.settle_shard(book, index, retired, at_ns).is_none() {}
        }
    }

    /// The same in one shard; `None` if others changed it meanwhile. Lock-free: then one of them went on.
    fn settle_shard(&self, book: &Book, index: usize, retired: usize, at_ns: u64) -> Option<()> {
        let shard = self.shard(index);
        let header = shard.header();
        let is_ahead = at_ns >> GRANULE_BITS > header.floor().saturating_add(self.layout.epoch);
        for cell in cells() {
            let word = shard.load(cell);
            match Layout::kind(word) {
                // Its install may have read the retired index. Vacated, it starts again and reads the new one.
                Kind::Claim if !planted(Fault::ChangeSparesClaims) => {
                    shard.replace(cell, word, 0).then_some(())?;
                }
                Kind::Live if book.has_index(word, retired) => {
                    // The change is out of this floor's reach. The shard is read anew, for the advance has swept it.
                    if is_ahead {
                        self.advance(index, at_ns);
                        return None;
                    }
                    // The floor was read before the word, and every word is dated by a floor that is read after it.
                    if shard.header().floor() != header.floor() {
                        return None;
                    }
                    // Idle under the new quota: its key is forgotten instead of re-based.
                    if self.settle(book, index, cell, word)? == Settled::Stale {
                        shard.replace(cell, word, 0).then_some(())?;
                    }
                }
                // Vacant, or counted in a quota that this change does not retire.
                _ => {}
            }
        }
        Some(())
    }
}

/// A word as it was found.
#[derive(Clone, Copy, Debug)]
struct Standing {
    cell: usize,
    word: u64,
    header: Header,
}
