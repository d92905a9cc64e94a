//! All tests on a real server that works most of the time. They are one test program, so that only one has to be
//! linked.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod at_limit;
mod bad_inputs;
mod calendar;
mod changed;
mod common;
mod counted;
mod envoyproxy;
mod exact;
mod garbage;
mod leased;
mod log;
mod pool;
mod remaining;
mod tls;
mod to_and_fro;
mod verbs;
