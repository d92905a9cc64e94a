//! Bad inputs 113, 116, 121 and 124: replies that are lost, limits that the server evicts, nodes that come and go,
//! and decisions without a store. The numbers are those of the project's list of bad inputs; its other rows about
//! stores are in exact.rs, leased.rs, faults.rs and under `src/conformance`.

use std::time::{Duration, Instant};

use crate::common::load::MODES;
use crate::common::proxy::Proxy;
use crate::common::server::Server;
use crate::common::{PATIENT, limiter, spend, store, until};
use tollgate_redis::{Mode, OnError, RedisLimiter, Settings, Source, Store};

/// A unit comes back in six minutes, so no unit comes back while a test runs.
const POLICY: &str = "10/h burst 100";

/// The deadline is long for a server on the same machine, and short enough that a test can wait until it passes.
const DEADLINE: Duration = Duration::from_millis(500);

fn strict(store: &Store, mode: Mode) -> RedisLimiter {
    let settings = Settings::new(POLICY.parse().unwrap()).mode(mode).on_error(OnError::Deny);
    RedisLimiter::new(store, settings.keys(10)).unwrap()
}

/// The units that are left in the store.
async fn left(direct: &RedisLimiter) -> u64 {
    let decision = direct.entry("key").peek(1).await;
    assert_eq!(decision.source(), Source::Store);
    decision.decision().remaining()
}

/// Asks until no request has been admitted for two seconds. Returns how many were admitted.
async fn exhaust(limiter: &RedisLimiter) -> u64 {
    let (mut admitted, mut last) = (0, Instant::now());
    while last.elapsed() < Duration::from_secs(2) {
        if limiter.check("key").await.is_allowed() {
            (admitted, last) = (admitted + 1, Instant::now());
        } else {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    admitted
}

/// If the reply to a charge is lost, the units are charged once, and no request is admitted for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_113_a_reply_that_is_lost_is_charged_and_admits_no_request() {
    for mode in [Mode::Exact, Mode::Leased] {
        let server = Server::start();
        let direct = limiter(&store(&server).await, POLICY, Mode::Exact, 1);
        let proxy = Proxy::start(server.port).await;
        let behind = Store::with(&proxy.address(), DEADLINE, "test").unwrap();
        behind.ready().await;
        let limiter = strict(&behind, mode);

        proxy.delay(Duration::from_secs(3_600));
        let decision = limiter.check("key").await;
        assert_eq!((decision.is_allowed(), decision.source()), (false, Source::Rule), "{mode:?}");
        let lost = 100 - left(&direct).await;
        assert!(lost > 0, "{mode:?}: the charge has not arrived");
        assert!(mode == Mode::Leased || lost == 1, "charged {lost} times");

        proxy.delay(Duration::ZERO);
        proxy.cut(false); // the late reply is lost with its connection
        let is_back = async || limiter.entry("key").peek(1).await.source() == Source::Store;
        until("the store is back", is_back).await;
        assert_eq!(exhaust(&limiter).await, 100 - lost, "{mode:?}");
        assert_eq!(left(&direct).await, 0, "{mode:?}");
    }
}

/// The server's memory is full, and the server evicts its keys. The store counts the evictions.
#[tokio::test]
async fn bad_input_116_limits_that_are_evicted_begin_anew_and_are_reported() {
    let server = Server::start_with(&["--maxmemory-policy", "allkeys-random"]);
    let store = store(&server).await;
    let limiter = limiter(&store, POLICY, Mode::Exact, 1);
    spend(&limiter, "key", 100).await;
    assert!(!limiter.check("key").await.is_allowed());
    assert_eq!(store.stats().evicted, 0);

    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    _ = server.try_run(&["SET", "another", "1"]); // refused: there is no key left to evict
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(limiter.check("key").await.decision().remaining(), 99, "one loss of memory");

    let seen = async {
        while store.stats().evicted == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(2 * PATIENT, seen).await.expect("no eviction is reported");
    let info: String = server.run(&["INFO", "stats"]);
    let evicted = info.lines().find_map(|line| line.strip_prefix("evicted_keys:")).unwrap();
    assert_eq!(store.stats().evicted.to_string(), evicted.trim());
}

/// One node uses the limit, then 20 nodes, then one again. When a node returns its leases, no units are lost. When
/// another node stops, the units that it held are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_121_nodes_that_come_and_go_admit_no_more_than_the_limit() {
    let server = Server::start();
    // Under this window, all units that are given back are available again. Under GCRA, a part of them could have
    // drained meanwhile.
    let policy = "fixed-window 1000/h from-first";
    let mut stores = vec![store(&server).await];
    let first = limiter(&stores[0], policy, Mode::Leased, 1);
    spend(&first, "key", 50).await;
    let mut returned = 0;
    for n in 0..20 {
        stores.push(store(&server).await);
        let node = limiter(&stores[1 + n], policy, Mode::Leased, 20);
        spend(&node, "key", 10).await;
        if n % 2 == 0 {
            returned += node.return_leases().await;
        }
    }
    let admitted = 50 + 200 + exhaust(&first).await;
    let leased = stores.iter().map(|store| store.stats().leased).sum::<u64>();
    assert_eq!(leased - returned, 1_000, "the store has given all, and no more");
    // Half of the nodes did not return the units that they held, at most half of 1,000 / 20 each.
    assert!((1_000 - 10 * 25..1_000).contains(&admitted), "{admitted} of 1,000");
}

/// The setting `OnError` of a limit says which requests are admitted without the store: those within the share, all
/// requests, or none.
#[tokio::test]
async fn bad_input_124_without_a_store_a_limit_keeps_to_its_share_or_passes_or_denies() {
    let nowhere = Store::with("redis://127.0.0.1:1/", DEADLINE, "test").unwrap();
    for mode in MODES {
        for (on_error, by, admitted) in [
            (OnError::Local, Source::Share, 25), // of four nodes
            (OnError::Allow, Source::Rule, 200),
            (OnError::Deny, Source::Rule, 0),
        ] {
            let settings = Settings::new(POLICY.parse().unwrap()).mode(mode).nodes(4);
            let limiter =
                RedisLimiter::new(&nowhere, settings.keys(10).on_error(on_error)).unwrap();
            let mut passed = 0;
            for _ in 0..200 {
                let decision = limiter.check("key").await;
                assert_eq!(decision.source(), by, "{mode:?}, {on_error:?}");
                assert!(decision.is_degraded());
                passed += u64::from(decision.is_allowed());
            }
            assert_eq!(passed, admitted, "{mode:?}, {on_error:?}");
        }
    }
}
