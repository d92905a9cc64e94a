//! [`Policy`]: a quota and the algorithm that enforces it.

mod at_limit;
mod calendar_month;
mod numbers;
mod read;
mod text;
mod words;

use crate::algorithm::{
    CalendarMonth, FixedWindow, FromFirst, Gcra, Kernel, LONGEST_NS, Packing, Rounding, Rules,
    SegmentedWindow, SlidingWindow, bits_for,
};
use crate::clock::LATEST_NS;
use crate::error::PolicyError;
use crate::quota::Quota;
use crate::word::Fields;

pub use at_limit::{AtLimit, CountDenied, Penalty};
pub(crate) use text::read_quota;

/// Lengths that a start may be rounded to, shortest first.
pub(crate) const POWERS_OF_TEN: [u64; 16] = {
    let mut powers = [1; 16];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// How finely a word counts. Each algorithm looks at what concerns it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fineness {
    /// GCRA: one unit is 2^this ticks.
    pub(crate) unit_bits: u8,
    /// A window from the first request: the length that its start is rounded to.
    pub(crate) quantum_ns: u64,
    /// Segments: what the word holds of the counts.
    pub(crate) packing: Packing,
    /// The other windows and segments: what the end of a penalty is rounded to.
    pub(crate) end_quantum_ns: u64,
}

/// How the counts of an un-keyed word are kept.
struct Unkeyed {
    count_bits: u32,
    packing: Packing,
    end_quantum_ns: u64,
}

/// How a quota is enforced.
///
/// *W* is the quota's period, *L* its count. "Most in W" is the most units that any half-open interval
/// of length W can hold, in the `now` of the decisions. For windows a `now` that lies before the window
/// in force is that window's start; for GCRA it is what it is.
///
/// ```
/// use tollgate::{Algorithm, Policy, Quota};
/// let policy = Policy::new(Algorithm::SlidingWindow, Quota::per_minute(100))?;
/// assert_eq!(policy.to_string(), "sliding-window 100/m");
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Generic cell rate algorithm: a token bucket with greedy refill, or a leaky bucket as a meter;
    /// they are one function. Units come back one by one. Most in W: burst + count - 1.
    Gcra,
    /// Windows on the clock's grid, `[k*W, (k+1)*W)`. Most in W: 2L, across one boundary.
    FixedWindow,
    /// The window opens with the first request that finds none open. Most in W: 2L - 1; 2L if the request that opened
    /// a window is given back.
    FixedWindowFromFirst,
    /// Two counters; the previous window counts for the share still covered, in exact integers.
    /// Most in W: 2L - 1. Under saturation it passes L - 1 per W (L = 1: one per 2W).
    SlidingWindow,
    /// As [`SlidingWindow`](Algorithm::SlidingWindow) with the share rounded down, as many systems do.
    /// Most in W: 2L. Under saturation it passes L per W.
    SlidingWindowRoundDown,
    /// As [`SlidingWindow`](Algorithm::SlidingWindow) with the previous window counted in full.
    /// Most in W: L. Under saturation it passes L per 2W, half the named rate.
    SlidingWindowStrict,
    /// A ring of sub-windows that fall off one by one. Most in W: 2L; at most L in any closed interval
    /// of W * (segments - 1) / segments.
    SegmentedWindow {
        /// 2 to 64; must divide the window into whole nanoseconds.
        segments: u8,
    },
    /// Calendar months in UTC, of 28 to 31 days: at most L in each. Most in 28 days: 2L, across one boundary; in W, which
    /// is 31 days: 3L, around a shorter month. [`Policy::calendar_month`] makes such a policy.
    CalendarMonth,
}

/// A quota, the algorithm that enforces it, and what happens at the limit ([`AtLimit`]: by default a
/// request is denied, and that is all). Also text: see [`FromStr`](Policy#impl-FromStr-for-Policy).
///
/// A policy that exists can be computed exactly in one word; what does not fit is refused here.
///
/// ```
/// use tollgate::{Policy, Quota};
/// let policy: Policy = "gcra 100/s burst 20".parse()?;
/// assert_eq!(policy, Policy::from(Quota::per_second(100).burst(20)));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    algorithm: Algorithm,
    quota: Quota,
    at_limit: AtLimit,
}

/// A quota alone is enforced by GCRA.
impl From<Quota> for Policy {
    fn from(quota: Quota) -> Self {
        Self { algorithm: Algorithm::Gcra, quota, at_limit: AtLimit::default() }
    }
}

impl Policy {
    /// An algorithm for a quota; at the limit it denies.
    ///
    /// # Errors
    /// Windows take no burst of their own; their counts and the window number must fit in a word; the
    /// number of segments must be 2 to 64 and divide the window; calendar months are of 31 days.
    ///
    /// ```
    /// use tollgate::{Algorithm, Policy, PolicyError, Quota};
    /// let quota = Quota::per_minute(100).burst(5);
    /// assert_eq!(Policy::new(Algorithm::FixedWindow, quota), Err(PolicyError::BurstOnWindow));
    /// ```
    pub fn new(algorithm: Algorithm, quota: Quota) -> Result<Self, PolicyError> {
        let policy = Self { algorithm, quota, at_limit: AtLimit::default() };
        if algorithm != Algorithm::Gcra && quota.max_burst() != quota.count() {
            return Err(PolicyError::BurstOnWindow);
        }
        if let Algorithm::SegmentedWindow { segments } = algorithm {
            policy.check_segments(segments)?;
        }
        if algorithm == Algorithm::CalendarMonth && quota.period_ns() != LONGEST_NS {
            return Err(PolicyError::MonthPeriod);
        }
        policy.check_fits()?;
        Ok(policy)
    }

    /// The quota.
    ///
    /// ```
    /// use tollgate::{Policy, Quota};
    /// assert_eq!(Policy::from(Quota::per_second(5)).quota(), Quota::per_second(5));
    /// ```
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// The algorithm.
    ///
    /// ```
    /// use tollgate::{Algorithm, Policy, Quota};
    /// assert_eq!(Policy::from(Quota::per_second(5)).algorithm(), Algorithm::Gcra);
    /// ```
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    fn check_segments(&self, segments: u8) -> Result<(), PolicyError> {
        if !(2..=64).contains(&segments) {
            return Err(PolicyError::SegmentCount { segments: u32::from(segments) });
        }
        let window_ns = self.quota.period_ns();
        if !window_ns.is_multiple_of(u64::from(segments)) {
            return Err(PolicyError::UnevenSegments { window_ns, segments: u32::from(segments) });
        }
        Ok(())
    }

    fn check_fits(&self) -> Result<(), PolicyError> {
        let needed_bits = self.needed_bits();
        if needed_bits <= u64::BITS && self.unkeyed().count_bits < u64::BITS {
            return Ok(());
        }
        Err(PolicyError::DoesNotFit { needed_bits, hint: self.fitting_hint() })
    }

    /// Bits of one un-keyed word: its counts, and its time until the latest instant.
    fn needed_bits(&self) -> u32 {
        match (self.algorithm, self.unit_bits()) {
            (Algorithm::Gcra, Some(_)) => u64::BITS, // ticks are as fine as they can be
            (Algorithm::Gcra, None) => self.tick_bits(0) + self.denial_bits(),
            _ => self.unkeyed().count_bits + u32::from(bits_for(self.latest_unit())),
        }
    }

    /// Bits of the algorithm's counts of one word, side by side; more than 64 if they do not fit.
    pub(crate) fn count_bits(&self) -> u32 {
        let counters = match self.algorithm {
            Algorithm::Gcra => 0,
            Algorithm::FixedWindow | Algorithm::FixedWindowFromFirst | Algorithm::CalendarMonth => {
                1
            }
            Algorithm::SlidingWindow
            | Algorithm::SlidingWindowRoundDown
            | Algorithm::SlidingWindowStrict => 2,
            Algorithm::SegmentedWindow { segments } => u32::from(segments),
        };
        counters * u32::from(bits_for(self.largest_count()))
    }

    /// How a word may hold the algorithm's counts, in the order of preference, with their bits.
    pub(crate) fn packings(&self) -> impl Iterator<Item = (Packing, u32)> {
        let side_by_side = (Packing::SIDE_BY_SIDE, self.count_bits());
        let narrower = match self.algorithm {
            // Ranks are of rings whose sum is within the limit, and denied requests may take it beyond.
            Algorithm::SegmentedWindow { segments }
                if self.at_limit.count_denied == CountDenied::No
                    && self.count_bits() < u128::BITS =>
            {
                Some(Packing::all(self.ceiling(), segments).skip(1))
            }
            _ => None,
        };
        std::iter::once(side_by_side).chain(narrower.into_iter().flatten())
    }

    /// The counts of an un-keyed word: the first packing that fits.
    fn unkeyed(&self) -> Unkeyed {
        if self.algorithm == Algorithm::Gcra {
            return Unkeyed {
                count_bits: self.denial_bits(),
                packing: Packing::SIDE_BY_SIDE,
                end_quantum_ns: 1,
            };
        }
        let time_bits = u32::from(bits_for(self.latest_unit()));
        let unit_ns = self.unit_ns(self.quantum_ns());
        let with = |(packing, own_bits): (Packing, u32)| {
            let end_quantum_ns = match self.algorithm {
                Algorithm::FixedWindowFromFirst => unit_ns,
                _ => self.end_quantum_ns(own_bits, time_bits, unit_ns),
            };
            let count_bits = self.bits_beside_end(own_bits, unit_ns, end_quantum_ns);
            Unkeyed { count_bits, packing, end_quantum_ns }
        };
        let fits = |counts: &Unkeyed| {
            counts.count_bits + time_bits <= u64::BITS && counts.count_bits < u64::BITS
        };
        let side_by_side = with((Packing::SIDE_BY_SIDE, self.count_bits()));
        self.packings().map(with).find(fits).unwrap_or(side_by_side)
    }

    /// The largest time an un-keyed word of this policy has to hold, beside its counts.
    fn latest_unit(&self) -> u64 {
        if self.algorithm == Algorithm::Gcra {
            return u64::MAX;
        }
        // One more where an instant is rounded up: a start, or the end of a penalty.
        let rounds_up =
            self.algorithm == Algorithm::FixedWindowFromFirst || self.at_limit.penalty.is_some();
        let units = self.latest_ns() / self.unit_ns(self.quantum_ns());
        units.saturating_add(rounds_up.into()) // cut, it fills the word anyway
    }

    /// The latest instant that a word has to tell: the end of a penalty that begins at the latest time.
    fn latest_ns(&self) -> u64 {
        LATEST_NS.saturating_add(self.penalty_ns())
    }

    /// The coarseness of a from-first start in an un-keyed word: the least power of ten nanoseconds
    /// that leaves room for the count, and no more than a thousandth of the window.
    fn quantum_ns(&self) -> u64 {
        let coarsest_ns = (self.quota.period_ns() / 1_000).max(1);
        let beside = self.count_bits() + self.denial_bits();
        let fits = |&quantum_ns: &u64| {
            beside + u32::from(bits_for((self.latest_ns() / quantum_ns).saturating_add(1)))
                <= u64::BITS
        };
        let tolerable = POWERS_OF_TEN.into_iter().take_while(|&quantum| quantum <= coarsest_ns);
        tolerable.clone().find(fits).or(tolerable.last()).unwrap_or(1)
    }

    /// What would fit in place of a policy that does not: fewer segments, or a smaller limit.
    fn fitting_hint(&self) -> String {
        let with = |algorithm, count| {
            let quota = Quota::try_per(count, self.quota.period());
            quota.map(|quota| Self { algorithm, quota, at_limit: self.at_limit })
        };
        let plain = Self { at_limit: AtLimit::default(), ..*self };
        if self.at_limit != plain.at_limit && plain.check_fits().is_ok() {
            return "64 are there; without what happens at the limit it fits: use a shorter penalty \
                    after fewer denials, a smaller share, or a smaller limit"
                .to_string();
        }
        let fits = |policy: &Self| policy.needed_bits() <= u64::BITS;
        let segmented = |segments| Algorithm::SegmentedWindow { segments };
        let even = |&n: &u8| self.quota.period_ns().is_multiple_of(u64::from(n));
        let fewer = (2..=64_u8).rev().filter(even).find(|&segments| {
            with(segmented(segments), self.quota.count()).is_ok_and(|policy| fits(&policy))
        });
        if let (Algorithm::SegmentedWindow { .. }, Some(most)) = (self.algorithm, fewer) {
            return format!("64 are there; at most x{most} fits");
        }
        let largest = (1..63)
            .rev()
            .map(|bits| (1_u64 << bits) - 1)
            .find(|&count| with(self.algorithm, count).is_ok_and(|policy| fits(&policy)));
        match largest {
            Some(count) => {
                format!("64 are there; in this window a limit up to {count} fits, or use gcra")
            }
            None => "64 are there; use a longer window, or gcra".to_string(),
        }
    }

    /// The arithmetic of an un-keyed word, and how the word is divided.
    pub(crate) fn compile(&self) -> (Kernel, Fields, Rules) {
        let unit_bits = self.unit_bits().unwrap_or(0); // a policy that exists has them
        let Unkeyed { count_bits, packing, end_quantum_ns } = self.unkeyed();
        let quantum_ns = self.quantum_ns();
        let fineness = Fineness { unit_bits, quantum_ns, packing, end_quantum_ns };
        #[expect(clippy::cast_possible_truncation, reason = "below 64, or there is no policy")]
        let count_bits = count_bits as u8;
        (self.kernel(fineness), Fields { count_bits }, self.rules(fineness))
    }

    /// The arithmetic for a word of a chosen fineness.
    pub(crate) fn kernel(&self, fineness: Fineness) -> Kernel {
        let Fineness { unit_bits, quantum_ns, packing, .. } = fineness;
        let (limit, window_ns) = (self.ceiling(), self.quota.period_ns());
        let count_bits = bits_for(self.largest_count());
        let sliding = |rounding| {
            Kernel::SlidingWindow(SlidingWindow::new(limit, window_ns, rounding, count_bits))
        };
        match self.algorithm {
            Algorithm::Gcra => {
                let gcra = Gcra::new(self.quota.count(), window_ns, limit, unit_bits);
                let is_plain = self.at_limit == AtLimit::default();
                if is_plain { Kernel::Gcra(gcra) } else { Kernel::RuledGcra(gcra) }
            }
            Algorithm::FixedWindow => Kernel::FixedWindow(FixedWindow::new(limit, window_ns)),
            Algorithm::CalendarMonth => Kernel::CalendarMonth(CalendarMonth::new(limit)),
            Algorithm::FixedWindowFromFirst => {
                Kernel::FromFirst(FromFirst::new(limit, window_ns, quantum_ns))
            }
            Algorithm::SlidingWindow => sliding(Rounding::Exact),
            Algorithm::SlidingWindowRoundDown => sliding(Rounding::Down),
            Algorithm::SlidingWindowStrict => sliding(Rounding::Strict),
            Algorithm::SegmentedWindow { segments } => {
                let segment_ns = window_ns / u64::from(segments);
                Kernel::SegmentedWindow(SegmentedWindow::new(
                    limit, segment_ns, segments, count_bits, packing,
                ))
            }
        }
    }
}
