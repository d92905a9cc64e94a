//! Times of the caller's own: the arrival of a request, a replay, a test.
//! `cargo run --example caller_time`.

use std::time::Duration;

use tollgate::{Limiter, ManualClock, Meter, Quota, Timestamp, Word};

fn main() {
    // `at` gives a limit the time to decide at. A request that queued for 30 ms before it reached the limiter is
    // judged by its arrival; a late time never admits anything extra.
    let limiter = Limiter::with_clock(Quota::per_second(10).burst(1), ManualClock::new());
    let arrival = Timestamp::from_millis(500);
    println!("first: {}", limiter.entry().at(arrival).check(1).is_allowed());
    println!(
        "10 ms later: {}",
        limiter.entry().at(arrival + Duration::from_millis(10)).check(1).is_allowed()
    );
    println!(
        "100 ms later: {}",
        limiter.entry().at(arrival + Duration::from_millis(100)).check(1).is_allowed()
    );

    // A `ManualClock` stands in for time in tests: no sleeping.
    let clock = ManualClock::new();
    let limiter = Limiter::with_clock(Quota::per_minute(1), clock.clone());
    println!("once: {}", limiter.check(1).is_allowed());
    println!("twice: {}", limiter.check(1).is_allowed());
    clock.advance(Duration::from_secs(60));
    println!("a minute later: {}", limiter.check(1).is_allowed());

    // The pure function itself: no clock, no sharing; the whole state is one word of 64 bits.
    let meter = Meter::new(Quota::per_second(2));
    let (decision, word) = meter.check(Word::UNUSED, Timestamp::from_secs(1), 2);
    println!("pure: {} and {word:?}", decision.is_allowed());
}
