//! A limiter that survives a restart: `cargo run --example restart`.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use tollgate::{Clock, KeyedLimiter, ManualClock, Policy, RestoreError};

/// Writes a whole new file before the old one is replaced: whatever happens, there is one.
fn save(limiter: &KeyedLimiter<str>, path: &Path) -> Result<(), Box<dyn Error>> {
    let unfinished = path.with_extension("new");
    let file = File::create(&unfinished)?;
    let saved = limiter.snapshot(&file)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    println!("saved {} keys in {} bytes", saved.keys, saved.bytes);
    Ok(())
}

/// Goes on where the last process left off. Decides what to do if that is not possible.
fn open(policy: Policy, clock: Clock, path: &Path) -> Result<KeyedLimiter<str>, Box<dyn Error>> {
    match File::open(path) {
        Ok(file) => match KeyedLimiter::restore(policy, clock.clone(), file) {
            // Another policy was rolled out: every client starts anew, and the log says so.
            Err(error @ RestoreError::Policy(_)) => println!("starting anew: {error}"),
            restored => return Ok(restored?),
        },
        Err(error) => println!("starting anew: {error}"),
    }
    Ok(KeyedLimiter::with_clock(policy, 1_000, clock)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("tollgate-restart-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let path = directory.join("limits.snapshot");
    let policy: Policy = "gcra 1/m burst 3".parse()?;
    // Stands in for Clock::monotonic() or Clock::unix(), so that the example need not wait.
    let clock = ManualClock::new();

    let limiter = open(policy, clock.clone().into(), &path)?;
    for _ in 0..3 {
        println!("alice: {}", limiter.check("alice", 1).is_allowed());
    }
    save(&limiter, &path)?;
    drop(limiter);

    println!("a restart, a minute later");
    clock.advance(Duration::from_secs(60));
    let limiter = open(policy, clock.clone().into(), &path)?;
    // One unit has come back, and no more.
    println!("alice: {}", limiter.check("alice", 1).is_allowed());
    println!("alice: {}", limiter.check("alice", 1).is_allowed());
    println!("bob: {}", limiter.check("bob", 3).is_allowed());

    println!("a restart with another policy");
    let limiter = open("gcra 1/m burst 5".parse()?, clock.clone().into(), &path)?;
    println!("alice: {}", limiter.check("alice", 5).is_allowed());

    // A file that is not whole is refused whole.
    let mut bytes = fs::read(&path)?;
    bytes[2_000] ^= 1;
    let damaged = KeyedLimiter::<str>::restore(policy, clock, &bytes[..]);
    println!("damaged: {}", damaged.err().map_or_else(String::new, |error| error.to_string()));

    fs::remove_dir_all(&directory)?;
    Ok(())
}
