//! Rules that say what happens at the limit, kept in Redis: two services decide them as one.

use std::time::Duration;

use crate::common::World;
use crate::server::Server;
use serde_json::json;
use tollgate_service::{Global, Options};

/// Windows of a year: no unit comes back while a test runs.
const RULES: &str = "
domain: shop
descriptors:
  - {key: exact, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: leased, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: counted, accuracy: async, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: rejected, accuracy: exact, rate_limit: {unit: day, requests_per_unit: 4, algorithm: gcra, count_rejected: true}}
  - {key: strict, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 4, penalty: 800d after 3}}
";

async fn serve(test: &str, server: &Server) -> World {
    let global =
        Global { nodes: 2, deadline: Duration::from_secs(10), ..Global::new(server.address()) };
    let with_store = |options| Options { global: Some(global), ..options };
    let world = crate::common::serve_with(test, RULES, with_store).await;
    world.until("tollgate_store_degraded 0").await;
    world
}

#[tokio::test]
async fn a_soft_rule_admits_its_share_more_over_redis() {
    let server = Server::start();
    let worlds = [serve("soft_a", &server).await, serve("soft_b", &server).await];
    for rule in ["exact", "leased", "counted"] {
        let mut admitted = 0;
        for _ in 0..20 {
            admitted += u64::from(worlds[0].check("shop", &json!([{rule: "x"}]), 1).await.0);
        }
        assert_eq!(admitted, 15, "{rule}");
    }
    // What the first has admitted, the second has not.
    assert!(!worlds[1].check("shop", &json!([{"exact": "x"}]), 1).await.0);
}

#[tokio::test]
async fn two_services_count_the_denials_of_a_client_together() {
    let server = Server::start();
    let worlds = [serve("denials_a", &server).await, serve("denials_b", &server).await];
    let ask = async |n: usize, rule: &str| {
        let (allowed, statuses) = worlds[n % 2].check("shop", &json!([{rule: "x"}]), 1).await;
        (allowed, statuses[0]["retry_after"].as_u64().unwrap_or_default())
    };
    let hour = 3_600;
    for rule in ["rejected", "strict"] {
        for n in 0..4 {
            assert!(ask(n, rule).await.0, "{rule}");
        }
    }
    // Each denial is charged as if it had been admitted, up to the time in which the whole limit comes back.
    let mut waits = Vec::new();
    for n in 0..5 {
        let (allowed, seconds) = ask(n, "rejected").await;
        assert!(!allowed);
        waits.push(seconds.div_ceil(hour));
    }
    assert_eq!(waits, [12, 18, 24, 24, 24]);
    // The third denial in a row is a penalty, whichever service denies.
    let mut waits = Vec::new();
    for n in 0..3 {
        let (allowed, seconds) = ask(n, "strict").await;
        assert!(!allowed);
        waits.push(seconds > 799 * 24 * hour);
    }
    assert_eq!(waits, [false, false, true]);
}
