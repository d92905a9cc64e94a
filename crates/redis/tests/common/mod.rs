//! Helpers that the tests with a real server share.
#![allow(unreachable_pub, reason = "both programs include this module")]
#![allow(dead_code, reason = "and each uses only a part of it")]
#![allow(clippy::unwrap_used, reason = "a test helper fails as loudly as a test")]

pub mod cluster;
pub mod load;
pub mod proxy;
pub mod sentinel;
pub mod server;

use std::time::Duration;

use server::Server;
use tollgate_redis::{Fault, Mode, RedisLimiter, Settings, Store};

/// A deadline that is long enough on a machine that is busy with other tests.
pub const PATIENT: Duration = Duration::from_secs(10);

/// A store that is connected.
pub async fn store(server: &Server) -> Store {
    store_at(&server.address()).await
}

/// A server, and a store that is connected to it.
pub async fn started() -> (Server, Store) {
    let server = Server::start();
    let store = store(&server).await;
    (server, store)
}

/// A store at this address that is connected.
pub async fn store_at(address: &str) -> Store {
    let store = Store::with(address, PATIENT, "test").unwrap();
    tokio::time::timeout(PATIENT, store.ready()).await.expect("no connection");
    store
}

pub fn limiter(store: &Store, policy: &str, mode: Mode, nodes: u64) -> RedisLimiter {
    let settings = Settings::new(policy.parse().unwrap()).mode(mode).nodes(nodes).keys(100);
    RedisLimiter::new(store, settings).unwrap()
}

/// A limiter of this name: its keys are others than those of limiters with other names.
pub fn named(store: &Store, name: &str, policy: &str, mode: Mode) -> RedisLimiter {
    let settings = Settings::new(policy.parse().unwrap()).name(name).mode(mode).keys(100);
    RedisLimiter::new(store, settings).unwrap()
}

/// Makes `count` nodes, each with its own connection.
pub async fn nodes(server: &Server, policy: &str, mode: Mode, count: u64) -> Vec<RedisLimiter> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(limiter(&store(server).await, policy, mode, count));
    }
    nodes
}

/// Makes requests for one unit each, and returns how many were admitted.
pub async fn admitted(limiter: &RedisLimiter, key: &str, requests: u64) -> u64 {
    let mut count = 0;
    for _ in 0..requests {
        count += u64::from(limiter.check(key).await.is_allowed());
    }
    count
}

/// Makes requests for one unit each, which must all be admitted.
pub async fn spend(limiter: &RedisLimiter, key: &str, requests: u64) {
    assert_eq!(admitted(limiter, key, requests).await, requests, "{key}");
}

/// The units that a peek finds.
pub async fn left(limiter: &RedisLimiter, key: &str) -> u64 {
    limiter.entry(key).peek(1).await.decision().remaining()
}

/// Asks every millisecond until the answer is yes.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let asked = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let has_come = tokio::time::timeout(PATIENT, asked).await.is_ok();
    assert!(has_come, "waited for {PATIENT:?} in vain: {what}");
}

/// Waits until the store has had one of these faults, and so is degraded.
pub async fn degraded_by(store: &Store, faults: &[Fault]) {
    let had = async || faults.iter().any(|fault| store.stats().faults(*fault) > 0);
    until(&format!("one of {faults:?}"), had).await;
    assert!(store.is_degraded(), "{:?}", store.stats());
}
