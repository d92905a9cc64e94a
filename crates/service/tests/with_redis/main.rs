//! Tests the service with limits and rules in Redis, on servers that the tests start.

#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../../../redis/tests/common/cluster.rs"]
mod cluster;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../redis/tests/common/sentinel.rs"]
mod sentinel;
#[path = "../../../redis/tests/common/server.rs"]
mod server;

use std::time::Duration;

use common::World;
use tollgate_service::{Global, Options};

mod acts;
mod at_limit;
mod budgets;
mod envoyproxy;
mod global;
mod global_kinds;
mod near_over;
mod reports;
mod resp_clients;
mod rules_redis;

/// The settings of one of two nodes that share this store. The deadline is long enough for a busy machine.
fn one_of_two(address: String) -> Global {
    Global { nodes: 2, deadline: Duration::from_secs(10), ..Global::new(address) }
}

/// Starts a service with limits in a store, and waits until it is connected.
async fn serve_connected(
    test: &str,
    rules: &str,
    global: Global,
    more: impl FnOnce(Options) -> Options,
) -> World {
    let with_store = |options| more(Options { global: Some(global), ..options });
    let world = common::serve_with(test, rules, with_store).await;
    world.until("tollgate_store_degraded 0").await;
    world
}

/// Starts two services with the same options, and waits until they are connected.
async fn serve_two(
    test: &str,
    rules: &str,
    global: Global,
    more: impl Fn(Options) -> Options,
) -> [World; 2] {
    let [one, other] = ["a", "b"].map(|name| format!("{test}_{name}"));
    [
        serve_connected(&one, rules, global.clone(), &more).await,
        serve_connected(&other, rules, global, &more).await,
    ]
}

impl World {
    /// The number of a series in `/metrics`.
    async fn count(&self, series: &str) -> u64 {
        self.metric(series).await.and_then(|count| count.parse().ok()).expect("a number")
    }
}
