//! Says for each key on standard input whether it may go on now. It keeps the keys' charges in a file from one run to
//! the next. It is meant for shell scripts that must not do something more often than a policy allows.
//!
//! ```sh
//! printf '%s\n' alice alice bob | cargo run --example ration -- /tmp/limits "1/h"
//! ```
//!
//! The file is written at the end of the input. One process at a time may use it.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead};
use std::path::Path;

use tollgate::{Clock, KeyedLimiter, Policy, RestoreError};

/// The number of keys at a time.
const KEYS: usize = 10_000;

/// Restores the state of the last run. If that fails, this function decides what to do.
fn open(policy: Policy, path: &Path) -> Result<KeyedLimiter<str>, Box<dyn Error>> {
    // The clock gives Unix time, which goes on while no process runs.
    let clock = Clock::unix();
    match File::open(path) {
        Ok(file) => match KeyedLimiter::builder(policy).clock(clock.clone()).restore(file) {
            // If another policy is given, every key starts afresh. A damaged file is an error, and is left as it is.
            Err(error @ RestoreError::Policy(_)) => eprintln!("starting anew: {error}"),
            restored => return Ok(restored?),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(KeyedLimiter::builder(policy).clock(clock).build(KEYS)?)
}

/// Writes a whole new file and then replaces the old one, so there is a complete file at every moment.
fn save(limiter: &KeyedLimiter<str>, path: &Path) -> Result<(), Box<dyn Error>> {
    let unfinished = path.with_extension("new");
    let file = File::create(&unfinished)?;
    limiter.snapshot(&file)?;
    file.sync_all()?;
    Ok(fs::rename(&unfinished, path)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [path, policy] = arguments.as_slice() else {
        return Err("give a file and a policy, such as limits.snapshot \"3/d\"".into());
    };
    let limiter = open(policy.parse()?, Path::new(path))?;
    for key in io::stdin().lock().lines() {
        let key = key?;
        match limiter.entry(key.as_str()).check().into_result() {
            Ok(permit) => println!("{key}: allowed, {} left", permit.remaining()),
            Err(denial) => println!("{key}: {denial}"),
        }
    }
    save(&limiter, Path::new(path))
}
