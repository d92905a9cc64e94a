//! Three nodes lend what the database behind them can spare: `cargo run -p tollgate-redis --example shared_pool --
//! redis://127.0.0.1/`, with the address of a server.
//!
//! Each node reports the headroom that it sees, and the least is in force. A higher headroom takes effect when the
//! lower reports are older than the time to live. When no node reports any more, nothing is lent.

use std::time::Duration;

use tollgate::{Denial, Limiter, Quota};
use tollgate_redis::{Mode, OnError, Settings, SharedPool, Store};

const TTL: Duration = Duration::from_millis(400);

async fn report(
    nodes: &[SharedPool],
    headrooms: [f64; 3],
) -> Result<(), Box<dyn std::error::Error>> {
    for (node, headroom) in nodes.iter().zip(headrooms) {
        node.report_headroom(headroom)?;
        // A background task sends reports four times in the time to live. The example sends this one at once.
        node.refresh().await?;
    }
    Ok(())
}

/// Lets each node lend up to `max_units` units, and returns how many units all nodes have lent.
async fn lend(nodes: &[SharedPool], denial: &Denial, max_units: u64) -> u64 {
    let mut lent = 0;
    for node in nodes {
        for _ in 0..max_units {
            lent += u64::from(node.lend(denial).await.is_some());
        }
    }
    lent
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1/".to_owned());
    // All nodes together may lend 64 units a month while the database is idle. Each run of the example has a pool of
    // its own.
    let spare = Settings::new(Quota::per(64, Duration::from_secs(30 * 86_400)).into())
        .name(format!("spare-{}", std::process::id()))
        .mode(Mode::Exact)
        .on_error(OnError::Deny);
    let mut nodes = Vec::new();
    for _ in 0..3 {
        // In a real service each node is a process.
        let store = Store::open(&address)?;
        tokio::time::timeout(Duration::from_secs(5), store.ready()).await?;
        nodes.push(SharedPool::new(&store, spare.clone(), TTL)?);
    }
    // A client that has spent its own quota.
    let client = Limiter::new(Quota::per_day(1));
    assert!(client.check().is_allowed());
    let Err(denial) = client.check().into_result() else { return Err("nothing is left".into()) };

    println!("reports         in force  lent");
    report(&nodes, [0.5, 0.25, 1.0]).await?;
    report(&nodes, [0.5, 0.25, 1.0]).await?;
    // At a headroom of a quarter, each unit costs four of the pool's 64.
    println!("0.5, 0.25, 1.0  {:>8.2}  {:>4}", 0.25, lend(&nodes, &denial, 4).await);
    while nodes.iter().any(|node| node.headroom() != Some(0.5)) {
        report(&nodes, [0.5, 0.5, 1.0]).await?;
        tokio::time::sleep(TTL / 8).await;
    }
    // At a headroom of a half, each unit costs two of the 16 that are left.
    println!("0.5, 0.5, 1.0   {:>8.2}  {:>4}", 0.5, lend(&nodes, &denial, 9).await);
    while nodes.iter().any(|node| node.headroom().is_some()) {
        tokio::time::sleep(TTL / 8).await;
    }
    println!("none            {:>8}  {:>4}", "-", lend(&nodes, &denial, 9).await);
    Ok(())
}
