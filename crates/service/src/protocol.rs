//! The wire protocols, generated from `proto/`.

#![allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::must_use_candidate,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::missing_errors_doc
)] // written by the generator

include!(concat!(env!("OUT_DIR"), "/protocol.rs"));

pub use envoy::config::core::v3 as core;
pub use envoy::extensions::common::ratelimit::v3 as common;
pub use envoy::service::discovery::v3 as discovery;
pub use envoy::service::rate_limit_quota::v3 as quota;
pub use envoy::service::ratelimit::v3 as rls;
pub use envoy::r#type::v3 as kinds;
pub use ratelimit::config::ratelimit::v3 as config;

/// The descriptors that reflection serves.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
