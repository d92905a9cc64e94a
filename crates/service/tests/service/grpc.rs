//! Tests Envoy's protocol over a real socket. The letters and numbers in the names of tests refer to the scenarios in
//! `scenarios.rs`.

use crate::common::{RULES, World, codes, descriptor, request, serve};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::{
    RateLimitDescriptor, rate_limit_descriptor::RateLimitOverride,
};
use tollgate_service::protocol::rls::RateLimitRequest;
use tollgate_service::protocol::rls::rate_limit_response::{Code, rate_limit::Unit};
use tonic::Code as Grpc;

async fn world(test: &str) -> World {
    serve(test, RULES, RuleSettings::default()).await
}

#[tokio::test]
async fn a1_what_no_rule_matches_has_no_limit_and_an_unknown_domain_is_counted() {
    let world = world("a1").await;
    // A descriptor without entries does not affect the others.
    let asked = [descriptor(&[]), descriptor(&[("key3", "x")]), descriptor(&[("", "")])];
    let response = world.ask(request("basic", &asked)).await;
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(codes(&response), [(Code::Ok, 0), (Code::Ok, 9), (Code::Ok, 0)]);
    // The second domain is known, but none of its rules matches.
    for domain in ["foo", "basic"] {
        let response = world.ask(request(domain, &[descriptor(&[("hello", "world")])])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![(Code::Ok, 0)]));
        assert!(response.statuses[0].current_limit.is_none());
        assert!(response.response_headers_to_add.is_empty());
        assert_eq!(world.metric("tollgate_domain_not_found_total").await.as_deref(), Some("1"));
    }
}

#[tokio::test]
async fn a2_a_status_says_the_limit_what_is_left_when_it_is_whole_again_and_the_metadata() {
    let world = world("a2").await;
    let asked = [
        descriptor(&[("key1", "foo")]),
        descriptor(&[("key3", "foo")]),
        descriptor(&[("free", "x")]),
    ];
    let response = world.ask(request("basic", &asked)).await;
    let [second, year, free] = &response.statuses[..] else { panic!("three") };
    let limit = second.current_limit.as_ref().expect("a limit");
    assert_eq!(
        (limit.requests_per_unit, limit.unit(), second.limit_remaining),
        (50, Unit::Second, 49)
    );
    assert_eq!(second.duration_until_reset.map(|wait| (wait.seconds, wait.nanos)), Some((1, 0)));
    assert_eq!(year.current_limit.as_ref().map(|limit| limit.name.as_str()), Some("ten"));
    assert_eq!((free.limit_remaining, &free.current_limit), (u32::MAX, &None));
    let headers = response.response_headers_to_add.iter();
    let headers: Vec<_> = headers.map(|h| (h.key.as_str(), h.value.as_str())).collect();
    assert_eq!(headers[..2], [("RateLimit-Limit", "10"), ("RateLimit-Remaining", "9")]);
    assert_eq!(headers[2].0, "RateLimit-Reset");
    // The window of a limit is told in Envoy's units, where it has one.
    let asked = ["half", "odd", "told"].map(|key| descriptor(&[(key, "x")]));
    let response = world.ask(request("basic", &asked)).await;
    let limits = response.statuses.iter().filter_map(|status| status.current_limit.as_ref());
    let units: Vec<Unit> = limits.map(|limit| limit.unit()).collect();
    assert_eq!(units, [Unit::Month, Unit::Unknown, Unit::Year]);
    let metadata = response.dynamic_metadata.expect("metadata");
    let text = format!("{:?}", metadata.fields["metadata"]);
    assert!(text.contains("gold") && text.contains("NumberValue(1.0)"), "{text}");
}

#[tokio::test]
async fn limits_and_hits_that_come_with_a_descriptor_count() {
    let world = world("limits_and_hits_that_come_with_a_descriptor_count").await;
    let with = |unit, requests_per_unit, hits_addend| RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit, unit }),
        hits_addend,
        ..descriptor(&[("own", "x")])
    };
    for (unit, requests, expected) in [(4, 10, Unit::Day), (7, 42, Unit::Week)] {
        let response = world.ask(request("basic", &[with(unit, requests, None)])).await;
        let limit = response.statuses[0].current_limit.as_ref().expect("a limit");
        assert_eq!((limit.requests_per_unit, limit.unit()), (requests, expected));
    }
    for (hits, expected) in [
        (Some(0), (Code::Ok, 42)),
        (Some(40), (Code::Ok, 2)),
        (Some(3), (Code::OverLimit, 2)),
        (Some(u64::MAX), (Code::OverLimit, 2)),
        (None, (Code::Ok, 1)),
    ] {
        let response = world.ask(request("basic", &[with(6, 42, hits)])).await;
        assert_eq!(codes(&response), [expected], "{hits:?}");
    }
}

#[tokio::test]
async fn e_global_shadow_mode_denies_nothing_and_tells_what_would_be() {
    let settings = RuleSettings { global_shadow_mode: true, ..RuleSettings::default() };
    let world = serve("e_global_shadow", RULES, settings).await;
    for (key, hits_addend, status, would_be_denied) in [
        ("key3", 10, (Code::Ok, 0), "0"),
        ("key3", 1, (Code::OverLimit, 0), "1"),
        // An admitted request is not counted.
        ("key2", 1, (Code::Ok, 19), "1"),
    ] {
        let asked = request("basic", &[descriptor(&[(key, "x")])]);
        let response = world.ask(RateLimitRequest { hits_addend, ..asked }).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![status]));
        let told = world.metric("tollgate_global_shadow_mode_total").await;
        assert_eq!(told.as_deref(), Some(would_be_denied));
    }
}

/// Tests rows 90 and 91 of the bad inputs (see `bad_inputs.rs`), and scenario H.
#[tokio::test]
async fn row_90_91_requests_that_say_nothing_or_too_much_are_refused_with_the_reason_and_counted() {
    let world = world("row_90_91").await;
    let mut client = world.client().await;
    let one = || descriptor(&[("key3", "x")]);
    let no_unit = RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 1, unit: 0 }),
        ..one()
    };
    let long = "x".repeat(1 << 20);
    for (asked, text) in [
        (request("", &[one()]), "rate limit domain must not be empty"),
        (request("basic", &[]), "rate limit descriptor list must not be empty"),
        (request("basic", &vec![one(); 10_000]), "10000 descriptors; a request may have 100"),
        (request("basic", &[descriptor(&[("k", "v"); 10_000])]), "10000 entries in one descriptor"),
        (request("basic", &[no_unit]), "limit.unit 0 is no unit"),
        (request("basic", &[descriptor(&[("key3", &long)])]), "1048585 bytes of keys and values"),
    ] {
        let status = client.should_rate_limit(asked).await.expect_err("a bad request");
        assert_eq!(status.code(), Grpc::InvalidArgument);
        assert!(status.message().starts_with(text), "{} / {text}", status.message());
    }
    let refused = "tollgate_requests_total{protocol=\"grpc\",outcome=\"refused\"}";
    assert_eq!(world.metric(refused).await.as_deref(), Some("6"));
    let huge = "x".repeat(2 << 20);
    let asked = request("basic", &[descriptor(&[("key3", &huge)])]);
    let status = client.should_rate_limit(asked).await.expect_err("a huge message");
    assert_eq!(status.code(), Grpc::OutOfRange);
    // The connection is still open, and nothing was charged.
    let answer = client.should_rate_limit(request("basic", &[one()])).await.expect("an answer");
    assert_eq!(codes(&answer.into_inner()), [(Code::Ok, 9)]);
}

#[tokio::test]
async fn h_without_rules_the_answer_is_unavailable_and_health_says_so() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    let world = serve("without_rules", "domain: ''", RuleSettings::default()).await;
    let asked = request("basic", &[descriptor(&[("key3", "x")])]);
    let status = world.client().await.should_rate_limit(asked.clone()).await.expect_err("no rules");
    assert_eq!(
        (status.code(), status.message()),
        (Grpc::Unavailable, "no rate limit configuration loaded")
    );
    for (series, count) in [
        ("tollgate_requests_total{protocol=\"grpc\",outcome=\"refused\"}", "1"),
        ("tollgate_config_load_error_total", "1"),
        ("tollgate_config_refused", "1"),
    ] {
        assert_eq!(world.metric(series).await.as_deref(), Some(count), "{series}");
    }
    let mut health = HealthClient::new(world.channel().await);
    let of = || HealthCheckRequest { service: "ratelimit".into() };
    let answer = health.check(of()).await.expect("known").into_inner();
    assert_eq!(answer.status(), ServingStatus::NotServing);
    // When good rules are loaded, the health check reports it.
    let mut watched = health.watch(of()).await.expect("known").into_inner();
    std::fs::write(world.rules.join("basic.yaml"), RULES).expect("a file below target");
    world.running.changed().notify();
    while let Some(answer) = watched.message().await.expect("a stream") {
        if answer.status() == ServingStatus::Serving {
            break;
        }
    }
    assert_eq!(codes(&world.ask(asked).await), [(Code::Ok, 9)]);
}

#[tokio::test]
async fn reflection_names_the_services() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let world = world("reflection_names_the_services").await;
    let mut client = ServerReflectionClient::new(world.channel().await);
    let asked = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers =
        client.server_reflection_info(tokio_stream::once(asked)).await.expect("known").into_inner();
    let answer =
        answers.message().await.expect("an answer").and_then(|answer| answer.message_response);
    let Some(MessageResponse::ListServicesResponse(list)) = answer else { panic!("{answer:?}") };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&"envoy.service.ratelimit.v3.RateLimitService"), "{names:?}");
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
}
