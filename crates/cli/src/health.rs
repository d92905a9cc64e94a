//! `tollgate health`: whether a service says that it is healthy, for containers without a shell.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::failure::Failure;

/// For all of it: less than a container's check has.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most of an answer that is read.
const MAX_ANSWER_BYTES: usize = 4 << 10;

const HEAD_ENDS: &str = "\r\n\r\n";

/// Ask a running service whether it is healthy
///
/// Prints one line. The exit code is 0 if it is healthy, 1 if it is not or does not answer within a second, and 2 if the
/// address is none. For the HEALTHCHECK of a container, where there is no shell and no curl.
#[derive(clap::Args)]
pub(crate) struct HealthArgs {
    /// Its address for HTTP, or for the admin where HTTP is encrypted [default: what its variables and TOLLGATE_CONFIG say]
    ///
    /// Those are the variables that `tollgate serve` reads, as TOLLGATE_HTTP, or HOST and PORT; without any it is port 8080
    /// of this machine. What is told to the service by flags has to be told here.
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
}

pub(crate) fn run(args: &HealthArgs) -> Result<ExitCode, Failure> {
    let address = args.address.clone().map_or_else(of_service, Ok)?;
    let (tell, told) = mpsc::channel();
    let asked = address.clone();
    // In a thread that may be left behind: one deadline holds for the name, the connection and each byte of the answer.
    let asking = thread::Builder::new().spawn(move || tell.send(first_answer(&asked)));
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no whole answer within a second");
    let answer = asking.and_then(|_| told.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(late())));
    let (line, code) = match answer {
        Ok(told) => told,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(Failure::HealthAddress { address });
        }
        Err(error) => (format!("unhealthy: {address} does not answer: {error}"), 1),
    };
    writeln!(io::stdout(), "{line}").map_err(Failure::Output)?;
    Ok(ExitCode::from(code))
}

#[cfg(all(unix, feature = "serve"))]
fn of_service() -> Result<String, Failure> {
    crate::serve::health_address()
}

/// Without `serve` nothing here reads its settings.
#[cfg(not(all(unix, feature = "serve")))]
fn of_service() -> Result<String, Failure> {
    let variable = std::env::var("TOLLGATE_HTTP").ok().filter(|text| !text.is_empty());
    Ok(variable.unwrap_or_else(|| ":8080".to_owned()))
}

/// Of several addresses the first that answers.
fn first_answer(address: &str) -> io::Result<(String, u8)> {
    let mut last = io::Error::other("the name has no address");
    let all = addresses(address)?;
    let patience = PATIENCE / u32::try_from(all.len().max(1)).unwrap_or(u32::MAX);
    for at in all {
        match ask(at, address, patience) {
            Ok(told) => return Ok(told),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What listens everywhere is reached on this machine's own address.
fn addresses(text: &str) -> io::Result<Vec<SocketAddr>> {
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        let both = [(Ipv6Addr::LOCALHOST, port).into(), (Ipv4Addr::LOCALHOST, port).into()];
        return Ok(both.to_vec());
    }
    Ok(text.to_socket_addrs()?.map(reachable).collect())
}

fn reachable(mut at: SocketAddr) -> SocketAddr {
    match at {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    at
}

/// The line to print, and the exit code.
fn ask(at: SocketAddr, address: &str, patience: Duration) -> io::Result<(String, u8)> {
    let mut stream = TcpStream::connect_timeout(&at, patience)?;
    // The admin's routes are for every IP address, and not for every name.
    let request = format!("GET /healthcheck HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let answer = answer(stream)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once(HEAD_ENDS).unwrap_or((&answer, ""));
    let Some(status) = status(head) else {
        let line = format!(
            "unhealthy: {address} does not speak HTTP; give its admin's address if it speaks TLS"
        );
        return Ok((line, 1));
    };
    let said = body.lines().next().unwrap_or_default().escape_debug().to_string();
    Ok(match status {
        "200" => (format!("healthy: {said}"), 0),
        _ => (format!("unhealthy: {} {said}", status.escape_debug()), 1),
    })
}

/// As in `HTTP/1.1 200 OK`.
fn status(head: &str) -> Option<&str> {
    head.strip_prefix("HTTP/1.")?.split_ascii_whitespace().nth(1)
}

/// What is sent until it is whole; the connection may stay open behind it.
fn answer(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let (mut answer, mut part) = (Vec::new(), [0; 1024]);
    while answer.len() < MAX_ANSWER_BYTES && !is_whole(&answer) {
        match stream.read(&mut part) {
            Ok(0) if !String::from_utf8_lossy(&answer).contains(HEAD_ENDS) => {
                let closed = "the connection was closed";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, closed));
            }
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// Whether nothing has to follow: the body is there as far as the head says how long it is, or it is no HTTP.
fn is_whole(answer: &[u8]) -> bool {
    let answer = String::from_utf8_lossy(answer);
    let begin = "HTTP/1.";
    if !answer.starts_with(&begin[..begin.len().min(answer.len())]) {
        return true;
    }
    let Some((head, body)) = answer.split_once(HEAD_ENDS) else { return false };
    let lengths = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: Option<usize> = lengths.next().and_then(|(_, length)| length.trim().parse().ok());
    length.is_none_or(|length| body.len() >= length)
}
