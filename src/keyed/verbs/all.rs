//! How a key takes part in a request under several limits: its charge can be undone.
//!
//! # Undo
//! If the key's word is still the word that the charge left, the word from before the charge is put back. Its time is
//! raised to the shard's floor, because a later floor could not read an earlier time. Under GCRA the part of the charge
//! that has drained since is not given back, because another request may have left the same bits: see `undo.rs`. A key
//! that was new keeps its cell, idle from the time of the charge on, until a newcomer needs the cell.
//!
//! If the word has changed, other requests have been charged since. Under GCRA the part of the charge that has not
//! drained is then given back, and under windows nothing: see `undo.rs`.
//!
//! A charge in the spill is not undone, since a word of the spill belongs to no single key.
//!
//! A word is put back at the floor, which is read before the compare-and-swap. Suppose that a thread sleeps for more
//! than an epoch between the two, while others advance the floor twice and leave the word unchanged. The thread then
//! puts back a word that is read as busy until its time wraps around. Such a word denies too much, never too little.

use crate::algorithm::{Decides, Held, Kernel};
use crate::clock::Timestamp;
use crate::decision::Decision;
use crate::refund::Found;
use crate::undo::{SKEW_NS, Undo};
use crate::verb::Verb;
use crate::verdict::Verdict;

use crate::keyed::Place;
use crate::keyed::lookup::hit::{PlainPlan, PlannedCharge};
use crate::keyed::memory::ask::{Ask, Fresh};
use crate::keyed::memory::layout::Layout;
use crate::keyed::memory::points;
use crate::keyed::memory::shard::{Header, TableWord};
use crate::keyed::table::words::FoundWord;
use crate::keyed::table::{Cells, OneQuota};

/// The state of the word before a charge, seen from the instant of the permit. The permit has the state after the
/// charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyTrace {
    before: Held,
}

impl Place<'_> {
    fn check_of(&self, cost: u64, now: Timestamp, charge: bool) -> Ask {
        Ask { now_ns: now.as_nanos(), cost, charge, verb: Verb::Check, quota: self.quota }
    }

    pub(crate) fn queue(&self) -> Option<[u64; 2]> {
        self.table.queue(self.quota)
    }

    #[inline(always)]
    pub(crate) fn counts_denials(&self) -> bool {
        self.table.counts_denials(self.quota)
    }

    pub(crate) fn peek(&self, cost: u64, now: Timestamp) -> Decision {
        let mut before = Held::IDLE; // nothing is charged
        let (verdict, view) =
            self.decide_slowly(self.check_of(cost, now, false), None, &mut before);
        Decision::new(verdict, view)
    }

    /// Decides as [`peek`](Self::peek) does, and plans the charge that [`check`](Self::check) would make.
    #[inline]
    pub(crate) fn admits(&self, cost: u64, now: Timestamp) -> (bool, Option<PlannedCharge>) {
        match self.plan(self.check_of(cost, now, cost > 0)) {
            // The answer needs no write, so nothing is left to carry out.
            Some(PlainPlan::Told(outcome)) => (outcome.verdict == Verdict::Allowed, None),
            // The request fits, and the CAS that charges it is known already. The CAS is carried out if all limits of
            // the request admit it and the word has not changed.
            Some(PlainPlan::Charge(charge)) => (true, Some(charge)),
            // The policy is not plain GCRA, the key is not at home, the time is not near the floor, or the cost never
            // fits: the slow way decides.
            None => (self.peek(cost, now).is_allowed(), None),
        }
    }

    /// Counts the denial of a request that [`admits`](Self::admits) has refused, and returns the denial; `None` if the
    /// policy counts no denials, if the key has no word to count it in, if its quota has been forgotten, or if the
    /// request would be admitted by now.
    ///
    /// Under a quota that the caller brings along a denial may carry the word over: see `lookup/slow/own.rs`.
    pub(crate) fn refuse(&self, cost: u64, now: Timestamp) -> Option<Decision> {
        let takes_own = self.table.takes_own();
        // There is no denial to count.
        if !(self.counts_denials() || takes_own) || cost == 0 {
            return None;
        }
        // This charges nothing, whatever it finds.
        let ask = Ask { verb: Verb::Refuse, ..self.check_of(cost, now, true) };
        let decision = match self.key() {
            Ok(key) => {
                let _pin = key.words.pinned(ask.quota).ok()?;
                let behind_word = Some(self.clock);
                key.look(&mut Fresh { behind_word, ..Fresh::new(ask, None) })?
            }
            Err((logs, identity, second)) => logs.refuse(identity, second, ask)?,
        };
        // If the request is not denied here, units have been given back meanwhile, and this limit would admit the
        // request.
        decision.is_denied().then_some(decision)
    }

    /// Carries out what [`admits`](Self::admits) has planned; `None` if the word has changed since.
    #[inline]
    pub(crate) fn carried_out(
        &self,
        plan: &PlannedCharge,
        cost: u64,
        now: Timestamp,
    ) -> Option<(Decision, KeyTrace)> {
        // A plan is made only for a table of one quota under plain GCRA.
        let Cells::Plain(gcra, OneQuota { layout, .. }) = &self.table.cells else {
            return None;
        };
        let ask = self.check_of(cost, now, true);
        let outcome = plan.carried_out(layout, self.home, ask)?;
        let decision = outcome.told(Kernel::Gcra(*gcra), now.as_nanos(), 0);
        Some((decision, KeyTrace { before: outcome.before }))
    }

    /// Decides and charges. If a cell was charged, the second part is what an undo needs.
    #[inline(never)]
    pub(crate) fn check(&self, cost: u64, now: Timestamp) -> (Decision, Option<KeyTrace>) {
        let ask = self.check_of(cost, now, cost > 0);
        if let Cells::Plain(gcra, OneQuota { layout, .. }) = &self.table.cells
            && let Ok(outcome) = self.table.hit_plain(gcra, layout, self.home, self.tag, ask)
        {
            let decision = outcome.told(Kernel::Gcra(*gcra), now.as_nanos(), 0);
            return traced(decision, outcome.before, ask);
        }
        // The policy is not plain GCRA, or the key is not in its home, or the floor is not near. The limits of a
        // request decide at times that were read before, so no clock is read again.
        let mut before = Held::IDLE;
        let (verdict, view) = self.decide_slowly(ask, None, &mut before);
        let decision = Decision::new(verdict, view);
        traced(decision, before, ask)
    }

    /// Plans a charge in the key's home, under plain GCRA.
    #[inline(always)]
    fn plan(&self, ask: Ask) -> Option<PlainPlan> {
        // Every other policy takes the slow way, where a plan would save nothing.
        let Cells::Plain(gcra, OneQuota { layout, .. }) = &self.table.cells else {
            return None;
        };
        self.table.plan_plain(gcra, layout, self.home, self.tag, ask).ok()
    }

    /// Undoes a charge as far as possible.
    pub(crate) fn undo(&self, trace: KeyTrace, undo: &Undo) {
        let (Ok(key), Some(layout)) = (self.key(), self.table.layout()) else {
            // In a table of several quotas the word may by now be counted in another quota than the charge was. A log
            // has no word.
            return undo.amends(self.clock, |now, amendment| self.amend(now, amendment));
        };
        // The permit charged nothing in this table.
        let Some(charge) = undo.permit.charge() else { return };
        let (ruled, tag, at_ns) = (layout.ruled(), self.tag, charge.at_ns);
        // These are the bits that the charge wrote. The word is compared with them.
        let left = layout.live(tag.into(), ruled.left(charge), &ruled, ruled.moment(at_ns));
        // Since the charge the key may have been forgotten and installed anew in another of its shards.
        for index in key.shards() {
            // The key may not be in this shard. If it is in none, it was forgotten and owes nothing. Lock-free: the
            // loop repeats only if another thread has changed the word.
            while let Some(FoundWord { cell, word, header, .. }) = key.words.find_dated(index, tag)
            {
                let next = if points::is_last(word == left) {
                    // The word has the bits that the charge left, so the word from before the charge is put back.
                    self.restored(layout, trace.before, at_ns, word, header, undo)
                } else {
                    // The time is read only now: the thread that charged this word read its clock before.
                    self.less_undrained(layout, word, header, undo)
                };
                // Return if there is nothing to give back, or if the word has been replaced now. Otherwise another
                // thread was faster, and the word is read again.
                if next == word || key.words.shard(index).charge(cell, word, next) {
                    return;
                }
            }
        }
    }

    /// The word from before the charge. Under GCRA it still owes the part of the charge that has drained by now. If the
    /// state is idle at the floor, the result is an idle word with the time of the floor.
    fn restored(
        &self,
        layout: &Layout,
        before: Held,
        at_ns: u64,
        word: TableWord,
        header: Header,
        undo: &Undo,
    ) -> TableWord {
        let (kernel, floor_ns) = (&layout.kernel, header.floor_ns());
        let ruled = layout.ruled();
        let at_floor = ruled.moment(floor_ns);
        // One of the two steps is 0, since the floor lies above the charge or below it.
        let before = before
            .seen_later(kernel.passed(at_ns, floor_ns))
            .seen_earlier(kernel.passed(floor_ns, at_ns));
        let charge = points::bounded_by(undo.permit.charge());
        let held = charge.map_or(before, |charge| {
            // The time is read only now: every thread that has charged this word read its clock before.
            let now = undo.fresh(self.clock).unwrap_or_else(|| undo.permit.asked_at());
            let held = layout.unpack(word, &ruled, at_floor);
            let found = Found { held, at_ns: floor_ns, now_ns: now.as_nanos().max(floor_ns) };
            ruled.rolled_back(found, before, charge)
        });
        // No time below the floor may be written: an idle word gets the floor's own time.
        let held = if ruled.is_idle(held, at_floor) { Held::IDLE } else { held };
        layout.live(self.tag.into(), held, &ruled, at_floor)
    }

    /// The word without the part of the charge that has not drained. Its time is no earlier than the floor.
    fn less_undrained(
        &self,
        layout: &Layout,
        word: TableWord,
        header: Header,
        undo: &Undo,
    ) -> TableWord {
        let (Some(now), Some(charge)) = (undo.fresh(self.clock), undo.permit.charge()) else {
            // No clock is known to read later than every charge in the word, so the charge stays until it has drained.
            return word;
        };
        // A window's count does not tell which request its units belong to.
        if !layout.kernel.is_gcra() {
            return word;
        }
        let at_ns = header.floor_ns();
        let ruled = layout.ruled();
        let at_floor = ruled.moment(at_ns);
        let held = layout.unpack(word, &ruled, at_floor);
        // The greatest difference between two clocks is added to the time. So only what has not drained by either clock
        // is given back.
        let now_ns = now.as_nanos().max(at_ns).saturating_add(SKEW_NS);
        let (next, _) = ruled.given_back(Found { held, at_ns, now_ns }, charge);
        // If nothing is to be given back, this returns the same word, and the caller writes nothing.
        if next == held { word } else { layout.live(self.tag.into(), next, &ruled, at_floor) }
    }
}

/// A decision and, if a cell was charged, the trace that an undo needs.
#[inline(always)]
fn traced(decision: Decision, before: Held, ask: Ask) -> (Decision, Option<KeyTrace>) {
    // A charge in the spill cannot be undone.
    let is_charged = ask.charge && decision.is_allowed() && !decision.is_spilled();
    (decision, is_charged.then_some(KeyTrace { before }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::keyed::KeyedLimiter;
    use crate::keyed::floors::floor::LAG_NS;
    use crate::keyed::memory::shard::GRANULE_BITS;
    use crate::{ManualClock, Quota};

    /// A limiter in which the first shard of key 7 has its floor at granule 1000.
    fn limiter(clock: &ManualClock) -> KeyedLimiter<u64> {
        let quota = Quota::per_second(1).burst(10);
        let limiter = KeyedLimiter::builder(quota).clock(clock.clone()).build(1).expect("it fits");
        advance(&limiter, 1_000);
        limiter
    }

    fn advance(limiter: &KeyedLimiter<u64>, granule: u64) {
        let first = limiter.place(&7).identity().first;
        let Ok(words) = limiter.table.words() else { panic!("logs") };
        words.advance(first, (granule << GRANULE_BITS) + LAG_NS);
        assert_eq!(limiter.table.shard(first).header().floor(), granule);
    }

    fn at(granule: u64) -> Timestamp {
        Timestamp::from_nanos(granule << GRANULE_BITS)
    }

    #[test]
    fn what_is_put_back_can_be_read_after_two_epochs() {
        let limiter = limiter(&ManualClock::new());
        let epoch = limiter.table.division.epoch;
        assert!(limiter.entry(&7).at(at(1_000)).check().is_allowed());
        advance(&limiter, 1_000 + epoch);
        // The key has been idle for nearly two epochs. It is still there only because no newcomer has needed its cell.
        let place = limiter.place(&7);
        let taken = at(1_000 + 2 * epoch);
        let (decision, trace) = place.check(1, taken);
        assert!(decision.is_allowed());
        advance(&limiter, 1_000 + 2 * epoch);
        place.undo(
            trace.expect("a charge"),
            &Undo { permit: decision.into_result().expect("allowed"), own_clock: false },
        );
        assert_eq!(limiter.entry(&7).at(at(1_000 + 3 * epoch)).peek(0).remaining(), 10);
    }

    /// Even if the caller gives the times, nothing that has drained is put back: other requests may have given back
    /// units and left the same bits since.
    #[test]
    fn what_has_drained_by_the_floor_is_not_put_back() {
        let limiter = limiter(&ManualClock::new());
        assert!(limiter.entry(&7).at(at(1_000)).check_n(5).is_allowed());
        let place = limiter.place(&7);
        let (decision, trace) = place.check(5, at(1_000));
        let later = at(1_000) + Duration::from_secs(3);
        advance(&limiter, later.as_nanos() >> GRANULE_BITS);
        let permit = decision.into_result().expect("allowed");
        place.undo(trace.expect("a charge"), &Undo { permit, own_clock: false });
        // Ten units were charged and three have drained, so seven are owed. The undo gives back two of its five.
        assert_eq!(limiter.entry(&7).at(later).peek(0).remaining(), 5);
    }

    #[test]
    fn the_floor_tells_what_has_drained_where_the_clock_is_behind() {
        let clock = ManualClock::new();
        clock.set(at(1_000));
        let limiter = limiter(&clock);
        let place = limiter.place(&7);
        let (decision, trace) = place.check(5, at(1_000));
        // Other threads read times that are eight seconds ahead, and advance the floor.
        let later = at(1_000) + Duration::from_secs(8);
        assert!(limiter.entry(&7).at(later).check().is_allowed());
        advance(&limiter, later.as_nanos() >> GRANULE_BITS);
        let permit = decision.into_result().expect("allowed");
        place.undo(trace.expect("a charge"), &Undo { permit, own_clock: true });
        assert_eq!(limiter.entry(&7).at(later).peek(0).remaining(), 9);
    }
}
