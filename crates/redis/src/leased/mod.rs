//! Mode `leased`: units that the store has charged and this node spends.
//!
//! A decision takes units of a [`fast_entry`] of its key in the [`table`], from a [`unit_pool`], with one
//! compare-and-swap. If there are none it locks the key's [`holding`], and waits for a lease if that has none either
//! ([`spend`]).

pub(crate) mod fast_entry;
pub(crate) mod held;
pub(crate) mod holding;
pub(crate) mod spend;
pub(crate) mod table;
pub(crate) mod terms;
pub(crate) mod unit_pool;
