//! Tests the metrics that a StatsD server receives.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tokio::net::UdpSocket;
use tollgate_service::{MetricsNames, Options, Statsd, StatsdStyle};

use crate::common::{descriptor, request, serve_on_clock};

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: plan, value: 'a.b:c', descriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: 1}}]}
";

/// All lines that have arrived, and the size of the largest datagram.
fn received(socket: &UdpSocket) -> (Vec<String>, usize) {
    let (mut lines, mut largest, mut datagram) = (Vec::new(), 0, [0; 65_536]);
    while let Ok(size) = socket.try_recv(&mut datagram) {
        largest = largest.max(size);
        let text = std::str::from_utf8(&datagram[..size]).expect("text");
        lines.extend(text.lines().map(str::to_owned));
    }
    (lines, largest)
}

/// Sends a few requests and stops the service; returns the lines of the last report that begin with one of these
/// prefixes.
async fn reported(test: &str, style: StatsdStyle, names: MetricsNames, of: &[&str]) -> Vec<String> {
    // The server.
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let address = socket.local_addr().expect("an address").to_string();
    let tags = vec![("zone".to_owned(), "eu".to_owned())];
    let every = Duration::from_secs(3_600);
    let statsd = Statsd { style, tags, every, ..Statsd::new(address.parse().expect("an address")) };
    let more = |options| Options { metrics_names: names, statsd: Some(statsd), ..options };
    let (world, _) = serve_on_clock(test, RULES, more).await;
    for cost in [3, 2, 1] {
        world.check("shop", &json!([{"user": "alice"}]), cost).await;
    }
    let deep = descriptor(&[("plan", "a.b:c"), ("path", "/")]);
    world.ask(request("shop", &[deep])).await;
    world.running.stop().await;
    // The report has been sent. The socket holds it until it is read.
    let _ = tokio::time::timeout(Duration::from_secs(30), socket.readable()).await;
    let (lines, largest) = received(&socket);
    assert!(largest <= 1_432, "{largest}");
    let all: BTreeSet<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(all.len(), lines.len(), "each once: {lines:?}");
    let is_of = |line: &&str| of.iter().any(|beginning| line.starts_with(beginning));
    all.into_iter().filter(is_of).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_was_counted_until_the_end_is_reported_line_by_line() {
    let of = [
        "tollgate.rule_",
        "tollgate.requests",
        "tollgate.config_load",
        "tollgate.decision_seconds_count",
    ];
    let mut lines = reported("statsd_dotted", StatsdStyle::Dotted, MetricsNames::Own, &of).await;
    lines.retain(|line| !line.contains("_bytes"));
    assert_eq!(
        lines,
        [
            "tollgate.config_load_success.__zone=eu:1|c",
            "tollgate.decision_seconds_count.check.__zone=eu:3|c",
            "tollgate.decision_seconds_count.grpc.__zone=eu:1|c",
            "tollgate.requests.check.allowed.__zone=eu:2|c",
            "tollgate.requests.check.over_limit.__zone=eu:1|c",
            "tollgate.requests.grpc.allowed.__zone=eu:1|c",
            "tollgate.rule_capacity.shop.plan_a.b_c.path.__zone=eu:65536|g",
            "tollgate.rule_capacity.shop.user.__zone=eu:65536|g",
            "tollgate.rule_clients.shop.plan_a.b_c.path.__zone=eu:1|g",
            "tollgate.rule_clients.shop.user.__zone=eu:1|g",
            "tollgate.rule_hits.shop.plan_a.b_c.path.__zone=eu:1|c",
            "tollgate.rule_hits.shop.user.__zone=eu:6|c",
            "tollgate.rule_near_limit.shop.plan_a.b_c.path.__zone=eu:1|c",
            "tollgate.rule_near_limit.shop.user.__zone=eu:1|c",
            "tollgate.rule_over_limit.shop.user.__zone=eu:1|c",
            "tollgate.rule_within_limit.shop.plan_a.b_c.path.__zone=eu:1|c",
            "tollgate.rule_within_limit.shop.user.__zone=eu:5|c",
        ]
    );
}

#[tokio::test]
async fn names_of_envoyproxy_ratelimit_are_those_that_it_sends_itself() {
    let of = ["ratelimit"];
    let mut lines =
        reported("statsd_theirs", StatsdStyle::Dotted, MetricsNames::Envoyproxy, &of).await;
    // The reported time must be one of the histogram's bounds.
    let time = lines.iter().position(|line| line.contains(".response_time")).expect("a time");
    let time = lines.remove(time);
    assert!(
        time.starts_with("ratelimit_server.ShouldRateLimit.response_time.__zone=eu:")
            && time.ends_with("|ms"),
        "{time}"
    );
    assert_eq!(
        lines,
        [
            "ratelimit.service.config_load_success.__zone=eu:1|c",
            "ratelimit.service.rate_limit.shop.plan_a.b_c.path.near_limit.__zone=eu:1|c",
            "ratelimit.service.rate_limit.shop.plan_a.b_c.path.total_hits.__zone=eu:1|c",
            "ratelimit.service.rate_limit.shop.plan_a.b_c.path.within_limit.__zone=eu:1|c",
            "ratelimit.service.rate_limit.shop.user.near_limit.__zone=eu:1|c",
            "ratelimit.service.rate_limit.shop.user.over_limit.__zone=eu:1|c",
            "ratelimit.service.rate_limit.shop.user.total_hits.__zone=eu:6|c",
            "ratelimit.service.rate_limit.shop.user.within_limit.__zone=eu:5|c",
            "ratelimit_server.ShouldRateLimit.total_requests.__zone=eu:1|c",
        ]
    );
}

#[tokio::test]
async fn labels_are_tags_where_that_is_asked_for() {
    let of = ["tollgate.rule_hits", "tollgate.requests"];
    let lines = reported("statsd_tagged", StatsdStyle::Tagged, MetricsNames::Own, &of).await;
    assert_eq!(
        lines,
        [
            "tollgate.requests:1|c|#protocol:check,outcome:over_limit,zone:eu",
            "tollgate.requests:1|c|#protocol:grpc,outcome:allowed,zone:eu",
            "tollgate.requests:2|c|#protocol:check,outcome:allowed,zone:eu",
            "tollgate.rule_hits:1|c|#domain:shop,rule:plan_a.b:c.path,zone:eu",
            "tollgate.rule_hits:6|c|#domain:shop,rule:user,zone:eu",
        ]
    );
}
