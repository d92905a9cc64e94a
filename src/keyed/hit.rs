//! The path of nearly every decision: in a cell of the shard at hand, at a time that its floor is near to.
//!
//! One line is read: header, cells, header. The two readings of the header are equal, so no floor was published and no
//! install begun in between, and the word that was found is dated by this floor. Everything else goes the slow way: keys
//! that are not here, times that are not near, quotas that have just been replaced.
//!
//! Twice: for plain GCRA, in line and laid out for what its word is, a time; and for every other policy, out of line and
//! once for each algorithm.

use std::hint::select_unpredictable;

use crate::algorithm::{Decides, Gcra, Held, Kernel};
use crate::decision::Verdict;
use crate::sync::{Fault, planted};

use super::book::{Book, Lane, Page};
use super::hint::hint;
use super::layout::Layout;
use super::shard::Shard;
use super::table::{Ask, Outcome, Table};

/// What came of looking for a key in one shard.
pub(super) enum Hit {
    /// By this arithmetic.
    Decided(Outcome, Kernel),
    /// The shard seems not to hold the key. A hint: an install looks at every word.
    Absent,
    /// It does, but not so that it can be decided here.
    Afar,
}

/// What was read of a shard.
enum Read {
    /// The live word of the key, and its cell.
    Word(usize, u64),
    /// Another thread has changed the shard meanwhile.
    Changed,
    Absent,
    Afar,
}

impl Table {
    /// Decides in the key's cell, if this shard holds it and `now` is near. Lock-free: each turn of the loop that does
    /// not end it means that another thread has charged, installed or advanced something.
    #[inline(always)]
    pub(super) fn hit_plain(
        &self,
        gcra: &Gcra,
        shard: &Shard,
        tag: u64,
        ask: Ask,
    ) -> Option<Outcome> {
        let Ask { now_ns, cost, charge, .. } = ask;
        let (cost_ticks, room) = gcra.room_for(cost)?;
        let (back, mask) = (self.layout.back, self.layout.time_mask);
        let earliest = gcra.moment(now_ns).unit.wrapping_sub(back);
        loop {
            let (cell, word) = match self.read(shard, tag, now_ns) {
                Read::Word(cell, word) => (cell, word),
                Read::Changed => continue,
                Read::Absent | Read::Afar => return None,
            };
            // The word's time, counted from the earliest that it may be: `back` is now.
            let since = word.wrapping_sub(earliest) & mask;
            let outcome = |verdict, after: u64, cost| {
                let held = |since: u64| Held {
                    ahead: since.saturating_sub(back),
                    behind: back.saturating_sub(since),
                    counts: 0,
                };
                Some(Outcome::plain(verdict, [held(since), held(after)], now_ns, cost))
            };
            if since > back + room {
                return outcome(Verdict::Denied, since, cost);
            }
            if !charge {
                return outcome(Verdict::Allowed, since, 0);
            }
            let after = select_unpredictable(since < back, back, since) + cost_ticks;
            let next = tag | (earliest.wrapping_add(after) & mask);
            if shard.charge(cell, word, next) {
                return outcome(Verdict::Allowed, after, cost);
            }
        }
    }

    /// The same for every policy, out of line: the one place that asks which it is.
    #[inline(never)]
    pub(super) fn hit(&self, shard: &Shard, tag: u64, ask: Ask) -> Hit {
        if let Some(book) = &self.book {
            return self.hit_tier(book, shard, tag, ask);
        }
        if !self.layout.rules.are_none() {
            return self.hit_one(&self.ruled(), shard, tag, ask);
        }
        match self.kernel() {
            Kernel::Gcra(gcra) => self.hit_one(gcra, shard, tag, ask),
            Kernel::FixedWindow(window) => self.hit_one(window, shard, tag, ask),
            Kernel::FromFirst(window) => self.hit_one(window, shard, tag, ask),
            Kernel::SlidingWindow(window) => self.hit_one(window, shard, tag, ask),
            Kernel::SegmentedWindow(window) => self.hit_one(window, shard, tag, ask),
            Kernel::RuledGcra(_) | Kernel::Log(_) => Hit::Afar,
        }
    }

    #[inline(always)]
    fn hit_one(&self, algorithm: &impl Decides, shard: &Shard, tag: u64, ask: Ask) -> Hit {
        loop {
            let (cell, word) = match self.read(shard, tag, ask.now_ns) {
                Read::Word(cell, word) => (cell, word),
                Read::Changed => continue,
                Read::Absent => return Hit::Absent,
                Read::Afar => return Hit::Afar,
            };
            let (outcome, next) = step(&self.layout, algorithm, (tag, word), ask);
            if next == word || shard.charge(cell, word, next) {
                return Hit::Decided(outcome, *self.kernel());
            }
        }
    }

    /// By the quota of the word, in a table of several.
    #[inline(always)]
    fn hit_tier(&self, book: &Book, shard: &Shard, tag: u64, ask: Ask) -> Hit {
        loop {
            let (cell, word) = match self.read(shard, tag, ask.now_ns) {
                Read::Word(cell, word) => (cell, word),
                Read::Changed => continue,
                Read::Absent => return Hit::Absent,
                Read::Afar => return Hit::Afar,
            };
            // A word whose quota has been replaced is re-based first.
            let Some(Page::InForce(Lane { layout, mark })) = book.page(word) else {
                return Hit::Afar;
            };
            let words = (tag | mark, word);
            let (outcome, next) = match &layout.kernel {
                Kernel::Gcra(gcra) => step(&layout, gcra, words, ask),
                Kernel::FixedWindow(window) => step(&layout, window, words, ask),
                Kernel::FromFirst(window) => step(&layout, window, words, ask),
                Kernel::SlidingWindow(window) => step(&layout, window, words, ask),
                Kernel::SegmentedWindow(window) => step(&layout, window, words, ask),
                Kernel::RuledGcra(_) | Kernel::Log(_) => return Hit::Afar,
            };
            // The numbers were read after the word. As long as it stands they are its own: see `price`.
            let stands = if next == word {
                shard.load(cell) == word || planted(Fault::QuotaReadTorn)
            } else {
                shard.charge(cell, word, next)
            };
            if stands {
                return Hit::Decided(outcome, layout.kernel);
            }
        }
    }

    /// The live word of `tag` in a shard, by a hint where it stands, if `now` is near.
    #[inline(always)]
    fn read(&self, shard: &Shard, tag: u64, now_ns: u64) -> Read {
        let Some(cell) = hint(shard, tag, &self.layout) else { return Read::Absent };
        let before = shard.header();
        let word = shard.load(cell);
        let header = if planted(Fault::HeaderOnlyBeforeWords) { before } else { shard.header() };
        if header != before {
            return Read::Changed;
        }
        let is_near = self.layout.is_near(header, now_ns) || planted(Fault::DecodeAgainstNow);
        if self.layout.is_live(word, tag) && is_near { Read::Word(cell, word) } else { Read::Afar }
    }
}

/// What comes of a request, and the word then: the same, if there is nothing to write. `own` is what of a word is the
/// key's, whatever it holds.
#[inline(always)]
fn step(
    layout: &Layout,
    algorithm: &impl Decides,
    (own, word): (u64, u64),
    ask: Ask,
) -> (Outcome, u64) {
    let Ask { now_ns, cost, charge, .. } = ask;
    let moment = algorithm.moment(now_ns);
    let held = layout.unpack(word, algorithm, moment);
    let outcome = |verdict, after, cost, unpaid| {
        let (mark, after, at_ns) = algorithm.tell(verdict, after, now_ns, (0, unpaid));
        Outcome { mark, ..Outcome::plain(verdict, [held, after], at_ns, cost) }
    };
    let written = |held| layout.live(own, held, algorithm, moment);
    match algorithm.step(held, moment, 0, cost) {
        Some(next) if charge => (outcome(Verdict::Allowed, next, cost, 0), written(next)),
        Some(_) => (outcome(Verdict::Allowed, held, 0, cost), word),
        // Written only where the policy counts denials; for the argument see `cell`.
        None => match algorithm.refuse(held, now_ns, cost).filter(|_| charge) {
            Some(next) => (outcome(Verdict::Denied, next, cost, 0), written(next)),
            None => (outcome(Verdict::Denied, held, cost, 0), word),
        },
    }
}
