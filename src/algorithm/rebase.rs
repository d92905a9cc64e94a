//! What a word holds after its quota has changed: what was spent, priced at the old rate up to the change
//! and at the new one after it; and what of it the new quota cannot count.
//!
//! The word is carried to the instant of the change, where the old quota's debt becomes the new one's,
//! unit for unit, rounded up, and at most the new quota's limit and its queue. So what comes of it does not depend
//! on when a request comes. What is cut off there is kept beside it, as the word's [surplus](super::surplus), and added
//! again by the next change as far as it still counts then.
//!
//! ```text
//! GCRA to GCRA         debt' = min(burst' + queue', ceil(debt + surplus)) + overdraft'
//! same windows         each count is kept, all together at most limit', then what fits of the surplus
//! anything else        what the old quota had used of its limit then, and the surplus, at most limit', counts as
//!                      charged at the change
//! surplus'             what was owed at the change, less what the new quota counts of it
//! ```
//!
//! The *overdraft* is what was owed beyond the old burst and its queue, by charges into debt. Under a limit that is no
//! lower it stays owed: in units, or for the time that it would have taken at the old rate, whichever is over sooner.
//! A lower limit counts none of it, so that no key waits for more than it.
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
//! d' = min(d, burst'), and they sum to at most `burst' - d' + rate' * (y - T)`. (A queue keeps a larger d', and so
//! does an overdraft, which admits less.) If d' = d the sum of
//! old and new is `burst'` and the two terms; if not, it is d and the two terms, and d is at most
//! `burst + rate * D`, since the last of the old ones was admitted, too. (A debt by `charge` or `reserve`
//! may be larger, by what those verbs admit.) An interval on one side of T, in which decisions of both
//! quotas lie all the same, is bounded as if it reached to T.
//!
//! Over several changes the surplus takes the place of a proof from change to change. Let (B, R) be the largest quota
//! that was in force, and a second word stay under it all the time, charged with everything that the key is admitted.
//! By [`surplus`](super::surplus) the debt and the surplus of the key's word together are no less than the debt of that
//! second word, for as long as it takes B to drain at R. So what a change back to (B, R) leaves to be admitted is no
//! more than if the quota had never been changed: to and fro gives no more than the largest limit that was in force,
//! and after each change at most the new limit less what was spent. What is lowered locks no key out for longer than
//! one unit of the new quota takes to come back, beyond the places of its queue.
//!
//! For windows: what the old quota still counted at T the new one counts in its window of T, up to its
//! limit, and the rest is the surplus; each quota's decisions keep to its own bound.

use super::{Decides, Former, Held, Kernel, Moment, Penalty, Ruled};
use crate::sync::{Fault, planted};

/// A change of quota: from one algorithm to another, at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) old: &'a Kernel,
    pub(crate) new: &'a Kernel,
    pub(crate) at_ns: u64,
    /// What the places of the old queue owe beyond the burst, in the old quota's ticks; 0 without a queue.
    pub(crate) old_queue_ticks: u64,
    /// The same of the new queue, in the new quota's ticks.
    pub(crate) queue_ticks: u64,
    /// The furthest that a word of the new quota may lie ahead, in its ticks.
    pub(crate) most: u64,
}

/// What a change makes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebased {
    /// What the new quota counts.
    pub(crate) held: Held,
    /// Units that were spent and that it does not count.
    pub(crate) surplus: u64,
}

impl Rebased {
    const NOTHING: Self = Self { held: Held::IDLE, surplus: 0 };
}

/// The surplus of a word, and the quota that it was spent under. `None` if it has none, which is nearly always.
pub(crate) type Kept<'a> = Option<(&'a Former, u64)>;

impl Change<'_> {
    /// What a word of the old quota, seen from an instant, holds for the new one, seen from there.
    ///
    /// A word that had become idle before the change, and by that instant, owes nothing but its surplus: it is as one
    /// never used there.
    pub(crate) fn rebased(&self, held: Held, kept: Kept<'_>, seen_ns: u64) -> Rebased {
        let Self { old, new, at_ns, .. } = *self;
        let was_idle = seen_ns <= at_ns && old.is_idle(held, old.moment(seen_ns));
        if (was_idle && kept.is_none()) || planted(Fault::RebaseForgets) {
            return Rebased::NOTHING;
        }
        if planted(Fault::RebaseReadsOldTicks) {
            return Rebased { held, surplus: 0 };
        }
        // To the change, which lies before or after: one of the two distances is 0.
        let then =
            held.seen_earlier(old.passed(at_ns, seen_ns)).seen_later(old.passed(seen_ns, at_ns));
        let turned = self.turned(then, kept);
        // And back, by the time that passes for the new quota.
        let now = turned
            .held
            .seen_later(new.passed(at_ns, seen_ns))
            .seen_earlier(new.passed(seen_ns, at_ns));
        // Drained since, or idle before and with no surplus left: as a word that was never used.
        let is_idle =
            (was_idle && turned.held == Held::IDLE) || new.is_idle(now, new.moment(seen_ns));
        Rebased { held: if is_idle { Held::IDLE } else { now }, ..turned }
    }

    /// The same at the instant of the change, for a word that keys share ([`crate::sketch`]).
    ///
    /// It holds no less than a word of each of its keys' own, and what comes of it holds no less than what would
    /// come of that: all of the above only grows with what was held. There is one case in which a shared word
    /// may hold less of a key: another key has turned its window, ahead of the change, and what counts of the
    /// key in the window before stands in other words. Windows that go on as they are compare it with those; where
    /// it would be counted anew it is full.
    pub(crate) fn rebased_shared(&self, held: Held, kept: Kept<'_>) -> Rebased {
        let is_turned = held.ahead > 0 && !self.old.is_gcra() && !self.keeps_windows();
        if is_turned && !planted(Fault::RebaseForgets) {
            let left = kept.map_or(0, |(_, units)| units);
            // Full before, too, and what the new limit cannot count of that.
            let lost = self.old.limit().saturating_sub(self.new.limit());
            let held = self.charged_anew(self.new.limit());
            return Rebased { held, surplus: lost.saturating_add(left) };
        }
        self.rebased(held, kept, self.at_ns)
    }

    /// Whether the windows of both quotas are the same ones, so that counts are kept as they are.
    fn keeps_windows(&self) -> bool {
        keeps_windows(self.old, self.new)
    }

    /// The same at the instant of the change itself.
    fn turned(&self, held: Held, kept: Kept<'_>) -> Rebased {
        let Self { old, new, at_ns, .. } = *self;
        let left =
            |parts| kept.map_or(0, |(former, units)| former.left(units, at_ns, (old, held), parts));
        // Never above the units that there were.
        let left_units = || u64::try_from(left(1)).unwrap_or(u64::MAX);
        match (old, new) {
            (
                Kernel::Gcra(old) | Kernel::RuledGcra(old),
                Kernel::Gcra(new) | Kernel::RuledGcra(new),
            ) => {
                let unit_ticks = u128::from(new.unit_ticks());
                let owed = new.ticks_of(old, held.ahead.into()) + left(new.unit_ticks());
                let most = u128::from(new.burst_ticks().saturating_add(self.queue_ticks));
                // No less than nothing, and no more than the whole debt.
                let overdrawn = self.overdraft(held).min(owed.saturating_sub(most));
                let counted = (owed.min(most) + overdrawn).min(self.most.into());
                let ahead = u64::try_from(counted).unwrap_or(u64::MAX);
                let surplus = (owed - u128::from(ahead)).div_ceil(unit_ticks);
                let surplus = u64::try_from(surplus).unwrap_or(u64::MAX);
                Rebased { held: Held { ahead, ..Held::IDLE }, surplus }
            }
            // Other windows, or a window for a bucket: only how much is used means the same in both.
            _ if !self.keeps_windows() => {
                let used = old.used(held, old.moment(at_ns)).saturating_add(left_units());
                let counted = used.min(new.limit());
                Rebased { held: self.charged_anew(counted), surplus: used - counted }
            }
            (Kernel::SlidingWindow(old), Kernel::SlidingWindow(new)) => {
                // Each count by itself: the two are never more than a limit each.
                let (previous, current) = old.split(held.counts);
                let [previous, current] = [previous, current].map(|n| n.min(new.limit()));
                self.cut(
                    [held, Held { counts: new.joined(previous, current), ..held }],
                    kept,
                    left_units(),
                )
            }
            (Kernel::SegmentedWindow(old), Kernel::SegmentedWindow(new)) => {
                self.cut([held, new.repacked(old, held)], kept, left_units())
            }
            // One count.
            _ => {
                let counts = held.counts.min(new.limit());
                self.cut([held, Held { counts, ..held }], kept, left_units())
            }
        }
    }

    /// A word of the same windows, before and after it was cut to the new limit, with as much of its surplus as fits.
    fn cut(&self, [held, cut]: [Held; 2], kept: Kept<'_>, left: u64) -> Rebased {
        let Self { old, new, at_ns, .. } = *self;
        let used = old.used(held, old.moment(at_ns));
        let lost = used.saturating_sub(new.used(cut, new.moment(at_ns)));
        if left == 0 {
            return Rebased { held: cut, surplus: lost };
        }
        let moment = new.moment(at_ns);
        // In the window that it was spent in, if that is the previous one.
        if let (Kernel::SlidingWindow(window), Some((former, units))) = (new, kept)
            && keeps_windows(&former.kernel, new)
            && let Some((held, more)) = window.with_previous(cut, moment, former.at_ns, units)
        {
            return Rebased { held, surplus: lost.saturating_add(more) };
        }
        // Else now: it counts no shorter than it would have.
        let fits = left.min(new.remaining(cut, moment, 0));
        let held = if fits > 0 { new.step(cut, moment, 0, fits).unwrap_or(cut) } else { cut };
        Rebased { held, surplus: lost.saturating_add(left - fits) }
    }

    /// What a word owes beyond the old burst and its queue, in the new quota's ticks: its units, or the time that they
    /// would take at the old rate, whichever is less. Nothing, if the limit is lowered.
    fn overdraft(&self, held: Held) -> u128 {
        let (
            Kernel::Gcra(old) | Kernel::RuledGcra(old),
            Kernel::Gcra(new) | Kernel::RuledGcra(new),
        ) = (self.old, self.new)
        else {
            return 0;
        };
        if new.limit() < old.limit() {
            return 0;
        }
        let regular = old.burst_ticks().saturating_add(self.old_queue_ticks);
        let beyond = held.ahead.saturating_sub(regular);
        let time = new.ticks(old.ns_of(beyond)) + u128::from(beyond > 0); // a part of a tick is one
        new.ticks_of(old, beyond.into()).min(time)
    }

    fn charged_anew(&self, units: u64) -> Held {
        let Self { new, at_ns, .. } = *self;
        // No more than the limit, which fits in a word that holds nothing.
        new.step(Held::IDLE, new.moment(at_ns), 0, units).unwrap_or(Held::IDLE)
    }
}

fn keeps_windows(old: &Kernel, new: &Kernel) -> bool {
    match (old, new) {
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

/// What happens at the limit goes along: a row of denials, as far as the new quota does not penalise it yet; and a
/// penalty, to its end, but no longer than the new quota penalises from the change on. A quota that knows no penalty
/// counts one as its whole limit: what is owed under a penalty was never more.
impl Ruled<'_> {
    /// A word as [`Change::rebased`], from these rules to others, whose words lie at most so far ahead.
    pub(crate) fn rebased(
        &self,
        (new, most): (&Self, u64),
        held: Held,
        kept: Kept<'_>,
        [at_ns, seen_ns]: [u64; 2],
    ) -> Rebased {
        let [old_queue_ticks, queue_ticks] = [self, new].map(Self::queue_ticks);
        let (old, to) = (self.kernel, new.kernel);
        let change = Change { old, new: to, at_ns, old_queue_ticks, queue_ticks, most };
        if self.rules.penalty.is_none() && new.rules.penalty.is_none() {
            return change.rebased(held, kept, seen_ns);
        }
        // Idle before the change, and so at it: its denials in a row mean nothing any more.
        if seen_ns <= at_ns && kept.is_none() && self.is_idle(held, self.moment(seen_ns)) {
            return Rebased::NOTHING;
        }
        // At the change: one of the two distances is 0.
        let then = held
            .seen_earlier(self.kernel.passed(at_ns, seen_ns))
            .seen_later(self.kernel.passed(seen_ns, at_ns));
        let seen = (old, Held::IDLE);
        let left = kept.map_or(0, |(former, units)| former.left(units, at_ns, seen, 1));
        let surplus = u64::try_from(left).unwrap_or(u64::MAX);
        let turned = match (self.free(then, self.moment(at_ns)), &new.rules.penalty) {
            (Some((own, denials)), penalty) => {
                // One more denial penalises, if these are as many.
                let most = penalty.map_or(0, |penalty| penalty.after - 1);
                let turned = change.rebased(own, kept, at_ns);
                Rebased { held: new.join(turned.held, denials.min(most)), ..turned }
            }
            (None, Some(penalty)) => {
                let left_ns = self.end_ns(then, at_ns).saturating_sub(at_ns);
                let length_ns = left_ns.clamp(1, penalty.length_ns);
                let held = new.penalised(&Penalty { length_ns, ..*penalty }, Held::IDLE, at_ns);
                Rebased { held, surplus }
            }
            (None, None) => Rebased { held: change.charged_anew(new.kernel.limit()), surplus },
        };
        let seen = turned
            .held
            .seen_later(new.kernel.passed(at_ns, seen_ns))
            .seen_earlier(new.kernel.passed(seen_ns, at_ns));
        let is_idle = new.is_idle(seen, new.moment(seen_ns));
        Rebased { held: if is_idle { Held::IDLE } else { seen }, ..turned }
    }

    /// What the last place in the queue owes beyond the burst.
    pub(crate) fn queue_ticks(&self) -> u64 {
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
            Self::Gcra(gcra) | Self::RuledGcra(gcra) => held.ahead.div_ceil(gcra.unit_ticks()),
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

    /// A change between policies without a queue, whose words have room for any debt.
    fn change<'a>(old: &'a Kernel, new: &'a Kernel, at_ns: u64) -> Change<'a> {
        let [old_queue_ticks, queue_ticks] = [0; 2];
        Change { old, new, at_ns, old_queue_ticks, queue_ticks, most: u64::MAX }
    }

    /// What is owed, in ticks of the new quota, `later` after a debt of so many old ticks was seen.
    fn owed(old: &Kernel, new: &Kernel, ahead: u64, [seen, changed, later]: [u64; 3]) -> u64 {
        let [seen_ns, at_ns, later_ns] = [seen, changed, later].map(|second| second * SECOND);
        let change = change(old, new, at_ns);
        let held = change.rebased(Held { ahead, ..Held::IDLE }, None, seen_ns).held;
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
        let change = |at_s: u64| change(&fast, &slow, at_s * SECOND);
        assert_eq!(change(110).rebased(Held::IDLE, None, 100 * SECOND), Rebased::NOTHING);
        // Drained at 104 s by the old rate; at 102 s the new one came, and two units were owed.
        let held = Held { behind: 6 << 8, ..Held::IDLE };
        let owed = change(102).rebased(held, None, 110 * SECOND).held.ahead;
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
            let change = change(old, new, 70 * SECOND);
            change.rebased(Held { counts, ..Held::IDLE }, None, 70 * SECOND).held.counts
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
            let rebased =
                |new| change(&old, new, 70 * SECOND).rebased(held, None, 70 * SECOND).held;
            assert_eq!(rebased(&equal), held, "{old:?}");
            assert_eq!(rebased(&other), Held { ahead: 0, ..held }, "{old:?}");
        }
    }

    #[test]
    fn what_was_used_is_counted_anew_where_windows_differ() {
        let [long, short] = [60, 10].map(|s| Kernel::FixedWindow(FixedWindow::new(9, s * SECOND)));
        let bucket = gcra(1, 1, 20, 8);
        let rebased =
            |old, new, held| change(old, new, 70 * SECOND).rebased(held, None, 70 * SECOND).held;
        let held = Held { counts: 8, ..Held::IDLE };
        let used = |kernel: &Kernel, held| kernel.used(held, kernel.moment(70 * SECOND));
        assert_eq!(used(&short, rebased(&long, &short, held)), 8);
        assert_eq!(used(&bucket, rebased(&long, &bucket, held)), 8);
        let debt = Held { ahead: (7 << 8) + 1, ..Held::IDLE };
        assert_eq!(used(&long, rebased(&bucket, &long, debt)), 8);
        let deep = Held { ahead: 40 << 8, ..Held::IDLE };
        assert_eq!(used(&long, rebased(&bucket, &long, deep)), 9);
        // More may be owed than the bucket holds.
        let wide = Kernel::FixedWindow(FixedWindow::new(50, 60 * SECOND));
        assert_eq!(used(&wide, rebased(&bucket, &wide, deep)), 40);
    }

    /// Charges as much as fits of a hundred at each step, under one quota after the other: what each admitted. A step is
    /// the instant in seconds, and the quota in force from then on.
    fn admitted(quotas: &[Kernel], steps: &[(u64, usize)]) -> Vec<u64> {
        let (mut word, mut quota, mut former, mut last) =
            (Rebased::NOTHING, steps[0].1, None, steps[0].0 * SECOND);
        let step = |&(at_s, next): &(u64, usize)| {
            let (at_ns, old, new) = (at_s * SECOND, &quotas[quota], &quotas[next]);
            let held = word.held.seen_later(old.passed(last, at_ns));
            let kept = former.as_ref().filter(|_| word.surplus > 0);
            let kept = kept.map(|former| (former, word.surplus));
            let rebased = change(old, new, at_ns).rebased(held, kept, at_ns);
            former = Some(Former::of(*old, 2 * old.limit(), former, at_ns));
            let moment = new.moment(at_ns);
            let fits = new.remaining(rebased.held, moment, 0).min(100);
            let held = new.step(rebased.held, moment, 0, fits).unwrap_or(rebased.held);
            (word, quota, last) = (Rebased { held, ..rebased }, next, at_ns);
            fits
        };
        steps.iter().map(step).collect()
    }

    /// Every kind of word whose quota may change: a hundred in 100 s, ten, and one.
    fn families() -> Vec<[Kernel; 3]> {
        let each = |kernel: &dyn Fn(u64) -> Kernel| [100, 10, 1].map(kernel);
        let windows = 100 * SECOND;
        vec![
            each(&|limit| gcra(limit, 100, limit, 8)),
            each(&|limit| Kernel::FixedWindow(FixedWindow::new(limit, windows))),
            each(&|limit| Kernel::FromFirst(FromFirst::new(limit, windows, SECOND))),
            each(&|limit| {
                Kernel::SlidingWindow(SlidingWindow::new(limit, windows, Rounding::Down, 7))
            }),
            each(&|limit| {
                Kernel::SegmentedWindow(SegmentedWindow::new(
                    limit,
                    20 * SECOND,
                    5,
                    7,
                    Packing::SIDE_BY_SIDE,
                ))
            }),
        ]
    }

    #[test]
    fn to_and_fro_at_one_instant_gives_no_more_than_the_largest_limit() {
        for quotas in families() {
            let to_and_fro = [0, 2, 0, 1, 0, 1, 2, 0].map(|quota| (1_000, quota));
            assert_eq!(admitted(&quotas, &to_and_fro), [100, 0, 0, 0, 0, 0, 0, 0], "{quotas:?}");
        }
    }

    #[test]
    fn after_a_change_what_is_left_is_the_new_limit_less_what_was_spent() {
        for quotas in families() {
            let steps = [(1_000, 1), (1_000, 2), (1_000, 0), (1_000, 1), (1_000, 0)];
            assert_eq!(admitted(&quotas, &steps), [10, 0, 90, 0, 0], "{quotas:?}");
        }
    }

    #[test]
    fn under_a_lower_limit_the_wait_is_that_for_one_unit_of_it() {
        for quotas in families() {
            let mut ready = Vec::new();
            for limit in [1, 2] {
                let at_ns = 1_000 * SECOND;
                let full = quotas[0].step(Held::IDLE, quotas[0].moment(at_ns), 0, 100);
                let new = &quotas[limit];
                let rebased =
                    change(&quotas[0], new, at_ns).rebased(full.expect("it fits"), None, at_ns);
                // As if the new limit had been used up at the change.
                let used = new.step(Held::IDLE, new.moment(at_ns), 0, new.limit());
                assert_eq!(Some(rebased.held), used, "{new:?}");
                assert_eq!(rebased.surplus, 100 - new.limit());
                ready.push(new.ready_ns(rebased.held, at_ns, 1) / SECOND - 1_000);
            }
            assert!(ready.iter().all(|wait_s| *wait_s <= 100), "{ready:?} {quotas:?}");
        }
    }

    #[test]
    fn what_is_put_back_within_the_old_window_counts_and_after_it_does_not() {
        let [bucket, fixed, from_first, sliding, segmented] =
            <[_; 5]>::try_from(families()).expect("five");
        // Spent at 1,000 s, lowered at 1,010 s, put back then, and after the window of the first quota.
        let back = |quotas: &[Kernel], at_s| {
            let steps = [(1_000, 0), (1_010, 2), (at_s, 0)];
            admitted(quotas, &steps)[2]
        };
        // Ten come back each ten seconds, as if nothing had changed.
        // What has drained is told a tick too small.
        assert_eq!([1_010, 1_020, 1_050, 1_099].map(|at_s| back(&bucket, at_s)), [10, 19, 49, 98]);
        assert_eq!([1_010, 1_099, 1_100].map(|at_s| back(&fixed, at_s)), [0, 0, 100]);
        // Its window began with the first request, and what is put back counts a window from the change.
        assert_eq!([1_010, 1_099, 1_110].map(|at_s| back(&from_first, at_s)), [0, 0, 100]);
        assert_eq!([1_010, 1_099, 1_150, 1_200].map(|at_s| back(&sliding, at_s)), [0, 0, 50, 100]);
        assert_eq!([1_010, 1_099, 1_100].map(|at_s| back(&segmented, at_s)), [0, 0, 100]);
    }

    #[test]
    fn an_overdraft_outlasts_a_change_for_the_time_that_it_would_have_taken_but_a_lower_limit_has_none()
     {
        let [old, slow, fast] = [gcra(10, 1, 10, 8), gcra(1, 1, 10, 8), gcra(100, 1, 10, 8)];
        let low = gcra(10, 1, 9, 8);
        let held = Held { ahead: 30 << 8, ..Held::IDLE };
        let at_ns = 1_000 * SECOND;
        let units = |new: &Kernel| {
            let rebased = change(&old, new, at_ns).rebased(held, None, at_ns);
            (rebased.held.ahead >> 8, rebased.surplus)
        };
        // 20 of 30 are beyond the burst: two seconds at the old rate, which are two units of the slow one. The others
        // are the surplus, less the tick by which a part of one is rounded up.
        assert_eq!(units(&slow), (12, 18));
        assert_eq!(units(&fast), (30, 0));
        assert_eq!(units(&low), (9, 21));
    }
}
