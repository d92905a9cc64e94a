//! What the benchmarks share: threads that start together, and keys in the order they come.
#![allow(dead_code, reason = "each benchmark uses its part")]

pub(crate) mod machine;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use rand::SeedableRng;
use rand::distr::{Distribution, Uniform};
use rand::rngs::SmallRng;
use rand_distr::Zipf;
use rayon::ThreadPool;

/// Thread counts that are measured. Where they exceed the machine's they are labelled.
pub(crate) const THREADS: [usize; 4] = [1, 2, 4, 8];

/// `4 threads (oversubscribed)` on a machine with 2.
pub(crate) fn label(threads: usize) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let suffix = if threads > cores { " (oversubscribed)" } else { "" };
    format!("{threads} threads{suffix}")
}

/// Short runs: what is compared here differs by more than a percent.
pub(crate) fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(12)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_200))
        .configure_from_args()
}

pub(crate) fn pool(threads: usize) -> ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

/// Runs `decide(thread, decisions)` on every thread of a pool at once. The time from the common start to
/// the last one's end: per decision, what each thread waits for one.
pub(crate) fn together(pool: &ThreadPool, decide: impl Fn(usize) + Sync) -> Duration {
    let barrier = Barrier::new(pool.current_num_threads());
    let times = pool.broadcast(|context| {
        barrier.wait();
        let start = Instant::now();
        decide(context.index());
        start.elapsed()
    });
    times.into_iter().max().unwrap_or_default()
}

/// Benchmarks a decision on so many threads. `decide(thread, nth)` says whether it went as expected.
pub(crate) fn on_threads(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    threads: usize,
    decide: impl Fn(usize, usize) -> bool + Sync,
) {
    let pool = pool(threads);
    group.throughput(Throughput::Elements(threads as u64));
    group.bench_function(format!("{name}/{}", label(threads)), |bencher| {
        bencher.iter_custom(|decisions| {
            together(&pool, |thread| {
                for nth in 0..decisions as usize {
                    assert!(decide(thread, nth), "a decision went otherwise than it should");
                }
            })
        });
    });
}

/// A power of two, so that a stream goes round without a division.
const LENGTH: usize = 1 << 20;

/// Keys in the order in which they come, over and over: a million, the same in every run.
pub(crate) struct KeyStream<K>(Box<[K; LENGTH]>);

impl<K> KeyStream<K> {
    pub(crate) fn at(&self, nth: usize) -> &K {
        &self.0[nth % LENGTH]
    }

    pub(crate) fn all(&self) -> &[K] {
        &*self.0
    }

    fn of(keys: impl Iterator<Item = K>) -> Self {
        let keys = keys.take(LENGTH).collect::<Box<[K]>>();
        Self(keys.try_into().ok().expect("as many as were taken"))
    }
}

impl KeyStream<u64> {
    /// Always the same key.
    pub(crate) fn one(key: u64) -> Self {
        Self::of(std::iter::repeat(key))
    }

    /// Keys drawn evenly.
    pub(crate) fn uniform(keys: u64, seed: u64) -> Self {
        let range = Uniform::new(0, keys).expect("some keys");
        Self::of(range.sample_iter(SmallRng::seed_from_u64(seed)))
    }

    /// By Zipf's law with exponent 1: the nth key comes 1/n as often as the first.
    pub(crate) fn zipf(keys: u64, seed: u64) -> Self {
        let law = Zipf::new(keys as f64, 1.0).expect("some keys");
        #[expect(clippy::cast_sign_loss, reason = "at least 1")]
        let key = |nth: f64| nth as u64 - 1;
        Self::of(law.sample_iter(SmallRng::seed_from_u64(seed)).map(key))
    }

    /// The keys that these numbers stand for.
    pub(crate) fn map<K>(&self, key: impl Fn(u64) -> K) -> KeyStream<K> {
        KeyStream::of(self.0.iter().map(|&number| key(number)))
    }
}
