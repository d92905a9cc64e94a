//! The contenders, and the size of each.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use allocation_counter::measure;
use clock_lib::ManualClock;
use rate_net::{Eviction, Overflow, RateLimiter};
use tollgate::{KeyedLimiter, Quota, SketchLimiter, SketchSize, Timestamp, WhenFull};

use crate::flood::{Check, Flood};

pub(crate) struct FloodContender {
    pub(crate) name: &'static str,
    /// The most bytes that the contender may take, if there is a limit. rate-net's own use is the limit of the others.
    pub(crate) budget: Option<u64>,
    /// True for a table of Tollgate, which must refuse no larger share of newcomers than rate-net.
    pub(crate) is_table: bool,
    pub(crate) build: Box<dyn Fn() -> Check>,
}

/// The time in which a unit comes back. No unit comes back in a flood, which is one instant.
const PERIOD: Duration = Duration::from_secs(60);

/// The time of all requests to Tollgate's limiters.
const NOW: Timestamp = Timestamp::from_secs(1_000_000);

/// The number of shards with which rate-net's authors published their figures.
const SHARDS: usize = 128;

type RateNet = RateLimiter<Arc<ManualClock>>;

fn rate_net(burst: u32, cap: usize, overflow: Overflow) -> (RateNet, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let limiter = RateLimiter::builder()
        .quota(1, PERIOD)
        .burst(burst)
        .shards(SHARDS)
        .eviction(Eviction::capacity(cap).with_overflow(overflow))
        .clock(Arc::clone(&clock))
        .try_build();
    (limiter.expect("a quota"), clock)
}

/// The memory that rate-net takes at one cap.
pub(crate) struct Budget {
    /// The bytes when it holds as many keys as it may, all of them idle.
    pub(crate) full: u64,
    /// The bytes when it also remembers the keys that it has evicted.
    pub(crate) flooded: u64,
}

impl Budget {
    pub(crate) fn of(cap: usize) -> Self {
        let full = bytes(|| {
            let (limiter, clock) = rate_net(1, cap, Overflow::FailClosed);
            for key in 0..4 * cap as u64 {
                // By now the unit of the previous key has come back, so rate-net forgets that key without a trace.
                clock.advance(PERIOD);
                let _ = black_box(limiter.check(key));
            }
            assert!(limiter.tracked_keys() >= cap * 95 / 100, "{} keys", limiter.tracked_keys());
            limiter
        });
        let flooded = bytes(|| {
            let (limiter, _) = rate_net(1, cap, Overflow::FailClosed);
            for key in 0..9 * cap as u64 {
                let _ = black_box(limiter.check(key));
            }
            limiter
        });
        Self { full, flooded }
    }
}

/// The bytes that stay allocated after `build`.
fn bytes<T>(build: impl Fn() -> T) -> u64 {
    let mut built = None;
    let info = measure(|| built = Some(build()));
    drop(black_box(built));
    u64::try_from(info.bytes_current).expect("it holds something")
}

/// The same seeds on every run.
fn seeds() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

fn quota(burst: u32) -> Quota {
    Quota::per(1, PERIOD).burst(u64::from(burst))
}

fn table(burst: u32, capacity: usize, full: WhenFull) -> KeyedLimiter<u64> {
    let table = KeyedLimiter::builder(quota(burst))
        .clock(tollgate::ManualClock::new())
        .hasher(seeds())
        .build(capacity);
    table.and_then(|table| table.when_full(full)).expect("a table")
}

fn sketch(burst: u32, cells_per_row: usize) -> SketchLimiter<u64> {
    let size = SketchSize::new(2, cells_per_row).expect("a size");
    SketchLimiter::builder(quota(burst))
        .clock(tollgate::ManualClock::new())
        .hasher(seeds())
        .build(size)
        .expect("a sketch")
}

/// The largest size at which the limiter takes no more than these bytes.
fn largest<T>(budget: u64, build: impl Fn(usize) -> T) -> usize {
    let fits = |size: usize| measure(|| drop(black_box(build(size)))).bytes_max <= budget;
    assert!(fits(1), "{budget} bytes are too few");
    // Each unit of size takes at least 8 bytes.
    let (mut most, mut too_large) = (1, budget as usize / 8 + 1);
    while too_large - most > 1 {
        let size = most.midpoint(too_large);
        if fits(size) { most = size } else { too_large = size }
    }
    most
}

/// All contenders: rate-net at this cap, and the others with as many bytes as rate-net takes.
pub(crate) fn contenders(flood: &Flood, cap: usize, budget: &Budget) -> Vec<FloodContender> {
    let burst = flood.burst;
    vec![
        peer("rate-net", burst, cap, Overflow::FailClosed),
        peer("rate-net, `Overflow::Forget`", burst, cap, Overflow::Forget),
        tollgate(
            "Tollgate, rate-net's bytes before the flood",
            budget.full,
            burst,
            WhenFull::Spill,
        ),
        tollgate("the same, `WhenFull::Deny`", budget.full, burst, WhenFull::Deny),
        tollgate_sketch("the same as a `SketchLimiter`, 2 rows", budget.full, burst),
        tollgate("Tollgate, rate-net's bytes in the flood", budget.flooded, burst, WhenFull::Spill),
    ]
}

fn peer(name: &'static str, burst: u32, cap: usize, overflow: Overflow) -> FloodContender {
    let build = move || -> Check {
        let (limiter, _) = rate_net(burst, cap, overflow);
        Box::new(move |key, cost| limiter.check_n(key, cost).is_allow())
    };
    FloodContender { name, budget: None, is_table: false, build: Box::new(build) }
}

fn tollgate(name: &'static str, bytes: u64, burst: u32, full: WhenFull) -> FloodContender {
    let build = move |capacity: usize| -> Check {
        let table = table(burst, capacity, full);
        Box::new(move |key, cost| table.entry(&key).at(NOW).check_n(u64::from(cost)).is_allowed())
    };
    FloodContender { is_table: true, ..at_equal_bytes(name, bytes, build) }
}

fn tollgate_sketch(name: &'static str, bytes: u64, burst: u32) -> FloodContender {
    let build = move |cells_per_row: usize| -> Check {
        let sketch = sketch(burst, cells_per_row);
        Box::new(move |key, cost| sketch.entry(&key).at(NOW).check_n(u64::from(cost)).is_allowed())
    };
    at_equal_bytes(name, bytes, build)
}

fn at_equal_bytes(
    name: &'static str,
    bytes: u64,
    build: impl Fn(usize) -> Check + 'static,
) -> FloodContender {
    let size = largest(bytes, &build);
    let build = Box::new(move || build(size));
    FloodContender { name, budget: Some(bytes), is_table: false, build }
}
