//! Leases: four threads spend units that they took in advance. Any interval admits at most the sum of the burst,
//! the units that the rate gives, and the units that were in leases when the interval began.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota};

use crate::bound::excess;
use crate::run::{Admission, Random, rounds};

const THREADS: u64 = 4;
const BATCH: u64 = 8;

/// One thread's spending. All threads read and advance one clock, so a lease is never taken later than the recorded
/// time of its spending.
fn work(limiter: &Limiter, clock: &ManualClock, thread: u64, requests: u64) -> Vec<Admission> {
    let (mut random, mut admitted) = (Random::new(thread + 1), Vec::new());
    let mut lease = None;
    for _ in 0..requests {
        let cost = random.below(3) + 1;
        let own = lease.take_if(|_| random.below(50) == 0);
        drop(own); // gives back what is left
        if lease.is_none() {
            lease = limiter.entry().lease(BATCH).ok();
        }
        let is_admitted = lease.as_mut().is_some_and(|lease| lease.check_n(cost).is_ok());
        clock.advance(Duration::from_nanos(random.below(2_000)));
        if is_admitted {
            let now_ns = limiter.now().as_nanos();
            admitted.push(Admission { key: 0, now_ns, cost, remaining: 0 });
        }
    }
    admitted
}

#[test]
fn what_is_spent_of_leases_never_exceeds_the_bound_and_what_lay_in_them() {
    rounds(|decisions| {
        let clock = ManualClock::new();
        let limiter =
            Limiter::builder(Quota::per_second(500_000).burst(100)).clock(clock.clone()).build();
        let barrier = Barrier::new(usize::try_from(THREADS).unwrap());
        let mut admissions: Vec<Admission> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (limiter, clock, barrier) = (&limiter, &clock, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        work(limiter, clock, thread, decisions / THREADS)
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let period_ns = 1_000_000_000;
        let leased = i128::from(THREADS * BATCH);
        let above = excess(&mut admissions, 500_000, period_ns, 100 + leased);
        assert!(above <= period_ns / 256, "{above} of {period_ns} of a unit above the bound");
        admissions.len()
    });
}
