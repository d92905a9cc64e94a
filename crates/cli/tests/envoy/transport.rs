//! The connection between Envoy and the service: TLS in both directions, and a unix socket.

use crate::authority::{Authority, Issued};
use crate::common::Scratch;
use crate::world::{AsksBy, Setup, World, scratch};

const TWO: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
";

const ALICE: &[&str] = &["x-user: alice"];

/// If the service does not answer, every request fails.
const DENY: &[&str] = &["failure_mode_deny: true"];

const TLS: &[&str] = &["--grpc-tls-cert", "service.crt", "--grpc-tls-key", "service.key"];
const MUTUAL: &[&str] = &[
    "--grpc-tls-cert",
    "service.crt",
    "--grpc-tls-key",
    "service.key",
    "--grpc-tls-client-ca",
    "clients.crt",
];

/// Envoy's side: it trusts `services.crt`, and may have a certificate of its own.
fn socket(name: &str, certificate: &str) -> String {
    format!(
        "transport_socket: {{name: envoy.transport_sockets.tls, typed_config: {{\"@type\": \
         type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: {name}, \
         common_tls_context: {{{certificate}validation_context: {{trusted_ca: {{filename: services.crt}}, \
         match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: {name}}}}}]}}}}}}}}"
    )
}

const CERTIFICATE: &str = "tls_certificates: [{certificate_chain: {filename: envoy.crt}, \
                           private_key: {filename: envoy.key}}], ";

fn write(scratch: &Scratch, name: &str, issued: &Issued) {
    scratch.file(&format!("{name}.crt"), &issued.certificate);
    scratch.file(&format!("{name}.key"), &issued.key);
}

/// Certificates for the service and, of another authority, for Envoy.
fn certificates() -> Scratch {
    let scratch = scratch();
    let (services, clients) = (Authority::new(), Authority::new());
    scratch.file("services.crt", services.pem()).file("clients.crt", clients.pem());
    write(&scratch, "service", &services.issue());
    write(&scratch, "envoy", &clients.issue());
    scratch
}

fn statuses(scratch: Scratch, serve: &[&str], socket: &str) -> Vec<u16> {
    let setup = Setup { rules: TWO, serve, filter: DENY, cluster: &[socket], ..Setup::default() };
    World::start_in(scratch, &setup).statuses(3, "/", ALICE)
}

#[test]
fn envoy_asks_over_tls() {
    assert_eq!(statuses(certificates(), TLS, &socket("localhost", "")), [200, 200, 429]);
}

#[test]
fn a_service_of_another_authority_is_not_asked() {
    let scratch = certificates();
    scratch.file("services.crt", Authority::new().pem());
    assert_eq!(statuses(scratch, TLS, &socket("localhost", "")), [500; 3]);
}

#[test]
fn a_service_of_another_name_is_not_asked() {
    assert_eq!(statuses(certificates(), TLS, &socket("elsewhere", "")), [500; 3]);
}

#[test]
fn a_service_with_tls_is_not_asked_without() {
    assert_eq!(statuses(certificates(), TLS, ""), [500; 3]);
}

#[test]
fn both_prove_themselves_by_certificates() {
    let socket = socket("localhost", CERTIFICATE);
    assert_eq!(statuses(certificates(), MUTUAL, &socket), [200, 200, 429]);
}

#[test]
fn an_envoy_without_a_certificate_is_not_answered() {
    assert_eq!(statuses(certificates(), MUTUAL, &socket("localhost", "")), [500; 3]);
}

#[test]
fn an_envoy_of_another_authority_is_not_answered() {
    let scratch = certificates();
    write(&scratch, "envoy", &Authority::new().issue());
    assert_eq!(statuses(scratch, MUTUAL, &socket("localhost", CERTIFICATE)), [500; 3]);
}

#[test]
fn a_certificate_that_is_renewed_is_used_without_a_restart() {
    let scratch = certificates();
    let second = Authority::new();
    let setup = Setup {
        rules: TWO,
        serve: TLS,
        filter: DENY,
        cluster: &[&socket("localhost", "")],
        ..Setup::default()
    };
    // Envoy now trusts only the second authority, so it is answered after the service has a certificate of this
    // authority.
    scratch.file("services.crt", second.pem());
    let world = World::start_in(scratch, &setup);
    assert_eq!(world.statuses(1, "/", ALICE), [500]);
    write(&world.scratch, "service", &second.issue());
    world.service().signal("HUP");
    crate::processes::until("the new certificate", || {
        world.ask("/", &["x-user: bob"]).status == 200
    });
    assert_eq!(world.statuses(3, "/", ALICE), [200, 200, 429]);
}

#[test]
fn envoy_asks_at_a_unix_socket() {
    let serve = &["--grpc-socket", "grpc.sock"];
    let setup =
        Setup { rules: TWO, serve, filter: DENY, by: AsksBy::UnixSocket, ..Setup::default() };
    assert_eq!(World::start(&setup).statuses(3, "/", ALICE), [200, 200, 429]);
}

#[test]
fn envoy_asks_with_googles_grpc_library() {
    let setup = Setup { rules: TWO, filter: DENY, by: AsksBy::GoogleGrpc, ..Setup::default() };
    assert_eq!(World::start(&setup).statuses(3, "/", ALICE), [200, 200, 429]);
}
