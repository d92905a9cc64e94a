//! Tests TLS over real sockets. The tests create the authorities and their certificates.

use std::time::Duration;

use crate::certificates::{Authority, Issued, connect, files, write};
use crate::common::{RULES, World, descriptor, refused, request, serve_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_service::protocol::rls::rate_limit_service_client::RateLimitServiceClient;
use tollgate_service::{Options, StartError, TlsFiles};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// The maximum time that a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves gRPC and HTTP with these certificate files.
async fn serve(test: &str, files: &TlsFiles) -> World {
    serve_with(test, RULES, |options| Options {
        http_tls: Some(files.clone()),
        grpc_tls: Some(files.clone()),
        ..options
    })
    .await
}

async fn channel(
    world: &World,
    authority: &Authority,
    client: Option<&Issued>,
) -> Result<Channel, tonic::transport::Error> {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority.pem()))
        .domain_name("localhost");
    let tls = match client {
        None => tls,
        Some(issued) => tls.identity(Identity::from_pem(&issued.certificate, &issued.key)),
    };
    let endpoint = Endpoint::from_shared(format!("https://{}", world.running.grpc))?;
    endpoint.tls_config(tls)?.connect().await
}

/// Whether a request over this channel is answered.
async fn asks(channel: Channel) -> bool {
    let mut client = RateLimitServiceClient::new(channel);
    client.should_rate_limit(request("basic", &[descriptor(&[("key3", "x")])])).await.is_ok()
}

/// Asks for the health over HTTP; returns the answer, which is empty if the connection is closed instead.
async fn health(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> String {
    let asked = b"GET /healthcheck HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut answer = Vec::new();
    // An error is ignored, because a server that refuses the client may close before it has read the request.
    let _ = stream.write_all(asked).await;
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends a request over gRPC and one over HTTP, as a client that trusts this authority. Returns for each whether it is
/// answered.
async fn answers(world: &World, authority: &Authority, client: Option<&Issued>) -> [bool; 2] {
    // With TLS 1.3 the handshake of a client without the right certificate succeeds, and the client learns of the
    // refusal only afterwards.
    let grpc = match channel(world, authority, client).await {
        Ok(channel) => asks(channel).await,
        Err(_) => false,
    };
    let http = match connect(world.running.http, authority, client).await {
        Ok(mut stream) => health(&mut stream).await,
        Err(_) => String::new(),
    };
    assert!(http.is_empty() || http.starts_with("HTTP/1.1 200 OK"), "{http}");
    [grpc, !http.is_empty()]
}

#[tokio::test]
async fn grpc_and_http_speak_tls_and_nothing_else() {
    let (_, files) = files("speaks");
    let authority = Authority::new();
    authority.issue().write(&files);
    let world = serve("tls_speaks_rules", &files).await;
    assert_eq!(answers(&world, &authority, None).await, [true; 2]);
    // A client that trusts another authority fails, and a client without TLS gets no answer.
    let other = Authority::new();
    assert!(channel(&world, &other, None).await.is_err());
    assert!(connect(world.running.http, &other, None).await.is_err());
    let mut plain = TcpStream::connect(world.running.http).await.expect("it listens");
    assert!(!health(&mut plain).await.starts_with("HTTP/1.1"));
    // The admin's address stays unencrypted, because it is meant for this machine alone.
    let (status, _) = world.admin("GET", "/rlconfig", "").await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_new_certificate_is_served_without_a_restart_and_without_being_told() {
    let (_, files) = files("renewed");
    let (before, after) = (Authority::new(), Authority::new());
    before.issue().write(&files);
    let world = serve("tls_renewed_rules", &files).await;
    let kept = channel(&world, &before, None).await.expect("a handshake");
    let renewed = after.issue();
    renewed.write(&files);
    // The files are watched, and also read every 10 s. So after a while handshakes use the new certificate.
    let handshake = async {
        loop {
            if let Ok(stream) = connect(world.running.http, &after, None).await {
                break stream;
            }
        }
    };
    let stream = tokio::time::timeout(PATIENCE, handshake).await;
    let stream = stream.unwrap_or_else(|_| panic!("HTTP: the old one after {PATIENCE:?}"));
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).cloned();
    assert_eq!(shown, Some(renewed.der()));
    let handshake = async { while channel(&world, &after, None).await.is_err() {} };
    let handshake = tokio::time::timeout(PATIENCE, handshake).await;
    assert!(handshake.is_ok(), "gRPC: the old one after {PATIENCE:?}");
    assert!(channel(&world, &before, None).await.is_err(), "the old authority is not enough");
    // Existing connections stay open.
    assert!(asks(kept).await);
}

#[tokio::test]
async fn clients_need_a_certificate_where_an_authority_is_named() {
    let (path, files) = files("mutual");
    let (authority, clients) = (Authority::new(), Authority::new());
    authority.issue().write(&files);
    let client_ca = Some(write(&path.join("clients.pem"), &clients.pem()));
    let world = serve("tls_mutual_rules", &TlsFiles { client_ca, ..files }).await;
    let (known, stranger) = (clients.issue(), authority.issue());
    for (client, are_answered) in [(Some(&known), true), (None, false), (Some(&stranger), false)] {
        assert_eq!(answers(&world, &authority, client).await, [are_answered; 2]);
    }
}

#[tokio::test]
async fn every_bad_file_is_an_error_that_names_it() {
    let (path, good) = files("bad");
    let authority = Authority::new();
    let (issued, other) = (authority.issue(), authority.issue());
    issued.write(&good);
    let cut = &issued.certificate[..issued.certificate.len() / 2];
    let damaged = issued.certificate.replace("MII", "???");
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let at = |name: &str, text: &str| write(&path.join(name), text);
    let certificate = |name, text: &str| TlsFiles { certificate: at(name, text), ..good.clone() };
    let key = |name, text: &str| TlsFiles { key: at(name, text), ..good.clone() };
    let large = "x".repeat((1 << 20) + 1);
    let cases = [
        (TlsFiles::new(path.join("none"), &good.key), "none", "cannot be read: No such file"),
        (TlsFiles::new(&good.certificate, &path), "tls_bad", "cannot be read: Is a directory"),
        (certificate("empty", ""), "empty", "holds no certificate; give a PEM file with BEGIN"),
        (certificate("keys", &issued.key), "keys", "holds no certificate"),
        (certificate("cut", cut), "cut", "is no whole PEM file: "),
        (certificate("damaged", &damaged), "damaged", "is no whole PEM file: "),
        (certificate("garbage", garbage), "garbage", "is not accepted: "),
        (certificate("large", &large), "large", "is larger than 1048576 bytes"),
        (key("certificates", &issued.certificate), "certificates", "holds no private key"),
        (key("other", &other.key), "other", "is not the key of the certificate in "),
        (
            TlsFiles { client_ca: Some(at("nobody", "# nothing")), ..good.clone() },
            "nobody",
            "holds no certificate",
        ),
    ];
    for (files, name, expected) in cases {
        let error = refused(Options { grpc_tls: Some(files), ..Options::new("no/rules") }).await;
        let StartError::Tls { file, problem } = error else {
            panic!("{name} {expected}: {error:?}")
        };
        assert!(file.ends_with(name), "{}: {problem}", file.display());
        let text = problem.to_string();
        assert!(text.starts_with(expected), "{name}: {text}, not {expected}");
    }
}

/// Tests row 97 of the bad inputs: a client connects and sends nothing.
#[tokio::test]
async fn row_97_a_client_that_never_shakes_hands_keeps_no_other_waiting() {
    let (_, files) = files("silent");
    let authority = Authority::new();
    authority.issue().write(&files);
    let world = serve("tls_silent_rules", &files).await;
    let mut silent = Vec::new();
    for address in [world.running.http, world.running.grpc].repeat(50) {
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    assert_eq!(answers(&world, &authority, None).await, [true; 2]);
    drop(silent);
}
