//! Exact reference model of every Tollgate algorithm, for tests only.
//!
//! Each algorithm is written as its definition reads, in unbounded integers: no packing, no rounding that the
//! definition does not require, no closed formula for a wait. The answers of the fast code are compared with those of
//! this model, so the two share nothing: no code, no constants, no representation.
//! constants, no representation.
//! Three questions define an algorithm: is this cost admitted at this time, what state does an admission leave, and
//! is the state equivalent to an unused one. Each model answers only those; [`Oracle`] derives everything else from
//! them by search.
//!
//! A [`Ledger`] has no such state: it adds up what was admitted and given back, and reports whether any interval
//! holds more than its bound.
//!
//! Time is in whole nanoseconds since time 0, and may go back from call to call.
//!
//! ```
//! use tollgate_oracle::{Algorithm, BigUint, Oracle, Verdict};
//!
//! // Two units per ten nanoseconds, in windows [0, 10), [10, 20), ...
//! let mut oracle = Oracle::new(Algorithm::FixedWindow { limit: 2, window_ns: 10 });
//! assert_eq!(oracle.check(7, 2), Verdict::Allowed);
//! assert_eq!(oracle.check(8, 1), Verdict::Denied);
//! assert_eq!(oracle.retry_after(8, 1), Some(BigUint::from(2u32)));
//! assert_eq!(oracle.check(10, 1), Verdict::Allowed);
//! assert_eq!(oracle.check(10, 3), Verdict::Never);
//! ```

mod algorithm;
mod at_limit;
mod definition;
mod fixed_window;
mod from_first;
mod gcra;
mod ledger;
mod model;
mod oracle;
mod search;
mod segmented_window;
mod sliding_log;
mod sliding_window;
mod ticks;

pub use algorithm::{Algorithm, Rounding};
pub use at_limit::{AtLimit, CountDenied, Penalty};
pub use ledger::{Excess, Ledger, Rate};
pub use num_bigint::BigUint;
pub use oracle::{Oracle, Verdict};
