//! Envoy's rate limit quota service: Envoys limit by themselves, and the service assigns them shares of the limits.
//!
//! An Envoy groups its requests into buckets, each a map of names and values, and reports how many it has let through
//! and denied. A bucket is treated as a descriptor whose entries are in the order of their names. The limit of the rule
//! that it matches is divided among all Envoys that report this bucket: see [`pool`].

mod actions;
mod allowance;
mod book;
mod counts;
mod holder;
mod orphans;
mod pool;
mod reports;
mod rlqs;
mod saved;

pub(crate) use book::Quotas;
pub(crate) use rlqs::{Rlqs, keep_time};
pub(crate) use saved::SavedQuotas;
