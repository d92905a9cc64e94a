//! The fuzz targets around the core. Each target is a type that can be made from any bytes, prints as Rust source, and
//! has a `run` that panics if an answer is wrong. The targets in `fuzz/` run it on the inputs of libFuzzer;
//! `tests/replay.rs` runs it on the committed seeds, on stable.
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

/// All names that the source of a failure uses: `use tollgate_fuzz_bodies::source::*;`.
pub mod source {
    pub use crate::{HeaderCase, JsonCase, LogCase, RespCase, RlsCase, YamlCase};
    pub use tollgate_model::source::*;
}
