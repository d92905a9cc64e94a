//! `tollgate health` prints a line and has an exit code, for containers without a shell.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::common::Scratch;
use crate::serving::{serve, serve_rules};

/// Returns the exit code and what is printed, on standard output and on standard error.
fn health(arguments: &[&str], variable: &str) -> (Option<i32>, String, String) {
    health_with(arguments, &[("TOLLGATE_HTTP", variable)])
}

fn health_with(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear().envs(variables.iter().copied()).arg("health").args(arguments);
    let output = command.output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

#[test]
fn a_service_is_healthy_once_it_has_rules() {
    let (serving, _) = serve("", &[], &[]);
    let healthy = (Some(0), "healthy: OK\n".to_owned(), String::new());
    assert_eq!(health(&[&serving.http.to_string()], ""), healthy);
    // The address comes from the service's own variable. The service listens everywhere, and is asked on this machine.
    let everywhere = format!("0.0.0.0:{}", serving.http.port());
    assert_eq!(health(&[], &everywhere), healthy);
    let rules = Scratch::new("health_bad").file("rules.yaml", "domain: ''").at("rules.yaml");
    let (serving, _) = serve_rules(&rules, "", &[], &[]);
    let unhealthy =
        (Some(1), "unhealthy: 500: no rules, or shutting down\n".to_owned(), String::new());
    assert_eq!(health(&[&serving.http.to_string()], ""), unhealthy);
}

#[test]
fn what_does_not_answer_is_unhealthy_and_what_is_no_address_is_refused() {
    let (listener, address) = listening();
    let begins = |(code, out, _): (_, String, _), expected: &str| {
        assert!(code == Some(1) && out.starts_with(expected) && out.lines().count() == 1, "{out}");
    };
    // The listener does not answer.
    let silent = format!("unhealthy: {address} does not answer within a second");
    begins(health(&[&address], ""), &silent);
    // The listener answers at length, but not in HTTP.
    let talk = std::thread::spawn(move || {
        let _ = listener.accept();
        let (mut stream, _) = listener.accept().expect("the second");
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(&[b'\n'; 100_000]);
    });
    begins(health(&[&address], ""), &format!("unhealthy: {address} does not answer in HTTP: "));
    talk.join().expect("no panic");
    begins(health(&[&address], ""), &format!("unhealthy: {address} does not answer: "));
    let (code, out, errors) = health(&["8080"], "");
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(
        errors,
        "tollgate: '8080' is no address; give a host and a port, as in 127.0.0.1:8080\n"
    );
}

/// The health check reads the variables and the file of the service, because both have one environment.
#[test]
fn the_service_is_asked_where_its_variables_and_its_file_have_it_listen() {
    let (serving, log) = serve("", &[], &[]);
    let healthy = (Some(0), "healthy: OK\n".to_owned(), String::new());
    let port = serving.http.port().to_string();
    assert_eq!(health_with(&[], &[("PORT", &port)]), healthy);
    assert_eq!(health_with(&[], &[("HOST", "127.0.0.1"), ("PORT", &port)]), healthy);
    // Kubernetes sets this variable for a Service that is named `grpc`.
    let of_another = [("GRPC_PORT", "tcp://10.0.0.1:8081"), ("DEBUG_PORT", "x"), ("PORT", &port)];
    assert_eq!(health_with(&[], &of_another), healthy);
    assert_eq!(health_with(&[&format!(":{port}")], &[]), healthy);
    let file = format!("http = '127.0.0.1:{port}'");
    let file = Scratch::new("health_file").file("t.toml", file).at("t.toml");
    assert_eq!(health_with(&[], &[("TOLLGATE_CONFIG", &file), ("PORT", "1")]), healthy);
    // If HTTP is encrypted, the health check asks the admin's address.
    let line = log.last().expect("the addresses");
    let admin = line.split_once("admin ").expect("its address").1;
    let secure = [("TOLLGATE_HTTP_TLS_CERT", "c"), ("TOLLGATE_HTTP_TLS_KEY", "k")];
    let secure = [&secure[..], &[("PORT", "1"), ("TOLLGATE_ADMIN", admin)]].concat();
    assert_eq!(health_with(&[], &secure), healthy);
    let (code, _, errors) = health_with(&[], &[("PORT", "http")]);
    assert_eq!(
        (code, errors.as_str()),
        (Some(2), "tollgate: PORT is 'http' in the environment; use a port, 0 to 65535\n")
    );
}

/// Answers the next connection with this, and leaves it open.
fn answer_and_stay(listener: &TcpListener, parts: &[&[u8]]) -> TcpStream {
    let (mut stream, _) = listener.accept().expect("a connection");
    let _ = stream.read(&mut [0; 512]);
    for part in parts {
        stream.write_all(part).expect("it is read");
    }
    stream
}

#[test]
fn an_answer_that_is_whole_counts_though_the_connection_stays_open() {
    let (listener, address) = listening();
    for (parts, expected) in [
        (
            &[&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"[..], b"OK"][..],
            (Some(0), "healthy: OK\n"),
        ),
        (&[b"HTTP/1.1 503 No\r\n\r\n"], (Some(1), "unhealthy: 503\n")),
        (&[b"HTTP/1.0 200\r\n\r\n"], (Some(0), "healthy\n")),
    ] {
        let (code, out) = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer_and_stay(&listener, parts));
            let (code, out, _) = health(&[&address], "");
            drop(answering.join().expect("no panic"));
            (code, out)
        });
        assert_eq!((code, out.as_str()), expected);
    }
}

#[test]
fn an_answer_that_trickles_or_stops_is_waited_for_no_longer_than_one_that_does_not_come() {
    let (listener, address) = listening();
    let late = format!("unhealthy: {address} does not answer within a second\n");
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| answer_and_stay(&listener, &[b"HTTP/1.1 200 OK\r\n"]));
        assert_eq!(health(&[&address], ""), (Some(1), late.clone(), String::new()));
        drop(answering.join().expect("no panic"));
        // Sends a byte at a time, until the program has ended.
        scope.spawn(|| {
            let mut stream = answer_and_stay(&listener, &[b"HTTP/1.1 200 OK\r\na: "]);
            while stream.write_all(b"a").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        assert_eq!(health(&[&address], ""), (Some(1), late.clone(), String::new()));
    });
    std::thread::scope(|scope| {
        scope.spawn(|| drop(answer_and_stay(&listener, &[b"HTTP/1.1 200 OK\r\n"])));
        let closed =
            format!("unhealthy: {address} does not answer in HTTP: connection closed before");
        let (code, out, _) = health(&[&address], "");
        assert!(code == Some(1) && out.starts_with(&closed), "{out}");
    });
}
