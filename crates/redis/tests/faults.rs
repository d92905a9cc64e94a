//! Bad inputs 108 to 120: a store that dies, hangs, forgets, refuses or crawls, under load.
//!
//! See common/load.rs for the load, and the bound that must hold. `TOLLGATE_CYCLES` is how often each fault
//! is repeated; `TOLLGATE_PAUSE_MS` how long a server is stopped.
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::load::{Load, RECOVERY, number};
use common::proxy::Proxy;
use common::server::Server;
use tollgate_redis::{Fault, OnError, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_inputs_108_and_111_a_server_that_is_killed_and_comes_back_empty() {
    let cycles = number("TOLLGATE_CYCLES", 7);
    let mut server = Server::start();
    let mut load = Load::on(server.port).await;
    for _ in 0..cycles {
        Load::wait(200).await;
        server.kill();
        load.losses += 1;
        load.falls_back().await;
        load.audit("killed");
        tokio::task::block_in_place(|| server.restart());
        load.recovered().await;
        load.audit("restarted empty");
    }
    assert!(load.faults(Fault::Unreachable) > 0 && load.faults(Fault::Disconnected) > 0);
    load.end("kill -9 and restart", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_109_a_server_that_takes_connections_and_never_answers() {
    let cycles = number("TOLLGATE_CYCLES", 5);
    let server = Server::start();
    let load = Load::on(server.port).await;
    for _ in 0..cycles {
        Load::wait(100).await;
        server.signal("-STOP");
        load.falls_back().await;
        Load::wait(number("TOLLGATE_PAUSE_MS", 3_000)).await;
        load.audit("stopped");
        server.signal("-CONT");
        load.recovered().await;
        load.audit("continued");
    }
    assert!(load.faults(Fault::Deadline) > 0);
    load.end("SIGSTOP", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_110_replies_that_come_too_late_open_the_breaker() {
    let cycles = number("TOLLGATE_CYCLES", 6);
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let load = Load::on(proxy.port).await;
    for n in 0..cycles {
        Load::wait(100).await;
        proxy.delay(Duration::from_millis([100, 300, 1_000][usize::try_from(n % 3).unwrap()]));
        load.falls_back().await;
        Load::wait(300).await;
        // Open: nobody waits for the store any more.
        assert!(load.stores.iter().all(Store::is_degraded));
        load.audit("slow");
        proxy.delay(Duration::ZERO);
        load.recovered().await;
        load.audit("fast again");
    }
    load.end("slow proxy", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_112_a_replica_refuses_until_it_is_promoted() {
    let cycles = number("TOLLGATE_CYCLES", 6);
    let server = Server::start();
    let load = Load::on(server.port).await;
    for _ in 0..cycles {
        Load::wait(100).await;
        server.run::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
        load.falls_back().await;
        load.audit("replica");
        server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
        load.recovered().await;
        load.audit("promoted");
    }
    assert!(load.faults(Fault::ReadOnly) > 0);
    load.end("READONLY and promotion", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_114_a_server_without_memory_and_one_that_is_busy() {
    let cycles = number("TOLLGATE_CYCLES", 6);
    let server = Server::start_with(&["--busy-reply-threshold", "20"]);
    let load = Load::on(server.port).await;
    for _ in 0..cycles {
        Load::wait(100).await;
        server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        load.falls_back().await;
        load.audit("out of memory");
        server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        load.recovered().await;
        load.audit("memory again");
    }
    assert!(load.faults(Fault::OutOfMemory) > 0);
    for _ in 0..cycles.min(4) {
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
        load.recovered().await;
        load.audit("idle again");
    }
    load.end("OOM and BUSY", cycles + cycles.min(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_114_scripts_flushed_under_load_cost_no_decision() {
    let cycles = number("TOLLGATE_CYCLES", 8);
    let server = Server::start();
    let load = Load::on(server.port).await;
    Load::wait(100).await;
    for _ in 0..cycles {
        server.run::<()>(&["SCRIPT", "FLUSH"]);
        Load::wait(100).await;
        load.audit("flushed");
    }
    assert!(load.stores.iter().map(|store| store.stats().reloads).sum::<u64>() > 0);
    assert_eq!(load.faults(Fault::NoScript), 0);
    load.end("SCRIPT FLUSH", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_inputs_119_and_120_a_link_that_flaps_grants_nothing_and_is_not_stormed() {
    let cycles = number("TOLLGATE_CYCLES", 12);
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let load = Load::on(proxy.port).await;
    for n in 0..cycles {
        Load::wait(100).await;
        proxy.cut(n % 2 == 0);
        Load::wait(100).await;
        load.audit("cut");
        proxy.cut(false);
    }
    load.recovered().await;
    let connections: u64 = load.stores.iter().map(|store| store.stats().connections).sum();
    let most = load.stores.len() as u64 * (2 * cycles + 1);
    assert!(connections <= most, "{connections} connections, {most} at most");
    assert!(load.degraded() > 0);
    load.end("flapping link", cycles);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_on_without_a_share_is_caught() {
    let mut server = Server::start();
    let load = Load::ruled(&server.address(), OnError::Allow).await;
    server.kill();
    let start = Instant::now();
    while (0..2).any(|mode| load.admitted(mode).0 <= load.admitted(mode).1) {
        assert!(start.elapsed() < RECOVERY, "nothing exceeds the bound");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    load.stop.store(true, Ordering::Relaxed);
}
