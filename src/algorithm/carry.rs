//! Carries a state from one word over to another word of the same policy that counts more or less finely.
//!
//! A sketch has all 64 bits for a time and its counts, but a keyed word has fewer. So ticks may differ in length, and
//! segments may be ranked in one and side by side in the other. A state that is carried over never owes less than
//! before.

use super::{Gcra, Held, Kernel};

impl Kernel {
    /// Converts a state of `from` into a state of this arithmetic. Both are seen from `at_ns`.
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
    /// Converts ticks of another quota into the ticks of this one that are as many units, rounded up. A unit is a power
    /// of two ticks in both, so the result is exact if a unit has at least as many ticks here.
    pub(super) fn ticks_of(&self, other: &Self, theirs: u128) -> u128 {
        theirs.saturating_mul(self.unit_ticks.into()).div_ceil(other.unit_ticks.into())
    }

    /// Converts a debt into ticks of this scale, rounded up. The debt is measured from `at_ns`, and it ends no earlier
    /// than the other word says: each scale rounds `at_ns` by a part of its own tick, so the two need not agree.
    fn carried(&self, held: Held, from: &Self, at_ns: u64) -> Held {
        // Nothing is owed, whatever the ticks.
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
                    // And not by more than two ticks, one for each rounding.
                    let tick_ns = 1_000 / 7 / to.unit_ticks().min(from.unit_ticks()) + 1;
                    assert!(ends <= ended + 2 * tick_ns + 1, "{debt} at {at_ns}: {ends}, {ended}");
                }
            }
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
            // A word that lies behind stays behind.
            let late = Held { ahead: 0, behind: 1, counts: held.counts };
            assert_eq!(to.carried(late, from, 0).behind, 1);
        }
    }
}
