//! [`Policy`]: a quota and the algorithm that enforces it.

mod text;

use crate::algorithm::{
    FixedWindow, FromFirst, Gcra, Kernel, Rounding, SegmentedWindow, SlidingWindow, bits_for, rings,
};
use crate::clock::LATEST_NS;
use crate::error::PolicyError;
use crate::quota::Quota;
use crate::word::Fields;

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
    /// Segments: whether the word holds the ring's number instead of the counts.
    pub(crate) ranked: bool,
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
    /// The window opens with the first request that finds none open. Most in W: 2L - 1.
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
}

/// A quota, and the algorithm that enforces it. Also text: see [`FromStr`](Policy#impl-FromStr-for-Policy).
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
}

/// A quota alone is enforced by GCRA.
impl From<Quota> for Policy {
    fn from(quota: Quota) -> Self {
        Self { algorithm: Algorithm::Gcra, quota }
    }
}

impl Policy {
    /// An algorithm for a quota.
    ///
    /// # Errors
    /// Windows take no burst of their own; their counts and the window number must fit in a word; the
    /// number of segments must be 2 to 64 and divide the window.
    ///
    /// ```
    /// use tollgate::{Algorithm, Policy, PolicyError, Quota};
    /// let quota = Quota::per_minute(100).burst(5);
    /// assert_eq!(Policy::new(Algorithm::FixedWindow, quota), Err(PolicyError::BurstOnWindow));
    /// ```
    pub fn new(algorithm: Algorithm, quota: Quota) -> Result<Self, PolicyError> {
        let policy = Self { algorithm, quota };
        if algorithm != Algorithm::Gcra && quota.max_burst() != quota.count() {
            return Err(PolicyError::BurstOnWindow);
        }
        if let Algorithm::SegmentedWindow { segments } = algorithm {
            policy.check_segments(segments)?;
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
        if needed_bits <= u64::BITS && self.unkeyed_count_bits().0 < u64::BITS {
            return Ok(());
        }
        Err(PolicyError::DoesNotFit { needed_bits, hint: self.fitting_hint() })
    }

    /// Bits of one un-keyed word: its counts, and its time until the latest instant.
    fn needed_bits(&self) -> u32 {
        self.unkeyed_count_bits().0 + u32::from(bits_for(self.latest_unit()))
    }

    /// Bits of the counts of one word, side by side; more than 64 if they do not fit.
    pub(crate) fn count_bits(&self) -> u32 {
        let counters = match self.algorithm {
            Algorithm::Gcra => 0,
            Algorithm::FixedWindow | Algorithm::FixedWindowFromFirst => 1,
            Algorithm::SlidingWindow
            | Algorithm::SlidingWindowRoundDown
            | Algorithm::SlidingWindowStrict => 2,
            Algorithm::SegmentedWindow { segments } => u32::from(segments),
        };
        counters * u32::from(bits_for(self.quota.count()))
    }

    /// Bits of the one number that can stand for a whole ring of counts, if there is one.
    pub(crate) fn ranked_bits(&self) -> Option<u32> {
        let Algorithm::SegmentedWindow { segments } = self.algorithm else { return None };
        let last = rings(self.quota.count(), segments)? - 1;
        (self.count_bits() < u128::BITS).then(|| u32::from(bits_for(last)))
    }

    /// Bits of the counts of an un-keyed word, and whether they are ranked: only if they do not fit
    /// side by side.
    fn unkeyed_count_bits(&self) -> (u32, bool) {
        let time_bits = u32::from(bits_for(self.latest_unit()));
        let fits = |bits: u32| bits + time_bits <= u64::BITS && bits < u64::BITS;
        let side_by_side = self.count_bits();
        match self.ranked_bits() {
            Some(ranked) if !fits(side_by_side) && fits(ranked) => (ranked, true),
            _ => (side_by_side, false),
        }
    }

    /// The largest time an un-keyed word of this policy has to hold, beside its counts.
    fn latest_unit(&self) -> u64 {
        let window_ns = self.quota.period_ns();
        match self.algorithm {
            Algorithm::Gcra => u64::MAX,
            Algorithm::SegmentedWindow { segments } => {
                LATEST_NS / (window_ns / u64::from(segments))
            }
            // One more, because a start is rounded up.
            Algorithm::FixedWindowFromFirst => LATEST_NS / self.quantum_ns() + 1,
            _ => LATEST_NS / window_ns,
        }
    }

    /// The coarseness of a from-first start in an un-keyed word: the least power of ten nanoseconds
    /// that leaves room for the count, and no more than a thousandth of the window.
    fn quantum_ns(&self) -> u64 {
        let coarsest_ns = (self.quota.period_ns() / 1_000).max(1);
        let fits = |&quantum_ns: &u64| {
            self.count_bits() + u32::from(bits_for(LATEST_NS / quantum_ns + 1)) <= u64::BITS
        };
        let tolerable = POWERS_OF_TEN.into_iter().take_while(|&quantum| quantum <= coarsest_ns);
        tolerable.clone().find(fits).or(tolerable.last()).unwrap_or(1)
    }

    /// What would fit in place of a policy that does not: fewer segments, or a smaller limit.
    fn fitting_hint(&self) -> String {
        let with = |algorithm, count| {
            Quota::try_per(count, self.quota.period()).map(|quota| Self { algorithm, quota })
        };
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
    pub(crate) fn compile(&self) -> (Kernel, Fields) {
        let unit_bits = self.quota.unit_bits().unwrap_or(0); // a quota that exists has them
        let (count_bits, ranked) = self.unkeyed_count_bits();
        let fineness = Fineness { unit_bits, quantum_ns: self.quantum_ns(), ranked };
        #[expect(clippy::cast_possible_truncation, reason = "below 64, or there is no policy")]
        let count_bits = count_bits as u8;
        (self.kernel(fineness), Fields { count_bits })
    }

    /// The arithmetic for a word of a chosen fineness.
    pub(crate) fn kernel(&self, fineness: Fineness) -> Kernel {
        let Fineness { unit_bits, quantum_ns, ranked } = fineness;
        let (limit, window_ns) = (self.quota.count(), self.quota.period_ns());
        let count_bits = bits_for(limit);
        let sliding = |rounding| {
            Kernel::SlidingWindow(SlidingWindow::new(limit, window_ns, rounding, count_bits))
        };
        match self.algorithm {
            Algorithm::Gcra => {
                Kernel::Gcra(Gcra::new(limit, window_ns, self.quota.max_burst(), unit_bits))
            }
            Algorithm::FixedWindow => Kernel::FixedWindow(FixedWindow::new(limit, window_ns)),
            Algorithm::FixedWindowFromFirst => {
                Kernel::FromFirst(FromFirst::new(limit, window_ns, quantum_ns))
            }
            Algorithm::SlidingWindow => sliding(Rounding::Exact),
            Algorithm::SlidingWindowRoundDown => sliding(Rounding::Down),
            Algorithm::SlidingWindowStrict => sliding(Rounding::Strict),
            Algorithm::SegmentedWindow { segments } => {
                let segment_ns = window_ns / u64::from(segments);
                Kernel::SegmentedWindow(SegmentedWindow::new(
                    limit, segment_ns, segments, count_bits, ranked,
                ))
            }
        }
    }
}
