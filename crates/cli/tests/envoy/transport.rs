//! The connection between Envoy and the service: TLS in both directions, and a unix socket.

use crate::authority::{Authority, Issued};
use crate::common::Scratch;
use crate::processes::until;
use crate::world::{ALICE, AsksBy, DENY, Setup, THREE, World, scratch};

/// The statuses of four requests that the service answers, and of those that it does not.
const ANSWERED: [u16; 4] = [200, 200, 200, 429];
const FAILED: [u16; 4] = [500; 4];

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

/// Asks over this connection, after `change` has changed the certificates.
#[track_caller]
fn assert_asked(serve: &[&str], socket: &str, change: impl FnOnce(&Scratch), expected: [u16; 4]) {
    let scratch = certificates();
    change(&scratch);
    let setup = Setup { rules: THREE, serve, filter: DENY, cluster: &[socket], ..Setup::default() };
    let found = World::start_in(scratch, &setup).statuses(4, "/", ALICE);
    assert_eq!(found, expected, "{socket}");
}

#[test]
fn envoy_asks_over_tls_and_asks_no_service_of_another_authority_or_name() {
    assert_asked(TLS, &socket("localhost", ""), |_| {}, ANSWERED);
    let of_another = |scratch: &Scratch| {
        scratch.file("services.crt", Authority::new().pem());
    };
    assert_asked(TLS, &socket("localhost", ""), of_another, FAILED);
    assert_asked(TLS, &socket("elsewhere", ""), |_| {}, FAILED);
    // A service with TLS is not asked without.
    assert_asked(TLS, "", |_| {}, FAILED);
}

#[test]
fn both_prove_themselves_by_certificates_and_no_other_envoy_is_answered() {
    assert_asked(MUTUAL, &socket("localhost", CERTIFICATE), |_| {}, ANSWERED);
    assert_asked(MUTUAL, &socket("localhost", ""), |_| {}, FAILED);
    let of_another = |scratch: &Scratch| write(scratch, "envoy", &Authority::new().issue());
    assert_asked(MUTUAL, &socket("localhost", CERTIFICATE), of_another, FAILED);
}

#[test]
fn a_certificate_that_is_renewed_is_used_without_a_restart() {
    let scratch = certificates();
    let second = Authority::new();
    let setup = Setup {
        rules: THREE,
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
    until("the new certificate", || world.ask("/", &["x-user: bob"]).status == 200);
    assert_eq!(world.statuses(4, "/", ALICE), ANSWERED);
}

#[test]
fn envoy_asks_at_a_unix_socket_and_with_googles_grpc_library() {
    let socket = &["--grpc-socket", "grpc.sock"];
    for (serve, by) in [(&socket[..], AsksBy::UnixSocket), (&[], AsksBy::GoogleGrpc)] {
        let setup = Setup { rules: THREE, serve, filter: DENY, by, ..Setup::default() };
        assert_eq!(World::start(&setup).statuses(4, "/", ALICE), ANSWERED);
    }
}
