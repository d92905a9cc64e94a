//! `tollgate health`: a line and an exit code for containers without a shell.
#![cfg(unix)]

#[path = "common/serving.rs"]
mod serving;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use serving::{serve, serve_rules};

/// The exit code and what is printed, on standard output and on standard error.
fn health(arguments: &[&str], variable: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear().env("TOLLGATE_HTTP", variable).arg("health").args(arguments);
    let output = command.output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_service_is_healthy_once_it_has_rules() {
    let (serving, _) = serve("", &[], &[]);
    let healthy = (Some(0), "healthy: OK\n".to_owned(), String::new());
    assert_eq!(health(&[&serving.http.to_string()], ""), healthy);
    // What the service's own variable says; it listens everywhere, and is asked on this machine.
    let everywhere = format!("0.0.0.0:{}", serving.http.port());
    assert_eq!(health(&[], &everywhere), healthy);
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/health_bad.yaml");
    std::fs::write(path, "domain: ''").expect("a file below target");
    let (serving, _) = serve_rules(path, "", &[], &[]);
    let unhealthy =
        (Some(1), "unhealthy: 500 no rules, or shutting down\n".to_owned(), String::new());
    assert_eq!(health(&[&serving.http.to_string()], ""), unhealthy);
}

#[test]
fn what_does_not_answer_is_unhealthy_and_what_is_no_address_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let begins = |(code, out, _): (_, String, _), expected: &str| {
        assert!(code == Some(1) && out.starts_with(expected) && out.lines().count() == 1, "{out}");
    };
    // It listens, and says nothing.
    begins(health(&[&address], ""), &format!("unhealthy: {address} does not answer: "));
    // It speaks something else, at length.
    let talk = std::thread::spawn(move || {
        let _ = listener.accept();
        let (mut stream, _) = listener.accept().expect("the second");
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(&[b'\n'; 100_000]);
    });
    begins(health(&[&address], ""), &format!("unhealthy: {address} does not speak HTTP; "));
    talk.join().expect("no panic");
    begins(health(&[&address], ""), &format!("unhealthy: {address} does not answer: "));
    let (code, out, errors) = health(&["8080"], "");
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(
        errors,
        "tollgate: '8080' is no address; give a host and a port, as in 127.0.0.1:8080\n"
    );
}
