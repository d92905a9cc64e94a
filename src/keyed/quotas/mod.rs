//! The quotas of words: where several stand side by side, and where one may change.

pub(in crate::keyed) mod book;
pub(in crate::keyed) mod changing_cell;
