//! Mode `leased`: the store charges units in batches, and this node spends them.
//!
//! A decision finds the key's [`fast_entry`] in the [`table`], and takes units from one of the entry's pools
//! ([`unit_pool`]) with one compare-and-swap. If the pools have no units, it locks the key's [`holding`]. If the
//! holding has none either, it waits for a lease ([`spend`]). Units that expire before they are spent go back to the
//! store ([`held`]).

pub(crate) mod fast_entry;
pub(crate) mod held;
pub(crate) mod holding;
pub(crate) mod spend;
pub(crate) mod table;
pub(crate) mod terms;
pub(crate) mod unit_pool;
