//! `tollgate serve`, as a process.

use std::net::SocketAddr;
use std::process::Stdio;

use crate::client::Client;
use crate::common::Scratch;
use crate::serving::{Serving, address, begun};

const ANY: &str = "127.0.0.1:0";

pub(crate) struct Service {
    serving: Serving,
    pub(crate) grpc: SocketAddr,
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
        let mut command = scratch.command(&fixed);
        command.env("TOLLGATE_LINGER_STOP", "0").args(options).stdout(Stdio::null());
        let (serving, log) = begun(&mut command);
        assert!(log.iter().any(|line| line.contains(loaded)), "no {loaded:?} in {log:?}");
        let grpc = log.last().and_then(|line| address(line, "grpc")).expect("its address");
        Self { serving, grpc }
    }

    /// Returns the next line of the log with this text.
    #[track_caller]
    pub(crate) fn line(&self, text: &str) -> String {
        self.serving.wait_for(text)
    }

    /// Returns a client that asks the service over HTTP.
    pub(crate) fn http(&self) -> Client {
        Client(self.serving.http)
    }

    /// Returns the value of a series in `/metrics`, 0 if it is not there.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        self.serving.metric(series).unwrap_or(0)
    }

    /// Returns the number of Envoy's requests that the service decided with this outcome.
    pub(crate) fn asked(&self, outcome: &str) -> u64 {
        self.metric(&format!("tollgate_requests_total{{protocol=\"grpc\",outcome=\"{outcome}\"}}"))
    }

    /// Sends the service a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        self.serving.signal(name);
    }

    /// Waits until the service has ended by itself, and asserts that it ended without an error.
    pub(crate) fn ended(mut self) {
        assert!(self.serving.ends().success());
    }
}
