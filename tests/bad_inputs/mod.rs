//! The catalogue of bad inputs, row by row. Each input has broken some limiter somewhere. The name of each test
//! contains the number of its row.
//!
//! | Rows, except those in the second table | Where |
//! |---|---|
//! | 1-26 arithmetic and configuration | `arithmetic.rs`; 15 in `time.rs`; of a quota that is changed, `live_quota.rs` |
//! | 27-39 time | `time.rs` |
//! | 40-53 concurrency | `concurrency.rs`, `reuse.rs`, and the models of `loom-tests`; 45 in `time.rs`; 51, a change during traffic, in `tests/live_change/threads.rs` |
//! | 54-72 keys, memory, hashing; 128 what a decision's time tells of a key | `keys.rs` |
//! | 3, 8-10, 13, 19-21 again, with `soft`, `count-denied` and `penalty` | `at_limit.rs` |
//!
//! These rows are tested elsewhere, beside the code that they concern:
//!
//! | Rows | Where |
//! |---|---|
//! | 11 | the rules: `crates/rules/tests/usage.rs` |
//! | 35 | `tests/snapshot/clocks.rs` |
//! | 49 a denial by the last of several limits | `tests/all_stores.rs` |
//! | 50 a future that is dropped | `tests/acquire.rs` |
//! | 37, 38 | `crates/redis`: `src/conformance/random.rs`, `src/simulation` |
//! | 55-60 addresses | `crates/tower` |
//! | 69, 71 once more | `crates/rules` |
//!
//! Two rows have no test, because they hold by construction. Row 24 is about 32-bit builds: all arithmetic is in u64
//! and u128. Row 33 is about leap seconds: clocks are monotonic, and the wall clock is read once.

mod arithmetic;
mod at_limit;
mod concurrency;
mod keys;
mod live_quota;
mod reuse;
mod time;
