//! How words name their quotas, in tables with several quotas and in limits whose quota may change.

pub(in crate::keyed) mod book;
pub(in crate::keyed) mod changing_cell;
