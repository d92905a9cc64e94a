//! Sliding logs on a real server: their keys, and the rights that they need.

use crate::common::server::Server;
use crate::common::{left, limiter, named, spend, started, store_at};
use tollgate_redis::{Mode, Source};

const POLICY: &str = "sliding-log 10/60d";

/// A log has another key in the store than any other limit of the same name. A limit that is changed to a log starts
/// unused. When the limit is changed back, it finds its old state.
#[tokio::test]
async fn a_limit_that_becomes_a_log_begins_anew_and_harms_no_other() {
    let (_server, store) = started().await;
    let (log, window) = (
        named(&store, "one", POLICY, Mode::Exact),
        named(&store, "one", "fixed-window 10/60d", Mode::Exact),
    );
    assert!(window.check_n("key", 7).await.is_allowed());
    assert!(log.check_n("key", 10).await.is_allowed());
    assert!(!log.check("key").await.is_allowed());
    assert_eq!(left(&window, "key").await, 3);
    // With another limit and window, the log keeps its units.
    let larger = named(&store, "one", "sliding-log 12/61d", Mode::Exact);
    assert_eq!(left(&larger, "key").await, 2);
    assert_eq!(store.stats().broken, 0);
}

/// Bad input 123, for a log: four more rights are enough.
#[tokio::test]
async fn bad_input_123_a_user_with_few_rights_keeps_a_log() {
    let server = Server::start();
    let rules = "ACL SETUSER limiter on >secret ~test:* -@all +script|load +evalsha +eval +time +get +set +hello \
                 +client +getrange +setrange +strlen +pexpire";
    server.run::<()>(&rules.split_whitespace().collect::<Vec<_>>());
    let address = format!("redis://limiter:secret@127.0.0.1:{}/", server.port);
    let store = store_at(&address).await;
    let log = limiter(&store, "sliding-log 50/60d", Mode::Exact, 1);
    spend(&log, "key", 50).await;
    assert_eq!(store.stats().allowed(Source::Store), 50);
    let permit = log.check_n("other", 7).await.into_result().unwrap();
    assert_eq!(log.entry("other").refund(permit).await, Ok(7));
}
