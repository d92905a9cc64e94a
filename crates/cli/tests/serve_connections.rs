//! `tollgate serve` while clients hold all connections and send no requests.

use std::net::{SocketAddr, TcpStream};

use crate::processes::{PATIENCE, until};
use crate::serving::{ANYWHERE, RULES, Serving, address, serve};

const QUESTION: &str = r#"{"domain": "shop", "descriptors": [{"user": "alice"}]}"#;

fn connect(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(address).expect("it listens")).collect()
}

/// Returns the answer to a request. It is sent again if its connection was closed: while other connections are being
/// accepted, each of them may take the place of the oldest one in the reserve.
fn answer(serving: &Serving, head: &str, body: &str) -> (u16, String) {
    let mut answer = None;
    until("an answer", || {
        answer = serving.try_ask(head, body);
        answer.is_some()
    });
    answer.expect("it has come")
}

fn metric(serving: &Serving, name: &str) -> usize {
    let (status, page) = answer(serving, "GET /metrics", "");
    assert_eq!(status, 200, "{page}");
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn clients_that_take_all_connections_leave_health_and_metrics_and_are_told_once() {
    let (serving, begun) = serve("ulimit -n 256;", &[], &[]);
    let most = metric(&serving, "tollgate_connections_max");
    assert!((128..256).contains(&most), "{most}");
    let grpc = begun.last().and_then(|line| address(line, "grpc")).expect("its address");
    for episode in 1..3 {
        let idle = connect(grpc, 400);
        let open = || metric(&serving, "tollgate_connections");
        until("all connections are accepted", || open() == most);
        for _ in 0..20 {
            assert_eq!(answer(&serving, "GET /healthcheck", "").0, 200);
        }
        let (status, told) = answer(&serving, "POST /v1/check", QUESTION);
        let expected =
            "too many connections: beyond the maximum only health and metrics are answered";
        assert_eq!((status, &*told), (503, expected));
        drop(idle);
        until("those that the clients dropped are closed", || open() < most / 2);
        assert_eq!(serving.ask("POST /v1/check", QUESTION).0, 200);
        let lines = [(); 2].map(|()| serving.lines.recv_timeout(PATIENCE).expect("a line"));
        let near = format!("of at most {most} connections are open; beyond that");
        assert!(lines[0].contains(" WARN ") && lines[0].contains(&near), "{lines:?}");
        let full = format!("all {most} connections are open that there may be");
        assert!(lines[1].contains(" WARN ") && lines[1].contains(&full), "{lines:?}");
        assert!(metric(&serving, "tollgate_connections_beyond_max_total") >= episode * 200);
    }
    serving.signal("TERM");
    // Each episode was logged once.
    let next = serving.lines.recv_timeout(PATIENCE).expect("a line");
    assert!(next.ends_with("stopping"), "{next}");
}

#[test]
fn more_connections_than_descriptors_are_refused_with_what_there_can_be() {
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "ulimit -n 100; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tollgate")]);
    command.args(["serve", "--rules", RULES, "--max-connections", "51"]).args(ANYWHERE);
    let output = command.output().expect("it runs");
    let told = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{told}");
    let expected = "tollgate: --max-connections: 51 connections are refused: of 100 file descriptors some are kept for \
                    the process itself; use 1 to 50, or raise the limit (ulimit -n)\n";
    assert_eq!(told, expected);
}
