//! Mode `async` on a real server: nodes decide by their counts, and exchange these through the store.

use std::time::{Duration, Instant};

use crate::common::proxy::Proxy;
use crate::common::server::Server;
use crate::common::{PATIENT, left, spend, started, store, store_at};
use tollgate_redis::{Mode, RedisLimiter, Settings, Source, Store};

/// A unit comes back in six minutes, so no unit comes back while a test runs.
const POLICY: &str = "10/h burst 1000";

fn counted(store: &Store, policy: &str, interval: Duration) -> RedisLimiter {
    let settings = Settings::new(policy.parse().unwrap()).mode(Mode::Async).nodes(3).keys(100);
    RedisLimiter::new(store, settings.interval(interval)).unwrap()
}

#[tokio::test]
async fn a_hot_key_is_decided_here_and_the_store_hears_of_it() {
    let (_server, store) = started().await;
    let limiter = counted(&store, POLICY, Duration::from_millis(50));
    let start = Instant::now();
    let mut admitted = 0;
    while start.elapsed() < Duration::from_millis(500) {
        for _ in 0..10 {
            admitted += u64::from(limiter.check("key").await.is_allowed());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stats = store.stats();
    let by_counts = stats.allowed(Source::Count) + stats.denied(Source::Count);
    assert!(by_counts > 10 * stats.allowed(Source::Store), "{stats:?}");
    // A node that uses the limit alone knows all admitted units.
    assert!(admitted <= 1_000, "{admitted}");
    limiter.return_leases().await;
    assert_eq!(left(&limiter, "key").await, 1_000 - admitted);
}

#[tokio::test]
async fn a_key_that_was_not_asked_for_lately_is_decided_by_the_store() {
    let server = Server::start();
    let (one, other) = (store(&server).await, store(&server).await);
    let [one, other] = [&one, &other].map(|store| counted(store, "5/h", Duration::from_millis(10)));
    spend(&one, "key", 5).await;
    one.return_leases().await;
    let decision = other.check("key").await;
    assert_eq!((decision.source(), decision.is_allowed()), (Source::Store, false));
    // From now on this node decides by the counts in the store's answer.
    assert_eq!(other.check("key").await.source(), Source::Count);
    assert!(!other.check("key").await.is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_learn_of_each_other_and_stop() {
    let server = Server::start();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let store = store(&server).await;
        let limiter = counted(&store, POLICY, Duration::from_millis(20));
        tasks.push(tokio::spawn(async move {
            let (start, mut admitted, mut last) = (Instant::now(), 0, Instant::now());
            // The loop ends when no request has been admitted for half a second.
            while last.elapsed() < Duration::from_millis(500) {
                assert!(start.elapsed() < PATIENT);
                if limiter.check("key").await.is_allowed() {
                    (admitted, last) = (admitted + 1, Instant::now());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            limiter.return_leases().await;
            (admitted, left(&limiter, "key").await)
        }));
    }
    let mut total = 0;
    for task in tasks {
        let (admitted, left) = task.await.unwrap();
        assert_eq!(left, 0);
        total += admitted;
    }
    // Each node asks at most once in a millisecond. The counts of the other nodes lack at most the units that a node
    // admits in six intervals.
    assert!((1_000..=1_000 + 3 * 6 * 20).contains(&total), "{total}");
}

/// If the answer to a check or a report takes longer than two intervals, it lacks units that other nodes admitted
/// meanwhile.
#[tokio::test]
async fn what_a_late_answer_says_is_not_fresh() {
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let store = store_at(&proxy.address()).await;
    let (interval, late) = (Duration::from_millis(100), Duration::from_millis(210));
    let limiter = counted(&store, POLICY, interval);
    let source = async |key: &str| limiter.check(key).await.source();
    proxy.delay(late);
    assert_eq!([source("a").await, source("a").await], [Source::Store; 2]);
    // The same holds for the answer to a report. If the background task has reported this key first, the test tries
    // another key.
    for attempt in 0.. {
        assert!(attempt < 20, "the background was faster each time");
        let key = format!("b {attempt}");
        proxy.delay(Duration::ZERO);
        if [source(&key).await, source(&key).await] != [Source::Store, Source::Count] {
            continue;
        }
        proxy.delay(late);
        let start = Instant::now();
        limiter.return_leases().await;
        if start.elapsed() >= late {
            assert_eq!(source(&key).await, Source::Store);
            break;
        }
    }
}
