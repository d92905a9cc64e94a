//! The catalogue of bad inputs, row by row: each input has broken some limiter somewhere. The number of
//! its row is in the name of its test.
//!
//! | Rows | Where |
//! |---|---|
//! | 1-26 arithmetic and configuration | `arithmetic.rs`; of a quota that is changed, `live_quota.rs` |
//! | 27-39 time | `time.rs` |
//! | 40-53 concurrency | `concurrency.rs`, and the models of `loom-tests` |
//! | 54-72 keys, memory, hashing | `keys.rs` |
//! | 3, 8-10, 13, 19-21 once more, for what happens at the limit | `at_limit.rs` |
//!
//! Pending, by the work that brings what they need:
//!
//! | Rows | Need |
//! |---|---|
//! | 11 | a wire: the service |
//! | 16, 17, 37, 38 | Redis |
//! | 55-60, 70 | the HTTP middleware |
//! | 69, 71 | rules (51, a change during traffic, is in `tests/live_change.rs`) |
//!
//! Without a test, because they hold by construction: 24 (32-bit builds: all arithmetic is in u64 and
//! u128), 33 (leap seconds: clocks are monotonic, and the wall clock is read once), 35 (a wall clock
//! before 1970 reads as 1970), 53 (no counter is incremented from a copy), 65 (the tag's secret is
//! independent of the placement's), 67 (the hash's seeds come from the operating system or not at all).
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../common/mod.rs"]
mod common;

mod arithmetic;
mod at_limit;
mod concurrency;
mod keys;
mod live_quota;
mod time;
