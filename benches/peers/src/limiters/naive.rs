//! Token buckets as users write them by hand: a float and an instant for each key, in a map behind a lock.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use dashmap::DashMap;

use super::Boxed;
use crate::contender::single;
use crate::drive::{Expect, PLENTY_PER_SECOND};

#[derive(Clone, Copy)]
struct NaiveRate {
    per_second: f64,
    burst: f64,
}

impl NaiveRate {
    fn of(keys: u64, expect: Expect) -> Self {
        let per_second = (PLENTY_PER_SECOND / keys) as f64;
        match expect {
            Expect::All => Self { per_second, burst: per_second / 10.0 },
            Expect::Nothing => Self { per_second: 1.0 / 3_600.0, burst: 1.0 },
        }
    }
}

struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn full(rate: NaiveRate) -> Self {
        Self { tokens: rate.burst, filled: Instant::now() }
    }

    fn take(&mut self, rate: NaiveRate) -> bool {
        let now = Instant::now();
        let passed = now.duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        self.filled = now;
        let enough = self.tokens >= 1.0;
        if enough {
            self.tokens -= 1.0;
        }
        enough
    }
}

pub(crate) fn mutex<K: Hash + Eq + Clone + Send + 'static>(keys: u64, expect: Expect) -> Boxed<K> {
    let rate = NaiveRate::of(keys, expect);
    let buckets = Mutex::new(HashMap::<K, Bucket>::new());
    single("Mutex<HashMap>", move |key: &K| {
        let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
        match buckets.get_mut(key) {
            Some(bucket) => bucket.take(rate),
            None => buckets.entry(key.clone()).or_insert_with(|| Bucket::full(rate)).take(rate),
        }
    })
}

pub(crate) fn dashmap<K: Hash + Eq + Clone + Send + Sync + 'static>(
    keys: u64,
    expect: Expect,
) -> Boxed<K> {
    let rate = NaiveRate::of(keys, expect);
    let buckets = DashMap::<K, Bucket>::new();
    single("DashMap", move |key: &K| {
        if let Some(mut bucket) = buckets.get_mut(key) {
            return bucket.take(rate);
        }
        buckets.entry(key.clone()).or_insert_with(|| Bucket::full(rate)).take(rate)
    })
}
