//! The fuzz targets that are not about the core. Each target is a type that can be made from any bytes and printed as
//! Rust source. Its `run` panics if an answer is wrong. The targets in `fuzz/` call `run` on the inputs of libFuzzer;
//! `tests/replay.rs` calls it on the committed seeds, on stable.
//!
//! The targets of the core are the cases of `crates/model`.

#![allow(clippy::missing_panics_doc, reason = "to panic is how a target says what it found")]

mod header;
mod json;
mod log;
mod replay;
mod resp;
mod service;
mod targets;
mod yaml;

pub use header::HeaderCase;
pub use log::LogCase;
pub use resp::RespCase;
pub use service::{JsonCase, RlsCase};
pub use targets::TARGETS;
pub use yaml::YamlCase;

/// All names that are used in the source that a failure prints: `use tollgate_fuzz_bodies::source::*;`.
pub mod source {
    pub use crate::{HeaderCase, JsonCase, LogCase, RespCase, RlsCase, YamlCase};
    pub use tollgate_model::source::*;
}
