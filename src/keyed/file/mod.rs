//! Tables in files.

pub(in crate::keyed) mod restore;
pub(in crate::keyed) mod snapshot;
pub(in crate::keyed) mod tiers_saved;
