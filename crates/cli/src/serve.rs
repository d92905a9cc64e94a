//! `tollgate serve`: the rate limit service.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate_rules::{Refresh, Settings};
use tollgate_service::{Answers, MetricsNames, Options, Running, start};

use crate::failure::Failure;

const AFTER_HELP: &str = "\
Examples:
  tollgate serve --rules examples/rules
  curl localhost:8080/v1/check -d '{\"domain\": \"shop\", \"descriptors\": [{\"user\": \"alice\"}]}' \\
    -H 'content-type: application/json'
  curl 'localhost:8080/v1/peek?domain=shop&user=alice'

Rules are read again when their files change, on SIGHUP, and every 30 s. SIGTERM and Ctrl-C let
requests that have begun end. Check rules before they are served: tollgate check DIR.";

/// Answer Envoy and HTTP clients by the rules of a directory
///
/// gRPC: Envoy's rate limit service v3, health, reflection. HTTP: /json, /v1/check, /v1/peek,
/// /healthcheck, /metrics, a status page at /; on the admin address /v1/reset and /rlconfig.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Args {
    /// A directory of .yaml files, or one file
    #[arg(long, value_name = "DIR")]
    rules: PathBuf,

    /// Where to listen for HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    http: SocketAddr,

    /// Where to listen for gRPC
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8081")]
    grpc: SocketAddr,

    /// Where the admin's routes are; keep it loopback
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6070")]
    admin: SocketAddr,

    /// Decide each descriptor on its own, as envoyproxy/ratelimit does
    #[arg(long)]
    compat: bool,

    /// Deny nothing; statuses and metrics tell what would be denied
    #[arg(long)]
    shadow: bool,

    /// Allow several files to hold parts of one domain
    #[arg(long)]
    merge_domains: bool,

    /// Clients at a time that a rule is built for where its file does not say: 14 bytes each
    #[arg(long, value_name = "CLIENTS", default_value_t = 65_536)]
    capacity: usize,

    /// The most bytes that all tables may take
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    table_bytes: u64,

    /// Have Envoy add RateLimit-Limit, -Remaining and -Reset to responses
    #[arg(long)]
    response_headers: bool,

    /// Hand the metadata of rules to Envoy
    #[arg(long)]
    metadata: bool,

    /// Names of metrics; envoyproxy: beside ours those that dashboards of envoyproxy/ratelimit ask for
    #[arg(long, value_enum, default_value = "own")]
    metrics_names: Names,

    /// Seconds to go on answering, when told to stop, while health checks fail already
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    linger: u16,
}

/// Names of metrics.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Names {
    Own,
    Envoyproxy,
}

/// Serves until it is told to stop.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let refused = |error: io::Error| Failure::Serve(error.to_string());
    runtime.map_err(refused)?.block_on(serve(options(args)))
}

fn options(args: &Args) -> Options {
    Options {
        settings: Settings {
            compat: args.compat,
            global_shadow_mode: args.shadow,
            merge_domains: args.merge_domains,
            default_capacity: args.capacity,
            most_table_bytes: args.table_bytes,
            ..Settings::default()
        },
        http: args.http,
        grpc: args.grpc,
        admin: args.admin,
        answers: Answers { headers: args.response_headers, metadata: args.metadata },
        metrics_names: match args.metrics_names {
            Names::Own => MetricsNames::Own,
            Names::Envoyproxy => MetricsNames::Envoyproxy,
        },
        linger: Duration::from_secs(args.linger.into()),
        ..Options::new(&args.rules)
    }
}

async fn serve(options: Options) -> Result<(), Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::Serve(error.to_string()));
    let mut signals = [
        listen(SignalKind::hangup())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
    ];
    let running = start(options, tell).await.map_err(|error| Failure::Serve(error.to_string()))?;
    say(&format!("http {}, grpc {}, admin {}", running.http, running.grpc, running.admin));
    until_stopped(&running, &mut signals).await;
    say("stopping");
    running.stop().await;
    Ok(())
}

async fn until_stopped(running: &Running, [hangup, terminate, interrupt]: &mut [Signal; 3]) {
    loop {
        tokio::select! {
            _ = hangup.recv() => running.changed().notify(),
            _ = terminate.recv() => return,
            _ = interrupt.recv() => return,
        }
    }
}

/// What came of reading the rules.
fn tell(refresh: &Refresh) {
    match refresh {
        Refresh::Loaded(rules) => {
            let (rules, domains) = (rules.rules().len(), rules.domains().count());
            say(&format!("rules loaded: {rules} in {domains} domains"));
        }
        Refresh::Refused(errors) => {
            errors.iter().for_each(|error| say(&format!("rules refused: {error}")));
        }
        Refresh::Unwatched(error) => say(&error.to_string()),
        _ => {}
    }
}

/// On standard error; where that is closed there is nobody left to tell.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "tollgate: {line}");
}
