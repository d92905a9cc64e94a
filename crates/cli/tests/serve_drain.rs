//! `tollgate serve` is stopped while requests are in progress.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const RULES: &str = "
domain: d
descriptors:
  - {key: all, rate_limit: {unit: year, requests_per_unit: 1000000000}}
";
const BODY: &str = r#"{"domain": "d", "descriptors": [{"all": "x"}]}"#;
const CLIENTS: usize = 4;
/// The number of answers before the service is told to stop.
const WARM: u32 = 500;

/// A service on free ports, and its HTTP address.
fn serve() -> (Child, SocketAddr) {
    let rules = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("serve_drain");
    fs::create_dir_all(&rules).expect("a directory below target");
    fs::write(rules.join("d.yaml"), RULES).expect("a file below target");
    let any = "127.0.0.1:0";
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["serve", "--http", any, "--grpc", any, "--admin", any, "--rules"])
        .arg(&rules)
        .args(["--linger-stop", "0"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let address = lines.by_ref().find_map(|line| {
        let line = line.expect("text");
        let (_, rest) = line.split_once("http ")?;
        rest.split(',').next()?.parse().ok()
    });
    // Read to the end, so that a full pipe does not block the service.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address.expect("it says where it listens"))
}

/// Sends requests until the connection ends. Every answer is complete.
fn ask(address: SocketAddr, answers: &AtomicU32) {
    let asked = format!(
        "POST /v1/check HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut stream = TcpStream::connect(address).expect("it listens");
    loop {
        let _ = stream.write_all(asked.as_bytes());
        let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
        while !is_whole(&answer) {
            match stream.read(&mut chunk).unwrap_or_default() {
                0 => return assert!(answer.is_empty(), "cut off: {}", answer.escape_ascii()),
                read => answer.extend_from_slice(&chunk[..read]),
            }
        }
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let text = str::from_utf8(answer).unwrap_or_default();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| body.len() == length)
}

#[test]
fn terminated_under_load_it_cuts_off_no_answer_and_ends_in_order() {
    let (mut child, address) = serve();
    let answers = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| ask(address, &answers));
        }
        while answers.load(Ordering::Relaxed) < WARM {
            std::thread::yield_now();
        }
        let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(told.expect("a shell's command").success());
    });
    assert!(child.wait().expect("it ends").success());
    assert!(TcpStream::connect(address).is_err());
}
