//! Mode `leased`: the store charges units in batches, and this node spends them.
//!
//! A decision finds its key's [`fast_entry`] in the [`table`], and takes units from a [`unit_pool`] of it with one
//! compare-and-swap. If there are none, it locks the key's [`holding`], and waits for a lease if that has none either
//! ([`spend`]).

pub(crate) mod fast_entry;
pub(crate) mod held;
pub(crate) mod holding;
pub(crate) mod spend;
pub(crate) mod table;
pub(crate) mod terms;
pub(crate) mod unit_pool;
