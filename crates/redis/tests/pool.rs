//! A pool that nodes share, on a real server. The tests check how much all nodes lend together when some of them
//! report, die or lose the store.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::cluster::Cluster;
use crate::common::server::Server;
use crate::common::{PATIENT, limiter, started, store, store_at, until};
use tokio::task::JoinHandle;
use tollgate::{Denial, KeyedLimiter, Quota};
use tollgate_redis::{Mode, OnError, RedisBuildError, Settings, SharedPool, Source, Store};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

fn settings(policy: &str) -> Settings {
    Settings::new(policy.parse().unwrap()).name("spare").mode(Mode::Exact).on_error(OnError::Deny)
}

fn pool(store: &Store, policy: &str, ttl: Duration) -> SharedPool {
    SharedPool::new(store, settings(policy), ttl).unwrap()
}

/// Makes `count` nodes of one pool, each with its own connection.
async fn nodes(
    server: &Server,
    settings: &Settings,
    count: usize,
    ttl: Duration,
) -> Vec<SharedPool> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(SharedPool::new(&store(server).await, settings.clone(), ttl).unwrap());
    }
    nodes
}

/// Lets each node report a headroom, and then lets all nodes learn of all reports.
async fn report(nodes: &[SharedPool], headrooms: &[f64]) {
    for (node, headroom) in nodes.iter().zip(headrooms) {
        node.report_headroom(*headroom).unwrap();
        node.refresh().await.unwrap();
    }
    for node in nodes {
        node.refresh().await.unwrap();
    }
}

/// A denial, which comes from a local limit of ten units with none left.
fn denial(cost: u64) -> Denial {
    let limiter = KeyedLimiter::<str>::new(Quota::per_day(10), 100).unwrap();
    assert!(limiter.check_n("alice", 10).is_allowed());
    limiter.check_n("alice", cost).into_result().unwrap_err()
}

/// The number of units that the pool lends to this many requests.
async fn lent(pool: &SharedPool, cost: u64, requests: usize) -> u64 {
    let (denial, mut units) = (denial(cost), 0);
    for _ in 0..requests {
        units += pool.lend(&denial).await.map_or(0, |_| cost);
    }
    units
}

#[tokio::test]
async fn all_nodes_together_lend_the_pool_at_the_least_headroom() {
    for (headrooms, units) in [([1.0, 0.5, 0.75], 32), ([1.0, 1.0, 1.0], 64), ([1.0, 0.0, 1.0], 0)]
    {
        let server = Server::start();
        let nodes = nodes(&server, &settings("64/30d"), 3, LONG).await;
        assert_eq!(nodes.iter().map(SharedPool::headroom).collect::<Vec<_>>(), [None; 3]);
        report(&nodes, &headrooms).await;
        let least = headrooms.into_iter().reduce(f64::min);
        assert!(nodes.iter().all(|node| node.headroom() == least));
        let [a, b, c] = &nodes[..] else { panic!() };
        let lent = tokio::join!(lent(a, 2, 40), lent(b, 2, 40), lent(c, 2, 40));
        assert_eq!(lent.0 + lent.1 + lent.2, units, "{headrooms:?}");
    }
}

#[tokio::test]
async fn loans_from_leases_are_no_more_than_the_pool_either() {
    let server = Server::start();
    let settings = settings("640/30d").mode(Mode::Leased).nodes(3);
    let nodes = nodes(&server, &settings, 3, LONG).await;
    report(&nodes, &[0.5, 1.0, 1.0]).await;
    let [a, b, c] = &nodes[..] else { panic!() };
    let lent = tokio::join!(lent(a, 1, 500), lent(b, 1, 500), lent(c, 1, 500));
    let lent = lent.0 + lent.1 + lent.2;
    // Each node's lease may have a rest of parts that is too small for a loan.
    assert!((316..=320).contains(&lent), "{lent}");
}

#[tokio::test]
async fn loans_that_are_counted_here_stop_when_the_nodes_know_of_each_other() {
    let server = Server::start();
    let settings = settings("64/30d").mode(Mode::Async).interval(Duration::from_millis(10));
    let nodes = nodes(&server, &settings, 2, LONG).await;
    report(&nodes, &[0.5, 1.0]).await;
    assert_eq!(lent(&nodes[0], 1, 40).await, 32);
    // The other node may lend until it hears of these loans.
    let (start, mut others) = (Instant::now(), 0);
    loop {
        match lent(&nodes[1], 1, 1).await {
            0 => break,
            units => others += units,
        }
        assert!(others <= 32 && start.elapsed() < PATIENT, "{others}");
    }
    assert_eq!(lent(&nodes[0], 1, 5).await + lent(&nodes[1], 1, 5).await, 0);
}

#[tokio::test]
async fn a_report_mints_nothing_however_often_the_headroom_changes() {
    let server = Server::start();
    let nodes = nodes(&server, &settings("32/30d"), 2, Duration::from_millis(100)).await;
    report(&nodes, &[0.5]).await;
    assert_eq!(lent(&nodes[1], 1, 40).await, 16);
    for headroom in [1.0, 0.25, 0.75, 1.0] {
        let is_heard = async || {
            report(&nodes, &[headroom]).await;
            nodes[1].headroom() == Some(headroom)
        };
        until("the headroom is heard of", is_heard).await;
        assert_eq!(lent(&nodes[1], 1, 2).await, 0);
    }
}

#[tokio::test]
async fn limits_here_and_in_the_store_borrow_what_they_deny_for_now() {
    let (_server, store) = started().await;
    let pool = pool(&store, "64/30d", LONG);
    report(from_ref(&pool), &[1.0]).await;
    let clients = limiter(&store, "3/d", Mode::Exact, 1);
    assert!(clients.check_n("alice", 3).await.is_allowed());
    for (cost, is_lent) in [(1, true), (3, true), (4, false)] {
        let denial = clients.check_n("alice", cost).await.into_result().unwrap_err();
        assert_eq!(pool.lend(&denial).await.is_some(), is_lent, "{cost}");
    }
    // A cost above the client's own limit never fits, and is not lent.
    assert_eq!((lent(&pool, 10, 2).await, lent(&pool, 11, 2).await), (20, 0));
}

#[tokio::test]
async fn a_loan_is_given_back() {
    let server = Server::start();
    let pool = pool(&store(&server).await, "64/30d", LONG);
    report(from_ref(&pool), &[0.5]).await;
    let ten = denial(10);
    for _ in 0..9 {
        let loan = pool.lend(&ten).await.unwrap();
        pool.give_back(loan).await.unwrap();
    }
    assert_eq!(lent(&pool, 10, 4).await + lent(&pool, 2, 4).await, 32);
}

#[tokio::test]
async fn a_node_that_stops_reporting_leaves_after_the_time_to_live() {
    let server = Server::start();
    let ttl = Duration::from_secs(1);
    let (busy, idle) =
        (pool(&store(&server).await, "64/d", ttl), pool(&store(&server).await, "64/d", ttl));
    // No node has reported, so nothing is lent, and the pool counts that.
    idle.refresh().await.unwrap();
    assert_eq!((idle.headroom(), lent(&idle, 1, 3).await, idle.unknown()), (None, 0, 3));
    report(&[busy], &[0.25]).await;
    let mut seen = Vec::new();
    let has_left = async || {
        report(from_ref(&idle), &[1.0]).await;
        let news = idle.headroom().filter(|headroom| seen.last() != Some(headroom));
        seen.extend(news);
        seen.last() == Some(&1.0)
    };
    until("the busy node has left", has_left).await;
    assert_eq!(seen, [0.25, 1.0]);
    // When its own report is older than the time to live, a node does not lend by that report either.
    let is_too_old = async || {
        idle.refresh().await.unwrap();
        idle.headroom().is_none()
    };
    until("its own report is too old", is_too_old).await;
}

#[tokio::test]
async fn without_the_store_nothing_is_lent_or_the_nodes_share_until_the_headroom_is_too_old() {
    let (mut server, store) = started().await;
    let named = |name: &str| settings("64/30d").name(name).nodes(4);
    let denies = SharedPool::new(&store, named("denies"), LONG).unwrap();
    let local = SharedPool::new(&store, named("local").on_error(OnError::Local), LONG).unwrap();
    let forgets = SharedPool::new(&store, named("forgets"), Duration::from_millis(100)).unwrap();
    for pool in [&denies, &local, &forgets] {
        report(from_ref(pool), &[0.5]).await;
    }
    server.kill();
    assert_eq!(lent(&denies, 1, 20).await, 0);
    assert_eq!(store.stats().denied(Source::Rule), 20);
    // The node's share is half of the pool. At a headroom of a half, half of that share can be lent, which is a quarter
    // of the pool.
    assert_eq!(lent(&local, 1, 20).await, 8);
    until("the headroom is too old", async || forgets.headroom().is_none()).await;
    assert_eq!((lent(&forgets, 1, 5).await, forgets.unknown()), (0, 5));
    // A store that comes back empty has no reports, so nothing is lent until a node reports.
    server.restart();
    store.ready().await;
    denies.refresh().await.unwrap();
    assert_eq!((denies.headroom(), lent(&denies, 1, 5).await), (None, 0));
    report(from_ref(&denies), &[0.25]).await;
    assert_eq!(lent(&denies, 1, 20).await, 16);
}

/// Three nodes report a headroom, and lend as many units as they can. Meanwhile the server is killed and restarted
/// three times, each time after nine tenths of the available units are lent. Returns the number of units lent, and the
/// number that the pool may lend in that time at half of its headroom.
async fn under_faults(headroom: f64, units_of_a_life: u64) -> (u64, u64) {
    const FAULTS: u64 = 3;
    let mut server = Server::start();
    let start = Instant::now();
    let nodes = nodes(&server, &settings("1/s burst 200"), 3, Duration::from_secs(1)).await;
    let lent = Arc::new(AtomicU64::new(0));
    let work = nodes.into_iter().map(|node| {
        let lent = Arc::clone(&lent);
        tokio::spawn(async move {
            let denial = denial(2);
            loop {
                node.report_headroom(headroom).unwrap();
                if node.lend(&denial).await.is_some() {
                    lent.fetch_add(2, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
            }
        })
    });
    let work: Vec<_> = work.collect();
    for life in 0..=FAULTS {
        let before = lent.load(Ordering::SeqCst);
        while lent.load(Ordering::SeqCst) < before + units_of_a_life * 9 / 10 {
            assert!(start.elapsed() < 3 * PATIENT, "life {life}: {lent:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if life < FAULTS {
            server.kill();
            server.restart();
        }
    }
    work.iter().for_each(JoinHandle::abort);
    for task in work {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    let (units, seconds) = (lent.load(Ordering::SeqCst), start.elapsed().as_secs() + 1);
    (units, (200 * (1 + FAULTS) + seconds).div_ceil(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_lent_while_the_store_dies_and_comes_back_empty() {
    let (units, bound) = under_faults(0.5, 100).await;
    assert!(units <= bound, "{units} of {bound}");
}

/// The negative control: these nodes lend by twice the headroom that the audit assumes.
#[tokio::test(flavor = "multi_thread")]
async fn lending_by_twice_the_headroom_is_caught() {
    let (units, bound) = under_faults(1.0, 200).await;
    assert!(units > bound, "{units} of {bound}");
}

/// In a cluster all words of a pool are on one node, which the name of the pool determines.
#[tokio::test]
async fn a_pool_in_a_cluster_is_where_its_name_is() {
    let cluster = Cluster::start();
    for name in cluster.client_on_each() {
        let mut nodes = Vec::new();
        for _ in 0..2 {
            let store = store_at(&cluster.address()).await;
            let settings = settings("64/30d").name(&name);
            nodes.push(SharedPool::new(&store, settings, LONG).unwrap());
        }
        report(&nodes, &[0.25, 1.0]).await;
        assert_eq!(lent(&nodes[0], 1, 7).await + lent(&nodes[1], 1, 20).await, 16, "{name}");
    }
}

#[tokio::test]
async fn a_large_pool_counts_in_coarser_parts_and_lends_no_more() {
    let (_server, store) = started().await;
    let pool = pool(&store, "1000000/s burst 1000000000", LONG);
    report(from_ref(&pool), &[0.5]).await;
    assert_eq!(lent(&pool, 10, 10).await, 100);
    let error = SharedPool::new(&store, settings("10/s soft 10%"), LONG).unwrap_err();
    assert!(matches!(error, RedisBuildError::Setting { setting: "policy of a pool", .. }));
    let error =
        SharedPool::new(&store, settings("10/s").on_error(OnError::Allow), LONG).unwrap_err();
    assert_eq!(error.to_string(), "on_error of a pool is out of range; use Local or Deny");
    let error = SharedPool::new(&store, settings("10/s"), Duration::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "time to live of a report is out of range; use 100 ms to 1 h");
}
