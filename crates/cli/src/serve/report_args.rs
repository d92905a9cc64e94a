//! The arguments that say what an operator is told besides the log and `/metrics`.

use tollgate::Policy;

/// What an operator is told
#[derive(clap::Args)]
#[command(next_help_heading = "Denials")]
pub(super) struct ReportArgs {
    /// How many denials to log, at level info: a policy for all of them together, as in "10/s burst 50" [default: none]
    ///
    /// A line has the domain, the descriptors, the rules that are over their limits, the hits, the wait, the protocol and
    /// the peer, and how many denials were left out before it. Values of requests are in it: names of clients, addresses.
    #[arg(long, value_name = "LIMIT")]
    pub(super) log_denials: Option<Policy>,
}
