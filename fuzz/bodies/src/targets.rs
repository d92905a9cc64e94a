//! The targets around the core, by name.

use tollgate_model::{Target, read, source};

use crate::{HeaderCase, JsonCase, LogCase, RespCase, RlsCase, YamlCase};

/// Those of `fuzz/fuzz_targets` that are no case of `crates/model`.
pub const TARGETS: &[Target] = &[
    Target {
        name: "log_line",
        run: |bytes, plant| read::<LogCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<LogCase<'_>>(bytes)),
    },
    Target {
        name: "http_headers",
        run: |bytes, plant| read::<HeaderCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<HeaderCase<'_>>(bytes)),
    },
    Target {
        name: "rls_request",
        run: |bytes, plant| read::<RlsCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<RlsCase<'_>>(bytes)),
    },
    Target {
        name: "json_body",
        run: |bytes, plant| read::<JsonCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<JsonCase<'_>>(bytes)),
    },
    Target {
        name: "resp_bytes",
        run: |bytes, plant| read::<RespCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<RespCase<'_>>(bytes)),
    },
    Target {
        name: "rules_yaml",
        run: |bytes, plant| read::<YamlCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<YamlCase<'_>>(bytes)),
    },
];
