//! Measures the memory per key, counted at the allocator. A flood of new keys must not increase it. The measured time
//! is that of building a table.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod common;

use allocation_counter::measure;
use common::criterion;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate::{KeyedLimiter, Quota};

fn tables(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memory/build");
    for keys in [1_000_000_usize, 10_000_000] {
        let build = || KeyedLimiter::<u64>::new(Quota::per_second(100), keys).expect("a table");
        let info = measure(|| drop(build()));
        println!(
            "{keys} keys: {} bytes at most, {:.2} per key, in {} allocations",
            info.bytes_max,
            info.bytes_max as f64 / keys as f64,
            info.count_total
        );
        assert!(info.bytes_max as usize <= keys * 17, "17 bytes per key, the spill among them");
        group.bench_with_input(BenchmarkId::from_parameter(keys), &keys, |b, _| b.iter(build));
    }
    group.finish();
}

fn flood(criterion: &mut Criterion) {
    let table =
        KeyedLimiter::new(Quota::per_second(1_000_000).burst(1), 1_000_000).expect("a table");
    let (mut key, mut admitted, mut now) = (0_u64, 0_u64, table.now());
    let mut group = criterion.benchmark_group("memory/flood");
    group.bench_function("a one-shot key", |b| {
        let info = measure(|| {
            b.iter(|| {
                key += 1;
                now = now + std::time::Duration::from_micros(1);
                admitted += u64::from(table.entry(&key).at(now).check().is_allowed());
            });
        });
        // Criterion itself allocates a list of samples, so a few bytes are allowed. A table that grew would take
        // megabytes.
        assert!(info.bytes_current < 1 << 20, "a flood allocates nothing");
    });
    assert!(key - admitted <= key / 1_000, "{admitted} of {key} new keys were admitted");
    println!("after {key} one-shot keys: {} bytes", table.stats().bytes);
    group.finish();
}

criterion_group! { name = benches; config = criterion(); targets = tables, flood }
criterion_main!(benches);
