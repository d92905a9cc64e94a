//! Real threads, audited exactly: afterwards every admission is looked at, none is sampled.
//!
//! * *Interval bound* (GCRA). In the order of their `now`, with P and S the units admitted before and
//!   after a request: the running minimum of `P - rate * now` over all requests so far, plus the burst,
//!   is an upper bound of `S - rate * now`. If it holds for every request, it holds for every interval.
//! * *Window bound*. What was admitted in each window, and in every interval of a window's length.
//! * *Penalty*. No admission lies in a penalty of its key, as the denials tell them.
//! * *Charge chain*. With no refill between them, the units left after each admission are all different
//!   and count down from the burst: two alike would be a lost charge, a gap a foreign one.
//!
//! * *Ledger*. At one instant nothing drains: what is owed is what was charged less what was given back.
//!
//! Thirty-eight audits: three algorithms, each with one key, many keys and a storm of reclaims; four other kinds
//! of windows; stripes; the chain; the ledger, with places and what is given back; leases; sliding logs, small, in
//! rows, by key and in a storm of reclaims; sketches with a hot key, with crowded and with many cells, and with
//! windows; a soft limit, counted denials, penalties of one key and of many; tables too small for their keys, by
//! GCRA and by windows; tiers of three algorithms, with room and in a storm of reclaims; a limit that may be
//! changed but is not; a limit and a tier that are changed; and several limits at once, over time and at one
//! instant. `crates/elastic/tests/audit.rs` has those of elastic limits.
//! `TOLLGATE_AUDIT=1200000000 cargo test --release --test audit` makes each of them audit so many
//! decisions, in rounds that are checked whole.
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../common/mod.rs"]
mod common;

mod at_limit;
mod bound;
mod chain;
mod change;
mod gcra;
mod lease;
mod log;
mod run;
mod sketch;
mod spill;
mod tiers;
mod together;
mod verbs;
mod windows;
