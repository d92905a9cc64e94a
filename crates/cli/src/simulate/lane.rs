//! One policy, or several limits at once, applied to the traffic, and the results.

use std::time::Duration;

use tollgate::{Claim, Decision, Limiter, ManualClock, Policy, Timestamp, check_all};

use crate::delays::{DelaySummary, Delays, ask};
use crate::failure::Failure;
use crate::written::WrittenLimits;

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SimulatedAnswer {
    pub(super) is_admitted: bool,
    /// Units left afterwards.
    pub(super) remaining: u64,
    /// The wait of a refused request.
    pub(super) wait_ns: u64,
    /// The time that an admitted request waits for its turn; 0 without a queue.
    pub(super) delay_ns: u64,
}

/// The results of one policy.
#[derive(Debug)]
pub(super) struct SimulatedLane {
    pub(super) policy: WrittenLimits,
    /// Whether each request was admitted.
    pub(super) admitted: Vec<bool>,
    /// The time at which each admitted request left: the time of its arrival, or of its turn in the queue.
    pub(super) left: Vec<u64>,
    /// Set only for a policy with a queue.
    pub(super) delays: Option<DelaySummary>,
    pub(super) admitted_count: u64,
    pub(super) refused_count: u64,
    /// For each limit, the maximum number of requests that left in any half-open interval as long as its period.
    pub(super) max_in_period: Vec<u64>,
    pub(super) longest_wait: Duration,
    /// The longest time from the departure of one admitted request to that of the next.
    pub(super) longest_pause: Duration,
}

impl SimulatedLane {
    /// Decides every request, and passes each answer to `see`.
    pub(super) fn decide(
        written: &WrittenLimits,
        times: &[u64],
        mut see: impl FnMut(u64, SimulatedAnswer) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let limiter = |policy: Policy| Limiter::builder(policy).clock(ManualClock::new()).build();
        let first = limiter(written.first.policy);
        let others: Vec<_> = written.others.iter().map(|other| limiter(other.policy)).collect();
        let mut admitted = Vec::with_capacity(times.len());
        let (mut pass, mut delays) = (Vec::new(), Delays::default());
        let mut longest_wait = Duration::ZERO;
        for &nanos in times {
            let now = Timestamp::from_nanos(nanos);
            let (decision, delay) = match others[..] {
                [] => ask(&first, now),
                _ => (ask_all(&first, &others, now), None),
            };
            delay.into_iter().for_each(|delay| delays.add(delay));
            let delay_ns = in_nanos(delay.unwrap_or_default());
            if decision.is_allowed() {
                // Turns come in the order in which the requests came.
                pass.push(nanos.saturating_add(delay_ns));
            }
            // A single unit fits every quota, so there is always a time to retry.
            let wait = match decision {
                Decision::Denied(denial) => denial.retry_after().unwrap_or_default(),
                Decision::Allowed(_) => Duration::ZERO,
            };
            longest_wait = longest_wait.max(wait);
            admitted.push(decision.is_allowed());
            see(
                nanos,
                SimulatedAnswer {
                    is_admitted: decision.is_allowed(),
                    remaining: decision.remaining(),
                    wait_ns: in_nanos(wait),
                    delay_ns,
                },
            )?;
        }
        let pause_ns = pass.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let admitted_count = pass.len() as u64;
        Ok(Self {
            policy: written.clone(),
            admitted_count,
            refused_count: times.len() as u64 - admitted_count,
            max_in_period: written
                .all()
                .map(|one| {
                    trailing(&pass, period_ns(one.policy)).map(|(_, held)| held).max().unwrap_or(0)
                })
                .collect(),
            longest_wait,
            longest_pause: Duration::from_nanos(pause_ns),
            admitted,
            left: pass,
            delays: delays.summary(),
        })
    }
}

/// Decides one request under several limits. The answer to an admitted request is that of the limit with the fewest
/// units left. The answer to a denied request is that of the limit with the longest wait.
fn ask_all(first: &Limiter, others: &[Limiter], now: Timestamp) -> Decision {
    let limiters = [first].into_iter().chain(others);
    let mut claims: Vec<Claim<'_>> = limiters.map(|it| it.entry().at(now).cost(1)).collect();
    // `check_all` makes a decision for every list that is not empty.
    check_all(&mut claims).into_decision().unwrap_or_else(|| first.entry().at(now).check())
}

/// Returns the limit that a picture draws for the policy: its count in a period or, if that is more, the number that it
/// admits at one instant. For `leaky-bucket 100/m hard`, which drains one a minute, it is the number at one instant.
pub(super) fn limit(policy: Policy) -> u64 {
    let quota = policy.quota();
    quota.count().max(quota.max_burst())
}

/// Returns the policy's period in nanoseconds.
pub(super) fn period_ns(policy: Policy) -> u64 {
    in_nanos(policy.quota().period())
}

fn in_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// For each admitted request, its time and the number of requests admitted in the period that ends with it: itself, and
/// those less than a period before.
pub(super) fn trailing(pass: &[u64], period_ns: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut gone = 0;
    pass.iter().enumerate().map(move |(index, &at_ns)| {
        while at_ns - pass[gone] >= period_ns {
            gone += 1;
        }
        (at_ns, (index - gone + 1) as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_holds_what_is_less_than_a_period_old() {
        let held: Vec<_> = trailing(&[0, 0, 4, 10, 13, 14, 14], 10).map(|(_, held)| held).collect();
        assert_eq!(held, [1, 2, 3, 2, 3, 3, 4]);
        assert_eq!(trailing(&[], 10).count(), 0);
    }

    #[test]
    fn a_limit_is_the_count_or_a_larger_burst() {
        for (policy, expected) in [
            ("leaky-bucket 100/m hard", 100),
            ("leaky-bucket 100/m soft", 100),
            ("gcra 10/s burst 5", 10),
            ("gcra 5/s burst 20", 20),
            ("fixed-window 7/h", 7),
        ] {
            assert_eq!(limit(policy.parse().expect("a policy")), expected, "{policy}");
        }
    }
}
