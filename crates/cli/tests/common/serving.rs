//! `tollgate serve` as a process on free ports, with its log.

#![allow(dead_code)] // each test file uses only a part

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use crate::processes::{PATIENCE, until};

pub(crate) const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules");

/// Rules under which each user may send three requests in a year, and a request of one of them.
pub(crate) const THREE: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
";
pub(crate) const OF_ALICE: &str = r#"{"domain": "d", "descriptors": [{"user": "alice"}]}"#;

/// Flags that let a service listen on free ports.
pub(crate) const ANYWHERE: [&str; 6] =
    ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

/// A service that runs, and the lines of its log.
pub(crate) struct Serving {
    pub(crate) process: Child,
    pub(crate) lines: Receiver<String>,
    pub(crate) http: SocketAddr,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves the example rules on free ports; `limit` is a shell command that runs first.
pub(crate) fn serve(
    limit: &str,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> (Serving, Vec<String>) {
    serve_rules(RULES, limit, flags, environment)
}

pub(crate) fn serve_rules(
    rules: &str,
    limit: &str,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> (Serving, Vec<String>) {
    let mut given = vec!["--rules", rules];
    for name in ["--http", "--grpc", "--admin"] {
        // Each flag is given only once, because a second one does not override the first.
        if !flags.contains(&name) {
            given.extend([name, "127.0.0.1:0"]);
        }
    }
    let mut command = Command::new("/bin/sh");
    // No load balancer sends requests to this service, so it need not linger when it stops.
    command.env_clear().env("TOLLGATE_LINGER_STOP", "0").envs(environment.iter().copied());
    command.args(["-c", &format!("{limit} exec \"$@\""), "sh", env!("CARGO_BIN_EXE_tollgate")]);
    command.arg("serve").args(given).args(flags);
    begun(&mut command)
}

/// Runs `tollgate serve` in a directory to its end, with these flags and only these environment variables. Returns what
/// it prints, or its exit code and what it says on standard error.
pub(crate) fn serve_to_end(
    directory: &Path,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear().envs(environment.iter().copied()).current_dir(directory);
    let output = command.arg("serve").args(flags).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (printed, errors) = (text(output.stdout), text(output.stderr));
    match output.status.code() {
        Some(0) if errors.is_empty() => Ok(printed),
        code => Err(format!("{code:?} {errors}")),
    }
}

/// Returns the value and the source of a setting, as `--print-config` prints them: `# FILE` if there is no value.
pub(crate) fn setting(printed: &str, name: &str) -> (String, String) {
    let assigned = |line: &str| {
        let (comment, line) = line.strip_prefix("# ").map_or(("", line), |line| ("# ", line));
        let value = line.strip_prefix(name)?.strip_prefix(" = ")?;
        Some(format!("{comment}{value}"))
    };
    let line = printed.lines().find_map(assigned);
    let line = line.unwrap_or_else(|| panic!("{name} in\n{printed}"));
    let (value, source) = line.split_once("  # ").expect("a source");
    let (source, names) = source.split_once("; ").expect("names");
    let variable = format!("TOLLGATE_{}", name.to_uppercase().replace('-', "_"));
    assert_eq!(names, format!("--{name}, {variable}"));
    (value.to_owned(), source.to_owned())
}

#[track_caller]
pub(crate) fn assert_setting(printed: &str, name: &str, value: &str, source: &str) {
    let (found, from) = setting(printed, name);
    assert_eq!((found.as_str(), from.as_str()), (value, source), "{name}");
}

/// Starts this command. Returns the service and the lines that it has logged by the time when it listens.
pub(crate) fn begun(command: &mut Command) -> (Serving, Vec<String>) {
    let mut process = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let stderr = BufReader::new(process.stderr.take().expect("a pipe"));
    let (give, lines) = channel();
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            let _ = give.send(line);
        }
    });
    let mut begun = Vec::new();
    let http = loop {
        let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no address: {begun:?}"));
        let found = address(&line, "http");
        begun.push(line);
        if let Some(address) = found {
            break address;
        }
    };
    (Serving { process, lines, http }, begun)
}

/// Returns the address of this name in a line of the log, as in `grpc 127.0.0.1:8081`.
pub(crate) fn address(line: &str, name: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(&format!("{name} "))?;
    rest.split(',').next()?.parse().ok()
}

impl Serving {
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(status.expect("it runs").success());
    }

    /// Sends a request, and returns the status and the body.
    pub(crate) fn ask(&self, head: &str, body: &str) -> (u16, String) {
        self.try_ask(head, body).expect("a status, and a body")
    }

    /// Sends a request, and returns the status and the body. `None` if the connection was closed without an answer.
    pub(crate) fn try_ask(&self, head: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.http).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let request = format!(
            "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut answer = String::new();
        let sent = stream.write_all(request.as_bytes());
        sent.and_then(|()| stream.read_to_string(&mut answer)).ok()?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        status.zip(body)
    }

    /// Returns the value of a series in `/metrics`, if it is there.
    pub(crate) fn metric(&self, series: &str) -> Option<u64> {
        let (_, page) = self.ask("GET /metrics", "");
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.parse().expect("a number"))
    }

    /// Waits until the service has ended by itself.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let mut ended = None;
        until("its end", || {
            ended = self.process.try_wait().expect("it is a child");
            ended.is_some()
        });
        ended.expect("it has ended")
    }

    /// Stops the service with SIGTERM, and asserts that it ends without an error.
    pub(crate) fn terminate(mut self) {
        self.signal("TERM");
        assert!(self.ends().success());
    }

    /// Waits for a line of the log with this text.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let (since, mut before) = (Instant::now(), Vec::new());
        loop {
            let line = self.lines.recv_timeout(PATIENCE.saturating_sub(since.elapsed()));
            let line = line.unwrap_or_else(|_| panic!("no line with {text:?} after {before:#?}"));
            if line.contains(text) {
                return line;
            }
            before.push(line);
        }
    }
}
