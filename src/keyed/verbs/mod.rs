//! The methods of a keyed limiter, and how it is built.

pub(in crate::keyed) mod all;
pub(in crate::keyed) mod build;
pub(in crate::keyed) mod builder;
pub(in crate::keyed) mod change;
pub(in crate::keyed) mod decide;
mod forget_quotas;
pub(in crate::keyed) mod full;
pub(in crate::keyed) mod many;
pub(in crate::keyed) mod move_key;
pub(in crate::keyed) mod stats;
pub(in crate::keyed) mod tiers;
#[cfg(any(loom, shuttle))]
mod witness;
