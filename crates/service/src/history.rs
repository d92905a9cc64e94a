//! The counts of each second, and the rates between them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::time::Instant;
use tollgate_rules::{RuleCache, RuleCounts, RuleSet};

use crate::metrics::{RequestOutcome, Requests};

/// The number of seconds in the plot.
pub(crate) const SECONDS: usize = 120;

/// The number of seconds over which current rates are averaged: long enough to be read, short enough to be current.
const PRESENT: usize = 5;

/// The samples. Only the page and its sampler take the lock: no request does.
#[derive(Debug, Default)]
pub(crate) struct History {
    taken: Mutex<Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    totals: VecDeque<Totals>,
    /// Only for as long as the rules stay the same.
    rules: VecDeque<RuleSample>,
}

/// The counts since the start.
#[derive(Clone, Copy, Debug)]
struct Totals {
    at: Instant,
    allowed: u64,
    over: u64,
    refused: u64,
}

#[derive(Debug)]
struct RuleSample {
    at: Instant,
    /// Weak, so that the page keeps no tables alive.
    rules: Weak<RuleSet>,
    counts: Vec<RuleCounts>,
}

/// The rates in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) allowed: f64,
    pub(crate) over: f64,
    /// Requests without a decision.
    pub(crate) refused: f64,
}

impl Rates {
    pub(crate) fn decisions(&self) -> f64 {
        self.allowed + self.over
    }

    /// The share of decisions that denied.
    pub(crate) fn share_over(&self) -> f64 {
        if self.over > 0.0 { self.over / self.decisions() } else { 0.0 }
    }
}

/// Hits of one rule in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RuleRates {
    pub(crate) hits: f64,
    pub(crate) over: f64,
}

impl History {
    /// Takes a sample of the current counts.
    pub(crate) fn take(&self, at: Instant, requests: &Requests, cache: &RuleCache) {
        let [allowed, over, refused] =
            [RequestOutcome::Allowed, RequestOutcome::OverLimit, RequestOutcome::Refused]
                .map(|one| requests.count(one));
        let rules = cache.rules();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        keep(&mut taken.totals, Totals { at, allowed, over, refused }, SECONDS + 1);
        let Some(rules) = rules else { return };
        let counts = rules.rules().iter().map(|rule| rule.counts()).collect();
        let of = RuleSample { at, rules: Arc::downgrade(&rules), counts };
        // After a load the rules, and so their numbers, are different.
        if taken.rules.back().is_some_and(|last| !last.rules.ptr_eq(&of.rules)) {
            taken.rules.clear();
        }
        keep(&mut taken.rules, of, PRESENT + 1);
    }

    /// Each second's rates, oldest first.
    pub(crate) fn seconds(&self) -> Vec<Rates> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let after = taken.totals.iter().skip(1);
        taken.totals.iter().zip(after).map(|(before, after)| between(before, after)).collect()
    }

    /// The average rates of the last seconds.
    pub(crate) fn now(&self) -> Rates {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let first = taken.totals.get(taken.totals.len().saturating_sub(PRESENT + 1));
        let (Some(first), Some(last)) = (first, taken.totals.back()) else {
            return Rates::default();
        };
        between(first, last)
    }

    /// The rates of each rule, in the order of the rules; empty if no two samples of these rules exist.
    pub(crate) fn of_rules(&self, rules: &Arc<RuleSet>) -> Vec<RuleRates> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(first), Some(last)) = (taken.rules.front(), taken.rules.back()) else {
            return Vec::new();
        };
        if !last.rules.ptr_eq(&Arc::downgrade(rules)) {
            return Vec::new();
        }
        let seconds = seconds_between(first.at, last.at);
        let pairs = first.counts.iter().zip(&last.counts);
        pairs
            .map(|(first, last)| RuleRates {
                hits: per_second(first.total(), last.total(), seconds),
                over: per_second(first.over_limit, last.over_limit, seconds),
            })
            .collect()
    }
}

fn keep<T>(all: &mut VecDeque<T>, one: T, most: usize) {
    all.push_back(one);
    while all.len() > most {
        all.pop_front();
    }
}

fn between(before: &Totals, after: &Totals) -> Rates {
    let seconds = seconds_between(before.at, after.at);
    Rates {
        allowed: per_second(before.allowed, after.allowed, seconds),
        over: per_second(before.over, after.over, seconds),
        refused: per_second(before.refused, after.refused, seconds),
    }
}

fn seconds_between(before: Instant, after: Instant) -> f64 {
    after.saturating_duration_since(before).as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "a rate, to be shown")]
fn per_second(before: u64, after: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { after.saturating_sub(before) as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::ManualClock;
    use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleText, Settings};

    use super::*;
    use crate::metrics::Protocol;

    fn answered(requests: &Requests, outcome: RequestOutcome, times: u32) {
        (0..times).for_each(|_| requests.answered(Protocol::Grpc, outcome, Duration::ZERO));
    }

    #[test]
    fn rates_are_counts_over_time_and_the_past_is_bounded() {
        let cache = RuleCache::with_clock(Settings::default(), ManualClock::new());
        let (history, requests) = (History::default(), Requests::default());
        let begin = Instant::now();
        assert_eq!((history.seconds(), history.now()), (Vec::new(), Rates::default()));
        for second in 0..300 {
            history.take(begin + Duration::from_secs(second), &requests, &cache);
            answered(&requests, RequestOutcome::Allowed, 3);
            answered(&requests, RequestOutcome::OverLimit, 1);
        }
        let steady = Rates { allowed: 3.0, over: 1.0, refused: 0.0 };
        assert_eq!(history.seconds(), vec![steady; SECONDS]);
        assert_eq!((history.now(), history.now().share_over()), (steady, 0.25));
        // Half a second later: the rate is twice as high.
        history.take(begin + Duration::from_millis(299_500), &requests, &cache);
        assert_eq!(history.seconds().last().map(|rates| rates.allowed), Some(6.0));
    }

    #[test]
    fn rates_of_rules_begin_anew_with_a_load() {
        let cache = Arc::new(RuleCache::with_clock(Settings::default(), ManualClock::new()));
        let load = |key: &str| {
            let text = format!(
                "domain: d\ndescriptors:\n  - {{key: {key}, rate_limit: {{unit: hour, requests_per_unit: 3}}}}\n"
            );
            cache.load(&[RuleText::new("d.yaml", text)]).expect("good rules")
        };
        let rules = load("a");
        let maker = DecisionMaker::new(Arc::clone(&cache)).expect("small tables");
        let (history, requests) = (History::default(), Requests::default());
        let begin = Instant::now();
        history.take(begin, &requests, &cache);
        for _ in 0..4 {
            let descriptors = [Descriptor::new(&[("a", "x")])];
            assert!(maker.check(&Request::new("d", &descriptors)).is_ok());
        }
        history.take(begin + Duration::from_secs(2), &requests, &cache);
        assert_eq!(history.of_rules(&rules), [RuleRates { hits: 2.0, over: 0.5 }]);
        let others = load("b");
        assert_eq!(history.of_rules(&others), []);
        history.take(begin + Duration::from_secs(3), &requests, &cache);
        assert_eq!(history.of_rules(&others), [RuleRates::default()]);
        assert_eq!(history.of_rules(&rules), []);
    }

    #[test]
    fn the_present_is_the_last_five_seconds_of_all_and_of_each_rule() {
        let cache = Arc::new(RuleCache::with_clock(Settings::default(), ManualClock::new()));
        let text = "domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: hour, requests_per_unit: 99}}\n";
        let rules = cache.load(&[RuleText::new("d.yaml", text)]).expect("good rules");
        let maker = DecisionMaker::new(Arc::clone(&cache)).expect("small tables");
        let (history, requests) = (History::default(), Requests::default());
        let begin = Instant::now();
        let mut told = Vec::new();
        for second in 0..8 {
            history.take(begin + Duration::from_secs(second), &requests, &cache);
            told.push((history.now().allowed, history.of_rules(&rules)[0].hits));
            // Ten in the second second, and none in any other.
            if second == 1 {
                answered(&requests, RequestOutcome::Allowed, 10);
                let descriptors = [Descriptor { hits: Some(10), ..Descriptor::new(&[("a", "x")]) }];
                assert!(maker.check(&Request::new("d", &descriptors)).is_ok());
            }
        }
        let expected = [0.0, 0.0, 5.0, 10.0 / 3.0, 2.5, 2.0, 2.0, 0.0];
        assert_eq!(told, expected.map(|rate| (rate, rate)));
    }

    #[test]
    fn of_no_decisions_no_share_is_refused() {
        assert_eq!(Rates::default().share_over().to_bits(), 0.0_f64.to_bits());
    }
}
