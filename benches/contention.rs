//! Many threads: on one limit, and on the keys of one table by Zipf's law and evenly.

#![allow(clippy::cast_possible_truncation, reason = "no count here comes near 2^32")]

mod common;

use common::{KeyStream, THREADS, criterion, on_threads};
use criterion::{Criterion, criterion_group, criterion_main};
use tollgate::{KeyedLimiter, Limiter, Quota, StripedLimiter};

const PLENTY: Quota = Quota::per_second(1_000_000_000);

fn one_limit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("contention/one limit");
    for threads in THREADS {
        let limiter = Limiter::new(PLENTY);
        on_threads(&mut group, "limiter", threads, |_, _| limiter.check().is_allowed());
        let limiter = StripedLimiter::new(PLENTY).expect("stripes");
        on_threads(&mut group, "striped", threads, |_, _| limiter.check().is_allowed());
        let denied = Limiter::new(Quota::per_hour(1));
        assert!(denied.check().is_allowed());
        on_threads(&mut group, "limiter, denied", threads, |_, _| !denied.check().is_allowed());
    }
    group.finish();
}

fn one_table(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("contention/keyed");
    const KEYS: u64 = 100_000;
    let seeds = [0, 1, 2, 3, 4, 5, 6, 7];
    for (name, streams) in [
        ("one key", seeds.map(|_| KeyStream::one(7))),
        ("Zipf", seeds.map(|seed| KeyStream::zipf(KEYS, seed))),
        ("uniform", seeds.map(|seed| KeyStream::uniform(KEYS, seed))),
    ] {
        for threads in THREADS {
            // A burst lasts a tenth of a second, even if every request is of one key.
            let quota = Quota::per_second(500_000_000).burst(50_000_000);
            let table = KeyedLimiter::new(quota, KEYS as usize).expect("a table");
            on_threads(&mut group, name, threads, |thread, nth| {
                table.check(streams[thread].at(nth)).is_allowed()
            });
        }
    }
    group.finish();
}

criterion_group! { name = benches; config = criterion(); targets = one_limit, one_table }
criterion_main!(benches);
