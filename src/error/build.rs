//! [`BuildError`]: the reason why a limiter or one of its parts could not be built.

use std::{fmt, io};

/// The text of the error for windows of the calendar with a clock that does not give the date. It is used when a
/// limiter is built, and when its quota is changed.
pub(crate) const NO_DATE: &str = "the clock cannot tell the date, which windows of the calendar need; use \
                                  Clock::unix(), or a clock that is resumed at the time of the wall clock";

/// The reason why a limiter, a [`SketchSize`](crate::SketchSize) or a [`CoarseClock`](crate::CoarseClock) could not be
/// built.
///
/// Each variant is a case that a program may want to handle separately. The text says which number or policy was
/// refused, and what would be accepted.
///
/// ```
/// use tollgate::{CoarseClock, KeyedLimiter, Quota, SketchSize};
/// let error = KeyedLimiter::<str>::new(Quota::per_second(10), 0).unwrap_err();
/// assert_eq!(error.to_string(), "capacity 0 holds no key; it must be at least 1");
/// let error = SketchSize::new(9, 1_000).unwrap_err();
/// assert_eq!(error.to_string(), "a sketch cannot have 9 rows; use 1 to 8");
/// let error = CoarseClock::new().start(std::time::Duration::ZERO).unwrap_err();
/// assert_eq!(error.to_string(), "a clock cannot tick every 0ns; use up to 1s, as in 1ms");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A number is out of range: the number of keys, tiers, stripes, rows or cells, or the time between two ticks of a
    /// clock.
    OutOfRange(String),
    /// This kind of limiter cannot keep the policy or the quota. Another kind of limiter may keep it.
    Policy(String),
    /// The allocator refused the memory.
    OutOfMemory {
        /// The number of bytes that were requested.
        bytes: usize,
    },
    /// The operating system refused to start the thread of a clock.
    Thread(io::ErrorKind),
}

impl BuildError {
    pub(crate) fn zero_capacity() -> Self {
        Self::OutOfRange("capacity 0 holds no key; it must be at least 1".to_string())
    }

    /// The error for a table that would not fit in the address space.
    pub(crate) fn capacity_too_large(capacity: usize) -> Self {
        Self::OutOfRange(format!("capacity {capacity} needs more memory than can be addressed"))
    }

    pub(crate) fn tier_count(tiers: usize, max: usize) -> Self {
        Self::OutOfRange(format!("a table cannot have {tiers} tiers; use 1 to {max}"))
    }

    pub(crate) fn stripe_count(stripes: usize, burst: u64) -> Self {
        Self::OutOfRange(format!(
            "a burst of {burst} cannot be divided between {stripes} stripes; use 1 to {burst}"
        ))
    }

    /// The error for a key's state that is so wide that too few bits are left for a tag.
    pub(crate) fn tag_too_narrow(state_bits: u32, tag_bits: u32) -> Self {
        Self::Policy(format!(
            "one key's state needs {state_bits} of 63 bits, which leaves {tag_bits} to tell keys \
             apart and 24 are needed; use a smaller burst, queue, debt or limit, or fewer segments",
        ))
    }

    /// The error for a quota whose period is out of range at the rate of one stripe.
    pub(crate) fn stripe_rate(quota: impl fmt::Display, stripes: u64) -> Self {
        Self::Policy(format!(
            "the period of {quota}, {stripes} times as long, is out of range; use fewer stripes"
        ))
    }

    /// The error for a soft share that adds no unit to the share of a stripe.
    pub(crate) fn stripe_soft(stripes: u64, error: impl fmt::Display) -> Self {
        Self::Policy(format!("in each of {stripes} stripes, {error}; or use fewer stripes"))
    }

    /// The error for a number of own quotas that is 0, or that is larger than an index can represent.
    pub(crate) fn own_quota_count(quotas: usize, max: usize) -> Self {
        Self::OutOfRange(format!(
            "a table cannot have {quotas} own quotas at a time; use 1 to {max}"
        ))
    }

    /// The error for a policy with which keys cannot have own quotas. Debts can be converted only between quotas of
    /// plain GCRA.
    pub(crate) fn own_quota_kind(policy: impl fmt::Display) -> Self {
        Self::Policy(format!(
            "keys have quotas of their own under plain gcra alone, not under {policy}; give a rate and a burst"
        ))
    }

    /// The error for a policy that a spill cannot keep. There are three cases: windows from the first request, since
    /// the cells of one key would open their windows at different times; a quota of a table with several tiers, if its
    /// counts do not fit in the spill's words; and quotas that callers give.
    pub(crate) fn cannot_spill(policy: impl fmt::Display) -> Self {
        Self::Policy(format!(
            "a spill cannot keep the bound of {policy}, since its cells are shared; use WhenFull::Deny, leave \
             out from-first, or use gcra",
        ))
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(reason) | Self::Policy(reason) => f.write_str(reason),
            Self::OutOfMemory { bytes } => write!(
                f,
                "{bytes} bytes could not be allocated; lower the capacity, a log's limit or a sketch's size"
            ),
            Self::Thread(kind) => write!(f, "the clock's thread could not be started: {kind}"),
        }
    }
}

impl std::error::Error for BuildError {}
