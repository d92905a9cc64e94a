//! Keys for which a table has no cell: decided in the spill, never above their bound, and with all they owe
//! when they get a cell.
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "../common/mod.rs"]
mod common;

mod crowd;
mod flood;
mod hand_over;
mod kept;
mod look;
mod newcomer;
mod tick;
mod tiers;
mod verbs;
