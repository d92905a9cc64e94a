//! All tests of stores that fail under load, as one program. It runs when no other tests run, so that the machine has
//! only the load of these tests.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod cluster;
mod cluster_faults;
mod common;
mod faults;
mod missed;
mod sentinel;
