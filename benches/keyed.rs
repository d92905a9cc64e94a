//! Measures checks in tables of 1 k, 1 M and 10 M keys, with each type of key, one at a time and many at once.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod common;

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use common::{KeyStream, criterion, filled, on_threads};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::Quota;

fn of_type<K: Hash + Sync>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    keys: u64,
    key: impl Fn(u64) -> K,
) {
    let rate = 1_000_000_000 / keys;
    // The warm-up begins the same stream again and again, so the stream's first keys ask many times within a moment.
    let quota = Quota::per_second(rate).burst((rate / 10).max(100));
    let table = filled(quota, keys, &key);
    let streams = [0, 1].map(|seed| KeyStream::uniform(keys, seed).map(&key));
    for threads in [1, 2] {
        on_threads(group, name, threads, |thread, nth| {
            table.check(streams[thread].at(nth)).is_allowed()
        });
    }
    group.throughput(Throughput::Elements(32));
    let mut batches = streams[0].all().chunks_exact(32).cycle();
    group.bench_function(format!("{name}/check_many of 32"), |bencher| {
        bencher.iter(|| {
            let mut admitted = 0;
            let batch = batches.next().expect("a batch");
            table.check_many(batch, 1, |_, decision| admitted += u32::from(decision.is_allowed()));
            assert_eq!(admitted, 32);
        });
    });
}

fn tables(criterion: &mut Criterion) {
    for (name, keys) in [("1 k", 1_000), ("1 M", 1_000_000), ("10 M", 10_000_000)] {
        let mut group = criterion.benchmark_group(format!("keyed/{name}"));
        of_type(&mut group, "u64", keys, |number| number);
        of_type(&mut group, "IpAddr", keys, |number| {
            IpAddr::from(Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(number)))
        });
        if keys < 10_000_000 {
            of_type(&mut group, "String", keys, |number| format!("user:{number:08}"));
        }
        group.finish();
    }
}

criterion_group! { name = benches; config = criterion(); targets = tables }
criterion_main!(benches);
