//! `tollgate policies`: the language of policies, and how a policy in it is read.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use tollgate::{Algorithm, CalendarUnit, Policy, Rounding};

use crate::failure::Failure;
use crate::tables::{aligned, grouped, write_table};
use crate::written::{POLICIES, WrittenPolicy};

const AFTER_HELP: &str = "\
Examples:
  tollgate policies
  tollgate policies '100 requests per minute' 'leaky-bucket 100/m hard'
  tollgate policies 5rps --json";

/// Show the language of policies, or how given policies are read and what they admit
///
/// For each POLICY prints the canonical form in which it is read, how many units a client may spend at once after a
/// rest, and the most that it may spend in any period of the policy. A policy that cannot be read ends with exit code
/// 2 and says what is accepted.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PoliciesArgs {
    /// Policies to explain, each as one argument
    #[arg(value_name = "POLICY")]
    policies: Vec<WrittenPolicy>,

    /// Print a JSON array instead of a table
    #[arg(long, requires = "policies")]
    json: bool,
}

/// One row of the output: a policy as it was written and as it is read, with its bounds.
#[derive(Serialize)]
struct Explained {
    written: String,
    read_as: String,
    at_once: u64,
    most_in_a_period: u64,
}

impl Explained {
    fn of(written: &WrittenPolicy) -> Self {
        let policy = written.policy;
        Self {
            written: written.to_string(),
            read_as: policy.to_string(),
            at_once: with_soft(policy, policy.quota().max_burst()),
            most_in_a_period: most_in_a_period(policy),
        }
    }
}

/// The number of units with the share that a soft limit admits besides, rounded down.
fn with_soft(policy: Policy, units: u64) -> u64 {
    let hundredths = u128::from(policy.at_limit().soft.hundredths());
    let all = u128::from(units) * (10_000 + hundredths) / 10_000;
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// The most units in any interval as long as the policy's period, its end not included. These are the bounds of the
/// table in `docs/which-algorithm.md`.
fn most_in_a_period(policy: Policy) -> u64 {
    let quota = policy.quota();
    let limit = with_soft(policy, quota.count());
    match policy.algorithm() {
        Algorithm::Gcra => with_soft(policy, quota.max_burst()).saturating_add(quota.count() - 1),
        Algorithm::FixedWindowFromFirst
        | Algorithm::SlidingWindow { rounding: Rounding::Exact } => limit.saturating_mul(2) - 1,
        Algorithm::SlidingWindow { rounding: Rounding::Strict } | Algorithm::SlidingLog => limit,
        // The longest month and the longest year are longer than two windows that follow each other at their shortest.
        Algorithm::Calendar(CalendarUnit::Month | CalendarUnit::Year) => limit.saturating_mul(3),
        // Two windows, or the whole of one beside what its share lets through of another.
        _ => limit.saturating_mul(2),
    }
}

struct Report<'a>(&'a [Explained]);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = aligned(&["policy", "read as", "at once", "most in a period"]);
        for one in self.0 {
            table.add_row([
                one.written.clone(),
                one.read_as.clone(),
                grouped(one.at_once),
                grouped(one.most_in_a_period),
            ]);
        }
        write_table(&table, f)
    }
}

/// Prints the language, or the policies.
pub(crate) fn run(args: &PoliciesArgs) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let explained: Vec<Explained> = args.policies.iter().map(Explained::of).collect();
    if explained.is_empty() {
        writeln!(out, "{POLICIES}")
    } else if args.json {
        let json = serde_json::to_string_pretty(&explained).map_err(io::Error::from);
        json.and_then(|json| writeln!(out, "{json}"))
    } else {
        write!(out, "{}", Report(&explained))
    }
    .map_err(Failure::Output)
}
