//! The state of a word after a change of its quota, and the units that the new quota cannot count. A debt drains at the
//! old rate up to the change, and at the new rate after it.
//!
//! The state is first computed for the instant of the change. The debt under the old quota then becomes a debt of the
//! same number of units under the new quota, rounded up, but no more than the new limit and its queue. So the result
//! does not depend on the time at which the word is read next. The units that the new quota does not count are stored
//! beside the state, as the word's [surplus](super::surplus). The next change adds to the debt the part of the surplus
//! that still counts at that time.
//!
//! ```text
//! GCRA to GCRA         debt' = min(burst' + queue', ceil(debt + surplus)) + overdraft'
//! same windows         each count is kept, at most limit', then as much of the surplus as fits
//! anything else        the units used of the old limit then, and the surplus, at most limit', count as
//!                      charged at the change
//! surplus'             the debt at the change, less the part that the new quota counts
//! ```
//!
//! The *overdraft* is the part of the debt beyond the old burst and its queue, which comes from charges into debt. If
//! the new limit is not lower than the old limit, the overdraft stays owed. It keeps its number of units, but no more
//! units than drain at the new rate in the time in which the overdraft would have drained at the old rate. If both
//! quotas have the same windows, counts above the limit stay as well, up to the debt that the new quota allows. If the
//! new limit is lower than the old one, none of the overdraft is counted, so that no key has to wait for more units
//! than the new limit and its queue. A change back to the old limit does not bring this overdraft back: at most the old
//! limit and its queue are owed then.
//!
//! # The bound
//! Let T be the instant of the change. Let D be the time from T to the latest decision under the old quota, and E the
//! time from the earliest decision under the new quota to T. Such late and early decisions were under way at T, or the
//! clocks of their threads disagree. Under GCRA, in any interval [x, y] of times that contains T, a key is admitted at
//! most
//!
//! ```text
//! max(burst', burst + rate * D) + rate * (T - x) + rate' * (y - T + E)
//! ```
//!
//! plus one tick of each quota. Proof: a key's word is converted once, by one compare-and-swap, so all charges under
//! the old quota come before all charges under the new quota. Let d be the debt at T after the old charges. Each old
//! charge in the interval moved the TAT up by its cost, from x or later, so these charges sum to at most `d + rate *
//! (T - x)`. Now consider the TAT under the new quota, and the debt with which it began. The last of the new charges
//! was admitted. So the new charges sum to at most burst' plus the units that have drained since this TAT began, less
//! that debt. If d = 0, it began no earlier than the first new charge, and the charges sum to at most `burst' + rate' *
//! (y - T + E)`. Otherwise this TAT began at T with the debt d' = min(d, burst'), and they sum to at most `burst' -
//! d' + rate' * (y - T)`. (With a queue or an overdraft d' is larger, which admits less.) If d' = d, old and new
//! charges sum to at most `burst'` plus the two terms of the rates. If d' is less, they sum to at most d plus these two
//! terms. The last of the old charges was admitted, so d is at most `burst + rate * D`. (A debt by `charge` or
//! `reserve` may be larger, up to the bounds of those verbs.) An interval may lie on one side of T and still have
//! decisions under both quotas. Such an interval is extended to T, and the same bound holds.
//!
//! For several changes the proof uses the surplus. Let (B, R) be the largest quota that was in force. Imagine a second
//! word that is under (B, R) all the time, and is charged with every unit for which the key is admitted. As
//! [`surplus`](super::surplus) shows, the debt and the surplus of the key's word are together no less than the debt of
//! that second word. This is true for as long as it takes B to drain at R. So a change back to (B, R) leaves no more to
//! be admitted than if the quota had never been changed. A limit that is changed back and forth admits no more than the
//! largest limit that was in force. After each change it admits at most the new limit less the units that were spent.
//! After a limit is lowered, no key waits longer than the time in which the places of its queue and one unit drain
//! under the new quota.
//!
//! If one of the quotas has windows and the other does not have the same windows, the units that the old quota still
//! counted at T are charged to the new quota at T, up to the new limit. The other units become the surplus. The
//! decisions under each quota obey the bound of that quota.

use super::{Decides, FixedWindow, Former, Held, Kernel, Moment, Penalty, Ruled};
use crate::sync::{Fault, planted};

/// A change of quota: the old and the new algorithm, and the instant of the change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) old: &'a Kernel,
    pub(crate) new: &'a Kernel,
    pub(crate) at_ns: u64,
    /// The largest debt beyond the burst that the old queue allows, in the old quota's ticks; 0 without a queue.
    pub(crate) old_queue_ticks: u64,
    /// The largest debt beyond the burst that the new queue allows, in the new quota's ticks; 0 without a queue.
    pub(crate) queue_ticks: u64,
    /// The largest distance by which the time of a word may lie ahead of now under the new quota, in its ticks.
    pub(crate) most: u64,
    /// The largest count of a window under the new quota: its limit plus its debt.
    pub(crate) max_counts: u64,
}

/// The state of a word after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebased {
    /// The state under the new quota.
    pub(crate) held: Held,
    /// The number of spent units that the new quota does not count.
    pub(crate) surplus: u64,
}

impl Rebased {
    const NOTHING: Self = Self { held: Held::IDLE, surplus: 0 };
}

/// The surplus of a word, and the quota under which it was spent. `None` if the word has no surplus, which is nearly
/// always so.
pub(crate) type Kept<'a> = Option<(&'a Former, u64)>;

impl Change<'_> {
    /// Converts the state of a word of the old quota into a state under the new one. Both states are measured from
    /// `seen_ns`.
    ///
    /// If `seen_ns` is not after the change and the word is idle then, the word owes nothing but its surplus. Without a
    /// surplus it becomes like a word that was never used.
    pub(crate) fn rebased(&self, held: Held, kept: Kept<'_>, seen_ns: u64) -> Rebased {
        let Self { old, new, at_ns, .. } = *self;
        let was_idle = seen_ns <= at_ns && old.is_idle(held, old.moment(seen_ns));
        if (was_idle && kept.is_none()) || planted(Fault::RebaseForgets) {
            return Rebased::NOTHING;
        }
        if planted(Fault::RebaseReadsOldTicks) {
            return Rebased { held, surplus: 0 };
        }
        // The state is computed for the instant of the change, which may be before or after `seen_ns`: one of the two
        // distances is 0.
        let then =
            held.seen_earlier(old.passed(at_ns, seen_ns)).seen_later(old.passed(seen_ns, at_ns));
        let turned = self.turned(then, kept);
        // Then the state is computed for `seen_ns` again, in the unit of time of the new quota.
        let now = turned
            .held
            .seen_later(new.passed(at_ns, seen_ns))
            .seen_earlier(new.passed(seen_ns, at_ns));
        // The word is like a word that was never used if its debt has drained since the change, or if it was idle
        // before and no surplus is added.
        let is_idle =
            (was_idle && turned.held == Held::IDLE) || new.is_idle(now, new.moment(seen_ns));
        Rebased { held: if is_idle { Held::IDLE } else { now }, ..turned }
    }

    /// The same as [`rebased`](Self::rebased), for a word that several keys share ([`crate::sketch`]), and whose state
    /// is measured from the instant of the change.
    ///
    /// A shared word owes at least as much as each of its keys would owe in a separate word. This stays true, since a
    /// larger debt before the change never becomes a smaller debt after it. There is one exception. If another key has
    /// moved the shared word to a window after the change, this word may owe less than a key: the key's units in the
    /// earlier window are counted only in the key's other words. If both quotas have the same windows, a decision
    /// compares all words of the key by their windows, so nothing is lost. Otherwise the shared word is treated as
    /// full.
    pub(crate) fn rebased_shared(&self, held: Held, kept: Kept<'_>) -> Rebased {
        let is_turned = held.ahead > 0 && !self.old.is_gcra() && !self.keeps_windows();
        if is_turned && !planted(Fault::RebaseForgets) {
            let left = kept.map_or(0, |(_, units)| units);
            // The word is treated as full under the old limit, too, so the surplus is the part of the old limit that
            // the new limit cannot count.
            let lost = self.old.limit().saturating_sub(self.new.limit());
            let held = self.charged_anew(self.new.limit());
            return Rebased { held, surplus: lost.saturating_add(left) };
        }
        self.rebased(held, kept, self.at_ns)
    }

    /// True if both quotas have the same windows, so that counts are kept as they are.
    fn keeps_windows(&self) -> bool {
        keeps_windows(self.old, self.new)
    }

    /// The same as [`rebased`](Self::rebased), for a state that is measured from the instant of the change.
    fn turned(&self, held: Held, kept: Kept<'_>) -> Rebased {
        let Self { old, new, at_ns, .. } = *self;
        let left =
            |parts| kept.map_or(0, |(former, units)| former.left(units, at_ns, old, held, parts));
        // The result is at most `units`, so it fits in 64 bits.
        let left_units = || u64::try_from(left(1)).unwrap_or(u64::MAX);
        match (old, new) {
            (Kernel::Gcra(old), Kernel::Gcra(new)) => {
                let unit_ticks = u128::from(new.unit_ticks());
                let owed = new.ticks_of(old, held.ahead.into()) + left(new.unit_ticks());
                let most = u128::from(new.burst_ticks().saturating_add(self.queue_ticks));
                // Only debt beyond the new burst and its queue can count as overdraft.
                let overdrawn = self.overdraft(held).min(owed.saturating_sub(most));
                let counted = (owed.min(most) + overdrawn).min(self.most.into());
                let ahead = u64::try_from(counted).unwrap_or(u64::MAX);
                let surplus = (owed - u128::from(ahead)).div_ceil(unit_ticks);
                let surplus = u64::try_from(surplus).unwrap_or(u64::MAX);
                Rebased { held: Held { ahead, ..Held::IDLE }, surplus }
            }
            // The windows differ, or one of the quotas is GCRA. Then only the number of used units can be carried over.
            _ if !self.keeps_windows() => {
                let used = old.used(held, old.moment(at_ns)).saturating_add(left_units());
                let counted = used.min(new.limit());
                Rebased { held: self.charged_anew(counted), surplus: used - counted }
            }
            (Kernel::SlidingWindow(old), Kernel::SlidingWindow(new)) => {
                // Each count is cut separately, since each count alone may reach the limit.
                let (previous, current) = old.split(held.counts);
                let [previous, current] = [previous, current].map(|n| n.min(self.room()));
                self.cut(
                    held,
                    Held { counts: new.joined(previous, current), ..held },
                    kept,
                    left_units(),
                )
            }
            (Kernel::SegmentedWindow(old), Kernel::SegmentedWindow(new)) => {
                self.cut(held, new.repacked(old, held), kept, left_units())
            }
            // The other windows have one count.
            _ => {
                let counts = held.counts.min(self.room());
                self.cut(held, Held { counts, ..held }, kept, left_units())
            }
        }
    }

    /// Adds as much of a surplus to `cut` as fits there. `cut` is the state `held`, cut to the new limit. Both quotas
    /// have the same windows.
    fn cut(&self, held: Held, cut: Held, kept: Kept<'_>, left: u64) -> Rebased {
        let Self { old, new, at_ns, .. } = *self;
        let used = old.used(held, old.moment(at_ns));
        let lost = used.saturating_sub(new.used(cut, new.moment(at_ns)));
        let moment = new.moment(at_ns);
        // A surplus that was spent in the previous window is added to that window. This is done even if its weighted
        // share is less than a unit now, since together with the share of the window's other units it may be a unit.
        if let (Kernel::SlidingWindow(window), Some((former, units))) = (new, kept)
            && keeps_windows(&former.kernel, new)
            && !former.is_over(at_ns)
            && let Some((held, more)) = window.with_previous(cut, moment, former.at_ns, units)
        {
            return Rebased { held, surplus: lost.saturating_add(more) };
        }
        if left == 0 {
            return Rebased { held: cut, surplus: lost };
        }
        // Otherwise the surplus is added to the current window, where it counts at least as long as in the window in
        // which it was spent.
        let fits = left.min(new.remaining(cut, moment, 0));
        let held = if fits > 0 { new.step(cut, moment, 0, fits).unwrap_or(cut) } else { cut };
        Rebased { held, surplus: lost.saturating_add(left - fits) }
    }

    /// The largest count after the change: the new limit plus the debt, or only the new limit if it is lower than the
    /// old one.
    fn room(&self) -> u64 {
        let limit = self.new.limit();
        if limit < self.old.limit() { limit } else { self.max_counts.max(limit) }
    }

    /// The overdraft: the debt beyond the old burst and its queue, in the new quota's ticks. It keeps its number of
    /// units, but no more units than drain under the new quota in the time in which the overdraft would have drained at
    /// the old rate. It is 0 if the limit is lowered.
    fn overdraft(&self, held: Held) -> u128 {
        let (Kernel::Gcra(old), Kernel::Gcra(new)) = (self.old, self.new) else {
            return 0;
        };
        if new.limit() < old.limit() {
            return 0;
        }
        let regular = old.burst_ticks().saturating_add(self.old_queue_ticks);
        let beyond = held.ahead.saturating_sub(regular);
        let time = new.ticks(old.ns_of(beyond)) + u128::from(beyond > 0); // a part of a tick counts as one
        new.ticks_of(old, beyond.into()).min(time)
    }

    fn charged_anew(&self, units: u64) -> Held {
        let Self { new, at_ns, .. } = *self;
        // The callers pass at most the limit, which fits in an idle word.
        new.step(Held::IDLE, new.moment(at_ns), 0, units).unwrap_or(Held::IDLE)
    }
}

fn keeps_windows(old: &Kernel, new: &Kernel) -> bool {
    match (old, new) {
        (Kernel::FixedWindow(old), Kernel::FixedWindow(new)) => old.window == new.window,
        (Kernel::CalendarWindow(old), Kernel::CalendarWindow(new)) => old.unit == new.unit,
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

/// A change of quota keeps penalties and the number of denials in a row. This number is cut to one less than the number
/// with which a penalty begins under the new quota, or to 0 if the new quota has no penalty. A penalty continues to its
/// end, but for no longer after the change than a penalty of the new quota lasts. If the new quota has no penalty, a
/// penalty that is in force ends, and the whole new limit counts as used.
impl Ruled<'_> {
    /// The same as [`Change::rebased`], from these rules to the rules of `new`. Under `new`, the time of a word lies at
    /// most `most` ahead. The quota was replaced at `at_ns`, and the state is measured from `seen_ns`.
    pub(crate) fn rebased(
        &self,
        new: &Self,
        most: u64,
        held: Held,
        kept: Kept<'_>,
        at_ns: u64,
        seen_ns: u64,
    ) -> Rebased {
        let [old_queue_ticks, queue_ticks] = [self, new].map(Self::queue_ticks);
        let (old, to) = (self.kernel, new.kernel);
        let max_counts = to.limit().saturating_mul(1 + u64::from(new.rules.debt));
        let change = Change { old, new: to, at_ns, old_queue_ticks, queue_ticks, most, max_counts };
        if self.rules.penalty.is_none() && new.rules.penalty.is_none() {
            return change.rebased(held, kept, seen_ns);
        }
        // The word was idle before the change, so it is idle at the change, and its number of denials in a row is
        // dropped.
        if seen_ns <= at_ns && kept.is_none() && self.is_idle(held, self.moment(seen_ns)) {
            return Rebased::NOTHING;
        }
        // The state is computed for the instant of the change, which may be before or after `seen_ns`: one of the two
        // distances is 0.
        let then = held
            .seen_earlier(self.kernel.passed(at_ns, seen_ns))
            .seen_later(self.kernel.passed(seen_ns, at_ns));
        let left = kept.map_or(0, |(former, units)| former.left(units, at_ns, old, Held::IDLE, 1));
        let surplus = u64::try_from(left).unwrap_or(u64::MAX);
        let turned = match (self.free(then, self.moment(at_ns)), &new.rules.penalty) {
            (Some((own, denials)), penalty) => {
                // The number of denials in a row is cut, so that at least one more denial is needed for a penalty.
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

    /// The debt beyond the burst when the queue is full, in ticks.
    pub(crate) fn queue_ticks(&self) -> u64 {
        let (Some([wait_ns, places]), Kernel::Gcra(gcra)) = (self.rules.queue, self.kernel) else {
            return 0;
        };
        // The longest wait and the number of places both bound this debt. The word has room for the smaller bound
        // (`ticks_ahead` in policy/needs.rs).
        let ticks = gcra.ticks(wait_ns).min(u128::from(places) * u128::from(gcra.unit_ticks));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// The number of units of the limit that are used. During a penalty this is the whole limit.
    pub(crate) fn used(&self, held: Held, moment: Moment) -> u64 {
        let own = self.free(held, moment);
        own.map_or(self.kernel.limit(), |(own, _)| self.kernel.used(own, moment))
    }
}

impl Kernel {
    /// The number of units that a word counts at a moment. Parts of a unit are rounded up, except in a sliding window
    /// that rounds shares down. The number may be above the limit.
    pub(crate) fn used(&self, held: Held, moment: Moment) -> u64 {
        match self {
            Self::Gcra(gcra) => held.ahead.div_ceil(gcra.unit_ticks()),
            Self::FixedWindow(_) => FixedWindow::used(held),
            Self::CalendarWindow(_) => FixedWindow::used(held),
            Self::FromFirst(window) => window.used(held, moment),
            Self::SlidingWindow(window) => window.used(held, moment),
            // This is at most the limit. A segmented window has no debt, and denials counted beyond the limit are left
            // out.
            Self::SegmentedWindow(_) => {
                self.limit().saturating_sub(self.remaining(held, moment, 0))
            }
        }
    }
}

#[cfg(test)]
mod tests;
