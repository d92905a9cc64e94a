//! All tests of stores that fail under load, in one test program. It must run while no other test program runs, so that
//! these tests, a few at a time, are the machine's only load.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod cluster;
mod cluster_faults;
mod common;
mod faults;
mod missed;
mod sentinel;
