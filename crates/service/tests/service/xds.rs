//! Tests rules from a control plane. The tests play the control plane.

use std::time::Duration;

use crate::certificates::{Authority, files, write};
use crate::common::control_plane::{ControlPlane, TYPE, config, response};
use crate::common::{World, descriptor, request, serve_with};
use prost_types::value::Kind;
use tollgate_rules::Refresh;
use tollgate_service::protocol::config::{RateLimitConfig, RateLimitDescriptor};
use tollgate_service::protocol::rls::rate_limit_response::Code;
use tollgate_service::{Options, XdsRules};
use tonic::Status;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Serves the rules that this control plane sends, with short waits between attempts. Takes the result of the first
/// load, which is that there are no rules yet.
async fn follow(test: &str, mut rules: XdsRules) -> World {
    rules.backoff_initial = Duration::from_millis(1);
    rules.backoff_max = Duration::from_millis(20);
    rules.backoff_random = 0.0;
    let mut world =
        serve_with(test, "", |options| Options { rules: rules.into(), ..options }).await;
    let errors = world.reloaded().await;
    assert!(
        errors[0].to_string().ends_with("the control plane has not sent any yet"),
        "{errors:?}"
    );
    world
}

fn at(plane: &ControlPlane) -> XdsRules {
    XdsRules::new(plane.address.to_string()).expect("an address")
}

/// A control plane and a service that follows it, whose first request names the node and its metadata.
async fn plain(test: &str) -> (ControlPlane, World) {
    let mut plane = ControlPlane::start(None).await;
    let mut rules = at(&plane);
    rules.metadata = vec![("zone".to_owned(), "eu".to_owned())];
    let world = follow(test, rules).await;
    let first = plane.asked().await;
    assert_eq!((first.type_url.as_str(), first.version_info.as_str()), (TYPE, ""));
    let node = first.node.expect("a node");
    assert_eq!(node.id, "default");
    let fields = node.metadata.expect("metadata").fields;
    let told: Vec<_> = fields.into_iter().map(|(name, value)| (name, value.kind)).collect();
    assert_eq!(told, [("zone".to_owned(), Some(Kind::StringValue("eu".to_owned())))]);
    assert_eq!((first.response_nonce.as_str(), first.error_detail), ("", None));
    assert!(first.resource_names.is_empty(), "all of them");
    (plane, world)
}

/// Sends three requests; returns the number that pass.
async fn passing(world: &World, domain: &str, user: &str) -> usize {
    let asked = request(domain, &[descriptor(&[("user", user)])]);
    let mut passed = 0;
    for _ in 0..3 {
        passed += usize::from(world.ask(asked.clone()).await.overall_code() == Code::Ok);
    }
    passed
}

/// The version in force, the nonce, and the reason if the response was refused.
fn told(
    answer: tollgate_service::protocol::discovery::DiscoveryRequest,
) -> (String, String, Option<String>) {
    assert_eq!(answer.type_url, TYPE);
    let reason = answer.error_detail.map(|status| {
        assert_eq!(status.code, 3, "INVALID_ARGUMENT");
        status.message
    });
    (answer.version_info, answer.response_nonce, reason)
}

#[tokio::test]
async fn good_rules_are_in_force_before_they_are_accepted() {
    let (mut plane, world) = plain("xds_good").await;
    let accepted = plane.put("1", &[config("r", "shop", "user", 2)]).await;
    assert_eq!(told(accepted), ("1".into(), "n1".into(), None));
    assert_eq!(passing(&world, "shop", "alice").await, 2);
    // An update keeps the spent units, and adds a second domain.
    let both = [config("r", "shop", "user", 3), config("s", "blog", "user", 1)];
    assert_eq!(told(plane.put("2", &both).await), ("2".into(), "n2".into(), None));
    assert_eq!(passing(&world, "shop", "alice").await, 1);
    assert_eq!(passing(&world, "blog", "alice").await, 1);
    // The same rules under another version are accepted as well.
    assert_eq!(told(plane.put("3", &both).await), ("3".into(), "n3".into(), None));
}

#[tokio::test]
async fn bad_rules_are_refused_with_their_place_and_the_last_good_ones_stay() {
    let (mut plane, world) = plain("xds_bad").await;
    plane.put("1", &[config("r", "shop", "user", 2)]).await;
    let mut bad = config("r", "shop", "user", 5);
    bad.descriptors.push(RateLimitDescriptor {
        key: "path".to_owned(),
        rate_limit: Some(tollgate_service::protocol::config::RateLimitPolicy::default()),
        ..RateLimitDescriptor::default()
    });
    let (version, nonce, reason) = told(plane.put("2", &[config("a", "blog", "k", 1), bad]).await);
    assert_eq!((version.as_str(), nonce.as_str()), ("1", "n2"));
    let expected = format!(
        "xds://{}/default/r: path (descriptors[1]): invalid rate limit unit ''; use second, minute, hour, day, \
         week, month or year, or leave unit out and write window: 30s",
        plane.address
    );
    assert_eq!(reason, Some(expected));
    assert_eq!(passing(&world, "shop", "alice").await, 2);
    assert_eq!(passing(&world, "blog", "alice").await, 3, "nothing of it is in force");
    let twice = [config("r", "shop", "user", 5), config("s", "shop", "path", 5)];
    let (version, _, reason) = told(plane.put("3", &twice).await);
    let reason = reason.expect("a reason");
    assert!(
        reason.contains("/s: duplicate domain 'shop' in config file, first in xds://"),
        "{reason}"
    );
    assert_eq!(version, "1");
    // Rules that are good again are accepted.
    assert_eq!(told(plane.put("4", &[config("r", "shop", "user", 9)]).await).2, None);
}

#[tokio::test]
async fn rubbish_changes_nothing_and_the_control_plane_is_told_why() {
    let (mut plane, world) = plain("xds_rubbish").await;
    plane.put("1", &[config("r", "shop", "user", 2)]).await;
    let good = || response("2", &[config("r", "shop", "user", 5)]);
    let cluster = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    let mut other = good();
    other.type_url = cluster.to_owned();
    let mut mixed = good();
    mixed.resources[0].type_url = cluster.to_owned();
    let mut broken = good();
    broken.resources[0].value = vec![0xff; 9];
    let same_name = [config("r", "shop", "user", 5), config("r", "blog", "user", 5)];
    let deep = (0..200).fold(RateLimitDescriptor::default(), |below, _| RateLimitDescriptor {
        key: "k".to_owned(),
        descriptors: vec![below],
        ..RateLimitDescriptor::default()
    });
    let deep = RateLimitConfig { descriptors: vec![deep], ..config("r", "shop", "user", 5) };
    let long = "k".repeat(2 << 20);
    for (rubbish, says) in [
        (other, format!("type_url is '{cluster}'; only {TYPE} was asked for")),
        (mixed, format!("resources[0].type_url is '{cluster}'; use {TYPE}")),
        (broken, "resources[0] is no RateLimitConfig: ".to_owned()),
        (response("2", &same_name), "resources[1].name 'r' is there twice; rename one".to_owned()),
        (response("2", &[deep]), "resources[0] is no RateLimitConfig: ".to_owned()),
        (response("2", &[config("r", "shop", &long, 5)]), "xds://127.0.0.1:".to_owned()),
    ] {
        plane.send(rubbish).await;
        let (version, nonce, reason) = told(plane.asked().await);
        assert_eq!((version.as_str(), nonce.as_str()), ("1", "n2"));
        let reason = reason.expect("a reason");
        assert!(reason.starts_with(&says), "{reason}");
        assert!(reason.len() < 5_000);
    }
    assert_eq!(passing(&world, "shop", "alice").await, 2);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_told_on_the_next_stream() {
    let mut plane = ControlPlane::start(None).await;
    let mut rules = at(&plane);
    rules.max_message_bytes = 10_000;
    let world = follow("xds_large", rules).await;
    plane.asked().await;
    plane.put("1", &[config("r", "shop", "user", 2)]).await;
    let (version, nonce, reason) =
        told(plane.put("2", &[config("r", "shop", &"k".repeat(10_000), 5)]).await);
    assert_eq!((version.as_str(), nonce.as_str()), ("1", ""), "the first request of a stream");
    let reason = reason.expect("a reason");
    assert!(reason.starts_with("the last response could not be read: OutOfRange: "), "{reason}");
    assert_eq!(passing(&world, "shop", "alice").await, 2);
    assert_eq!(told(plane.put("3", &[config("r", "shop", "user", 3)]).await).2, None);
}

#[tokio::test]
async fn a_broken_stream_is_opened_again_and_the_rules_stay() {
    let (mut plane, world) = plain("xds_broken").await;
    plane.put("1", &[config("r", "shop", "user", 2)]).await;
    plane.fail(Status::unavailable("later")).await;
    let again = plane.asked().await;
    assert_eq!((again.version_info.as_str(), again.response_nonce.as_str()), ("1", ""));
    assert_eq!(again.error_detail, None);
    assert_eq!(passing(&world, "shop", "alice").await, 2);
    // The control plane ends, and starts again at the same address with other rules.
    let address = plane.address;
    plane.stop().await;
    assert_eq!(passing(&world, "shop", "bob").await, 2);
    let mut plane = ControlPlane::start_at(address, None).await;
    assert_eq!(plane.asked().await.version_info, "1");
    assert_eq!(told(plane.put("2", &[config("r", "shop", "user", 1)]).await).0, "2");
    assert_eq!(passing(&world, "shop", "carol").await, 1);
}

/// A response contains all rules, so a domain that it does not contain is gone, whatever the options say about files.
#[tokio::test]
async fn a_domain_that_is_not_sent_any_more_has_no_limits() {
    let (mut plane, mut world) = plain("xds_deleted").await;
    let [shop, blog] = [config("r", "shop", "user", 2), config("s", "blog", "user", 1)];
    plane.put("1", &[shop.clone(), blog.clone()]).await;
    world.reloaded().await;
    assert_eq!(passing(&world, "shop", "alice").await, 2);
    for (version, configs) in [("2", vec![blog]), ("3", Vec::new())] {
        let accepted = told(plane.put(version, &configs).await);
        assert_eq!(accepted, (version.into(), format!("n{version}"), None));
        let Some(Refresh::Loaded(rules)) = world.told.recv().await else { panic!("loaded") };
        assert_eq!(rules.kept_domains().count(), 0);
        assert_eq!(passing(&world, "shop", "alice").await, 3, "of {version}");
    }
    assert_eq!(passing(&world, "blog", "alice").await, 3);
    assert_eq!(world.metric("tollgate_config_kept_domains").await.as_deref(), Some("0"));
    assert_eq!(world.http("GET", "/healthcheck", "").await.0, 200);
    // The domain comes back, and its spent units are still spent.
    assert_eq!(told(plane.put("4", &[shop]).await).2, None);
    assert_eq!(passing(&world, "shop", "alice").await, 0);
}

/// Envoy Gateway restarts a service that is unhealthy, and sends no rules while it has no route.
#[tokio::test]
async fn a_service_may_be_healthy_before_the_control_plane_has_answered() {
    for (healthy_without_rules, status) in [(false, 500), (true, 200)] {
        let plane = ControlPlane::start(None).await;
        let rules = at(&plane).into();
        let more = |options| Options { rules, healthy_without_rules, ..options };
        let world = serve_with("xds_healthy", "", more).await;
        assert_eq!(world.http("GET", "/healthcheck", "").await.0, status);
        // Requests are still refused.
        let asked = request("shop", &[descriptor(&[("user", "alice")])]);
        let refused = world.client().await.should_rate_limit(asked).await.expect_err("no rules");
        assert_eq!(refused.code(), tonic::Code::Unavailable);
        world.running.stop().await;
    }
}

#[tokio::test]
async fn tls_needs_the_right_authority_and_name_and_the_nodes_certificate() {
    let (path, _) = files("xds");
    let (authority, other) = (Authority::new(), Authority::new());
    let (server, node) = (authority.issue(), authority.issue());
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&server.certificate, &server.key))
        .client_ca_root(Certificate::from_pem(authority.pem()));
    let mut plane = ControlPlane::start(Some(tls)).await;
    let ca = write(&path.join("ca.pem"), &authority.pem());
    let wrong = write(&path.join("other.pem"), &other.pem());
    let certificate = write(&path.join("node.crt"), &node.certificate);
    let key = write(&path.join("node.key"), &node.key);
    let rules = |ca: &std::path::Path, more: &str| -> XdsRules {
        let text = format!("xdss://{}/n?ca={}{more}", plane.address, ca.display());
        text.parse().expect("an address")
    };
    let own = format!("&cert={}&key={}", certificate.display(), key.display());
    let named = format!("{own}&name=localhost");
    let refused = [
        rules(&wrong, &named),
        rules(&ca, &own),
        rules(&ca, "&name=localhost"),
        rules(&path.join("absent"), &named),
        at(&plane),
    ];
    let mut without = Vec::new();
    for (n, rules) in refused.into_iter().enumerate() {
        without.push(follow(&format!("xds_tls_{n}"), rules).await);
    }
    let with = follow("xds_tls_good", rules(&ca, &named)).await;
    // Only the node with the right certificates can connect.
    assert_eq!(plane.asked().await.node.map(|node| node.id).as_deref(), Some("n"));
    assert_eq!(told(plane.put("1", &[config("r", "shop", "user", 2)]).await).2, None);
    assert_eq!(passing(&with, "shop", "alice").await, 2);
    for world in without {
        assert_eq!(world.http("GET", "/healthcheck", "").await.0, 500, "no rules");
    }
    with.running.stop().await;
}
