//! `tollgate serve` while its log, a collector or its state file cannot be written, or does not answer.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use crate::common::Scratch;
use crate::connection::Connection;
use crate::processes::{connected, free_address, until};
use crate::serving::{ANYWHERE, OF_ALICE, Serving, THREE};

/// Serves with these flags; `redirect` is a redirection of the shell, as in `2>/dev/full`.
fn serve(scratch: &Scratch, redirect: &str, flags: &[&str]) -> Serving {
    scratch.file("rules/d.yaml", THREE);
    let (http, any) = (free_address(), "127.0.0.1:0");
    let mut command = Command::new("/bin/sh");
    let script = format!("exec \"$@\" {redirect}");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_tollgate"), "serve"]);
    command.args(["--http", &http.to_string(), "--grpc", any, "--admin", any, "--rules", "rules"]);
    command.args(flags).args(["--linger-stop", "0"]);
    command.current_dir(scratch.path()).stderr(Stdio::piped());
    let process = command.spawn().expect("it starts");
    drop(connected(http));
    // Each test reads the log itself, if it can be read at all.
    Serving { process, lines: channel().1, http }
}

impl Serving {
    /// Waits until at least this many lines were lost.
    fn loses(&self, least: u64) {
        let lost = || self.metric("tollgate_log_lines_lost_total").expect("the metric is there");
        until(&format!("{least} lost lines"), || lost() >= least);
    }

    /// Sends so many requests that are denied that the log of the denials overflows its pipe and its queue.
    fn floods_its_log(&self) {
        let body = OF_ALICE.replace("alice", &"x".repeat(400));
        let mut connection = Connection::to(self.http);
        for _ in 0..6_000 {
            connection.ask("POST /v1/check", &body);
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_no_service_and_what_it_loses_is_counted() {
    let scratch = Scratch::new("serve_log_full");
    for redirect in ["2>/dev/full", "2>&-"] {
        let serving = serve(&scratch, redirect, &["--log-level", "debug"]);
        assert_eq!(serving.ask("POST /v1/check", OF_ALICE).0, 200, "{redirect}");
        if redirect == "2>/dev/full" {
            // The lines of the start are lost, and then those of the reload.
            serving.loses(2);
            serving.signal("HUP");
            serving.loses(4);
        }
        serving.terminate();
    }
}

#[test]
fn a_log_whose_reader_has_gone_ends_no_service() {
    let scratch = Scratch::new("serve_log_gone");
    let mut serving = serve(&scratch, "", &[]);
    drop(serving.process.stderr.take());
    serving.signal("HUP");
    serving.loses(1);
    assert_eq!(serving.ask("POST /v1/check", OF_ALICE).0, 200);
    serving.terminate();
}

const ALL_DENIALS: [&str; 2] = ["--log-denials", "1000000/s burst 1000000"];

#[test]
fn a_log_whose_reader_stops_holds_up_no_request_and_tells_what_it_has_lost() {
    let scratch = Scratch::new("serve_log_stopped");
    let mut serving = serve(&scratch, "", &ALL_DENIALS);
    serving.floods_its_log();
    serving.loses(1);
    assert_eq!(serving.ask("GET /healthcheck", "").0, 200);
    // The reader of the log reads again.
    let stderr = BufReader::new(serving.process.stderr.take().expect("a pipe"));
    let mut lines = stderr.lines().map(|line| line.expect("text"));
    let told = lines.find(|line| line.contains("lost from this log so far")).expect("it is told");
    assert!(told.contains("ERROR") && told.ends_with("at most 1048576 bytes wait"), "{told}");
    serving.signal("TERM");
    assert!(lines.any(|line| line.ends_with("stopping")));
    assert!(serving.ends().success());
}

#[test]
fn a_log_whose_reader_stops_does_not_keep_a_service_from_its_end() {
    let scratch = Scratch::new("serve_log_stopped_end");
    let serving = serve(&scratch, "", &ALL_DENIALS);
    serving.floods_its_log();
    serving.loses(1);
    serving.terminate();
}

#[test]
fn a_collector_that_hangs_has_two_seconds_at_the_end_and_the_loss_is_told() {
    let scratch = Scratch::new("serve_log_collector");
    // Connections wait in the listener's queue, and are never answered.
    let collector = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", collector.local_addr().expect("an address"));
    let mut serving = serve(&scratch, "", &["--otlp", &url, "--trace-sample", "1 of all"]);
    for _ in 0..2 {
        assert_eq!(serving.ask("POST /v1/check", OF_ALICE).0, 200);
    }
    serving.signal("TERM");
    let stderr = BufReader::new(serving.process.stderr.take().expect("a pipe"));
    let mut lines = stderr.lines().map(|line| line.expect("text"));
    let told = lines.find(|line| line.contains("traces: ")).expect("it is told");
    let what = "traces: what was to be sent is given up after 2s, 2 in all";
    assert!(told.ends_with(what), "{told}");
    assert!(serving.ends().success());
}

#[test]
fn a_state_that_is_no_regular_file_is_refused() {
    let scratch = Scratch::new("serve_log_state");
    scratch.file("rules/d.yaml", THREE).file("directory/file", "");
    let made = Command::new("mkfifo").arg("fifo").current_dir(scratch.path()).status();
    assert!(made.expect("a shell's command").success());
    for (path, kind) in
        [("fifo", "a FIFO"), ("directory", "a directory"), ("/dev/null", "a device")]
    {
        let flags = ["serve", "--rules", "rules", "--state", path];
        let run = scratch.run(&[&flags[..], &ANYWHERE].concat());
        assert_eq!(run.code, Some(2), "{path}");
        let expected = format!(
            "tollgate: --state: the state's file {path} is {kind}; give a regular file, or a path where none is yet\n"
        );
        assert_eq!(run.err, expected);
    }
    assert!(scratch.path().join("directory/file").exists(), "nothing is moved");
}
