//! What a word holds after its quota has changed: what was spent, priced at the old rate up to the change
//! and at the new one after it.
//!
//! The word is carried to the instant of the change, where the old quota's debt becomes the new one's,
//! unit for unit, rounded up, and at most the new quota's limit and its queue. So what comes of it does not depend
//! on when a request comes.
//!
//! ```text
//! GCRA to GCRA         debt' = min(burst' + queue', ceil(debt))   in units, with their fractions
//! same windows         each count is kept, all together at most limit'
//! anything else        what the old quota had used of its limit then, at most limit', counts as charged
//!                      at the change
//! ```
//!
//! # The bound
//! Let T be the change, D by how much the latest decision under the old quota lies after T, and E by how
//! much the earliest under the new one lies before it: no more than decisions that were under way then, or than
//! clocks disagree. Under GCRA, in any interval [x, y] of times that contains T, a key is admitted at
//! most
//!
//! ```text
//! max(burst', burst + rate * D) + rate * (T - x) + rate' * (y - T + E)
//! ```
//!
//! and the tick of each quota. Proof: a key's word is re-based once, by one compare-and-swap, so all
//! charges under the old quota come before all under the new one. Let d be the debt at T that the old
//! ones leave. Each of them moved the TAT up by its cost from x or later, so they sum to at most
//! `d + rate * (T - x)`. The last of the new ones was admitted, so they sum to at most the burst' and what
//! has drained since their TAT began, less the debt that it began with: if d = 0 it began no earlier than the
//! first of them, and they sum to at most `burst' + rate' * (y - T + E)`; else it began at T with the debt
//! d' = min(d, burst'), and they sum to at most `burst' - d' + rate' * (y - T)`. (A queue keeps a larger d', which
//! admits less.) If d' = d the sum of
//! old and new is `burst'` and the two terms; if not, it is d and the two terms, and d is at most
//! `burst + rate * D`, since the last of the old ones was admitted, too. (A debt by `charge` or `reserve`
//! may be larger, by what those verbs admit.) An interval on one side of T, in which decisions of both
//! quotas lie all the same, is bounded as if it reached to T.
//!
//! So a burst that is raised gives the difference, and a burst that is lowered locks no key out for longer
//! than the new one and its queue take to come back: what is owed above that is forgiven. Places in a queue are among
//! what is owed, so those that the new queue has are not given out again. A caller that lowers a burst and raises it
//! again therefore gives that difference again; each change has the bound above.
//!
//! For windows: what the old quota still counted at T the new one counts in its window of T, up to its
//! limit; each quota's decisions keep to its own bound.

use super::{Decides, Held, Kernel, Moment, Penalty, Ruled};
use crate::sync::{Fault, planted};

/// A change of quota: from one algorithm to another, at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) old: &'a Kernel,
    pub(crate) new: &'a Kernel,
    pub(crate) at_ns: u64,
    /// What the places of the new queue owe beyond the burst, in the new quota's ticks; 0 without a queue.
    pub(crate) queue_ticks: u64,
}

impl Change<'_> {
    /// What a word of the old quota, seen from an instant, holds for the new one, seen from there.
    ///
    /// A word that had become idle before the change, and by that instant, owes nothing: it is as one never
    /// used there.
    pub(crate) fn rebased(&self, held: Held, seen_ns: u64) -> Held {
        let Self { old, new, at_ns, .. } = *self;
        let was_idle = seen_ns <= at_ns && old.is_idle(held, old.moment(seen_ns));
        if was_idle || planted(Fault::RebaseForgets) {
            return Held::IDLE;
        }
        if planted(Fault::RebaseReadsOldTicks) {
            return held;
        }
        // To the change, which lies before or after: one of the two distances is 0.
        let then =
            held.seen_earlier(old.passed(at_ns, seen_ns)).seen_later(old.passed(seen_ns, at_ns));
        // And back, by the time that passes for the new quota.
        let now = self
            .turned(then)
            .seen_later(new.passed(at_ns, seen_ns))
            .seen_earlier(new.passed(seen_ns, at_ns));
        // Drained since: as a word that was never used.
        if new.is_idle(now, new.moment(seen_ns)) { Held::IDLE } else { now }
    }

    /// The same at the instant of the change, for a word that keys share ([`crate::sketch`]).
    ///
    /// It holds no less than a word of each of its keys' own, and what comes of it holds no less than what would
    /// come of that: all of the above only grows with what was held. There is one case in which a shared word
    /// may hold less of a key: another key has turned its window, ahead of the change, and what counts of the
    /// key in the window before stands in other words. Windows that go on as they are compare it with those; where
    /// it would be counted anew it is full.
    pub(crate) fn rebased_shared(&self, held: Held) -> Held {
        let is_turned = held.ahead > 0 && !self.old.is_gcra() && !self.keeps_windows();
        if is_turned && !planted(Fault::RebaseForgets) {
            return self.charged_anew(self.new.limit());
        }
        self.rebased(held, self.at_ns)
    }

    /// Whether the windows of both quotas are the same ones, so that counts are kept as they are.
    fn keeps_windows(&self) -> bool {
        match (self.old, self.new) {
            (Kernel::FixedWindow(old), Kernel::FixedWindow(new)) => old.window == new.window,
            (Kernel::CalendarMonth(_), Kernel::CalendarMonth(_)) => true,
            (Kernel::FromFirst(old), Kernel::FromFirst(new)) => {
                (old.window_ns, old.quantum) == (new.window_ns, new.quantum)
            }
            (Kernel::SlidingWindow(old), Kernel::SlidingWindow(new)) => old.window == new.window,
            (Kernel::SegmentedWindow(old), Kernel::SegmentedWindow(new)) => {
                (old.segment, old.segments) == (new.segment, new.segments)
            }
            _ => false,
        }
    }

    /// The same at the instant of the change itself.
    fn turned(&self, held: Held) -> Held {
        match (self.old, self.new) {
            (
                Kernel::Gcra(old) | Kernel::RuledGcra(old),
                Kernel::Gcra(new) | Kernel::RuledGcra(new),
            ) => {
                let debt = new.ticks_of(old, held.ahead.into());
                let kept = new.burst_ticks.saturating_add(self.queue_ticks);
                let ahead = u64::try_from(debt).unwrap_or(u64::MAX).min(kept);
                Held { ahead, ..Held::IDLE }
            }
            // Other windows, or a window for a bucket: only how much is used means the same in both.
            _ if !self.keeps_windows() => self.counted_anew(held),
            (Kernel::SlidingWindow(old), Kernel::SlidingWindow(new)) => {
                // Each count by itself: the two are never more than a limit each.
                let (previous, current) = old.split(held.counts);
                let [previous, current] = [previous, current].map(|n| n.min(new.limit()));
                Held { counts: new.joined(previous, current), ..held }
            }
            (Kernel::SegmentedWindow(old), Kernel::SegmentedWindow(new)) => new.repacked(old, held),
            // One count.
            _ => Held { counts: held.counts.min(self.new.limit()), ..held },
        }
    }

    /// What was used of the old limit, charged at the change.
    fn counted_anew(&self, held: Held) -> Held {
        let Self { old, new, at_ns, .. } = *self;
        self.charged_anew(old.used(held, old.moment(at_ns)).min(new.limit()))
    }

    fn charged_anew(&self, units: u64) -> Held {
        let Self { new, at_ns, .. } = *self;
        // No more than the limit, which fits in a word that holds nothing.
        new.step(Held::IDLE, new.moment(at_ns), 0, units).unwrap_or(Held::IDLE)
    }
}

/// What happens at the limit goes along: a row of denials, as far as the new quota does not penalise it yet; and a
/// penalty, to its end, but no longer than the new quota penalises from the change on. A quota that knows no penalty
/// counts one as its whole limit: what is owed under a penalty was never more.
impl Ruled<'_> {
    /// A word as [`Change::rebased`], from these rules to others.
    pub(crate) fn rebased(&self, new: &Self, held: Held, [at_ns, seen_ns]: [u64; 2]) -> Held {
        let queue_ticks = new.queue_ticks();
        let change = Change { old: self.kernel, new: new.kernel, at_ns, queue_ticks };
        if self.rules.penalty.is_none() && new.rules.penalty.is_none() {
            return change.rebased(held, seen_ns);
        }
        // At the change: one of the two distances is 0.
        let then = held
            .seen_earlier(self.kernel.passed(at_ns, seen_ns))
            .seen_later(self.kernel.passed(seen_ns, at_ns));
        let turned = match (self.free(then, self.moment(at_ns)), &new.rules.penalty) {
            (Some((own, denials)), penalty) => {
                // One more denial penalises, if these are as many.
                let most = penalty.map_or(0, |penalty| penalty.after - 1);
                new.join(change.rebased(own, at_ns), denials.min(most))
            }
            (None, Some(penalty)) => {
                let left_ns = self.end_ns(then, at_ns).saturating_sub(at_ns);
                let length_ns = left_ns.clamp(1, penalty.length_ns);
                new.penalised(&Penalty { length_ns, ..*penalty }, Held::IDLE, at_ns)
            }
            (None, None) => change.charged_anew(new.kernel.limit()),
        };
        let seen = turned
            .seen_later(new.kernel.passed(at_ns, seen_ns))
            .seen_earlier(new.kernel.passed(seen_ns, at_ns));
        if new.is_idle(seen, new.moment(seen_ns)) { Held::IDLE } else { seen }
    }

    /// What the last place in the queue owes beyond the burst.
    fn queue_ticks(&self) -> u64 {
        let (Some([wait_ns, places]), Kernel::Gcra(gcra) | Kernel::RuledGcra(gcra)) =
            (self.rules.queue, self.kernel)
        else {
            return 0;
        };
        // Both bound it; the word has room for the nearer one (`ticks_ahead` in policy/needs.rs).
        let ticks = gcra.ticks(wait_ns).min(u128::from(places) * u128::from(gcra.unit_ticks));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// How much of the limit is used; under a penalty all of it.
    pub(crate) fn used(&self, held: Held, moment: Moment) -> u64 {
        let own = self.free(held, moment);
        own.map_or(self.kernel.limit(), |(own, _)| self.kernel.used(own, moment))
    }
}

impl Kernel {
    /// The units that a word counts against its key at a moment, rounded up: more than the limit if more
    /// than that is owed.
    pub(crate) fn used(&self, held: Held, moment: Moment) -> u64 {
        match self {
            Self::Gcra(gcra) => held.ahead.div_ceil(gcra.unit_ticks()),
            _ => self.limit().saturating_sub(self.remaining(held, moment, 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        FixedWindow, FromFirst, Gcra, Packing, Rounding, SegmentedWindow, SlidingWindow,
    };
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn gcra(count: u64, period_s: u64, burst: u64, unit_bits: u8) -> Kernel {
        Kernel::Gcra(Gcra::new(count, period_s * SECOND, burst, unit_bits))
    }

    /// What is owed, in ticks of the new quota, `later` after a debt of so many old ticks was seen.
    fn owed(old: &Kernel, new: &Kernel, ahead: u64, [seen, changed, later]: [u64; 3]) -> u64 {
        let [seen_ns, at_ns, later_ns] = [seen, changed, later].map(|second| second * SECOND);
        let change = Change { old, new, at_ns, queue_ticks: 0 };
        let held = change.rebased(Held { ahead, ..Held::IDLE }, seen_ns);
        held.seen_later(new.passed(seen_ns, later_ns)).ahead
    }

    #[test]
    fn a_debt_is_the_same_whenever_it_is_read() {
        let [old, new] = [gcra(1, 1, 40, 8), gcra(6, 60, 40, 12)];
        // 30 units at 100 s: 20 at the change at 110 s, and one less in each 10 s after it.
        for seen in [100, 104, 110, 115, 120] {
            let ahead = (30 - (seen - 100)) << 8;
            assert_eq!(owed(&old, &new, ahead, [seen, 110, 120]), 19 << 12, "seen at {seen} s");
            assert_eq!(owed(&old, &new, ahead, [seen, 110, 150]), 16 << 12, "seen at {seen} s");
        }
    }

    #[test]
    fn a_debt_that_coarser_ticks_cannot_tell_is_rounded_up_and_one_above_the_burst_is_cut() {
        let [fine, coarse] = [gcra(1, 1, 40, 12), gcra(1, 1, 4, 8)];
        assert_eq!(owed(&fine, &coarse, 1, [100, 100, 100]), 1);
        assert_eq!(owed(&fine, &coarse, (1 << 12) + 1, [100, 100, 100]), (1 << 8) + 1);
        assert_eq!(owed(&fine, &coarse, 30 << 12, [100, 100, 100]), 4 << 8);
        assert_eq!(owed(&coarse, &fine, 3, [100, 100, 100]), 3 << 4);
    }

    #[test]
    fn what_was_idle_owes_nothing_and_what_had_not_drained_by_the_change_does() {
        let [fast, slow] = [gcra(1, 1, 40, 8), gcra(1, 3_600, 40, 8)];
        let change =
            |at_s: u64| Change { old: &fast, new: &slow, at_ns: at_s * SECOND, queue_ticks: 0 };
        assert_eq!(change(110).rebased(Held::IDLE, 100 * SECOND), Held::IDLE);
        // Drained at 104 s by the old rate; at 102 s the new one came, and two units were owed.
        let held = Held { behind: 6 << 8, ..Held::IDLE };
        let owed = change(102).rebased(held, 110 * SECOND).ahead;
        let passed = slow.passed(102 * SECOND, 110 * SECOND);
        assert_eq!(owed, (2 << 8) - passed);
    }

    #[test]
    fn counts_of_equal_windows_are_kept_up_to_the_new_limit() {
        let fixed = |limit| Kernel::FixedWindow(FixedWindow::new(limit, 60 * SECOND));
        let sliding = |limit, bits| {
            let window = SlidingWindow::new(limit, 60 * SECOND, Rounding::Exact, bits);
            Kernel::SlidingWindow(window)
        };
        let ring = |limit, packing| {
            Kernel::SegmentedWindow(SegmentedWindow::new(limit, 20 * SECOND, 3, 4, packing))
        };
        let counts = |old: &Kernel, new: &Kernel, counts| {
            let change = Change { old, new, at_ns: 70 * SECOND, queue_ticks: 0 };
            change.rebased(Held { counts, ..Held::IDLE }, 70 * SECOND).counts
        };
        assert_eq!(counts(&fixed(9), &fixed(12), 8), 8);
        assert_eq!(counts(&fixed(9), &fixed(5), 8), 5);
        let from_first = |limit| Kernel::FromFirst(FromFirst::new(limit, 60 * SECOND, SECOND));
        assert_eq!(counts(&from_first(9), &from_first(12), 8), 8);
        assert_eq!(counts(&from_first(9), &from_first(5), 8), 5);
        // Previous 7 and current 6, four bits each; then three.
        assert_eq!(counts(&sliding(9, 4), &sliding(5, 3), 0x76), 0o55);
        assert_eq!(counts(&sliding(9, 4), &sliding(6, 3), 0x76), 0o66);
        // Oldest first: 4, 3, 2. The newest are kept.
        assert_eq!(
            counts(&ring(9, Packing::SIDE_BY_SIDE), &ring(12, Packing::SIDE_BY_SIDE), 0x432),
            0x432
        );
        assert_eq!(
            counts(&ring(9, Packing::SIDE_BY_SIDE), &ring(6, Packing::SIDE_BY_SIDE), 0x432),
            0x132
        );
        assert_eq!(
            counts(&ring(9, Packing::SIDE_BY_SIDE), &ring(4, Packing::SIDE_BY_SIDE), 0x432),
            0x022
        );
        for (packing, _) in Packing::all(6, 3) {
            let packed = counts(&ring(9, Packing::SIDE_BY_SIDE), &ring(6, packing), 0x432);
            assert_eq!(counts(&ring(6, packing), &ring(6, Packing::SIDE_BY_SIDE), packed), 0x132);
        }
    }

    /// Decisions of other threads may already have opened the window after the change.
    #[test]
    fn a_window_ahead_of_the_change_is_kept_where_windows_are_equal_and_counted_at_it_where_not() {
        let kernels: [fn(u64) -> Kernel; 4] = [
            |s| Kernel::FixedWindow(FixedWindow::new(9, s * SECOND)),
            |s| Kernel::FromFirst(FromFirst::new(9, s * SECOND, SECOND)),
            |s| Kernel::SlidingWindow(SlidingWindow::new(9, s * SECOND, Rounding::Exact, 4)),
            |s| {
                Kernel::SegmentedWindow(SegmentedWindow::new(
                    9,
                    s * SECOND,
                    3,
                    4,
                    Packing::SIDE_BY_SIDE,
                ))
            },
        ];
        for kernel in kernels {
            let [old, equal, other] = [60, 60, 30].map(kernel);
            let held = Held { ahead: 1, behind: 0, counts: 5 };
            let rebased = |new| Change { old: &old, new, at_ns: 70 * SECOND, queue_ticks: 0 };
            let rebased = |new| rebased(new).rebased(held, 70 * SECOND);
            assert_eq!(rebased(&equal), held, "{old:?}");
            assert_eq!(rebased(&other), Held { ahead: 0, ..held }, "{old:?}");
        }
    }

    #[test]
    fn what_was_used_is_counted_anew_where_windows_differ() {
        let [long, short] = [60, 10].map(|s| Kernel::FixedWindow(FixedWindow::new(9, s * SECOND)));
        let bucket = gcra(1, 1, 20, 8);
        let change = |old, new| Change { old, new, at_ns: 70 * SECOND, queue_ticks: 0 };
        let held = Held { counts: 8, ..Held::IDLE };
        let used = |kernel: &Kernel, held| kernel.used(held, kernel.moment(70 * SECOND));
        assert_eq!(used(&short, change(&long, &short).rebased(held, 70 * SECOND)), 8);
        assert_eq!(used(&bucket, change(&long, &bucket).rebased(held, 70 * SECOND)), 8);
        let debt = Held { ahead: (7 << 8) + 1, ..Held::IDLE };
        assert_eq!(used(&long, change(&bucket, &long).rebased(debt, 70 * SECOND)), 8);
        let deep = Held { ahead: 40 << 8, ..Held::IDLE };
        assert_eq!(used(&long, change(&bucket, &long).rebased(deep, 70 * SECOND)), 9);
        // More may be owed than the bucket holds.
        let wide = Kernel::FixedWindow(FixedWindow::new(50, 60 * SECOND));
        assert_eq!(used(&wide, change(&bucket, &wide).rebased(deep, 70 * SECOND)), 40);
    }
}
