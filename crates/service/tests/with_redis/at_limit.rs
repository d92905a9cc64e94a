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
