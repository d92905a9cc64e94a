//! Tests options with which a service refuses to start, and the requests that the admin's address refuses.

use std::net::SocketAddr;

use crate::common::{RULES, answered, directory, exchange, raw, refused, serve_with};
use tollgate_rules::RuleSettings;
use tollgate_service::{Global, Options, StartError};

#[tokio::test]
async fn a_place_without_rules_and_no_nodes_are_refused_with_what_would_be_right() {
    let error = refused(Options::new("no/such/rules")).await;
    assert!(matches!(error, StartError::Rules(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("no/such/rules: cannot be read: "), "{text}");
    assert!(text.ends_with("; give a directory of .yaml files"), "{text}");
    let path = directory("start_empty");
    let text = refused(Options::new(&path)).await.to_string();
    let expected = "holds no rules; put a file there whose name ends in .yaml or .yml, or allow it to be \
                    empty (--allow-empty)";
    assert_eq!(text, format!("{}: {expected}", path.display()));
    let global = Some(Global { nodes: 0, ..Global::new("redis://127.0.0.1:1/") });
    std::fs::write(path.join("basic.yaml"), RULES).expect("a file below target");
    let error = refused(Options { global, ..Options::new(&path) }).await;
    assert_eq!(error.to_string(), "0 nodes share nothing; use at least 1");
    let authority = Some("no/such/ca.crt".into());
    let global = Some(Global { authority, ..Global::new("rediss://127.0.0.1:1/") });
    let error = refused(Options { global, ..Options::new(&path) }).await;
    assert!(error.to_string().starts_with("no/such/ca.crt: cannot be read: "), "{error}");
}

#[tokio::test]
async fn an_empty_directory_is_served_if_it_is_allowed() {
    let settings = RuleSettings { allow_empty: true, ..RuleSettings::default() };
    let world = serve_with("start_allowed", "", |options| Options { settings, ..options }).await;
    assert_eq!(world.http("GET", "/healthcheck", "").await.0, 200);
}

#[tokio::test]
async fn an_address_for_metrics_answers_them_and_nothing_else() {
    let metrics = Some(([127, 0, 0, 1], 0).into());
    let world = serve_with("start_metrics", RULES, |options| Options { metrics, ..options }).await;
    let address = world.running.metrics.expect("an address");
    let (status, _, page) = exchange(address, "GET", "/metrics", "").await;
    assert!(status == 200 && page.contains("tollgate_config_load_success_total 1"), "{page}");
    for path in ["/", "/v1/check", "/v1/reset", "/rlconfig"] {
        assert_eq!(exchange(address, "GET", path, "").await.0, 404, "{path}");
    }
    world.running.stop().await;
}

/// Sends this head of a request; returns the status and the body of the answer.
async fn ask(address: SocketAddr, head: &str) -> (u16, String) {
    let answer = raw(address, &format!("{head}connection: close\r\n\r\n")).await;
    let (status, _, body) = answered(&answer);
    (status, body)
}

/// The tests in `src/http/guard.rs` cover all hosts and origins. This test shows that each route is guarded, and that
/// probes, scrapers and the service's own page are served.
#[tokio::test]
async fn every_admin_route_refuses_foreign_hosts_and_origins() {
    let names = vec!["limits.internal".parse().expect("a name")];
    let more = |options| Options { admin_hosts: names, ..options };
    let world = serve_with("start_admin", RULES, more).await;
    let admin = world.running.admin;
    let routes =
        ["GET /metrics", "GET /rlconfig", "GET /", "GET /status.js", "POST /v1/reset", "GET /no"];
    for route in routes {
        for (headers, reason) in [
            ("host: evil.example\r\n", "refused: Host is not this service; "),
            (
                "host: 127.0.0.1:6070\r\norigin: http://evil.example\r\n",
                "refused: Origin is another site",
            ),
            ("host: 127.0.0.1:6070\r\norigin: null\r\n", "refused: Origin is another site"),
        ] {
            let (status, body) = ask(admin, &format!("{route} HTTP/1.1\r\n{headers}")).await;
            assert_eq!(status, 403, "{route} {headers}");
            assert!(
                body.starts_with(reason) && !body.contains("evil"),
                "{route} {headers}: {body}"
            );
        }
        // A client of HTTP/1.0 may send no host.
        assert_eq!(ask(admin, &format!("{route} HTTP/1.0\r\n")).await.0, 403, "{route}");
    }
    for headers in [
        "host: 10.42.0.7:6070\r\nuser-agent: kube-probe/1.33\r\n".to_owned(),
        "host: limits.internal:6070\r\nuser-agent: Prometheus/3.5\r\n".to_owned(),
        format!("host: {admin}\r\norigin: http://{admin}\r\n"),
    ] {
        let (status, body) = ask(admin, &format!("GET /metrics HTTP/1.1\r\n{headers}")).await;
        assert!(status == 200 && body.contains("tollgate_table_bytes"), "{headers}");
    }
    // The public address answers to any host name.
    let head = "GET /metrics HTTP/1.1\r\nhost: shop.example\r\n";
    assert_eq!(ask(world.running.http, head).await.0, 200);
}

#[tokio::test]
async fn a_reset_that_a_foreign_page_asks_for_resets_nothing() {
    let world = serve_with("start_reset", RULES, |options| options).await;
    let limit = "{\"domain\": \"basic\", \"descriptors\": [{\"key3\": \"x\"}], \"cost\": 10}";
    assert_eq!(world.http("POST", "/v1/check", limit).await.0, 200);
    assert_eq!(world.http("POST", "/v1/check", limit).await.0, 429);
    let head = |origin: &str| {
        format!(
            "POST /v1/reset HTTP/1.1\r\nhost: 127.0.0.1:6070\r\n{origin}content-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{limit}",
            limit.len()
        )
    };
    for (origin, status, left) in [("origin: http://evil.example\r\n", 403, 429), ("", 200, 200)] {
        let answer = raw(world.running.admin, &head(origin)).await;
        assert_eq!(answered(&answer).0, status, "{answer}");
        assert_eq!(world.http("POST", "/v1/check", limit).await.0, left);
    }
}
