//! Tests with real threads and exact audits: after each run every admission is checked, not only a sample.
//!
//! * *Interval bound* (GCRA). Take the requests in the order of their `now`. P and S are the units admitted before and
//!   after a request. Of all requests so far take the smallest `P - rate * now`, and add the burst. `S - rate * now`
//!   must not exceed this sum. If this holds for every request, the bound holds for every interval.
//! * *Window bound*. The units admitted in each window of the clock, and in every interval of a window's length, are
//!   bounded.
//! * *Penalty*. No admission lies in a penalty of its key. The denials show when penalties begin and end.
//! * *Charge chain*. Without a refill, the units left after each admission are all different and count down from the
//!   burst. Two equal numbers would be a lost charge, and a gap would be a charge that no request made.
//! * *Ledger*. At one instant nothing drains, so the debt is exactly the units that were charged and not given back.
//!
//! There are forty audits:
//! * three algorithms, each with one key, many keys and a storm of reclaims; four other kinds of windows; stripes;
//! * the chain; the ledger, with reservations and refunds; leases;
//! * sliding logs, small, in rows, by key and in a storm of reclaims;
//! * sketches with a hot key, with crowded cells, with many cells, and with windows;
//! * a soft limit, counted denials, penalties of one key and of many;
//! * tables too small for their keys, under GCRA and under windows;
//! * tiers of three algorithms, with room and in a storm of reclaims;
//! * a limit that may be changed but is not; a limit, a tier and a sliding log that are changed;
//! * several limits at once: over time, at one instant, and at one instant with a sketch among them.
//!
//! `crates/elastic/tests/audit.rs` audits elastic limits. `TOLLGATE_AUDIT=1200000000 cargo test --release --test audit`
//! makes each audit check that many decisions, in rounds that are each checked completely.
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../common/mod.rs"]
mod common;

mod at_limit;
mod bound;
mod chain;
mod change;
mod gcra;
mod lease;
mod limits;
mod log;
mod log_change;
mod run;
mod sketch;
mod spill;
mod tiers;
mod together;
mod verbs;
mod windows;
