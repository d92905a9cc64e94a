//! All tests of stores that fail under load, as one program: it runs when no other tests do, so that the faults meet
//! nothing but their own load.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod cluster;
mod cluster_faults;
mod common;
mod faults;
mod missed;
mod sentinel;
