//! How keys that have no cell are decided in a [`Spill`], and how they get a cell without losing what they owe.
//!
//! The spill is a sketch ([`crate::sketch`]): it forgets no key's charge, however many keys it holds, but
//! denies more wrongly the more it holds. A key's cells there follow from its tag and its units, so that
//! keys which the table takes for one are one key here, too.
//!
//! # Between the spill and the table nothing is lost
//! A *spiller* decides a key that has no cell, an *installer* gives it one:
//!
//! ```text
//! spiller                                      installer
//! reads the floors, decides from now or        claims a cell
//!   the later floor, charges the sketch        fence
//! marks how long that will matter              verifies (see `install`)
//! fence                                        reads the floors, the mark, and if that lies
//! looks at all of its shards again:              ahead: what the sketch says the key owes
//!   its word      -> is decided there          decides from there
//!   its claim     -> vacates it                opens its claim
//!   a later floor -> is decided anew
//! ```
//!
//! Let X be admitted by the spill, and let I be an install of the same key that opens its cell c.
//!
//! *I claimed c after X looked at c for the last time.* If X vacated a claim there, I's claim is a later
//! read-modify-write of the same cell. So it synchronises with X's write, and I sees X's charge. If X only read c, it
//! read a word older than I's claim. X's fence lies before X's reading of c, and I's fence lies behind I's claim. So
//! X's fence comes first in the order of fences. What X did before its fence is seen by I after I's fence: I finds the
//! mark and the charge.
//!
//! *I claimed c before that, and X read the claim.* X vacates it, so I does not open.
//!
//! *I claimed c before that, and X read a word that came after the claim.* If that is the live word, X is decided
//! there, and its charge stays in the sketch for nothing. If it is a later word, the key was forgotten in between,
//! below a floor. X has seen that word, so it finds the floor when it reads the headers next. If X's base is not below
//! that floor, everything that the key was charged in c had drained by then. If it is below, X is decided anew from
//! that floor.
//!
//! So each of the key's charges is in the word that decides for it next, or has drained. The floor sees to this for
//! charges in a cell (`floor`), and the estimate for charges in the spill. A key that has a live cell when its decision
//! stands was never decided by the spill. I claims the cell before it reads the sketch. If it read first, X could
//! charge after that reading and look at the cell before the claim: neither would see the other.
//!
//! # How long it matters
//! A mark is the instant after which no charge matters any more that the spill has made for a key of the mark's shards.
//! It only grows. Under a single quota it is written after the charge. Under several it is written before, since what a
//! key will owe is not known then. Both are sound: charge and mark come before the spiller's fence. For a base at the
//! mark or later the estimate would be nothing, so the sketch is not read. So a table that has not been full lately
//! never reads it. Marks are absolute times beside the shards, one for 64 of them; in the headers they would have few
//! bits, and would have to be lowered each time that a floor moves.
//!
//! # Several quotas
//! In a table of several quotas, or of one quota that changes, all of this holds in each tier. The keys of a tier have
//! their own hashes, and their own cells of the sketch. Spiller and installer read their tier's quota before they read
//! the sketch (`book`). The head of `settle` says how the sketch's words follow a change of the quota.
//!
//! # What it costs
//! * A spilled request may leave its cost in the sketch although it was denied, or decided in a cell: up to once for
//!   every time that it had to be decided anew. That cost drains, and can only deny.
//! * Nothing here can be undone or refunded: see [`crate::sketch`].
//! * No thread waits. A spiller that is disturbed [`ROUNDS`] times is denied.
//! * A reservation is admitted if it can be used at once, as under windows. A charge into debt is remembered up to
//!   twice the burst, or a little less if several threads charge one key at once.

use crate::algorithm::{Answers, Change, Decides, Figures, Held, Kernel};
use crate::decision::{Decision, View};
use crate::sync::{Ordering, scale};
use crate::verdict::{Mark, Verdict};

use crate::keyed::floors::base::base_ns;
use crate::keyed::memory::ask::{Ask, Fresh};
use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{Header, OwnBits, TableWord, cells};
use crate::keyed::quotas::book::Book;
use crate::keyed::table::words::{Key, TierQuota};

use crate::keyed::overflow::store::{Asked, Spill, SpillTold};

/// How often a spilled request is decided, or looks at its shards, before it is denied. Each time another thread has
/// claimed or opened a cell for the same key, or a floor has passed the request.
// An install has as many rounds: three disturbances in a row are rare.
const ROUNDS: usize = 8;

/// The result of a spiller's second look at its shards.
enum Again {
    /// There is no cell for the key, so the decision stands.
    Stands,
    /// The key has a cell, and was decided there.
    Decided(Decision),
    /// Another thread was faster, so the spiller has to look once more.
    Disturbed,
    /// A floor lies above the instant of the decision.
    Passed,
}

impl Key<'_> {
    /// Decides for a key that has no cell and gets none now; `None` if the spill does not decide it.
    #[cold]
    pub(in crate::keyed) fn decide_in_spill(&self, fresh: &mut Fresh<'_>) -> Option<Decision> {
        let spill = self.words.spill()?;
        // These are the same in every round, because they follow from the key, whatever becomes of its quota.
        let (places, mark) = (
            spill.places(self.identity, self.second, fresh.ask.quota.number),
            spill.mark(self.identity, self.second),
        );
        let mut rounds = 0..scale::rounds(ROUNDS);
        // The loop ends: each turn uses up a round, unless another thread has changed a quota meanwhile.
        loop {
            // As for an install, the base is no earlier than any floor below which the key may have been forgotten.
            let at_ns = base_ns(self.headers(), fresh);
            // `None` means that the words of the sketch have no room for this quota, so the table denies.
            let (lens, layout, _) = spill.lens(self.words.quotas, &places)?;
            // Beyond this instant the sketch's times stand still, so a charge would never drain.
            if at_ns > lens.kernel.latest_ns() {
                return None;
            }
            // Cells that keys share cannot keep the bound of this quota.
            if !lens.is_shared() {
                return None;
            }
            let asked = Asked { places: &places, mark, at_ns, ask: &fresh.ask };
            // Lock-free: the loop repeats only if the quota has been changed meanwhile.
            let Some(told) = spill.decide(&lens, asked) else { continue };
            // Only a charge can be missed by an installer that reads too early, so only after a charge the spiller has
            // to look for an installer.
            let charged = told.verdict == Verdict::Allowed && told.cost > 0;
            loop {
                // A question or a denial charges nothing that could be missed. It is enough that there is no cell.
                let again =
                    points::look_again(Again::Stands, || self.look_again(at_ns, charged, fresh));
                match again {
                    Again::Stands => {
                        // There has been no cell and no later floor since: the sketch's decision is the answer.
                        let (kernel, own) = (&lens.kernel, &layout.kernel);
                        return Some(self.spilled(told, at_ns, kernel, own, fresh));
                    }
                    // A cell was opened meanwhile. The charge in the sketch stays there until it has drained.
                    Again::Decided(decision) => return Some(decision),
                    // The spiller tries again. After the last try the request is denied.
                    Again::Disturbed | Again::Passed => rounds.next()?,
                };
                // The request is decided anew from the later floor. Otherwise the decision may still stand, and the
                // spiller looks once more.
                if matches!(again, Again::Passed) {
                    break;
                }
            }
        }
    }

    /// Looks if the key has got a cell, or is about to get one, since it was decided at `at`.
    fn look_again(&self, at_ns: u64, charged: bool, fresh: &mut Fresh<'_>) -> Again {
        // SeqCst: this is the other place that needs a total order. The charge comes before this look, and an
        // installer's claim before it reads what the key owes. With a fence in between, at least one of them sees the
        // other.
        if charged {
            points::fence_after_charge();
        }
        // The shards are looked at after the fence. A claim that is not seen here comes later, from a thread that reads
        // the charge after a fence of its own.
        for index in self.shards() {
            let shard = self.words.shard(index);
            for cell in cells() {
                let word = shard.load(cell);
                // An installer was faster: the request is decided in the key's cell.
                if self.words.division.is_live(word, self.tag()) {
                    let hit = self.words.hit_slowly(self, index, fresh);
                    // There is no hit if the word was forgotten or replaced in between.
                    return hit.map_or(Again::Disturbed, Again::Decided);
                }
                // An install that may have read the sketch before this charge must not open.
                let is_rival = charged && self.words.division.is_claim_of(word, self.tag());
                if points::vacates_rival(is_rival) && !shard.replace(cell, word, TableWord::VACANT)
                {
                    // The claim has just been opened or given back.
                    return Again::Disturbed;
                }
            }
        }
        // The floors are read after the words: a thread that no longer sees the key's word sees the floor below which
        // the key was forgotten. The key may have had a cell since, with charges that had drained by that floor and not
        // by `at_ns`.
        let passed = |header: Header| header.floor_ns() > at_ns;
        let is_passed = charged && self.headers().into_iter().any(passed);
        // The sketch keeps this charge and gets another one, which can only deny more.
        if points::is_decided_anew(is_passed) {
            return Again::Passed;
        }
        Again::Stands
    }

    /// The decision on a request in the sketch. Its answers are worked out now, since they cannot be computed later
    /// from the outcome, as those of a word of the table are.
    fn spilled(
        &self,
        told: SpillTold,
        at_ns: u64,
        kernel: &Kernel,
        own: &Kernel,
        fresh: &mut Fresh<'_>,
    ) -> Decision {
        let (SpillTold { verdict, cost, held }, ask) = (told, fresh.ask);
        // The wait is worked out by the sketch's arithmetic, from the instant of its decision. The request itself may
        // be late.
        let (limit, late) = (kernel.limit(), kernel.lateness(ask.now_ns, at_ns));
        // A cost above the limit never fits, so there is no wait to name.
        let ready_ns = if verdict == Verdict::Allowed || cost > limit {
            ask.now_ns
        } else {
            // At the end of the wait a cell may be free, and a cell's ticks are coarser than the sketch's.
            let carried = own.carried(held, kernel, at_ns);
            // It is the later of the two, so that the request fits by either arithmetic.
            own.ready_ns(carried, at_ns, cost).max(kernel.ready_ns(held, at_ns, cost))
        };
        // All answers are worked out, although the caller may not ask for them: the cells may hold something else by
        // then.
        let answers = Answers {
            limit,
            remaining: kernel.remaining(held, kernel.moment(at_ns), late),
            ready_ns,
            idle_ns: kernel.idle_ns(held, at_ns),
            spilled: true,
            slots: None,
        };
        self.tell_spilled(verdict, answers, cost, 0, fresh)
    }

    /// Marks a decision as one of the spill's, and counts it.
    fn tell_spilled(
        &self,
        verdict: Verdict,
        answers: Answers,
        cost: u64,
        soft_bp: u16,
        fresh: &Fresh<'_>,
    ) -> Decision {
        // A question is no decision of a request, and is not counted.
        self.words.tallies.spilled(self.home(), u64::from(fresh.ask.charge));
        // The answers are numbers here, and not a word with its arithmetic.
        let (figures, now_ns) = (Figures::Known(answers), fresh.ask.now_ns);
        let mark = Mark::None;
        Decision::new(verdict, View { figures, at_ns: now_ns, now_ns, cost, soft_bp, mark })
    }

    /// The denial of a newcomer for which there is a cell of this quota, but which the spill denies at `at`, perhaps
    /// for other keys' charges. So it is marked as a denial of the spill; `None` if the spill holds nothing against the
    /// key.
    pub(in crate::keyed) fn denied_by_spill(
        &self,
        layout: &Layout,
        owed: Held,
        at_ns: u64,
        cost: u64,
        fresh: &mut Fresh<'_>,
    ) -> Option<Decision> {
        let (kernel, moment, now_ns) =
            (&layout.kernel, layout.kernel.moment(at_ns), fresh.ask.now_ns);
        let late = kernel.lateness(now_ns, at_ns);
        // There is no penalty: a denial of a key without a cell is not counted.
        let (held, _) = layout.ruled().free(owed, layout.ruled().moment(at_ns))?;
        // For an idle key `owed` is always `Held::IDLE`. A cost above the limit is denied whatever the key owes.
        if held == Held::IDLE || cost > kernel.limit() {
            return None;
        }
        // The answer is made by the quota of the cell that the key would get. The debt has been converted to the
        // arithmetic of that quota.
        let answers = Answers {
            limit: kernel.limit(),
            remaining: kernel.remaining(held, moment, late),
            ready_ns: kernel.ready_ns(held, at_ns, cost),
            idle_ns: kernel.idle_ns(held, at_ns),
            spilled: true,
            slots: None,
        };
        // The key gets no cell, so the request counts as one of the spill.
        Some(self.tell_spilled(Verdict::Denied, answers, cost, layout.rules.soft_bp, fresh))
    }

    /// The debt of a key that gets a cell of this quota at `at_ns`, seen from that instant, as far as the spill knows
    /// it. It is nothing if no charge in the spill can still matter. A charge may ask for it only with a verified
    /// claim, after reading the floors and the quota. A question may always ask. `None` if the quota has been changed
    /// since.
    #[inline(always)]
    pub(in crate::keyed) fn owed(&self, at_ns: u64, quota: TierQuota<'_>) -> Option<Held> {
        // A table without a spill denies a key that has no cell, so its newcomers owe nothing.
        let Some(spill) = self.words.spill() else { return Some(Held::IDLE) };
        // Relaxed: the claim's fence orders it, see the header.
        let mark_ns = spill.mark(self.identity, self.second).load(Ordering::Relaxed);
        if points::owes_nothing(mark_ns <= at_ns) {
            // No charge in the spill matters at this instant any more.
            return Some(Held::IDLE);
        }
        self.owed_in_spill(spill, at_ns, quota)
    }

    #[inline(never)]
    fn owed_in_spill(&self, spill: &Spill, at_ns: u64, quota: TierQuota<'_>) -> Option<Held> {
        let TierQuota { tier, layout, own: quota_bits } = quota;
        let (book, kernel) = (self.words.book(), &layout.kernel);
        let places = spill.places(self.identity, self.second, tier);
        // After the latest instant the sketch's times stand still. Its state is seen from that instant, which gives a
        // larger debt.
        let seen_ns = at_ns.min(kernel.latest_ns());
        let (held, counted_in) = loop {
            let (lens, own, counted_in) = spill.lens(self.words.quotas, &places)?;
            // Lock-free: the loop repeats only if the quota has been changed meanwhile.
            if let Some(held) = spill.estimate(&lens, &places, seen_ns) {
                // The debt is in the ticks of the quota that the cells are counted in, rounded up.
                break (own.kernel.carried(held, &lens.kernel, seen_ns), (own.kernel, counted_in));
            }
        };
        let own = match (book, counted_in) {
            (Some(book), (old, counted_in)) if counted_in != quota_bits => {
                // The cells are counted in another quota than the caller's. If the caller's is the replaced one, the
                // caller has to read its quota again.
                if book.in_force(tier.into()).own != quota_bits {
                    return None;
                }
                // The tier has been turned, but the instant of the change is not written yet: now is taken for it, as
                // by a decision that is under way.
                let (at_ns, most) = (seen_ns, layout.ahead);
                let [old_queue_ticks, queue_ticks] = [0; 2]; // a spill keeps no order
                let new = kernel;
                let max_counts = new.limit(); // as everywhere in the spill
                let change = Change {
                    old: &old,
                    new,
                    at_ns,
                    old_queue_ticks,
                    queue_ticks,
                    most,
                    max_counts,
                };
                change.rebased_shared(held, None).held
            }
            // There is one quota, or the cells are counted in the caller's already.
            _ => held,
        };
        // An idle state has one form: no drained debt and no count of a window that is over is carried into the word.
        let is_idle = kernel.is_idle(own, kernel.moment(seen_ns));
        Some(if is_idle { Held::IDLE } else { layout.ruled().join(own, 0) })
    }

    /// The surplus of a key that gets a cell, as the spill knows it and as it stands in a word. Only the thread that
    /// holds a verified claim asks for it. If the quota has been changed since, that claim cannot be opened.
    #[inline(always)]
    pub(in crate::keyed) fn surplus_from_spill(&self, at_ns: u64, quota: TierQuota<'_>) -> OwnBits {
        // Only quotas that may change leave a surplus.
        let book = self.words.book();
        book.map_or_else(OwnBits::default, |book| self.spilled_surplus(book, at_ns, quota))
    }

    #[inline(never)] // so that it costs newcomers of one quota nothing
    fn spilled_surplus(&self, book: &Book, at_ns: u64, quota: TierQuota<'_>) -> OwnBits {
        let TierQuota { tier, layout, own } = quota;
        let Some(spill) = self.words.spill() else { return OwnBits::default() };
        // Relaxed, as in `owed`: no charge in the spill matters any more.
        if spill.mark(self.identity, self.second).load(Ordering::Relaxed) <= at_ns {
            return OwnBits::default();
        }
        // No unit that was spent before the quota in force matters any more.
        let Some(former) = book.former_of(own).flatten().filter(|former| at_ns < former.until_ns)
        else {
            return OwnBits::default();
        };
        let places = spill.places(self.identity, self.second, tier);
        let seen_ns = at_ns.min(layout.kernel.latest_ns());
        let known = spill.lens(self.words.quotas, &places).and_then(|(lens, _, counted_in)| {
            // In words of another quota the surplus is unknown, so it is taken for the largest that there is.
            (counted_in == own).then(|| spill.surplus(&lens, &places, seen_ns, &former))?
        });
        match known.unwrap_or(former.most) {
            0 => OwnBits::default(),
            units => layout.surplus_bits_of(units, &former),
        }
    }

    /// The units that a key without a cell owes in the spill, rounded up.
    pub(in crate::keyed) fn owed_units(&self, ask: Ask) -> u64 {
        loop {
            // There is no clock here: the caller's time counts, and only a floor can be later.
            let (mut lane, mut fresh) = (None, Fresh::new(ask, None));
            // The quota is read anew in each turn, as the floors are.
            let quota = self.words.quota_of(ask.quota, &mut lane);
            let at_ns = base_ns(self.headers(), &mut fresh);
            if let Some(held) = self.owed(at_ns, quota) {
                let ruled = quota.layout.ruled();
                return ruled.used(held, ruled.moment(at_ns));
            }
            // Lock-free: the loop repeats only if the quota has been changed meanwhile.
        }
    }
}
