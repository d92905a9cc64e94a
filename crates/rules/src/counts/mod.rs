//! The counts of rules: hits by answer, hits of clients without a cell, series by the values of requests, and the
//! clients that are denied most.

pub(crate) mod counter;
pub(crate) mod full;
pub(crate) mod rarely;
pub(crate) mod room;
pub(crate) mod rule_counts;
pub(crate) mod series;
pub(crate) mod worst;
