//! Copies the lines of a log. From each source (the first word of a line) it copies no more lines than a policy allows,
//! so that one source cannot flood the output. At the end it prints how many lines were left out:
//!
//! ```sh
//! tail -f access.log | cargo run --example log_limiter -- "5/s burst 20"
//! ```

use std::env;
use std::error::Error;
use std::io::{self, BufRead, Write};

use tollgate::{KeyedLimiter, Policy};

/// The number of sources at a time. It takes 1.6 MB, allocated at the start and never again. If there are more sources,
/// some share a count. Then lines may be left out that the policy would allow, but the limit never passes too many
/// lines.
const SOURCES: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let policy = env::args().nth(1).ok_or("give a policy, such as \"5/s burst 20\"")?;
    let limiter = KeyedLimiter::<[u8]>::new(policy.parse::<Policy>()?, SOURCES)?;
    let mut output = io::stdout().lock();
    let (mut lines, mut left_out) = (0_u64, 0_u64);
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        let source = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        lines += 1;
        if limiter.entry(source).check().is_denied() {
            left_out += 1;
            continue;
        }
        output.write_all(&line)?;
        output.write_all(b"\n")?;
    }
    output.flush()?;
    eprintln!("{left_out} of {lines} lines left out");
    Ok(())
}
