//! The counts of rules: requests by answer, clients without a cell, the values and the clients that are denied most.

pub(crate) mod counter;
pub(crate) mod full;
pub(crate) mod rarely;
pub(crate) mod room;
pub(crate) mod rule_counts;
pub(crate) mod series;
pub(crate) mod worst;
