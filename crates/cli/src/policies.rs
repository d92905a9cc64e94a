//! `tollgate policies`: the language of policies, and how a policy in it is read.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use crate::bounds::{most_at_once, most_in_a_period};
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
            at_once: most_at_once(policy),
            most_in_a_period: most_in_a_period(policy),
        }
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
