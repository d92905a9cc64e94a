//! Tests how hits near and over a limit in Redis are counted in the metrics with the names of envoyproxy/ratelimit.

use serde_json::json;
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::{Global, MetricsNames, Options};

use crate::common::near_over::{RULES, figures, hold};
use crate::common::{World, descriptor, request};
use crate::server::Server;

async fn serve(test: &str, rules: &str, server: &Server, compat: bool) -> World {
    let global = Global { nodes: 1, ..crate::one_of_two(server.address()) };
    let settings = RuleSettings { compat, ..RuleSettings::default() };
    let metrics_names = MetricsNames::Envoyproxy;
    let more = |options| Options { metrics_names, settings, ..options };
    crate::serve_connected(test, rules, global, more).await
}

#[tokio::test]
async fn the_metrics_of_envoyproxy_ratelimit_split_the_hits_of_a_request() {
    for compat in [false, true] {
        let server = Server::start();
        hold(&serve(&format!("near_over_redis_{compat}"), RULES, &server, compat).await).await;
    }
}

/// The first denial asks Redis, and later ones do not, as with the local cache of envoyproxy/ratelimit.
#[tokio::test]
async fn what_a_lease_denies_is_counted_as_of_the_local_cache() {
    let server = Server::start();
    let leased = RULES.replace("accuracy: exact, ", "");
    let world = serve("near_over_leased", &leased, &server, false).await;
    let client = json!([{"ten": "x"}]);
    for _ in 0..10 {
        assert!(world.check("d", &client, 1).await.0);
    }
    for _ in 0..5 {
        assert!(!world.check("d", &client, 1).await.0);
    }
    assert_eq!(figures(&world, "ten").await, [15, 10, 2, 5, 0, 4]);
}

#[tokio::test]
async fn a_cost_that_is_denied_and_charged_is_split_by_what_was_left_before() {
    for compat in [false, true] {
        let server = Server::start();
        let used = RULES.replace("{key: ten,", "{key: ten, usage: true,");
        let world = serve(&format!("near_over_used_{compat}"), &used, &server, compat).await;
        for hits in [0, 10, 5] {
            let own = descriptor(&[("ten", "x")]);
            let asked = RateLimitDescriptor { hits_addend: Some(hits), ..own };
            world.ask(request("d", &[asked])).await;
        }
        assert_eq!(figures(&world, "ten").await, [15, 10, 2, 5, 0, 0], "compat {compat}");
    }
}
