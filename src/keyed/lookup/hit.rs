//! The path of nearly every decision: the key has a cell in the shard at hand, and the request's time is near to the
//! floor.
//!
//! One line is read: header, cells, header. The two readings of the header are equal, install counter included. So no
//! floor was published and no install begun in between, and the word that was found is dated by this floor. A request
//! takes the slow way if the key is not in this shard, the time is not near, or the quota has just been replaced.
//!
//! Plain GCRA is decided by special inline code, because its word is a time and nothing else. Every other policy is
//! decided out of line, by code that is compiled twice for each algorithm: without rules and with them. In a table of
//! several quotas the word names the quota.

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
    /// The cells of a table of one quota. The code that decides in them is chosen here, once, and not at each decision.
    pub(in crate::keyed) fn of(layout: Layout) -> Self {
        fn of<A: Algorithm>(_: &A, is_plain: bool) -> LaidOut {
            if is_plain { plain::<A> } else { ruled::<A> }
        }
        let quota = OneQuota { layout, spill: None };
        // The macro has an arm for each algorithm: the function that is named in it is compiled for
        // that algorithm alone.
        match &layout.kernel {
            Kernel::Gcra(gcra) if layout.rules.are_none() => Self::Plain(*gcra, quota),
            kernel => {
                let way = laid_out!(kernel, one => of(one, layout.rules.are_none()));
                Self::LaidOut(way, quota)
            }
        }
    }
}

/// A decision on a word of plain GCRA as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlainPlan {
    /// Nothing is to be written: this is the answer.
    Told(Outcome),
    Charge(PlannedCharge),
}

/// A word that is to be replaced by the next one. The plan is right as long as the word is in its cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCharge {
    cell: usize,
    word: TableWord,
    next: TableWord,
    /// The times of the word and of the next one, counted from the earliest time that a word may hold now. The outcome
    /// is made from these times. It is larger than they are, so the plan does not carry it.
    since: u64,
    after: u64,
}

impl PlannedCharge {
    /// Carries the plan out for its request, however late. `None` if the word has been replaced.
    #[inline(always)]
    pub(in crate::keyed) fn carried_out(
        &self,
        layout: &Layout,
        shard: &Shard,
        ask: Ask,
    ) -> Option<Outcome> {
        // The CAS is from the exact word that the plan was made on. If the word is unchanged, no thread has charged,
        // forgotten or re-based it since, and the same plan would be made now.
        let is_charged = shard.charge(self.cell, self.word, self.next);
        let Self { since, after, .. } = *self;
        is_charged
            .then(|| outcome(layout.back, Verdict::Allowed, [since, after], ask.now_ns, ask.cost))
    }
}

/// The outcome on a word of plain GCRA. The times `before` and `after` are counted from an instant that lies `back`
/// units before now.
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
    /// Decides in the key's cell, if this shard holds it and `now` is near. Lock-free: each turn of the loop that does
    /// not end it means that another thread has charged, installed or advanced something.
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
            // Lock-free: a plan that cannot be carried out was made on a word that another thread has replaced. This
            // match stands here, because in a method of the plan it would take four instructions more in every
            // decision.
            match self.plan_plain(gcra, layout, shard, tag, ask)? {
                // The answer is right for the moment at which the word was read.
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
        // `None` means that the cost is above the burst and never fits. Its denial names no instant, and the slow way
        // decides it.
        let (cost_ticks, room) = gcra.room_for(cost).ok_or(Missed::Afar)?;
        // These are copied, because after a load that acquires the compiler would load them anew.
        let (back, mask) = (layout.back, layout.time_mask);
        // This is computed before the word is read, so that the line may arrive meanwhile. It depends on `now` alone.
        // `read` checks that `now` is near the floor: only then do the low bits name one instant.
        let earliest = gcra.moment(now_ns).unit.wrapping_sub(back);
        let (cell, word) = self.read(shard, tag, now_ns)?;
        // The word's time, counted from the earliest time that it may hold. `back` stands for now.
        let since = word.to_bits().wrapping_sub(earliest) & mask;
        // The word's time lies too far ahead of now for the cost to fit. The sum does not overflow: `back` and the
        // burst lie within the time field, which has 62 bits at most.
        if since > back + room {
            return Ok(PlainPlan::Told(outcome(back, Verdict::Denied, [since; 2], now_ns, cost)));
        }
        // This is a question, and the cost would fit.
        if !charge {
            return Ok(PlainPlan::Told(outcome(back, Verdict::Allowed, [since; 2], now_ns, 0)));
        }
        // An idle word's time is replaced by now. The machine cannot predict whether a word is idle, so this is not a
        // branch.
        let after = select_unpredictable(since < back, back, since) + cost_ticks;
        // The tag lies above the bits of the mask, and plain GCRA has no counts beneath them.
        let next = TableWord::from_bits(tag.to_bits() | (earliest.wrapping_add(after) & mask));
        Ok(PlainPlan::Charge(PlannedCharge { cell, word, next, since, after }))
    }

    /// As [`hit_plain`](Self::hit_plain), for every other verb.
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

    /// Decides by the table's policy, whichever that is.
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
            // The word names the quota by which the answer is worked out.
            Cells::Several { book, .. } => {
                let told = |outcome, kernel: &Kernel| (outcome, *kernel);
                let coded = |word| book.coded_for(word, ask.quota);
                let (outcome, kernel) = priced(self, book, shard, tag, ask, coded, told)?;
                fresh.before = outcome.before;
                Ok(outcome.told(kernel, ask.now_ns, 0))
            }
            // A log is decided in its slots.
            Cells::Logs(_) => Err(Missed::Afar),
        }
    }

    /// The live word of `tag` in a shard and its cell, if `now` is near.
    #[inline(always)]
    fn read(&self, shard: &Shard, tag: Tag, now_ns: u64) -> Result<(usize, TableWord), Missed> {
        let Division { words_per_tag, state_bits, epoch, .. } = self.division;
        let near = Near::to(now_ns, epoch);
        // Otherwise the hint was wrong or `now` is not near, and the slow way looks at every word.
        shard.read(tag, state_bits, |word, header| {
            is_live(word, tag, words_per_tag) && dates(header, near)
        })
    }
}

/// Decides in the key's cell, if this shard holds it and `now` is near. `step` gives the outcome of the request on a
/// word, and the next word.
#[inline(always)]
fn decide_by(
    table: &Table,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
    step: impl Fn(TableWord) -> (Outcome, TableWord),
) -> Result<Outcome, Missed> {
    loop {
        // The key is not here, or cannot be decided here: the slow way goes on.
        let (cell, word) = table.read(shard, tag, ask.now_ns)?;
        let (outcome, next) = step(word);
        // Either there is nothing to write, or it has been written. Otherwise another thread has replaced the word, and
        // it is read anew.
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
    // `None` means that the layout is another algorithm's: the slow way decides by any of them.
    let algorithm = A::of(&layout.kernel).ok_or(Missed::Afar)?;
    decide_by(table, shard, tag, ask, |word| {
        layout.planned(algorithm, ask.check(), tag.into(), word, ask.now_ns)
    })
}

/// Decides under a policy with such rules.
fn ruled<A: Algorithm>(
    table: &Table,
    layout: &Layout,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
) -> Result<Outcome, Missed> {
    // `None` means that the layout is another algorithm's, as in `plain`.
    let kernel = A::of(&layout.kernel).ok_or(Missed::Afar)?;
    let ruled = Ruled { kernel, rules: &layout.rules };
    decide_by(table, shard, tag, ask, |word| {
        layout.planned(&ruled, ask.check(), tag.into(), word, ask.now_ns)
    })
}

/// [`priced`], with a decision as its answer.
#[inline(never)]
pub(in crate::keyed) fn priced_decision(
    table: &Table,
    book: &Book,
    shard: &Shard,
    tag: Tag,
    ask: Ask,
) -> Result<Decision, Missed> {
    // This is compiled apart, since in a table of tiers a decision need not compare the word's quota with that of the
    // request.
    if book.takes_own() {
        return own_decision(table, book, shard, tag, ask);
    }
    told(table, book, shard, tag, ask, |word| book.coded_of(word))
}

/// [`priced_decision`] in a table whose callers bring quotas along.
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

/// Decides by the quota that the word names, in a table of several quotas. `coded` gives the numbers of the quota,
/// unless the word has to be brought to another quota first. `told` makes the answer from the outcome and the
/// arithmetic of the quota.
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
        // A word whose quota has been replaced is re-based first, and one of another quota is carried over.
        let Some(code) = coded(word) else {
            return Err(Missed::Afar);
        };
        // There is one arm for each algorithm, as in `Cells::of`. The numbers of the quota say which it is.
        by_code!(code, A => {
            let layout = book.shared().of_code_as::<A>(code);
            // `of_code_as` makes a kernel of this algorithm, so there is always one.
            let algorithm = A::of(&layout.kernel).ok_or(Missed::Afar)?;
            let own = layout.own_of(word);
            let (outcome, next) =
                layout.planned(algorithm, ask.check(), own, word, ask.now_ns);
            // The numbers were read after the word. As long as the word has not been replaced, they are those of its
            // quota: see `price`.
            let stands = if next == word {
                points::is_whole(shard.load(cell) == word)
            } else {
                shard.charge(cell, word, next)
            };
            // Otherwise the word was charged meanwhile, or its quota was replaced: it is read anew.
            if stands {
                return Ok(told(outcome, &layout.kernel));
            }
        });
    }
}
