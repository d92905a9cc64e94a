//! Tests rules with settings for requests at the limit, kept in Redis: two services decide like a single service.

use crate::common::World;
use crate::server::Server;
use serde_json::json;

/// The windows are so long that no unit comes back while a test runs.
const RULES: &str = "
domain: shop
descriptors:
  - {key: exact, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: leased, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: counted, accuracy: async, rate_limit: {unit: year, requests_per_unit: 10, mode: soft 50%}}
  - {key: rejected, accuracy: exact, rate_limit: {unit: day, requests_per_unit: 4, algorithm: gcra, count_rejected: true}}
  - {key: strict, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 4, penalty: 800d after 3}}
  - {key: logged, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 5, algorithm: sliding-log}}
";

async fn serve(test: &str, server: &Server) -> World {
    crate::serve_connected(test, RULES, crate::one_of_two(server), |options| options).await
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
    // The units that the first service has admitted are also spent at the second.
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
    // Each denial is charged like an admission. So the wait grows, at most to the time in which the whole limit comes
    // back.
    let mut waits = Vec::new();
    for n in 0..5 {
        let (allowed, seconds) = ask(n, "rejected").await;
        assert!(!allowed);
        waits.push(seconds.div_ceil(hour));
    }
    assert_eq!(waits, [12, 18, 24, 24, 24]);
    // The third denial in a row brings a penalty, whichever service denies.
    let mut waits = Vec::new();
    for n in 0..3 {
        let (allowed, seconds) = ask(n, "strict").await;
        assert!(!allowed);
        waits.push(seconds > 799 * 24 * hour);
    }
    assert_eq!(waits, [false, false, true]);
}

#[tokio::test]
async fn two_services_share_one_sliding_log() {
    let server = Server::start();
    let worlds = [serve("log_a", &server).await, serve("log_b", &server).await];
    let mut admitted = 0;
    for n in 0..12 {
        let (allowed, statuses) = worlds[n % 2].check("shop", &json!([{"logged": "x"}]), 1).await;
        admitted += u64::from(allowed);
        assert_eq!(statuses[0]["remaining"], json!(4_usize.saturating_sub(n)));
    }
    assert_eq!(admitted, 5);
    // If a request falls under two rules of different kinds, either both are charged or none.
    let both = json!([{"logged": "y"}, {"strict": "y"}]);
    assert!(worlds[0].check("shop", &both, 3).await.0);
    assert!(!worlds[1].check("shop", &both, 2).await.0);
    assert!(worlds[1].check("shop", &json!([{"logged": "y"}]), 2).await.0);
}
