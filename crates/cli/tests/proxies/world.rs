//! [`World`]: a proxy, an application behind it, and the service that it asks.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::client::{Answer, Client};
use crate::common::Scratch;
use crate::processes::{Process, connected, free_address};
use crate::service::Service;

/// The requests that each client may send.
pub(crate) const PER_CLIENT: u16 = 4;

/// The keys are those of the examples' rules.
const RULES: &str = "
domain: shop
forward_auth:
  - remote_address: address
  - {path: path, remote_address: address}
  - api_key: header x-api-key
descriptors:
  - {key: remote_address, rate_limit: {unit: year, requests_per_unit: 4, name: per-client}}
  - key: path
    value: /login
    descriptors:
      - {key: remote_address, rate_limit: {unit: year, requests_per_unit: 2, name: logins}}
  - {key: api_key, rate_limit: {unit: year, requests_per_unit: 1, name: per-key}}
";

/// The configuration around the part that `/etc/nginx/conf.d` holds. nginx runs as one process, so that it ends with
/// the test.
const NGINX: &str = "
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path bodies;
    proxy_temp_path proxied;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include tollgate.conf;
}
";

/// The text before Caddy's configuration. It closes all ports other than the test's.
const CADDY: &str = "{\n\tadmin off\n\tauto_https off\n}\n";

/// The servers that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    Nginx,
    Ha,
    Caddy,
}

pub(crate) const ALL: [Proxy; 3] = [Proxy::Nginx, Proxy::Ha, Proxy::Caddy];

impl Proxy {
    /// Returns whether the headers of an admitted response say what is left. In the examples of the other proxies only
    /// denied clients get these headers.
    pub(crate) fn passes_headers(self) -> bool {
        self == Self::Nginx
    }

    /// Returns the configuration from the examples, with the addresses of the test.
    fn config(self, [own, service, app]: [SocketAddr; 3]) -> String {
        let (example, from, to) = match self {
            Self::Nginx => {
                let text = include_str!("../../../../examples/forward-auth/nginx.conf");
                (text, "listen 8000;", format!("listen {own};"))
            }
            Self::Ha => {
                let text = include_str!("../../../../examples/forward-auth/haproxy.cfg");
                (text, "bind :8000", format!("bind {own}"))
            }
            Self::Caddy => {
                let text = include_str!("../../../../examples/forward-auth/Caddyfile");
                (text, "\n:8000 {", format!("\nhttp://:{} {{\n\tbind 127.0.0.1", own.port()))
            }
        };
        let mut config = example.to_owned();
        let addresses = [("127.0.0.1:8080", service), ("127.0.0.1:9000", app)];
        let addresses = addresses.map(|(from, to)| (from, to.to_string()));
        for (from, to) in [(from, to)].iter().chain(&addresses) {
            assert!(config.contains(from), "{self:?}: no {from} in the example");
            config = config.replace(from, to);
        }
        config
    }

    /// Starts the proxy with this configuration, in this directory.
    fn start(self, scratch: &Scratch, config: &str) -> Process {
        let mut command = match self {
            Self::Nginx => {
                scratch.file("nginx.conf", NGINX).file("tollgate.conf", config);
                let mut command = Command::new("nginx");
                command.args(["-e", "stderr", "-c", "nginx.conf", "-p", "."]);
                command
            }
            Self::Ha => {
                let lua = include_str!("../../../../examples/forward-auth/tollgate.lua");
                scratch.file("haproxy.cfg", config).file("tollgate.lua", lua);
                let mut command = Command::new("haproxy");
                command.args(["-db", "-f", "haproxy.cfg"]);
                command
            }
            Self::Caddy => {
                scratch.file("Caddyfile", format!("{CADDY}{config}"));
                let mut command = Command::new("caddy");
                command.args(["run", "--config", "Caddyfile", "--adapter", "caddyfile"]);
                command.env("XDG_DATA_HOME", "data").env("XDG_CONFIG_HOME", "config");
                command
            }
        };
        let log = File::create(scratch.path().join("proxy.log")).expect("a file below target");
        command.current_dir(scratch.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn();
        child.map(Process).unwrap_or_else(|error| {
            panic!("these tests need nginx, haproxy and caddy (apt-get install): {self:?}: {error}")
        })
    }
}

/// The application: it answers with the method, the path and the body.
async fn echo(method: Method, uri: Uri, body: Bytes) -> (StatusCode, String) {
    let is_forbidden = uri.path() == "/forbidden";
    let status = if is_forbidden { StatusCode::FORBIDDEN } else { StatusCode::OK };
    (status, format!("{method} {} {}", uri.path(), String::from_utf8_lossy(&body)))
}

fn application() -> (Runtime, SocketAddr) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a thread");
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(async move { axum::serve(listener, Router::new().fallback(echo)).await });
    (runtime, address)
}

pub(crate) struct World {
    pub(crate) scratch: Scratch,
    pub(crate) service: Service,
    running: Running,
}

/// The processes that keep running after the service has ended.
pub(crate) struct Running {
    client: Client,
    log: std::path::PathBuf,
    _proxy: Process,
    _application: Runtime,
}

impl World {
    pub(crate) fn start(test: &str, proxy: Proxy) -> Self {
        Self::start_with(test, proxy, &[], |config| config)
    }

    /// Starts a world as [`start`](Self::start) does, with more options of the service and a changed configuration of
    /// the proxy.
    pub(crate) fn start_with(
        test: &str,
        proxy: Proxy,
        options: &[&str],
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let scratch = Scratch::new(&format!("proxies_{test}_{proxy:?}"));
        scratch.file("rules/shop.yaml", RULES);
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let service = Service::start(&scratch, &options);
        let (application, app) = application();
        let own = free_address();
        let config = change(proxy.config([own, service.http().0, app]));
        let process = proxy.start(&scratch, &config);
        drop(connected(own));
        let log = scratch.path().join("proxy.log");
        let running =
            Running { client: Client(own), log, _proxy: process, _application: application };
        Self { scratch, service, running }
    }

    pub(crate) fn without_service(self) -> Running {
        self.running
    }

    pub(crate) fn ask(&self, from: &str, path: &str, headers: &[&str]) -> Answer {
        self.running.ask(from, path, headers)
    }

    pub(crate) fn ask_with(&self, from: &str, path: &str, options: &[&str]) -> Answer {
        self.running.ask_with(from, path, options)
    }
}

impl Running {
    /// Sends a request from this address of the machine. curl leaves the path as it is written.
    pub(crate) fn ask(&self, from: &str, path: &str, headers: &[&str]) -> Answer {
        self.client.ask_with(path, headers, &["--interface", from, "--path-as-is"])
    }

    pub(crate) fn ask_with(&self, from: &str, path: &str, options: &[&str]) -> Answer {
        let options = [&["--interface", from, "-H", "expect:"], options].concat();
        self.client.ask_with(path, &[], &options)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("the proxy's log, {}:\n{log}", self.log.display());
        }
    }
}
