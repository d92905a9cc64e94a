//! The messages of `tollgate replay` when something is wrong. If it can, the command goes on after a message.

use std::io::Read;
use std::process::Stdio;

use crate::common::{Scratch, assert_refused, assert_refused_with, line};

const POLICY: [&str; 2] = ["--policy", "10/m"];

#[test]
fn bad_lines_are_counted_and_the_first_five_named_with_their_reasons() {
    let scratch = Scratch::new("bad_lines");
    let log = [
        line("192.0.2.1", "10:00:00 +0000"),
        "\n".to_owned(),
        "no time at all\n".to_owned(),
        line("192.0.2.256", "10:00:00 +0000"),
        line("192.0.2.1", "25:00:00 +0000"),
        "192.0.2.1 - - [31/Dec/1969:23:59:59 +0000] \"-\" 408 -\n".to_owned(),
        "192.0.2.1 - - [01/Jan/2100:00:00:00 +0000] \"-\" 408 -\n".to_owned(),
        "   \t\n".to_owned(),
        "\x1b[31m\n".to_owned(),
        "192.0.2.1 - - [17/May/2015:10:00:00 +0000] \"-\" 408 -".to_owned(),
    ];
    let run = scratch.file("a.log", log.concat()).replay(&["a.log", "--policy", "1/m", "--json"]);
    assert_eq!(run.code, Some(0));
    assert_eq!(
        run.err,
        "\
a.log:3: no \" [\" behind remote_user, where common lines have it
a.log:4: \"192.0.2.256\" is no client address; expected an IP address or a host name
a.log:5: \"17/May/2015:25:00:00 +0000\" is no time; expected 17/May/2015:10:05:03 +0000, 2015-05-17T10:05:03Z or a Unix time
a.log:6: the time \"31/Dec/1969:23:59:59 +0000\" is outside the years 1970 to 2099
a.log:7: the time \"01/Jan/2100:00:00:00 +0000\" is outside the years 1970 to 2099
and 1 more bad line
"
    );
    assert!(run.out.starts_with(r#"{"lines":8,"bad_lines":6,"#), "{run:?}");
}

#[test]
fn the_line_of_a_bad_line_is_its_line_in_the_file_however_large() {
    let scratch = Scratch::new("line_numbers");
    let mut log = line("192.0.2.1", "10:00:00 +0000").repeat(100_000);
    log += "bad\n";
    let run = scratch.file("a.log", log).replay(&[&["a.log"], &POLICY[..]].concat());
    assert_eq!(run.code, Some(0));
    assert!(run.err.starts_with("a.log:100001: no "), "{}", run.err);
}

#[test]
fn control_characters_of_a_log_never_reach_the_terminal() {
    let scratch = Scratch::new("control_characters");
    let agent = "a\x1b[2J\u{202e}b";
    let text = line("192.0.2.1", "10:00:00 +0000");
    let good = format!("{} \"-\" \"{agent}\"\n", text.trim_end());
    let bad = "192.0.2.1\x07 - - [17/May/2015:10:00:00\x1b]\n";
    scratch.file("a.log", good.repeat(2) + bad);
    let run = scratch.replay(&["a.log", "--key", "user-agent", "--policy", "1/m"]);
    assert!(run.out.contains("\na\\u{1b}[2J\\u{202e}b "), "{run:?}");
    let all = run.out + &run.err;
    assert!(!all.contains(|c: char| c.is_control() && c != '\n'), "{all:?}");
}

#[test]
fn a_file_without_a_good_line_or_without_the_key_ends_the_run() {
    let scratch = Scratch::new("no_good_line");
    let good = line("192.0.2.1", "10:00:00 +0000");
    scratch.file("good.log", good).file("empty.log", "").file("blank.log", "\n\n");
    scratch.file("other.txt", "some\ntext\n");
    scratch.file("a.jsonl", "{\"time\":1431857103,\"tenant\":\"a\"}\n");
    for (args, reason) in [
        (&["good.log", "empty.log"][..], "empty.log: it has no lines"),
        (&["blank.log"], "blank.log: it has no lines"),
        (
            &["other.txt", "--format", "combined"],
            "other.txt: 0 of 2 lines are good; line 1: no \" \" behind remote_addr, where combined lines have it",
        ),
        (
            &["good.log", "--key", "tenant"],
            "good.log: 0 of 1 lines are good; line 1: \"tenant\" is not in common lines, which have ip, user, method, \
             path, status, %l, %b",
        ),
        (
            &["good.log", "--key", "referer"],
            "good.log: 0 of 1 lines are good; line 1: \"referer\" is not in common lines, which have ip, user, method, \
             path, status, %l, %b",
        ),
        (
            &["a.jsonl", "--key", "customer"],
            "a.jsonl: 0 of 1 lines are good; line 1: no field \"customer\"; the line has \"tenant\", \"time\"",
        ),
    ] {
        let run = scratch.replay(&[args, &POLICY].concat());
        assert_refused(&run, &format!("tollgate: nothing to replay in {reason}\n"));
    }
    let run = scratch.replay(&["empty.log", "--suggest", "99%"]);
    assert_refused(&run, "tollgate: nothing to replay in empty.log: it has no lines\n");
}

#[cfg(unix)] // the system's own words are part of the messages
#[test]
fn an_unreadable_file_ends_the_run() {
    let scratch = Scratch::new("unreadable");
    let run = scratch.replay(&[&["missing.log"], &POLICY[..]].concat());
    assert_refused(
        &run,
        "tollgate: cannot read missing.log: No such file or directory (os error 2); give a log \
         file, plain or compressed, or - for standard input\n",
    );
    let run = scratch.replay(&[&["."], &POLICY[..]].concat());
    assert_refused(
        &run,
        "tollgate: cannot read .: Is a directory (os error 21); give a log file, plain or compressed, or \
         - for standard input\n",
    );
    let run = scratch
        .file("cut.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x33")
        .replay(&[&["cut.gz"], &POLICY[..]].concat());
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    assert!(run.err.starts_with("tollgate: cannot read cut.gz: "), "{}", run.err);
}

#[test]
fn a_bad_policy_is_refused_before_anything_is_read() {
    let scratch = Scratch::new("bad_policy");
    for (policy, says) in [
        ("ten per minute", "there is no algorithm \"ten per minute\"; use gcra, "),
        ("0/s", "0"),
        ("", ""),
    ] {
        let run = scratch.replay(&["missing.log", "--policy", policy]);
        assert_refused_with(&run, says);
        let start = format!("error: invalid value '{policy}' for '--policy <POLICY>': ");
        assert!(run.err.starts_with(&start) || policy.is_empty(), "{}", run.err);
    }
}

#[test]
fn options_that_cannot_work_are_refused() {
    let scratch = Scratch::new("bad_options");
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000"));
    for (args, says) in [
        (&["a.log"][..], "--policy <POLICY>"),
        (&["--policy", "10/m"], "<FILE>"),
        (&["a.log", "--policy", "10/m", "--reorder", "10m"], "--stream"),
        (
            &["a.log", "--policy", "10/m", "--stream", "--reorder", "ten"],
            "expected a span of time such as 30s, 10m or 2h",
        ),
        (&["a.log", "--suggest", "99%", "--html", "o"], "--policy <POLICY>"),
        (&["a.log", "--suggest", "99%", "--svg", "o"], "--policy <POLICY>"),
        (&["a.log", "--suggest", "99.9"], "expected a share of the keys such as 99.9%"),
        (&["a.log", "--suggest", "0%"], "above 0% and at most 100%"),
        (&["a.log", "--suggest", "101%"], "above 0% and at most 100%"),
        (&["a.log", "--suggest", "99%", "--stream"], "cannot be used with"),
        (
            &["a.log", "--policy", "1/s", "--prefix-v6", "129"],
            "a prefix of 129 bits is not possible; use 1 to 128",
        ),
        (
            &["a.log", "--policy", "1/s", "--prefix-v6", "0"],
            "a prefix of 0 bits is not possible; use 1 to 128",
        ),
        (
            &["a.log", "--policy", "1/s", "--prefix-v6", "half"],
            "write the bits in digits, 1 to 128, as in 64",
        ),
    ] {
        assert_refused_with(&scratch.replay(args), says);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let scratch = Scratch::new("broken_pipe");
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000"));
    let mut command = scratch.command(&["replay", "a.log", "--policy", "10/m"]);
    let (reader, writer) = std::io::pipe().expect("pipes can be made");
    drop(reader);
    let mut child = command.stdout(writer).stderr(Stdio::piped()).spawn().expect("it was built");
    let mut err = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("messages are text");
    assert_eq!((child.wait().expect("the run ends").code(), err.as_str()), (Some(0), ""));
}

#[test]
fn a_closed_standard_error_is_no_panic() {
    let scratch = Scratch::new("broken_error_pipe");
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000") + "bad\n");
    for (file, code) in [("a.log", 0), ("missing.log", 2)] {
        let mut command = scratch.command(&["replay", file, "--policy", "10/m"]);
        let (reader, writer) = std::io::pipe().expect("pipes can be made");
        drop(reader);
        let mut child = command.stderr(writer).spawn().expect("it was built");
        assert_eq!(child.wait().expect("the run ends").code(), Some(code));
    }
}

/// Lines are as long as the terminal is wide, and no paragraph was broken for another width.
#[test]
fn help_fits_the_terminal_and_names_the_policies() {
    let scratch = Scratch::new("help_of_commands");
    for command in ["replay", "simulate", "check", "serve", "rules"] {
        for columns in [60, 80, 120] {
            let mut command_line = scratch.command(&[command, "--help"]);
            let output = command_line.env("COLUMNS", columns.to_string()).output().expect("ends");
            let help = String::from_utf8(output.stdout).expect("help is text");
            let is_long = |line: &&str| line.chars().count() > columns && line.contains("  ");
            // A line that is one long word, such as an address, cannot be broken.
            let long: Vec<&str> =
                help.lines().filter(is_long).filter(|line| line.trim().contains(' ')).collect();
            assert!(long.is_empty(), "{command} at {columns}: {long:?}");
            let names = ["gcra 10/m burst 5", "sliding-log 100/m", "calendar-month 10000"];
            let is_named = names.iter().all(|name| help.contains(name));
            assert_eq!(is_named, ["replay", "simulate"].contains(&command), "{command}");
        }
    }
}

#[test]
fn the_bare_command_shows_its_help_and_its_version() {
    let scratch = Scratch::new("bare");
    let output = scratch.command(&[]).output().expect("the run ends");
    let help = String::from_utf8(output.stderr).expect("help is text");
    assert_eq!(output.status.code(), Some(2));
    assert!(help.contains("Usage: tollgate <COMMAND>") && help.contains("replay"), "{help}");
    let output = scratch.command(&["--version"]).output().expect("the run ends");
    let version = format!("tollgate {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(output.stdout).expect("text"), version);
}

#[test]
fn a_policy_that_no_keyed_limiter_can_hold_is_replayed_with_a_note() {
    let scratch = Scratch::new("no_table");
    let policies = ["--policy", "2000000000/s", "--policy", "10/m", "--json"];
    let run = scratch
        .file("a.log", line("192.0.2.1", "10:00:00 +0000"))
        .replay(&[&["a.log"], &policies[..]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        run.err,
        "note: a keyed limiter cannot hold 2000000000/s: one key's state needs 42 of 63 bits, \
         which leaves 21 to tell keys apart and 24 are needed; use a smaller burst, queue, debt or limit, or \
         fewer segments\n"
    );
}
