//! The path of nearly every decision. The key has a cell in its home shard, and the request's time is near to that
//! shard's floor.
//!
//! One cache line is read: header, cells, header. Both readings of the header must be equal, including the install
//! counter. Then no floor was published and no install began in between, so the floor in the header dates the word that
//! was found. A request takes the slow way if the key is not in this shard, if the request's time is not near to the
//! floor, if its cost never fits, or if the word must first be converted to another quota.
//!
//! Plain GCRA is decided by special inline code, because the only state in a word of plain GCRA is a time. Every other
//! policy is decided out of line, by code that is compiled twice for each algorithm: once without rules for what
//! happens at the limit, and once with them. In a table of several quotas, the index in the word names the quota.

use std::hint::select_unpredictable;

use crate::algorithm::{Algorithm, Decides, Gcra, Held, Kernel, Ruled, by_code, laid_out};
use crate::decision::{Decision, Outcome};
use crate::hash::Tag;
use crate::verdict::Verdict;

use crate::keyed::memory::ask::{Ask, Fresh};
use crate::keyed::memory::layout::{Coded, Division, Layout};
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{Missed, Near, Shard, TableWord, dates, is_live};
use crate::keyed::quotas::book::Book;
use crate::keyed::table::{Cells, LaidOut, OneQuota, Table};

impl Cells {
    /// The cells of a table of one quota. The code that decides on the words is chosen here, once for the table, not at
    /// each decision.
    pub(in crate::keyed) fn of(layout: Layout) -> Self {
        fn of<A: Algorithm>(_: &A, is_plain: bool) -> LaidOut {
            if is_plain { plain::<A> } else { ruled::<A> }
        }
        let quota = OneQuota { layout, spill: None };
        // The macro has an arm for each algorithm, and in each arm `of` is compiled for that algorithm alone.
        match &layout.kernel {
            Kernel::Gcra(gcra) if layout.rules.are_none() => Self::Plain(*gcra, quota),
            kernel => {
                let way = laid_out!(kernel, one => of(one, layout.rules.are_none()));
                Self::LaidOut(way, quota)
            }
        }
    }
}

/// A decision on a word of plain GCRA. The word has been read, and nothing has been written yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlainPlan {
    /// The outcome of a request that writes nothing.
    Told(Outcome),
    Charge(PlannedCharge),
}

/// A charge that has been planned but not written: `next` is to replace `word`. The plan is valid as long as `word` is
/// in the cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCharge {
    cell: usize,
    word: TableWord,
    next: TableWord,
    /// The time of `word`, counted from the earliest time that a word may hold now. The field `after` is the time of
    /// `next`, counted in the same way. The plan has these two numbers in place of the outcome, because the outcome
    /// takes more memory.
    since: u64,
    after: u64,
}

impl PlannedCharge {
    /// Carries out the plan for its request, no matter how old the plan is. `None` if the word has been replaced, or if
    /// the CAS failed spuriously.
    #[inline(always)]
    pub(in crate::keyed) fn carried_out(
        &self,
        layout: &Layout,
        shard: &Shard,
        ask: Ask,
    ) -> Option<Outcome> {
        // The CAS expects exactly the word for which the plan was made. If the word is unchanged, no thread has
        // charged, forgotten or re-based it since, and a new plan would be the same.
        let is_charged = shard.charge(self.cell, self.word, self.next);
        let Self { since, after, .. } = *self;
        is_charged
            .then(|| outcome(layout.back, Verdict::Allowed, [since, after], ask.now_ns, ask.cost))
    }
}

/// The outcome of a request on a word of plain GCRA. The times `before` and `after` are counted from an instant that
/// lies `back` units before `now_ns`.
#[inline(always)]
fn outcome(
    back: u64,
    verdict: Verdict,
    [before, after]: [u64; 2],
    now_ns: u64,
    cost: u64,
) -> Outcome {
    let held = |since: u64| Held {
        ahead: since.saturating_sub(back),
        behind: back.saturating_sub(since),
        counts: 0,
    };
    Outcome::plain(verdict, held(before), held(after), now_ns, cost)
}

impl Table {
    /// Decides in the key's cell, if this shard has the key and `now` is near to the floor. Lock-free: a repetition of
    /// the loop means that another thread has changed the shard, or that a CAS failed spuriously.
    #[inline(always)]
    pub(in crate::keyed) fn hit_plain(
        &self,
        gcra: &Gcra,
        layout: &Layout,
        shard: &Shard,
        tag: Tag,
        ask: Ask,
    ) -> Result<Outcome, Missed> {
        loop {
            // Lock-free: if a plan cannot be carried out, another thread has replaced its word, or the CAS failed
            // spuriously. If this match were in a method of the plan, every decision would take four more instructions.
            match self.plan_plain(gcra, layout, shard, tag, ask)? {
                // The answer is correct as of the moment at which the word was read.
                PlainPlan::Told(outcome) => return Ok(outcome),
                PlainPlan::Charge(charge) => {
                    if let Some(outcome) = charge.carried_out(layout, shard, ask) {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    /// Plans a request for [`hit_plain`](Self::hit_plain), which carries the plan out.
    #[inline(always)]
    pub(in crate::keyed) fn plan_plain(
        &self,
        gcra: &Gcra,
        layout: &Layout,
        shard: &Shard,
        tag: Tag,
        ask: Ask,
    ) -> Result<PlainPlan, Missed> {
        let Ask { now_ns, cost, charge, .. } = ask;
        // `None` means that the cost is above the burst and never fits. The slow way denies the request, without an
        // instant to wait for.
        let (cost_ticks, room) = gcra.room_for(cost).ok_or(Missed::Afar)?;
        // Both numbers are copied, because the compiler would load them again after each Acquire load.
        let (back, mask) = (layout.back, layout.time_mask);
        // `earliest` depends on `now_ns` alone, so it is computed while the cache line is still being fetched. `read`
        // checks that `now_ns` is near to the floor, since only then do the low bits of a word name only one instant.
        let earliest = gcra.moment(now_ns).unit.wrapping_sub(back);
        let (cell, word) = self.read(shard, tag, now_ns)?;
        // The word's time, counted from `earliest`. In the same count, `now_ns` is `back`.
        let since = word.to_bits().wrapping_sub(earliest) & mask;
        // If the word's time is too far ahead of `now_ns`, the cost does not fit. The sum does not overflow, since
        // `back` and the burst fit in the time field, which has at most 62 bits.
        if since > back + room {
            return Ok(PlainPlan::Told(outcome(back, Verdict::Denied, [since; 2], now_ns, cost)));
        }
        // The cost fits, but the request does not charge.
        if !charge {
            return Ok(PlainPlan::Told(outcome(back, Verdict::Allowed, [since; 2], now_ns, 0)));
        }
        // If the word is idle, the cost is counted from `now_ns`, else from the word's time. The processor could not
        // predict a branch here, so the compiler is asked for a conditional move.
        let after = select_unpredictable(since < back, back, since) + cost_ticks;
        // The tag is above the time bits, and plain GCRA has no counts below them.
        let next = TableWord::from_bits(tag.to_bits() | (earliest.wrapping_add(after) & mask));
        Ok(PlainPlan::Charge(PlannedCharge { cell, word, next, since, after }))
    }

    /// Does the same as [`hit_plain`](Self::hit_plain), for every other verb.
    #[inline(never)]
    pub(in crate::keyed) fn hit_verb(
        &self,
        gcra: &Gcra,
        layout: &Layout,
        shard: &Shard,
        tag: Tag,
        ask: Ask,
    ) -> Result<Outcome, Missed> {
        decide_by(self, shard, tag, ask, |word| {
            layout.planned(gcra, layout.wish(ask), tag.into(), word, ask.now_ns)
        })
    }

    /// Decides in the key's cell, under any policy of the table.
    #[inline(never)]
    pub(in crate::keyed) fn hit(
        &self,
        shard: &Shard,
        tag: Tag,
        fresh: &mut Fresh<'_>,
    ) -> Result<Decision, Missed> {
        let ask = fresh.ask;
        match &self.cells {
            Cells::Plain(gcra, OneQuota { layout, .. }) => {
                let outcome = self.hit_plain(gcra, layout, shard, tag, ask)?;
                Ok(fresh.told(outcome, layout))
            }
            Cells::LaidOut(way, OneQuota { layout, .. }) => {
                let outcome = way(self, layout, shard, tag, ask)?;
                Ok(fresh.told(outcome, layout))
            }
            // The answer is computed with the quota that the word names.
            Cells::Several { book, .. } => {
                let told = |outcome, kernel: &Kernel| (outcome, *kernel);
                let coded = |word| book.coded_for(word, ask.quota);
                let (outcome, kernel) = priced(self, book, shard, tag, ask, coded, told)?;
                fresh.before = outcome.before;
                Ok(outcome.told(kernel, ask.now_ns, 0))
            }
            // A table of logs has no words to decide on.
            Cells::Logs(_) => Err(Missed::Afar),
        }
    }

    /// The cell and the live word of `tag` in a shard, if `now` is near to the floor.
    #[inline(always)]
    fn read(&self, shard: &Shard, tag: Tag, now_ns: u64) -> Result<(usize, TableWord), Missed> {
        let Division { words_per_tag, state_bits, epoch, .. } = self.division;
        let near = Near::to(now_ns, epoch);
        // If the hint was wrong, or `now` is not near, the slow way looks at every word.
        shard.read(tag, state_bits, |word, header| {
            is_live(word, tag, words_per_tag) && dates(header, near)
        })
    }
}

/// Decides in the key's cell, if this shard has the key and `now` is near to the floor. `step` returns the outcome of
/// the request on a word, and the next word.
#[inline(always)]
fn decide_by(
    table: &Table,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
    step: impl Fn(TableWord) -> (Outcome, TableWord),
) -> Result<Outcome, Missed> {
    loop {
        // If the key is not in this shard, or its request cannot be decided here, the slow way goes on.
        let (cell, word) = table.read(shard, tag, ask.now_ns)?;
        let (outcome, next) = step(word);
        // The outcome is valid if there is nothing to write, or if the write succeeds. Otherwise another thread has
        // replaced the word, or the CAS failed spuriously. The word is then read again.
        if next == word || shard.charge(cell, word, next) {
            return Ok(outcome);
        }
    }
}

/// Decides under a policy without rules for what happens at its limit.
fn plain<A: Algorithm>(
    table: &Table,
    layout: &Layout,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
) -> Result<Outcome, Missed> {
    // `None` means that the layout has another algorithm. The slow way can decide by every algorithm.
    let algorithm = A::of(&layout.kernel).ok_or(Missed::Afar)?;
    decide_by(table, shard, tag, ask, |word| {
        layout.planned(algorithm, ask.check(), tag.into(), word, ask.now_ns)
    })
}

/// Decides under a policy with rules for what happens at its limit.
fn ruled<A: Algorithm>(
    table: &Table,
    layout: &Layout,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
) -> Result<Outcome, Missed> {
    // `None` means that the layout has another algorithm, as in `plain`.
    let kernel = A::of(&layout.kernel).ok_or(Missed::Afar)?;
    let ruled = Ruled { kernel, rules: &layout.rules };
    decide_by(table, shard, tag, ask, |word| {
        layout.planned(&ruled, ask.check(), tag.into(), word, ask.now_ns)
    })
}

/// Calls [`priced`] and returns its outcome as a decision.
#[inline(never)]
pub(in crate::keyed) fn priced_decision(
    table: &Table,
    book: &Book,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
) -> Result<Decision, Missed> {
    // Requests under quotas that callers bring are decided in another function, so that a decision in a table of tiers
    // need not compare the word's quota with the request's quota.
    if book.takes_own() {
        return own_decision(table, book, shard, tag, ask);
    }
    told(table, book, shard, tag, ask, |word| book.coded_of(word))
}

/// [`priced_decision`] in a table whose callers bring their own quotas.
#[inline(never)]
fn own_decision(
    table: &Table,
    book: &Book,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
) -> Result<Decision, Missed> {
    told(table, book, shard, tag, ask, |word| book.coded_for(word, ask.quota))
}

#[inline(always)]
fn told(
    table: &Table,
    book: &Book,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
    coded: impl Fn(TableWord) -> Option<Coded>,
) -> Result<Decision, Missed> {
    priced(table, book, shard, tag, ask, coded, |outcome, kernel| {
        outcome.told(*kernel, ask.now_ns, 0)
    })
}

/// Decides by the quota that the word names, in a table of several quotas. `coded` returns the numbers of the quota,
/// unless the word must first be converted to another quota or its quota has rules for its limit. `told` makes the
/// answer from the outcome and the quota's kernel.
#[inline(always)]
fn priced<D>(
    table: &Table,
    book: &Book,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
    coded: impl Fn(TableWord) -> Option<Coded>,
    told: impl Fn(Outcome, &Kernel) -> D,
) -> Result<D, Missed> {
    loop {
        let (cell, word) = table.read(shard, tag, ask.now_ns)?;
        // A word whose quota has been replaced must first be re-based, and a word of a quota other than the request's
        // must be carried over. The slow way does both, and also decides by quotas that have rules for their limit.
        let Some(code) = coded(word) else {
            return Err(Missed::Afar);
        };
        // There is one arm for each algorithm, as in `Cells::of`. The quota's numbers name its algorithm.
        by_code!(code, A => {
            let layout = book.shared().of_code_as::<A>(code);
            // `of_code_as` makes a kernel of algorithm `A`, so this is never `None`.
            let algorithm = A::of(&layout.kernel).ok_or(Missed::Afar)?;
            let own = layout.own_of(word);
            let (outcome, next) =
                layout.planned(algorithm, ask.check(), own, word, ask.now_ns);
            // The numbers were read after the word. They belong to the word's quota if the word has not been replaced
            // since: see `lookup/price.rs`.
            let stands = if next == word {
                points::is_whole(shard.load(cell) == word)
            } else {
                shard.charge(cell, word, next)
            };
            // If the word is no longer in its cell, or the CAS failed spuriously, the word is read again.
            if stands {
                return Ok(told(outcome, &layout.kernel));
            }
        });
    }
}
