//! [`WordNeeds`]: computes how many bits a policy needs in the word of its state, and how fine its ticks and quanta can
//! be.
//!
//! A word is `[time | counts]` ([`Fields`](crate::word::Fields)). Under GCRA the time is in ticks, which are as fine as
//! the word has room for, and there are no counts. A window counts whole units, so only the start of a window and the
//! end of a penalty can be rounded to a finer or coarser quantum.

use super::{Algorithm, AtLimit, CountDenied, Policy};
use crate::algorithm::{Packing, Rounding, bits_for};
use crate::clock::LATEST_NS;

/// The lengths to which a start can be rounded, shortest first.
pub(crate) const POWERS_OF_TEN: [u64; 16] = {
    let mut powers = [1; 16];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// The layout of the counts in a word without a key.
pub(super) struct UnkeyedCounts {
    pub(super) bits: u32,
    pub(super) packing: Packing,
    pub(super) end_quantum_ns: u64,
}

/// A view of a policy that computes the size of its numbers.
#[derive(Clone, Copy)]
pub(crate) struct WordNeeds<'a> {
    policy: &'a Policy,
}

/// The needs of all policies.
impl<'a> WordNeeds<'a> {
    pub(super) const fn of(policy: &'a Policy) -> Self {
        Self { policy }
    }

    /// True if a word without a key has room for the policy.
    pub(super) fn fits(self) -> bool {
        // If the counts filled the whole word, the shift of the time would overflow.
        self.bits() <= u64::BITS && self.unkeyed().bits < u64::BITS
    }

    /// The number of bits in a word without a key: its counts, and its time up to the latest instant.
    pub(super) fn bits(self) -> u32 {
        match (self.policy.algorithm, self.unit_bits()) {
            (Algorithm::Gcra, Some(_)) => u64::BITS, // ticks are as fine as they can be
            (Algorithm::Gcra, None) => self.tick_bits(0) + self.denial_bits(),
            _ => self.unkeyed().bits + self.time_bits(),
        }
    }

    /// The layout of the counts in a word without a key: the first packing that fits.
    pub(super) fn unkeyed(self) -> UnkeyedCounts {
        let packing = Packing::SIDE_BY_SIDE;
        // GCRA's word contains only a time, and with a penalty also the number of denials in a row.
        if self.policy.algorithm == Algorithm::Gcra {
            return UnkeyedCounts { bits: self.denial_bits(), packing, end_quantum_ns: 1 };
        }
        let (time_bits, unit_ns) = (self.time_bits(), self.unit_ns(self.quantum_ns()));
        let with = |(packing, own_bits): (Packing, u32)| {
            let end_quantum_ns = match self.policy.algorithm {
                // The unit of time is already a quantum.
                Algorithm::FixedWindowFromFirst => unit_ns,
                _ => self.end_quantum_ns(own_bits, time_bits, unit_ns),
            };
            let bits = self.bits_beside_end(own_bits, unit_ns, end_quantum_ns);
            UnkeyedCounts { bits, packing, end_quantum_ns }
        };
        let fits = |counts: &UnkeyedCounts| {
            counts.bits + time_bits <= u64::BITS && counts.bits < u64::BITS
        };
        // If no packing fits, the error says how many bits the simplest packing would need.
        let side_by_side = with((packing, self.count_bits()));
        self.packings().map(with).find(fits).unwrap_or(side_by_side)
    }

    /// The width of the field that counts denials in a row.
    fn denial_bits(self) -> u32 {
        self.policy.at_limit.denial_bits()
    }
}

/// The needs of GCRA: its ticks.
impl WordNeeds<'_> {
    /// The finest ticks for a word without a key: a unit has 2 to this power of ticks, as in
    /// [`Quota::unit_bits`](crate::Quota). With these ticks the word also has room for the number of denials in a row,
    /// and for the latest time to which this policy can charge it. `None` if no ticks fit.
    pub(super) fn unit_bits(self) -> Option<u8> {
        if self.policy.at_limit == AtLimit::default() {
            return self.policy.quota.unit_bits();
        }
        // The search begins at 2^62 ticks in a unit, which fill the word together with one bit for the sum.
        (0..=62).rev().find(|&unit_bits| self.tick_bits(unit_bits) + self.denial_bits() <= 64)
    }

    /// The number of bits for two numbers: the ticks until the latest time, and the ticks ahead of now. It is enough
    /// for the larger number, plus one bit for their sum.
    fn tick_bits(self, unit_bits: u8) -> u32 {
        let passed = self.ticks_in(LATEST_NS.into(), unit_bits);
        let most = passed.max(self.ticks_ahead(unit_bits));
        1 + u128::BITS - most.leading_zeros()
    }

    /// The number of ticks in `ns` nanoseconds, rounded down. The result saturates far above the largest number that
    /// fits in a word.
    fn ticks_in(self, ns: u128, unit_bits: u8) -> u128 {
        let quota = self.policy.quota;
        ns.saturating_mul(u128::from(quota.count()) << unit_bits) / u128::from(quota.period_ns())
    }

    /// The largest distance ahead of now to which a denied request is charged, in ticks: L - 1 unit + C.
    pub(super) fn denied_ticks(self, unit_bits: u8) -> Option<u128> {
        let burst = u128::from(self.policy.ceiling()) << unit_bits;
        let wait = match self.policy.at_limit.count_denied {
            CountDenied::No => return None,
            // The horizon is the time in which a whole burst drains.
            CountDenied::Yes => burst,
            // C is rounded down, so that the wait for one unit is at most C.
            CountDenied::UpTo(wait) => self.ticks_in(wait.as_nanos(), unit_bits),
        };
        Some((burst - (1 << unit_bits)).saturating_add(wait))
    }

    /// The largest distance by which a word's time may ever lie ahead of now, in ticks.
    pub(crate) fn ticks_ahead(self, unit_bits: u8) -> u128 {
        let burst = u128::from(self.policy.ceiling()) << unit_bits;
        let end = match self.policy.at_limit.penalty {
            // Two ticks are added, since the length of the penalty and the times at its beginning and its end are
            // rounded.
            Some(penalty) => self.ticks_in(penalty.length.as_nanos(), unit_bits).saturating_add(2),
            None => 0,
        };
        let queue = self.policy.at_limit.queue.map_or(0, |wait| {
            let [wait_ns, places] = wait.bounds();
            burst + self.ticks_in(wait_ns.into(), unit_bits).min(u128::from(places) << unit_bits)
        });
        let debt = self.debt_times().map_or(0, |times| burst.saturating_mul(times));
        burst.max(self.denied_ticks(unit_bits).unwrap_or(0)).max(end).max(queue).max(debt)
    }

    /// The largest debt or count as a multiple of the limit: the limit itself plus the debt that the policy allows.
    fn debt_times(self) -> Option<u128> {
        let times = self.policy.at_limit.debt;
        (times > 0).then_some(1 + u128::from(times))
    }
}

/// The needs of windows: their counts, and the fineness of instants within a window.
impl WordNeeds<'_> {
    /// The largest count of one window.
    pub(super) fn largest_count(self) -> u64 {
        self.denied_count().max(self.charged_count().unwrap_or(0))
    }

    /// The largest count after a charge into debt, if the policy allows a debt.
    fn charged_count(self) -> Option<u64> {
        let most = self.debt_times()?.saturating_mul(self.policy.ceiling().into());
        // A number that saturates here is too large for any word.
        Some(u64::try_from(most).unwrap_or(u64::MAX))
    }

    /// The largest count after a charge for a denied request.
    pub(super) fn denied_count(self) -> u64 {
        // These algorithms weight the previous window by less than 1, so units beyond the limit have an effect in the
        // next window.
        let weighs = matches!(
            self.policy.algorithm,
            Algorithm::SlidingWindow { rounding: Rounding::Exact | Rounding::Down }
        );
        let ceiling = self.policy.ceiling();
        if weighs && self.policy.at_limit.count_denied != CountDenied::No {
            ceiling.saturating_mul(2)
        } else {
            ceiling
        }
    }

    /// The number of bits for all counts of a word, side by side. It is above 64 if the counts do not fit.
    fn count_bits(self) -> u32 {
        let counters = match self.policy.algorithm {
            // A log has slots and no counts.
            Algorithm::Gcra | Algorithm::SlidingLog => 0,
            Algorithm::FixedWindow | Algorithm::FixedWindowFromFirst | Algorithm::Calendar(_) => 1,
            Algorithm::SlidingWindow { .. } => 2,
            Algorithm::SegmentedWindow { segments } => u32::from(segments),
        };
        counters * u32::from(bits_for(self.largest_count()))
    }

    /// The packings that the algorithm's counts may have in a word, in the order of preference, each with its number of
    /// bits.
    pub(crate) fn packings(self) -> impl Iterator<Item = (Packing, u32)> {
        let side_by_side = (Packing::SIDE_BY_SIDE, self.count_bits());
        let narrower = match self.policy.algorithm {
            // A ring can be ranked only if its sum is at most the limit, and counted denials may raise the sum above
            // the limit. A ring must also fit in 128 bits, so that it can be unpacked.
            Algorithm::SegmentedWindow { segments }
                if self.policy.at_limit.count_denied == CountDenied::No
                    && self.count_bits() < u128::BITS =>
            {
                Some(Packing::all(self.policy.ceiling(), segments).skip(1))
            }
            _ => None,
        };
        std::iter::once(side_by_side).chain(narrower.into_iter().flatten())
    }

    /// The number of bits for the largest time of a word without a key.
    fn time_bits(self) -> u32 {
        // If an instant is rounded up (the start of a window, or the end of a penalty), the largest time is one unit
        // later.
        let rounds_up = self.policy.algorithm == Algorithm::FixedWindowFromFirst
            || self.policy.at_limit.penalty.is_some();
        let units = self.latest_ns() / self.unit_ns(self.quantum_ns());
        // A number that saturates here is too large for any word.
        bits_for(units.saturating_add(rounds_up.into())).into()
    }

    /// The latest instant that a word has to hold: the end of a penalty that begins at the latest time. For a window
    /// of the calendar it is the last instant of a clock: see
    /// [`Decides::latest_ns`](crate::algorithm::Decides::latest_ns).
    fn latest_ns(self) -> u64 {
        if let Algorithm::Calendar(_) = self.policy.algorithm {
            return u64::MAX;
        }
        LATEST_NS.saturating_add(self.policy.at_limit.penalty_ns())
    }

    /// The length of the word's unit of time. The end of a penalty is stored as a number of these units plus a part of
    /// a unit.
    pub(crate) fn unit_ns(self, quantum_ns: u64) -> u64 {
        let window_ns = self.policy.quota.period_ns();
        match self.policy.algorithm {
            Algorithm::Gcra => 1,
            Algorithm::FixedWindowFromFirst => quantum_ns,
            Algorithm::SegmentedWindow { segments } => window_ns / u64::from(segments),
            // The shortest window is used, so that the number of units is at least the number of windows.
            Algorithm::Calendar(unit) => unit.shortest_ns(),
            _ => window_ns,
        }
    }

    /// The quantum to which the start of a `from-first` window is rounded up in a word without a key. It is as fine as
    /// the count leaves room for.
    pub(super) fn quantum_ns(self) -> u64 {
        let beside = self.count_bits() + self.denial_bits();
        self.finest_quantum_ns(u64::MAX, |quantum_ns| {
            let time_bits = bits_for((self.latest_ns() / quantum_ns).saturating_add(1));
            beside + u32::from(time_bits) <= u64::BITS
        })
    }

    /// The quantum to which the end of a penalty is rounded up in a word without a key. It is as fine as the other
    /// fields leave room for.
    fn end_quantum_ns(self, own_bits: u32, time_bits: u32, unit_ns: u64) -> u64 {
        self.finest_quantum_ns(unit_ns, |quantum_ns| {
            let bits = self.bits_beside_end(own_bits, unit_ns, quantum_ns);
            bits < u64::BITS && bits + time_bits <= u64::BITS
        })
    }

    /// The least power of ten nanoseconds that fits and is at most `most` and at most a thousandth of the window. If
    /// none fits, the largest power within these two bounds.
    fn finest_quantum_ns(self, most: u64, fits: impl Fn(u64) -> bool) -> u64 {
        let coarsest_ns = (self.policy.quota.period_ns() / 1_000).clamp(1, most);
        let tolerable = POWERS_OF_TEN.into_iter().take_while(|&quantum| quantum <= coarsest_ns);
        tolerable.clone().find(|&quantum| fits(quantum)).or(tolerable.last()).unwrap_or(1)
    }

    /// The number of bits for a window's counts. `own_bits` are needed for the counts themselves. With a penalty, the
    /// counts are also wide enough for the part of a unit at the end of a penalty, and the bits for the number of
    /// denials are added.
    pub(crate) fn bits_beside_end(self, own_bits: u32, unit_ns: u64, end_quantum_ns: u64) -> u32 {
        if self.policy.at_limit.penalty.is_none() {
            return own_bits;
        }
        own_bits.max(bits_for((unit_ns - 1) / end_quantum_ns).into()) + self.denial_bits()
    }
}
