//! How requests of keys without a cell are decided in a [`Spill`], and how such a key gets a cell and keeps its debt.
//!
//! The spill is a sketch ([`crate::sketch`]). It never forgets a charge, but the more keys it holds, the more requests
//! it denies wrongly. A key's cells in the sketch follow from its tag and its shards, so two keys that share a word in
//! the table also share their cells in the sketch.
//!
//! # Between the spill and the table nothing is lost
//! A *spiller* is a thread that decides a request of a key without a cell. An *installer* is a thread that gives the
//! key a cell:
//!
//! ```text
//! spiller                                      installer
//! reads the floors; decides as of now or of    claims a cell
//!   a later floor; charges the sketch          fence
//! marks how long the charge will matter        verifies (see `install`)
//! fence                                        reads the floors and the mark; if the mark
//! looks at all shards of the key again:          is later: reads the debt in the sketch
//!   the key's word  -> is decided there        decides with that debt
//!   the key's claim -> vacates it              opens its claim
//!   a later floor   -> is decided anew
//! ```
//!
//! Let X be a spiller whose request the spill admits, and let Y be an installer of the same key that opens cell c.
//!
//! *Y claimed c after X's last look at c.* If X vacated a claim in c, Y's claim is a later read-modify-write of c. So
//! Y's claim synchronises with X's write, and Y sees X's charge. If X only read c, the word that X read is older than
//! Y's claim. X's fence comes before X's read of c, and Y's fence comes after Y's claim. So X's fence is the first of
//! the two in the order of fences. After its own fence, Y sees what X wrote before X's fence: the mark and the charge.
//!
//! *Y claimed c before X's last look at c, and X read the claim.* X vacates the claim, so Y does not open it.
//!
//! *Y claimed c before X's last look at c, and X read a word that came after the claim.* If this is the key's live
//! word, X's request is decided there, and the charge in the sketch was not needed. If this is a later word, the key
//! was forgotten in between, below some floor. X sees that floor when it next reads the headers, because X has seen a
//! word that was written after the floor. If X's base is at or above that floor, all charges of the key in c had
//! drained by X's base. If X's base is below that floor, X's request is decided anew from the floor.
//!
//! So each charge of the key is in the word that decides the key's next request, or has drained. The floor guarantees
//! this for charges in a cell (`floor.rs`), and the estimate from the sketch guarantees it for charges in the spill. A
//! decision of the spill stands only if the second look has found no live word of the key. The installer must claim its
//! cell before it reads the sketch. Otherwise X could charge after Y has read the sketch, and look at c before Y claims
//! it. Then X would not see Y's claim, and Y would not see X's charge.
//!
//! # How long a charge matters
//! Each group of 64 shards has a mark. The mark is the instant after which no charge of the group's keys in the spill
//! matters any more, and it only grows. Under a single quota the mark is written after the charge. Under several quotas
//! the mark is written before the charge, since the key's debt after the charge is not known in advance. Both orders
//! are sound, because charge and mark come before the spiller's fence. A key whose base is at the mark or later owes
//! nothing in the spill, so the sketch is not read for it. A table that has not been full lately never reads the
//! sketch. Marks are absolute times in memory of their own. In the headers of shards they would have few bits, and
//! would have to be rewritten each time that a floor moves.
//!
//! # Several quotas
//! In a table of several quotas, or of one quota that changes, all of this holds for each tier. The keys of a tier have
//! their own hashes, and their own cells of the sketch. Spiller and installer read their tier's quota before they read
//! the sketch (`book.rs`). The head of `settle.rs` says how the sketch's words are converted after a change of the
//! quota.
//!
//! # What it costs
//! * A spilled request may leave its cost in the sketch although it was denied or decided in a cell. This can happen
//!   each time that the request is decided anew. The cost drains, and can only lead to denials.
//! * A charge in the spill can be neither undone nor refunded: see [`crate::sketch`].
//! * No thread waits. A spiller that is disturbed more than [`ROUNDS`] times is denied.
//! * A reservation is admitted only if it can be used at once, as under a policy of windows. A charge that goes into
//!   debt is remembered up to twice the burst, or a little less if several threads charge the key at the same time.

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

/// How often a spilled request may be disturbed; at the next disturbance it is denied. A request is disturbed if a word
/// of its key changes while the shards are looked at, or if a floor passes the request's base.
// This is as many rounds as an install has. Three disturbances in a row are rare.
const ROUNDS: usize = 8;

/// The result of a spiller's second look at the shards of its key.
enum Again {
    /// The key still has no cell, so the spill's decision stands.
    Stands,
    /// The key has a cell, and was decided there.
    Decided(Decision),
    /// A word changed during the look, so the spiller must look once more.
    Disturbed,
    /// A floor is now above the instant of the decision.
    Passed,
}

impl Key<'_> {
    /// Decides a request whose key has no cell and gets none now; `None` if the spill does not decide it.
    #[cold]
    pub(in crate::keyed) fn decide_in_spill(&self, fresh: &mut Fresh<'_>) -> Option<Decision> {
        let spill = self.words.spill()?;
        // Places and mark follow from the key alone, so they are the same in every round.
        let (places, mark) = (
            spill.places(self.identity, self.second, fresh.ask.quota.number),
            spill.mark(self.identity, self.second),
        );
        let mut rounds = 0..scale::rounds(ROUNDS);
        // The loop ends: each turn uses up a round, unless another thread has changed a quota meanwhile.
        loop {
            // As for an install, the base is no earlier than any floor below which the key may have been forgotten.
            let at_ns = base_ns(self.headers(), fresh);
            // This is never `None` in a table with a spill: see `Spill::lens`.
            let (lens, layout, _) = spill.lens(self.words.quotas, &places)?;
            // The sketch cannot express a later time than `latest_ns`, so a charge that is made after that instant
            // would never drain.
            if at_ns > lens.kernel.latest_ns() {
                return None;
            }
            // Cells that several keys share cannot keep the bound of this quota, so the table denies.
            if !lens.is_shared() {
                return None;
            }
            let asked = Asked { places: &places, mark, at_ns, ask: &fresh.ask };
            // Lock-free: the loop repeats only if the quota has been changed meanwhile.
            let Some(told) = spill.decide(&lens, asked) else { continue };
            // An installer that reads the sketch too early can miss only a charge, so the spiller looks for installers
            // only after a charge.
            let charged = told.verdict == Verdict::Allowed && told.cost > 0;
            loop {
                // After a charge, this look also vacates claims of the key. Without a charge, it only finds whether the
                // key has a cell by now.
                let again =
                    points::look_again(Again::Stands, || self.look_again(at_ns, charged, fresh));
                match again {
                    Again::Stands => {
                        // The look found no cell and no later floor, so the sketch's decision is the answer.
                        let (kernel, own) = (&lens.kernel, &layout.kernel);
                        return Some(self.spilled(told, at_ns, kernel, own, fresh));
                    }
                    // A cell was opened meanwhile. The charge in the sketch stays there until it has drained.
                    Again::Decided(decision) => return Some(decision),
                    // A round is used up. After the last round the spill gives no decision, and the request is denied.
                    Again::Disturbed | Again::Passed => rounds.next()?,
                };
                // If the floor of one of the key's shards is now later than `at_ns`, the instant as of which the
                // request was decided, the request is decided anew, as of that floor or later. Otherwise the decision
                // may still stand, and the spiller looks once more.
                if matches!(again, Again::Passed) {
                    break;
                }
            }
        }
    }

    /// Checks whether the key has got a cell, or is about to get one, since the spill decided its request at `at_ns`.
    fn look_again(&self, at_ns: u64, charged: bool, fresh: &mut Fresh<'_>) -> Again {
        // SeqCst, because spiller and installer need a total order. A spiller charges, passes this fence, and looks for
        // claims. An installer claims, passes its fence, and reads the debt. So at least one of them sees the other.
        if charged {
            points::fence_after_charge();
        }
        // The shards are looked at after the fence. If a claim is not seen here, it is made later, by a thread that
        // reads the charge after a fence of its own.
        for index in self.shards() {
            let shard = self.words.shard(index);
            for cell in cells() {
                let word = shard.load(cell);
                // An installer has opened a cell, so the request is decided there.
                if self.words.division.is_live(word, self.tag()) {
                    let hit = self.words.hit_slowly(self, index, fresh);
                    // `None` means that the word was forgotten or replaced meanwhile.
                    return hit.map_or(Again::Disturbed, Again::Decided);
                }
                // An install that may have read the sketch before this charge must not open its claim.
                let is_rival = charged && self.words.division.is_claim_of(word, self.tag());
                if points::vacates_rival(is_rival) && !shard.replace(cell, word, TableWord::VACANT)
                {
                    // The claim has just been opened, given back, vacated or taken over.
                    return Again::Disturbed;
                }
            }
        }
        // The floors are read after the words: a thread that no longer sees the key's word sees the floor below which
        // the key was forgotten. Meanwhile the key may have had a cell with charges that had drained by that floor, but
        // not by `at_ns`.
        let passed = |header: Header| header.floor_ns() > at_ns;
        let is_passed = charged && self.headers().into_iter().any(passed);
        // If the request is decided anew, the sketch keeps the first charge and gets a second one, which can only deny
        // more.
        if points::is_decided_anew(is_passed) {
            return Again::Passed;
        }
        Again::Stands
    }

    /// The decision on a request in the sketch. Its answers are computed now. Unlike the answers of a word in the
    /// table, they cannot be computed from the outcome later.
    fn spilled(
        &self,
        told: SpillTold,
        at_ns: u64,
        kernel: &Kernel,
        own: &Kernel,
        fresh: &mut Fresh<'_>,
    ) -> Decision {
        let (SpillTold { verdict, cost, held }, ask) = (told, fresh.ask);
        // The wait is computed from the instant of the sketch's decision, since the request's own time may be earlier.
        let (limit, late) = (kernel.limit(), kernel.lateness(ask.now_ns, at_ns));
        // A cost above the limit never fits, so there is no wait to name.
        let ready_ns = if verdict == Verdict::Allowed || cost > limit {
            ask.now_ns
        } else {
            // At the end of the wait the key may get a cell, whose ticks are coarser than the sketch's.
            let carried = own.carried(held, kernel, at_ns);
            // The wait ends when the request fits both in a cell and in the sketch.
            own.ready_ns(carried, at_ns, cost).max(kernel.ready_ns(held, at_ns, cost))
        };
        // All answers are computed now, even if the caller never reads them, because the sketch's cells may change
        // later.
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

    /// Marks a decision as made by the spill, and counts it.
    fn tell_spilled(
        &self,
        verdict: Verdict,
        answers: Answers,
        cost: u64,
        soft_bp: u16,
        fresh: &Fresh<'_>,
    ) -> Decision {
        // A request that does not charge is not counted.
        self.words.tallies.spilled(self.home(), u64::from(fresh.ask.charge));
        // The decision carries the answers as numbers, not a word from which they are computed later.
        let (figures, now_ns) = (Figures::Known(answers), fresh.ask.now_ns);
        let mark = Mark::None;
        Decision::new(verdict, View { figures, at_ns: now_ns, now_ns, cost, soft_bp, mark })
    }

    /// The denial of a new key that could get a cell, but is denied for its debt in the spill as of `at_ns`. That debt
    /// may come from other keys' charges, so the denial counts as a decision of the spill. `None` if the key owes
    /// nothing in the spill, or if the cost is above the limit and never fits.
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
        // A penalty cannot be the reason: denials of a key without a cell are not counted.
        let (held, _) = layout.ruled().free(owed, layout.ruled().moment(at_ns))?;
        // For an idle key `owed` is always `Held::IDLE`. A cost above the limit is denied whatever the key owes.
        if held == Held::IDLE || cost > kernel.limit() {
            return None;
        }
        // The answer is computed with the quota of the cell that the key would get. `owed` has already been converted
        // to that quota.
        let answers = Answers {
            limit: kernel.limit(),
            remaining: kernel.remaining(held, moment, late),
            ready_ns: kernel.ready_ns(held, at_ns, cost),
            idle_ns: kernel.idle_ns(held, at_ns),
            spilled: true,
            slots: None,
        };
        // The key gets no cell, so the request is counted as spilled.
        Some(self.tell_spilled(Verdict::Denied, answers, cost, layout.rules.soft_bp, fresh))
    }

    /// The debt in the spill, as of `at_ns`, of a key that gets a cell under this quota. The debt is zero if no charge
    /// in the spill can still matter. A request that charges may call this only with a verified claim, after it has
    /// read the floors and the quota. A request that does not charge may call this at any time. `None` if the quota has
    /// been changed since.
    #[inline(always)]
    pub(in crate::keyed) fn owed(&self, at_ns: u64, quota: TierQuota<'_>) -> Option<Held> {
        // A table without a spill denies keys that have no cell, so a new key owes nothing there.
        let Some(spill) = self.words.spill() else { return Some(Held::IDLE) };
        // Relaxed: the fence after the claim orders this load, see the head of this file.
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
        // The sketch cannot express a later time than `latest_ns`. If `at_ns` is later, the debt is computed as of
        // `latest_ns`, which makes the debt larger.
        let seen_ns = at_ns.min(kernel.latest_ns());
        let (held, counted_in) = loop {
            let (lens, own, counted_in) = spill.lens(self.words.quotas, &places)?;
            // Lock-free: the loop repeats only if the quota has been changed meanwhile.
            if let Some(held) = spill.estimate(&lens, &places, seen_ns) {
                // The sketch's cells may still be counted in a replaced quota. The debt is converted to the ticks of
                // that quota's words, and rounded up.
                break (own.kernel.carried(held, &lens.kernel, seen_ns), (own.kernel, counted_in));
            }
        };
        let own = match (book, counted_in) {
            (Some(book), (old, counted_in)) if counted_in != quota_bits => {
                // The sketch's cells are counted in a quota other than the caller's. If it is the caller's quota that
                // has been replaced, the caller must read its quota again.
                if book.in_force(tier.into()).own != quota_bits {
                    return None;
                }
                // The tier already has its new quota, but the instant of the change is not written yet. The present
                // instant is used instead, as in a decision during the change.
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
            // There is one quota, or the sketch's cells are already counted in the caller's quota.
            _ => held,
        };
        // All idle states must have one form. So neither a drained debt nor the count of a window that has ended is
        // written into the word.
        let is_idle = kernel.is_idle(own, kernel.moment(seen_ns));
        Some(if is_idle { Held::IDLE } else { layout.ruled().join(own, 0) })
    }

    /// The surplus in the spill of a key that gets a cell, as the bits that a word holds. Only the thread that holds a
    /// verified claim may call this. If the quota has been changed since, that claim cannot be opened.
    #[inline(always)]
    pub(in crate::keyed) fn surplus_from_spill(&self, at_ns: u64, quota: TierQuota<'_>) -> OwnBits {
        // Only quotas that may change leave a surplus.
        let book = self.words.book();
        book.map_or_else(OwnBits::default, |book| self.spilled_surplus(book, at_ns, quota))
    }

    #[inline(never)] // so that new keys in a table of one quota do not pay for this code
    fn spilled_surplus(&self, book: &Book, at_ns: u64, quota: TierQuota<'_>) -> OwnBits {
        let TierQuota { tier, layout, own } = quota;
        let Some(spill) = self.words.spill() else { return OwnBits::default() };
        // Relaxed, as in `owed`. From the instant of the mark on, no charge in the spill matters any more.
        if spill.mark(self.identity, self.second).load(Ordering::Relaxed) <= at_ns {
            return OwnBits::default();
        }
        // There is no former quota, or its units do not matter any more.
        let Some(former) = book.former_of(own).flatten().filter(|former| at_ns < former.until_ns)
        else {
            return OwnBits::default();
        };
        let places = spill.places(self.identity, self.second, tier);
        let seen_ns = at_ns.min(layout.kernel.latest_ns());
        let known = spill.lens(self.words.quotas, &places).and_then(|(lens, _, counted_in)| {
            // If the cells are counted in another quota, the surplus is unknown, and the largest possible surplus is
            // used.
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
            // No clock is read here: the debt is as of the caller's time, or as of a floor that is later.
            let (mut lane, mut fresh) = (None, Fresh::new(ask, None));
            // Quota and floors are read anew in each turn.
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
