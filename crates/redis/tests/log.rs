//! Sliding logs on a real server. Every node decides as one process would. The logs are asked alone, with other limits,
//! and without the server.

use std::time::Duration;

use crate::common::server::Server;
use crate::common::{limiter, named, store};
use tollgate::{DenialReason, KeyedLimiter, Policy};
use tollgate_redis::{
    Mode, OnError, RedisBuildError, RedisLimiter, Settings, Source, Store, check_all,
};

const POLICY: &str = "sliding-log 10/60d";

#[tokio::test]
async fn two_nodes_decide_by_one_log_as_one_process_does() {
    let server = Server::start();
    let stores = [store(&server).await, store(&server).await];
    let nodes = stores.each_ref().map(|store| limiter(store, POLICY, Mode::Exact, 2));
    let local = KeyedLimiter::<str>::new(POLICY.parse::<Policy>().unwrap(), 10).unwrap();
    for n in 0..12_usize {
        let cost = 1 + n as u64 % 3;
        let expected = local.check_n("key", cost);
        let decision = nodes[n % 2].check_n("key", cost).await;
        assert_eq!(decision.source(), Source::Store);
        let decision = decision.decision();
        assert_eq!(decision.is_allowed(), expected.is_allowed(), "{n}");
        assert_eq!(decision.remaining(), expected.remaining(), "{n}");
        let wait = |decision: &tollgate::Decision| decision.retry_after();
        let apart =
            wait(decision).unwrap_or_default().abs_diff(wait(&expected).unwrap_or_default());
        assert!(apart < Duration::from_secs(10), "{n}: {decision:?}, {expected:?}");
    }
    let never = nodes[0].check_n("key", 11).await.into_result().unwrap_err();
    assert_eq!(never.reason(), DenialReason::NeverFits);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_together_are_one_call_and_take_no_more_than_the_limit() {
    let server = Server::start();
    let limiter = limiter(&store(&server).await, "sliding-log 500/60d", Mode::Exact, 1);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..2_000 {
        let limiter = limiter.clone();
        tasks.spawn(async move { limiter.check("key").await.is_allowed() });
    }
    assert_eq!(tasks.join_all().await.into_iter().filter(|allowed| *allowed).count(), 500);
}

#[tokio::test]
async fn a_log_is_charged_with_other_limits_or_not_at_all_and_gives_back() {
    let server = Server::start();
    let store = store(&server).await;
    let (log, other) = (
        named(&store, "one", POLICY, Mode::Exact),
        named(&store, "other", "fixed-window 12/60d", Mode::Exact),
    );
    let both =
        async |cost| check_all(&[log.entry("key").cost(cost), other.entry("key").cost(4)]).await;
    assert!(both(3).await.is_allowed());
    let denied = both(8).await;
    assert_eq!((denied.is_allowed(), denied.into_joint().denied_by()), (false, Some(0)));
    assert!(both(1).await.is_allowed() && both(1).await.is_allowed());
    assert_eq!(both(1).await.into_joint().denied_by(), Some(1));
    assert_eq!(log.entry("key").peek(1).await.decision().remaining(), 5);
    let mut permit = log.check_n("key", 4).await.into_result().unwrap();
    assert_eq!(log.entry("key").refund(permit.split_off(3)).await, Ok(3));
    assert_eq!(log.entry("key").refund(permit).await, Ok(1));
    assert_eq!(log.entry("key").peek(1).await.decision().remaining(), 5);
}

/// A log has another key in the store than any other limit of the same name. A limit that is changed to a log starts
/// unused. When the limit is changed back, it finds its old state.
#[tokio::test]
async fn a_limit_that_becomes_a_log_begins_anew_and_harms_no_other() {
    let server = Server::start();
    let store = store(&server).await;
    let (log, window) = (
        named(&store, "one", POLICY, Mode::Exact),
        named(&store, "one", "fixed-window 10/60d", Mode::Exact),
    );
    assert!(window.check_n("key", 7).await.is_allowed());
    assert!(log.check_n("key", 10).await.is_allowed());
    assert!(!log.check("key").await.is_allowed());
    assert_eq!(window.entry("key").peek(1).await.decision().remaining(), 3);
    // With another limit and window, the log keeps its units.
    let larger = named(&store, "one", "sliding-log 12/61d", Mode::Exact);
    assert_eq!(larger.entry("key").peek(1).await.decision().remaining(), 2);
    assert_eq!(store.stats().broken, 0);
}

#[tokio::test]
async fn only_mode_exact_keeps_a_log() {
    for mode in [Mode::Leased, Mode::Async] {
        let error = Settings::new(POLICY.parse().unwrap()).mode(mode).check().unwrap_err();
        assert!(matches!(error, RedisBuildError::OnlyExact { .. }), "{error}");
    }
}

/// A server is killed, and comes back empty. Each node admits its share, and afterwards the log starts unused. So at
/// most the limit, two shares, and the limit once more for the loss are admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_server_a_log_admits_each_nodes_share_and_no_more() {
    let mut server = Server::start();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let store = Store::with(&server.address(), Duration::from_millis(500), "test").unwrap();
        store.ready().await;
        nodes.push(limiter(&store, POLICY, Mode::Exact, 2));
    }
    let ask = async |times: u64| {
        let mut admitted = 0;
        for n in 0..times {
            let node = &nodes[usize::from(n % 2 == 0)];
            admitted += u64::from(node.check("key").await.is_allowed());
        }
        admitted
    };
    assert_eq!(ask(30).await, 10);
    server.kill();
    assert_eq!(ask(30).await, 10, "five of each node");
    assert_eq!(ask(30).await, 0);
    tokio::task::block_in_place(|| server.restart());
    let start = std::time::Instant::now();
    let mut admitted = 0;
    while admitted < 10 {
        admitted += ask(2).await;
        assert!(start.elapsed() < crate::common::PATIENT, "{admitted}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((admitted, ask(30).await), (10, 0));
}

/// There is no server from the start, so `OnError` decides.
#[tokio::test]
async fn without_a_server_a_log_decides_by_the_setting() {
    for (on_error, admitted) in [(OnError::Deny, 0), (OnError::Allow, 30), (OnError::Local, 5)] {
        let store = Store::open("redis://127.0.0.1:1/").unwrap();
        let settings = Settings::new(POLICY.parse().unwrap()).mode(Mode::Exact).nodes(2);
        let limiter = RedisLimiter::new(&store, settings.on_error(on_error)).unwrap();
        let mut count = 0;
        for _ in 0..30 {
            count += u64::from(limiter.check("key").await.is_allowed());
        }
        assert_eq!(count, admitted, "{on_error:?}");
    }
}

/// Bad input 123, for a log: four more rights are enough.
#[tokio::test]
async fn bad_input_123_a_user_with_few_rights_keeps_a_log() {
    let server = Server::start();
    let rules = "ACL SETUSER limiter on >secret ~test:* -@all +script|load +evalsha +eval +time +get +set +hello \
                 +client +getrange +setrange +strlen +pexpire";
    server.run::<()>(&rules.split_whitespace().collect::<Vec<_>>());
    let address = format!("redis://limiter:secret@127.0.0.1:{}/", server.port);
    let store = Store::with(&address, crate::common::PATIENT, "test").unwrap();
    store.ready().await;
    let log = limiter(&store, "sliding-log 50/60d", Mode::Exact, 1);
    for _ in 0..50 {
        let decision = log.check("key").await;
        assert_eq!((decision.source(), decision.is_allowed()), (Source::Store, true));
    }
    let permit = log.check_n("other", 7).await.into_result().unwrap();
    assert_eq!(log.entry("other").refund(permit).await, Ok(7));
}
