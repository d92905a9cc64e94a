//! The sketch that decides requests of keys for which there is no cell.

pub(in crate::keyed) mod reach;
pub(in crate::keyed) mod settle;
pub(in crate::keyed) mod store;
