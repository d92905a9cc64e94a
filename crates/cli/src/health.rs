//! `tollgate health`: asks a running service whether it is healthy, for containers without a shell.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_service::HostPort;

use crate::failure::Failure;
use crate::serve;

/// The maximum time of the whole check. Docker allows a check 30 s by default, and Kubernetes 1 s.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of bytes that are read of an answer's body. The body of the service's own answer has 30 bytes.
const MAX_BODY_BYTES: usize = 4 << 10;

/// Ask a running service whether it is healthy
///
/// Prints one line. The exit code is 0 if the service is healthy, 1 if it is not or does not answer within a second, and 2
/// if the address cannot be read. The command is made for the HEALTHCHECK of a container that has no shell and no curl.
#[derive(clap::Args)]
pub(crate) struct HealthArgs {
    /// Where the service listens for HTTP, or for its admin if HTTP is encrypted [default: from its variables]
    ///
    /// The variables are those that `tollgate serve` reads: TOLLGATE_HTTP, HOST and PORT, and TOLLGATE_CONFIG, which names a
    /// file. If none of them is set, the address is port 8080 of this machine. If a flag gives the service its address,
    /// give the same address here.
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
}

pub(crate) fn run(args: &HealthArgs) -> Result<ExitCode, Failure> {
    let address: HostPort = match &args.address {
        Some(text) => text.parse().map_err(|_| Failure::HealthAddress { address: text.clone() })?,
        None => serve::health_address()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Serve(error.to_string()))?;
    let told = runtime.block_on(ask(&address, Instant::now() + PATIENCE));
    // Does not wait for a thread that may still look up a name.
    runtime.shutdown_background();
    let (line, code) = match told {
        Ok((StatusCode::OK, said)) => (format!("healthy{said}"), 0),
        Ok((status, said)) => (format!("unhealthy: {}{said}", status.as_str()), 1),
        Err(reason) => (format!("unhealthy: {address} {reason}"), 1),
    };
    writeln!(io::stdout(), "{line}").map_err(Failure::Output)?;
    Ok(ExitCode::from(code))
}

/// Returns the status of the service and the first line of its answer's body. If there is no answer, the error is the
/// end of a sentence that begins with the address.
async fn ask(address: &HostPort, deadline: Instant) -> Result<(StatusCode, String), String> {
    let late = |_| "does not answer within a second".to_owned();
    let answer = timeout_at(deadline, first_answer(address)).await.map_err(late)??;
    let status = answer.status();
    let body = timeout_at(deadline, Limited::new(answer, MAX_BODY_BYTES).collect()).await;
    // The status alone decides. The body is shown if it arrives in time.
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    let said = String::from_utf8_lossy(&body);
    let said = said.lines().next().filter(|line| !line.is_empty());
    Ok((status, said.map_or_else(String::new, |line| format!(": {}", line.escape_debug()))))
}

/// Asks the addresses of a name in turn, and returns the first answer.
async fn first_answer(address: &HostPort) -> Result<Response<Incoming>, String> {
    let all = addresses(address).await.map_err(does_not_answer)?;
    // Each address gets a part of the time, so that an address that drops packets leaves time for the next address.
    let patience = PATIENCE / u32::try_from(all.len().max(1)).unwrap_or(u32::MAX);
    let mut last = "has no address".to_owned();
    for at in all {
        match answer(at, patience).await {
            Ok(answer) => return Ok(answer),
            Err(reason) => last = reason,
        }
    }
    Err(last)
}

fn does_not_answer(error: impl Display) -> String {
    format!("does not answer: {error}")
}

/// Returns the addresses to ask. If a service listens on all addresses of its machine, it is asked on the loopback
/// address.
async fn addresses(address: &HostPort) -> io::Result<Vec<SocketAddr>> {
    let loopback: [IpAddr; 2] = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
    Ok(match address {
        HostPort::Everywhere(port) => loopback.map(|ip| (ip, *port).into()).to_vec(),
        HostPort::Address(at) if at.ip().is_unspecified() => {
            vec![(loopback[usize::from(at.is_ipv4())], at.port()).into()]
        }
        HostPort::Address(at) => vec![*at],
        HostPort::Name(..) => lookup_host(address.to_string()).await?.collect(),
    })
}

async fn answer(at: SocketAddr, patience: Duration) -> Result<Response<Incoming>, String> {
    let late = |_| "does not answer: no connection in time".to_owned();
    let stream = timeout(patience, TcpStream::connect(at)).await.map_err(late)?;
    let stream = TokioIo::new(stream.map_err(does_not_answer)?);
    let not_http = |error: hyper::Error| {
        format!("does not answer in HTTP: {error}; if it speaks TLS, give the address of its admin")
    };
    let (mut sender, connection) = http1::handshake(stream).await.map_err(not_http)?;
    // The task ends with the runtime.
    tokio::spawn(connection);
    let request = Request::get("/healthcheck")
        // The admin's routes accept every IP address as the host, but not every name.
        .header(header::HOST, at.to_string())
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(does_not_answer)?;
    sender.send_request(request).await.map_err(not_http)
}
