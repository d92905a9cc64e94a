//! Sends the same requests to each place of one process.

use std::sync::Arc;

use tollgate::{KeyedLimiter, Limiter, ManualClock, SketchLimiter, SketchSize, StripedLimiter};
use tollgate_rules::{DecisionMaker, Descriptor, RuleCache, RuleSettings, RuleText};

use crate::common::{Scratch, admitted, line};
use crate::decided::{self, Answers, has_turn, policy};

/// A policy, and its text in a rule file, without the quota of six.
pub(crate) struct Row {
    pub(crate) policy: &'static str,
    rule: &'static str,
}

impl Row {
    pub(crate) const fn of(policy: &'static str, rule: &'static str) -> Self {
        Self { policy, rule }
    }
}

/// The answers of a place, and the answers of a `Limiter` to the same requests.
pub(crate) struct Asked {
    pub(crate) place: &'static str,
    pub(crate) answers: Answers,
    pub(crate) reference: Vec<bool>,
}

/// The times of the requests in seconds: rows of denials, pauses that are shorter and longer than a window, and a last
/// burst.
const TIMES: [u64; 32] = [
    0, 0, 0, 0, 5, 10, 10, 12, 20, 40, 40, 55, 59, 61, 62, 63, 70, 90, 118, 121, 122, 130, 200,
    200, 200, 200, 200, 200, 200, 200, 290, 299,
];

/// Returns the time in nanoseconds and the cost of each request.
fn requests() -> [(u64, u64); 32] {
    TIMES.map(|second| (second * 1_000_000_000, 1))
}

/// Asks at each of the times.
fn at_times(clock: &ManualClock, mut is_admitted: impl FnMut() -> bool) -> Vec<bool> {
    decided::at_times(&requests(), clock, |_| is_admitted())
}

fn refused(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(crate) fn reference(text: &str) -> Vec<bool> {
    decided::limiter(&requests(), &[text])
}

/// Returns the policy for places where nothing can wait.
pub(crate) fn without_queue(text: &str) -> &str {
    [" queue ", " wait "].iter().fold(text, |text, word| text.split(word).next().unwrap())
}

fn tiers(text: &str) -> Answers {
    let clock = ManualClock::new();
    let tiers = KeyedLimiter::builder(policy("gcra 1/m")).tier(policy(text));
    let limiter = tiers.clock(clock.clone()).build(100).map_err(refused)?;
    Ok(at_times(&clock, || has_turn(limiter.entry("a").tier(1).unwrap(), text, 1)))
}

/// Asks a limiter whose quota is set again, to the same value, between the requests.
fn changing(text: &str) -> Answers {
    let clock = ManualClock::new();
    let limiter =
        Limiter::builder(policy(text)).clock(clock.clone()).changing().build().map_err(refused)?;
    let mut asked = 0;
    Ok(at_times(&clock, || {
        asked += 1;
        if asked == TIMES.len() / 2 {
            limiter.set_quota(policy(text)).unwrap();
        }
        has_turn(limiter.entry(), text, 1)
    }))
}

/// Asks a limiter with one stripe, so that this stripe has the whole limit. Several stripes are compared in
/// `tests/striped.rs`.
fn striped(text: &str) -> Answers {
    let clock = ManualClock::new();
    let limiter = StripedLimiter::builder(policy(text)).stripes(1).clock(clock.clone()).build();
    let limiter = limiter.map_err(refused)?;
    Ok(at_times(&clock, || limiter.check().is_allowed()))
}

fn sketch(text: &str) -> Answers {
    let (clock, size) = (ManualClock::new(), SketchSize::new(2, 1_024).unwrap());
    let limiter = SketchLimiter::<str>::builder(policy(text)).clock(clock.clone()).build(size);
    let limiter = limiter.map_err(refused)?;
    Ok(at_times(&clock, || limiter.check("a").is_allowed()))
}

/// Asks a lease that takes its units one by one.
fn lease(text: &str) -> Answers {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(policy(text)).clock(clock.clone()).build();
    let mut lease = limiter.entry().lease(1).map_err(refused)?;
    Ok(at_times(&clock, || lease.check().is_ok()))
}

/// Asks a limiter that is saved and restored between the requests.
fn snapshot(text: &str) -> Answers {
    let clock = ManualClock::new();
    let mut limiter = Limiter::builder(policy(text)).clock(clock.clone()).build();
    let (mut asked, mut failure) = (0, None);
    let answers = at_times(&clock, || {
        asked += 1;
        if asked == TIMES.len() / 2 {
            let mut file = Vec::new();
            let saved = limiter.snapshot(&mut file).map_err(refused);
            let restored = saved.and_then(|_| {
                Limiter::builder(policy(text))
                    .clock(clock.clone())
                    .restore(&file[..])
                    .map_err(refused)
            });
            match restored {
                Ok(again) => limiter = again,
                Err(error) => failure = Some(error),
            }
        }
        has_turn(limiter.entry(), text, 1)
    });
    failure.map_or(Ok(answers), Err)
}

fn simulate(text: &str) -> Answers {
    let scratch = Scratch::new(&format!("features_simulate_{}", text.replace([' ', '/'], "_")));
    decided::simulate(&scratch, &requests(), text)
}

fn replay(text: &str) -> Answers {
    let scratch = Scratch::new(&format!("features_replay_{}", text.replace([' ', '/'], "_")));
    let clock = |second: u64| format!("10:{:02}:{:02} +0000", second / 60, second % 60);
    let lines = TIMES.map(|second| line("192.0.2.1", &clock(second)));
    decided::by_beginnings(1..=lines.len(), |upto| {
        scratch.file("access.log", lines[..upto].concat());
        let run = scratch.replay(&["access.log", "--policy", text, "--json"]);
        if run.code == Some(0) { Ok(admitted(&run.out)[0]) } else { Err(run.err) }
    })
}

fn rules(row: &Row) -> Answers {
    let clock = ManualClock::new();
    let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), clock.clone()));
    let maker = DecisionMaker::new(cache).map_err(refused)?;
    let text = format!(
        "domain: d\ndescriptors:\n  - key: user\n    rate_limit: {{{}, requests_per_unit: 6}}\n",
        row.rule
    );
    let errors = maker.cache().load(&[RuleText::new("rules.yaml", text)]).map(drop);
    errors.map_err(|errors| errors.iter().map(refused).collect::<Vec<_>>().join("; "))?;
    let entries = [("user", "alice")];
    let descriptors = [Descriptor::new(&entries)];
    let request = tollgate_rules::Request::new("d", &descriptors);
    Ok(at_times(&clock, || maker.check(&request).unwrap().is_allowed()))
}

/// Asks all places in one process.
pub(crate) fn at_one_place(row: &Row) -> Vec<Asked> {
    let text = row.policy;
    let places: [(&str, Answers); 12] = [
        ("`Limiter`", Ok(reference(text))),
        ("`KeyedLimiter`", decided::keyed(&requests(), &[text])),
        ("several tiers", tiers(text)),
        ("changing quota", changing(text)),
        ("stripes", striped(text)),
        ("sketch", sketch(text)),
        ("lease", lease(text)),
        ("snapshot", snapshot(text)),
        ("replay", replay(text)),
        ("simulate", simulate(text)),
        ("middleware", Ok(decided::middleware(&requests(), &[text]))),
        ("rules", rules(row)),
    ];
    let asked = |(place, answers)| Asked { place, answers, reference: reference(text) };
    places.map(asked).into()
}

/// The costs of requests at one instant, for places where the server's clock cannot be set.
pub(crate) const COSTS: [u64; 9] = [1, 1, 1, 1, 2, 1, 3, 1, 1];

pub(crate) fn at_one_instant(text: &str) -> Vec<bool> {
    let limiter = Limiter::builder(policy(text)).clock(ManualClock::new()).build();
    COSTS.map(|cost| has_turn(limiter.entry(), text, cost)).to_vec()
}
