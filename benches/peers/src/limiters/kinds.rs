//! Other kinds of limits: a single limit under each policy, a limit whose quota may change, logs, sketches, and a full
//! table.

use std::time::Duration;

use tollgate::{KeyedLimiter, Limiter, Policy, Quota, SketchLimiter, SketchSize};

use super::Boxed;
use super::policies::policy;
use crate::contender::{Contender, RunPace, counted, single};
use crate::stream;

/// The policies of workloads that admit everything. Each admits more units at once than a round asks for.
pub(crate) const ROOMY: [&str; 7] = [
    "gcra 1000000000/s burst 100000000",
    "gcra 1000000000/s burst 100000000 soft 5%",
    "gcra 100000000/s burst 100000000 count-denied",
    "gcra 100000000/s burst 100000000 penalty 10m after 3",
    "fixed-window 16000000/d",
    "fixed-window 16000000/h from-first",
    "sliding-window 16000000/d",
];

/// Each of these policies admits at least this number of units at once.
pub(crate) const ROOM: usize = 16_000_000;

/// The policies of workloads that deny everything.
pub(crate) const TIGHT: [&str; 8] = [
    "gcra 1/h",
    "gcra 1/h burst 20 soft 5%",
    "gcra 1/h count-denied 1h",
    "gcra 1/h penalty 10h after 3",
    "fixed-window 1/h",
    "fixed-window 1/h from-first",
    "sliding-window 1/h",
    "segmented-window 60/h x6",
];

/// One limit that is reset before each round.
struct Renewed {
    name: String,
    limiter: Limiter,
}

impl Contender<()> for Renewed {
    fn name(&self) -> &str {
        &self.name
    }

    fn decide(&self, requests: &[()], _: RunPace<'_>) -> u64 {
        requests.iter().map(|()| u64::from(self.limiter.check().is_allowed())).sum()
    }

    fn prepare(&self) {
        self.limiter.entry().reset();
    }
}

/// One limit that admits a whole round.
pub(crate) fn roomy(text: &str) -> Boxed<()> {
    Box::new(Renewed { name: text.to_owned(), limiter: Limiter::new(policy(text)) })
}

/// One limit that has no units left.
pub(crate) fn tight(text: &str) -> Boxed<()> {
    let limiter = Limiter::new(policy(text));
    single(text, move |()| limiter.check().is_allowed())
}

/// One limit whose quota can be changed.
pub(crate) fn live(text: &str) -> Boxed<()> {
    let limiter = Limiter::builder(policy(text)).changing().build().expect("a quota that fits");
    single("a quota that can change", move |()| limiter.check().is_allowed())
}

/// A sliding log for one limit, with no units left.
pub(crate) fn log() -> Boxed<()> {
    let limiter = Limiter::new(Policy::sliding_log(Quota::per_hour(20)).expect("a log"));
    single("sliding log of 20/h", move |()| limiter.check().is_allowed())
}

/// A sliding log for each key.
pub(crate) fn keyed_log(keys: u64) -> Boxed<u64> {
    let quota = Quota::per(10, Duration::from_millis(100));
    let limiter =
        KeyedLimiter::<u64>::new(Policy::sliding_log(quota).expect("a log"), keys as usize)
            .expect("a log for each key");
    single("sliding log of 10 in 100 ms", move |key: &u64| limiter.check(key).is_allowed())
}

/// A sketch that refuses one request in 100,000 wrongly when `keys` keys are live.
pub(crate) fn sketch(keys: u64) -> Boxed<u64> {
    let size = SketchSize::for_load(keys as usize, 100_000).expect("a size");
    let quota = Quota::per_second(100).burst(20);
    let limiter = SketchLimiter::<u64>::new(quota, size).expect("a sketch");
    single("sketch of gcra 100/s burst 20", move |key: &u64| limiter.check(key).is_allowed())
}

/// A table with room for a quarter of the keys. All keys stay live, so most are decided in its spill.
pub(crate) fn full(keys: u64) -> Boxed<u64> {
    let quota = Quota::per_hour(100);
    let limiter = KeyedLimiter::<u64>::new(quota, (keys / 4) as usize).expect("a table");
    for key in stream::all::<u64>(keys) {
        // A request is denied if other keys have used up the cells in the spill that it shares with them. This bench
        // does not measure that.
        let _ = limiter.check(&key);
    }
    assert!(limiter.stats().spilled > keys / 2, "most keys find no cell");
    counted("a table for a quarter of them", limiter, |limiter, key: &u64| {
        limiter.check(key).is_allowed()
    })
}
