//! Several limits at once under any of their policies: the limit that denies and the longest wait are those of the
//! models. The target `together_ops` follows what is left through changes of quota, moves and loans.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::time::Duration;

use common::policy;
use proptest::prelude::*;
use tollgate::{Claim, Decision, KeyedLimiter, Limiter, ManualClock, Timestamp, check_all};
use tollgate_model::{Plant, TimeFineness};
use tollgate_oracle::{BigUint, Oracle, Verdict};

fn limiter(text: &str) -> Limiter {
    Limiter::builder(policy(text)).clock(ManualClock::new()).build()
}

/// A wait of the model, cut to what a clock can hold.
fn duration(ns: &BigUint) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// One part of a request: a limit, and the cost in tenths of it.
type Part = (usize, u64);

/// Two limits for all keys and one for each key, with a model of each limit.
struct Machine {
    limiters: [Limiter; 2],
    table: KeyedLimiter<u64>,
    /// The models of the two limiters, then those of the keys.
    models: Vec<Oracle>,
    /// Set by the control: whether a denied request stays charged in the models that come before the one that denied
    /// it.
    keeps: bool,
}

const KEYS: usize = 3;

impl Machine {
    fn new(texts: [&str; 3]) -> Self {
        let unkeyed =
            |text| TimeFineness::unkeyed(policy(text)).model(policy(text), Plant::Nothing);
        // Under these policies a keyed word has ticks of 2^-12 units, or rounds starts to at most a 65,536th of a
        // window.
        let fineness = TimeFineness { tick: 12, quantum_ns: 100_000, end_quantum_ns: 1 };
        let per_key = fineness.model(policy(texts[2]), Plant::Nothing);
        let mut models = vec![unkeyed(texts[0]), unkeyed(texts[1])];
        models.extend(vec![per_key; KEYS]);
        let limiters = [limiter(texts[0]), limiter(texts[1])];
        Self {
            limiters,
            table: KeyedLimiter::builder(policy(texts[2]))
                .clock(ManualClock::new())
                .build(1_000)
                .unwrap(),
            models,
            keeps: false,
        }
    }

    /// The model that denies a request under all of them, and the wait; `None` if all admit it.
    fn expected(&mut self, parts: &[(usize, u64)], now_ns: u64) -> Option<(usize, Duration)> {
        let mut denied: Option<(usize, Duration)> = None;
        for (index, &(limit, cost)) in parts.iter().enumerate() {
            let model = &self.models[limit];
            let wait = match model.peek(now_ns, cost) {
                Verdict::Allowed => continue,
                Verdict::Denied => duration(&model.retry_after(now_ns, cost).unwrap()),
                Verdict::Never => Duration::MAX,
            };
            if denied.is_none_or(|(_, longest)| wait > longest) {
                denied = Some((index, wait));
            }
        }
        if denied.is_some() {
            return denied;
        }
        let before = self.models.clone();
        for (index, &(limit, cost)) in parts.iter().enumerate() {
            if self.models[limit].check(now_ns, cost) != Verdict::Allowed {
                let wait = self.models[limit].retry_after(now_ns, cost);
                if !self.keeps {
                    self.models = before;
                }
                return Some((index, duration(&wait.unwrap())));
            }
        }
        None
    }

    fn run(&mut self, parts: &[Part], now_ns: u64) -> Result<(), TestCaseError> {
        let now = Timestamp::from_nanos(now_ns);
        let parts: Vec<_> = parts
            .iter()
            .map(|&(limit, tenths)| (limit, tenths * self.models[limit].limit() / 10))
            .collect();
        let expected = self.expected(&parts, now_ns);
        let mut claims: Vec<Claim<'_>> = parts
            .iter()
            .map(|&(limit, cost)| match limit {
                0 | 1 => self.limiters[limit].entry().at(now).cost(cost),
                key => self.table.entry(&(key as u64)).at(now).cost(cost),
            })
            .collect();
        let answer = check_all(&mut claims);
        let told = match answer.decision() {
            Some(Decision::Denied(denial)) => {
                let wait = denial.retry_after().unwrap_or(Duration::MAX);
                answer.denied_by().map(|index| (index, wait))
            }
            _ => None,
        };
        prop_assert_eq!(told, expected, "{:?} at {}", parts, now_ns);
        prop_assert_eq!(answer.is_allowed(), expected.is_none());
        for (limit, model) in self.models.iter().enumerate() {
            let found = match limit {
                0 | 1 => self.limiters[limit].entry().at(now).peek(0),
                key => self.table.entry(&(key as u64)).at(now).peek(0),
            };
            let found = (found.remaining(), found.reset_after());
            let expected = (model.remaining(now_ns), duration(&model.reset_after(now_ns)));
            prop_assert_eq!(found, expected, "limit {} after {:?}", limit, parts);
        }
        Ok(())
    }
}

const POLICIES: [&str; 7] = [
    "gcra 10/m burst 10",
    "gcra 100/m burst 20",
    "fixed-window 10/m",
    "fixed-window 10/m from-first",
    "sliding-window 10/m exact",
    "sliding-window 10/m strict",
    "segmented-window 10/m x4",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// This holds whichever limit denies, even if a limit is named twice and only its second charge is denied.
    #[test]
    fn all_are_charged_or_none_is(
        texts in [0..POLICIES.len(), 0..POLICIES.len(), 0..POLICIES.len()],
        requests in prop::collection::vec(
            (0_u64..70_000, prop::collection::vec((0..2 + KEYS, 0_u64..12), 0..6)),
            1..60,
        ),
    ) {
        let mut machine = Machine::new(texts.map(|text| POLICIES[text]));
        let mut now_ms = 1_000_000_000;
        for (passed_ms, parts) in requests {
            // Most steps are short, so that earlier charges still count.
            now_ms += if passed_ms % 3 == 0 { passed_ms } else { passed_ms / 100 };
            machine.run(&parts, now_ms * 1_000_000)?;
        }
    }
}

#[test]
fn a_model_that_keeps_a_denied_charge_is_caught() {
    for text in POLICIES {
        let mut machine = Machine::new([text, text, text]);
        machine.keeps = true;
        let now_ns = 1_000_000_000_000_000;
        assert!(machine.run(&[(0, 4), (2, 4)], now_ns).is_ok());
        assert!(machine.run(&[(2, 4), (0, 4), (0, 4)], now_ns).is_err(), "{text}");
    }
}
