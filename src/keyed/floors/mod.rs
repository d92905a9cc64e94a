//! The time floors of shards. Keys are forgotten below a floor, and new keys start at or above it.

pub(in crate::keyed) mod base;
pub(in crate::keyed) mod floor;
