//! Snapshots: a restored limiter decides as the original would, a wrong file is refused as a whole, and a snapshot that
//! is taken in full traffic loses no earlier charge.

mod clocks;
mod file;
mod golden;
mod logs;
mod refused;
mod round_trip;
mod tiers;
mod traffic;
