#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # How it answers
//! Three questions define an algorithm: is this cost admitted at this time, what state does an admission leave, and is
//! the state equivalent to an unused one? Each model answers only these questions; [`Oracle`] derives everything else
//! from them by search.
//!
//! A [`Ledger`] has no such state: it adds up the units that were admitted and given back, and reports whether any
//! interval holds more than its bound.
//!
//! Time is in whole nanoseconds since time 0, and may go back from call to call.

mod algorithm;
mod at_limit;
mod calendar;
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
mod worked;

pub use algorithm::{Algorithm, CalendarSpan, Rounding};
pub use at_limit::{AtLimit, CountDenied, Penalty};
pub use ledger::{Excess, Ledger, Rate};
pub use num_bigint::BigUint;
pub use oracle::{Oracle, Verdict};
pub use worked::{WorkedExample, worked_examples};
