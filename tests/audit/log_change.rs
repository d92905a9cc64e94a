//! A sliding log whose count changes while threads make requests for several units each.

use std::collections::VecDeque;
use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate::{ChangeError, Changing, Limiter, ManualClock, Policy, Timestamp};

use crate::common::policy;
use crate::run::{Random, rounds};

/// The number of decisions of an audit for each change.
const DECISIONS_PER_CHANGE: u64 = 8;

/// The number of threads that make requests, besides the thread that changes the limit.
const ASKING: u64 = 2;

fn log(count: u64) -> Policy {
    policy(&format!("sliding-log {count}/10s"))
}

fn changing(count: u64) -> Changing<Limiter> {
    Limiter::builder(log(count)).clock(ManualClock::new()).changing().build().unwrap()
}

/// Rounds of requests, each at one instant. The fields are the state of the current round, its time, the number of
/// ended rounds (counted once for each thread), and the admitted units.
#[derive(Default)]
struct Rounds {
    /// 0 before the first round, 2n while round n runs, and 2n + 1 when it is over.
    turn: AtomicU64,
    now_ms: AtomicU64,
    ended: AtomicU64,
    admitted: AtomicU64,
}

/// Waits without sleeping, because during a sleep the other threads could end before this thread begins.
fn wait_until(is_so: impl Fn() -> bool) {
    for spins in 1_u64.. {
        if is_so() {
            return;
        }
        if spins.is_multiple_of(64) { thread::yield_now() } else { hint::spin_loop() }
    }
}

impl Rounds {
    const LAST: u64 = u64::MAX;

    /// Makes requests for several units as long as each round runs, and gives some of the units back.
    fn ask(&self, live: &Limiter, built: u64, seed: u64) {
        let mut random = Random::new(seed);
        for round in 1.. {
            wait_until(|| self.turn.load(Ordering::Acquire) >= 2 * round);
            if self.turn.load(Ordering::Acquire) == Self::LAST {
                return;
            }
            let now = Timestamp::from_millis(self.now_ms.load(Ordering::Relaxed));
            while self.turn.load(Ordering::Relaxed) == 2 * round {
                let cost = 1 + random.below(built / 3);
                let Ok(permit) = live.entry().at(now).check_n(cost).into_result() else { continue };
                self.admitted.fetch_add(permit.cost(), Ordering::Relaxed);
                if random.below(3) == 0 {
                    let back = live.entry().at(now).refund(permit);
                    self.admitted.fetch_sub(back, Ordering::Relaxed);
                }
            }
            self.ended.fetch_add(1, Ordering::Release);
        }
    }

    fn begin(&self, round: u64, now_ms: u64) {
        self.now_ms.store(now_ms, Ordering::Relaxed);
        self.turn.store(2 * round, Ordering::Release);
    }

    /// Ends a round, and returns the number of units that were admitted in it.
    fn end(&self, round: u64) -> u64 {
        self.turn.store(2 * round + 1, Ordering::Release);
        wait_until(|| self.ended.load(Ordering::Acquire) == ASKING * round);
        self.admitted.swap(0, Ordering::Relaxed)
    }
}

/// When no request is in flight, the units left are exactly the limit in force less the units admitted in the window
/// before.
#[test]
fn a_limit_that_changes_admits_by_the_limit_in_force_once_the_requests_in_flight_have_ended() {
    rounds(|decisions| {
        for built in [190, 17] {
            audit(built, decisions / DECISIONS_PER_CHANGE);
        }
        usize::try_from(decisions).unwrap()
    });
}

/// Changes a limit that was built with this count.
fn audit(built: u64, changes: u64) {
    let (live, rounds, mut random) = (changing(built), Rounds::default(), Random::new(built));
    let (mut changed, mut busy, mut wrong) = (0, 0, Vec::new());
    // The times and the units of admissions, oldest first.
    let mut admitted = VecDeque::new();
    thread::scope(|scope| {
        for seed in 0..ASKING {
            let (rounds, live) = (&rounds, &live);
            scope.spawn(move || rounds.ask(live, built, seed));
        }
        let (mut now_ms, mut limit) = (6_000_000, built);
        for round in 1.. {
            now_ms += random.below(6_000);
            admitted.retain(|&(ms, _): &(u64, u64)| ms + 10_000 > now_ms);
            let before: u64 = admitted.iter().map(|&(_, units)| units).sum();
            let mut largest = limit;
            rounds.begin(round, now_ms);
            for _ in 0..1 + random.below(3) {
                (0..random.below(200)).for_each(|_| hint::spin_loop());
                let count = 1 + random.below(built);
                match live.set_quota(log(count)) {
                    Ok(()) => limit = count,
                    Err(error) => {
                        assert_eq!(error, ChangeError::Busy);
                        busy += 1;
                    }
                }
                largest = largest.max(limit);
                changed += 1;
            }
            admitted.push_back((now_ms, rounds.end(round)));
            assert_eq!(live.policy(), log(limit));
            let units: u64 = admitted.iter().map(|&(_, units)| units).sum();
            let left = live.entry().at(Timestamp::from_millis(now_ms)).peek(0).remaining();
            if left != limit.saturating_sub(units) || units > before.max(largest) {
                wrong.push((round, before, units, largest, limit, left));
            }
            if changed >= changes {
                rounds.turn.store(Rounds::LAST, Ordering::Release);
                break;
            }
        }
    });
    println!("{built}: {changes} changes, {busy} of them refused");
    // Most changes succeed, because a request for several units is in flight only for a moment.
    assert!(busy < changes / 4, "{busy} of {changes} changes of {built} were refused");
    assert!(
        wrong.is_empty(),
        "{} times in {changes} changes of {built}; round, units before and after, largest limit and limit in force, \
         left: {:?}",
        wrong.len(),
        &wrong[..wrong.len().min(9)]
    );
}
