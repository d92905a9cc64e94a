//! Tests of counts in the keys of envoyproxy/ratelimit, on a real server. A second writer uses the same keys, and
//! counts as envoyproxy/ratelimit does.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::server::Server;
use crate::common::started;
use tollgate_redis::{EnvoyproxyLimiter, Fault, OnError, Settings, Store};

const YEAR: u64 = 365 * 86_400;

fn limiter(store: &Store, policy: &str, prefix: &str) -> EnvoyproxyLimiter {
    EnvoyproxyLimiter::new(store, Settings::new(policy.parse().unwrap()), prefix).unwrap()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The key of a stem in the present window of a year. A test fails only if it is running when that window ends.
fn key(stem: &str) -> String {
    format!("{stem}{}", now_s() / YEAR * YEAR)
}

/// Counts as envoyproxy/ratelimit does. Returns whether envoyproxy/ratelimit would admit the request.
fn other_writer(server: &Server, key: &str, hits: u64, limit: u64) -> bool {
    let count: u64 = server.run(&["INCRBY", key, &hits.to_string()]);
    let _: u64 = server.run(&["EXPIRE", key, &(YEAR + 7).to_string()]);
    count <= limit
}

#[tokio::test]
async fn a_request_writes_the_key_of_its_window_its_count_and_a_time_to_live() {
    let (server, store) = started().await;
    for (length, unit_s) in [
        ("s", 1),
        ("m", 60),
        ("h", 3_600),
        ("d", 86_400),
        ("7d", 7 * 86_400),
        ("30d", 30 * 86_400),
        ("365d", YEAR),
    ] {
        let stem = format!("shop_unit_{length}_");
        let limiter = limiter(&store, &format!("fixed-window 100/{length}"), "rl:");
        // A new window may begin between the limiter's reading of the clock and this test's.
        let found = loop {
            let before = now_s() / unit_s * unit_s;
            assert!(limiter.check_n(&stem, 3).await.is_allowed(), "{length}");
            if now_s() / unit_s * unit_s == before {
                break format!("rl:{stem}{before}");
            }
        };
        assert_eq!(server.run::<u64>(&["GET", &found]), 3, "{found}");
        assert_eq!(server.run::<String>(&["TYPE", &found]), "string");
        let left: u64 = server.run(&["TTL", &found]);
        assert!(left + 2 >= unit_s && left <= unit_s + 300, "{found}: {left}");
    }
}

#[tokio::test]
async fn a_limit_is_shared_with_what_counts_as_envoyproxy_does() {
    let (server, store) = started().await;
    let limiter = limiter(&store, "fixed-window 10/365d", "");
    let (stem, key) = ("shop_user_alice_", key("shop_user_alice_"));
    let mut admitted = 0;
    for n in 0..20 {
        admitted += u64::from(if n % 2 == 0 {
            limiter.check_n(stem, 1).await.is_allowed()
        } else {
            other_writer(&server, &key, 1, 10)
        });
    }
    assert_eq!(admitted, 10);
    // As in envoyproxy/ratelimit, denied requests are counted, too.
    assert_eq!(server.run::<u64>(&["GET", &key]), 20);
    let denied = limiter.check_n(stem, 0).await;
    assert!(!denied.is_allowed() && denied.decision().remaining() == 0);
    assert_eq!(server.run::<u64>(&["GET", &key]), 20);
}

#[tokio::test]
async fn a_question_is_over_the_limit_once_more_than_the_limit_was_used() {
    let (server, store) = started().await;
    let limiter = limiter(&store, "fixed-window 1000/365d", "");
    let mut told = Vec::new();
    for (hits, is_allowed, left) in [
        (0, true, 1_000),
        (400, true, 600),
        (600, true, 0),
        (0, true, 0),
        (1, false, 0),
        (0, false, 0),
        (5_000, false, 0),
    ] {
        let decision = limiter.check_n("ai_user_alice_", hits).await;
        told.push((decision.is_allowed(), decision.decision().remaining()));
        assert_eq!(told.last(), Some(&(is_allowed, left)), "{hits}");
    }
    assert_eq!(server.run::<u64>(&["GET", &key("ai_user_alice_")]), 6_001);
    // A peek writes no key.
    assert!(limiter.peek("ai_user_bob_", 1_000).await.is_allowed());
    assert!(!limiter.peek("ai_user_bob_", 1_001).await.is_allowed());
    assert!(!server.run::<bool>(&["EXISTS", &key("ai_user_bob_")]));
}

#[tokio::test]
async fn hits_are_given_back_down_to_0_and_a_key_that_is_not_there_is_not_made() {
    let (server, store) = started().await;
    let limiter = limiter(&store, "fixed-window 10/365d", "");
    assert_eq!(limiter.uncharge("shop_user_alice_", 5).await, Ok(0));
    assert!(!server.run::<bool>(&["EXISTS", &key("shop_user_alice_")]));
    assert!(!limiter.check_n("shop_user_alice_", 14).await.is_allowed());
    // As in envoyproxy/ratelimit, the hits above the limit are given back first.
    assert_eq!(limiter.uncharge("shop_user_alice_", 3).await, Ok(3));
    assert!(!limiter.check_n("shop_user_alice_", 0).await.is_allowed());
    assert_eq!(limiter.uncharge("shop_user_alice_", u64::MAX).await, Ok(11));
    assert_eq!(server.run::<u64>(&["GET", &key("shop_user_alice_")]), 0);
    assert!(server.run::<u64>(&["TTL", &key("shop_user_alice_")]) > 0);
    assert!(limiter.check_n("shop_user_alice_", 10).await.is_allowed());
    assert_eq!(limiter.reset("shop_user_alice_").await, Ok(()));
    assert!(!server.run::<bool>(&["EXISTS", &key("shop_user_alice_")]));
}

#[tokio::test]
async fn what_is_no_count_is_a_fault_of_its_key_alone() {
    let (server, store) = started().await;
    let settings = Settings::new("fixed-window 10/365d".parse().unwrap()).on_error(OnError::Deny);
    let limiter = EnvoyproxyLimiter::new(&store, settings, "").unwrap();
    let _: u64 = server.run(&["LPUSH", &key("shop_user_list_"), "x"]);
    let texts = ["no number", "", " 5", "1.5", "0x10", "1e3", "007", "-0"];
    for (n, text) in texts.into_iter().enumerate() {
        let stem = format!("shop_user_text{n}_");
        server.run::<String>(&["SET", &key(&stem), text]);
        let before = store.stats();
        let looked = limiter.peek(&stem, 1).await;
        assert!(!looked.is_allowed() && looked.fault().is_some(), "{text}");
        assert!(limiter.uncharge(&stem, 1).await.is_err(), "{text}");
        assert_eq!(server.run::<String>(&["GET", &key(&stem)]), text);
        let after = store.stats();
        assert_eq!(after.broken - before.broken, 2, "{text}");
        let faults = |stats: &tollgate_redis::StoreStats| stats.faults(Fault::Unexpected);
        assert_eq!(faults(&after) - faults(&before), 2, "{text}");
    }
    server.run::<String>(&["SET", &key("shop_user_full_"), "9223372036854775807"]);
    assert!(!limiter.peek("shop_user_full_", 1).await.is_allowed());
    for stem in ["shop_user_list_", "shop_user_text0_", "shop_user_text3_", "shop_user_full_"] {
        let (broken, good) =
            tokio::join!(limiter.check_n(stem, 1), limiter.check_n("shop_user_alice_", 1));
        assert!(!broken.is_allowed() && broken.fault().is_some(), "{stem}");
        assert!(good.is_allowed() && good.fault().is_none(), "{stem}");
    }
    assert!(!store.is_degraded());
    // The count is exact to the unit, even above the numbers that the script can represent.
    assert_eq!(limiter.uncharge("shop_user_full_", 6).await, Ok(6));
    assert_eq!(server.run::<u64>(&["GET", &key("shop_user_full_")]), 9_223_372_036_854_775_801);
}

#[tokio::test]
async fn what_the_store_refuses_is_its_fault_and_no_keys() {
    let (server, store) = started().await;
    let settings = Settings::new("fixed-window 10/365d".parse().unwrap()).on_error(OnError::Deny);
    let limiter = EnvoyproxyLimiter::new(&store, settings, "").unwrap();
    assert!(limiter.check_n("shop_user_alice_", 1).await.is_allowed());
    server.run::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(limiter.check_n("shop_user_alice_", 1).await.fault(), Some(Fault::ReadOnly));
    assert_eq!(store.stats().broken, 0);
    server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    // Waits until the store has connected again.
    tokio::time::timeout(Duration::from_secs(30), store.ready()).await.unwrap();
    assert!(limiter.check_n("shop_user_alice_", 1).await.is_allowed());
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(limiter.check_n("shop_user_alice_", 1).await.fault(), Some(Fault::OutOfMemory));
}

#[tokio::test]
async fn without_the_store_the_rule_says_what_becomes_of_requests() {
    let (mut server, store) = started().await;
    let of = |on_error| {
        let settings = Settings::new("fixed-window 10/365d".parse().unwrap());
        EnvoyproxyLimiter::new(&store, settings.nodes(2).on_error(on_error), "").unwrap()
    };
    let [local, allow, deny] = [OnError::Local, OnError::Allow, OnError::Deny].map(of);
    server.kill();
    let mut admitted = [0; 3];
    for _ in 0..9 {
        for (n, limiter) in [&local, &allow, &deny].into_iter().enumerate() {
            admitted[n] += u32::from(limiter.check_n("shop_user_alice_", 1).await.is_allowed());
        }
    }
    // There are two nodes, so the share of this node is half of the limit.
    assert_eq!(admitted, [5, 9, 0]);
    assert!(local.uncharge("shop_user_alice_", 5).await.is_err());
    server.restart();
    tokio::time::timeout(Duration::from_secs(30), store.ready()).await.unwrap();
    assert!(deny.check_n("shop_user_alice_", 1).await.is_allowed());
}
