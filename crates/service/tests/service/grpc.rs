//! Envoy's protocol over a real socket: the answers that it requires.

use crate::common::{RULES, World, codes, descriptor, request, serve};
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::{
    RateLimitDescriptor, rate_limit_descriptor::RateLimitOverride,
};
use tollgate_service::protocol::rls::rate_limit_response::{Code, rate_limit::Unit};
use tollgate_service::protocol::rls::{RateLimitRequest, RateLimitResponse};
use tonic::Code as Grpc;

async fn world(test: &str) -> World {
    serve(test, RULES, RuleSettings::default()).await
}

async fn ask(world: &World, request: RateLimitRequest) -> RateLimitResponse {
    world.ask(request).await
}

#[tokio::test]
async fn an_unknown_domain_is_ok_with_no_limit() {
    let world = world("an_unknown_domain_is_ok_with_no_limit").await;
    let response = ask(&world, request("foo", &[descriptor(&[("hello", "world")])])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![(Code::Ok, 0)]));
    assert!(response.statuses[0].current_limit.is_none());
    assert!(response.response_headers_to_add.is_empty());
}

#[tokio::test]
async fn a_status_says_the_limit_what_is_left_and_when_it_is_whole_again() {
    let world = world("a_status_says_the_limit").await;
    let asked = [
        descriptor(&[("key1", "foo")]),
        descriptor(&[("key3", "foo")]),
        descriptor(&[("free", "x")]),
    ];
    let response = ask(&world, request("basic", &asked)).await;
    let [second, year, free] = &response.statuses[..] else { panic!("three") };
    let limit = second.current_limit.as_ref().expect("a limit");
    assert_eq!(
        (limit.requests_per_unit, limit.unit(), second.limit_remaining),
        (50, Unit::Second, 49)
    );
    assert_eq!(second.duration_until_reset.map(|wait| (wait.seconds, wait.nanos)), Some((1, 0)));
    assert_eq!(year.current_limit.as_ref().map(|limit| limit.name.as_str()), Some("ten"));
    assert_eq!((free.limit_remaining, &free.current_limit), (u32::MAX, &None));
    let headers: Vec<_> = response
        .response_headers_to_add
        .iter()
        .map(|h| (h.key.as_str(), h.value.as_str()))
        .collect();
    assert_eq!(headers[..2], [("RateLimit-Limit", "10"), ("RateLimit-Remaining", "9")]);
    assert_eq!(headers[2].0, "RateLimit-Reset");
}

#[tokio::test]
async fn a_limit_admits_exactly_what_it_says() {
    let world = world("a_limit_admits_exactly_what_it_says").await;
    let mut client = world.client().await;
    for call in 1..=25 {
        let asked = request("basic", &[descriptor(&[("key2", "x")])]);
        let response = client.should_rate_limit(asked).await.expect("an answer").into_inner();
        let expected = if call <= 20 { (Code::Ok, 20 - call) } else { (Code::OverLimit, 0) };
        assert_eq!((response.overall_code(), codes(&response)), (expected.0, vec![expected]));
    }
}

#[tokio::test]
async fn all_or_nothing_unless_compat_is_on() {
    for compat in [false, true] {
        let settings = RuleSettings { compat, ..RuleSettings::default() };
        let world = serve(&format!("all_or_nothing_{compat}"), RULES, settings).await;
        let mut client = world.client().await;
        for call in 1..=15_u32 {
            let asked =
                request("basic", &[descriptor(&[("key2", "y")]), descriptor(&[("key3", "y")])]);
            let response = client.should_rate_limit(asked).await.expect("an answer").into_inner();
            let (first, second) = match call {
                1..=10 => ((Code::Ok, 20 - call), (Code::Ok, 10 - call)),
                _ => ((Code::Ok, if compat { 20 - call } else { 10 }), (Code::OverLimit, 0)),
            };
            assert_eq!(codes(&response), [first, second], "call {call}, compat {compat}");
            assert_eq!(response.overall_code(), second.0);
        }
    }
}

#[tokio::test]
async fn limits_and_hits_that_come_with_a_descriptor_count() {
    let world = world("limits_and_hits_that_come_with_a_descriptor_count").await;
    let with = |unit, requests_per_unit, hits_addend| RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit, unit }),
        hits_addend,
        ..descriptor(&[("own", "x")])
    };
    let response = ask(&world, request("basic", &[with(4, 10, None)])).await;
    let limit = response.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit()), (10, Unit::Day));
    let response = ask(&world, request("basic", &[with(7, 42, None)])).await;
    let limit = response.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit()), (42, Unit::Week));
    for (hits, expected) in [
        (Some(0), (Code::Ok, 42)),
        (Some(40), (Code::Ok, 2)),
        (Some(3), (Code::OverLimit, 2)),
        (Some(u64::MAX), (Code::OverLimit, 2)),
        (None, (Code::Ok, 1)),
    ] {
        let response = ask(&world, request("basic", &[with(6, 42, hits)])).await;
        assert_eq!(codes(&response), [expected], "{hits:?}");
    }
}

#[tokio::test]
async fn windows_of_any_length_are_answered_in_envoys_units_where_it_has_one() {
    let world = world("windows_of_any_length").await;
    let asked = [descriptor(&[("half", "x")]), descriptor(&[("odd", "x")])];
    let response = ask(&world, request("basic", &asked)).await;
    let units: Vec<Unit> = response
        .statuses
        .iter()
        .filter_map(|status| status.current_limit.as_ref().map(|limit| limit.unit()))
        .collect();
    assert_eq!(units, [Unit::Month, Unit::Unknown]);
}

#[tokio::test]
async fn a_shadow_rule_and_metadata_are_answered() {
    let world = world("a_shadow_rule_and_metadata_are_answered").await;
    for _ in 0..3 {
        let response = ask(&world, request("basic", &[descriptor(&[("shadow", "x")])])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![(Code::Ok, 0)]));
    }
    let response = ask(&world, request("basic", &[descriptor(&[("told", "x")])])).await;
    let metadata = response.dynamic_metadata.expect("metadata");
    let text = format!("{:?}", metadata.fields["metadata"]);
    assert!(text.contains("gold") && text.contains("NumberValue(1.0)"), "{text}");
}

#[tokio::test]
async fn requests_that_say_nothing_or_too_much_are_refused() {
    let world = world("requests_that_say_nothing").await;
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
        (request("basic", &[no_unit]), "limit.unit 0 is no unit"),
        (request("basic", &[descriptor(&[("key3", &long)])]), "1048585 bytes of keys and values"),
    ] {
        let status = client.should_rate_limit(asked).await.expect_err("a bad request");
        assert_eq!(status.code(), Grpc::InvalidArgument);
        assert!(status.message().starts_with(text), "{} / {text}", status.message());
    }
    let huge = "x".repeat(2 << 20);
    let asked = request("basic", &[descriptor(&[("key3", &huge)])]);
    let status = client.should_rate_limit(asked).await.expect_err("a huge message");
    assert_eq!(status.code(), Grpc::OutOfRange);
    // The connection stays open.
    assert!(client.should_rate_limit(request("basic", &[one()])).await.is_ok());
}

#[tokio::test]
async fn a_request_may_have_a_hundred_descriptors_and_no_more() {
    let world = world("a_hundred_descriptors").await;
    let of = |count| request("basic", &vec![descriptor(&[("free", "x")]); count]);
    let answer = ask(&world, of(100)).await;
    assert_eq!(codes(&answer), vec![(Code::Ok, u32::MAX); 100]);
    let status = world.client().await.should_rate_limit(of(101)).await.expect_err("too many");
    assert_eq!(status.code(), Grpc::InvalidArgument);
}

#[tokio::test]
async fn without_rules_the_answer_is_unavailable_and_health_says_so() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    let world = serve("without_rules", "domain: ''", RuleSettings::default()).await;
    let status = world
        .client()
        .await
        .should_rate_limit(request("basic", &[descriptor(&[("key3", "x")])]))
        .await
        .expect_err("no rules");
    assert_eq!(
        (status.code(), status.message()),
        (Grpc::Unavailable, "no rate limit configuration loaded")
    );
    let mut health = HealthClient::new(world.channel().await);
    let asked = || HealthCheckRequest { service: "ratelimit".into() };
    let answer = health.check(asked()).await.expect("known").into_inner();
    assert_eq!(answer.status(), ServingStatus::NotServing);
    // Good rules are loaded, and the health check reports it.
    let mut watched = health.watch(asked()).await.expect("known").into_inner();
    std::fs::write(world.rules.join("basic.yaml"), RULES).expect("a file below target");
    world.running.changed().notify();
    while let Some(answer) = watched.message().await.expect("a stream") {
        if answer.status() == ServingStatus::Serving {
            break;
        }
    }
    let response = ask(&world, request("basic", &[descriptor(&[("key3", "x")])])).await;
    assert_eq!(codes(&response), [(Code::Ok, 9)]);
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

#[tokio::test]
async fn many_clients_at_once_are_admitted_exactly_the_limit() {
    let world = world("many_clients_at_once").await;
    let channel = world.channel().await;
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let client =
                tollgate_service::protocol::rls::rate_limit_service_client::RateLimitServiceClient::new(
                    channel.clone(),
                );
            tokio::spawn(async move {
                let mut client = client;
                let asked = request("basic", &[descriptor(&[("key2", "hot")])]);
                client.should_rate_limit(asked).await.expect("an answer").into_inner().overall_code()
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += u32::from(task.await.expect("it ends") == Code::Ok);
    }
    assert_eq!(admitted, 20);
}
