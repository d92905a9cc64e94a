//! Latencies of single operations: histograms for checks of existing keys, on two threads, and for new keys while a
//! table fills. They are printed, since criterion reports only means.
//!
//! Each worst time includes interruptions by the machine; the p99.99 is the code's own.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod common;

use std::time::Instant;

use common::{KeyStream, criterion, pool};
use criterion::{Criterion, criterion_group, criterion_main};
use hdrhistogram::Histogram;
use tollgate::{KeyedLimiter, Quota};

const KEYS: u64 = 1_000_000;

fn table() -> KeyedLimiter<u64> {
    let quota = Quota::per_second(1_000).burst(100);
    KeyedLimiter::new(quota, KEYS as usize).expect("a table")
}

/// The nanoseconds of every single check. Each includes two readings of the clock.
fn timed(table: &KeyedLimiter<u64>, keys: impl Iterator<Item = u64>) -> Histogram<u64> {
    let mut times = Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("bounds");
    for key in keys {
        let start = Instant::now();
        let allowed = table.check(&key).is_allowed();
        times.saturating_record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        assert!(allowed, "{key}");
    }
    times
}

fn print(name: &str, times: &Histogram<u64>) {
    let at = |quantile| times.value_at_quantile(quantile);
    println!(
        "{name}: p50 {} ns, p99 {} ns, p99.9 {} ns, p99.99 {} ns, worst {} ns, of {}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        times.max(),
        times.len()
    );
}

fn histograms(criterion: &mut Criterion) {
    let filling = table();
    let new_keys = timed(&filling, 0..KEYS * 9 / 10);
    print("a new key, while a table fills to 90 %", &new_keys);
    let streams = [1, 2].map(|seed| KeyStream::uniform(KEYS * 9 / 10, seed));
    let threads = pool(2)
        .broadcast(|context| timed(&filling, streams[context.index()].all().iter().copied()));
    let mut checks = threads[0].clone();
    checks.add(&threads[1]).expect("equal bounds");
    print("a check of a key that is there, 2 threads", &checks);

    let mut group = criterion.benchmark_group("latency");
    let mut nth = 0;
    group.bench_function("what timing itself costs", |b| b.iter(|| Instant::now().elapsed()));
    group.bench_function("a check, timed", |b| {
        b.iter(|| {
            nth += 1;
            let start = Instant::now();
            assert!(filling.check(streams[0].at(nth)).is_allowed());
            start.elapsed()
        });
    });
    group.finish();
}

criterion_group! { name = benches; config = criterion(); targets = histograms }
criterion_main!(benches);
