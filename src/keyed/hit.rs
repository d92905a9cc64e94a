//! The path of nearly every decision: in a cell of the shard at hand, at a time that its floor is near to.
//!
//! One line is read: header, cells, header. The two readings of the header are equal, so no floor was published and no
//! install begun in between, and the word that was found is dated by this floor. Everything else goes the slow way: keys
//! that are not here, times that are not near, and policies that say what happens at their limit.
//!
//! Twice: for plain GCRA, in line and laid out for what its word is, a time; and for windows, once for each.

use std::hint::select_unpredictable;

use crate::algorithm::{Decides, Gcra, Held, Kernel};
use crate::decision::Verdict;
use crate::sync::{Fault, planted};

use super::hint::hint;
use super::shard::Shard;
use super::table::{Ask, Outcome, Table};

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
            let cell = hint(shard, tag, &self.layout)?;
            let before = shard.header();
            let word = shard.load(cell);
            let header =
                if planted(Fault::HeaderOnlyBeforeWords) { before } else { shard.header() };
            if header != before {
                continue;
            }
            let is_near = self.layout.is_near(header, now_ns) || planted(Fault::DecodeAgainstNow);
            if !self.layout.is_live(word, tag) || !is_near {
                return None;
            }
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

    /// The same for windows: the one place that asks which one it is.
    #[inline(never)]
    pub(super) fn hit_window(&self, shard: &Shard, tag: u64, ask: Ask) -> Option<Outcome> {
        if !self.layout.rules.are_none() {
            return None;
        }
        match self.kernel() {
            Kernel::FixedWindow(window) => self.hit_counted(window, shard, tag, ask),
            Kernel::FromFirst(window) => self.hit_counted(window, shard, tag, ask),
            Kernel::SlidingWindow(window) => self.hit_counted(window, shard, tag, ask),
            Kernel::SegmentedWindow(window) => self.hit_counted(window, shard, tag, ask),
            Kernel::Gcra(_) | Kernel::RuledGcra(_) | Kernel::Log(_) => None,
        }
    }

    #[inline(always)]
    fn hit_counted(
        &self,
        window: &impl Decides,
        shard: &Shard,
        tag: u64,
        ask: Ask,
    ) -> Option<Outcome> {
        let Ask { now_ns, cost, charge, .. } = ask;
        let moment = window.moment(now_ns);
        loop {
            let cell = hint(shard, tag, &self.layout)?;
            let before = shard.header();
            let word = shard.load(cell);
            let header =
                if planted(Fault::HeaderOnlyBeforeWords) { before } else { shard.header() };
            if header != before {
                continue;
            }
            let is_near = self.layout.is_near(header, now_ns) || planted(Fault::DecodeAgainstNow);
            if !self.layout.is_live(word, tag) || !is_near {
                return None;
            }
            let held = self.layout.unpack(word, window, moment);
            let Some(next) = window.step(held, moment, 0, cost) else {
                return Some(Outcome::plain(Verdict::Denied, [held; 2], now_ns, cost));
            };
            if !charge {
                return Some(Outcome::plain(Verdict::Allowed, [held; 2], now_ns, 0));
            }
            if shard.charge(cell, word, self.layout.live(tag, next, window, moment)) {
                return Some(Outcome::plain(Verdict::Allowed, [held, next], now_ns, cost));
            }
        }
    }
}
