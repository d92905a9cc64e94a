//! One limit per client, in memory fixed at the start: `cargo run --example keyed`.

use std::net::IpAddr;

use tollgate::{KeyedLimiter, Policy};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The policy may come from a configuration file.
    let policy: Policy = "gcra 10/m burst 3".parse()?;
    // Room for 100,000 clients at a time: 1.6 MB, allocated here and never again.
    let limiter = KeyedLimiter::<IpAddr>::new(policy, 100_000)?;

    let client: IpAddr = "203.0.113.7".parse()?;
    let other: IpAddr = "2001:db8::1".parse()?;
    for request in 1..=5 {
        match limiter.check(&client, 1).into_result() {
            Ok(permit) => println!("request {request}: admitted, {} left", permit.remaining()),
            Err(denial) => println!("request {request}: {denial}"),
        }
    }
    println!("another client: {} left", limiter.entry(&other).peek(1).remaining());

    let stats = limiter.stats();
    println!("{} live keys in {} bytes", stats.live, stats.bytes);
    Ok(())
}
