//! Sentinels name the master, and another one after a failover.
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use common::load::Load;
use common::sentinel::Sentinel;
use common::{PATIENT, limiter};
use tollgate_redis::{Fault, Mode, OnError, Source, Store};

#[tokio::test]
async fn the_master_is_asked_of_the_sentinels() {
    let sentinel = Sentinel::start();
    // The first that is named does not exist.
    let address = sentinel.address().replace("://", "://127.0.0.1:1,");
    let store = Store::with(&address, PATIENT, "test").unwrap();
    store.ready().await;
    let limiter = limiter(&store, "10/h", Mode::Exact, 1);
    assert_eq!(limiter.check("key", 1).await.source(), Source::Store);
    let keys: Vec<String> = sentinel.servers[0].run(&["KEYS", "*"]);
    assert!(keys.iter().any(|key| key.ends_with(":key")), "{keys:?}");
    let unknown = sentinel.address().replace("/main/", "/other/");
    let store = Store::with(&unknown, PATIENT, "test").unwrap();
    while store.stats().faults(Fault::Unreachable) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert!(store.is_degraded());
}

/// Bad input 112: the master dies, a replica that may lag behind is promoted, and the sentinels name it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_112_after_a_failover_the_new_master_decides() {
    let mut sentinel = tokio::task::block_in_place(Sentinel::start);
    let mut load = Load::ruled(&sentinel.address(), OnError::Local).await;
    Load::wait(200).await;
    let before = sentinel.master_port();
    assert_eq!(before, sentinel.servers[0].port);
    sentinel.servers[0].kill();
    // What the replica had not heard of yet is lost.
    load.losses += 1;
    load.falls_back().await;
    load.audit("killed");
    let start = std::time::Instant::now();
    while sentinel.master_port() == before {
        assert!(start.elapsed() < PATIENT, "no failover");
        Load::wait(20).await;
    }
    load.recovered().await;
    load.audit("failed over");
    let keys: Vec<String> = sentinel.servers[1].run(&["KEYS", "*"]);
    assert!(keys.iter().any(|key| key.ends_with(":hot")), "{keys:?}");
    // The old master comes back as one, is told that it is a replica, and is asked by nobody.
    tokio::task::block_in_place(|| sentinel.servers[0].restart());
    Load::wait(500).await;
    load.audit("the old master is back");
    load.recovered().await;
    load.end("failover by a sentinel", 1);
}
