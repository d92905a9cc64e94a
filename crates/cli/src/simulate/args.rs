//! The arguments of `tollgate simulate`. Their help texts are its manual.

use std::time::Duration;

use tollgate::Quota;

use super::lane::limit;
use crate::spans::span;
use crate::written::{POLICIES, WrittenLimits};

const EXAMPLES: &str = "\
Examples:
  tollgate simulate --pattern boundary --policy \"fixed-window 10/s\" --policy \"sliding-window 10/s\"
  tollgate simulate --pattern poisson --rate 20/s --for 60s --policy \"10/s burst 5\" --svg out.svg
  tollgate simulate --pattern on-off --policy \"10/s burst 5 and 30/m\" --json
  tollgate simulate --times times.csv --policy 10/m --csv decisions.csv
  tollgate simulate --pattern on-off --policy \"gcra 10/s burst 5\" --live";

/// Generate traffic and show side by side how policies would decide it
///
/// All requests are of one client, cost one unit, and come at times that count from zero; windows of the
/// clock begin at zero, too. The same options always make the same traffic.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\nUse --help for the policies."), arg_required_else_help = true)]
#[command(after_long_help = format!("{POLICIES}\n\n{EXAMPLES}"))]
pub(crate) struct SimulateArgs {
    /// The pattern in which requests come
    #[arg(long, required_unless_present = "times", value_enum)]
    pub(super) pattern: Option<TrafficPattern>,

    /// A CSV file whose first column has the times of requests, in seconds or as dates; - is standard input
    ///
    /// If the first line is not a time, it is taken for a heading. Times must not go backwards.
    #[arg(long, conflicts_with = "pattern", value_name = "FILE")]
    pub(super) times: Option<String>,

    /// The limit to try, such as "gcra 10/m burst 5"; repeat to compare several
    ///
    /// A request may be under several limits, with `and` between them, as in "10/s burst 5 and 100/m": it is charged to all
    /// of them or to none. The defaults of the other options follow from the first limit.
    #[arg(long = "policy", required = true, value_name = "POLICY")]
    pub(super) policies: Vec<WrittenLimits>,

    /// The rate of requests: the average, or with on-off that of the busy times [default: twice the first policy's rate]
    #[arg(long, value_name = "COUNT/PERIOD", value_parser = rate)]
    pub(super) rate: Option<Quota>,

    /// The length of the simulation [default: ten periods of the first policy]
    #[arg(long = "for", value_name = "SPAN", value_parser = span)]
    pub(super) duration: Option<u64>,

    /// With burst and boundary: the number of requests in a burst [default: the first policy's count, or its burst if that is larger]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) burst: Option<u64>,

    /// With boundary: the length of the windows [default: the first policy's period]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub(super) window: Option<u64>,

    /// With on-off: the length of the busy times [default: the first policy's period]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub(super) on: Option<u64>,

    /// With on-off: the length of the pauses [default: the first policy's period]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub(super) off: Option<u64>,

    /// With poisson: the seed of the random times
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    /// Print one JSON object instead of the table; spans are in nanoseconds
    #[arg(long, conflicts_with = "live")]
    pub(super) json: bool,

    /// Also play the decisions in ten seconds, if the output is a terminal
    #[arg(long)]
    pub(super) live: bool,

    /// Also write every decision as a line of this file
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<String>,

    /// Also draw what was admitted and refused, and what was admitted in the last period
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<String>,
}

/// The pattern in which requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TrafficPattern {
    /// One after the other, evenly
    Uniform,
    /// Several at one instant, then none until the rate has caught up
    Burst,
    /// A burst in the last tenth of a window, and one in the first tenth of the next
    Boundary,
    /// At random, independent of each other
    Poisson,
    /// Evenly for a while, then none for a while
    OnOff,
}

impl SimulateArgs {
    /// Returns the quota of the first policy, which gives the defaults of options.
    fn quota(&self) -> Option<Quota> {
        self.policies.first().map(|first| first.first.policy.quota())
    }

    pub(super) fn rate(&self) -> (u64, u64) {
        match (self.rate, self.quota()) {
            (Some(rate), _) => (rate.count(), nanos(rate.period())),
            (None, Some(quota)) => (quota.count().saturating_mul(2), nanos(quota.period())),
            (None, None) => (1, 1), // not reached: a policy is required
        }
    }

    pub(super) fn period_ns(&self) -> u64 {
        self.quota().map_or(1, |quota| nanos(quota.period()))
    }

    pub(super) fn count(&self) -> u64 {
        self.policies.first().map_or(1, |first| limit(first.first.policy))
    }
}

fn nanos(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

fn rate(text: &str) -> Result<Quota, String> {
    let quota: Quota = text.parse().map_err(|error: tollgate::PolicyError| error.to_string())?;
    if quota.max_burst() != quota.count() {
        return Err("a rate takes no burst; write it as in 10/s".to_owned());
    }
    Ok(quota)
}
