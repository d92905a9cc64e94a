//! The options for requests at the limit, for any algorithm: `soft`, `count-denied` and `penalty`.
//!
//! [`Ruled`] is an algorithm together with the [`Rules`] of its policy. Like the algorithm, it is a pure function on
//! one word. A policy without these options is decided by its algorithm alone, without this code.
//!
//! * *Soft*: the algorithm runs with the softened limit S in place of the limit L. Only the answer compares the used
//!   units with L.
//! * *Count-denied*: the cost of a denied request is charged by the algorithm's `charge_denied`, unless the cost could
//!   never fit.
//! * *Penalty*: each denial is also counted, and the N-th denial in a row makes the word refuse everything until an
//!   instant.
//!
//! # Denials that write nothing
//! If each denial were a write, a client that keeps sending requests would make all threads contend for the cache line
//! of its word. So [`Ruled::refuse`] returns `None` if a denial would change nothing or too little:
//!
//! * A window's count stops at the limit, or at twice the limit, and then stays full until the window is over.
//! * GCRA's debt stops at B = L - 1 unit + C, where C is the longest wait for a unit that denials may cause. The debt
//!   drains all the time, so there is soon room for a small charge. A denial is charged only if the charge raises the
//!   debt by at least a *granule*: a thousandth of C, or one unit if that is less.
//! * The end of an extended penalty is moved only if it moves by at least a thousandth of the penalty's length.
//! * A log has slots in place of a word: see `is_fresh` in `log/rule.rs`.
//!
//! *How often a denial is written.* Each denial that is charged raises the debt by a granule or more, and none raises
//! it above B. When the debt is B, only as much can be charged in a time t as drains in t. So at most one denial is
//! charged per granule of t. A denial that is charged in full raises the debt by a unit or more, and so by at least a
//! granule. By the same argument, the end of a penalty is written at most once in each granule of time.
//!
//! *The cost of not writing.* Let D be the debt, and let E be the debt that there would be if every denial were
//! charged. Then D > E - granule at all times. Both debts drain at the same rate. A denial that is charged in full adds
//! the same amount to both. If the full cost would raise E above B, then E rises only to B, and D is above B - granule
//! even if the denial is not written. A request that is admitted under D but would be denied under E adds its full cost
//! to D, and at most as much to E. So the difference does not grow over time, and a request is admitted earlier by at
//! most a granule. A client that requests a unit again and again is denied as before: its D stays above B - granule,
//! which is no less than L - 1 unit. No denial lowers a debt, so the algorithm's own test still bounds all admissions.
//!
//! # The word of a policy with a penalty
//! The counts in the word of a policy with a penalty have one more field, `[the algorithm's | denials]`. It has room
//! for the numbers 0 to N:
//!
//! | denials | time | the algorithm's counts |
//! |---|---|---|
//! | 0 to N - 1 | the algorithm's | the algorithm's |
//! | N: *penalised* | the end, in whole units of the algorithm | the rest of the end, in quanta of that unit |
//!
//! The number of denials determines how the rest of the word is read. The N-th denial writes N, which begins the
//! penalty, and a denial that extends the penalty keeps N. All other writes in this file write less than N: an
//! admission writes 0, and an earlier denial adds 1 to the number that it found. The layout of the word
//! ([`crate::word::Fields`], `keyed/memory/layout.rs`) has room for both readings. The field of the counts is wide
//! enough for both, and the time can represent the end of a penalty.
//!
//! # The end
//! At the end of a penalty the word becomes like a word that was never used. The end is rounded up to whole ticks or
//! quanta, never down. The end is never before the instant at which the charges in the word have drained. For a request
//! on time this is true because the penalty of a policy is no shorter than its horizon. For a late request the end is
//! moved to that instant if necessary. So a penalty forgives no charge, and stored time never falls.
//!
//! From the end of the penalty on, a penalised word is read as an idle word. An idle word with denials in a row is also
//! as good as a word that was never used: it admits every cost up to the limit, and the admission sets the number of
//! denials to 0.

use super::fixed_window::window_start_ns;
use super::{Algorithm, Decides, Held, Kernel, Moment};
use crate::sync::{Fault, planted};
use crate::verdict::{Mark, Verdict};

/// The longest wait for denials, the length of a penalty, and the window of a log have this many granules each. See
/// *Denials that write nothing*.
pub(crate) const GRANULES: u64 = 1_000;

/// The options of a policy for requests at its limit, compiled for one layout of its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// True if the policy has a rule for checks.
    pub(crate) any: bool,
    /// The longest wait in nanoseconds, and the largest number of units behind which a request may wait.
    pub(crate) queue: Option<[u64; 2]>,
    /// The share by which the algorithm's limit is softened, in hundredths of a percent; 0 if the limit is not soft.
    pub(crate) soft_bp: u16,
    /// The number of units by which the limit is softened: S - L.
    pub(crate) beyond: u64,
    /// The bound up to which denied requests are charged: a debt in ticks for GCRA, or a count for a window.
    pub(crate) denied_most: Option<u64>,
    /// [`charge`](crate::Entry::charge) may raise the count of a window beyond the limit by this many times the limit.
    /// It is 0 for GCRA, where the word itself bounds the debt.
    pub(crate) debt: u32,
    pub(crate) penalty: Option<Penalty>,
}

/// A penalty, and the units in which a word stores its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Penalty {
    /// At least 1.
    pub(crate) length_ns: u64,
    /// N, the number of denials in a row that begins a penalty. At least 1.
    pub(crate) after: u64,
    pub(crate) extended: bool,
    /// The width of the count of denials, which holds every number up to N.
    pub(crate) denial_bits: u8,
    /// The length of a unit of the word's time. It is 1 for GCRA, whose ticks need no quanta.
    pub(crate) unit_ns: u64,
    /// The end is stored as a number of whole units plus a multiple of this quantum, rounded up.
    pub(crate) quantum_ns: u64,
}

/// The number of atomic words that hold [`Rules`].
pub(crate) const RULES_WORDS: usize = 9;

impl Rules {
    /// The rules as numbers, like [`Kernel::code`]: small numbers share one word, and 0 means that the policy does not
    /// have a rule.
    pub(crate) fn code(&self) -> [u64; RULES_WORDS] {
        let penalty = self.penalty.unwrap_or_default();
        let flags = u64::from(self.any)
            | u64::from(self.queue.is_some()) << 1
            | u64::from(self.denied_most.is_some()) << 2
            | u64::from(self.penalty.is_some()) << 3
            | u64::from(penalty.extended) << 4
            | u64::from(penalty.denial_bits) << 8
            | u64::from(self.soft_bp) << 16
            | penalty.after << 32; // a u32
        let [wait_ns, behind] = self.queue.unwrap_or_default();
        let most = self.denied_most.unwrap_or_default();
        let Penalty { length_ns, unit_ns, quantum_ns, .. } = penalty;
        let debt = self.debt.into();
        [flags, self.beyond, most, wait_ns, behind, length_ns, unit_ns, quantum_ns, debt]
    }

    pub(crate) fn of_code(code: [u64; RULES_WORDS]) -> Self {
        let [flags, beyond, most, wait_ns, behind, length_ns, unit_ns, quantum_ns, debt] = code;
        let has = |bit: u32| flags >> bit & 1 == 1;
        let [_, denial_bits, ..] = flags.to_le_bytes();
        let (after, extended) = (flags >> 32, has(4));
        let penalty = Penalty { length_ns, after, extended, denial_bits, unit_ns, quantum_ns };
        Self {
            any: has(0),
            queue: has(1).then_some([wait_ns, behind]),
            soft_bp: (flags >> 16 & 0xffff) as u16,
            beyond,
            denied_most: has(2).then_some(most),
            // Writers store a `u32` here. A larger number can only be read during a write, and the reader then discards
            // it.
            debt: u32::try_from(debt).unwrap_or(0),
            penalty: has(3).then_some(penalty),
        }
    }

    /// True if the policy has no rule that a check must follow. A queue is not such a rule, since a check does not
    /// wait.
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        !self.any
    }

    /// The quantum to which the end of a penalty is rounded; 0 without a penalty.
    pub(crate) fn end_quantum_ns(&self) -> u64 {
        self.penalty.map_or(0, |penalty| penalty.quantum_ns)
    }

    /// True if a denial may have to be written.
    pub(crate) fn count_denials(&self) -> bool {
        self.denied_most.is_some() || self.penalty.is_some()
    }
}

/// An algorithm and the rules of its policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruled<'a, A = Kernel> {
    pub(crate) kernel: &'a A,
    pub(crate) rules: &'a Rules,
}

impl<A: Algorithm> Ruled<'_, A> {
    /// Splits a word into the algorithm's part and the number of denials in a row. Returns `None` during a penalty,
    /// when every request is refused.
    #[inline(always)]
    pub(crate) fn free(&self, held: Held, moment: Moment) -> Option<(Held, u64)> {
        // Without a penalty the whole word belongs to the algorithm.
        let Some(penalty) = &self.rules.penalty else { return Some((held, 0)) };
        let denials = held.counts & ((1 << penalty.denial_bits) - 1);
        let own = Held { counts: held.counts >> penalty.denial_bits, ..held };
        // With fewer than N denials the rest of the word belongs to the algorithm: see the table at the top of this
        // file.
        if denials < penalty.after {
            return Some((own, denials));
        }
        // With N denials the rest of the word is the end of the penalty, in units and quanta. The penalty is over if
        // that unit is over, or if that many quanta of the unit have passed.
        let into_ns = own.counts.saturating_mul(penalty.quantum_ns);
        let is_over = held.ahead == 0 && (held.behind > 0 || into_ns <= moment.into_ns);
        is_over.then_some((Held::IDLE, 0))
    }

    /// The state after an admission, which sets the number of denials in a row to 0.
    #[inline(always)]
    pub(crate) fn admitted(&self, own: Held, denials: u64) -> Held {
        let kept = if planted(Fault::DenialsOutliveAdmission) { denials } else { 0 };
        self.join(own, kept)
    }

    /// Joins the algorithm's part of a word with the number of denials.
    #[inline(always)]
    pub(crate) fn join(&self, own: Held, denials: u64) -> Held {
        match &self.rules.penalty {
            Some(penalty) => Held { counts: (own.counts << penalty.denial_bits) | denials, ..own },
            None => own,
        }
    }

    /// The word of a penalty that begins at `at`. It refuses until the penalty is over, and at least until the charges
    /// in `drained` have drained.
    #[cold]
    pub(super) fn penalised(&self, penalty: &Penalty, drained: Held, at_ns: u64) -> Held {
        // This is the last nanosecond of the penalty. A penalty that would outlast the clock has no end.
        let last_ns = at_ns.saturating_add(penalty.length_ns - 1);
        if let Kernel::Gcra(gcra) = self.kernel.kernel() {
            // GCRA's word is a time, so it stores the end directly: the tick after the last nanosecond.
            let ticks = (gcra.ticks(last_ns) + 1).saturating_sub(gcra.ticks(at_ns));
            // The layout of the word was chosen with room for this number.
            let ahead = u64::try_from(ticks).unwrap_or(u64::MAX).max(drained.ahead);
            return Held { ahead, behind: 0, counts: penalty.after };
        }
        // A window's penalty does not end before the units in its word have drained.
        let last_ns = match self.kernel.kernel().idle_ns(drained, at_ns) {
            u64::MAX => u64::MAX, // the units drain then, or later
            idle_ns => last_ns.max(idle_ns.saturating_sub(1)),
        };
        // The end is the nanosecond after the last nanosecond of the penalty. It is kept as a number of units and of
        // quanta, rounded up.
        let quanta = (last_ns % penalty.unit_ns + 1).div_ceil(penalty.quantum_ns);
        let units = last_ns / penalty.unit_ns - at_ns / penalty.unit_ns;
        // A unit need not be a whole number of quanta, so its last quantum may be cut short.
        let is_next = quanta.saturating_mul(penalty.quantum_ns) >= penalty.unit_ns;
        let own = Held {
            ahead: units.saturating_add(u64::from(is_next)),
            behind: 0,
            counts: if is_next { 0 } else { quanta },
        };
        self.join(own, penalty.after)
    }

    /// The penalised word after a denial that moves the end of the penalty; `None` if the end stays.
    #[cold]
    fn extended(&self, penalty: &Penalty, held: Held, at_ns: u64) -> Option<Held> {
        // The end is not moved if this would make the penalty only a little longer.
        let kept_ns = penalty.length_ns - penalty.length_ns.div_ceil(GRANULES);
        let until_ns = at_ns.saturating_add(kept_ns);
        let then = held.seen_later(self.kernel.kernel().passed(at_ns, until_ns));
        self.free(then, self.moment(until_ns))?;
        let extended = self.penalised(penalty, Held::IDLE, at_ns);
        // A stored time is never lowered, even if it is later than any time of a clock.
        let is_later = (extended.ahead, extended.counts) > (held.ahead, held.counts);
        is_later.then_some(extended)
    }

    /// The instant at which the penalty of a penalised word is over.
    #[cold]
    pub(super) fn end_ns(&self, held: Held, at_ns: u64) -> u64 {
        // The caller has found the word penalised, so there is a penalty.
        let Some(penalty) = &self.rules.penalty else { return at_ns };
        if let Kernel::Gcra(_) = self.kernel.kernel() {
            // The word's time is the end.
            return self.kernel.kernel().idle_ns(held, at_ns);
        }
        let into_ns = (held.counts >> penalty.denial_bits).saturating_mul(penalty.quantum_ns);
        window_start_ns(at_ns, penalty.unit_ns, held.ahead).saturating_add(into_ns)
    }

    /// True if the word is as good as a word that was never used, at this moment and later.
    pub(crate) fn is_idle(&self, held: Held, moment: Moment) -> bool {
        self.free(held, moment).is_some_and(|(own, _)| self.kernel.kernel().is_idle(own, moment))
    }

    /// The first instant, not before `at`, at which the word is as good as a word that was never used.
    pub(crate) fn idle_ns(&self, held: Held, at_ns: u64) -> u64 {
        match self.free(held, self.moment(at_ns)) {
            Some((own, _)) => self.kernel.kernel().idle_ns(own, at_ns),
            None => self.end_ns(held, at_ns),
        }
    }

    /// The state after one more denial, of a word with `denials` denials in a row.
    fn denied(&self, own: Held, denials: u64, at_ns: u64, cost: u64) -> Held {
        let moment = self.moment(at_ns);
        // The charge comes first, since the penalty ends no earlier than this charge has drained.
        let charged = match self.rules.denied_most {
            Some(most) => self.kernel.kernel().charge_denied(own, moment, cost, most),
            None => own,
        };
        let one = if planted(Fault::DenialNotCounted) {
            0
        } else if planted(Fault::DenialCountedTwice) {
            2
        } else {
            1
        };
        match &self.rules.penalty {
            // This is the N-th denial in a row, which begins the penalty.
            Some(penalty) if denials + one >= penalty.after => {
                self.penalised(penalty, charged, at_ns)
            }
            // This denial is only counted. Without a penalty the word has no field for the count.
            _ => self.join(charged, denials + one),
        }
    }
}

impl<A: Algorithm> Decides for Ruled<'_, A> {
    const COUNTS: bool = true;

    #[inline(always)]
    fn moment(&self, at_ns: u64) -> Moment {
        let moment = self.kernel.moment(at_ns);
        match &self.rules.penalty {
            // The end of a penalty may lie within a unit, so `into_ns` is computed here: most algorithms do not compute
            // it.
            Some(penalty) => Moment { into_ns: at_ns % penalty.unit_ns, ..moment },
            None => moment,
        }
    }

    #[inline(always)]
    fn latest_ns(&self) -> u64 {
        self.kernel.latest_ns()
    }

    #[inline(always)]
    fn step(&self, held: Held, moment: Moment, late: u64, cost: u64) -> Option<Held> {
        let (own, denials) = self.free(held, moment)?;
        let next = self.kernel.step(own, moment, late, cost)?;
        Some(self.admitted(next, denials))
    }

    fn refuse(&self, held: Held, at_ns: u64, cost: u64) -> Option<Held> {
        // If the request is so late that its distance from the word's time was cut, the time cannot be written back.
        if !self.rules.count_denials()
            || held.is_cut()
            || cost == 0
            || cost > self.kernel.kernel().limit()
        {
            return None;
        }
        if planted(Fault::DenialNotWritten) {
            return None;
        }
        let next = match (self.free(held, self.moment(at_ns)), &self.rules.penalty) {
            (Some((own, denials)), _) => self.denied(own, denials, at_ns, cost),
            (None, Some(penalty)) if penalty.extended => self.extended(penalty, held, at_ns)?,
            (None, _) => return None,
        };
        (next != held).then_some(next)
    }

    #[inline(always)]
    fn tell(
        &self,
        verdict: Verdict,
        held: Held,
        at_ns: u64,
        late: u64,
        unpaid: u64,
    ) -> (Mark, Held, u64) {
        let moment = self.moment(at_ns);
        // The answer for a penalised word describes the end of the penalty, when the word is like a word that was never
        // used.
        let Some((own, _)) = self.free(held, moment) else {
            return (Mark::Penalty, Held::IDLE, self.end_ns(held, at_ns));
        };
        // `remaining` is S less the number of used units. So `remaining` is at least S - L if and only if at most L
        // units are used.
        let beyond = self.rules.beyond.saturating_add(unpaid);
        let is_over = || self.kernel.kernel().remaining(own, moment, late) < beyond;
        // Only an admission can have this mark, since a denial already shows that the limit is reached.
        let soft = self.rules.soft_bp > 0 && verdict == Verdict::Allowed;
        (if soft && is_over() { Mark::Over } else { Mark::None }, own, at_ns)
    }
}

/// The limit L for which `softened` equals floor(L * (10000 + x) / 10000), with x = `soft_bp`.
///
/// There is exactly one such limit: two limits that differ by 1 are at least 1 apart when softened. L is the only whole
/// number in an interval that ends below `(softened + 1) * 10000 / (10000 + x)` and has a length of at most 1.
pub(crate) fn unsoftened(softened: u64, soft_bp: u16) -> u64 {
    if soft_bp == 0 {
        return softened;
    }
    // floor(L * (10000 + x) / 10000) = s means that L is the least whole number with L >= s * 10000 / (10000 + x).
    let limit = (u128::from(softened) * 10_000).div_ceil(10_000 + u128::from(soft_bp));
    u64::try_from(limit).unwrap_or(softened)
}

/// floor(limit * (10000 + x) / 10000), or `None` if that is no `u64`.
pub(crate) fn softened(limit: u64, soft_bp: u16) -> Option<u64> {
    u64::try_from(u128::from(limit) * (10_000 + u128::from(soft_bp)) / 10_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{FixedWindow, Gcra};

    #[test]
    fn the_limit_is_known_from_what_it_was_softened_to() {
        for soft_bp in [1, 33, 500, 3_333, 9_999, 10_000] {
            for limit in (1..3_000).chain([1 << 40, (1 << 62) + 12_345]) {
                let soft = softened(limit, soft_bp).expect("below 2^64");
                assert_eq!(unsoftened(soft, soft_bp), limit, "{soft_bp}");
            }
        }
        assert_eq!(softened(u64::MAX, 1), None);
    }

    #[test]
    fn a_denial_that_nothing_counts_writes_nothing() {
        let kernel = Kernel::FixedWindow(FixedWindow::new(1, 7));
        let soft = Rules { any: true, soft_bp: 10_000, ..Rules::default() };
        let counted = Rules { denied_most: Some(2), ..soft };
        let full = Held { counts: 1, ..Held::IDLE };
        let refused = |rules: &Rules| Ruled { kernel: &kernel, rules }.refuse(full, 0, 1);
        assert_eq!(refused(&soft), None);
        assert_eq!(refused(&counted), Some(Held { counts: 2, ..full }));
    }

    #[test]
    fn a_denial_that_raises_a_debt_by_less_than_a_granule_writes_nothing() {
        // A unit has 256 ticks, of which one passes in each nanosecond. If the longest wait is 1,000 ticks, a granule
        // is one tick. If it is 5,120 ticks, a granule is six.
        let kernel = Kernel::Gcra(Gcra::new(1, 256, 2, 8));
        for (wait, granule) in [(0, 1), (1_000, 1), (5_120, 6), (2_000_000, 256)] {
            let most = 256 + wait;
            let rules = Rules { any: true, denied_most: Some(most), ..Rules::default() };
            let refused = |owed: u64| {
                let held = Held { ahead: owed, ..Held::IDLE };
                Ruled { kernel: &kernel, rules: &rules }.refuse(held, 0, 2)
            };
            let full = Some(Held { ahead: most, ..Held::IDLE });
            assert_eq!(refused(most - granule), full, "{wait}");
            assert_eq!([most - granule + 1, most, most + 9].map(refused), [None; 3], "{wait}");
        }
    }

    /// The windows have 7 ns and the ends of penalties are in quanta of 2 ns, so that the last quantum of a window is
    /// cut short.
    #[test]
    fn an_end_is_rounded_up_within_its_window_and_at_most_to_the_windows_end() {
        let kernel = Kernel::FixedWindow(FixedWindow::new(1, 7));
        let penalty = Penalty {
            length_ns: 7,
            after: 1,
            extended: false,
            denial_bits: 1,
            unit_ns: 7,
            quantum_ns: 2,
        };
        let rules = Rules { any: true, penalty: Some(penalty), ..Rules::default() };
        let ruled = Ruled { kernel: &kernel, rules: &rules };
        for (at_ns, end_ns) in [(0, 7), (1, 9), (2, 9), (4, 11), (5, 13), (6, 13), (7, 14), (8, 16)]
        {
            let held = ruled.penalised(&penalty, Held::IDLE, at_ns);
            assert_eq!(ruled.end_ns(held, at_ns), end_ns);
            let refused_at = |now_ns: u64| {
                let passed = now_ns / 7 - at_ns / 7;
                ruled.free(held.seen_later(passed), ruled.moment(now_ns)).is_none()
            };
            assert!((at_ns..end_ns).all(refused_at), "from {at_ns}");
            assert!(!(end_ns..end_ns + 20).any(refused_at), "from {at_ns}");
        }
    }
}
