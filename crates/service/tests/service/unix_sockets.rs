//! Tests unix sockets, which serve in addition to the addresses.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{RULES, World, answered, descriptor, refused, request, serve_with};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tollgate_service::protocol::rls::rate_limit_service_client::RateLimitServiceClient;
use tollgate_service::{Options, StartError};
use tonic::transport::{Channel, Endpoint};

/// A directory with a short path, because a socket's path has at most 107 bytes.
fn directory(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tollgate-{}-{test}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory for temporary files");
    path
}

async fn serve(test: &str, path: &Path) -> World {
    serve_with(&format!("unix_{test}"), RULES, |options| Options {
        http_socket: Some(path.join("http")),
        grpc_socket: Some(path.join("grpc")),
        ..options
    })
    .await
}

/// Asks over HTTP with this header; returns the status.
async fn get(socket: &Path, path: &str, header: &str) -> u16 {
    let mut stream = UnixStream::connect(socket).await.expect("it listens");
    let ask = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n");
    stream.write_all(ask.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answered(&answer).0
}

/// Only a process of this machine can ask at a unix socket, as at a loopback address. So its client is trusted as a
/// proxy.
#[tokio::test]
async fn a_proxy_may_ask_there_and_is_believed() {
    let path = directory("auth");
    let rules = "{domain: d, forward_auth: [{a: address}], \
                 descriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 1}}]}";
    let socket = path.join("http");
    let http_socket = Some(socket.clone());
    let world = serve_with("unix_auth", rules, |options| Options { http_socket, ..options }).await;
    for (client, expected) in [("192.0.2.1", 200), ("192.0.2.1", 429), ("192.0.2.2", 200)] {
        let header = format!("x-forwarded-for: {client}\r\n");
        assert_eq!(get(&socket, "/v1/auth?domain=d", &header).await, expected, "{client}");
    }
    world.running.stop().await;
    fs::remove_dir(&path).expect("it is empty");
}

async fn channel(path: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector(connector).await.expect("it listens")
}

#[tokio::test]
async fn both_protocols_are_spoken_there_and_the_files_go_with_the_service() {
    let path = directory("both");
    let world = serve("both", &path).await;
    let asked = || request("basic", &[descriptor(&[("key3", "x")])]);
    let mut client = RateLimitServiceClient::new(channel(path.join("grpc")).await);
    let answer = client.should_rate_limit(asked()).await.expect("an answer").into_inner();
    assert_eq!(answer.statuses[0].limit_remaining, 9);
    // A request over TCP is charged to the same limit.
    let answer = world.client().await.should_rate_limit(asked()).await.expect("an answer");
    assert_eq!(answer.into_inner().statuses[0].limit_remaining, 8);
    assert_eq!(get(&path.join("http"), "/healthcheck", "").await, 200);
    world.running.stop().await;
    assert_eq!(fs::read_dir(&path).expect("the directory").count(), 0);
    fs::remove_dir(&path).expect("it is empty");
}

#[tokio::test]
async fn what_another_left_is_replaced_and_what_is_in_use_is_not() {
    let path = directory("left");
    // A dropped listener of the standard library leaves its file.
    drop(std::os::unix::net::UnixListener::bind(path.join("grpc")).expect("a socket"));
    assert!(path.join("grpc").exists());
    let world = serve("left", &path).await;
    channel(path.join("grpc")).await;
    fs::write(path.join("file"), "precious").expect("a file");
    for name in ["grpc", "file"] {
        let grpc_socket = Some(path.join(name));
        let error = refused(Options { grpc_socket, ..Options::new("no/rules") }).await;
        assert!(matches!(&error, StartError::Socket { path, .. } if path.ends_with(name)));
        let expected = format!("cannot listen on {}: ", path.join(name).display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    channel(path.join("grpc")).await;
    assert_eq!(fs::read_to_string(path.join("file")).expect("it is there"), "precious");
    world.running.stop().await;
    let _ = fs::remove_dir_all(&path);
}
