//! Waiting for a turn: the queue is bounded and first come, first served, and a request that gives up leaves no trace.

use std::cell::RefCell;
use std::future::{Future, Pending, pending, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{KeyedLimiter, Limiter, ManualClock, Policy, Quota, Wait, WaitBudget, WaitStep};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Wait = Wait::at_most(Duration::from_secs(3_600));

/// A sleep that never ends.
fn never(_: Duration) -> Pending<()> {
    pending()
}

/// Polls a future once. With the sleeps of these tests, a future is either ready at its first poll or never.
fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn limiter(quota: Quota) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).clock(clock.clone()).build(), clock)
}

#[test]
fn the_last_waiter_gives_its_place_back_when_it_gives_up() {
    let (limiter, _) = limiter(Quota::per_second(1));
    let keyed =
        KeyedLimiter::builder(Quota::per_second(1).burst(3)).clock(ManualClock::new()).build(10);
    let keyed = keyed.unwrap();
    assert!(limiter.check().is_allowed());
    assert!(keyed.check_n("alice", 3).is_allowed());
    for _ in 0..5 {
        // The future is polled once and then dropped.
        assert!(poll(limiter.entry().acquire(1, LONG, never)).is_pending());
        assert!(poll(keyed.entry("alice").acquire(1, LONG, never)).is_pending());
    }
    assert_eq!(limiter.entry().queue(1, LONG).unwrap().wait(), SECOND);
    assert_eq!(keyed.entry("alice").queue(1, LONG).unwrap().wait(), SECOND);
}

#[test]
fn a_place_that_others_queue_behind_stays_taken() {
    let (limiter, _) = limiter(Quota::per_second(1));
    assert!(limiter.check().is_allowed());
    {
        let mut first = pin!(limiter.entry().acquire(1, LONG, never));
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(limiter.entry().queue(1, LONG).unwrap().wait(), 2 * SECOND);
    }
    assert_eq!(limiter.entry().queue(1, LONG).unwrap().wait(), 3 * SECOND);
}

#[test]
fn a_future_that_is_not_polled_takes_no_place() {
    let (limiter, _) = limiter(Quota::per_second(1));
    let _unpolled = limiter.entry().acquire(1, LONG, never);
    assert_eq!(limiter.entry().queue(1, LONG).unwrap().wait(), Duration::ZERO);
}

#[test]
fn a_turn_that_comes_too_late_is_denied_at_once_and_charges_nothing() {
    let (limiter, _) = limiter(Quota::per_second(1));
    assert!(limiter.check().is_allowed());
    let short = Wait::at_most(SECOND - Duration::from_nanos(1));
    let Poll::Ready(Err(denial)) = poll(limiter.entry().acquire(1, short, never)) else {
        panic!("it should be denied without a sleep")
    };
    assert_eq!(denial.retry_after(), Some(SECOND));
    assert_eq!(limiter.entry().queue(1, Wait::at_most(SECOND)).unwrap().wait(), SECOND);
}

#[test]
fn a_queue_is_as_long_as_it_says() {
    let (limiter, clock) = limiter(Quota::per_second(1));
    let wait = LONG.behind(4);
    assert_eq!((0..20).filter(|_| limiter.entry().queue(1, wait).is_ok()).count(), 5);
    clock.advance(2 * SECOND);
    assert_eq!((0..20).filter(|_| limiter.entry().queue(1, wait).is_ok()).count(), 2);
}

#[test]
fn example_22_a_queue_of_three_lets_one_out_each_second() {
    // The queue of 3 in the example includes the request that leaves at once. So here the policy has a burst of 1, and
    // there are two places behind it.
    let (limiter, clock) = limiter(Quota::per_minute(60).burst(1));
    let (wait, start) = (LONG.behind(2), clock.now());
    let leaves_after = || {
        limiter
            .entry()
            .queue(1, wait)
            .map(|place| place.ready_at().as_nanos() - start.as_nanos())
            .ok()
    };
    let seconds = |seconds: u64| Some(seconds * 1_000_000_000);
    let five: Vec<_> = (0..5).map(|_| leaves_after()).collect();
    assert_eq!(five, [seconds(0), seconds(1), seconds(2), None, None]);
    clock.advance(SECOND / 2);
    assert_eq!(leaves_after(), None);
    clock.advance(SECOND / 2);
    assert_eq!([leaves_after(), leaves_after()], [seconds(3), None]);
    // However many requests come, one leaves each second, in the order in which they came.
    for second in 2..20 {
        clock.advance(SECOND);
        assert_eq!([leaves_after(), leaves_after()], [seconds(second + 2), None]);
    }
}

#[test]
fn a_cost_above_the_burst_waits_until_it_would_have_come_together() {
    let (limiter, _) = limiter(Quota::per_second(2).burst(3));
    assert!(!limiter.check_n(7).is_allowed());
    assert_eq!(limiter.entry().queue(7, LONG).unwrap().wait(), 2 * SECOND);
    assert!(limiter.entry().acquire_blocking(7, Wait::at_most(Duration::ZERO)).is_err());
}

#[test]
fn jitter_comes_later_and_never_earlier() {
    let (limiter, _) = limiter(Quota::per_second(1));
    let (notes, jitter) = (RefCell::new(Vec::new()), Duration::from_millis(100));
    for _ in 0..40 {
        let note = |wait| {
            notes.borrow_mut().push(wait);
            ready(())
        };
        assert!(poll(limiter.entry().acquire(1, LONG.jitter(jitter), note)).is_ready());
    }
    let notes = notes.into_inner();
    // The first request's turn is at once, so it waits only for its jitter of up to 100 ms.
    let turns = (0..).map(|nth| nth * SECOND);
    let late: Vec<_> = turns.zip(notes.iter()).map(|(turn, &slept)| slept - turn).collect();
    assert!(late.iter().all(|&late| late <= jitter), "{late:?}");
    assert!(late.iter().any(|&late| late > jitter / 2), "{late:?}");
    assert!(late.iter().any(|&late| late < jitter / 2), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn tasks_of_tokio_wait_for_their_turn() {
    // The limiter's own time stands still, so each task waits as long as if all tasks had begun at the start.
    let (limiter, _) = limiter(Quota::per_second(1));
    let start = tokio::time::Instant::now();
    let task = || async {
        limiter.entry().acquire(1, LONG, tokio::time::sleep).await.unwrap();
        start.elapsed()
    };
    let (first, second, third) = tokio::join!(task(), task(), task());
    assert_eq!([first, second, third], [Duration::ZERO, SECOND, 2 * SECOND]);
}

/// A thread that waits by sleeping itself.
#[test]
fn a_thread_waits_for_a_window() {
    let limiter = Limiter::new("fixed-window 1/20ms".parse::<Policy>().unwrap());
    for _ in 0..4 {
        limiter.entry().acquire_blocking(1, Wait::at_most(SECOND * 60)).unwrap();
    }
}

/// The steps of `acquire`, for a caller that has its own way to sleep.
#[test]
fn a_budget_is_spent_in_steps_and_keeps_its_bound() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder("fixed-window 1/s".parse::<Policy>().unwrap())
        .clock(clock.clone())
        .build();
    let mut budget = WaitBudget::new(Wait::at_most(2 * SECOND), limiter.now());
    for turn in 0..3 {
        // In each turn another request takes the unit first.
        assert!(limiter.check().is_allowed());
        match budget.step(limiter.entry(), 1) {
            Ok(WaitStep::Later(pause)) if turn < 2 => {
                assert_eq!(pause, SECOND);
                clock.advance(pause);
            }
            Err(denial) if turn == 2 => assert_eq!(denial.retry_after(), Some(SECOND)),
            other => panic!("{other:?} in turn {turn}"),
        }
    }
}
