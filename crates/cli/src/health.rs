//! `tollgate health`: whether a service says that it is healthy, for containers without a shell.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use crate::failure::Failure;

/// For the connection, and again for each part of the answer: together less than a container's check has.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most of an answer that is read.
const MAX_ANSWER_BYTES: u64 = 4 << 10;

/// The variable that says where `serve` listens for HTTP.
const HTTP: &str = "TOLLGATE_HTTP";

const USUAL: &str = "127.0.0.1:8080";

/// Ask a running service whether it is healthy
///
/// Prints one line. The exit code is 0 if it is healthy, 1 if it is not or does not answer within a second, and 2 if the
/// address is none. For the HEALTHCHECK of a container, where there is no shell and no curl.
#[derive(clap::Args)]
pub(crate) struct HealthArgs {
    /// Its address for HTTP, or for the admin where HTTP is encrypted [default: TOLLGATE_HTTP, or 127.0.0.1:8080]
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
}

pub(crate) fn run(args: &HealthArgs) -> Result<ExitCode, Failure> {
    let of_variable = || std::env::var(HTTP).ok().filter(|text| !text.is_empty());
    let address = args.address.clone().or_else(of_variable).unwrap_or_else(|| USUAL.to_owned());
    let (line, code) = match first_answer(&address) {
        Ok(told) => told,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(Failure::HealthAddress { address });
        }
        Err(error) => (format!("unhealthy: {address} does not answer: {error}"), 1),
    };
    writeln!(io::stdout(), "{line}").map_err(Failure::Output)?;
    Ok(ExitCode::from(code))
}

/// Of a name that has several addresses the first that answers.
fn first_answer(address: &str) -> io::Result<(String, u8)> {
    let mut last = io::Error::other("the name has no address");
    for at in address.to_socket_addrs()?.map(reachable) {
        match ask(at, address) {
            Ok(told) => return Ok(told),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What listens everywhere is reached on this machine's own address.
fn reachable(mut at: SocketAddr) -> SocketAddr {
    match at {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    at
}

/// The line to print, and the exit code.
fn ask(at: SocketAddr, host: &str) -> io::Result<(String, u8)> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET /healthcheck HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let Some((status, rest)) = answer.strip_prefix("HTTP/1.1 ").and_then(|a| a.split_once(' '))
    else {
        let line = format!(
            "unhealthy: {host} does not speak HTTP; give its admin's address if it speaks TLS"
        );
        return Ok((line, 1));
    };
    let body = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let said = body.lines().next().unwrap_or_default().escape_debug().to_string();
    Ok(match status {
        "200" => (format!("healthy: {said}"), 0),
        _ => (format!("unhealthy: {} {said}", status.escape_debug()), 1),
    })
}
