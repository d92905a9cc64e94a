//! Tests metrics with a series for each value of a request.

use serde_json::json;
use tollgate_rules::RuleSettings;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::{MetricsNames, Options};

use crate::common::{World, descriptor, raw, request, serve_with};

const RULES: &str = "
domain: d
descriptors:
  - {key: user, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - key: area
    value_to_metric: true
    descriptors:
      - {key: method, descriptors: [{key: path, rate_limit: {unit: year, requests_per_unit: 9}}]}
";

async fn world(test: &str, max_series: usize) -> World {
    let settings = RuleSettings { max_series, ..RuleSettings::default() };
    let metrics_names = MetricsNames::Envoyproxy;
    let more = |options| Options { settings, metrics_names, ..options };
    let world = serve_with(test, RULES, more).await;
    for user in ["a\"b\\\n", "1.2.3.4", "1.2.3.4", "1.2.3.4"] {
        world.check("d", &json!([{"user": user}]), 1).await;
    }
    // `json!` orders the members of an object by their names.
    for path in ["/", "/more"] {
        world.check("d", &json!([{"area": "api", "method": "GET", "path": path}]), 1).await;
    }
    world
}

async fn page(world: &World, accept: &str) -> Vec<String> {
    let head = format!("GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{accept}\r\n");
    let page = raw(world.running.http, &head).await;
    let is_ours = |line: &&str| line.contains("series") || line.contains("rate_limit_total_hits");
    page.lines().filter(is_ours).map(str::to_owned).collect()
}

#[tokio::test]
async fn both_formats_have_a_series_for_each_value() {
    let world = world("series", 10).await;
    for (accept, hits) in [
        ("", "# TYPE tollgate_series_hits_total counter"),
        ("accept: application/openmetrics-text\r\n", "# TYPE tollgate_series_hits counter"),
    ] {
        let page = page(&world, accept).await;
        for line in [
            hits,
            "tollgate_series 3",
            "tollgate_series_max 10",
            "tollgate_series_refused_total 0",
            r#"tollgate_series_hits_total{domain="d",rule="user",descriptor="other"} 0"#,
            r#"tollgate_series_hits_total{domain="d",rule="user",descriptor="user_1.2.3.4"} 3"#,
            r#"tollgate_series_hits_total{domain="d",rule="user",descriptor="user_a\"b\\\n"} 1"#,
            r#"tollgate_series_over_limit_total{domain="d",rule="user",descriptor="user_1.2.3.4"} 1"#,
            r#"tollgate_series_hits_total{domain="d",rule="area.method.path",descriptor="area_api.method.path"} 2"#,
        ] {
            assert_eq!(page.iter().filter(|found| *found == line).count(), 1, "{line} {page:#?}");
        }
    }
}

#[tokio::test]
async fn dashboards_of_envoyproxy_ratelimit_find_values_in_their_labels() {
    // Hits beyond the maximum number of series are counted in the series of the rules, as without `detailed_metric` and
    // `value_to_metric`.
    for (max_series, area, user) in [(10, "area_api", "user_1_2_3_4"), (1, "area", "user")] {
        let world = world(&format!("series_theirs_{max_series}"), max_series).await;
        let theirs = [
            format!(r#"key1="{area}",key2="method"}} 2"#),
            format!(r#"key1="{user}"}} 3"#),
            r#"key1="user_a\"b\\\n"} 1"#.to_owned(),
        ];
        let page = page(&world, "").await;
        let prefix = r#"ratelimit_service_rate_limit_total_hits{domain="d","#;
        let found = page.iter().filter_map(|line| line.strip_prefix(prefix));
        assert_eq!(found.collect::<Vec<_>>(), theirs);
    }
}

#[tokio::test]
async fn what_is_given_back_is_counted_without_values() {
    let world = world("series_negative", 10).await;
    let negative = r#"ratelimit_service_rate_limit_total_negative_hits{domain="d",key1="user"}"#;
    assert_eq!(world.metric(negative).await, None);
    for (hits_addend, value) in [(Some(3), "1.2.3.4"), (Some(4), "new")] {
        let own = descriptor(&[("user", value)]);
        let asked = RateLimitDescriptor { hits_addend, is_negative_hits: true, ..own };
        world.ask(request("d", &[asked])).await;
    }
    assert_eq!(world.metric(negative).await.as_deref(), Some("7"));
    let hits = r#"ratelimit_service_rate_limit_total_hits{domain="d",key1="user"}"#;
    assert_eq!(world.metric(hits).await, None);
    assert_eq!(world.metric("tollgate_series").await.as_deref(), Some("3"));
}
