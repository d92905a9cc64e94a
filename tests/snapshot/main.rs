//! Snapshots: what is restored decides as the original would, what is not right is refused whole, and a
//! snapshot that is taken in full traffic loses nothing that was charged before.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../common/mod.rs"]
mod common;

mod clocks;
mod file;
mod golden;
mod logs;
mod refused;
mod round_trip;
mod tiers;
mod traffic;
