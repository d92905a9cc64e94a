//! [`Demand`]: the bits that a policy needs in a word. Most policies have a choice of demands, which are tried in the
//! order of preference.

use crate::algorithm::{Kernel, Packing, Rules};
use crate::policy::{Algorithm, Fineness, POWERS_OF_TEN, Policy};

/// A unit of a quota that a caller brings along has 2^20 ticks at the finest, and 2^13 at the coarsest. The choices of
/// [`UNIT_BITS`] are tried after these.
// A debt is rounded up to a whole tick each time that it is carried over to another quota. With fine ticks, a key whose
// requests alternate between two quotas loses almost nothing in this way.
const UNIT_BITS_OWN: std::ops::RangeInclusive<u8> = 13..=20;

/// A unit of cost has 2^12 ticks at the finest and 2^8 at the coarsest in a table's word.
// A tick of 1/4096 of a unit's time is finer than a client can notice; at 1/256 a wait is still exact to half a percent
// of that time.
const UNIT_BITS: std::ops::RangeInclusive<u8> = 8..=12;

/// A tick need not be shorter than the time that it takes to read a clock. So a unit may have as few as 2^4 ticks, if a
/// tick then lasts at least 1 ns and less than 16 ns.
const UNIT_BITS_SHORT: std::ops::Range<u8> = 4..8;
const TICK_NS_SHORT: std::ops::Range<u64> = 1..16;

/// The start of a from-first window is rounded up to a whole quantum, so the window may stay shut for up to one quantum
/// too long. A window has at least 2^16 quanta, or 2^12 if the counts of its limit leave little room for the time.
pub(super) const QUANTA: [u64; 2] = [1 << 16, 1 << 12];

/// The end of a penalty is rounded up to a whole quantum. A window has at least this many quanta, so an end is rounded
/// by no more than the coarsest start of a window.
const END_QUANTA: u64 = 1 << 12;

/// The bits that a policy needs in a word, and how far from now the word's time may lie.
#[derive(Clone, Copy)]
pub(super) struct Demand {
    pub(super) kernel: Kernel,
    pub(super) rules: Rules,
    pub(super) count_bits: u32,
    /// The unit of time is `unit_ns.0 / unit_ns.1` nanoseconds.
    pub(super) unit_ns: (u128, u128),
    pub(super) before: u64,
    pub(super) ahead: u64,
    pub(super) time_bits_min: u32,
}

impl Demand {
    /// The policy's demand with the number `choice`, in the order of preference. The error is the number of bits that
    /// the demand would need, if a word has too few.
    pub(super) fn of(policy: &Policy, choice: usize) -> Option<Result<Self, u32>> {
        match (policy.algorithm(), choice) {
            // Each choice has longer ticks than the choice before.
            (Algorithm::Gcra, _) => {
                // The time in which one unit is refilled.
                let unit_ns = policy.quota().period_ns() / policy.quota().count();
                let is_short = |bits: &u8| TICK_NS_SHORT.contains(&(unit_ns >> bits));
                let mut choices = UNIT_BITS.rev().chain(UNIT_BITS_SHORT.rev().filter(is_short));
                choices.nth(choice).map(|unit_bits| Self::of_gcra(policy, unit_bits))
            }
            // Each choice rounds starts more coarsely than the choice before.
            (Algorithm::FixedWindowFromFirst, _) => {
                // The widest counts are taken, since they are read without a search.
                let side_by_side = policy.needs().packings().next()?;
                QUANTA.get(choice).map(|&quanta| Self::of_window(policy, side_by_side, quanta))
            }
            // Each choice has narrower counts than the choice before.
            _ => policy
                .needs()
                .packings()
                .nth(choice)
                .map(|packed| Self::of_window(policy, packed, 1)),
        }
    }

    /// The demands of a GCRA quota that a caller brings along, those with the finest ticks first. All have finer ticks
    /// than the demands of [`Self::of`].
    pub(super) fn finer(policy: &Policy) -> impl Iterator<Item = Result<Self, u32>> {
        UNIT_BITS_OWN.rev().map(|unit_bits| Self::of_gcra(policy, unit_bits))
    }

    pub(super) fn of_window(
        policy: &Policy,
        (packing, count_bits): (Packing, u32),
        quanta: u64,
    ) -> Result<Self, u32> {
        // The counts alone would fill the word, in which one bit marks claims.
        if count_bits >= 63 {
            return Err(count_bits);
        }
        let window_ns = policy.quota().period_ns();
        let quantum_ns = greatest_quantum_ns(window_ns, quanta);
        let (unit_ns, before) = match policy.algorithm() {
            // The unit is a segment. A segment counts for a whole window, which has this many segments.
            Algorithm::SegmentedWindow { segments } => {
                (window_ns / u64::from(segments), u64::from(segments))
            }
            // Two quanta are added: a start may lie a quantum ahead, and a window need not be a whole number of quanta.
            Algorithm::FixedWindowFromFirst => (quantum_ns, window_ns / quantum_ns + 2),
            // A word names its window, and is idle when the next one begins.
            Algorithm::FixedWindow => (window_ns, 1),
            // The unit is the shortest window, so in any span of time no more windows pass than units. The longest
            // window is over within two units.
            Algorithm::Calendar(_) => (policy.needs().unit_ns(quantum_ns), 2),
            _ => (window_ns, 2), // sliding: the previous window counts too
        };
        let end_quantum_ns = match policy.algorithm() {
            Algorithm::FixedWindowFromFirst => quantum_ns,
            _ => greatest_quantum_ns(window_ns, END_QUANTA),
        };
        // The penalty in whole units, with one more for each of its two ends. A word's time must reach this far ahead.
        let end =
            policy.at_limit().penalty.map_or(0, |_| policy.at_limit().penalty_ns() / unit_ns + 2);
        let count_bits = policy.needs().bits_beside_end(count_bits, unit_ns, end_quantum_ns);
        // The counts and the end of a penalty together would fill the word.
        if count_bits >= 63 {
            return Err(count_bits);
        }
        let fineness = Fineness { unit_bits: 0, quantum_ns, packing, end_quantum_ns };
        Ok(Self {
            // A sliding log has no kernel. Its policy was refused earlier, with an error that names it.
            kernel: policy.kernel(fineness).ok_or(u64::BITS)?,
            rules: policy.rules(fineness),
            count_bits,
            unit_ns: (u128::from(unit_ns), 1),
            before,
            ahead: end.max(1),
            // With fewer bits not even an epoch of one unit would fit: the field must distinguish five epochs and the
            // reach.
            time_bits_min: 4,
        })
    }

    pub(super) fn of_gcra(policy: &Policy, unit_bits: u8) -> Result<Self, u32> {
        let quota = policy.quota();
        // Twice the burst, or the reach of a denial, a penalty or a debt if that is larger. A word's time may lie this
        // far ahead of `now`: after a charge into debt, a reservation, or a charge that a new key brings from the
        // spill.
        let ahead = policy
            .needs()
            .ticks_ahead(unit_bits)
            .max(u128::from(policy.ceiling()) << (unit_bits + 1));
        // If the time field has three bits more than the number `ahead / 2`, an epoch is at least as long as half of
        // `ahead`.
        let time_bits_min = u128::BITS - (ahead >> 1).leading_zeros() + 3;
        let count_bits = policy.at_limit().denial_bits();
        // Counts and time may take 62 bits, which leave one for the tag and one for claims. If they need more,
        // `Layout::plan` reports how many.
        let (Ok(ahead), true) = (u64::try_from(ahead), count_bits + time_bits_min <= 62) else {
            return Err(count_bits + time_bits_min);
        };
        let fineness = Fineness {
            unit_bits,
            quantum_ns: 1,
            packing: Packing::SIDE_BY_SIDE,
            end_quantum_ns: 1,
        };
        Ok(Self {
            // A sliding log has no kernel. Its policy was refused earlier, with an error that names it.
            kernel: policy.kernel(fineness).ok_or(u64::BITS)?,
            rules: policy.rules(fineness),
            count_bits,
            unit_ns: (u128::from(quota.period_ns()), u128::from(quota.count()) << unit_bits),
            // A word whose time lies before `now` is idle, however far before.
            before: 0,
            ahead,
            time_bits_min,
        })
    }
}

/// The greatest power of ten, in nanoseconds, that fits into a window at least `quanta` times.
fn greatest_quantum_ns(window_ns: u64, quanta: u64) -> u64 {
    // If the window has fewer than `quanta` nanoseconds, the quantum is one nanosecond, the finest time there is.
    POWERS_OF_TEN.into_iter().rev().find(|&quantum| quantum <= window_ns / quanta).unwrap_or(1)
}
