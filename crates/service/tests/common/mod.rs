//! Starts a service on free ports, and provides clients for it.

#![allow(dead_code)] // each test file uses only a part

pub(crate) mod control_plane;
pub(crate) mod near_over;
pub(crate) mod reports;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tollgate::{ManualClock, Timestamp};
use tollgate_rules::{Refresh, RuleError, RuleSettings};
use tollgate_service::protocol::common::{RateLimitDescriptor, rate_limit_descriptor::Entry};
use tollgate_service::protocol::rls::rate_limit_response::Code;
use tollgate_service::protocol::rls::rate_limit_service_client::RateLimitServiceClient;
use tollgate_service::protocol::rls::{RateLimitRequest, RateLimitResponse};
use tollgate_service::{Options, Running, StartError, start};
use tonic::transport::{Channel, Endpoint};

/// Most limits have windows of a year, so that no test reaches the end of a window.
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

/// A wait that is long enough for a machine that is busy with other tests.
pub(crate) const PATIENT: Duration = Duration::from_secs(30);

/// A running service, the directory of its rules, and the results of its loads.
pub(crate) struct World {
    pub(crate) running: Running,
    pub(crate) rules: PathBuf,
    pub(crate) told: UnboundedReceiver<Refresh>,
}

/// Serves these rules. `test` is the name of the test.
pub(crate) async fn serve(test: &str, rules: &str, settings: RuleSettings) -> World {
    serve_with(test, rules, |options| Options { settings, ..options }).await
}

/// 2026-09-21 12:00:17 UTC.
pub(crate) const NOON: Timestamp = Timestamp::from_secs(1_789_992_017);

/// Serves these rules on a clock that stands still at [`NOON`].
pub(crate) async fn serve_at_noon(test: &str, rules: &str, settings: RuleSettings) -> World {
    serve_on_clock(test, rules, |options| Options { settings, ..options }).await.0
}

/// Serves these rules with changed options, on a clock that stands at [`NOON`] until the test moves it.
pub(crate) async fn serve_on_clock(
    test: &str,
    rules: &str,
    more: impl FnOnce(Options) -> Options,
) -> (World, ManualClock) {
    let clock = ManualClock::new();
    clock.set(NOON);
    let own = clock.clone().into();
    let more = |options| more(Options { clock: own, ..options });
    (serve_with(test, rules, more).await, clock)
}

/// Serves these rules with changed options.
pub(crate) async fn serve_with(
    test: &str,
    rules: &str,
    more: impl FnOnce(Options) -> Options,
) -> World {
    let path = directory(test);
    if !rules.is_empty() {
        fs::write(path.join("basic.yaml"), rules).expect("a file below target");
    }
    let options = Options { answer_headers: true, answer_metadata: true, ..Options::new(&path) };
    let options = more(anywhere(options));
    let (tell, told) = unbounded_channel();
    let observe = move |refresh: &Refresh| drop(tell.send(refresh.clone()));
    World { running: start(options, observe).await.expect("free ports"), rules: path, told }
}

/// Starts a service that must not start; returns the error.
pub(crate) async fn refused(options: Options) -> StartError {
    start(anywhere(options), |_| ()).await.expect_err("refused")
}

/// These options with free ports of this machine.
fn anywhere(options: Options) -> Options {
    let any = || ([127, 0, 0, 1], 0).into();
    Options { http: any(), grpc: any(), admin: any(), ..options }
}

/// An empty directory of this name.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory below target");
    path
}

impl World {
    pub(crate) async fn channel(&self) -> Channel {
        let address = format!("http://{}", self.running.grpc);
        Endpoint::from_shared(address).expect("an address").connect().await.expect("it listens")
    }

    pub(crate) async fn client(&self) -> RateLimitServiceClient<Channel> {
        RateLimitServiceClient::new(self.channel().await)
    }

    /// The answer to one request over gRPC.
    pub(crate) async fn ask(&self, asked: RateLimitRequest) -> RateLimitResponse {
        self.client().await.should_rate_limit(asked).await.expect("an answer").into_inner()
    }

    /// Waits until rules were loaded, or refused; returns the errors.
    pub(crate) async fn reloaded(&mut self) -> Vec<RuleError> {
        match self.told.recv().await.expect("it runs") {
            Refresh::Refused(errors) => errors,
            _ => Vec::new(),
        }
    }

    /// Writes a file into the directory of rules atomically, and signals the change.
    pub(crate) fn put(&self, file: &str, rules: &str) {
        let draft = self.rules.join(format!("{file}.draft"));
        fs::write(&draft, rules).expect("a file below target");
        fs::rename(&draft, self.rules.join(file)).expect("the same directory");
        self.running.changed().notify();
    }

    /// The value of a series in `/metrics`.
    pub(crate) async fn metric(&self, series: &str) -> Option<String> {
        let (_, page) = self.http("GET", "/metrics", "").await;
        let of_series = |line: &str| Some(line.strip_prefix(series)?.strip_prefix(' ')?.to_owned());
        page.lines().find_map(of_series)
    }

    /// Waits until `/metrics` has a line.
    pub(crate) async fn until(&self, line: &str) {
        let begun = Instant::now();
        loop {
            let (_, metrics) = self.http("GET", "/metrics", "").await;
            if metrics.lines().any(|found| found == line) {
                return;
            }
            assert!(begun.elapsed() < PATIENT, "no {line} in {metrics}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether the request is admitted, and the status of each descriptor.
    pub(crate) async fn check(
        &self,
        domain: &str,
        descriptors: &Value,
        cost: u64,
    ) -> (bool, Value) {
        let body = json!({"domain": domain, "descriptors": descriptors, "cost": cost});
        let (status, answer) = self.http("POST", "/v1/check", &body.to_string()).await;
        let mut answer: Value = serde_json::from_str(&answer).expect("JSON");
        let is_allowed = answer["allowed"] == json!(true);
        assert_eq!(status, if is_allowed { 200 } else { 429 });
        (is_allowed, answer["statuses"].take())
    }

    /// One HTTP request: the status and everything after the headers.
    pub(crate) async fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, _, body) = exchange(self.running.http, method, path, body).await;
        (status, body)
    }

    /// Sends a JSON body; returns the status and the body of the answer, as JSON or, if it is not JSON, as text.
    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let (status, told) = self.http("POST", path, &body.to_string()).await;
        (status, serde_json::from_str(&told).unwrap_or(Value::String(told)))
    }

    /// The remaining units of the limit on one entry.
    pub(crate) async fn left(&self, domain: &str, key: &str, value: &str) -> u64 {
        let path = format!("/v1/peek?domain={domain}&{key}={value}&cost=0");
        let (_, told) = self.http("GET", &path, "").await;
        let told: Value = serde_json::from_str(&told).expect("JSON");
        told["statuses"][0]["remaining"].as_u64().expect("a number")
    }

    pub(crate) async fn admin(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, _, body) = exchange(self.running.admin, method, path, body).await;
        (status, body)
    }
}

/// Sends one request; returns the status, the headers and the body of the answer.
pub(crate) async fn exchange(
    address: std::net::SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String, String) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    answered(&raw(address, &request).await)
}

/// The status of an answer, its headers in lower case, and its body.
pub(crate) fn answered(answer: &str) -> (u16, String, String) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("headers end");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), head.to_ascii_lowercase(), body.to_owned())
}

/// Sends the text of a request unchanged; returns the whole answer.
pub(crate) async fn raw(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    // An error is ignored, because a server that refuses a body early need not read it.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).expect("text")
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

pub(crate) fn request(domain: &str, descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: domain.into(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

/// The code and the remaining units of each status.
pub(crate) fn codes(response: &RateLimitResponse) -> Vec<(Code, u32)> {
    response.statuses.iter().map(|status| (status.code(), status.limit_remaining)).collect()
}
