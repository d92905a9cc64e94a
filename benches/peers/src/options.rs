//! The options of the command line.

use clap::Parser;

/// Measures Tollgate beside other rate limiters.
#[derive(Parser)]
pub(crate) struct PeersOptions {
    /// Runs only the workloads whose names contain one of these.
    pub(crate) workloads: Vec<String>,
    /// Runs every workload at full size.
    #[arg(long)]
    pub(crate) full: bool,
    /// Rounds of each contender in each workload.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// `cargo bench` passes this option, which has no effect.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

impl PeersOptions {
    pub(crate) fn wants(&self, workload: &str) -> bool {
        let chosen = &self.workloads;
        chosen.is_empty() || chosen.iter().any(|part| workload.contains(part.as_str()))
    }

    /// Decisions of each thread in each round.
    pub(crate) fn decisions(&self) -> usize {
        if self.full { 2_000_000 } else { 500_000 }
    }
}
