//! Shows what a limit would have done to requests that came at these times. Times are in seconds, one on each line:
//!
//! ```sh
//! printf '%s\n' 0 0.01 0.02 0.5 | cargo run --example dry_run -- "10/s burst 2"
//! ```
//!
//! A [`Meter`] has no clock and shares nothing: the state of a limit is one word, which the caller keeps.

use std::env;
use std::error::Error;
use std::io::{self, BufRead};
use std::time::Duration;

use tollgate::{Meter, Policy, Timestamp, Word};

fn main() -> Result<(), Box<dyn Error>> {
    let policy = env::args().nth(1).ok_or("give a policy, such as \"10/s burst 2\"")?;
    let meter = Meter::new(policy.parse::<Policy>()?)?;
    let mut word = Word::UNUSED;
    let (mut requests, mut denied) = (0_u64, 0_u64);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let seconds: f64 = line.trim().parse().map_err(|_| format!("not a time: {line:?}"))?;
        let time = Timestamp::default() + Duration::try_from_secs_f64(seconds)?;
        let (decision, next) = meter.check(word, time, 1);
        word = next;
        requests += 1;
        if let Some(wait) = decision.retry_after() {
            denied += 1;
            println!("{line}: denied, {wait:?} too early");
        }
    }
    println!("{denied} of {requests} requests denied");
    Ok(())
}
