//! Tests of deadlines that are missed while the store works. They check the units that are admitted, and the counters
//! of missed deadlines.
//!
//! The store answers every second request too late. The store is not treated as lost, so no isolation time passes, and
//! the shares regain nothing. So at most the burst of the limit and the burst of each node's share are admitted.

use std::time::Duration;

use crate::common::proxy::Proxy;
use crate::common::server::Server;
use crate::common::{admitted, limiter, store};
use tollgate_redis::{Fault, Mode, OnError, RedisLimiter, Settings, Source, Store};

/// No unit comes back while a test runs.
const POLICY: &str = "1/d burst 9";
const NODES: u64 = 3;
/// The burst of the limit, plus three units for each node's share.
const BOUND: u64 = 9 + 3 * NODES;
/// The deadline is so long that even on a busy machine only the proxy's delay makes a request miss it.
const DEADLINE: Duration = Duration::from_millis(400);
const TOO_LATE: Duration = Duration::from_millis(600);
/// After a denial, a node with leases does not ask the store again for a second.
const PAUSE: Duration = Duration::from_millis(1_050);
/// The number of requests that miss the deadline. It is more than the units of a share.
const MISSES: u64 = 5;

/// The units that one node admits when the store answers every second request too late.
async fn admitted_by_a_node(server_port: u16, mode: Mode, on_error: OnError) -> u64 {
    let proxy = Proxy::start(server_port).await;
    let store = Store::with(&proxy.address(), DEADLINE, "test").unwrap();
    store.ready().await;
    let settings = Settings::new(POLICY.parse().unwrap()).mode(mode).nodes(NODES).keys(10);
    let limiter = RedisLimiter::new(&store, settings.on_error(on_error)).unwrap();
    let isolated = store.stats().degraded_for;
    let (mut admitted, mut without) = (0, 0);
    for _ in 0..MISSES {
        proxy.delay(TOO_LATE);
        let late = limiter.check("key").await;
        assert_eq!(late.fault(), Some(Fault::Deadline), "{mode:?}");
        proxy.delay(Duration::ZERO);
        // Waits until the late reply has come.
        tokio::time::sleep(PAUSE).await;
        let well = limiter.check("key").await;
        admitted += u64::from(late.is_allowed()) + u64::from(well.is_allowed());
        without += 1 + u64::from(well.is_degraded());
        tokio::time::sleep(PAUSE).await;
    }
    let stats = store.stats();
    // Each missed deadline is counted as that of a request that was sent, and the store is not treated as lost.
    assert_eq!((stats.missed_sent, stats.missed_in_line), (without, 0), "{mode:?}");
    assert_eq!(stats.faults(Fault::Deadline), without);
    assert_eq!((stats.connections, stats.degraded_for), (1, isolated), "{mode:?}");
    let decided = |by| stats.allowed(by) + stats.denied(by);
    assert_eq!(decided(Source::Share) + decided(Source::Rule), without, "{mode:?}");
    admitted
}

/// Takes all units that the store has, and then all units that the nodes admit without the store.
async fn all_admitted(mode: Mode, on_error: OnError) -> u64 {
    let server = Server::start();
    let direct = limiter(&store(&server).await, POLICY, mode, NODES);
    let mut sum = admitted(&direct, "key", 20).await;
    assert_eq!(sum, 9, "{mode:?}");
    let nodes: Vec<_> =
        (0..NODES).map(|_| tokio::spawn(admitted_by_a_node(server.port, mode, on_error))).collect();
    for node in nodes {
        sum += node.await.unwrap();
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_deadlines_admit_the_burst_and_each_nodes_share_of_it_and_no_more() {
    for mode in [Mode::Exact, Mode::Leased] {
        assert_eq!(all_admitted(mode, OnError::Local).await, BOUND, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_admits_whatever_misses_its_deadline_is_caught() {
    let admitted = all_admitted(Mode::Exact, OnError::Allow).await;
    assert_eq!(admitted, 9 + MISSES * NODES);
    assert!(admitted > BOUND);
}
