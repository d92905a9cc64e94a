//! Bad inputs 108 to 120: a store that dies, hangs, forgets, refuses or is slow, under load.
//!
//! See common/load.rs for the load, and the bound that must hold. `TOLLGATE_CYCLES` sets how often each fault is
//! repeated, and `TOLLGATE_PAUSE_MS` sets how long a server is stopped.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::load::{Load, MODES, PLAN, RECOVERY, number, planned};
use crate::common::proxy::Proxy;
use crate::common::server::Server;
use tollgate_redis::{Fault, OnError, Store};

/// Counts the planned faults of this file, cluster.rs and sentinel.rs. The tests check that each fault happened as
/// often as planned.
#[test]
fn a_run_has_fifty_faults_and_three_of_each_kind() {
    assert!(PLAN.iter().all(|(_, cycles)| *cycles >= 3), "{PLAN:?}");
    assert!(PLAN.iter().map(|(_, cycles)| cycles).sum::<u64>() >= 50, "{PLAN:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_inputs_108_and_111_a_server_that_is_killed_and_comes_back_empty() {
    const WHAT: &str = "kill -9 and restart empty";
    let mut server = Server::start();
    let mut load = Load::on(&server.address()).await;
    for _ in 0..planned(WHAT) {
        Load::wait(200).await;
        server.kill();
        load.losses += 1;
        load.falls_back().await;
        load.audit("killed");
        tokio::task::block_in_place(|| server.restart());
        load.survives(WHAT).await;
    }
    assert!(load.faults(Fault::Unreachable) > 0 && load.faults(Fault::Disconnected) > 0);
    load.end(&[WHAT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_109_a_server_that_takes_connections_and_never_answers() {
    const WHAT: &str = "SIGSTOP";
    let server = Server::start();
    let mut load = Load::on(&server.address()).await;
    for _ in 0..planned(WHAT) {
        Load::wait(100).await;
        server.signal("-STOP");
        load.falls_back().await;
        Load::wait(number("TOLLGATE_PAUSE_MS", 3_000)).await;
        load.audit("stopped");
        server.signal("-CONT");
        load.survives(WHAT).await;
    }
    assert!(load.faults(Fault::Deadline) > 0);
    load.end(&[WHAT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_110_replies_that_come_too_late_open_the_breaker() {
    const WHAT: &str = "slow proxy";
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let mut load = Load::on(&proxy.address()).await;
    for n in 0..planned(WHAT) {
        Load::wait(100).await;
        proxy.delay(Duration::from_millis([100, 300, 1_000][usize::try_from(n % 3).unwrap()]));
        load.falls_back().await;
        Load::wait(300).await;
        // Now the circuit breaker is open, and no caller waits for the store.
        assert!(load.stores.iter().all(Store::is_degraded));
        load.audit("slow");
        proxy.delay(Duration::ZERO);
        load.survives(WHAT).await;
    }
    load.end(&[WHAT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_112_a_replica_refuses_until_it_is_promoted() {
    const WHAT: &str = "READONLY and promotion";
    let server = Server::start();
    let mut load = Load::on(&server.address()).await;
    for _ in 0..planned(WHAT) {
        Load::wait(100).await;
        server.run::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
        load.falls_back().await;
        load.audit("replica");
        server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
        load.survives(WHAT).await;
    }
    assert!(load.faults(Fault::ReadOnly) > 0);
    load.end(&[WHAT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_114_a_server_without_memory_and_one_that_is_busy() {
    let server = Server::start_with(&["--busy-reply-threshold", "20"]);
    let mut load = Load::on(&server.address()).await;
    for _ in 0..planned("OOM") {
        Load::wait(100).await;
        server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        load.falls_back().await;
        load.audit("out of memory");
        server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        load.survives("OOM").await;
    }
    assert!(load.faults(Fault::OutOfMemory) > 0);
    for _ in 0..planned("BUSY") {
        Load::wait(100).await;
        let mut connection = server.connection();
        let endless = std::thread::spawn(move || {
            let stopped =
                redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection);
            assert!(stopped.is_err());
        });
        load.falls_back().await;
        Load::wait(300).await;
        load.audit("busy");
        server.run::<()>(&["SCRIPT", "KILL"]);
        endless.join().unwrap();
        load.survives("BUSY").await;
    }
    load.end(&["OOM", "BUSY"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_114_scripts_flushed_under_load_cost_no_decision() {
    const WHAT: &str = "SCRIPT FLUSH";
    let server = Server::start();
    let mut load = Load::on(&server.address()).await;
    Load::wait(100).await;
    for _ in 0..planned(WHAT) {
        server.run::<()>(&["SCRIPT", "FLUSH"]);
        Load::wait(100).await;
        load.goes_on(WHAT);
    }
    assert!(load.stores.iter().map(|store| store.stats().reloads).sum::<u64>() > 0);
    assert_eq!(load.faults(Fault::NoScript), 0);
    load.end(&[WHAT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_inputs_119_and_120_a_link_that_flaps_grants_nothing_and_is_not_stormed() {
    const WHAT: &str = "flapping link";
    let cycles = planned(WHAT);
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let mut load = Load::on(&proxy.address()).await;
    for n in 0..cycles {
        Load::wait(100).await;
        proxy.cut(n % 2 == 0);
        Load::wait(100).await;
        load.goes_on(WHAT);
        proxy.cut(false);
    }
    load.recovered().await;
    let connections: u64 = load.stores.iter().map(|store| store.stats().connections).sum();
    let most = load.stores.len() as u64 * (2 * cycles + 1);
    assert!(connections <= most, "{connections} connections, {most} at most");
    assert!(load.degraded() > 0);
    load.end(&[WHAT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_on_without_a_share_is_caught() {
    let mut server = Server::start();
    let load = Load::ruled(&server.address(), OnError::Allow).await;
    server.kill();
    let start = Instant::now();
    while (0..MODES.len()).any(|mode| load.admitted(mode).0 <= load.admitted(mode).1) {
        assert!(start.elapsed() < RECOVERY, "nothing exceeds the bound");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    load.stop.store(true, Ordering::Relaxed);
}
