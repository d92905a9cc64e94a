//! Tests of a store whose master is named by sentinels, and changes in a failover.

use std::sync::atomic::Ordering;

use crate::common::load::{Load, planned};
use crate::common::sentinel::{PASSWORDS, Sentinel};
use crate::common::{PATIENT, degraded_by, limiter, store_at};
use tollgate_redis::{Fault, Mode, Source, Store};

#[tokio::test]
async fn the_master_is_asked_of_the_sentinels() {
    let sentinel = Sentinel::start();
    // No sentinel listens at the first address.
    let address = sentinel.address().replace("://", "://127.0.0.1:1,");
    let limiter = limiter(&store_at(&address).await, "10/h", Mode::Exact, 1);
    assert_eq!(limiter.check("key").await.source(), Source::Store);
    let keys: Vec<String> = sentinel.servers[0].run(&["KEYS", "*"]);
    assert!(keys.iter().any(|key| key.ends_with(":{key}")), "{keys:?}");
    let unknown = sentinel.address().replace("/main/", "/other/");
    let store = Store::with(&unknown, PATIENT, "test").unwrap();
    degraded_by(&store, &[Fault::Unreachable]).await;
}

/// Bad input 112: the master dies, a replica that may lag behind is promoted, and the sentinels name it. Each cycle
/// repeats this, with the server that was killed as the next replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_112_after_a_failover_the_new_master_decides() {
    let mut sentinel = tokio::task::block_in_place(Sentinel::start);
    fails_over(&mut sentinel, planned(FAILOVER)).await.end(&[FAILOVER]);
}

const FAILOVER: &str = "failover to a replica";

async fn fails_over(sentinel: &mut Sentinel, times: u64) -> Load {
    let mut load = Load::on(&sentinel.address()).await;
    for n in 0..usize::try_from(times).unwrap() {
        let [old, new] = [n % 2, (n + 1) % 2];
        Load::wait(200).await;
        tokio::task::block_in_place(|| sentinel.wait_for_replica());
        assert_eq!(sentinel.master_port(), sentinel.servers[old].port);
        sentinel.kill(old);
        // Charges that have not reached the replica are lost.
        load.losses += 1;
        load.falls_back().await;
        load.audit("killed");
        sentinel.replaced_by(new).await;
        load.survives(FAILOVER).await;
        let keys: Vec<String> = sentinel.servers[new].run(&["KEYS", "*"]);
        assert!(keys.iter().any(|key| key.ends_with(":{hot}")), "{keys:?}");
        // The old master comes back as a master, but is made a replica, and gets no requests.
        tokio::task::block_in_place(|| sentinel.servers[old].restart());
        Load::wait(500).await;
        load.audit("the old master is back");
        load.recovered().await;
    }
    load
}

/// Bad input 123, with sentinels: the sentinel and the servers want different passwords.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_123_sentinels_and_servers_that_want_passwords_are_told_theirs() {
    let mut sentinel = tokio::task::block_in_place(Sentinel::start_with_passwords);
    let one = limiter(&store_at(&sentinel.address()).await, "10/h", Mode::Exact, 1);
    let decision = one.check_n("key", 3).await;
    assert_eq!((decision.source(), decision.decision().remaining()), (Source::Store, 7));
    // If one of the passwords is missing, or replaced by the other, there is no connection.
    let [served, watched] = PASSWORDS;
    let address = sentinel.address();
    for refused in [
        address.replace(&format!("?sentinel_auth=:{watched}"), ""),
        address.replace(watched, served),
        address.replace(&format!(":{served}@"), ""),
        address.replace(served, watched),
    ] {
        assert_ne!(refused, address);
        let store = Store::with(&refused, PATIENT, "test").unwrap();
        let _limiter = limiter(&store, "10/h", Mode::Exact, 1);
        degraded_by(&store, &Fault::ALL).await;
        assert_eq!(store.stats().connections, 0, "{refused}");
        assert!(store.stats().faults(Fault::Unauthenticated) > 0, "{refused}: {:?}", store.stats());
    }
    // The same passwords work with the next master.
    let load = fails_over(&mut sentinel, 1).await;
    load.stop.store(true, Ordering::Relaxed);
}
