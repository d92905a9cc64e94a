//! Tests of keys with values that no limit has written. Each such key is treated as a limit with no units left, until a
//! full limit would have drained. This holds in every mode and for every kind of state. The store counts and logs such
//! keys.

use crate::common::load::MODES;
use crate::common::server::Server;
use crate::common::{left, limiter, named, spend, started, store};
use tollgate_redis::{Mode, RedisLimiter, Store, check_all};

/// Policies of every kind of state, with windows that do not end while a test runs.
const POLICIES: [&str; 12] = [
    "gcra 50/30d",
    "gcra 50/h count-denied",
    "fixed-window 50/365d",
    "fixed-window 50/30d from-first",
    "sliding-window 50/365d exact",
    "sliding-window 50/365d strict",
    "segmented-window 60/365d x6",
    "calendar-month 50",
    "calendar-year 50",
    "calendar-week 50",
    "gcra 50/h penalty 1h after 3",
    "sliding-log 50/30d",
];

fn modes(policy: &str) -> Vec<Mode> {
    let is_exact = ["count", "penalty", "log"].iter().any(|word| policy.contains(word));
    if is_exact { vec![Mode::Exact] } else { MODES.to_vec() }
}

/// Spends a few units of a limit. Returns the limit's key and the key's value.
async fn used(server: &Server, limiter: &RedisLimiter) -> (String, Vec<u8>) {
    spend(limiter, "key", 3).await;
    // A peek waits for a lease that is on its way.
    assert!(limiter.entry("key").peek(1).await.is_allowed());
    limiter.return_leases().await;
    let key = server.run::<Vec<String>>(&["KEYS", "*{key}*"]).remove(0);
    let text = redis::cmd("GET").arg(&key).query(&mut server.connection()).unwrap();
    (key, text)
}

/// Values that replace the state in the key: of other types, with other lengths, and with other bytes.
fn garbage(text: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        ["", "x", "0", "1 2 3", "1 1 1 1 1 7 0", "-1 0", "nan"].map(Into::into).into();
    all.push(vec![0; text.len()]);
    all.push(vec![0xff; text.len()]);
    all.push(text[..text.len() / 2].to_vec());
    all.push([text, b" 7 7 7 7 7 7 7 7 7"].concat());
    if text.starts_with(b"log1") {
        all.pop(); // what stands behind its ring is nothing
        let with = |at: usize, bytes: &[u8]| {
            let mut other = text.to_vec();
            other[at..at + bytes.len()].copy_from_slice(bytes);
            other
        };
        // These values change the oldest units, the newest units, their number, or the whole ring.
        all.extend([
            with(36, &text[44..52]),
            with(52, &[0; 8]),
            with(64, &[0; 4]),
            with(72, &vec![0; text.len() - 72]),
        ]);
        all.push(with(72, &vec![0xff; text.len() - 72]));
    } else {
        let text = String::from_utf8(text.to_vec()).unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let with = |at: usize, word: &str| {
            let mut words = words.clone();
            words[at] = word;
            words.join(" ").into_bytes()
        };
        // These values have another kind, another tick, another time at which the debt has drained, or too many or too
        // few numbers.
        all.extend([with(0, "6"), with(1, "0"), with(1, "x"), with(3, "99999999999999999999")]);
        all.push(format!("{text};{text};{text};{text};{text}").into_bytes());
        all.push(words[..words.len() - 1].join(" ").into_bytes());
    }
    all
}

async fn is_full(store: &Store, policy: &str, mode: Mode, what: &str) {
    let limiter = limiter(store, policy, mode, 1);
    let before = store.stats().broken;
    for n in 0..4 {
        let decision = limiter.check("key").await;
        let fault = decision.fault();
        assert!(
            !decision.is_allowed() && fault.is_none(),
            "{policy}, {mode:?}, {what}: check {n}, {fault:?}"
        );
    }
    assert!(!limiter.check_n("key", 20).await.is_allowed());
    assert_eq!(store.stats().broken - before, 1, "{policy}, {mode:?}, {what}");
    assert_eq!(left(&limiter, "key").await, 0, "{policy}, {mode:?}, {what}");
    // This reports all units, so that no report comes after the key was deleted.
    limiter.return_leases().await;
}

#[tokio::test]
async fn whatever_a_key_holds_it_is_no_fresh_limit() {
    let server = Server::start();
    for policy in POLICIES {
        for mode in modes(policy) {
            let texts = {
                let store = store(&server).await;
                garbage(&used(&server, &limiter(&store, policy, mode, 1)).await.1)
            };
            let key = server.run::<Vec<String>>(&["KEYS", "*{key}*"]).remove(0);
            let types: [&[&str]; 4] = [
                &["LPUSH", &key, "1"],
                &["HSET", &key, "a", "1"],
                &["ZADD", &key, "1", "a"],
                &["XADD", &key, "*", "a", "1"],
            ];
            for command in types {
                server.run::<()>(&["FLUSHALL"]);
                server.run::<redis::Value>(command);
                is_full(&store(&server).await, policy, mode, command[0]).await;
            }
            for text in texts {
                server.run::<()>(&["FLUSHALL"]);
                let mut set = redis::cmd("SET");
                set.arg(&key).arg(&text).exec(&mut server.connection()).unwrap();
                is_full(&store(&server).await, policy, mode, &String::from_utf8_lossy(&text)).await;
            }
            server.run::<()>(&["FLUSHALL"]);
        }
    }
}

/// A key without an expiry may keep a state that should have expired. It must not be read as drained.
#[tokio::test]
async fn a_state_that_should_have_expired_counts_as_full() {
    let server = Server::start();
    for policy in [
        "10/s",
        "fixed-window 50/100ms",
        "fixed-window 50/100ms from-first",
        "sliding-log 50/100ms",
    ] {
        let key = {
            let store = store(&server).await;
            let limiter = limiter(&store, policy, Mode::Exact, 1);
            assert!(limiter.check("key").await.is_allowed());
            let key = server.run::<Vec<String>>(&["KEYS", "*{key}*"]).remove(0);
            server.run::<()>(&["PERSIST", &key]);
            key
        };
        tokio::time::sleep(std::time::Duration::from_millis(1_250)).await;
        let store = store(&server).await;
        let limiter = limiter(&store, policy, Mode::Exact, 1);
        assert!(!limiter.check("key").await.is_allowed(), "{policy}");
        assert_eq!(store.stats().broken, 1, "{policy}");
        // -1 would be a key that never expires. A window of 100 ms may have expired by now.
        assert_ne!(server.run::<i64>(&["PTTL", &key]), -1, "{policy}");
        server.run::<()>(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn under_several_limits_and_when_given_back_it_is_counted_too() {
    let (server, store) = started().await;
    let [one, other] = [("one", "gcra 50/30d"), ("other", "fixed-window 50/365d")]
        .map(|(name, policy)| named(&store, name, policy, Mode::Leased));
    server.run::<()>(&["SET", "test:one:{key}", "x"]);
    let joint = check_all(&[one.entry("key").cost(1), other.entry("key").cost(1)]).await;
    assert_eq!(
        (joint.is_allowed(), joint.into_joint().denied_by(), store.stats().broken),
        (false, Some(0), 1)
    );
    server.run::<()>(&["SET", "test:one:{key}", "x"]);
    assert_eq!(one.entry("key").charge(1).await, Ok(0));
    assert_eq!(store.stats().broken, 2);
}
