//! Copies lines from standard input to standard output, no faster than a policy allows:
//!
//! ```sh
//! seq 30 | cargo run --example throttle -- "10/s burst 5"
//! ```

use std::env;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::thread;

use tollgate::{Limiter, Policy};

fn main() -> Result<(), Box<dyn Error>> {
    let policy = env::args().nth(1).ok_or("give a policy, such as \"10/s burst 5\"")?;
    let limiter = Limiter::new(policy.parse::<Policy>()?);
    let mut output = io::stdout().lock();
    // Lines are bytes, not text: a line need not be UTF-8.
    for line in io::stdin().lock().split(b'\n') {
        // Only this thread takes units, so it would be enough to wait once. If other threads took units as well, one of
        // them might take the unit first.
        while let Some(wait) = limiter.entry().check().retry_after() {
            thread::sleep(wait);
        }
        output.write_all(&line?)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}
