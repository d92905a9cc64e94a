//! The two servers, each in its own process.

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs, thread};

use clap::ValueEnum;
use tollgate_service::protocol::rls::rate_limit_response::{
    Code, DescriptorStatus, RateLimit, rate_limit::Unit,
};
use tollgate_service::protocol::rls::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use tollgate_service::protocol::rls::{RateLimitRequest, RateLimitResponse};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::options::{RlsOptions, ServerKind};

/// The limit of each client for a year. No client reaches it, and no window ends during a run. A limit ten times as
/// high would be too large for a count in Redis.
pub(crate) const LIMIT: u32 = 200_000_000;

/// A server that runs in another process.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
}

/// Starts this program again as a server.
pub(crate) fn start(kind: ServerKind, options: &RlsOptions) -> Result<Process, Box<dyn Error>> {
    run(Command::new(env::current_exe()?), kind, options)
}

/// Starts the server with one thread under valgrind, which writes its profile to this file.
pub(crate) fn start_counted(
    kind: ServerKind,
    options: &RlsOptions,
    profile: &Path,
) -> Result<Process, Box<dyn Error>> {
    let mut valgrind = Command::new("valgrind");
    let file = format!("--callgrind-out-file={}", profile.display());
    valgrind.args(["--tool=callgrind", &file]).arg(env::current_exe()?);
    valgrind.args(["--server-threads", "1"]).stderr(Stdio::piped());
    run(valgrind, kind, options)
}

fn run(
    mut command: Command,
    kind: ServerKind,
    options: &RlsOptions,
) -> Result<Process, Box<dyn Error>> {
    let name = kind.to_possible_value().ok_or("every kind has a name")?;
    command.args(["--serve", name.get_name(), "--descriptors", &options.descriptors.to_string()]);
    if let Some(redis) = &options.redis {
        command.args(["--redis", redis, "--accuracy", &options.accuracy]);
    }
    if let Some(threads) = options.server_threads {
        command.args(["--server-threads", &threads.to_string()]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut address = String::new();
    BufReader::new(child.stdout.take().ok_or("a pipe")?).read_line(&mut address)?;
    Ok(Process { child, address: address.trim().to_owned() })
}

impl Process {
    /// The processor time of all threads so far; 0 if the system does not report it.
    pub(crate) fn cpu_s(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        // These are the fields after the name. The name itself may contain anything. The first of these fields is the
        // state; utime and stime are the 12th and 13th.
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let ticks: f64 =
            fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        // Linux counts processor time in hundredths of a second on every machine.
        ticks / 100.0
    }

    /// Ends the server, and returns the instructions that valgrind has counted.
    pub(crate) fn end_counted(mut self) -> Result<u64, Box<dyn Error>> {
        // Valgrind writes its count when it is asked to end; if it is killed, it writes nothing.
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let mut told = String::new();
        self.child.stderr.take().ok_or("a pipe")?.read_to_string(&mut told)?;
        let line = told.lines().find_map(|line| line.split_once("Collected : "));
        let (_, count) = line.ok_or_else(|| format!("valgrind says no count:\n{told}"))?;
        Ok(count.trim().parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves on a free port, which it prints, until it is ended.
pub(crate) fn serve(kind: ServerKind, options: &RlsOptions) -> Result<(), Box<dyn Error>> {
    let threads = options
        .server_threads
        .map_or_else(|| thread::available_parallelism().map(NonZeroUsize::get), Ok)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        match kind {
            ServerKind::Ours => ours(options).await,
            ServerKind::Echo => echo().await,
        }
    })
}

/// A file of rules with one rule for each descriptor. If `accuracy` is given, the rules count in Redis with this
/// accuracy.
pub(crate) fn rules(descriptors: usize, accuracy: &str) -> String {
    let limit = format!("rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}");
    let rule = |n| format!("  - {{key: user{n}, accuracy: {accuracy}, {limit}}}\n");
    format!("domain: bench\ndescriptors:\n{}", (0..descriptors).map(rule).collect::<String>())
}

async fn ours(asked: &RlsOptions) -> Result<(), Box<dyn Error>> {
    let directory = env::temp_dir().join(format!("tollgate-rls-bench-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let file = directory.join("bench.yaml");
    fs::write(&file, rules(asked.descriptors, &asked.accuracy))?;
    let any = || ([127, 0, 0, 1], 0).into();
    let mut options = tollgate_service::Options::new(&file);
    (options.http, options.grpc, options.admin) = (any(), any(), any());
    options.global = asked.redis.as_deref().map(|address| tollgate_service::Global {
        // Each run has keys of its own, because the counts of an earlier run would still be in Redis.
        prefix: format!("rls-bench-{}", std::process::id()),
        // This is longer than a server under valgrind takes: if it decided without the store, the count would be wrong.
        deadline: std::time::Duration::from_secs(5),
        ..tollgate_service::Global::new(address)
    });
    let running = tollgate_service::start(options, |_| ()).await?;
    // The files have been read, so a failure to delete them changes nothing.
    fs::remove_dir_all(&directory)?;
    println!("http://{}", running.grpc);
    std::future::pending().await
}

async fn echo() -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = RateLimitServiceServer::new(Echo);
    Ok(tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(incoming)
        .await?)
}

struct Echo;

#[tonic::async_trait]
impl RateLimitService for Echo {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let status = DescriptorStatus {
            code: Code::Ok.into(),
            current_limit: Some(RateLimit {
                requests_per_unit: LIMIT,
                unit: Unit::Year.into(),
                name: String::new(),
            }),
            limit_remaining: LIMIT,
            duration_until_reset: Some(prost_types::Duration { seconds: 20_000_000, nanos: 0 }),
            quota: None,
        };
        Ok(Response::new(RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses: vec![status; request.get_ref().descriptors.len()],
            ..RateLimitResponse::default()
        }))
    }
}
