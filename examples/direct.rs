//! One limit shared by all threads: `cargo run --example direct`.

use std::thread;

use tollgate::{Decision, Limiter, Quota};

fn main() {
    // 100 units per second; 20 at once from rest.
    let limiter = Limiter::new(Quota::per_second(100).burst(20));

    // Any number of threads share it by reference. No thread waits for another.
    let admitted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..10).filter(|_| limiter.check(1).is_allowed()).count()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    println!("40 requests at once: {admitted} admitted");

    // A decision holds what is left and how long to wait, computed only when asked for.
    match limiter.check(5) {
        Decision::Allowed(permit) => println!("5 more admitted, {} left", permit.remaining()),
        Decision::Denied(denial) => println!("{denial}"),
    }
}
