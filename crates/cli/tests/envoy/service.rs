//! `tollgate serve`, as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use crate::client::Client;
use crate::common::Scratch;
use crate::processes::{PATIENCE, Process};

const ANY: &str = "127.0.0.1:0";

pub(crate) struct Service {
    process: Process,
    pub(crate) grpc: SocketAddr,
    http: SocketAddr,
    lines: Receiver<String>,
}

impl Service {
    /// Starts it on free ports, with the rules in `rules`, and waits until it has loaded them and listens.
    pub(crate) fn start(scratch: &Scratch, options: &[String]) -> Self {
        Self::start_at(scratch, options, ANY, "rules loaded")
    }

    /// Starts it as [`start`](Self::start) does, with this address for gRPC. `loaded` is the text in the log after the
    /// service has read the rules.
    pub(crate) fn start_at(
        scratch: &Scratch,
        options: &[String],
        grpc: &str,
        loaded: &str,
    ) -> Self {
        let fixed = ["serve", "--rules", "rules", "--http", ANY, "--admin", ANY, "--grpc", grpc];
        let mut command: Command = scratch.command(&fixed);
        command.env("TOLLGATE_LINGER_STOP", "0");
        let child = command.args(options).stdout(Stdio::null()).spawn();
        let mut process = Process(child.expect("the command is built"));
        let output = BufReader::new(process.0.stderr.take().expect("piped"));
        let (sender, lines) = channel();
        // The thread reads the log to its end, so that a full pipe does not block the service.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let unknown = ([0, 0, 0, 0], 0).into();
        let mut service = Self { process, grpc: unknown, http: unknown, lines };
        service.line(loaded);
        let line = service.line(" grpc ");
        let address = |name: &str| {
            let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("{line}"));
            rest.split(',').next().and_then(|address| address.parse().ok()).expect("an address")
        };
        (service.http, service.grpc) = (address(" http "), address(" grpc "));
        service
    }

    /// Returns the next line of the log with this text.
    #[track_caller]
    pub(crate) fn line(&self, text: &str) -> String {
        let begun = Instant::now();
        let mut before = String::new();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no line with {text:?} after:\n{before}"));
            if line.contains(text) {
                return line;
            }
            before += &line;
            before += "\n";
        }
    }

    /// Returns a client that asks the service over HTTP.
    pub(crate) fn http(&self) -> Client {
        Client(self.http)
    }

    /// Returns the value of a series in `/metrics`, 0 if it is not there.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let page = self.http().ask("/metrics", &[]).body;
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a number"))
    }

    /// Returns the number of Envoy's requests that the service decided with this outcome.
    pub(crate) fn asked(&self, outcome: &str) -> u64 {
        self.metric(&format!("tollgate_requests_total{{protocol=\"grpc\",outcome=\"{outcome}\"}}"))
    }

    /// Sends the service a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.0.id().to_string();
        let told = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(told.expect("a shell's command").success());
    }

    /// Waits until the service has ended by itself, and asserts that it ended without an error.
    pub(crate) fn ended(mut self) {
        assert!(self.process.0.wait().expect("it ends").success());
    }
}
