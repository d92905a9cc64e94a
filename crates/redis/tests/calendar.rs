//! Tests of windows of the calendar in each mode, on a real server, whose clock determines the window.

use std::time::Duration;

use crate::common::load::MODES;
use crate::common::server::Server;
use crate::common::{nodes, started};
use tollgate::{Limiter, Policy};
use tollgate_redis::{Mode, RedisLimiter, Settings};

#[tokio::test]
async fn nodes_share_a_window_of_the_calendar_and_know_when_it_ends() {
    let server = Server::start();
    let kinds = [("month", "", 0), ("year", "", 1), ("week", "", 2), ("week", " from-sunday", 8)];
    for (mode, (name, from, number)) in
        MODES.into_iter().flat_map(|mode| kinds.map(|kind| (mode, kind)))
    {
        let policy = format!("calendar-{name} 30{from}");
        server.run::<()>(&["FLUSHALL"]);
        // In mode `async`, several nodes may admit more before they hear of each other.
        let count = if mode == Mode::Async { 1 } else { 3 };
        let nodes = nodes(&server, &policy, mode, count).await;
        let mut admitted = 0;
        for node in nodes.iter().cycle().take(60) {
            admitted += u32::from(node.check("key").await.is_allowed());
            node.return_leases().await;
        }
        assert_eq!(admitted, 30, "{policy} {mode:?}");
        let denial = nodes[0].check_n("key", 30).await.into_result().unwrap_err();
        // The core answers by this machine's clock, which is also the server's clock.
        let here = Limiter::new(policy.parse::<Policy>().unwrap());
        let ends_in = here.check().reset_after();
        let wait = denial.retry_after().unwrap();
        assert!(
            wait.abs_diff(ends_in) < Duration::from_secs(5),
            "{policy} {mode:?}: {wait:?} {ends_in:?}"
        );
        let stored: String = server.run(&["GET", "test:default:{key}"]);
        assert!(stored.starts_with(&format!("7 1 1 30 {number} ")), "{stored}");
    }
}

#[tokio::test]
async fn every_verb_knows_months() {
    let (server, store) = started().await;
    for mode in MODES {
        let settings = Settings::new("calendar-month 10 soft 20%".parse().unwrap());
        let settings = settings.mode(mode).name(format!("{mode:?}"));
        let limiter = RedisLimiter::new(&store, settings).unwrap();
        let permit = limiter.check_n("key", 8).await.into_result().unwrap();
        assert_eq!(limiter.entry("key").refund(permit.portion(3)).await, Ok(3), "{mode:?}");
        limiter.entry("key").reset().await.unwrap();
        assert_eq!(limiter.entry("key").charge(9).await, Ok(0), "{mode:?}");
        let taken = limiter.entry("key").take_up_to(9).await.into_result().unwrap();
        assert_eq!((taken.permit().cost(), taken.permit().is_over()), (3, true), "{mode:?}");
        // A month takes what fits.
        assert_eq!(limiter.entry("key").charge(9).await, Ok(9), "{mode:?}");
        let keys: Vec<String> = server.run(&["KEYS", "*"]);
        for key in keys {
            let expires_ms: i64 = server.run(&["PTTL", &key]);
            // -1 means that a key never expires. A store's probe may have expired since the keys were listed, which
            // gives -2.
            assert_ne!(expires_ms, -1, "{key}");
            assert!(expires_ms <= 31 * 86_400_000, "{key}: {expires_ms}");
        }
    }
}
