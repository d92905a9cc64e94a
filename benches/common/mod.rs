//! Helpers of the benchmarks: threads that start together, and streams of keys.
#![allow(dead_code, reason = "each benchmark uses its part")]

pub(crate) mod cores;
pub(crate) mod machine;
pub(crate) mod threads;

use std::hash::Hash;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use rand::SeedableRng;
use rand::distr::{Distribution, Uniform};
use rand::rngs::SmallRng;
use rand_distr::Zipf;
use rayon::ThreadPool;
use tollgate::{KeyedLimiter, Quota};

/// The name of a row, such as `4 threads (oversubscribed)` on a machine that runs 2 at once.
pub(crate) fn label(threads: usize) -> String {
    let suffix = if threads > cores::cores() { " (oversubscribed)" } else { "" };
    format!("{threads} threads{suffix}")
}

/// The number of samples of each row.
const SAMPLES: usize = 12;

/// Runs are short, because the compared figures differ by more than a percent.
pub(crate) fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(SAMPLES)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_200))
        .configure_from_args()
}

pub(crate) fn pool(threads: usize) -> ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

/// Runs `decide(thread)` on every thread of a pool at once, and returns the time from the first start to the last end.
/// This time divided by the number of decisions of one thread is the time per decision, including waits for a core.
pub(crate) fn together(pool: &ThreadPool, decide: impl Fn(usize) + Sync) -> Duration {
    let barrier = Barrier::new(pool.current_num_threads());
    let times = pool.broadcast(|context| {
        barrier.wait();
        let start = Instant::now();
        decide(context.index());
        (start, Instant::now())
    });
    let first = times.iter().map(|(start, _)| *start).min();
    let last = times.iter().map(|(_, end)| *end).max();
    first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first)
}

/// Benchmarks a decision on `threads` threads. `decide(thread, nth)` says whether it went as expected. Returns what
/// [`contend`] returns.
pub(crate) fn on_threads(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    threads: usize,
    decide: impl Fn(usize, usize) -> bool + Sync,
) -> Option<f64> {
    let decide = &decide;
    contend(group, name, threads, |thread| move |nth| decide(thread, nth))
}

/// Like [`on_threads`], but each thread begins with its own state, which `begin` makes. Returns the nanoseconds per
/// decision of each thread, as the median of criterion's samples. Returns `None` if criterion took no samples, because
/// it ran with `--test` or with a filter that leaves this row out.
pub(crate) fn contend<D: FnMut(usize) -> bool>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    threads: usize,
    begin: impl Fn(usize) -> D + Sync,
) -> Option<f64> {
    let pool = pool(threads);
    let mut times = Vec::new();
    group.throughput(Throughput::Elements(threads as u64));
    group.bench_function(format!("{name}/{}", label(threads)), |bencher| {
        bencher.iter_custom(|decisions| {
            let elapsed = together(&pool, |thread| {
                let mut decide = begin(thread);
                for nth in 0..decisions as usize {
                    assert!(decide(nth), "a decision went otherwise than it should");
                }
            });
            times.push(elapsed.as_nanos() as f64 / decisions as f64);
            elapsed
        });
    });
    // Criterion makes at least one call to warm up before it takes its samples.
    let (warm_up, samples) = times.split_at_checked(times.len().checked_sub(SAMPLES)?)?;
    (!warm_up.is_empty()).then(|| median(samples.to_vec()))
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    f64::midpoint(figures[middle], figures[(figures.len() - 1) / 2])
}

/// Builds a table for `keys` keys and makes one request for each key.
pub(crate) fn filled<K: Hash>(quota: Quota, keys: u64, key: impl Fn(u64) -> K) -> KeyedLimiter<K> {
    let table = KeyedLimiter::new(quota, keys as usize).expect("a table");
    for number in 0..keys {
        assert!(table.check(&key(number)).is_allowed());
    }
    table
}

/// The length of a stream. It is a power of two, so that the stream repeats without a division.
const LENGTH: usize = 1 << 20;

/// A stream of about a million keys that repeats. It is the same in every run.
pub(crate) struct KeyStream<K>(Box<[K; LENGTH]>);

impl<K> KeyStream<K> {
    pub(crate) fn at(&self, nth: usize) -> &K {
        &self.0[nth % LENGTH]
    }

    /// The nth key of a thread when all threads share one stream. Each thread begins at a different place in the
    /// stream.
    pub(crate) fn shared(&self, thread: usize, threads: usize, nth: usize) -> &K {
        self.at(thread * (LENGTH / threads) + nth)
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
    /// A stream of one key.
    pub(crate) fn one(key: u64) -> Self {
        Self::of(std::iter::repeat(key))
    }

    /// Keys that are drawn evenly.
    pub(crate) fn uniform(keys: u64, seed: u64) -> Self {
        let range = Uniform::new(0, keys).expect("some keys");
        Self::of(range.sample_iter(SmallRng::seed_from_u64(seed)))
    }

    /// Keys that are drawn by Zipf's law with exponent 1: the nth key comes 1/n times as often as the first.
    pub(crate) fn zipf(keys: u64, seed: u64) -> Self {
        let law = Zipf::new(keys as f64, 1.0).expect("some keys");
        #[expect(clippy::cast_sign_loss, reason = "at least 1")]
        let key = |nth: f64| nth as u64 - 1;
        Self::of(law.sample_iter(SmallRng::seed_from_u64(seed)).map(key))
    }

    /// A stream of keys that are made from these numbers.
    pub(crate) fn map<K>(&self, key: impl Fn(u64) -> K) -> KeyStream<K> {
        KeyStream::of(self.0.iter().map(|&number| key(number)))
    }
}
