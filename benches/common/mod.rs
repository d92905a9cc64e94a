//! What the benchmarks share: threads that start together, and keys in the order they come.
#![allow(dead_code, reason = "each benchmark uses its part")]

use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
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

/// A generator with a fixed start: the same keys in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below `end`. Marsaglia's xorshift: good enough to draw keys.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}

/// A million keys evenly drawn.
pub(crate) fn uniform(keys: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    (0..1 << 20).map(|_| random.below(keys)).collect()
}

/// A million keys by Zipf's law with exponent 1: the nth key comes 1/n as often as the first.
pub(crate) fn zipf(keys: u64, seed: u64) -> Vec<u64> {
    let mut sums = Vec::with_capacity(keys as usize);
    let mut sum = 0.0;
    for n in 1..=keys {
        sum += 1.0 / n as f64;
        sums.push(sum);
    }
    let mut random = Random::new(seed);
    let draw = |random: &mut Random| random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * sum;
    (0..1 << 20)
        .map(|_| {
            let drawn = draw(&mut random);
            sums.partition_point(|&sum| sum < drawn) as u64
        })
        .collect()
}
