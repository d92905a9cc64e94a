//! Running services as the pages show them: started as the pages say, but on free ports, and asked by curl as the
//! pages say; the answers must be those on the pages. Dates, lengths, and remaining seconds are not compared.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::common::Scratch;
use crate::pages::{between, read, root, shell_blocks, words};
use crate::processes::Process;
use crate::serving::{PATIENCE, Serving, begun};

/// The services that the commands of a page have started.
struct World {
    scratch: Scratch,
    /// The Redis of the page, if it starts one.
    stores: Vec<Process>,
    /// The ports on the pages, and the services that listen in their place.
    nodes: Vec<(String, Serving)>,
    /// The port of Redis on the pages, and the one in use.
    store: Option<(String, String)>,
}

impl World {
    /// `test` is the name of the test.
    fn new(test: &str) -> Self {
        let curl = Command::new("curl").arg("--version").stdout(Stdio::null()).status();
        let is_there = curl.is_ok_and(|status| status.success());
        assert!(is_there, "this test needs curl (apt-get install curl)");
        let scratch = Scratch::new(test);
        scratch.file(".curlrc", format!("max-time = {}\n", PATIENCE.as_secs()));
        Self { scratch, stores: Vec::new(), nodes: Vec::new(), store: None }
    }

    /// Starts the services of a block of commands. Returns the other commands, which a shell is to run.
    fn start(&mut self, block: &str) -> String {
        let mut script = String::new();
        for line in block.replace("\\\n", " ").lines() {
            let words = words(line.trim_end_matches('&'));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match &words[..] {
                [
                    "cargo",
                    "run",
                    "--release",
                    "--features",
                    "serve",
                    "--",
                    "serve",
                    arguments @ ..,
                ] => {
                    self.serve(arguments);
                }
                ["redis-server", arguments @ ..] => self.keep(arguments),
                _ => script = script + line + "\n",
            }
        }
        script
    }

    /// Starts a service with these arguments, except for its addresses, and waits until it has rules and listens.
    fn serve(&mut self, arguments: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        // The settings are those of the page, and variables of the test's environment have no effect.
        command.env_clear().current_dir(root()).arg("serve");
        let mut port = "8080";
        let mut arguments = arguments.iter().copied();
        while let Some(argument) = arguments.next() {
            match argument {
                "--http" => {
                    port = arguments.next().and_then(|at| at.split(':').nth(1)).expect(argument);
                }
                "--grpc" | "--admin" => drop(arguments.next()),
                "redis://127.0.0.1/" => {
                    let (_, port) = self.store.as_ref().expect("the page starts it first");
                    // A busy machine may be slow, and no node should fall back here.
                    let deadline = ["--redis-deadline", "2000"];
                    command.arg(format!("redis://127.0.0.1:{port}/")).args(deadline);
                }
                other => {
                    command.arg(other);
                }
            }
        }
        for address in ["--http", "--grpc", "--admin"] {
            command.args([address, "127.0.0.1:0"]);
        }
        let (serving, _) = begun(&mut command);
        self.nodes.push((port.to_owned(), serving));
        self.wait_for(port, "healthcheck", "OK");
        if self.store.is_some() {
            self.wait_for(port, "metrics", "\ntollgate_store_degraded 0\n");
        }
    }

    /// Starts a Redis with these arguments, except for its port.
    fn keep(&mut self, arguments: &[&str]) {
        let at = arguments.iter().position(|argument| *argument == "--port").expect("a port") + 1;
        let address = crate::processes::free_address();
        let port = address.port().to_string();
        self.store = Some((arguments[at].to_owned(), port.clone()));
        let mut arguments = arguments.to_vec();
        arguments[at] = &port;
        self.stores.push(crate::processes::redis_server(&arguments));
        drop(crate::processes::connected(address));
    }

    fn wait_for(&self, port: &str, path: &str, text: &str) {
        let begun = Instant::now();
        loop {
            let found = self.shell(&format!("curl -s localhost:{port}/{path} || true"));
            if found.contains(text) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "no {text:?} at {path}: {found}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the output of a shell for this script, with the services' own ports in place of the page's.
    fn shell(&self, script: &str) -> String {
        let numbered = self.nodes.iter().enumerate();
        // The ports are replaced in two steps, by way of marks, because a free port may contain one of the page's.
        let marked = numbered.clone().fold(script.to_owned(), |script, (n, (port, _))| {
            script.replace(port.as_str(), &format!("<{n}>"))
        });
        let script = numbered.fold(marked, |script, (n, (_, serving))| {
            script.replace(&format!("<{n}>"), &serving.http.port().to_string())
        });
        let mut command = Command::new("/bin/sh");
        // curl runs without the user's settings and without a proxy.
        let path = std::env::var_os("PATH").expect("where curl is");
        command.env_clear().env("PATH", path).env("CURL_HOME", self.scratch.path());
        let output = command.args(["-c", &script]).output().expect("a shell");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let (printed, errors) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{script}\n{printed}\n{errors}");
        printed
    }
}

/// Returns the block of a page that serves, and its output.
fn serving(page: &str) -> (&str, &str) {
    let mut blocks = shell_blocks(page).into_iter();
    let block = blocks
        .find(|(block, _)| block.contains("cargo run --release --features serve -- serve --rules"));
    let (block, printed) = block.expect("the page serves");
    (block, printed.expect("the page says what is answered"))
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

#[test]
fn the_service_of_the_tutorial_answers_as_it_says() {
    let mut world = World::new("tutorial");
    let page = read("docs/tutorial.md");
    let (block, printed) = serving(&page);
    let script = world.start(block);
    assert_eq!(lasting(&world.shell(&script)), lasting(printed));
    let with_status = script.trim_end().to_owned() + " -w ' %{http_code}'";
    let more: Vec<String> = (0..3).map(|_| world.shell(&with_status)).collect();
    let statuses: Vec<_> = more.iter().map(|answer| &answer[answer.len() - 3..]).collect();
    assert_eq!(statuses, ["200", "200", "429"], "the fourth: {more:?}");
    assert!(more[2].contains("\"retry_after\":"), "{more:?}");
}

/// The limits of the page are per minute of the clock, so a run across the end of a minute is repeated.
#[test]
fn the_transcript_of_curl_is_what_the_service_answers() {
    let minute = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.expect("after 1970").as_secs() / 60
    };
    let page = read("crates/service/README.md");
    let transcript = between(&page, "And `curl` over HTTP:\n\n```text\n", "```")[0];
    let serve = between(&page, "```text\ncargo run ", "```")[0];
    for _ in 0..5 {
        let mut world = World::new("curl_transcript");
        world.start(&format!("cargo run {serve}"));
        let begun = minute();
        // The page's Python client has sent these requests before, over gRPC.
        let asked = r#"{"domain": "shop", "descriptors": [{"user": "alice", "path": "/login"}]}"#;
        let json = "-H 'content-type: application/json'";
        world.shell(&format!("curl -s localhost:8080/v1/check {json} -d '{asked}'"));
        let printed = commands(transcript).into_iter();
        let both = printed.map(|(command, printed)| (command, printed, world.shell(command)));
        let both: Vec<_> = both.collect();
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

#[cfg(feature = "redis-tests")]
#[test]
fn two_nodes_on_one_redis_answer_as_the_page_says() {
    let mut world = World::new("two_nodes");
    let page = read("crates/redis/README.md");
    let (block, printed) = serving(&page);
    let script = world.start(block);
    assert_eq!(world.nodes.len(), 2);
    let answered = world.shell(&script);
    assert_eq!(answered.lines().filter(|line| line.ends_with(" 200")).count(), 3, "{answered}");
    assert_eq!(answered.lines().filter(|line| line.ends_with(" 429")).count(), 3, "{answered}");
    assert_eq!(lasting(&answered), lasting(printed));
}
