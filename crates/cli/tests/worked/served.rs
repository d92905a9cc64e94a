//! The service, which listens in this process on a clock that the test moves, and is asked over HTTP.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::json;
use tokio::runtime::Runtime;
use tollgate::ManualClock;
use tollgate_oracle::WorkedExample;
use tollgate_rules::RuleSettings;
use tollgate_service::{Options, Running};

use crate::common::Scratch;
use crate::in_process::{Clients, rule_file, rule_keys};

/// A running service with rules of all policies, and a connection to it.
pub(crate) struct Service {
    clients: Clients,
    policies: Vec<String>,
    connection: RefCell<BufReader<TcpStream>>,
    _running: Running,
    // The runtime is dropped last, because everything runs on it.
    _runtime: Runtime,
}

impl Service {
    pub(crate) fn of(policies: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("worked").replace("::", "_");
        let scratch = Scratch::new(&format!("worked_service_{test}"));
        scratch.file("worked.yaml", rule_file(policies));
        let any = || ([127, 0, 0, 1], 0).into();
        let clock = ManualClock::new();
        let options = Options {
            http: any(),
            grpc: any(),
            admin: any(),
            settings: RuleSettings { default_capacity: Some(1_000), ..RuleSettings::default() },
            clock: clock.clone().into(),
            ..Options::new(scratch.path())
        };
        let running = runtime.block_on(tollgate_service::start(options, |_| {})).unwrap();
        let connection = TcpStream::connect(running.http).unwrap();
        connection.set_nodelay(true).unwrap();
        let policies = policies.iter().map(ToString::to_string).collect();
        Self {
            clients: Clients::new(clock),
            policies,
            connection: RefCell::new(BufReader::new(connection)),
            _running: running,
            _runtime: runtime,
        }
    }

    pub(crate) fn decide(&self, example: &WorkedExample, policies: &[&str]) -> String {
        let keys = rule_keys(&self.policies, policies);
        self.clients.decide(example, |name, cost| {
            let descriptors: Vec<_> = keys.iter().map(|key| json!({key: name})).collect();
            let body = json!({"domain": "worked", "descriptors": descriptors, "cost": cost});
            // A place in a queue has its own route.
            let path = if example.waits() { "/v1/reserve" } else { "/v1/check" };
            self.is_admitted(path, &body.to_string())
        })
    }

    fn is_admitted(&self, path: &str, body: &str) -> bool {
        let mut connection = self.connection.borrow_mut();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let at = head.len();
            connection.read_line(&mut head).unwrap();
            let line = head[at..].trim_end().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        connection.read_exact(&mut vec![0; length]).unwrap();
        match head.split(' ').nth(1) {
            Some("200") => true,
            Some("429") => false,
            _ => panic!("{body} is answered {head}"),
        }
    }
}
