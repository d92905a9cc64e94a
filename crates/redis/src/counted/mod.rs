//! Mode `async`: this node decides requests by its own count and the store's last reply. Both are in the [`cell`] of
//! the key, and the cells are in the [`table`]. Admitted units are reported in the background ([`report`]).

pub(crate) mod cell;
pub(crate) mod report;
pub(crate) mod table;
