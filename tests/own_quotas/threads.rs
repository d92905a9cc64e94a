//! Keys with their own quotas, on real threads and with the real clock. Each admission is audited at the end.

use std::thread;

use tollgate::{ChangeError, Clock, KeyedLimiter};

use super::bound::Audit;
use super::quota;
use super::reference::{Rate, TICK, UNIT};

const THREADS: u64 = 4;
const REQUESTS: u64 = 60_000;
const KEYS: u64 = 4;

/// Rates from slow to fast. The fastest does not have the largest burst.
const RATES: [Rate; 5] = [
    Rate::new(400, 1, 60),
    Rate::new(2_000, 1, 10),
    Rate::new(5_000, 1, 40),
    Rate::new(10_000, 1, 20),
    Rate::new(20_000, 1, 30),
];

fn limiter(most: usize) -> KeyedLimiter<u64> {
    let like = [RATES[0], RATES[4]].map(Rate::quota);
    let builder = KeyedLimiter::builder(RATES[0].quota()).own_quotas(most, &like);
    builder.clock(Clock::monotonic()).build(100).unwrap()
}

/// Random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Runs four threads that ask for `key_of(key, rate)` under the rates. Returns the largest amount by which each key
/// exceeds its bound. Calls `beside` until the threads have ended.
fn excesses(
    limiter: &KeyedLimiter<u64>,
    key_of: impl Fn(u64, usize) -> u64 + Sync,
    mut beside: impl FnMut(),
) -> Vec<i128> {
    let key_of = &key_of;
    let work = |thread: u64| {
        let mut random = Random(thread + 1);
        let mut admitted = Vec::new();
        for _ in 0..REQUESTS {
            let (key, nth) = (random.below(KEYS), random.below(RATES.len() as u64));
            let nth = usize::try_from(nth).unwrap();
            let cost = 1 + random.below(3);
            let entry = match limiter.entry(&key_of(key, nth)).under(RATES[nth].quota()) {
                Ok(entry) => entry,
                // The other thread has brought so many quotas that no place is free now.
                Err(error) => {
                    assert!(
                        matches!(error, ChangeError::TooManyQuotas { .. } | ChangeError::Busy),
                        "{error}"
                    );
                    continue;
                }
            };
            let now = limiter.now();
            if entry.at(now).check_n(cost).is_allowed() {
                admitted.push((key, now.as_nanos(), cost));
            }
        }
        admitted
    };
    let admitted: Vec<_> = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || work(n))).collect();
        let over = scope.spawn(|| threads.into_iter().flat_map(|it| it.join().unwrap()).collect());
        while !over.is_finished() {
            beside();
        }
        over.join().unwrap()
    });
    (0..KEYS)
        .map(|key| {
            let mut audit = Audit::default();
            RATES.iter().for_each(|rate| audit.asked(*rate));
            for (_, at_ns, cost) in admitted.iter().filter(|admission| admission.0 == key) {
                let _ = audit.admit(*at_ns, *cost);
            }
            audit.excess()
        })
        .collect()
}

#[test]
fn the_bound_holds_while_threads_ask_under_different_quotas_and_quotas_come_and_go() {
    let limiter = limiter(4);
    let mut random = Random(99);
    let mut forgotten = 0;
    let excesses = excesses(
        &limiter,
        |key, _| key,
        || {
            let new = quota(400 + random.below(19_000), 1, 1 + random.below(60));
            // This thread never charges the keys of the other threads. It does charge other keys, which are soon idle
            // again.
            if let Ok(entry) = limiter.entry(&random.below(KEYS)).under(new) {
                let _ = entry.check_n(61);
                assert!(entry.peek(0).limit() <= 60);
            }
            if let Ok(entry) = limiter.entry(&(100 + random.below(9))).under(new) {
                let _ = entry.check();
            }
            forgotten += limiter.forget_quotas();
        },
    );
    assert!(forgotten > 0);
    assert!(excesses.iter().all(|&excess| excess <= TICK), "{excesses:?} of {UNIT}");
}

#[test]
fn a_key_that_is_counted_apart_in_each_quota_is_caught() {
    let limiter = limiter(8);
    let excesses = excesses(&limiter, |key, nth| 10 * key + nth as u64, || ());
    assert!(excesses.iter().all(|&excess| excess > UNIT), "{excesses:?}");
}
