//! The black-box scenarios that the test suites of envoyproxy/ratelimit cover, request by request over a socket. The
//! letters and numbers are those of the list of scenarios. Tests move the clock.
//!
//! | Scenario | Where |
//! |---|---|
//! | A1-A3 basic limits, E several statuses, H errors: what the service makes of the rules' answers | `grpc.rs` |
//! | A4 several descriptors, B1 lookups, C wildcards, E: what rules decide | `lookup.rs`, `decisions.rs` and `together.rs` of `crates/rules/tests` |
//! | B2 limits that come with requests | `limits_and_hits_that_come_with_a_descriptor_count` in `grpc.rs`; their series, row 95 in `bad_inputs.rs` |
//! | I reload | `reload.rs`; merged files and the text of every bad file, `bad_rules.rs` of `crates/rules/tests` |
//! | J HTTP | `http.rs`, `drain.rs` |
//! | those of Limitador and Gubernator | `grpc.rs`, `decisions.rs` and `usage.rs` of `crates/rules/tests` |
//! | L TLS: certificates that are renewed, and of clients | `tls.rs`, which makes them |
//!
//! These scenarios are not here, because they need a Redis: A6's variants (second Redis, local cache, prefix of keys,
//! authentication, TLS, Cluster, Sentinel) and A3's counts of the local cache, A7 (the content of Redis), H's failing
//! Redis. The scenarios of this list that are covered are in `crates/redis/tests`, and `tests/with_redis`. A6 with
//! rules over xDS is not supported.
//!
//! Answered differently on purpose: a denied request is charged nowhere (A4, unless `compat`); B2's overrides have
//! no series of their own.

mod drain;
mod full;
mod reload;
