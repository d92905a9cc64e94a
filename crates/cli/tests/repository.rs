//! The tests that read files of the repository, or write them. They are not in the package: see `exclude` in
//! `Cargo.toml`.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;
mod documents;
#[cfg(all(unix, feature = "serve"))]
mod gateway;
mod monitoring;
mod packages;
#[path = "common/pages.rs"]
mod pages;
#[path = "common/processes.rs"]
mod processes;
mod replay_pictures;
mod replay_prefixes;
mod replay_stream;
mod replay_suggest;
#[cfg(feature = "serve")]
mod rules_redis;
mod sample_log;
#[cfg(all(unix, feature = "serve"))]
mod serve;
#[cfg(all(unix, feature = "serve"))]
mod serve_config;
#[cfg(all(unix, feature = "serve"))]
mod serve_max_age;
#[path = "common/serving.rs"]
mod serving;
#[path = "common/svg.rs"]
mod svg;
#[cfg(unix)]
mod transcripts;
mod variables;
mod words;
