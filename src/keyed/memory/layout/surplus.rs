//! The bits of a word that hold its surplus, where quotas may change: see `algorithm/surplus.rs`.

use super::Layout;
use crate::algorithm::{Former, Kernel, SurplusScale};
use crate::keyed::memory::shard::{OwnBits, TableWord};

impl Layout {
    /// How exact a layout is, in bits: the bits that divide a unit into ticks (under GCRA), or the bits of the surplus
    /// if they are fewer; twelve at most.
    pub(super) fn merit_alone(&self) -> u32 {
        // Twelve bits distinguish every surplus under a limit of two thousand. In a table of fixed quotas, a unit has
        // 2^12 ticks at the finest.
        let ticks = if self.kernel.is_gcra() { self.kernel.fineness().ilog2() } else { u32::MAX };
        ticks.min(self.surplus_bits.into()).min(12)
    }

    /// The largest surplus that words may have after another quota has replaced this one. Units beyond it are
    /// forgotten.
    pub(in crate::keyed) fn max_units(&self) -> u64 {
        let limit = self.kernel.limit();
        match self.kernel {
            // A word can hold a debt of a hundred limits, and the word of a single limiter one of centuries. A surplus
            // with such a range would have steps larger than the limit. So if the quota is changed and changed back,
            // the part of a debt beyond twice the limit and the queue is forgotten.
            Kernel::Gcra(_) => {
                let places = self.ruled().queue_ticks() / self.kernel.fineness();
                limit.saturating_mul(2).saturating_add(places)
            }
            _ => limit,
        }
    }

    fn surplus_shift(&self) -> u32 {
        u32::from(self.count_bits) + u32::from(self.time_bits)
    }

    /// The bits of a word that hold its surplus, in their position in the word.
    pub(in crate::keyed) fn surplus_of(&self, own: OwnBits) -> OwnBits {
        // The surplus has at most 16 bits, above all others except index and tag.
        let all = ((1 << self.surplus_bits) - 1) << self.surplus_shift();
        OwnBits::from_bits(own.to_bits() & all)
    }

    /// The bits above the time in a word: its tag, if it has one, its index, and its surplus.
    #[inline(always)]
    pub(in crate::keyed) fn own_of(&self, word: TableWord) -> OwnBits {
        // A layout has no more bits than a word.
        OwnBits::from_bits(word.to_bits() & (u64::MAX << (self.surplus_shift() % u64::BITS)))
    }

    /// The number of units that these bits mean.
    pub(in crate::keyed) fn surplus_units(&self, surplus: OwnBits, former: &Former) -> u64 {
        let scale = SurplusScale::new(self.surplus_bits.into(), former.most);
        scale.map_or(0, |scale| scale.units(surplus.to_bits() >> self.surplus_shift()))
    }

    /// The bits that mean `units`, or a little more, in their position in a word.
    pub(in crate::keyed) fn surplus_bits_of(&self, units: u64, former: &Former) -> OwnBits {
        let scale = SurplusScale::new(self.surplus_bits.into(), former.most);
        OwnBits::from_bits(scale.map_or(0, |scale| scale.code(units) << self.surplus_shift()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shared;
    use crate::policy::Policy;

    /// The bits of the surplus and of the tag in a table of one tier that was built with this quota.
    /// `docs/limiters.md` states the bits of the surplus for four of these quotas.
    #[test]
    fn the_bits_of_a_surplus_are_those_that_the_documentation_names() {
        for (text, bits, tag_bits) in [
            ("gcra 100/h", 7, 32),
            ("gcra 100/s", 6, 32),
            ("gcra 1000/h", 6, 32),
            ("gcra 10000/s", 4, 32),
            ("gcra 1000/h debt 100x", 4, 31),
            ("fixed-window 100/m", 12, 32),
            ("sliding-window 100/m", 8, 32),
            ("sliding-window 10000/m", 1, 28),
            ("segmented-window 100/m x4", 4, 29),
        ] {
            let policy: Policy = text.parse().expect("a policy");
            let shared = Shared::plan(&[policy], 2).expect("a plan");
            let layout = shared.layout(&policy).expect("planned");
            assert_eq!((layout.surplus_bits, layout.division.tag_bits), (bits, tag_bits), "{text}");
        }
    }
}
