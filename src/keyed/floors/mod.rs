//! The time floors of shards: what is forgotten below them, and what starts above.

pub(in crate::keyed) mod base;
pub(in crate::keyed) mod floor;
