//! What the fuzz targets check. Each target is a type that can be made from any bytes, prints as Rust
//! source, and has a `run` that panics when an answer is wrong. The targets in `fuzz/` feed it what
//! libFuzzer finds; `tests/replay.rs` feeds it the committed seeds, on stable.
//!
//! The limiter is compared with `crates/oracle`, which shares no code with it.

#![allow(clippy::missing_panics_doc, reason = "to panic is how a target says what it found")]

mod bound;
mod expect;
mod follow;
mod grain;
#[cfg(feature = "service")]
mod header;
#[cfg(feature = "service")]
mod json;
mod keyed;
mod layout;
#[cfg(feature = "service")]
mod log;
mod meter;
mod mixed;
mod policy;
#[cfg(feature = "service")]
mod replay;
#[cfg(feature = "service")]
mod resp;
mod rules;
#[cfg(feature = "service")]
mod service;
mod sketch;
mod sliding_log;
mod snapshot;
mod step;
mod targets;
mod text;
mod together;
mod verbs;
#[cfg(feature = "service")]
mod yaml;

pub use expect::Plant;
#[cfg(feature = "service")]
pub use header::HeaderCase;
pub use keyed::{KeyedCase, Op};
pub use layout::LayoutCase;
#[cfg(feature = "service")]
pub use log::LogCase;
pub use meter::{GcraCase, WindowCase};
pub use mixed::{
    FoundFailure, Hunt, Judges, LogFault, Mixed, MixedCase, SubjectFault, SubjectKind, hunt,
    hunt_log_changes,
};
pub use policy::{Amount, Period, PolicyCase, QuotaCase, WindowShape};
#[cfg(feature = "service")]
pub use resp::RespCase;
pub use rules::{DeniedCharge, PenaltyCase, RulesCase};
#[cfg(feature = "service")]
pub use service::{JsonCase, RlsCase};
pub use sketch::SketchCase;
pub use sliding_log::SlidingLogCase;
pub use snapshot::{Bytes, SnapshotCase};
pub use step::{RequestStep, Span, StepCost, Steps};
pub use targets::{TARGETS, Target};
pub use text::TextCase;
pub use together::{Joint, Rated, TogetherCase};
pub use verbs::{LimitVerb, VerbCase};
#[cfg(feature = "service")]
pub use yaml::YamlCase;

/// Everything that the source of a failure names: `use tollgate_fuzz_bodies::source::*;`.
pub mod source {
    pub use crate::policy::{Amount::*, Period::*, PolicyCase::*, QuotaCase, WindowShape::*};
    pub use crate::rules::{DeniedCharge::*, PenaltyCase, RulesCase};
    pub use crate::snapshot::{Bytes, SnapshotCase::*};
    pub use crate::step::{RequestStep, Span::*, StepCost::*, Steps};
    pub use crate::{
        GcraCase, Joint::*, KeyedCase, LayoutCase, LimitVerb::*, Mixed::*, MixedCase, Op::*, Rated,
        SketchCase, SlidingLogCase, SubjectKind::*, TextCase, TogetherCase, VerbCase, WindowCase,
    };
    #[cfg(feature = "service")]
    pub use crate::{HeaderCase, JsonCase, LogCase, RespCase, RlsCase, YamlCase};
}
