//! Converts the state of one word into the state of another word of the same policy, if the two words differ in their
//! unit of time or in the packing of their counts.
//!
//! A sketch has all 64 bits for a time and its counts, but a keyed word has fewer. So the ticks of the two words may
//! differ in length, and the counts of segments may be ranked in one word and side by side in the other. A state that
//! is carried over never owes less than before.

use super::{Gcra, Held, Kernel};

impl Kernel {
    /// Converts a state of `from` into a state of this arithmetic. Both are measured from `at_ns`.
    pub(crate) fn carried(&self, held: Held, from: &Self, at_ns: u64) -> Held {
        match (self, from) {
            (to, from) if to == from => held,
            (Self::Gcra(to), Self::Gcra(from)) => to.carried(held, from, at_ns),
            (Self::SegmentedWindow(to), Self::SegmentedWindow(from)) => to.repacked(from, held),
            _ => held, // the other windows of one policy count alike
        }
    }
}

impl Gcra {
    /// Converts ticks of another quota into the ticks of this quota that stand for the same number of units, rounded
    /// up. A unit has a power of two of ticks under both quotas, so the result is exact if a unit has at least as many
    /// ticks under this quota.
    pub(super) fn ticks_of(&self, other: &Self, theirs: u128) -> u128 {
        theirs.saturating_mul(self.unit_ticks.into()).div_ceil(other.unit_ticks.into())
    }

    /// Converts the debt under another quota into a debt of the same number of units under this quota. Both are
    /// measured from `at`. The number of units is exact to 2^-32 of a tick, and is then rounded up to a whole tick.
    ///
    /// The debt in a word is measured from the last whole tick before `at`, and the part of a tick between that tick
    /// and `at` differs between the two scales. Both parts are taken into account, so that a word that is carried back
    /// and forth loses nothing. A word that has just become idle may therefore owe one tick after the conversion: if
    /// its debt, in units, ended within the current tick of this scale, it is rounded up to the end of that tick.
    pub(crate) fn same_units(&self, held: Held, from: &Self, at_ns: u64) -> Held {
        // A debt that does not fit in 64 bits stays as it is, under any quota.
        if held.is_cut() {
            return held;
        }
        // The debt is computed in parts of 2^-32 of a tick. The part of the current tick that has already passed is not
        // owed any more.
        let whole = |ticks: u64| i128::from(ticks) << 32;
        let debt = whole(held.ahead) - whole(held.behind) - i128::from(from.scale.part(at_ns));
        // The product may saturate: only a debt that fits in no word is that large.
        let units = debt.saturating_mul(self.unit_ticks.into());
        let (per_unit, passed) = (i128::from(from.unit_ticks), i128::from(self.scale.part(at_ns)));
        let parts = (units + per_unit - 1).div_euclid(per_unit).saturating_add(passed);
        let ahead = (parts + (whole(1) - 1)) >> 32;
        Held { ahead: u64::try_from(ahead.max(0)).unwrap_or(u64::MAX), ..Held::IDLE }
    }

    /// Converts a debt into ticks of this scale, rounded up. The converted debt ends no earlier than the debt in the
    /// other word. Each scale rounds `at_ns` to its own ticks, so the debt and its end are converted separately, and
    /// the later end is kept.
    fn carried(&self, held: Held, from: &Self, at_ns: u64) -> Held {
        // A word that owes nothing is idle in every scale.
        if held.ahead == 0 {
            return Held::IDLE;
        }
        let debt = self.ticks_of(from, held.ahead.into());
        let end = self.ticks_of(from, from.ticks(at_ns).saturating_add(held.ahead.into()));
        let ahead = debt.max(end.saturating_sub(self.ticks(at_ns)));
        Held { ahead: u64::try_from(ahead).unwrap_or(u64::MAX), ..Held::IDLE }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decides, Packing, SegmentedWindow};
    use super::*;

    fn ahead(ahead: u64) -> Held {
        Held { ahead, ..Held::IDLE }
    }

    #[test]
    fn the_same_arithmetic_is_carried_over_as_it_is() {
        let kernel = Kernel::Gcra(Gcra::new(10, 60_000_000_000, 10, 12));
        let held = Held { ahead: 0, behind: 7, counts: 0 };
        assert_eq!(kernel.carried(held, &kernel, 5), held);
    }

    #[test]
    fn a_debt_is_rounded_up_to_coarser_ticks() {
        let [coarse, fine] = [0, 4].map(|bits| Kernel::Gcra(Gcra::new(1, 1_000, 10, bits)));
        let carried = |debt| coarse.carried(ahead(debt), &fine, 5_000).ahead;
        assert_eq!([0, 1, 15, 16, 17, 160].map(carried), [0, 1, 1, 1, 2, 10]);
    }

    #[test]
    fn a_debt_ends_no_earlier_than_it_did_whatever_the_instant_and_the_ticks() {
        let scale = |bits| Gcra::new(7, 1_000, 10, bits);
        for (to, from) in [(0, 4), (4, 0), (3, 3), (12, 1), (1, 12)] {
            let (to, from) = (scale(to), scale(from));
            let kernels = [Kernel::Gcra(to), Kernel::Gcra(from)];
            for at_ns in (0..3_000).step_by(7) {
                for debt in [1, 2, 3, 50, 1_000] {
                    let carried = kernels[0].carried(ahead(debt), &kernels[1], at_ns);
                    let [ends, ended] = [(&kernels[0], carried), (&kernels[1], ahead(debt))]
                        .map(|(kernel, held)| kernel.idle_ns(held, at_ns));
                    assert!(ends >= ended, "{debt} at {at_ns}: {ends}, {ended}");
                    // The debt ends at most two ticks later than before: one tick for each rounding.
                    let tick_ns = 1_000 / 7 / to.unit_ticks().min(from.unit_ticks()) + 1;
                    assert!(ends <= ended + 2 * tick_ns + 1, "{debt} at {at_ns}: {ends}, {ended}");
                }
            }
        }
    }

    /// The units that a word owes at an instant, without the part of the current tick that has already passed.
    fn owed(gcra: &Gcra, held: Held, at_ns: u64) -> f64 {
        let part = f64::from(gcra.scale.part(at_ns)) / f64::from(u32::MAX);
        (held.ahead as f64 - part) / gcra.unit_ticks as f64
    }

    #[test]
    fn a_debt_is_as_many_units_under_another_quota_and_less_than_a_tick_more() {
        for (to, from) in [
            ((7, 1_000, 3), (1, 90, 0)),
            ((1, 90, 0), (7, 1_000, 3)),
            ((1, 10, 12), (1, 10_000, 5)),
        ] {
            let [to, from] =
                [to, from].map(|(count, period, bits)| Gcra::new(count, period, 100, bits));
            for at_ns in (0..3_000).step_by(7) {
                for debt in [1, 2, 3, 50, 1_000] {
                    let carried = to.same_units(ahead(debt), &from, at_ns);
                    let [before, after] =
                        [owed(&from, ahead(debt), at_ns), owed(&to, carried, at_ns)];
                    let tick = 1.0 / to.unit_ticks as f64;
                    assert!(after >= before - 1e-6, "{debt} at {at_ns}: {after}, {before}");
                    assert!(after < before + tick + 1e-6, "{debt} at {at_ns}: {after}, {before}");
                }
            }
        }
        let [to, from] = [Gcra::new(1, 10, 100, 4), Gcra::new(1, 1_000, 100, 2)];
        assert_eq!(to.same_units(Held { behind: 9, ..ahead(0) }, &from, 5), Held::IDLE);
        assert_eq!(
            to.same_units(ahead(u64::MAX), &from, 5),
            ahead(u64::MAX),
            "later than any time"
        );
        assert_eq!(
            to.same_units(ahead(u64::MAX - 1), &from, 0),
            ahead(u64::MAX),
            "more than 64 bits"
        );
    }

    #[test]
    fn a_faster_quota_is_one_whose_units_come_back_sooner_whatever_its_ticks() {
        let gcra = |count, period, bits| Gcra::new(count, period, 10, bits);
        let order = [gcra(1, 1_000, 0), gcra(1, 999, 12), gcra(2, 1_000, 3), gcra(3, 1, 0)];
        for (nth, one) in order.iter().enumerate() {
            for (other, slower) in order.iter().enumerate().map(|(other, it)| (it, other < nth)) {
                assert_eq!(one.is_faster(other), slower, "{one:?} and {other:?}");
            }
        }
        for equal in [gcra(1, 1_000, 9), gcra(5, 5_000, 4)] {
            assert!(!equal.is_faster(&order[0]) && !order[0].is_faster(&equal), "{equal:?}");
        }
    }

    #[test]
    fn a_ring_is_the_same_ring_side_by_side_and_ranked() {
        let ring = |packing| SegmentedWindow::new(5, 20, 3, 3, packing);
        let packings: Vec<Packing> = Packing::all(5, 3).map(|(packing, _)| packing).collect();
        let kernels = [0, 2].map(|nth| Kernel::SegmentedWindow(ring(packings[nth])));
        for (from, to) in [(0, 1), (1, 0)] {
            let (from, to) = (&kernels[from], &kernels[to]);
            let step =
                |held: Held, cost| from.step(held, from.moment(0), 0, cost).expect("it fits");
            let held = step(step(step(Held::IDLE, 1).seen_later(1), 2).seen_later(1), 1);
            for passed in 0..4 {
                let [seen, carried] =
                    [held, to.carried(held, from, 0)].map(|h| h.seen_later(passed));
                let left = |kernel: &Kernel, held| kernel.remaining(held, kernel.moment(0), 0);
                assert_eq!(left(from, seen), left(to, carried), "{passed}");
            }
            // A word whose time lies behind now still owes nothing after the conversion.
            let late = Held { ahead: 0, behind: 1, counts: held.counts };
            assert_eq!(to.carried(late, from, 0).behind, 1);
        }
    }
}
