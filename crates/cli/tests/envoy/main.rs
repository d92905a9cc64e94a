//! The real Envoy asks the real `tollgate serve`. Each test is a scenario that users of Envoy meet.
//!
//! Each scenario starts an Envoy, an upstream and one service or several on free ports. Limits are of a year, or of
//! GCRA with periods of hours, so that no scenario meets the end of a window. If a scenario fails, Envoy's log is
//! printed.

#![cfg(unix)]

#[path = "../../../service/tests/common/authority.rs"]
mod authority;
mod client;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/processes.rs"]
mod processes;
mod service;
#[path = "../common/serving.rs"]
mod serving;
mod upstream;
mod world;

mod actions;
mod basics;
mod cost;
mod failures;
mod headers;
mod migrated;
mod operations;
mod quota;
mod transport;
mod usage;
