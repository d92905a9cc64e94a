//! Memory is allocated once, when a table is built, and never again.

use ahash::RandomState;
use allocation_counter::measure;
use tollgate::{
    KeyedLimiter, Limiter, ManualClock, Policy, Quota, SketchLimiter, SketchSize, Timestamp,
};

// With `huge-pages` a table's memory is a mapping, which the counting allocator does not see.
#[cfg(not(feature = "huge-pages"))]
#[test]
fn a_table_allocates_when_it_is_built() {
    let clock = ManualClock::new();
    let seeds = RandomState::with_seeds(1, 2, 3, 4);
    let mut table: Option<KeyedLimiter<u64>> = None;
    let allocations = measure(|| {
        let quota = Quota::per_second(100).burst(20);
        table = KeyedLimiter::builder(quota).clock(clock).hasher(seeds).build(1_000_000).ok();
    });
    let bytes = table.expect("the quota fits").stats().bytes;
    // The three allocations are the shards, the spill's cells, and the spill's marks.
    assert_eq!(allocations.count_total, 3);
    assert_eq!(allocations.bytes_total, bytes as u64);
}

#[test]
fn a_million_decisions_allocate_nothing() {
    let keyed =
        KeyedLimiter::builder(Quota::per_second(10)).clock(ManualClock::new()).build(10_000);
    let keyed = keyed.expect("the quota fits");
    let direct = Limiter::builder("sliding-window 10/s exact".parse::<Policy>().unwrap())
        .clock(ManualClock::new())
        .build();
    let mut admitted = 0_u64;
    let allocations = measure(|| {
        for n in 0..1_000_000_u64 {
            // These requests cause hits, installs, reclaims, full shards with decisions in the spill, denials, and
            // costs that never fit.
            let now = Timestamp::from_nanos(n * 20_000);
            let decision =
                keyed.entry(&(n.wrapping_mul(0x9e37_79b9) % 30_000)).at(now).check_n(n % 12);
            admitted += u64::from(decision.is_allowed());
            let denied = direct.entry().at(now).check().into_result().err();
            admitted += denied.map_or(0, |denial| denial.retry_after().map_or(0, |_| 1));
        }
    });
    assert!(admitted > 100_000);
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn a_sketch_allocates_once_and_its_decisions_nothing() {
    let mut sketch: Option<SketchLimiter<u64>> = None;
    let (clock, seeds) = (ManualClock::new(), RandomState::new());
    let size = SketchSize::new(4, 10_000).expect("a size");
    let built = measure(|| {
        sketch = SketchLimiter::builder(Quota::per_second(10))
            .clock(clock)
            .hasher(seeds)
            .build(size)
            .ok();
    });
    assert_eq!((built.count_total, built.bytes_total), (1, size.bytes() as u64));
    let sketch = sketch.expect("the policy fits");
    let mut admitted = 0_u64;
    let allocations = measure(|| {
        for n in 0..200_000_u64 {
            let (key, now) = (n % 30_000, Timestamp::from_nanos(n * 20_000));
            admitted += u64::from(sketch.entry(&key).at(now).check_n(n % 12).is_allowed());
            admitted += u64::from(sketch.entry(&key).at(now).is_live());
        }
    });
    assert!(admitted > 100_000);
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn the_counter_sees_an_allocation() {
    // This is a control: if the counter missed allocations, the tests above would always pass.
    let allocations = measure(|| drop(std::hint::black_box(vec![0_u8; 64])));
    assert_eq!(allocations.count_total, 1);
}
