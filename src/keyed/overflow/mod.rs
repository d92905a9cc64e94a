//! The sketch that decides keys for which there is no cell.

pub(in crate::keyed) mod reach;
pub(in crate::keyed) mod settle;
pub(in crate::keyed) mod store;
