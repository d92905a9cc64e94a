//! Tests the black-box scenarios of envoyproxy/ratelimit's test suites, request by request over a socket. The letters
//! and numbers name the scenarios. Tests move the clock.
//!
//! | Scenario | Where |
//! |---|---|
//! | A1 and A2 basic limits, E several statuses, H errors: what the service makes of the rules' answers | `grpc.rs` |
//! | A3 twenty of 25 calls, A4 several descriptors, B1 lookups, C wildcards, E: what rules decide | `lookup.rs`, `decisions.rs` and `together.rs` of `crates/rules/tests` |
//! | B2 limits that come with requests | `limits_and_hits_that_come_with_a_descriptor_count` in `grpc.rs`; their series, row 95 in `bad_inputs.rs` |
//! | I reload | `reload.rs`; merged files and the text of every bad file, `bad_rules.rs` of `crates/rules/tests` |
//! | J HTTP | `http.rs`, `drain.rs` |
//! | those of Limitador and Gubernator | `grpc.rs`, `decisions.rs` and `usage.rs` of `crates/rules/tests` |
//! | L TLS: certificates that are renewed, and of clients | `tls.rs`, which makes them |
//!
//! These scenarios need a Redis, so they are not tested here: the variants of A6 (second Redis, local cache, prefix of
//! keys, authentication, TLS, Cluster, Sentinel), the counts of the local cache in A3, the content of Redis in A7, and
//! the failing Redis in H. Those that are supported are tested in `crates/redis/tests` and `tests/with_redis`. A6 with
//! rules over xDS is not supported.
//!
//! Two answers differ on purpose. A denied request is charged nowhere, unless `compat` is set (A4). Limits that come
//! with requests have no series of their own (B2).

mod drain;
mod full;
mod reload;
