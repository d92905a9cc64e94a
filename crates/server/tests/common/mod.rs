//! A service on free ports, and clients of its own.

#![allow(dead_code)] // each test file uses its part

use std::fs;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_rules::Settings;
use tollgate_service::protocol::common::{RateLimitDescriptor, rate_limit_descriptor::Entry};
use tollgate_service::protocol::rls::RateLimitRequest;
use tollgate_service::protocol::rls::rate_limit_service_client::RateLimitServiceClient;
use tollgate_service::{Answers, Options, Running, start};
use tonic::transport::{Channel, Endpoint};

/// Windows of a year: no test meets their end.
pub(crate) const RULES: &str = "
domain: basic
descriptors:
  - {key: key1, rate_limit: {unit: second, requests_per_unit: 50}}
  - {key: key2, rate_limit: {unit: year, requests_per_unit: 20}}
  - {key: key3, rate_limit: {unit: year, requests_per_unit: 10, name: ten}}
  - {key: half, rate_limit: {window: 720h, requests_per_unit: 4}}
  - {key: odd, rate_limit: {window: 45d, requests_per_unit: 4}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: told, metadata: {tier: gold, deep: {a: 1}}, rate_limit: {unit: year, requests_per_unit: 9}}
";

/// A running service, and the directory of its rules.
pub(crate) struct World {
    pub(crate) running: Running,
    pub(crate) rules: PathBuf,
}

/// Serves these rules. `test` is the name of the test.
pub(crate) async fn serve(test: &str, rules: &str, settings: Settings) -> World {
    serve_with(test, rules, settings, |_| ()).await
}

/// The same, with other options.
pub(crate) async fn serve_with(
    test: &str,
    rules: &str,
    settings: Settings,
    change: impl FnOnce(&mut Options),
) -> World {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory below target");
    if !rules.is_empty() {
        fs::write(path.join("basic.yaml"), rules).expect("a file below target");
    }
    let any = "127.0.0.1:0".parse().expect("an address");
    let mut options = Options {
        settings,
        http: any,
        grpc: any,
        admin: any,
        answers: Answers { headers: true, metadata: true },
        ..Options::new(&path)
    };
    change(&mut options);
    World { running: start(options, |_| ()).await.expect("free ports"), rules: path }
}

impl World {
    pub(crate) async fn channel(&self) -> Channel {
        let address = format!("http://{}", self.running.grpc);
        Endpoint::from_shared(address).expect("an address").connect().await.expect("it listens")
    }

    pub(crate) async fn client(&self) -> RateLimitServiceClient<Channel> {
        RateLimitServiceClient::new(self.channel().await)
    }

    /// One HTTP request: the status and everything behind the headers.
    pub(crate) async fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, _, body) = exchange(self.running.http, method, path, body).await;
        (status, body)
    }

    pub(crate) async fn admin(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, _, body) = exchange(self.running.admin, method, path, body).await;
        (status, body)
    }
}

/// The status, the headers and the body.
pub(crate) async fn exchange(
    address: std::net::SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // A server that refuses a body early need not read it.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("headers end");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), head.to_ascii_lowercase(), body.to_owned())
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

pub(crate) fn request(domain: &str, descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: domain.into(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}
