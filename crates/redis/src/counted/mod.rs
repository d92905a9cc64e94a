//! Mode `async`: requests are decided by what this node has counted and the store has told, in the [`cell`] of their
//! key in the [`table`]; what was admitted is reported in the background ([`report`]).

pub(crate) mod cell;
pub(crate) mod report;
pub(crate) mod table;
