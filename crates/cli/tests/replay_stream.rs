//! `tollgate replay --stream`: bounded memory, the same answers, and late lines counted.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{Scratch, admitted, assert_prints, line};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/access.log");

#[test]
fn without_late_lines_a_stream_reports_what_the_log_does() {
    let scratch = Scratch::new("stream_equals_log");
    let args = [SAMPLE, "--json", "--policy", "10/m burst 5", "--policy", "sliding-window 10/m"];
    let log = scratch.replay(&args);
    assert_eq!(log.code, Some(0));
    let stream = scratch.replay(&[&args[..], &["--stream", "--reorder", "10s"]].concat());
    assert_prints(&stream, &log.out.replace("\"first\"", "\"late_lines\":0,\"first\""));
}

#[test]
fn a_late_line_is_decided_when_it_is_seen_and_counted() {
    let scratch = Scratch::new("late_line");
    // Lines may be 30 s out of order, so the line of 10:01:00 makes the stream decide all lines up to 10:00:30. The
    // line of 10:00:10 is in time. The line of 10:00:29 comes after that of 10:01:00, so it is late. It is decided at
    // 10:00:30, in the window of 10:00, which has two requests already.
    let log = [
        line("192.0.2.1", "10:00:20 +0000"),
        line("192.0.2.1", "10:00:10 +0000"),
        line("192.0.2.9", "10:01:00 +0000"),
        line("192.0.2.1", "10:00:29 +0000"),
        line("192.0.2.1", "10:00:30 +0000"),
        line("192.0.2.1", "10:01:00 +0000"),
    ];
    let run = scratch.file("a.log", log.concat()).replay(&[
        "a.log",
        "--stream",
        "--reorder",
        "30s",
        "--policy",
        "fixed-window 2/m",
        "--json",
    ]);
    assert_prints(
        &run,
        concat!(
            r#"{"lines":6,"bad_lines":0,"late_lines":1,"first":"2015-05-17T10:00:10Z","#,
            r#""last":"2015-05-17T10:01:00Z","formats":["common"],"policies":[{"policy":"fixed-window 2/m","#,
            r#""requests":6,"admitted":4,"refused":2,"keys":2,"keys_refused":1,"#,
            r#""longest_wait_ms":30000,"peak_admitted_per_second":2,"#,
            r#""worst":[{"key":"192.0.2.1","requests":5,"refused":2}]}]}"#,
            "\n"
        ),
    );
}

#[test]
fn late_lines_show_in_the_table() {
    let scratch = Scratch::new("late_table");
    let log = line("192.0.2.1", "10:20:00 +0000") + &line("192.0.2.1", "10:00:00 +0000");
    let run = scratch.file("a.log", log).replay(&["a.log", "--stream", "--policy", "10/m"]);
    let first =
        "2 lines, 0 bad, 1 late, 2015-05-17T10:00:00Z to 2015-05-17T10:20:00Z, read as common\n";
    assert!(run.out.starts_with(first), "{run:?}");
}

#[test]
fn every_line_is_decided_once_whatever_the_span() {
    let scratch = Scratch::new("decided_once");
    for span in ["0s", "1s", "5s", "1h"] {
        let run = scratch.replay(&[
            SAMPLE,
            "--stream",
            "--reorder",
            span,
            "--policy",
            "1000000/s",
            "--json",
        ]);
        assert_eq!(admitted(&run.out), [2_628], "{span}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_input_and_the_report_is_printed() {
    let scratch = Scratch::new("interrupt");
    let args = ["replay", "-", "--stream", "--policy", "1/m", "--json"];
    let mut child = scratch.command(&args).stdin(Stdio::piped()).spawn().expect("it was built");
    let mut stdin = child.stdin.take().expect("a pipe");
    // The input is more than a pipe holds: when it is written, the run is reading and handles signals.
    let lines = 20_000;
    let input = line("192.0.2.1", "10:00:00 +0000").repeat(lines);
    stdin.write_all(input.as_bytes()).expect("the run reads");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    // On a terminal the same key press also ends the process that writes into the pipe.
    drop(stdin);
    let output = child.wait_with_output().expect("the run ends");
    assert_eq!(output.status.code(), Some(0));
    let report = String::from_utf8(output.stdout).expect("text");
    assert!(report.contains(r#""admitted":1,"#), "{report}");
}
