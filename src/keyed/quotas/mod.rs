//! The quotas of words, for tables with several quotas and for limits whose quota may change.

pub(in crate::keyed) mod book;
pub(in crate::keyed) mod changing_cell;
