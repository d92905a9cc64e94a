//! All tests of stores that fail under load, as one program. It runs when no other program of tests runs, so that
//! the machine has only the load of these tests, a few at a time.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod cluster;
mod cluster_faults;
mod common;
mod faults;
mod missed;
mod sentinel;
