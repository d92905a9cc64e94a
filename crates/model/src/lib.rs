//! The random tests of Tollgate. Policies and requests are drawn at random (`policy`, `rules`, `step`), every limiter
//! has the same verbs, and a judge asks the reference model (`fineness`, `expect`, `follow`, `bound`).
//!
//! A *case* is a list of operations on one subject, such as a limiter. It can be made from any bytes, prints as Rust
//! source, and has a `run` that panics if an answer is wrong. The bytes come from a driver: `fuzz/` takes those that
//! libFuzzer finds, `tests/` those of proptest and of a seed, `fuzz/bodies` those of the committed seeds.
//!
//! The limiter is compared with `crates/oracle`, which shares no code with it.

#![allow(clippy::missing_panics_doc, reason = "to panic is how a case says what it found")]

mod bound;
mod draw;
mod expect;
mod fineness;
mod follow;
mod keyed;
mod layout;
mod meter;
mod mixed;
mod ops;
mod plant;
mod policy;
mod rules;
mod sketch;
mod sliding_log;
mod snapshot;
mod step;
mod targets;
mod text;
mod together;
mod verbs;

pub use draw::Draw;
pub use expect::{TimedRequest, judge, verdict};
pub use fineness::{LATEST_NS, TimeFineness};
pub use keyed::{KeyedCase, run_beside};
pub use layout::LayoutCase;
pub use meter::{GcraCase, WindowCase};
pub use mixed::{
    FoundFailure, Hunt, Judges, LogFault, Mixed, MixedCase, SubjectFault, SubjectKind, hunt,
    hunt_log_changes,
};
pub use ops::Op;
pub use plant::Plant;
pub use policy::{Amount, Period, PolicyCase, QuotaCase, WindowShape};
pub use rules::{DeniedCharge, PenaltyCase, RulesCase, ceiling};
pub use sketch::SketchCase;
pub use sliding_log::SlidingLogCase;
pub use snapshot::{Bytes, SnapshotCase};
pub use step::{RequestStep, Span, StepCost, Steps};
pub use targets::{TARGETS, Target, read};
pub use text::TextCase;
pub use together::{Joint, Rated, TogetherCase};
pub use verbs::LimitVerb;

/// All names in the source of a failure: `use tollgate_model::source::*;`.
pub mod source {
    pub use crate::policy::{Amount::*, Period::*, PolicyCase::*, QuotaCase, WindowShape::*};
    pub use crate::rules::{DeniedCharge::*, PenaltyCase, RulesCase};
    pub use crate::snapshot::{Bytes, SnapshotCase::*};
    pub use crate::step::{RequestStep, Span::*, StepCost::*, Steps};
    pub use crate::{
        GcraCase, Joint::*, KeyedCase, LayoutCase, LimitVerb::*, Mixed::*, MixedCase, Op::*, Rated,
        SketchCase, SlidingLogCase, SubjectKind::*, TextCase, TogetherCase, WindowCase,
    };

    /// Fails unless a value is printed as the source that it was written as.
    pub fn assert_printed_as<C: std::fmt::Debug>(case: &C, source: &str) {
        let dense = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(dense(&format!("{case:?}")), dense(source));
    }
}

/// Fails unless the value of an expression is printed as that expression.
#[macro_export]
macro_rules! assert_pasted {
    ($source:expr) => {
        $crate::source::assert_printed_as(&$source, stringify!($source))
    };
}
