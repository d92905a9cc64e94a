//! The behaviour at the limit, in plain numbers.

use num_bigint::BigUint;
use num_integer::Integer;

/// The effects at the limit besides a denial. There are none by default.
///
/// ```
/// use tollgate_oracle::{Algorithm, AtLimit, Oracle, Verdict};
///
/// // Two units a window, and one more that is marked as over.
/// let algorithm = Algorithm::FixedWindow { limit: 2, window_ns: 10 };
/// let mut oracle = Oracle::with_rules(algorithm, AtLimit { soft_bp: 5_000, ..AtLimit::default() });
/// assert_eq!(oracle.check(0, 2), Verdict::Allowed);
/// assert!(oracle.is_over(0, 1));
/// assert_eq!(oracle.check(0, 1), Verdict::Allowed);
/// assert_eq!(oracle.check(0, 1), Verdict::Denied);
/// assert_eq!((oracle.limit(), oracle.remaining(0)), (2, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtLimit {
    /// Requests are tested against floor(limit * (10000 + this) / 10000), the limit of the test. An admitted request is
    /// *over* if the limit itself would have denied it in the same state.
    pub soft_bp: u64,
    /// The charge for a denied cost that could fit at another time; `None` if a denied cost is not charged.
    pub count_denied: Option<CountDenied>,
    /// The consequence of consecutive denials.
    pub penalty: Option<Penalty>,
}

/// The bound up to which a denied cost is charged.
///
/// Under GCRA, in the unit of the algorithm's time: TAT = max(TAT, min(max(TAT, now) + cost, now + burst - one unit +
/// C)), where C is rounded down to whole ticks. If this would raise the TAT by less than a unit and by less than C /
/// 1000, the TAT stays as it is.
///
/// Under windows, the current count grows by the cost, up to the limit of the test. For
/// [`Rounding::Exact`](crate::Rounding) and `Down` it grows up to twice that limit. In a log, the units that were
/// requested last count, up to the limit. If all units that count are less than window / 1000 old, the log stays as it
/// is.
///
/// ```
/// use tollgate_oracle::{Algorithm, AtLimit, BigUint, CountDenied, Oracle};
///
/// let algorithm = Algorithm::Gcra { count: 1, period_ns: 10, burst: 2, tick: None };
/// let at_limit =
///     AtLimit { count_denied: Some(CountDenied { wait_ns: Some(25) }), ..AtLimit::default() };
/// let mut oracle = Oracle::with_rules(algorithm, at_limit);
/// oracle.check(0, 2);
/// assert_eq!(oracle.retry_after(0, 1), Some(BigUint::from(10u32)));
/// oracle.check(0, 2);
/// assert_eq!(oracle.retry_after(0, 1), Some(BigUint::from(25u32)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CountDenied {
    /// C, the maximum wait for one unit after the charge; by default the time in which the whole limit of the test
    /// comes back. Only for GCRA.
    pub wait_ns: Option<u64>,
}

/// The `after`th consecutive denial, at t, starts a penalty: until its end every request is denied, and from its end
/// on the state equals that of an unused limit.
///
/// An admission ends a series of denials; costs that never fit and costs of 0 do not count in the series. The penalty
/// ends `length_ns` after t. For a late request it ends when the admitted units have drained, if that is later. The end
/// is rounded up to the resolution of a limiter's word. Under GCRA that is a tick. Under windows the end is a multiple
/// of `quantum_ns` after the start of the unit of time, or the end of that unit if it comes first.
///
/// ```
/// use tollgate_oracle::{Algorithm, AtLimit, BigUint, Oracle, Penalty, Verdict};
///
/// let algorithm = Algorithm::FixedWindow { limit: 1, window_ns: 10 };
/// let penalty =
///     Penalty { length_ns: 15, after: 2, extended: false, unit_ns: 10, quantum_ns: 1 };
/// let mut oracle =
///     Oracle::with_rules(algorithm, AtLimit { penalty: Some(penalty), ..AtLimit::default() });
/// oracle.check(1, 1);
/// assert_eq!(oracle.check(2, 1), Verdict::Denied);
/// assert_eq!(oracle.retry_after(2, 1), Some(BigUint::from(8u32)));
/// assert_eq!(oracle.check(3, 1), Verdict::Denied);
/// assert!(oracle.is_penalised(3));
/// assert_eq!(oracle.retry_after(3, 1), Some(BigUint::from(15u32)));
/// assert_eq!(oracle.peek(17, 0), Verdict::Denied);
/// assert_eq!(oracle.peek(18, 1), Verdict::Allowed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Penalty {
    /// The length.
    pub length_ns: u64,
    /// The number of denials.
    pub after: u64,
    /// Whether a denial during the penalty moves the end to `length_ns` after that denial. The end does not move if
    /// more than 999 thousandths of the length are left at the denial.
    pub extended: bool,
    /// Under windows, the length of the unit of time from whose starts quanta are counted. It is 1 if there are no such
    /// units.
    pub unit_ns: u64,
    /// Under windows, the resolution to which the end is rounded up. 1 keeps the end exact.
    pub quantum_ns: u64,
}

impl Penalty {
    /// The end of a penalty under a window, rounded up.
    pub(crate) fn round_up(&self, end: &BigUint) -> BigUint {
        let start = end - end % self.unit_ns;
        let into = (end - &start).div_ceil(&self.quantum_ns.into()) * self.quantum_ns;
        start + into.min(self.unit_ns.into())
    }
}
