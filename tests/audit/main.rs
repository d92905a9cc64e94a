//! Real threads, audited exactly: afterwards every admission is checked, not a sample.
//!
//! * *Interval bound* (GCRA). Take the requests in the order of their `now`; P and S are the units admitted before and
//!   after a request. The smallest `P - rate * now` of all requests so far, plus the burst, is an upper bound of
//!   `S - rate * now`. If it holds for every request, it holds for every interval.
//! * *Window bound*. The units admitted in each window, and in every interval of a window's length, are bounded.
//! * *Penalty*. No admission lies in a penalty of its key. The denials tell the penalties.
//! * *Charge chain*. Without a refill, the units left after each admission are all different and count down from the
//!   burst: two equal numbers would be a lost charge, a gap a foreign charge.
//!
//! * *Ledger*. At one instant nothing drains: exactly the units that were charged and not given back are owed.
//!
//! There are thirty-eight audits:
//! * three algorithms, each with one key, many keys and a storm of reclaims; four other kinds of windows; stripes;
//! * the chain; the ledger, with reservations and refunds; leases;
//! * sliding logs, small, in rows, by key and in a storm of reclaims;
//! * sketches with a hot key, with crowded cells, with many cells, and with windows;
//! * a soft limit, counted denials, penalties of one key and of many;
//! * tables too small for their keys, under GCRA and under windows;
//! * tiers of three algorithms, with room and in a storm of reclaims;
//! * a limit that may be changed but is not; a limit and a tier that are changed;
//! * several limits at once, over time and at one instant.
//!
//! `crates/elastic/tests/audit.rs` audits elastic limits.
//! `TOLLGATE_AUDIT=1200000000 cargo test --release --test audit` makes each audit check that many decisions, in rounds
//! that are each checked whole.
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
