//! The delays of requests under a policy with a queue, in milliseconds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tollgate::{Decision, Limiter, Timestamp};

use crate::spans::seconds;
use crate::tables::grouped;

/// Decides one request. If the policy has a queue and admits the request, also returns the time that the request waits.
pub(crate) fn ask(limiter: &Limiter, now: Timestamp) -> (Decision, Option<Duration>) {
    let entry = limiter.entry().at(now);
    if limiter.policy().at_limit().queue.is_none() {
        return (entry.check(), None);
    }
    // The policy itself bounds the wait.
    match entry.reserve(1, Duration::MAX) {
        Ok(place) => {
            let wait = place.wait();
            (Decision::Allowed(place.into_permit()), Some(wait))
        }
        Err(denial) => (Decision::Denied(denial), None),
    }
}

/// The number of admitted requests for each delay in milliseconds, rounded up. The map has an entry for each distinct
/// delay, so the longest delay bounds its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delays(BTreeMap<u64, u64>);

/// A summary of the delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DelaySummary {
    #[serde(skip)]
    admitted: u64,
    /// The number of admitted requests that had to wait.
    delayed: u64,
    /// The median delay of all admitted requests.
    p50_ms: u64,
    p99_ms: u64,
    max_ms: u64,
}

impl Delays {
    pub(crate) fn add(&mut self, delay: Duration) {
        let millis = u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        *self.0.entry(millis).or_default() += 1;
    }

    /// Adds the delays of another part of the log.
    pub(crate) fn append(&mut self, other: Self) {
        for (millis, count) in other.0 {
            *self.0.entry(millis).or_default() += count;
        }
    }

    /// Returns the summary, or `None` if no request was admitted or the policy has no queue.
    pub(crate) fn summary(&self) -> Option<DelaySummary> {
        let (&max_ms, _) = self.0.last_key_value()?;
        let admitted = self.0.values().sum::<u64>();
        Some(DelaySummary {
            admitted,
            delayed: admitted - self.0.get(&0).copied().unwrap_or(0),
            p50_ms: self.at(admitted.div_ceil(2)),
            // 99 % of `admitted`, rounded up. It is computed without a product that could overflow.
            p99_ms: self.at(admitted - admitted / 100),
            max_ms,
        })
    }

    /// Returns the delay of the request with this rank. The request with the shortest delay has rank 1.
    fn at(&self, rank: u64) -> u64 {
        let mut seen = 0;
        let mut reached = self.0.iter().filter(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        reached.next().map_or(0, |(millis, _)| *millis)
    }
}

impl fmt::Display for DelaySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admitted, delayed, .. } = *self;
        let [p50, p99, max] = [self.p50_ms, self.p99_ms, self.max_ms]
            .map(|millis| seconds(millis.saturating_mul(1_000_000)));
        let (delayed, admitted) = (grouped(delayed), grouped(admitted));
        write!(
            f,
            "{delayed} of {admitted} admitted waited for their turn: p50 {p50}s, p99 {p99}s, max {max}s"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(millis: impl IntoIterator<Item = u64>) -> Delays {
        let mut delays = Delays::default();
        millis.into_iter().for_each(|millis| delays.add(Duration::from_millis(millis)));
        delays
    }

    #[test]
    fn a_rank_is_that_of_the_nearest_request() {
        let summary = |delays: Delays| {
            delays.summary().map(|s| (s.admitted, s.delayed, s.p50_ms, s.p99_ms, s.max_ms))
        };
        assert_eq!(summary(Delays::default()), None);
        assert_eq!(summary(delays([0])), Some((1, 0, 0, 0, 0)));
        assert_eq!(summary(delays(1..=4)), Some((4, 4, 2, 4, 4)));
        assert_eq!(summary(delays(1..=200)), Some((200, 200, 100, 198, 200)));
        let mut sum = delays(1..=100);
        sum.append(delays(101..=200));
        assert_eq!(sum, delays(1..=200));
    }

    #[test]
    fn a_delay_is_rounded_up() {
        let mut delays = Delays::default();
        delays.add(Duration::from_nanos(1_000_001));
        assert_eq!(delays.summary().map(|summary| summary.max_ms), Some(2));
    }
}
