//! The names of the targets that are not about the core.

use tollgate_model::{Target, target};

use crate::{HeaderCase, JsonCase, LogCase, RespCase, RlsCase, YamlCase};

/// The targets of `fuzz/fuzz_targets` that are not cases of `crates/model`.
pub const TARGETS: &[Target] = &[
    target!("log_line", LogCase<'_>),
    target!("http_headers", HeaderCase<'_>),
    target!("rls_request", RlsCase<'_>),
    target!("json_body", JsonCase<'_>),
    target!("resp_bytes", RespCase<'_>),
    target!("rules_yaml", YamlCase<'_>),
];
