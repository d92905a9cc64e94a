//! `tollgate serve --redis` while its Redis is killed and restarted: the log and the health check.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::processes::{Process, connected, free_address, redis_server};

const RULES: &str = "
domain: shop
descriptors:
  - {key: local, rate_limit: {unit: year, requests_per_unit: 30}}
  - {key: allow, on_error: allow, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 30}}
  - {key: deny, on_error: deny, accuracy: exact, rate_limit: {unit: year, requests_per_unit: 30}}
";
const PATIENCE: Duration = Duration::from_secs(30);

struct Serving {
    _process: Process,
    http: SocketAddr,
    lines: Receiver<String>,
}

/// A service that is configured as one of three nodes on this Redis, with `more` flags.
fn serve(test: &str, redis: SocketAddr, more: &[&str]) -> Serving {
    let rules = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::write(&rules, RULES).expect("a file below target");
    let any = "127.0.0.1:0";
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["serve", "--http", any, "--grpc", any, "--admin", any, "--rules"])
        .arg(&rules)
        .args(["--redis", &format!("redis://:secret@{redis}/"), "--nodes", "3"])
        // A busy machine may be slow: a Redis that answers must not time out.
        .args(["--redis-deadline", "2000"])
        .args(more)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command is built");
    let (sender, lines) = channel();
    let output = BufReader::new(child.stderr.take().expect("piped"));
    let _process = Process(child);
    std::thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let mut serving = Serving { _process, http: redis, lines };
    let line = serving.line(" http ");
    let (_, rest) = line.split_once(" http ").expect("an address");
    serving.http = rest.split(',').next().and_then(|http| http.parse().ok()).expect("an address");
    serving
}

impl Serving {
    /// The next line of the log with this text, without its time and level.
    fn line(&self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no line with {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        let mut stream = connected(self.http);
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        (head[9..12].parse().expect("a status"), body.to_owned())
    }

    fn health(&self) -> (u16, String) {
        self.ask("GET", "/healthcheck", "")
    }

    /// Returns whether a request under a rule is admitted.
    fn check(&self, rule: &str) -> bool {
        let body = format!("{{\"domain\": \"shop\", \"descriptors\": [{{\"{rule}\": \"x\"}}]}}");
        let (status, answer) = self.ask("POST", "/v1/check", &body);
        assert!(matches!(status, 200 | 429), "{status}: {answer}");
        status == 200
    }

    fn until_healthy(&self) {
        let begun = Instant::now();
        while self.health().1 != "OK" {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.health());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn redis(address: SocketAddr) -> Process {
    let port = address.port().to_string();
    let arguments =
        ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--requirepass", "secret"];
    let redis = redis_server(&arguments);
    drop(connected(address));
    redis
}

#[test]
fn a_redis_that_is_killed_is_told_of_in_the_log_and_by_the_health_check_and_so_is_its_return() {
    let address = free_address();
    let store = format!("redis://{address}/");
    let first = redis(address);
    let serving = serve("redis_killed.yaml", address, &[]);
    serving.until_healthy();
    assert!(serving.check("local"));
    drop(first);
    let lost = serving.line("store lost");
    let (_, what) = lost.split_once(" WARN ").expect("a warning");
    // An outage without requests is noticed by the next request, or by the check for evictions.
    let faults =
        ["the connection to the store broke", "no connection to the store answers in time"];
    // The text behind it is the system's, such as that a pipe is broken.
    let begins = faults.map(|fault| format!("store lost: {store}: {fault}"));
    assert!(begins.iter().any(|begins| what.starts_with(begins)), "{lost}");
    let ends =
        "; until it is back 1 limit admits this node's share, 1 limit allows, 1 limit denies";
    assert!(what.ends_with(ends), "{lost}");
    let (status, body) = serving.health();
    let begins = format!("degraded: {store} has not answered since ");
    assert!(status == 200 && body.starts_with(&begins), "{status} {body}");
    assert!(body.contains(" GMT: ") && body.ends_with("; rules decide by on_error"), "{body}");
    // This node's share is a third of 30, so it admits 10 of 14 requests. Then 4 are allowed and 4 denied, as their
    // rules say.
    let admitted = (0..14).filter(|_| serving.check("local")).count();
    assert_eq!(admitted, 10);
    assert!((0..4).all(|_| serving.check("allow")));
    assert!((0..4).all(|_| !serving.check("deny")));
    let _second = redis(address);
    let back = serving.line("store back");
    let (_, what) = back.split_once(" INFO ").expect("a piece of information");
    let begins = format!("store back: {store}: away for ");
    assert!(what.starts_with(&begins), "{back}");
    let ends = "22 decisions were made without it, 14 allowed and 8 denied";
    assert!(what.ends_with(ends), "{back}");
    serving.until_healthy();
    assert!(!lost.contains("secret") && !back.contains("secret") && !body.contains("secret"));
}

#[test]
fn while_redis_is_away_rules_that_name_no_on_error_follow_the_flag_and_others_themselves() {
    // Nothing listens there.
    let away = free_address();
    for (word, admitted) in [("local", 10), ("allow", 14), ("deny", 0)] {
        let more = ["--on-error", word];
        let serving = serve(&format!("redis_away_{word}.yaml"), away, &more);
        // The rule that is called `local` names no `on_error`. So the flag decides: a third of 30, everything or
        // nothing.
        assert_eq!((0..14).filter(|_| serving.check("local")).count(), admitted, "{word}");
        assert!((0..4).all(|_| serving.check("allow")), "{word}");
        assert!((0..4).all(|_| !serving.check("deny")), "{word}");
    }
}
