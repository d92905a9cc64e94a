//! `--suggest`: the smallest limits under which a share of the keys is never refused.
//!
//! They are found by binary search with the arithmetic of the limiters. This works because a key that is never refused
//! under a limit is never refused under a larger one.

mod search;
mod share;

use std::fmt;
use std::time::Duration;

use serde::Serialize;
pub(crate) use share::KeyShare;
use tollgate::{Algorithm, Policy, Rounding};

use super::decide::decide;
use super::gather::RequestLog;
use super::parse::wait;
use crate::bounds::most_in_a_period;
use crate::tables::{aligned, grouped, share as share_of, write_table};
use search::Search;

/// The algorithms that are tried in addition to GCRA. Five segments divide each of the periods below.
const WINDOWS: [Algorithm; 4] = [
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow { rounding: Rounding::Down },
    Algorithm::SlidingWindow { rounding: Rounding::Strict },
    Algorithm::SegmentedWindow { segments: 5 },
];

/// The usual periods.
const PERIODS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(60),
    Duration::from_secs(3_600),
    Duration::from_secs(86_400),
];

/// The result. Its fields are those of `--json`, in their order.
#[derive(Debug, Serialize)]
pub(crate) struct Suggestion {
    pub(in crate::replay) share: String,
    pub(in crate::replay) keys: u64,
    /// The number of keys that the suggested limits may refuse.
    pub(in crate::replay) keys_that_may_be_refused: u64,
    /// The smallest limit of each algorithm and period.
    pub(in crate::replay) limits: Vec<SuggestedLimit>,
    /// Rates of GCRA with the smallest burst for each.
    pub(in crate::replay) gcra_trade_off: Vec<SuggestedLimit>,
    /// Algorithms and periods whose smallest limit is too large for a word.
    pub(in crate::replay) too_large: Vec<String>,
}

/// A limit, and its results.
#[derive(Debug, Serialize)]
pub(in crate::replay) struct SuggestedLimit {
    pub(in crate::replay) policy: String,
    pub(in crate::replay) max_in_period: u64,
    pub(in crate::replay) keys_refused: u64,
    pub(in crate::replay) requests: u64,
    pub(in crate::replay) refused: u64,
    /// The longest wait of a refused request.
    #[serde(skip)]
    pub(in crate::replay) longest_wait: Duration,
}

/// Tries limits on a whole log.
pub(crate) fn suggest(share: KeyShare, log: &RequestLog) -> Suggestion {
    let keys = log.keys.len() as u64;
    let others = share.others(keys);
    let search = Search::new(log, others);
    let mut suggestion = Suggestion {
        share: share.to_string(),
        keys,
        keys_that_may_be_refused: others,
        limits: Vec::new(),
        gcra_trade_off: Vec::new(),
        too_large: Vec::new(),
    };
    let span_ns = log.span().map_or(0, |(first, last)| last - first);
    let is_spanned = |period: &Duration| period.as_nanos() <= u128::from(span_ns);
    // The shortest period is always tried, so that even a log of one instant gets a suggested rate.
    for period in PERIODS.into_iter().enumerate().filter(|(n, p)| *n == 0 || is_spanned(p)) {
        suggestion.add_period(period.1, &search, log);
    }
    suggestion
}

impl Suggestion {
    fn add_period(&mut self, period: Duration, search: &Search<'_>, log: &RequestLog) {
        let bursts = search.gcra(period);
        let least =
            bursts.iter().min_by_key(|policy| (most_in_a_period(**policy), policy.quota().count()));
        self.limits.extend(least.map(|policy| SuggestedLimit::new(*policy, log)));
        self.gcra_trade_off.extend(bursts.iter().map(|policy| SuggestedLimit::new(*policy, log)));
        for algorithm in WINDOWS {
            match search.window(algorithm, period) {
                Ok(policy) => self.limits.push(SuggestedLimit::new(policy, log)),
                Err(error) => self.too_large.push(error.to_string()),
            }
        }
    }
}

impl SuggestedLimit {
    fn new(policy: Policy, log: &RequestLog) -> Self {
        let outcome = decide(policy, log);
        Self {
            policy: policy.to_string(),
            max_in_period: most_in_a_period(policy),
            keys_refused: outcome.keys_refused,
            requests: outcome.admitted + outcome.refused,
            refused: outcome.refused,
            longest_wait: outcome.longest_wait,
        }
    }
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "smallest limits that refuse nothing to {} of {} keys ({} may be refused)\n",
            self.share,
            grouped(self.keys),
            grouped(self.keys_that_may_be_refused)
        )?;
        write_limits(&self.limits, f)?;
        self.too_large.iter().try_for_each(|error| writeln!(f, "{error}"))?;
        writeln!(f, "\ngcra: the higher the rate, the smaller the burst\n")?;
        write_limits(&self.gcra_trade_off, f)
    }
}

fn write_limits(limits: &[SuggestedLimit], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut table = aligned(&[
        "policy",
        "most in a period",
        "keys refused",
        "refused",
        "share refused",
        "longest wait",
    ]);
    for limit in limits {
        table.add_row([
            limit.policy.clone(),
            grouped(limit.max_in_period),
            grouped(limit.keys_refused),
            grouped(limit.refused),
            share_of(limit.refused, limit.requests),
            wait(limit.longest_wait),
        ]);
    }
    write_table(&table, f)
}
