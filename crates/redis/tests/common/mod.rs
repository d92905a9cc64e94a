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
use tollgate_redis::{Mode, RedisLimiter, Settings, Store};

/// A deadline that is long enough on a machine that is busy with other tests.
pub const PATIENT: Duration = Duration::from_secs(10);

/// A store that is connected.
pub async fn store(server: &Server) -> Store {
    let store = Store::with(&server.address(), PATIENT, "test").unwrap();
    store.ready().await;
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
