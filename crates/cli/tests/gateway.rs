//! Envoy Gateway and Envoy AI Gateway start the service as they start envoyproxy/ratelimit: by its name, and with the
//! environment of their deployments. The test acts as the control plane, and sends what the control planes of these two
//! gateways send.

#[allow(dead_code, reason = "each test file uses only a part")]
#[path = "../../service/tests/common/authority.rs"]
mod authority;
#[path = "../../service/tests/common/control_plane.rs"]
mod control_plane;

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::common::Scratch;
use crate::serving::{Serving, begun};
use authority::Authority;
use control_plane::{ControlPlane, config};
use tollgate_service::protocol::config::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// The environment of the container in Envoy Gateway's deployment (internal/infrastructure/kubernetes/ratelimit, August
/// 2026), with metrics and tracing, as it is by default. Files, addresses and ports are the test's.
const ENVOY_GATEWAY: &str = "
RUNTIME_ROOT=/data
RUNTIME_SUBDIRECTORY=ratelimit
RUNTIME_IGNOREDOTFILES=true
RUNTIME_WATCH_ROOT=false
LOG_LEVEL=info
USE_STATSD=false
CONFIG_TYPE=GRPC_XDS_SOTW
CONFIG_GRPC_XDS_SERVER_URL=PLANE
CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit
GRPC_SERVER_USE_TLS=true
GRPC_SERVER_TLS_CERT=CERTS/tls.crt
GRPC_SERVER_TLS_KEY=CERTS/tls.key
GRPC_SERVER_TLS_CA_CERT=CERTS/ca.crt
CONFIG_GRPC_XDS_SERVER_USE_TLS=true
CONFIG_GRPC_XDS_CLIENT_TLS_CERT=CERTS/tls.crt
CONFIG_GRPC_XDS_CLIENT_TLS_KEY=CERTS/tls.key
CONFIG_GRPC_XDS_SERVER_TLS_CACERT=CERTS/ca.crt
FORCE_START_WITHOUT_INITIAL_CONFIG=true
REDIS_SOCKET_TYPE=tcp
USE_PROMETHEUS=true
PROMETHEUS_ADDR=:0
PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml
TRACING_ENABLED=true
TRACING_SERVICE_NAME=envoy-ratelimit
TRACING_SERVICE_NAMESPACE=envoy-gateway-system
TRACING_SERVICE_INSTANCE_ID=envoy-ratelimit-0
TRACING_SAMPLING_RATE=1.0
OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1
";

/// The environment of the container for Envoy AI Gateway's quotas (tests/e2e/testdata/backend_quota_ratelimit.yaml,
/// July 2026).
const AI_GATEWAY: &str = "
LOG_LEVEL=debug
REDIS_SOCKET_TYPE=tcp
RUNTIME_ROOT=/data
RUNTIME_SUBDIRECTORY=ratelimit
USE_STATSD=false
CONFIG_TYPE=GRPC_XDS_SOTW
CONFIG_GRPC_XDS_NODE_ID=envoy-ai-gateway-ratelimit
CONFIG_GRPC_XDS_SERVER_URL=PLANE
";

/// Ports that no other test uses, and short pauses between attempts.
const OF_THE_TEST: &str = "
PORT=0
GRPC_PORT=0
DEBUG_PORT=0
XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=1ms
XDS_CLIENT_BACKOFF_MAX_INTERVAL=50ms
TOLLGATE_LINGER_STOP=0
";

/// Starts the binary under the name of envoyproxy/ratelimit's, with this environment and no other.
fn ratelimit(
    scratch: &Scratch,
    deployment: &str,
    plane: SocketAddr,
    redis: Option<SocketAddr>,
    arguments: &[&str],
) -> (Serving, Vec<String>) {
    let program = scratch.path().join("ratelimit");
    symlink(env!("CARGO_BIN_EXE_tollgate"), &program).expect("a new link");
    let certificates = scratch.path().to_str().expect("a path");
    let plane = format!("localhost:{}", plane.port());
    let lines = [deployment, OF_THE_TEST].concat();
    let lines = lines.replace("PLANE", &plane).replace("CERTS", certificates);
    let variables = lines.lines().filter_map(|line| line.split_once('='));
    let redis = redis.map(|address| ("REDIS_URL", address.to_string()));
    let mut command = Command::new(&program);
    command.env_clear().envs(variables).envs(redis).args(arguments);
    begun(&mut command)
}

/// Makes the files of a deployment, and starts the control plane that trusts its certificate.
async fn secure_plane(scratch: &Scratch) -> (ControlPlane, ServerTlsConfig) {
    let authority = Authority::new();
    let (node, server) = (authority.issue(), authority.issue());
    scratch.file("tls.crt", node.certificate).file("tls.key", node.key);
    scratch.file("ca.crt", authority.pem());
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&server.certificate, &server.key))
        .client_ca_root(Certificate::from_pem(authority.pem()));
    (ControlPlane::start(Some(tls.clone())).await, tls)
}

/// Returns the number of requests that pass, of `asked` requests with these descriptors.
fn passing(serving: &Serving, domain: &str, entries: &[(&str, &str)], asked: usize) -> usize {
    let entries = entries.iter();
    let entries = entries.map(|(key, value)| format!(r#"{{"key": "{key}", "value": "{value}"}}"#));
    let entries = entries.collect::<Vec<_>>().join(", ");
    let body = format!(r#"{{"domain": "{domain}", "descriptors": [{{"entries": [{entries}]}}]}}"#);
    let statuses = (0..asked).map(|_| serving.ask("POST /json", &body).0);
    statuses.filter(|status| *status == 200).count()
}

fn leaf(key: &str, value: &str, requests: u32, quota_mode: bool) -> RateLimitDescriptor {
    let policy = RateLimitPolicy {
        unit: RateLimitUnit::Hour.into(),
        requests_per_unit: requests,
        ..RateLimitPolicy::default()
    };
    RateLimitDescriptor {
        key: key.to_owned(),
        value: value.to_owned(),
        rate_limit: Some(policy),
        quota_mode,
        ..RateLimitDescriptor::default()
    }
}

/// Makes a domain with one rule below a level that has no limit of its own.
fn below(domain: &str, key: &str, value: &str, leaf: RateLimitDescriptor) -> RateLimitConfig {
    let mut config = config(domain, domain, key, 1);
    config.descriptors[0].value = value.to_owned();
    config.descriptors[0].rate_limit = None;
    config.descriptors[0].descriptors = vec![leaf];
    config
}

/// Envoy Gateway has a domain for each listener, a first level for each route, and a second level for each rule.
fn of_route(listener: &str, requests: u32) -> RateLimitConfig {
    let rule = "rule-0-match-0";
    below(listener, "first-route", "first-route", leaf(rule, rule, requests, false))
}

const ROUTE: [(&str, &str); 2] =
    [("first-route", "first-route"), ("rule-0-match-0", "rule-0-match-0")];

async fn envoy_gateway(test: &str, redis: Option<SocketAddr>) {
    let scratch = Scratch::new(test);
    let (mut plane, tls) = secure_plane(&scratch).await;
    let (mut serving, log) = ratelimit(&scratch, ENVOY_GATEWAY, plane.address, redis, &[]);
    let warned: Vec<_> = log.iter().filter_map(|line| line.split_once(" WARN ")).collect();
    let warned: Vec<_> = warned.iter().map(|(_, line)| line.split(' ').next()).collect();
    assert_eq!(warned, [Some("PROMETHEUS_MAPPER_YAML"), Some("RUNTIME_WATCH_ROOT")], "{log:?}");
    let counted =
        "rules come by CONFIG_TYPE, so each descriptor is counted by itself, what is denied, too";
    assert!(log.iter().any(|line| line.contains(" INFO ") && line.contains(counted)), "{log:?}");
    // Probes of Envoy Gateway ask `/healthcheck`, and an unhealthy service is restarted. The control plane sends no
    // rules until a route has a limit, so the service has to be healthy without rules.
    assert_eq!(serving.ask("GET /healthcheck", "").0, 200);
    assert_eq!(plane.asked().await.node.map(|node| node.id).as_deref(), Some("envoy-ratelimit"));
    assert_eq!(plane.put("1", &[]).await.error_detail, None);
    assert_eq!(serving.ask("GET /healthcheck", "").0, 200);
    // Two listeners with a route each.
    let both = [of_route("gateway/http", 2), of_route("gateway/https", 5)];
    assert_eq!(plane.put("2", &both).await.error_detail, None);
    assert_eq!(passing(&serving, "gateway/http", &ROUTE, 9), 2);
    assert_eq!(passing(&serving, "gateway/https", &ROUTE, 9), 5);
    // The second listener is deleted.
    assert_eq!(plane.put("3", &both[..1]).await.error_detail, None);
    assert_eq!(passing(&serving, "gateway/https", &ROUTE, 9), 9);
    assert_eq!(passing(&serving, "gateway/http", &ROUTE, 9), 0);
    // The control plane goes, and comes back with more rules.
    let address = plane.address;
    plane.stop().await;
    assert_eq!(passing(&serving, "gateway/http", &ROUTE, 9), 0);
    let mut plane = ControlPlane::start_at(address, Some(tls)).await;
    assert_eq!(plane.asked().await.version_info, "3");
    assert_eq!(plane.put("4", &[of_route("gateway/http", 30)]).await.error_detail, None);
    // Denied requests are charged as well, as in envoyproxy/ratelimit: 27 of the 30 are used up.
    assert_eq!(passing(&serving, "gateway/http", &ROUTE, 9), 3);
    // The metrics are at the address that the deployment's annotation gives to Prometheus, under the names of its
    // mapping.
    let line = log.last().expect("the addresses");
    let metrics = line.rsplit_once("metrics ").and_then(|(_, address)| address.parse().ok());
    serving.http = metrics.expect("an address");
    let (status, page) = serving.ask("GET /metrics", "");
    assert_eq!(status, 200);
    let counted = "ratelimit_service_rate_limit_within_limit{domain=\"gateway/http\",key1=\"first-route_first-route\",\
                   key2=\"rule-0-match-0_rule-0-match-0\"} ";
    assert!(page.contains(counted), "{page}");
    assert!(page.contains("tollgate_config_kept_domains 0"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_of_envoy_gateways_deployment_is_all_it_needs() {
    envoy_gateway("gateway_eg", None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs redis-server"]
async fn the_same_with_the_redis_that_envoy_gateway_asks_for() {
    let address = crate::processes::free_address();
    let _redis = crate::processes::redis_at(address, &[]);
    envoy_gateway("gateway_eg_redis", Some(address)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deployment_of_envoy_ai_gateways_quotas_starts_it_too() {
    let scratch = Scratch::new("gateway_ai");
    let mut plane = ControlPlane::start(None).await;
    // The deployment passes this argument, and envoyproxy/ratelimit reads no arguments.
    let argument = "--quotaRateLimitServiceAddr=envoy-ai-gateway-ratelimit.envoy-gateway-system";
    let (serving, log) = ratelimit(&scratch, AI_GATEWAY, plane.address, None, &[argument]);
    let told = format!(
        "argument '{argument}' is not read: under the name ratelimit the environment says everything"
    );
    assert!(log.iter().any(|line| line.contains(&told)), "{log:?}");
    let node = plane.asked().await.node.map(|node| node.id);
    assert_eq!(node.as_deref(), Some("envoy-ai-gateway-ratelimit"));
    // The deployment does not force a start without rules.
    assert_eq!(serving.ask("GET /healthcheck", "").0, 500);
    let model = leaf("model_name_override", "gpt", 3, true);
    let quota = below("ai-gateway-quota", "backend_name", "default/openai", model);
    assert_eq!(plane.put("1", &[quota]).await.error_detail, None);
    assert_eq!(serving.ask("GET /healthcheck", "").0, 200);
    let asked = [("backend_name", "default/openai"), ("model_name_override", "gpt")];
    assert_eq!(passing(&serving, "ai-gateway-quota", &asked, 9), 3);
}
