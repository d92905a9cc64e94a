//! [`BuildError`]: why a limiter was not built.

use std::fmt;

use crate::policy::Policy;
use crate::quota::Quota;

/// Why calendar months are refused, here and elsewhere.
pub(crate) const NO_DATE: &str = "the clock cannot tell the date, which calendar months need; use Clock::unix(), or a \
                                  clock that is resumed at the time of the wall clock";

/// Why a [`KeyedLimiter`](crate::KeyedLimiter), a [`StripedLimiter`](crate::StripedLimiter) or a
/// [`LogLimiter`](crate::LogLimiter) could not be built.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
/// let error = KeyedLimiter::<str>::new(Quota::per_second(10), 0).unwrap_err();
/// assert_eq!(error.to_string(), "capacity 0 holds no key; it must be at least 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A capacity of 0 keys.
    ZeroCapacity,
    /// The table would not fit in the address space.
    CapacityTooLarge {
        /// The number of keys that was asked for.
        capacity: usize,
    },
    /// The allocator refused the table's memory.
    OutOfMemory {
        /// The bytes that were asked for.
        bytes: usize,
    },
    /// The state of one key is so wide that too few bits are left to tell keys apart.
    TagTooNarrow {
        /// The bits that one key's state needs.
        state_bits: u32,
        /// The bits that would be left for the tag.
        tag_bits: u32,
    },
    /// A table of no quotas, or of more than it may have.
    TierCount {
        /// The number that was asked for.
        tiers: usize,
        /// The most that are accepted.
        most: usize,
    },
    /// Policies that say what happens at their limit, in a table of several quotas or of one that may be
    /// changed: denials that were counted under one quota would mean nothing under another.
    TierAtLimit {
        /// The policy.
        policy: Policy,
    },
    /// A number of stripes between which the burst cannot be divided.
    StripeCount {
        /// The number that was asked for.
        stripes: usize,
        /// The units there are to divide.
        burst: u64,
    },
    /// A quota that cannot be counted at the rate of one stripe.
    StripeRate {
        /// The quota of all stripes together.
        quota: Quota,
        /// The number of stripes.
        stripes: u64,
    },
    /// A spill for a policy whose bound it cannot keep: windows from the first request, of which the cells of
    /// one key would open theirs at different times; or, of several tiers, one whose counts have no room in its words.
    CannotSpill {
        /// The policy.
        policy: Policy,
    },
    /// Calendar months on a clock that counts from its own start and cannot tell the date.
    NoDate,
    /// A sliding log of a quota whose burst is not its count.
    BurstOnLog {
        /// The units of a window, which a log admits at once.
        count: u64,
        /// The burst that was asked for.
        burst: u64,
    },
    /// A sliding log with more units than it may have slots.
    LogTooLarge {
        /// The units that were asked for.
        limit: u64,
        /// The most that are accepted.
        most: u64,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroCapacity => f.write_str("capacity 0 holds no key; it must be at least 1"),
            Self::CapacityTooLarge { capacity } => {
                write!(f, "capacity {capacity} needs more memory than can be addressed")
            }
            Self::OutOfMemory { bytes } => {
                write!(
                    f,
                    "{bytes} bytes could not be allocated; lower the capacity, or a log's limit"
                )
            }
            Self::TagTooNarrow { state_bits, tag_bits } => write!(
                f,
                "one key's state needs {state_bits} of 63 bits, which leaves {tag_bits} to tell keys \
                 apart and 24 are needed; use a smaller burst or limit, or fewer segments",
            ),
            Self::TierCount { tiers, most } => {
                write!(f, "a table cannot have {tiers} tiers; use 1 to {most}")
            }
            Self::TierAtLimit { policy } => write!(
                f,
                "tiers cannot say what happens at the limit of {policy}; leave out soft, count-denied and \
                 penalty, or use a KeyedLimiter of this policy alone",
            ),
            Self::StripeCount { stripes, burst } => write!(
                f,
                "a burst of {burst} cannot be divided between {stripes} stripes; use 1 to {burst}",
            ),
            Self::StripeRate { quota, stripes } => write!(
                f,
                "the period of {quota}, {stripes} times as long, is out of range; use fewer stripes",
            ),
            Self::CannotSpill { policy } => write!(
                f,
                "a spill cannot keep the bound of {policy}, since its cells are shared; use Full::Deny, leave \
                 out from-first, or use gcra",
            ),
            Self::NoDate => f.write_str(NO_DATE),
            Self::BurstOnLog { count, burst } => write!(
                f,
                "a sliding log admits its whole count of {count} at once and takes no burst of \
                 {burst}; leave the burst out, or use gcra",
            ),
            Self::LogTooLarge { limit, most } => write!(
                f,
                "a sliding log keeps a time for each of its {limit} units, and at most {most} are \
                 accepted; use gcra or a window",
            ),
        }
    }
}

impl std::error::Error for BuildError {}
