//! The service as its page shows it: started as the page says, but on free ports, and asked by curl as the page says;
//! the answers must be those on the page. Dates, lengths, and remaining seconds are not compared. (`packaging/minutes`
//! compares what the other pages show.)

use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::common::Scratch;
use crate::pages::{between, read, root};
use crate::processes::PATIENCE;
use crate::serving::{ANYWHERE, Serving, begun};

/// Starts a service with these arguments of a page, in the repository.
fn serve(arguments: &str) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    // The settings are those of the page, and variables of the test's environment have no effect.
    command.env_clear().current_dir(root()).arg("serve");
    begun(command.args(arguments.split_whitespace()).args(ANYWHERE)).0
}

/// Returns the output of a shell for this command, with the service's own port in place of the page's.
fn shell(scratch: &Scratch, serving: &Serving, command: &str) -> String {
    let script = command.replace("8080", &serving.http.port().to_string());
    let mut shell = Command::new("/bin/sh");
    // curl runs without the user's settings and without a proxy.
    let path = std::env::var_os("PATH").expect("where curl is");
    shell.env_clear().env("PATH", path).env("CURL_HOME", scratch.path());
    let output = shell.args(["-c", &script]).output().expect("a shell");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (printed, errors) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{script}\n{printed}\n{errors}");
    printed
}

/// Returns each command of a transcript, and its output.
fn commands(transcript: &str) -> Vec<(&str, &str)> {
    let after_prompts = transcript.split("$ ").skip(1);
    after_prompts.map(|rest| rest.split_once('\n').expect("a command is a line")).collect()
}

/// The numbers behind these texts depend on the moment.
const OF_THE_MOMENT: [&str; 6] = [
    "content-length: ",
    "retry-after: ",
    ";t=",
    "\"reset_after\":",
    "\"retry_after\":",
    "\"durationUntilReset\":\"",
];

/// Returns the text without the parts that depend on the moment.
fn lasting(printed: &str) -> String {
    let of_line = |line: &str| match line.strip_prefix("date: ") {
        Some(_) => "date: _".to_owned(),
        None => OF_THE_MOMENT.iter().fold(line.to_owned(), |line, mark| without(&line, mark)),
    };
    let lines: Vec<String> = printed.trim_end().lines().map(of_line).collect();
    lines.join("\n")
}

fn without(line: &str, mark: &str) -> String {
    let mut pieces = line.split(mark);
    let first = pieces.next().unwrap_or_default().to_owned();
    let digit = |c: char| c.is_ascii_digit();
    pieces.fold(first, |text, piece| text + mark + "_" + piece.trim_start_matches(digit))
}

#[test]
fn what_depends_on_the_moment_is_left_out_and_nothing_else() {
    let answer = "{\"remaining\":10,\"reset_after\":53,\"retry_after\":5}";
    assert_eq!(lasting(answer), "{\"remaining\":10,\"reset_after\":_,\"retry_after\":_}");
    assert_eq!(
        lasting("a 1\r\ndate: Sun\r\nretry-after: 9\r\n\r\n"),
        "a 1\ndate: _\nretry-after: _"
    );
    assert_ne!(lasting(answer), lasting(&answer.replace("10", "11")));
}

/// The limits of the page are per minute of the clock, so a run across the end of a minute is repeated.
#[test]
fn the_transcript_of_curl_is_what_the_service_answers() {
    let minute = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.expect("after 1970").as_secs() / 60
    };
    let curl = Command::new("curl").arg("--version").stdout(Stdio::null()).status();
    let is_there = curl.is_ok_and(|status| status.success());
    assert!(is_there, "this test needs curl (apt-get install curl)");
    let scratch = Scratch::new("curl_transcript");
    scratch.file(".curlrc", format!("max-time = {}\n", PATIENCE.as_secs()));
    let page = read("crates/service/README.md");
    let transcript = between(&page, "And `curl` over HTTP:\n\n```text\n", "```")[0];
    let started = "```text\ncargo run --release --features serve -- serve ";
    let arguments = between(&page, started, "```")[0];
    for _ in 0..5 {
        let serving = serve(arguments);
        let begun = minute();
        // The page's Python client has sent these requests before, over gRPC.
        let asked = r#"{"domain": "shop", "descriptors": [{"user": "alice", "path": "/login"}]}"#;
        let json = "-H 'content-type: application/json'";
        shell(&scratch, &serving, &format!("curl -s localhost:8080/v1/check {json} -d '{asked}'"));
        let printed = commands(transcript).into_iter();
        let both: Vec<_> = printed
            .map(|(command, printed)| (command, printed, shell(&scratch, &serving, command)))
            .collect();
        if minute() != begun {
            continue;
        }
        assert!(both.len() >= 6, "{} commands", both.len());
        for (command, printed, answered) in both {
            assert_eq!(lasting(&answered), lasting(printed), "{command}");
        }
        return;
    }
    panic!("five transcripts, each over the end of a minute");
}
