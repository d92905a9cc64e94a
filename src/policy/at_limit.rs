//! [`AtLimit`]: what a policy does when its limit is reached. Checked here, carried out in
//! `algorithm/at_limit.rs`.

use std::time::Duration;

use super::{Algorithm, Fineness, POWERS_OF_TEN, Policy};
use crate::algorithm::{Penalty as Enforced, Rules, SHORTEST_NS, bits_for, softened};
use crate::clock::LATEST_NS;
use crate::error::PolicyError;

/// What a policy does when its limit is reached. Without any of it, it denies, and that is all.
///
/// L is the limit that the policy names: GCRA's burst, or a window's count. The *horizon* is the longest
/// time after which nothing that was admitted counts any more: L (or S) units at the rate for GCRA, the
/// window W for fixed and segmented windows and for months, 2W for sliding ones.
///
/// * **Soft**, `soft 5%`: the limit is softened to S = floor(L * 105 %). S takes the place of L in the
///   algorithm's test and in its bound; the rate is what it was. What L alone would have denied is
///   admitted with a mark ([`Permit::is_over`](crate::Permit::is_over)). `limit` and `remaining` speak
///   of L, `retry_after` of S.
/// * **Counting denials**, `count-denied`: a denied request is charged as if it had been admitted, so that
///   a client that keeps asking is kept out. The charge is cut where one unit would have to wait longer than
///   C, by default the horizon; a client that pauses so long is always let in again. In GCRA's words, TAT = max(TAT,
///   min(max(TAT, now) + cost, now + L - 1 unit + C)). Windows take no C: the current count grows by the
///   cost and stops at L (for `sliding-window` exact and `round-down` at 2L, which the next window
///   feels). At most as much is admitted as without.
/// * **Penalty**, `penalty 10m after 3`, of all but `calendar-month`: the third denial in a row refuses everything for ten minutes
///   from then on; after that the limit is as never used. An admission in between begins the row anew;
///   peeks and costs that never fit do not count. `extended`: each denial during the penalty moves its end
///   to ten minutes after itself. It is at least as long as the horizon (and C), so a penalty never
///   admits what the limit alone would have denied.
///
/// A key of a [`KeyedLimiter`](crate::KeyedLimiter) whose penalty is over by the table's time may be
/// forgotten like any other that is idle; and a request that then comes with an older time is placed after the
/// penalty, not in it. A new key that is denied only because it comes late has no word to count that in.
///
/// # In all that is built on a limit
/// * Every verb of [`Limiter`](crate::Limiter) and [`KeyedLimiter`](crate::KeyedLimiter) knows all of it. A
///   `take_up_to` or `reserve` that is denied is a denial like a check's, unless a check of that cost could
///   never fit. A `charge` charges nothing during a penalty, and says so. An admission ends the row of
///   denials also if it is cancelled later; a refund leaves the row as it is.
/// * [`check_all`](crate::check_all): each limit counts its own denials, and none of another's.
/// * [`check_or_borrow`](crate::Entry::check_or_borrow): what the pool lends was not denied, is not over, and
///   ends no row. During a penalty nothing is lent.
/// * [`Lease`](crate::Lease): taking one is one request; so is each that it passes on to the limiter.
/// * Snapshots hold it all: a restart ends neither a row nor a penalty.
/// * Stripes, sliding logs and spare pools take a [`Quota`](crate::Quota), which says nothing of its limit;
///   a sketch refuses such policies ([`SketchError::AtLimit`](crate::SketchError)), since others share its
///   cells.
///
/// A cost that never fits, and a peek, change nothing under any of them. The end of a penalty is rounded
/// up to what a word can tell apart: ticks for GCRA, and for windows a power of ten nanoseconds of which
/// there are at least 1000 in a window (4096 in the words of a [`KeyedLimiter`](crate::KeyedLimiter)).
///
/// ```
/// use tollgate::{CountDenied, Policy};
/// let policy: Policy = "gcra 100/m soft 5% count-denied 30s penalty 10m after 3".parse()?;
/// let at_limit = policy.at_limit();
/// assert_eq!(at_limit.soft_bp, 500);
/// assert_eq!(at_limit.count_denied, CountDenied::UpTo(std::time::Duration::from_secs(30)));
/// assert_eq!(at_limit.penalty.map(|penalty| penalty.after), Some(3));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AtLimit {
    /// By how much the limit is softened, in hundredths of a percent; 0 is hard.
    pub soft_bp: u16,
    /// Whether denied requests are charged.
    pub count_denied: CountDenied,
    /// What follows on denials in a row.
    pub penalty: Option<Penalty>,
}

/// Whether denied requests are charged, and how far.
///
/// ```
/// use tollgate::{CountDenied, Policy, Quota};
/// assert_eq!(Policy::from(Quota::per_second(5)).at_limit().count_denied, CountDenied::No);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CountDenied {
    /// They are not: a denial writes nothing.
    #[default]
    No,
    /// As far as the horizon.
    Yes,
    /// Until one unit would have to wait so long: GCRA only.
    UpTo(Duration),
}

/// After how many denials in a row everything is refused, and for how long.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Policy, Quota};
/// let policy = Policy::from(Quota::per_minute(10)).penalty(Duration::from_secs(3_600), 5)?;
/// let penalty = policy.at_limit().penalty.expect("one was set");
/// assert_eq!((penalty.length.as_secs(), penalty.after, penalty.extended), (3_600, 5, false));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Penalty {
    /// How long.
    pub length: Duration,
    /// After how many denials in a row, at least 1.
    pub after: u32,
    /// Whether a denial during the penalty moves its end to the same length after itself.
    pub extended: bool,
}

/// The largest share by which a limit is softened: to twice itself.
const SOFT_BP_MAX: u32 = 10_000;

impl Policy {
    /// What happens at the limit.
    ///
    /// ```
    /// use tollgate::{AtLimit, Policy, Quota};
    /// assert_eq!(Policy::from(Quota::per_second(5)).at_limit(), AtLimit::default());
    /// ```
    #[must_use]
    pub const fn at_limit(&self) -> AtLimit {
        self.at_limit
    }

    /// The same policy, its limit softened by a share of itself in hundredths of a percent: 500 is 5 %.
    /// See [`AtLimit`].
    ///
    /// # Errors
    /// A share of 0 or above 10,000 (100 %); one that is less than a unit of this limit; what then does
    /// not fit in a word.
    ///
    /// ```
    /// use tollgate::{Policy, Quota};
    /// let policy = Policy::from(Quota::per_minute(500)).soft(500)?;
    /// assert_eq!(policy.to_string(), "gcra 500/m soft 5%");
    /// assert!(Policy::from(Quota::per_minute(10)).soft(500).is_err());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn soft(self, share_bp: u32) -> Result<Self, PolicyError> {
        match u16::try_from(share_bp) {
            Ok(soft_bp) if (1..=SOFT_BP_MAX).contains(&share_bp) => {
                self.with(AtLimit { soft_bp, ..self.at_limit })
            }
            _ => Err(PolicyError::SoftShare { share_bp }),
        }
    }

    /// The same policy, charging denied requests too: until one unit would have to wait for `most`, or
    /// for the horizon. See [`AtLimit`].
    ///
    /// # Errors
    /// A wait of its own on a window, and what does not fit in a word.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Policy, Quota};
    /// let policy = Policy::from(Quota::per_minute(10)).count_denied(Some(Duration::from_secs(30)))?;
    /// assert_eq!(policy.to_string(), "gcra 10/m count-denied 30s");
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn count_denied(self, most: Option<Duration>) -> Result<Self, PolicyError> {
        let count_denied = most.map_or(CountDenied::Yes, CountDenied::UpTo);
        self.with(AtLimit { count_denied, ..self.at_limit })
    }

    /// The same policy with a penalty of this length after so many denials in a row. See [`AtLimit`].
    ///
    /// # Errors
    /// No denials at all; a length below the horizon; a policy of calendar months; what does not fit in a word.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Policy, Quota};
    /// let policy = Policy::from(Quota::per_minute(10)).penalty(Duration::from_secs(600), 3)?;
    /// assert_eq!(policy.to_string(), "gcra 10/m penalty 10m after 3");
    /// assert!(Policy::from(Quota::per_minute(10)).penalty(Duration::from_secs(59), 3).is_err());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn penalty(self, length: Duration, after: u32) -> Result<Self, PolicyError> {
        let penalty = Some(Penalty { length, after, extended: false });
        self.with(AtLimit { penalty, ..self.at_limit })
    }

    /// As [`penalty`](Policy::penalty); and each denial during the penalty moves its end to the same
    /// length after itself.
    ///
    /// # Errors
    /// As [`penalty`](Policy::penalty).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Policy, Quota};
    /// let policy = Policy::from(Quota::per_minute(10)).extended_penalty(Duration::from_secs(60), 1)?;
    /// assert_eq!(policy.to_string(), "gcra 10/m penalty 1m after 1 extended");
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn extended_penalty(self, length: Duration, after: u32) -> Result<Self, PolicyError> {
        let penalty = Some(Penalty { length, after, extended: true });
        self.with(AtLimit { penalty, ..self.at_limit })
    }

    fn with(self, at_limit: AtLimit) -> Result<Self, PolicyError> {
        let policy = Self { at_limit, ..self };
        policy.check_at_limit()?;
        policy.check_fits()?;
        Ok(policy)
    }

    fn check_at_limit(&self) -> Result<(), PolicyError> {
        let AtLimit { soft_bp, count_denied, penalty } = self.at_limit;
        let limit = self.named_limit();
        match softened(limit, soft_bp) {
            None => return Err(PolicyError::SoftTooLarge { limit, share_bp: soft_bp.into() }),
            Some(soft) if soft_bp > 0 && soft == limit => {
                return Err(PolicyError::SoftAddsNothing { limit, share_bp: soft_bp.into() });
            }
            Some(_) => {}
        }
        if matches!(count_denied, CountDenied::UpTo(_)) && self.algorithm != Algorithm::Gcra {
            return Err(PolicyError::DeniedWaitOnWindow);
        }
        if let Some(Penalty { length, after, .. }) = penalty {
            if self.algorithm == Algorithm::CalendarMonth {
                return Err(PolicyError::PenaltyOnMonth);
            }
            if after == 0 {
                return Err(PolicyError::PenaltyAfterNone);
            }
            let least = self.least_penalty_ns();
            if length.as_nanos() < least {
                return Err(PolicyError::PenaltyTooShort { length, least: duration(least) });
            }
        }
        Ok(())
    }

    /// L: the burst, or the window's limit.
    pub(crate) const fn named_limit(&self) -> u64 {
        self.quota.max_burst() // a window's burst is its count
    }

    /// S: the limit that the algorithm works with.
    pub(crate) fn ceiling(&self) -> u64 {
        softened(self.named_limit(), self.at_limit.soft_bp).unwrap_or(u64::MAX)
    }

    /// The horizon, and how much further the charge of denied requests may reach.
    fn least_penalty_ns(&self) -> u128 {
        let period_ns = u128::from(self.quota.period_ns());
        match self.algorithm {
            Algorithm::Gcra => {
                let horizon = (u128::from(self.ceiling()) * period_ns)
                    .div_ceil(u128::from(self.quota.count()));
                match self.at_limit.count_denied {
                    CountDenied::No => horizon,
                    CountDenied::Yes => horizon.saturating_mul(2),
                    CountDenied::UpTo(wait) => horizon.saturating_add(wait.as_nanos()),
                }
            }
            Algorithm::SlidingWindow
            | Algorithm::SlidingWindowRoundDown
            | Algorithm::SlidingWindowStrict => 2 * period_ns,
            _ => period_ns,
        }
    }

    /// The largest count of one window: where the charge of denied requests stops.
    pub(crate) fn largest_count(&self) -> u64 {
        let doubles =
            matches!(self.algorithm, Algorithm::SlidingWindow | Algorithm::SlidingWindowRoundDown);
        let ceiling = self.ceiling();
        if doubles && self.at_limit.count_denied != CountDenied::No {
            ceiling.saturating_mul(2)
        } else {
            ceiling
        }
    }

    /// Bits of the field that counts denials in a row: none without a penalty.
    pub(crate) fn denial_bits(&self) -> u32 {
        self.at_limit.penalty.map_or(0, |penalty| u32::from(bits_for(penalty.after.into())))
    }

    /// The length of the penalty; 0 without one, and cut at the longest time.
    pub(crate) fn penalty_ns(&self) -> u64 {
        let length_ns = self.at_limit.penalty.map_or(0, |penalty| penalty.length.as_nanos());
        u64::try_from(length_ns).unwrap_or(u64::MAX)
    }

    /// Ticks that come in so many nanoseconds, rounded down; cut far above what any word holds.
    fn ticks_in(&self, ns: u128, unit_bits: u8) -> u128 {
        ns.saturating_mul(u128::from(self.quota.count()) << unit_bits)
            / u128::from(self.quota.period_ns())
    }

    /// GCRA: how far ahead of now a denied request is charged at most, in ticks: to L - 1 unit + C.
    fn denied_ticks(&self, unit_bits: u8) -> Option<u128> {
        let burst = u128::from(self.ceiling()) << unit_bits;
        let wait = match self.at_limit.count_denied {
            CountDenied::No => return None,
            CountDenied::Yes => burst,
            // Down: the wait for one unit is at most C.
            CountDenied::UpTo(wait) => self.ticks_in(wait.as_nanos(), unit_bits),
        };
        Some((burst - (1 << unit_bits)).saturating_add(wait))
    }

    /// GCRA: how far ahead of now a word's time may ever lie, in ticks.
    pub(crate) fn ticks_ahead(&self, unit_bits: u8) -> u128 {
        let burst = u128::from(self.ceiling()) << unit_bits;
        let end = match self.at_limit.penalty {
            // Up, and the two readings that it lies between are rounded.
            Some(penalty) => self.ticks_in(penalty.length.as_nanos(), unit_bits).saturating_add(2),
            None => 0,
        };
        burst.max(self.denied_ticks(unit_bits).unwrap_or(0)).max(end)
    }

    /// GCRA: the finest ticks of an un-keyed word, as [`Quota::unit_bits`](crate::Quota), but with room
    /// for the denials in a row and for how far ahead this policy may charge. `None` if nothing fits.
    pub(crate) fn unit_bits(&self) -> Option<u8> {
        if self.at_limit == AtLimit::default() {
            return self.quota.unit_bits();
        }
        (0..=62).rev().find(|&unit_bits| self.tick_bits(unit_bits) + self.denial_bits() <= 64)
    }

    /// Bits for ticks of a fineness: those passed until the latest time, or those ahead of it, and one
    /// more for their sum.
    pub(crate) fn tick_bits(&self, unit_bits: u8) -> u32 {
        let passed = self.ticks_in(LATEST_NS.into(), unit_bits);
        let most = passed.max(self.ticks_ahead(unit_bits));
        1 + u128::BITS - most.leading_zeros()
    }

    /// The length of a window's unit of time: what its ends of penalties are counted in and within.
    pub(crate) fn unit_ns(&self, quantum_ns: u64) -> u64 {
        let window_ns = self.quota.period_ns();
        match self.algorithm {
            Algorithm::Gcra => 1,
            Algorithm::FixedWindowFromFirst => quantum_ns,
            Algorithm::SegmentedWindow { segments } => window_ns / u64::from(segments),
            // The shortest: no fewer of them pass than months do.
            Algorithm::CalendarMonth => SHORTEST_NS,
            _ => window_ns,
        }
    }

    /// Bits of a window's counts, given those of its own: at least as wide as the place of an end within
    /// a unit, and the denials beside them.
    pub(crate) fn bits_beside_end(&self, own_bits: u32, unit_ns: u64, end_quantum_ns: u64) -> u32 {
        if self.at_limit.penalty.is_none() {
            return own_bits;
        }
        own_bits.max(bits_for((unit_ns - 1) / end_quantum_ns).into()) + self.denial_bits()
    }

    /// What the end of a penalty is rounded up to in an un-keyed word: the least power of ten nanoseconds
    /// that leaves room for everything else, and no more than a thousandth of the window.
    pub(crate) fn end_quantum_ns(&self, own_bits: u32, time_bits: u32, unit_ns: u64) -> u64 {
        let coarsest_ns = (self.quota.period_ns() / 1_000).clamp(1, unit_ns);
        let fits = |&quantum_ns: &u64| {
            let bits = self.bits_beside_end(own_bits, unit_ns, quantum_ns);
            bits < u64::BITS && bits + time_bits <= u64::BITS
        };
        let tolerable = POWERS_OF_TEN.into_iter().take_while(|&quantum| quantum <= coarsest_ns);
        tolerable.clone().find(fits).or(tolerable.last()).unwrap_or(1)
    }

    /// What happens at the limit, for a word of a chosen fineness.
    pub(crate) fn rules(&self, fineness: Fineness) -> Rules {
        let stop = match self.algorithm {
            Algorithm::Gcra => self.denied_ticks(fineness.unit_bits),
            _ => Some(self.largest_count().into()),
        };
        let counts = self.at_limit.count_denied != CountDenied::No;
        Rules {
            any: self.at_limit != AtLimit::default(),
            soft_bp: self.at_limit.soft_bp,
            beyond: self.ceiling() - self.named_limit(),
            // It fits, or there is no policy.
            denied_most: stop
                .filter(|_| counts)
                .map(|most| u64::try_from(most).unwrap_or(u64::MAX)),
            penalty: self.at_limit.penalty.map(|penalty| Enforced {
                length_ns: self.penalty_ns(),
                after: penalty.after.into(),
                extended: penalty.extended,
                denial_bits: bits_for(penalty.after.into()),
                unit_ns: self.unit_ns(fineness.quantum_ns),
                quantum_ns: match self.algorithm {
                    Algorithm::FixedWindowFromFirst => fineness.quantum_ns,
                    _ => fineness.end_quantum_ns,
                },
            }),
        }
    }
}

fn duration(ns: u128) -> Duration {
    let second_ns = 1_000_000_000;
    let Ok(secs) = u64::try_from(ns / second_ns) else { return Duration::MAX };
    #[expect(clippy::cast_possible_truncation, reason = "below 10^9")]
    let nanos = (ns % second_ns) as u32;
    Duration::new(secs, nanos)
}
