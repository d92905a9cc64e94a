//! A client that may borrow what the server can spare: `cargo run -p tollgate-controllers --example elastic`.
//!
//! The server measures how long its requests take. A controller computes a headroom from that, which limits what the
//! pool lends. Time is simulated: a second passes in ten steps.

use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota};
use tollgate_controllers::Gradient;
use tollgate_elastic::SparePool;

/// Requests of other clients in each second: calm, a rush, calm again.
const OTHERS: [u64; 18] = [20, 20, 20, 20, 90, 90, 90, 90, 90, 20, 20, 20, 20, 20, 20, 20, 20, 20];

/// Up to 60 requests at once take 10 ms each; more wait for each other.
fn latency(in_flight: u64) -> Duration {
    Duration::from_micros(10_000 * in_flight.max(60) / 60)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    // All clients together may borrow 100 a second while the server is idle.
    let pool = SparePool::with_clock(Quota::per_second(100).burst(20), clock.clone());
    // This client has 10 units a second of its own, and asks for 80.
    let client = Limiter::builder(Quota::per_second(10).burst(1)).clock(pool.clock()).build();
    let mut controller = Gradient::new(60, 20..=100)?.tolerance(1.1)?;

    println!("second  in flight  latency  limit  headroom  own  borrowed  denied");
    for (second, others) in OTHERS.into_iter().enumerate() {
        let (mut own, mut borrowed, mut denied) = (0, 0, 0);
        let mut in_flight = others;
        for _ in 0..10 {
            clock.advance(Duration::from_millis(100));
            in_flight = others;
            for _ in 0..8 {
                let answer = pool.check(client.entry(), 1);
                match (answer.is_allowed(), answer.is_borrowed()) {
                    (true, false) => own += 1,
                    (true, true) => borrowed += 1,
                    (false, _) => denied += 1,
                }
                in_flight += u64::from(answer.is_allowed());
            }
            // The server measures its latency and reports its headroom. No decision waits for this.
            controller.update(latency(in_flight), in_flight);
            pool.report_headroom(controller.headroom(in_flight))?;
        }
        println!(
            "{second:>6}  {in_flight:>9}  {:>5.1} ms  {:>5}  {:>8.2}  {own:>3}  {borrowed:>8}  {denied:>6}",
            latency(in_flight).as_secs_f64() * 1_000.0,
            controller.limit(),
            pool.headroom(),
        );
    }
    Ok(())
}
