//! A key that is new: a cell is chosen and claimed for it, or it is decided in the spill.

pub(in crate::keyed) mod install;
pub(in crate::keyed) mod spill;
pub(in crate::keyed) mod survey;
