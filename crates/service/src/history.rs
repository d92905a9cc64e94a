//! The rates of decisions in the last quarter of an hour. A task samples the counters each second, whether or not a
//! page is open. Requests take no part in the sampling.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::time::Instant;
use tollgate_rules::{RuleCache, RuleCounts, RuleSet};

use crate::metrics::{RequestOutcome, Requests};

/// The number of seconds in the plot.
pub(crate) const SECONDS: usize = 900;

/// The seconds between two samples that are kept for [`SECONDS`]: a column of the plot.
pub(crate) const COLUMN: usize = 5;

/// The number of seconds over which current rates are averaged: long enough to be read, short enough to be current.
const PRESENT: usize = 5;

/// The seconds between two kept samples of a rule. At this interval a rule takes 1 KB.
const RULE_COLUMN: usize = 15;

/// The samples. Only the page and its sampler take the lock: no request does.
#[derive(Debug, Default)]
pub(crate) struct History {
    taken: Mutex<Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    /// The number of samples taken so far.
    ticks: usize,
    totals: Series<Totals>,
    rules: RuleSamples,
}

/// The samples of one set of counters: each sample of the last seconds, and one for each column of the plot before
/// that.
#[derive(Debug)]
struct Series<T> {
    present: VecDeque<T>,
    past: VecDeque<T>,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self { present: VecDeque::new(), past: VecDeque::new() }
    }
}

impl<T: Clone> Series<T> {
    /// Adds the sample with the number `tick`. Every `column`-th sample is kept for [`SECONDS`].
    fn add(&mut self, tick: usize, column: usize, sample: T) {
        if tick.is_multiple_of(column) {
            keep(&mut self.past, sample.clone(), SECONDS / column + 1);
        }
        keep(&mut self.present, sample, PRESENT + 1);
    }

    fn present(&self) -> Option<(&T, &T)> {
        self.present.front().zip(self.present.back())
    }

    /// The oldest sample and the newest.
    fn whole(&self) -> Option<(&T, &T)> {
        self.past.front().zip(self.present.back())
    }

    fn all(&mut self) -> impl Iterator<Item = &mut T> {
        self.present.iter_mut().chain(&mut self.past)
    }
}

/// The counts since the start.
#[derive(Clone, Copy, Debug)]
struct Totals {
    at: Instant,
    allowed: u64,
    over: u64,
    refused: u64,
}

/// The counts of each rule, in the order of the rules in force.
#[derive(Debug, Default)]
struct RuleSamples {
    /// Weak, so that the samples keep no tables of replaced rules alive.
    of: Weak<RuleSet>,
    names: Vec<(Box<str>, Box<str>)>,
    samples: Series<RuleSample>,
}

#[derive(Clone, Debug)]
struct RuleSample {
    at: Instant,
    counts: Vec<Hits>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    total: u64,
    over: u64,
}

impl Hits {
    fn of(counts: &RuleCounts) -> Self {
        Self { total: counts.total(), over: counts.over_limit }
    }
}

/// The numbers of decisions per second.
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

    /// The share of denials among the decisions.
    pub(crate) fn share_over(&self) -> f64 {
        if self.over > 0.0 { self.over / self.decisions() } else { 0.0 }
    }
}

/// Hits of one rule: per second now, and in total over the time that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RuleRates {
    pub(crate) hits: f64,
    pub(crate) over: f64,
    pub(crate) past_hits: u64,
    pub(crate) past_over: u64,
}

impl History {
    /// Takes a sample of the current counts.
    pub(crate) fn take(&self, at: Instant, requests: &Requests, cache: &RuleCache) {
        let [allowed, over, refused] =
            [RequestOutcome::Allowed, RequestOutcome::OverLimit, RequestOutcome::Refused]
                .map(|one| requests.count(one));
        let rules = cache.rules();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let tick = taken.ticks;
        taken.ticks += 1;
        taken.totals.add(tick, COLUMN, Totals { at, allowed, over, refused });
        if let Some(rules) = rules {
            taken.rules.take(tick, at, &rules);
        }
    }

    /// The rates of each column, oldest first; the last one ends now.
    pub(crate) fn columns(&self) -> Vec<Rates> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let past = &taken.totals.past;
        let newest =
            taken.totals.present.back().filter(|_| !(taken.ticks - 1).is_multiple_of(COLUMN));
        let after = past.iter().skip(1).chain(newest);
        let mut columns: Vec<Rates> =
            past.iter().zip(after).map(|(before, after)| between(before, after)).collect();
        columns.drain(..columns.len().saturating_sub(SECONDS / COLUMN));
        columns
    }

    /// The average rates of the last seconds.
    pub(crate) fn now(&self) -> Rates {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.totals.present().map_or_else(Rates::default, |(first, last)| between(first, last))
    }

    /// The rates of each rule, in the order of the rules; empty if these rules have not been sampled yet.
    pub(crate) fn of_rules(&self, rules: &Arc<RuleSet>) -> Vec<RuleRates> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.rules.rates(rules)
    }
}

impl RuleSamples {
    fn take(&mut self, tick: usize, at: Instant, rules: &Arc<RuleSet>) {
        if !self.of.ptr_eq(&Arc::downgrade(rules)) {
            self.follow(rules);
        }
        let counts = rules.rules().iter().map(|rule| Hits::of(&rule.counts())).collect();
        self.samples.add(tick, RULE_COLUMN, RuleSample { at, counts });
    }

    /// Arranges the samples for newly loaded rules. A rule that was there before keeps its samples, because it keeps
    /// its counts. A new rule starts with zeros.
    fn follow(&mut self, rules: &Arc<RuleSet>) {
        let names = rules.rules().iter().map(|rule| (rule.domain().into(), rule.identity().into()));
        let names: Vec<(Box<str>, Box<str>)> = names.collect();
        let places: HashMap<&(Box<str>, Box<str>), usize> =
            self.names.iter().enumerate().map(|(place, name)| (name, place)).collect();
        let from: Vec<Option<usize>> = names.iter().map(|name| places.get(name).copied()).collect();
        for sample in self.samples.all() {
            let count = |place: &Option<usize>| sample.counts.get((*place)?).copied();
            sample.counts = from.iter().map(|place| count(place).unwrap_or_default()).collect();
        }
        (self.names, self.of) = (names, Arc::downgrade(rules));
    }

    fn rates(&self, rules: &Arc<RuleSet>) -> Vec<RuleRates> {
        let (Some((first, last)), Some((oldest, _))) =
            (self.samples.present(), self.samples.whole())
        else {
            return Vec::new();
        };
        if !self.of.ptr_eq(&Arc::downgrade(rules)) {
            return Vec::new();
        }
        let seconds = seconds_between(first.at, last.at);
        let rates = first.counts.iter().zip(&last.counts).zip(&oldest.counts);
        rates
            .map(|((first, last), oldest)| RuleRates {
                hits: per_second(first.total, last.total, seconds),
                over: per_second(first.over, last.over, seconds),
                past_hits: last.total.saturating_sub(oldest.total),
                past_over: last.over.saturating_sub(oldest.over),
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
    use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleSettings, RuleText};

    use super::*;
    use crate::metrics::Protocol;

    fn answered(requests: &Requests, outcome: RequestOutcome, times: u32) {
        (0..times).for_each(|_| requests.answered(Protocol::Grpc, outcome, Duration::ZERO));
    }

    fn cache_of(keys: &str) -> (Arc<RuleCache>, DecisionMaker) {
        let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
        load(&cache, keys);
        let maker = DecisionMaker::new(Arc::clone(&cache)).expect("small tables");
        (cache, maker)
    }

    /// Loads one rule for each letter of `keys`. Each rule admits three units per hour.
    fn load(cache: &RuleCache, keys: &str) -> Arc<RuleSet> {
        let mut text = "domain: d\ndescriptors:\n".to_owned();
        for key in keys.chars() {
            text +=
                &format!("  - {{key: {key}, rate_limit: {{unit: hour, requests_per_unit: 3}}}}\n");
        }
        cache.load(&[RuleText::new("d.yaml", text)]).expect("good rules")
    }

    fn ask(maker: &DecisionMaker, key: &str, times: usize) {
        for _ in 0..times {
            let entries = [(key, "x")];
            let descriptors = [Descriptor::new(&entries)];
            assert!(maker.check(&Request::new("d", &descriptors)).is_ok());
        }
    }

    #[test]
    fn rates_are_counts_over_time_and_the_past_is_bounded() {
        let cache = RuleCache::with_clock(RuleSettings::default(), ManualClock::new());
        let (history, requests) = (History::default(), Requests::default());
        let begin = Instant::now();
        assert_eq!((history.columns(), history.now()), (Vec::new(), Rates::default()));
        assert_eq!(history.now().share_over().to_bits(), 0.0_f64.to_bits(), "of no decisions");
        for second in 0..2_000 {
            history.take(begin + Duration::from_secs(second), &requests, &cache);
            answered(&requests, RequestOutcome::Allowed, 3);
            answered(&requests, RequestOutcome::OverLimit, 1);
        }
        let steady = Rates { allowed: 3.0, over: 1.0, refused: 0.0 };
        assert_eq!(history.columns(), vec![steady; SECONDS / COLUMN]);
        assert_eq!((history.now(), history.now().share_over()), (steady, 0.25));
        // No request comes between these two samples, so the column that has just begun has the rate 0.
        history.take(begin + Duration::from_millis(1_999_500), &requests, &cache);
        history.take(begin + Duration::from_secs(2_000), &requests, &cache);
        assert_eq!(history.columns().last().map(|rates| rates.allowed), Some(0.0));
    }

    #[test]
    fn what_was_refused_a_while_ago_is_told_for_a_quarter_of_an_hour() {
        let (cache, maker) = cache_of("a");
        let rules = cache.rules().expect("they were loaded");
        let (history, requests) = (History::default(), Requests::default());
        let begin = Instant::now();
        history.take(begin, &requests, &cache);
        ask(&maker, "a", 40);
        let mut told = Vec::new();
        for second in 1..1_000 {
            history.take(begin + Duration::from_secs(second), &requests, &cache);
            told.push(history.of_rules(&rules)[0]);
        }
        let at = |second: usize| (told[second - 1].over, told[second - 1].past_over);
        assert_eq!(at(1), (37.0, 37));
        assert_eq!([at(6), at(600), at(914)], [(0.0, 37); 3]);
        assert_eq!(at(915), (0.0, 0));
        assert_eq!(told[599].past_hits, 40);
    }

    #[test]
    fn a_rule_that_a_load_keeps_goes_on_with_its_past() {
        let (cache, maker) = cache_of("a");
        let (history, requests) = (History::default(), Requests::default());
        let begin = Instant::now();
        history.take(begin, &requests, &cache);
        ask(&maker, "a", 4);
        history.take(begin + Duration::from_secs(2), &requests, &cache);
        let before = cache.rules().expect("they were loaded");
        let four = RuleRates { hits: 2.0, over: 0.5, past_hits: 4, past_over: 1 };
        assert_eq!(history.of_rules(&before), [four]);
        let others = load(&cache, "ca");
        assert_eq!(history.of_rules(&others), []);
        ask(&maker, "c", 1);
        history.take(begin + Duration::from_secs(4), &requests, &cache);
        let one = RuleRates { hits: 0.25, over: 0.0, past_hits: 1, past_over: 0 };
        let four = RuleRates { hits: 1.0, over: 0.25, past_hits: 4, past_over: 1 };
        assert_eq!(history.of_rules(&others), [one, four]);
        assert_eq!(history.of_rules(&before), []);
    }

    #[test]
    fn the_present_is_the_last_five_seconds_of_all_and_of_each_rule() {
        let (cache, maker) = cache_of("a");
        let rules = cache.rules().expect("they were loaded");
        let (history, requests) = (History::default(), Requests::default());
        let begin = Instant::now();
        let mut told = Vec::new();
        for second in 0..8 {
            history.take(begin + Duration::from_secs(second), &requests, &cache);
            told.push((history.now().allowed, history.of_rules(&rules)[0].hits));
            // Ten requests come after the sample of second 1, and none at any other time.
            if second == 1 {
                answered(&requests, RequestOutcome::Allowed, 10);
                // The rule counts the hits of one request, and not the request.
                let descriptors = [Descriptor { hits: Some(10), ..Descriptor::new(&[("a", "x")]) }];
                assert!(maker.check(&Request::new("d", &descriptors)).is_ok());
            }
        }
        let expected = [0.0, 0.0, 5.0, 10.0 / 3.0, 2.5, 2.0, 2.0, 0.0];
        assert_eq!(told, expected.map(|rate| (rate, rate)));
    }
}
