//! Real threads, audited exactly: afterwards every admission is looked at, none is sampled.
//!
//! * *Interval bound.* In the order of their `now`, with P and S the units admitted before and after a
//!   request: the running minimum of `P - rate * now` over all requests so far, plus the burst, is an
//!   upper bound of `S - rate * now`. If it holds for every request, it holds for every interval.
//! * *Charge chain.* With no refill between them, the units left after each admission are all different
//!   and count down from the burst: two alike would be a lost charge, a gap a foreign one.
//!
//! `TOLLGATE_AUDIT=10000000000 cargo test --release --test audit` audits so many decisions.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::sync::Barrier;
use std::thread;

use common::policy;
use tollgate::{Decision, KeyedLimiter, Limiter, ManualClock, Timestamp};

const THREADS: u64 = 4;

/// Decisions of a round: what fits in memory and is sorted quickly.
const ROUND: u64 = 4_000_000;

/// One admission: who, when, and what was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Admission {
    key: u64,
    now_ns: u64,
    cost: u64,
    remaining: u64,
}

/// How many decisions to audit: a few by default, so that the test command stays quick.
fn decisions() -> u64 {
    let asked = std::env::var("TOLLGATE_AUDIT").ok();
    asked.map_or(1_000_000, |number| number.parse().expect("TOLLGATE_AUDIT is a number"))
}

/// Random numbers (SplitMix64), a stream per thread.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Lets four threads decide `count` requests in all and collects what was admitted. `request` gives the
/// key, time and cost of a thread's nth request.
fn run(
    count: u64,
    request: impl Fn(&mut Random, u64) -> (u64, u64, u64) + Sync,
    check: impl Fn(u64, u64, u64) -> Decision + Sync,
) -> Vec<Admission> {
    let barrier = Barrier::new(usize::try_from(THREADS).unwrap());
    let (request, check, barrier) = (&request, &check, &barrier);
    let work = move |thread: u64| {
        let mut random = Random(thread + 1);
        let mut admitted = Vec::new();
        barrier.wait();
        for n in 0..count / THREADS {
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

/// The most by which any interval of any key exceeds `burst + rate * length`, in units; the rate is
/// `count` per `period_ns`. Exact: everything is multiplied by the period.
fn excess(admissions: &mut [Admission], count: i128, period_ns: i128, burst: i128) -> i128 {
    admissions.sort_unstable();
    let mut worst = i128::MIN;
    for of_key in admissions.chunk_by(|a, b| a.key == b.key) {
        let (mut before, mut least) = (0, i128::MAX);
        for admission in of_key {
            let flow = i128::from(admission.now_ns) * count;
            least = least.min(before - flow);
            before += i128::from(admission.cost) * period_ns;
            worst = worst.max(before - flow - least - burst * period_ns);
        }
    }
    worst
}

/// Audits rounds of a policy until enough was decided; each round is checked whole.
fn audit_gcra(
    text: &str,
    fresh: impl Fn() -> Box<dyn Fn(u64, u64, u64) -> Decision + Sync>,
    request: impl Fn(&mut Random, u64) -> (u64, u64, u64) + Sync + Copy,
) {
    let quota = policy(text).quota();
    let period_ns = i128::try_from(quota.period().as_nanos()).unwrap();
    let (count, burst) = (i128::from(quota.count()), i128::from(quota.max_burst()));
    let (mut left, mut admitted) = (decisions(), 0);
    while left > 0 {
        let round = left.min(ROUND);
        left -= round;
        let mut admissions = run(round, request, fresh());
        admitted += admissions.len();
        // A tick is at most 2^-8 of a unit; nothing may come more than one tick early.
        let tick = period_ns / 256;
        let excess = excess(&mut admissions, count, period_ns, burst);
        assert!(excess <= tick, "{text}: {excess} of {period_ns} of a unit above the bound");
    }
    assert!(admitted > 0);
}

#[test]
fn one_key_never_exceeds_the_bound_in_any_interval() {
    // Threads at their own pace, up to 2 ms apart, sometimes 50 ms late.
    let request = |random: &mut Random, n: u64| {
        let late_ns = if random.below(100) == 0 { 50_000_000 } else { 0 };
        let now_ns = 1_000_000_000 + n * 1_000 + random.below(2_000_000);
        (7, now_ns.saturating_sub(late_ns), random.below(3) + 1)
    };
    let text = "gcra 100000/s burst 50";
    audit_gcra(
        text,
        || {
            let limiter = Limiter::with_clock(policy(text), ManualClock::new());
            Box::new(move |_, now_ns, cost| limiter.check_at(cost, Timestamp::from_nanos(now_ns)))
        },
        request,
    );
    audit_gcra(
        text,
        || {
            let table = KeyedLimiter::with_clock(policy(text), 10, ManualClock::new()).unwrap();
            Box::new(move |key, now_ns, cost| {
                table.check_at(&key, cost, Timestamp::from_nanos(now_ns))
            })
        },
        request,
    );
}

#[test]
fn many_keys_never_exceed_the_bound_in_any_interval() {
    let text = "gcra 100/s burst 5";
    audit_gcra(
        text,
        || {
            let table = KeyedLimiter::with_clock(policy(text), 10_000, ManualClock::new()).unwrap();
            Box::new(move |key, now_ns, cost| {
                table.check_at(&key, cost, Timestamp::from_nanos(now_ns))
            })
        },
        |random, n| (random.below(5_000), n * 3_000 + random.below(1_000_000), 1),
    );
}

#[test]
fn a_storm_of_reclaims_never_exceeds_the_bound_in_any_interval() {
    // Far more keys than cells, debts of milliseconds, and leaps of whole epochs: words are reclaimed
    // and floors advance all the time.
    let text = "gcra 1000/s burst 2";
    audit_gcra(
        text,
        || {
            let table = KeyedLimiter::with_clock(policy(text), 100, ManualClock::new()).unwrap();
            Box::new(move |key, now_ns, cost| {
                table.check_at(&key, cost, Timestamp::from_nanos(now_ns))
            })
        },
        |random, n| {
            let leap_ns = n / 50_000 * 100_000_000_000;
            (
                random.below(1_000),
                leap_ns + n * 20_000 + random.below(3_000_000),
                random.below(2) + 1,
            )
        },
    );
}

/// Runs threads against one fresh limit at one instant, and checks that what was left after each
/// admission makes one chain from the limit down.
fn audit_chain(text: &str, limit: u64, check: &(dyn Fn(u64, u64) -> Decision + Sync)) {
    let request = |random: &mut Random, _| (0, 0, random.below(3) + 1);
    let mut chain = run(limit, request, |_, _, cost| check(0, cost));
    chain.sort_unstable_by_key(|admission| std::cmp::Reverse(admission.remaining));
    let mut left = limit;
    for admission in &chain {
        assert_eq!(
            admission.remaining + admission.cost,
            left,
            "{text}: a charge was lost or doubled"
        );
        left = admission.remaining;
    }
    assert!(left < 3, "{text}: {left} left, and some were denied");
}

#[test]
fn charges_form_one_chain() {
    for limit in [1_000, 60_000] {
        for kind in ["gcra", "fixed-window", "sliding-window", "segmented-window"] {
            let option = if kind == "segmented-window" { " x2" } else { "" };
            let text = format!("{kind} {limit}/d{option}");
            for _ in 0..20 {
                let limiter = Limiter::with_clock(policy(&text), ManualClock::new());
                audit_chain(&text, limit, &|_, cost| limiter.check(cost));
                let Ok(table) = KeyedLimiter::with_clock(policy(&text), 10, ManualClock::new())
                else {
                    continue; // two counters of 16 bits leave no tag
                };
                audit_chain(&text, limit, &|key, cost| table.check(&key, cost));
            }
        }
    }
}

/// A limiter as it is often written, with its two halves apart: reads, thinks, writes.
struct Torn(std::sync::atomic::AtomicU64);

impl Torn {
    fn check(&self, now_ns: u64) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        let tat = self.0.load(Relaxed).max(now_ns);
        let admitted = tat + 1_000 - now_ns <= 50_000;
        if admitted {
            thread::yield_now();
            self.0.store(tat + 1_000, Relaxed);
        }
        admitted
    }
}

#[test]
fn a_limiter_that_loses_charges_is_caught() {
    let torn = Torn(std::sync::atomic::AtomicU64::new(0));
    let limiter = Limiter::with_clock(policy("gcra 1/h"), ManualClock::new());
    let allowed = limiter.peek(1);
    assert!(limiter.check(1).is_allowed());
    let denied = limiter.peek(1);
    let request = |random: &mut Random, n: u64| (0, n * 100 + random.below(1_000), 1);
    let mut admissions =
        run(400_000, request, |_, now_ns, _| if torn.check(now_ns) { allowed } else { denied });
    // 1,000,000 per second with a burst of 50: period 1,000 ns for 1 unit.
    assert!(excess(&mut admissions, 1, 1_000, 50) > 0);
}
