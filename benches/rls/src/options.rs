//! The options of the command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerKind {
    /// The service, with the rules of a file.
    Ours,
    /// A server that gives a fixed answer.
    Echo,
}

/// Measures the service beside a bare gRPC server with the same messages.
#[derive(Parser)]
pub(crate) struct RlsOptions {
    /// Rounds of each server.
    #[arg(long, default_value_t = 11)]
    pub(crate) rounds: usize,
    /// The duration of each round.
    #[arg(long, default_value_t = 3_000)]
    pub(crate) millis: u64,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64)]
    pub(crate) connections: usize,
    /// Descriptors of each request, each found by a rule of its own.
    #[arg(long, default_value_t = 1)]
    pub(crate) descriptors: usize,
    /// Threads of the client.
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,
    /// Runs one server alone, until it is ended.
    #[arg(long, value_enum)]
    pub(crate) serve: Option<ServerKind>,
    /// Makes this many decisions in this process, without a socket.
    #[arg(long)]
    pub(crate) decide: Option<u32>,
    /// Counts instructions under valgrind, and leaves its profiles in this directory.
    #[arg(long)]
    pub(crate) instructions: Option<PathBuf>,
    /// Threads of the server; by default one for each core.
    #[arg(long)]
    pub(crate) server_threads: Option<usize>,
    /// The address of a Redis server, in which the service then keeps its limits.
    #[arg(long)]
    pub(crate) redis: Option<String>,
    /// Counts each request in Redis (exact), in leases, or in the background (async).
    #[arg(long, default_value = "exact", requires = "redis")]
    pub(crate) accuracy: String,
    /// `cargo bench` passes this option, which has no effect.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}
