//! The service, which listens in this process on a clock that the test moves, and is asked over HTTP.

use std::cell::RefCell;

use serde_json::json;
use tokio::runtime::Runtime;
use tollgate::ManualClock;
use tollgate_oracle::WorkedExample;
use tollgate_rules::RuleSettings;
use tollgate_service::{Options, Running};

use crate::common::Scratch;
use crate::connection::Connection;
use crate::in_process::{Clients, rule_file, rule_keys};

/// A running service with rules of all policies, and a connection to it.
pub(crate) struct Service {
    clients: Clients,
    policies: Vec<String>,
    connection: RefCell<Connection>,
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
        let connection = Connection::to(running.http);
        let policies = policies.iter().map(ToString::to_string).collect();
        Self {
            clients: Clients::new(clock),
            policies,
            connection: RefCell::new(connection),
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
        let (status, answer) = self.connection.borrow_mut().ask(&format!("POST {path}"), body);
        assert!(matches!(status, 200 | 429), "{body} is answered {status} {answer}");
        status == 200
    }
}
