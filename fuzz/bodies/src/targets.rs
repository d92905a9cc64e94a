//! All targets, by name.

use std::fmt::Debug;

use arbitrary::{Arbitrary, Unstructured};

use crate::{
    GcraCase, KeyedCase, LayoutCase, MixedCase, Plant, SketchCase, SlidingLogCase, SnapshotCase,
    TextCase, TogetherCase, VerbCase, WindowCase,
};
#[cfg(feature = "service")]
use crate::{HeaderCase, JsonCase, LogCase, RespCase, RlsCase, YamlCase};

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the program in `fuzz/fuzz_targets` and of the directory in `fuzz/seeds`.
    pub name: &'static str,
    /// Runs what the bytes stand for; panics if an answer is not the one expected.
    pub run: fn(&[u8], Plant),
    /// What the bytes stand for, as Rust source.
    pub source: fn(&[u8]) -> String,
}

/// The targets of `fuzz/fuzz_targets`.
pub const TARGETS: &[Target] = &[
    Target {
        name: "gcra_oracle",
        run: |bytes, plant| read::<GcraCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<GcraCase>(bytes)),
    },
    Target {
        name: "window_oracle",
        run: |bytes, plant| read::<WindowCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<WindowCase>(bytes)),
    },
    Target {
        name: "layout_roundtrip",
        run: |bytes, plant| read::<LayoutCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<LayoutCase>(bytes)),
    },
    Target {
        name: "keyed_ops",
        run: |bytes, plant| read::<KeyedCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<KeyedCase>(bytes)),
    },
    Target {
        name: "sketch_ops",
        run: |bytes, plant| read::<SketchCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<SketchCase>(bytes)),
    },
    Target {
        name: "log_ops",
        run: |bytes, plant| read::<SlidingLogCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<SlidingLogCase>(bytes)),
    },
    Target {
        name: "verb_ops",
        run: |bytes, plant| read::<VerbCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<VerbCase>(bytes)),
    },
    Target {
        name: "mixed_ops",
        run: |bytes, plant| read::<MixedCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<MixedCase>(bytes)),
    },
    Target {
        name: "together_ops",
        run: |bytes, plant| read::<TogetherCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<TogetherCase>(bytes)),
    },
    Target {
        name: "policy_text",
        run: |bytes, plant| read::<TextCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<TextCase<'_>>(bytes)),
    },
    #[cfg(feature = "service")]
    Target {
        name: "log_line",
        run: |bytes, plant| read::<LogCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<LogCase<'_>>(bytes)),
    },
    #[cfg(feature = "service")]
    Target {
        name: "http_headers",
        run: |bytes, plant| read::<HeaderCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<HeaderCase<'_>>(bytes)),
    },
    Target {
        name: "snapshot_bytes",
        run: |bytes, plant| read::<SnapshotCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<SnapshotCase<'_>>(bytes)),
    },
    #[cfg(feature = "service")]
    Target {
        name: "rls_request",
        run: |bytes, plant| read::<RlsCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<RlsCase<'_>>(bytes)),
    },
    #[cfg(feature = "service")]
    Target {
        name: "json_body",
        run: |bytes, plant| read::<JsonCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<JsonCase<'_>>(bytes)),
    },
    #[cfg(feature = "service")]
    Target {
        name: "resp_bytes",
        run: |bytes, plant| read::<RespCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<RespCase<'_>>(bytes)),
    },
    #[cfg(feature = "service")]
    Target {
        name: "rules_yaml",
        run: |bytes, plant| read::<YamlCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<YamlCase<'_>>(bytes)),
    },
];

/// As libFuzzer's macro does it.
fn read<'b, C: Arbitrary<'b>>(bytes: &'b [u8]) -> C {
    C::arbitrary_take_rest(Unstructured::new(bytes)).expect("any bytes stand for something")
}

fn source(case: &impl Debug) -> String {
    format!("{case:?}.run();")
}
