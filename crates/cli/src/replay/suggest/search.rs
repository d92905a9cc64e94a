//! Finds the smallest limits that pass, by trying.

use std::fmt;
use std::time::Duration;

use rayon::prelude::*;
use tollgate::{Algorithm, Meter, Policy, PolicyError, Quota, Timestamp, Word};

use crate::replay::event::ReplayEvent;
use crate::replay::gather::RequestLog;

/// The rates of GCRA that are tried: these numbers, ten times these, a hundred times these, and so on.
const RATES: [u64; 3] = [1, 2, 5];

/// A log, and the number of its keys that may be refused.
pub(super) struct Search<'l> {
    log: &'l RequestLog,
    others: u64,
    /// The number of requests of the busiest key. Under a limit of this number no request is refused.
    busiest: u64,
}

/// A window whose smallest limit does not fit in a word.
#[derive(Debug)]
pub(super) struct TooLarge {
    policy: String,
    error: PolicyError,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {}: {}", self.policy, self.error)
    }
}

impl<'l> Search<'l> {
    pub(super) fn new(log: &'l RequestLog, others: u64) -> Self {
        let busiest = |(partition, events): (usize, &Vec<ReplayEvent>)| {
            let mut requests = vec![0_u64; log.keys_in(partition)];
            events.iter().for_each(|event| requests[log.account(*event)] += 1);
            requests.into_iter().max().unwrap_or(0)
        };
        let busiest = log.partitions.par_iter().enumerate().map(busiest).max();
        Self { log, others, busiest: busiest.unwrap_or(0).max(1) }
    }

    /// Returns the window with the smallest limit that passes.
    pub(super) fn window(
        &self,
        algorithm: Algorithm,
        period: Duration,
    ) -> Result<Policy, TooLarge> {
        let policy = |count| Policy::new(algorithm, Quota::try_per(count, period)?);
        let count = self.smallest(policy);
        policy(count).map_err(|error| {
            let sample = policy(1).map_or_else(|error| error.to_string(), |one| one.to_string());
            TooLarge { policy: sample.replacen("1/", &format!("{count}/"), 1), error }
        })
    }

    /// Returns the smallest burst that passes for each rate. A rate that needs as large a burst as a lower rate is left
    /// out.
    pub(super) fn gcra(&self, period: Duration) -> Vec<Policy> {
        let mut found: Vec<Policy> = Vec::new();
        let tens = (0..).map_while(|power| 10_u64.checked_pow(power));
        let rates = tens.flat_map(|ten| RATES.map(|rate| rate.saturating_mul(ten)));
        for rate in rates {
            let policy = |burst| Quota::try_per(rate, period)?.try_burst(burst).map(Policy::from);
            let Ok(smallest) = policy(self.smallest(policy)) else { break };
            let burst = smallest.quota().max_burst();
            if found.last().is_none_or(|last| burst < last.quota().max_burst()) {
                found.push(smallest);
            }
            if burst == 1 || rate >= self.busiest {
                break;
            }
        }
        found
    }

    /// Returns the smallest number whose policy passes. A number that is too large for a policy counts as passing: the
    /// search comes to it only if every smaller number that was tried did not pass.
    fn smallest(&self, policy: impl Fn(u64) -> Result<Policy, PolicyError>) -> u64 {
        smallest(self.busiest, |number| match policy(number) {
            Ok(policy) => keys_refused(policy, self.log) <= self.others,
            Err(_) => true,
        })
    }
}

/// Returns the smallest number from 1 to `most` that passes, if every number above a passing one passes, too. `most`
/// itself must pass.
fn smallest(most: u64, passes: impl Fn(u64) -> bool) -> u64 {
    let (mut fails, mut enough) = (0, 1);
    while enough < most && !passes(enough) {
        fails = enough;
        enough = enough.saturating_mul(2).min(most);
    }
    while enough - fails > 1 {
        let middle = fails + (enough - fails) / 2;
        if passes(middle) { enough = middle } else { fails = middle }
    }
    enough
}

/// Returns the number of keys with a refused request. The remaining requests of such a key are skipped.
fn keys_refused(policy: Policy, log: &RequestLog) -> u64 {
    // Only sliding logs have no meter, and they are not tried. Such a policy would count as refusing every key.
    let Ok(meter) = Meter::new(policy) else { return u64::MAX };
    let refused_in = |(partition, events): (usize, &Vec<ReplayEvent>)| {
        let mut words = vec![Some(Word::UNUSED); log.keys_in(partition)];
        let mut refused = 0;
        for event in events {
            let account = &mut words[log.account(*event)];
            let Some(word) = *account else { continue };
            let (decision, next) = meter.check(word, Timestamp::from_nanos(event.nanos()), 1);
            *account = decision.is_allowed().then_some(next);
            refused += u64::from(!decision.is_allowed());
        }
        refused
    };
    log.partitions.par_iter().enumerate().map(refused_in).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_number_is_found_wherever_it_lies() {
        for most in [1, 2, 3, 7, 8, 100] {
            for least in 1..=most {
                assert_eq!(smallest(most, |number| number >= least), least, "of {most}");
            }
        }
        assert_eq!(smallest(u64::MAX, |number| number >= u64::MAX - 1), u64::MAX - 1);
    }
}
