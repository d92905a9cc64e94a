//! Requests of new keys: a cell is chosen and claimed for the key, or the request is decided in the spill.

pub(in crate::keyed) mod install;
pub(in crate::keyed) mod spill;
pub(in crate::keyed) mod survey;
