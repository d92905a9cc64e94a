//! Tests inputs that commonly break rate limit services. They are the rows of a catalogue of bad inputs, and the name
//! of each test contains the number of its row.
//!
//! | Rows | Where |
//! |---|---|
//! | 90-93, 95-97, 99 wire and connections | here; 90 and 91 in `grpc.rs`; 97 under TLS in `tls.rs` |
//! | 94 a descriptor that is listed twice | `crates/rules/tests/decisions.rs` |
//! | 98 no file descriptor left, 126 and 127 the log | `crates/cli/tests/serve.rs`: they need a process |
//! | 100 the end under load | `scenarios/drain.rs`; of leases `global.rs` |
//! | 101-107 rule files | `crates/rules/tests`; the gauge of 105 in `scenarios/reload.rs` |
//! | 125, 130 what others may see | here |
//! | 129 what is left of others' keys | `crates/rules/tests/requests.rs` |
//! | 128 what the time of a decision tells | the core's `tests/bad_inputs/keys.rs` |

use std::time::Duration;

use crate::common::{RULES, World, descriptor, exchange, request, serve};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_rules::RuleSettings;
use tollgate_service::Options;
use tollgate_service::protocol::common::rate_limit_descriptor::RateLimitOverride;
use tollgate_service::protocol::common::{RateLimitDescriptor, rate_limit_descriptor::Entry};
use tollgate_service::protocol::rls::RateLimitRequest;
use tollgate_service::protocol::rls::rate_limit_response::Code;

async fn world(test: &str) -> World {
    serve(&format!("bad_{test}"), RULES, RuleSettings::default()).await
}

/// Sends raw bytes in place of a request; returns the gRPC status of the answer. 13 is INTERNAL, 11 is OUT_OF_RANGE.
async fn status_of_bytes(world: &World, message: Vec<u8>) -> String {
    use tower::ServiceExt;
    let length = u32::try_from(message.len()).expect("a length").to_be_bytes();
    let frame = [&[0], &length[..], &message].concat();
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let asked = http::Request::post(format!("http://{}{path}", world.running.grpc))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(axum::body::Body::from(frame)))
        .expect("a request");
    let answer = world.channel().await.oneshot(asked).await.expect("an answer");
    let status = answer.headers().get("grpc-status").expect("a refusal has no body");
    status.to_str().expect("a number").to_owned()
}

#[tokio::test]
async fn row_92_messages_that_are_huge_cut_or_an_abyss_are_refused() {
    let world = world("92").await;
    let whole = request("basic", &[descriptor(&[("key3", "x")])]).encode_to_vec();
    // Field 15 opens groups within groups, 100,000 levels deep.
    let abyss = vec![15 << 3 | 3_u8; 100_000];
    assert_eq!(status_of_bytes(&world, vec![0; 64 << 20]).await, "11");
    for bad in [whole[..whole.len() - 1].to_vec(), [whole.clone(), abyss].concat(), vec![0xff; 30]]
    {
        assert_eq!(status_of_bytes(&world, bad).await, "13");
    }
    assert_eq!(world.left("basic", "key3", "x").await, 10);
}

#[tokio::test]
async fn row_92_a_value_that_is_no_text_is_limited() {
    let world = world("92_no_text").await;
    let mut client = world.client().await;
    for (n, value) in [&b"\xff"[..], b"\xfe", b"\xff"].into_iter().enumerate() {
        let entries = vec![Entry { key: "key3".into(), value: value.into() }];
        let asked = request("basic", &[RateLimitDescriptor { entries, ..Default::default() }]);
        let answer = client.should_rate_limit(asked).await.expect("an answer").into_inner();
        // These values share the limit of U+FFFD.
        assert_eq!(answer.statuses[0].limit_remaining, 9 - u32::try_from(n).expect("small"));
    }
    assert_eq!(world.left("basic", "key3", "%EF%BF%BD").await, 7);
}

/// Also tests row 99: requests on one connection with 0 hits and with other numbers, by turns, do not affect each
/// other.
#[tokio::test]
async fn row_93_99_any_number_of_hits_is_decided_and_none_wraps() {
    let world = world("93").await;
    let mut client = world.client().await;
    for (in_request, in_descriptor, expected) in [
        (u32::MAX, None, (Code::OverLimit, 10)),
        (0, Some(u64::MAX), (Code::OverLimit, 10)),
        (u32::MAX, Some(3), (Code::Ok, 7)),
        (0, None, (Code::Ok, 6)),
        (0, Some(0), (Code::Ok, 6)),
        (u32::MAX, None, (Code::OverLimit, 6)),
    ] {
        let hits =
            RateLimitDescriptor { hits_addend: in_descriptor, ..descriptor(&[("key3", "x")]) };
        let asked = RateLimitRequest { hits_addend: in_request, ..request("basic", &[hits]) };
        let answer = client.should_rate_limit(asked).await.expect("an answer").into_inner();
        let found = (answer.overall_code(), answer.statuses[0].limit_remaining);
        assert_eq!(found, expected, "{in_request} {in_descriptor:?}");
    }
}

#[tokio::test]
async fn row_95_125_limits_and_values_of_requests_leave_no_series_no_label_and_no_memory_behind() {
    let world = world("95_125").await;
    let mut client = world.client().await;
    let bytes = |page: &str| {
        page.lines().find(|line| line.starts_with("tollgate_table_bytes ")).map(str::to_owned)
    };
    let (_, before) = world.http("GET", "/metrics", "").await;
    for n in 1..=300 {
        // A limit that differs from request to request.
        let value = format!("tenant-{n}\",evil=\"1");
        let own = RateLimitDescriptor {
            limit: Some(RateLimitOverride { requests_per_unit: n, unit: 4 }),
            ..descriptor(&[("own", &value)])
        };
        let answer = client.should_rate_limit(request("basic", &[own])).await.expect("an answer");
        assert_eq!(answer.into_inner().statuses[0].limit_remaining, n - 1);
        let strange = descriptor(&[("key3", &value), ("key2", &value)]);
        let asked = [descriptor(&[("key3", &value)]), descriptor(&[(&value, "x")]), strange];
        // Unknown domains do not add series, either.
        for domain in ["basic", &value] {
            assert!(client.should_rate_limit(request(domain, &asked)).await.is_ok());
        }
    }
    let (_, after) = world.http("GET", "/metrics", "").await;
    assert_eq!(before.lines().count(), after.lines().count());
    assert!(!after.contains("tenant") && !after.contains("evil"), "{after}");
    assert_eq!(bytes(&before), bytes(&after));
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The first bytes that a client of HTTP/2 sends.
fn preface() -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat()
}

/// `:method POST`, `:scheme http`, `:path /`.
const HEADERS: [u8; 3] = [0x83, 0x86, 0x84];

/// Sends these bytes over HTTP/2 and reads until the connection is closed; returns the kinds and payloads of the
/// frames.
async fn until_closed(world: &World, said: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut stream = TcpStream::connect(world.running.grpc).await.expect("it listens");
    // An error is ignored, because the connection may be closed before everything is sent.
    let _ = stream.write_all(said).await;
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard).await;
    let mut frames = Vec::new();
    let mut rest = &heard[..];
    while let Some((head, body)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, behind)) = body.split_at_checked(length) else { break };
        frames.push((head[3], payload.to_vec()));
        rest = behind;
    }
    frames
}

#[tokio::test]
async fn row_96_streams_that_are_reset_at_once_and_headers_without_end_close_the_connection() {
    const SETTINGS: u8 = 4;
    const GO_AWAY: u8 = 7;
    let world = world("96").await;
    let mut resets = preface();
    for stream in (1..20_000).step_by(2) {
        resets.extend(frame(1, 4, stream, &HEADERS));
        resets.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    let frames = until_closed(&world, &resets).await;
    // The server announces its maximum number of streams: MAX_CONCURRENT_STREAMS is setting 3.
    let settings = &frames.iter().find(|(kind, _)| *kind == SETTINGS).expect("settings").1;
    assert!(settings.chunks(6).any(|one| one == [0, 3, 0, 0, 4, 0]), "{settings:?}");
    // ENHANCE_YOUR_CALM is error 11.
    let (_, told) = frames.iter().find(|(kind, _)| *kind == GO_AWAY).expect("it is told why");
    assert_eq!(told[4..8], [0, 0, 0, 11]);
    let mut endless = [preface(), frame(1, 0, 1, &HEADERS)].concat();
    // A literal header that is not indexed: 100 bytes named `a`.
    let header = [&[0, 1, b'a', 100][..], &[b'x'; 100]].concat();
    for _ in 0..10_000 {
        endless.extend(frame(9, 0, 1, &header.repeat(10)));
    }
    until_closed(&world, &endless).await;
    // Other clients are answered as before.
    let asked = request("basic", &[descriptor(&[("key3", "x")])]);
    assert!(world.client().await.should_rate_limit(asked).await.is_ok());
}

/// The paused clock jumps to the next deadline, so a task that waits for a deadline does not really wait.
#[tokio::test(start_paused = true)]
async fn row_97_a_client_that_sends_no_headers_in_time_is_closed() {
    let world = world("97_closed").await;
    for said in ["", "GET /healthcheck HT", "GET /healthcheck HTTP/1.1\r\nhost: x\r\n"] {
        let begun = tokio::time::Instant::now();
        let mut stream = TcpStream::connect(world.running.http).await.expect("it listens");
        stream.write_all(said.as_bytes()).await.expect("it is open");
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        assert!(!heard.starts_with(b"HTTP/1.1 200"), "{said}");
        assert!(begun.elapsed() >= Duration::from_secs(5), "{said}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn row_97_slow_clients_keep_no_other_client_waiting() {
    let world = world("97_waiting").await;
    let mut slow = Vec::new();
    for n in 0..200 {
        let address = if n % 2 == 0 { world.running.http } else { world.running.grpc };
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let said = ["", "P", "POST /json HTTP/1.1\r\ncontent-length: 100\r\n\r\n{"][n % 3];
        stream.write_all(said.as_bytes()).await.expect("it is open");
        slow.push(stream);
    }
    assert_eq!(world.http("GET", "/healthcheck", "").await.0, 200);
    let asked = request("basic", &[descriptor(&[("key3", "x")])]);
    assert!(world.client().await.should_rate_limit(asked).await.is_ok());
    drop(slow);
}

#[tokio::test]
async fn row_130_what_shows_or_undoes_is_on_the_loopback_address_only() {
    let options = Options::new("rules");
    let addresses = [&options.admin, &options.http, &options.grpc].map(ToString::to_string);
    assert_eq!(addresses, ["127.0.0.1:6070", "0.0.0.0:8080", "0.0.0.0:8081"]);
    let world = world("130").await;
    for path in ["/rlconfig", "/v1/reset", "/stats", "/debug/pprof/", "/admin", "/..%2frlconfig"] {
        for method in ["GET", "POST"] {
            let (status, _, _) = exchange(world.running.http, method, path, "").await;
            assert_eq!(status, 404, "{method} {path}");
        }
    }
    assert_eq!(world.admin("GET", "/rlconfig", "").await.0, 200);
}
