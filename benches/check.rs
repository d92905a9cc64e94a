//! Measures one check on one thread: an admitted one, a denied one, one of a key in a table, and one of a new key. It
//! also measures a reading of the clock.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod common;

use std::cell::Cell;
use std::hint::black_box;

use common::{KeyStream, criterion};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use tollgate::{CoarseClock, KeyedLimiter, Limiter, Quota, StripedLimiter, Timestamp};

const PLENTY: Quota = Quota::per_second(1_000_000_000);
const SCARCE: Quota = Quota::per_hour(1);

fn direct(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check/direct");
    let limiter = Limiter::new(PLENTY);
    group.bench_function("allowed", |b| b.iter(|| assert!(limiter.check().is_allowed())));
    let mut now = limiter.now();
    group.bench_function("allowed, caller's now", |b| {
        b.iter(|| {
            now = now + std::time::Duration::from_nanos(2);
            assert!(black_box(&limiter).entry().at(now).check().is_allowed());
        });
    });
    let coarse = CoarseClock::new();
    let limiter = Limiter::builder(PLENTY).clock(coarse.clock()).build();
    group.bench_function("allowed, coarse clock", |b| {
        b.iter_batched(
            || coarse.tick(),
            |()| assert!(limiter.check().is_allowed()),
            BatchSize::NumIterations(1_000_000),
        );
    });
    let denied = Limiter::new(SCARCE);
    assert!(denied.check().is_allowed());
    group.bench_function("denied", |b| b.iter(|| assert!(!denied.check().is_allowed())));
    group.bench_function("denied, with its answers", |b| {
        b.iter(|| {
            let denial = denied.check().into_result().expect_err("denied");
            black_box((denial.retry_after(), denial.remaining(), denial.reset_after()))
        });
    });
    let striped = StripedLimiter::new(PLENTY).expect("stripes");
    group.bench_function("striped", |b| b.iter(|| assert!(striped.check().is_allowed())));
    let mut lease = Limiter::new(PLENTY);
    let mut lease = black_box(&mut lease).entry().lease(32).expect("units");
    group.bench_function("lease of 32", |b| {
        b.iter(|| assert!(black_box(&mut lease).check().is_ok()));
    });
    group.finish();
}

fn windows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check/direct, windows");
    for text in ["fixed-window", "sliding-window", "segmented-window"] {
        let segments = if text == "segmented-window" { " x2" } else { "" };
        let policy = format!("{text} 60000/s{segments}").parse::<tollgate::Policy>().expect("fits");
        let limiter = Limiter::new(policy);
        // Each iteration starts ten windows later. Its checks use up most of a window's limit.
        let second = Cell::new(0);
        let ask = || limiter.entry().at(Timestamp::from_secs(second.get())).check().is_allowed();
        group.bench_function(text, |b| {
            b.iter_batched(
                || second.set(second.get() + 10),
                |()| assert!(ask()),
                BatchSize::NumIterations(50_000),
            );
        });
    }
    group.finish();
}

fn keyed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check/keyed");
    let table =
        KeyedLimiter::new(Quota::per_second(1_000_000).burst(100_000), 1_000).expect("a table");
    let keys = KeyStream::uniform(1_000, 1);
    let mut nth = 0;
    let mut next = || {
        nth += 1;
        keys.at(nth)
    };
    group.bench_function("found, allowed", |b| {
        b.iter(|| assert!(table.check(next()).is_allowed()));
    });
    let denied = KeyedLimiter::new(SCARCE, 1_000).expect("a table");
    for key in 0..1_000_u64 {
        assert!(denied.check(&key).is_allowed());
    }
    group.bench_function("found, denied", |b| {
        b.iter(|| assert!(!denied.check(next()).is_allowed()));
    });
    // A key is idle after a microsecond of the caller's time, so new keys take over cells all the time.
    let brief =
        KeyedLimiter::new(Quota::per_second(1_000_000).burst(1), 1_000_000).expect("a table");
    let (mut key, mut admitted, mut now) = (0_u64, 0_u64, brief.now());
    group.bench_function("new", |b| {
        b.iter(|| {
            key += 1;
            now = now + std::time::Duration::from_micros(1);
            admitted += u64::from(brief.entry(&key).at(now).check().is_allowed());
        });
    });
    assert!(key - admitted <= key / 1_000, "{admitted} of {key} new keys were admitted");
    group.finish();
}

criterion_group! { name = benches; config = criterion(); targets = direct, windows, keyed }
criterion_main!(benches);
