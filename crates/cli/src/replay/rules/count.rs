//! Counts the answers of one rule, or of all rules together.

use std::collections::HashMap;
use std::time::Duration;

use crate::replay::decide::{PolicyOutcome, Worst};
use crate::replay::gather::Keys;
use crate::replay::seconds::Peak;
use crate::replay::timeline::Timeline;
use crate::replay::waits::Waits;

/// The counts of one rule, or of all rules, by the name of the descriptor or request.
#[derive(Debug, Default)]
pub(super) struct Count {
    accounts: HashMap<usize, RequestCounts, ahash::RandomState>,
    longest_wait: Duration,
    peak: Peak,
    timeline: Timeline,
    waits: Waits,
}

#[derive(Debug, Default)]
struct RequestCounts {
    requests: u64,
    refused: u64,
}

/// An answer: admitted, or refused with the wait after which the request would fit. A cost that never fits has no wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Admitted,
    Refused(Option<Duration>),
}

impl Count {
    /// Counts one request. Requests must come in the order of time.
    pub(super) fn add(&mut self, name: usize, nanos: u64, said: Said) {
        let account = self.accounts.entry(name).or_default();
        account.requests += 1;
        self.timeline.add(nanos, said == Said::Admitted);
        match said {
            Said::Admitted => self.peak.add(nanos),
            Said::Refused(wait) => {
                account.refused += 1;
                if let Some(wait) = wait {
                    self.longest_wait = self.longest_wait.max(wait);
                    self.waits.add(wait);
                }
            }
        }
    }

    /// Returns the results.
    pub(super) fn finish(self, names: &Keys) -> PolicyOutcome {
        let mut outcome = PolicyOutcome {
            keys: self.accounts.len() as u64,
            longest_wait: self.longest_wait,
            peak_admitted_per_second: self.peak.most(),
            timeline: self.timeline,
            waits: self.waits,
            ..PolicyOutcome::default()
        };
        for (key, RequestCounts { requests, refused }) in self.accounts {
            outcome.admitted += requests - refused;
            outcome.refused += refused;
            if refused > 0 {
                outcome.keys_refused += 1;
                outcome.consider(Worst { key, requests, refused }, names);
            }
        }
        outcome
    }
}
