//! `tollgate serve` as a process on free ports, with its log.

#![allow(dead_code)] // each test file uses only a part

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::processes::{PATIENCE, until};

pub(crate) const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules");

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
    pub(crate) fn wait_for(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the line comes");
            if line.contains(text) {
                return line;
            }
        }
    }
}
