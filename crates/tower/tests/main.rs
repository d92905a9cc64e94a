//! All tests of this crate that can share a process, as one program, so that they are linked once.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

#[cfg(feature = "elastic")]
mod any_limit;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "axum")]
mod bad_inputs;
mod client;
mod common;
mod delay;
#[cfg(feature = "grpc")]
mod grpc;
mod layer;
mod lookup;
#[cfg(feature = "redis")]
mod remote;
#[cfg(feature = "redis")]
mod remote_queue;
mod retry_after;
mod settle;
mod styles;
mod tiers;
mod told;
