//! Tests the answers over HTTP and gRPC to clients that have no cell because the table is full, and the log and the
//! counters.

use std::time::Duration;

use prost_types::value::Kind;
use serde_json::json;
use tollgate_service::protocol::rls::RateLimitResponse;
use tollgate_service::protocol::rls::rate_limit_response::Code;

use crate::common::reports::LogLines;
use crate::common::{World, descriptor, request, serve_on_clock};

fn rules(word: &str) -> String {
    format!(
        "domain: full\ndescriptors:\n  - {{key: user, capacity: 10, on_full: {word}, rate_limit: {{unit: hour, \
         requests_per_unit: 100}}}}\n"
    )
}

/// Asks once as each of a hundred clients.
async fn crowd(world: &World, name: &str) {
    for n in 0..100 {
        world.check("full", &json!([{ "user": format!("{name} {n}") }]), 1).await;
    }
}

async fn over_grpc(world: &World, user: &str) -> RateLimitResponse {
    world.ask(request("full", &[descriptor(&[("user", user)])])).await
}

/// The reason in an answer over gRPC: in the header, and in the dynamic metadata.
fn reasons(response: &RateLimitResponse) -> [Option<String>; 2] {
    let mut headers = response.response_headers_to_add.iter();
    let header = headers.find(|header| header.key == "X-Tollgate-Reason");
    let fields = response.dynamic_metadata.as_ref().map(|metadata| &metadata.fields);
    let metadata = fields.and_then(|fields| match fields.get("reason")?.kind.as_ref()? {
        Kind::StringValue(text) => Some(text.clone()),
        _ => None,
    });
    [header.map(|header| header.value.clone()), metadata]
}

#[tokio::test]
async fn a_client_that_has_just_come_is_never_told_that_it_is_over_its_limit() {
    for (word, allowed, reason, metric) in [
        ("deny", false, "table_full_denied", "full_denied"),
        ("allow", true, "table_full_spilled", "spilled"),
        ("spill", true, "table_full_spilled", "spilled"),
    ] {
        let test = format!("never_told_{word}");
        let (world, _) = serve_on_clock(&test, &rules(word), |options| options).await;
        crowd(&world, "stranger").await;
        let (found, statuses) = world.check("full", &json!([{ "user": "newcomer" }]), 1).await;
        assert_eq!((found, &statuses[0]["reason"]), (allowed, &json!(reason)));
        let response = over_grpc(&world, "another").await;
        assert_eq!(response.overall_code() == Code::Ok, allowed);
        assert_eq!(reasons(&response), [(); 2].map(|()| Some(reason.to_owned())));
        // The answer to a client with a cell does not mention the full table.
        let (_, statuses) = world.check("full", &json!([{ "user": "stranger 0" }]), 1).await;
        assert_eq!(statuses[0].get("reason"), None);
        assert_eq!(reasons(&over_grpc(&world, "stranger 0").await), [None, None]);
        let series = format!(r#"tollgate_rule_{metric}_total{{domain="full",rule="user"}}"#);
        let count = world.metric(&series).await.and_then(|count| count.parse::<u64>().ok());
        assert!(count.is_some_and(|count| count > 50), "{series} {count:?}");
    }
}

#[tokio::test]
async fn a_full_table_is_a_warning_at_most_once_a_minute() {
    let (log, _guard) = LogLines::begin();
    let (world, clock) =
        serve_on_clock("full_is_a_warning", &rules("deny"), |options| options).await;
    let warnings = || -> Vec<String> {
        let warned = log.lines().into_iter().filter(|line| line["level"] == "WARN");
        let texts = warned.map(|line| line["message"].as_str().expect("text").to_owned());
        texts.filter(|text| text.starts_with("full.")).collect()
    };
    let told = async |seconds: u64| {
        clock.advance(Duration::from_secs(seconds));
        crowd(&world, &format!("at {seconds}")).await;
        warnings().len()
    };
    assert_eq!([told(0).await, told(59).await, told(1).await, told(30).await], [1, 1, 2, 2]);
    assert_eq!(
        warnings()[0],
        "full.user: its table for 10 clients is full; of the hits of clients without a cell 0 were decided in \
         the spill, 1 denied and 0 admitted; raise its capacity"
    );
}
