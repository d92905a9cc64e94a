//! The tests of the command that need no file of the repository. They are one program, which is linked once.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod check;
#[cfg(all(unix, feature = "serve"))]
mod check_as_served;
mod common;
#[path = "common/connection.rs"]
mod connection;
#[cfg(all(unix, feature = "serve"))]
mod health;
mod policies;
#[path = "common/processes.rs"]
mod processes;
mod replay;
mod replay_failures;
mod replay_format_failures;
mod replay_formats;
mod replay_rules;
#[cfg(all(unix, feature = "serve"))]
mod serve_connections;
#[cfg(all(unix, feature = "serve"))]
mod serve_log;
#[cfg(all(unix, feature = "serve"))]
mod serve_redis;
#[cfg(all(unix, feature = "serve"))]
mod serve_reload;
#[cfg(all(unix, feature = "serve"))]
mod serve_reports;
#[cfg(all(unix, feature = "serve"))]
mod serve_settings;
#[cfg(all(unix, feature = "serve"))]
mod serve_state;
#[path = "common/serving.rs"]
mod serving;
mod simulate;
mod simulate_limits;
#[path = "common/svg.rs"]
mod svg;
