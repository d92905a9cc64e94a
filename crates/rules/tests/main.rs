//! All tests of this crate that do not need a separate process. They are one program, so that only one has to be
//! linked.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod absence;
mod addresses;
mod as_written;
mod at_limit;
mod bad_rules;
mod common;
mod debts;
mod decisions;
mod elastic;
mod elastic_bound;
mod elsewhere;
mod forwards;
mod full;
mod hidden;
mod lingering;
mod lookup;
mod lowered;
mod manifests;
mod matching;
mod near_over;
mod paced;
mod reload;
mod requests;
mod requota;
mod schema;
mod series;
mod shares;
mod state;
mod threads;
mod together;
mod usage;
mod verbs;
mod worst_clients;
mod zones;
