//! GCRA: the bound holds in every interval, in the callers' own times.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use tollgate::{Decision, KeyedLimiter, Limiter, ManualClock, StripedLimiter, Timestamp, WhenFull};

use crate::bound::excess;
use crate::common::policy;
use crate::limits::{direct, keyed};
use crate::run::{Random, rounds, run};

/// Audits rounds under a policy until enough requests were decided. Each round is checked completely. A limit that is
/// kept in `words` words may admit up to `words` ticks early.
pub(crate) fn audit_gcra<C: Fn(u64, u64, u64) -> Decision + Sync>(
    text: &str,
    words: i128,
    fresh: impl Fn() -> C,
    request: impl Fn(&mut Random, u64) -> (u64, u64, u64) + Sync + Copy,
) {
    let quota = policy(text).quota();
    let period_ns = i128::try_from(quota.period().as_nanos()).unwrap();
    let (count, burst) = (i128::from(quota.count()), i128::from(quota.max_burst()));
    rounds(|decisions| {
        let mut admissions = run(decisions, u64::MAX, request, fresh());
        // A tick is at most 2^-8 of a unit in its word, and each word may admit at most one tick early.
        let ticks = words * period_ns / 256;
        let excess = excess(&mut admissions, count, period_ns, burst);
        assert!(excess <= ticks, "{text}: {excess} of {period_ns} of a unit above the bound");
        admissions.len()
    });
}

#[test]
fn one_key_never_exceeds_the_bound_in_any_interval() {
    // Each thread advances at its own pace. Times are up to 2 ms apart, and sometimes 50 ms late.
    let request = |random: &mut Random, n: u64| {
        let late_ns = if random.below(100) == 0 { 50_000_000 } else { 0 };
        let now_ns = 1_000_000_000 + n * 1_000 + random.below(2_000_000);
        (7, now_ns.saturating_sub(late_ns), random.below(3) + 1)
    };
    let text = "gcra 100000/s burst 50";
    audit_gcra(text, 1, || direct(text), request);
    audit_gcra(text, 1, || keyed(text, 10), request);
}

#[test]
fn stripes_never_exceed_the_bound_in_any_interval() {
    // Two threads use four stripes. Each thread takes units from other stripes when its own is empty.
    let text = "gcra 100000/s burst 50";
    audit_gcra(
        text,
        4,
        || {
            let clock = ManualClock::new();
            let limiter = StripedLimiter::builder(policy(text).quota())
                .stripes(4)
                .clock(clock)
                .build()
                .unwrap();
            move |_: u64, now_ns: u64, cost: u64| {
                limiter.entry().at(Timestamp::from_nanos(now_ns)).check_n(cost)
            }
        },
        |random, n| (7, 1_000_000_000 + n * 1_000 + random.below(2_000_000), random.below(3) + 1),
    );
}

#[test]
fn many_keys_never_exceed_the_bound_in_any_interval() {
    let text = "gcra 100/s burst 5";
    audit_gcra(
        text,
        1,
        || keyed(text, 10_000),
        |random, n| (random.below(5_000), n * 3_000 + random.below(1_000_000), 1),
    );
}

#[test]
fn a_storm_of_reclaims_never_exceeds_the_bound_in_any_interval() {
    // There are far more keys than cells, debts last for milliseconds, and times leap by whole epochs. So words are
    // reclaimed and floors advance all the time.
    let text = "gcra 1000/s burst 2";
    audit_gcra(
        text,
        1,
        || {
            let table =
                KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(100).unwrap();
            // The four threads together ask for more than a burst at once, and then a spill does not keep the bound:
            // see `spill`.
            let table = table.when_full(WhenFull::Deny).unwrap();
            move |key: u64, now_ns: u64, cost: u64| {
                table.entry(&key).at(Timestamp::from_nanos(now_ns)).check_n(cost)
            }
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

/// A limiter with a common mistake: it has a load and a store where a compare-and-swap is needed.
struct Torn(AtomicU64);

impl Torn {
    fn check(&self, now_ns: u64) -> bool {
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
    let limiter = Limiter::builder(policy("gcra 1/h")).clock(ManualClock::new()).build();
    let (allowed, denied) = (|| limiter.entry().peek(1), || limiter.entry().peek(2));
    let request = |random: &mut Random, n: u64| (0, n * 100 + random.below(1_000), 1);
    // 1,000,000 units per second with a burst of 50, which is one unit per 1,000 ns. The limiter loses a unit only if
    // two threads meet in it, which is rare on a busy machine.
    let is_caught = |_| {
        let torn = Torn(AtomicU64::new(0));
        let check = |_, now_ns, _| if torn.check(now_ns) { allowed() } else { denied() };
        excess(&mut run(400_000, u64::MAX, request, check), 1, 1_000, 50) > 0
    };
    assert!((0..50).any(is_caught));
}
