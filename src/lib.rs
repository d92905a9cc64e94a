#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

#[cfg(not(target_has_atomic = "64"))]
compile_error!(
    "tollgate keeps each limit in one 64-bit atomic word; this target has no 64-bit atomics"
);

mod acquire;
mod algorithm;
mod all;
mod cell;
mod change;
mod clock;
mod coarse;
mod decision;
mod divisor;
mod entry;
mod error;
mod fallback;
pub mod guide;
mod hash;
mod keyed;
mod lease;
mod limit;
mod limiter;
mod log;
mod meter;
mod period;
mod policy;
mod quota;
mod refund;
mod reservation;
mod sketch;
mod snapshot;
mod store;
mod striped;
mod sync;
mod ticks;
mod told;
mod verb;
mod verdict;
mod wait;
mod word;

pub use acquire::WaitStep;
pub use all::{JointDecision, JointDenial, Toll, check_all};
pub use change::ChangeError;
pub use clock::{Clock, ManualClock, Timestamp};
pub use coarse::CoarseClock;
pub use decision::{Decision, Denial, Permit};
pub use entry::Entry;
pub use error::{BuildError, PolicyError};
pub use keyed::{Full, KeyedLimiter, Stats, Tiers};
pub use lease::Lease;
pub use limiter::Limiter;
pub use meter::Meter;
pub use policy::{Algorithm, AtLimit, CountDenied, Penalty, Policy};
pub use quota::Quota;
pub use reservation::Reservation;
pub use sketch::{SketchLimiter, SketchSize};
pub use snapshot::{RestoreError, SnapshotError, SnapshotSummary};
pub use striped::StripedLimiter;
pub use told::Told;
pub use wait::{Wait, WaitBudget};
pub use word::Word;

/// What the models of `loom-tests` set: planted faults, spurious failures, small shards.
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub use sync::control;
