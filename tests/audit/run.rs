//! Four threads, their requests, and their admissions.

use std::sync::Barrier;
use std::thread;

use tollgate::Decision;

const THREADS: u64 = 4;

/// The number of decisions in a round, small enough to fit in memory and be sorted quickly.
const ROUND: u64 = 4_000_000;

/// One admission, with its key, its time, its cost, and the units that were left after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Admission {
    pub(crate) key: u64,
    pub(crate) now_ns: u64,
    pub(crate) cost: u64,
    pub(crate) remaining: u64,
}

/// The number of decisions to audit. It is small by default, so that the tests stay quick.
fn decisions() -> u64 {
    let asked = std::env::var("TOLLGATE_AUDIT").ok();
    asked.map_or(400_000, |number| number.parse().expect("TOLLGATE_AUDIT is a number"))
}

/// Random numbers (SplitMix64), with a separate stream for each thread.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Lets four threads decide `count` requests altogether, and collects the admissions. `request` returns the key, time
/// and cost of a thread's nth request. After every `in_step` requests the threads wait for each other.
pub(crate) fn run(
    count: u64,
    in_step: u64,
    request: impl Fn(&mut Random, u64) -> (u64, u64, u64) + Sync,
    check: impl Fn(u64, u64, u64) -> Decision + Sync,
) -> Vec<Admission> {
    let barrier = Barrier::new(usize::try_from(THREADS).unwrap());
    let (request, check, barrier) = (&request, &check, &barrier);
    let work = move |thread: u64| {
        let mut random = Random(thread + 1);
        let mut admitted = Vec::new();
        for n in 0..count / THREADS {
            if n % in_step == 0 {
                barrier.wait();
            }
            let (key, now_ns, cost) = request(&mut random, n);
            let decision = check(key, now_ns, cost);
            if decision.is_allowed() {
                admitted.push(Admission { key, now_ns, cost, remaining: decision.remaining() });
            }
        }
        admitted
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Audits rounds until enough requests were decided. `round` takes its number of decisions, and returns its number of
/// admissions.
pub(crate) fn rounds(mut round: impl FnMut(u64) -> usize) {
    let (mut left, mut admitted) = (decisions(), 0);
    while left > 0 {
        let count = left.min(ROUND);
        left -= count;
        admitted += round(count);
    }
    assert!(admitted > 0);
}
