//! `tollgate serve --state`: spent units are still spent after a restart.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Scratch;
use crate::processes::Process;

const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
";
const BODY: &str = r#"{"domain": "d", "descriptors": [{"user": "alice"}]}"#;

/// A service on free ports.
struct Serving {
    process: Process,
    http: SocketAddr,
    /// The lines of the log up to the address.
    begun: String,
}

fn serve(scratch: &Scratch, flags: &[&str]) -> Serving {
    scratch.file("rules/d.yaml", RULES);
    let any = "127.0.0.1:0";
    let given = ["serve", "--http", any, "--grpc", any, "--admin", any, "--rules", "rules"];
    let mut command = scratch.command(&[&given[..], flags].concat());
    let child = command.env("TOLLGATE_LINGER_STOP", "0").stdout(Stdio::null()).spawn();
    let mut process = Process(child.expect("it starts"));
    let stderr = process.0.stderr.take().expect("a pipe");
    let (mut lines, mut begun) = (BufReader::new(stderr).lines(), String::new());
    let http = loop {
        let line = lines.next().expect("an address").expect("text");
        begun = begun + &line + "\n";
        let address = line.split_once("http ").and_then(|(_, rest)| rest.split(',').next());
        if let Some(address) = address.and_then(|address| address.parse().ok()) {
            break address;
        }
    };
    // Read to the end, so that a full pipe does not block the service.
    std::thread::spawn(move || lines.for_each(drop));
    Serving { process, http, begun }
}

impl Serving {
    fn ask(&self, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.http).expect("it listens");
        let length = body.len();
        let asked = format!(
            "{head} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(asked.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// The status of the next request of alice.
    fn status(&self) -> u16 {
        let answer = self.ask("POST /v1/check", BODY);
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    }

    fn metric(&self, name: &str) -> Option<u64> {
        let page = self.ask("GET /metrics", "");
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map(|value| value.parse().expect("a number"))
    }

    /// Stops it in order.
    fn terminate(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.process.0.id().to_string()]).status();
        assert!(told.expect("a shell's command").success());
        assert!(self.process.0.wait().expect("it ends").success());
    }
}

/// Spends the whole limit.
#[track_caller]
fn spend(serving: &Serving) {
    assert_eq!([(); 4].map(|()| serving.status()), [200, 200, 200, 429]);
}

#[test]
fn what_was_spent_is_spent_after_a_restart() {
    let scratch = Scratch::new("serve_state_restart");
    let serving = serve(&scratch, &["--state", "state"]);
    assert!(serving.begun.contains("no state yet: state"), "{}", serving.begun);
    spend(&serving);
    serving.terminate();
    let mode = fs::metadata(scratch.path().join("state")).expect("it was written").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600, "only its owner may read the seeds");
    assert!(!scratch.path().join("state.new").exists());
    let serving = serve(&scratch, &["--state", "state"]);
    assert!(serving.begun.contains("state restored: 1 tables"), "{}", serving.begun);
    assert_eq!(serving.status(), 429);
}

#[test]
fn a_restart_without_a_state_is_caught() {
    let scratch = Scratch::new("serve_state_none");
    let serving = serve(&scratch, &[]);
    spend(&serving);
    assert_eq!(serving.metric("tollgate_state_written_total"), None);
    serving.terminate();
    spend(&serve(&scratch, &[]));
}

#[test]
fn killed_it_loses_what_was_spent_after_the_last_write_and_nothing_before() {
    let scratch = Scratch::new("serve_state_killed");
    let serving = serve(&scratch, &["--state", "state", "--state-every", "1"]);
    spend(&serving);
    let written = || serving.metric("tollgate_state_written_total").expect("with a state");
    // The first write that the test sees may have begun before the last request, but the second did not.
    let (before, begun) = (written(), Instant::now());
    while written() < before + 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it writes every second");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(serving);
    let serving = serve(&scratch, &["--state", "state", "--state-every", "3600"]);
    assert_eq!(serving.status(), 429);
    drop(serving);
    // The next write is in an hour, so a kill loses the state.
    fs::remove_file(scratch.path().join("state")).expect("it is there");
    let serving = serve(&scratch, &["--state", "state", "--state-every", "3600"]);
    spend(&serving);
    drop(serving);
    spend(&serve(&scratch, &["--state", "state"]));
}

#[test]
fn a_corrupt_state_is_kept_aside_and_the_service_starts_and_says_so() {
    let scratch = Scratch::new("serve_state_corrupt");
    let serving = serve(&scratch, &["--state", "state"]);
    spend(&serving);
    serving.terminate();
    let mut state = fs::read(scratch.path().join("state")).expect("it was written");
    let middle = state.len() / 2;
    state[middle] ^= 4;
    scratch.file("state", &state);
    let serving = serve(&scratch, &["--state", "state"]);
    let told = serving.begun.lines().find(|line| line.contains(" ERROR ")).expect("an error");
    assert!(told.contains("state of state refused, all limits begin anew: "), "{told}");
    assert!(told.contains("the file is now state.bad"), "{told}");
    assert_eq!(serving.metric("tollgate_state_errors_total"), Some(1));
    assert_eq!(fs::read(scratch.path().join("state.bad")).expect("kept aside"), state);
    spend(&serving);
    serving.terminate();
    assert_eq!(serve(&scratch, &["--state", "state"]).status(), 429);
}

#[test]
fn a_state_beside_redis_is_refused() {
    let scratch = Scratch::new("serve_state_redis");
    scratch.file("rules/d.yaml", RULES);
    let run = scratch.run(&[
        "serve",
        "--rules",
        "rules",
        "--state",
        "state",
        "--redis",
        "redis://127.0.0.1:1/",
    ]);
    assert_ne!(run.code, Some(0));
    let told = "limits in Redis outlive this process by themselves; leave out either the state's file or Redis";
    assert!(run.err.contains(told), "{}", run.err);
}
