//! `tollgate serve` as a process: its settings, its log, and a system without free file descriptors.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules");

/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs it to its end with these flags and only these environment variables.
fn run(flags: &[&str], environment: &[(&str, &str)]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear().envs(environment.iter().copied()).arg("serve").args(flags);
    let output = command.output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// The value and the source of a setting, as `--print-config` prints them.
fn setting(printed: &str, name: &str) -> (String, String) {
    let line = printed.lines().find(|line| line.split(' ').next() == Some(name));
    let rest = line.unwrap_or_else(|| panic!("{name} in\n{printed}"))[name.len()..].trim();
    let (value, source) = rest.split_once("  ").expect("a source");
    (value.to_owned(), source.trim().to_owned())
}

/// A service that runs, and the lines of its log.
struct Serving {
    process: Child,
    lines: Receiver<String>,
    http: SocketAddr,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves the example rules on free ports; `limit` is a shell command that runs first.
fn serve(limit: &str, flags: &[&str], environment: &[(&str, &str)]) -> (Serving, Vec<String>) {
    serve_rules(RULES, limit, flags, environment)
}

fn serve_rules(
    rules: &str,
    limit: &str,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> (Serving, Vec<String>) {
    let any = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut command = Command::new("/bin/sh");
    command.env_clear().envs(environment.iter().copied());
    command.args(["-c", &format!("{limit} exec \"$@\""), "sh", env!("CARGO_BIN_EXE_tollgate")]);
    command.args(["serve", "--rules", rules]).args(any).args(flags);
    let mut process = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let stderr = BufReader::new(process.stderr.take().expect("a pipe"));
    let (give, lines) = channel();
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            let _ = give.send(line);
        }
    });
    let mut begun = Vec::new();
    let http = loop {
        let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no address: {begun:?}"));
        let address = line.split_once("http ").and_then(|(_, rest)| rest.split_once(','));
        begun.push(line.clone());
        if let Some(address) = address.and_then(|(address, _)| address.parse().ok()) {
            break address;
        }
    };
    (Serving { process, lines, http }, begun)
}

impl Serving {
    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(status.expect("it runs").success());
    }

    /// The status of a request, and its body.
    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.http).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let request = format!(
            "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (status.expect("a status"), body.expect("a body"))
    }

    fn wait_for(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the line comes");
            if line.contains(text) {
                return line;
            }
        }
    }
}

#[test]
fn a_flag_beats_a_variable_and_that_beats_the_default() {
    let given = ["--rules", "here", "--grpc", "127.0.0.1:7", "--shadow=false", "--print-config"];
    let resp = ["--resp", "127.0.0.1:8", "--override-capacity", "5"];
    let flags = [&given[..], &["--admin-host", "a.internal", "--admin-host", "b"], &resp].concat();
    let environment = [
        ("RUNTIME_ROOT", "/there"),
        ("PORT", "81"),
        ("DEBUG_HOST", "10.0.0.1"),
        ("DEBUG_PORT", "82"),
        ("GRPC_PORT", "83"),
        ("SHADOW_MODE", "true"),
        ("QUOTA_MODE", "1"),
        ("NEAR_LIMIT_RATIO", "0.5"),
        ("LOG_LEVEL", "WARN"),
        ("LOG_FORMAT", ""),
        ("TOLLGATE_RESP", "127.0.0.1:9"),
        ("TOLLGATE_RESP_PASSWORD", "secret"),
        ("TOLLGATE_OVERRIDE_CAPACITY", "6"),
    ];
    let (ok, printed, errors) = run(&flags, &environment);
    assert!(ok && errors.is_empty(), "{errors}");
    for (name, value, source) in [
        ("rules", "here", "--rules"),
        ("http", "0.0.0.0:81", "PORT"),
        ("grpc", "127.0.0.1:7", "--grpc"),
        ("admin", "10.0.0.1:82", "DEBUG_HOST, DEBUG_PORT"),
        ("grpc-tls", "none", "default"),
        ("shadow", "false", "--shadow"),
        ("quota-mode", "true", "QUOTA_MODE"),
        ("compat", "false", "default"),
        ("capacity", "65536", "default"),
        ("near-limit-ratio", "0.5", "NEAR_LIMIT_RATIO"),
        ("log-level", "warn", "LOG_LEVEL"),
        ("log-format", "text", "default"),
        ("grace", "10s", "default"),
        ("linger-rules", "600s, or the window if longer", "default"),
        ("linger-stop", "0s", "default"),
        ("allow-empty", "false", "default"),
        ("admin-host", "a.internal,b", "--admin-host"),
        ("resp", "127.0.0.1:8, with a password", "--resp"),
        ("override-capacity", "5", "--override-capacity"),
    ] {
        assert_eq!(setting(&printed, name), (value.to_owned(), source.to_owned()), "{name}");
    }
}

#[test]
fn rules_and_certificates_are_found_where_envoyproxy_ratelimit_looks() {
    let environment = [
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("GRPC_UDS", "/run/rl.sock"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "/tls/crt"),
        ("GRPC_SERVER_TLS_KEY", "/tls/key"),
        ("GRPC_CLIENT_TLS_CACERT", "/tls/ca"),
    ];
    let (ok, printed, errors) = run(&["--print-config"], &environment);
    assert!(ok, "{errors}");
    let of = |name| setting(&printed, name);
    let both = "RUNTIME_ROOT, RUNTIME_SUBDIRECTORY".to_owned();
    assert_eq!(of("rules"), ("/data/ratelimit/config".to_owned(), both));
    assert_eq!(of("grpc-socket"), ("/run/rl.sock".to_owned(), "GRPC_UDS".to_owned()));
    let files = "/tls/crt with /tls/key, clients of /tls/ca".to_owned();
    assert_eq!(of("grpc-tls"), (files, "GRPC_SERVER_USE_TLS".to_owned()));
    let (_, printed, _) = run(&["--print-config"], &[("RUNTIME_SUBDIRECTORY", "rl")]);
    assert_eq!(setting(&printed, "rules").0, "/srv/runtime_data/current/rl/config");
    let environment = [("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_URL", "plane:1")];
    let (_, printed, _) = run(&["--print-config"], &environment);
    let plane = ("xds://plane:1/default".to_owned(), "CONFIG_TYPE".to_owned());
    assert_eq!(setting(&printed, "rules"), plane);
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_would_be_right() {
    let rules = ("RUNTIME_ROOT", "/data");
    for (flags, environment, expected) in [
        (vec![], vec![], "nobody says where rules are; give --rules DIR"),
        (vec![], vec![rules, ("PORT", "http")], "PORT is 'http' in the environment; use a port"),
        (vec![], vec![rules, ("HOST", "db")], "HOST is 'db' in the environment; use an IP address"),
        (vec![], vec![rules, ("SHADOW_MODE", "yes")], "SHADOW_MODE is 'yes' in the environment"),
        (vec![], vec![rules, ("NEAR_LIMIT_RATIO", "NaN")], "NEAR_LIMIT_RATIO is 'NaN'"),
        (vec![], vec![rules, ("LOG_LEVEL", "loud")], "LOG_LEVEL is 'loud' in the environment; use"),
        (vec![], vec![rules, ("CONFIG_TYPE", "GRPC_XDS")], "CONFIG_TYPE is 'GRPC_XDS' in the"),
        (vec![], vec![rules, ("GRPC_CLIENT_TLS_SAN", "a")], "GRPC_CLIENT_TLS_SAN is 'a'"),
        (
            vec![],
            vec![rules, ("GRPC_SERVER_USE_TLS", "true")],
            "GRPC_SERVER_USE_TLS is given without GRPC_SERVER_TLS_CERT; give both",
        ),
        (
            vec![],
            vec![rules, ("GRPC_SERVER_USE_TLS", "true"), ("GRPC_SERVER_TLS_CERT", "c")],
            "GRPC_SERVER_TLS_CERT is given without GRPC_SERVER_TLS_KEY; give both",
        ),
        (
            vec!["--rules", RULES, "--http-tls-cert", "no/cert", "--http-tls-key", "no/key"],
            vec![("PORT", "0"), ("GRPC_PORT", "0"), ("DEBUG_PORT", "0")],
            "no/cert: cannot be read: ",
        ),
    ] {
        let (ok, _, errors) = run(&flags, &environment);
        assert!(
            !ok && errors.starts_with(&format!("tollgate: {expected}")),
            "{expected}\n{errors}"
        );
    }
    let (ok, _, errors) = run(&["--rules", RULES, "--grpc-tls-cert", "c"], &[]);
    assert!(!ok && errors.contains("--grpc-tls-key"), "{errors}");
}

#[test]
fn a_bad_start_ends_with_2_and_what_would_be_accepted() {
    let any = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let empty = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve_empty");
    std::fs::create_dir_all(&empty).expect("a directory below target");
    let empty = empty.to_str().expect("a path");
    let redis = "redis://127.0.0.1:1/";
    for (flags, expected) in [
        (vec!["--rules", "no/such"], "no/such: cannot be read: No such file or directory"),
        (vec!["--rules", "no/such"], "; give a directory of .yaml files\n"),
        (
            vec!["--rules", empty],
            " holds no rules; put a file there whose name ends in .yaml or .yml",
        ),
        (
            vec!["--rules", RULES, "--redis", redis, "--nodes", "0"],
            "tollgate: 0 nodes share nothing; use at least 1\n",
        ),
        (
            vec!["--rules", RULES, "--admin-host", "http://limits"],
            "'http://limits' is no name of a host; give a name alone, as in limits.internal",
        ),
        (vec!["--rules", RULES, "--linger-rules", "soon"], "for '--linger-rules <SECONDS>'"),
        (vec!["--rules", RULES, "--allow-empty=perhaps"], "[possible values: true, false]"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let output = command.env_clear().arg("serve").args(any).args(&flags).output();
        let output = output.expect("it runs");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {errors}");
        assert!(errors.contains(expected), "{flags:?}: {errors}");
    }
}

#[test]
fn a_domain_that_becomes_empty_is_a_warning_and_allow_empty_takes_it() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve_becomes_empty");
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory below target");
    let file = path.join("shop.yaml");
    let rules =
        "domain: d\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let directory = path.to_str().expect("a path");
    let check = r#"{"domain": "d", "descriptors": [{"user": "alice"}]}"#;
    for (flags, after) in [(&[][..], 429), (&["--allow-empty"][..], 200)] {
        std::fs::write(&file, rules).expect("a file below target");
        let (serving, _) = serve_rules(directory, "", flags, &[]);
        assert_eq!(serving.ask("POST /v1/check", check).0, 200);
        assert_eq!(serving.ask("POST /v1/check", check).0, 429);
        std::fs::remove_file(&file).expect("the file");
        serving.signal("HUP");
        if after == 429 {
            let line = serving.wait_for("domain d has no rules any more");
            assert!(
                line.contains(" WARN ") && line.contains("its last good ones stay in force"),
                "{line}"
            );
        } else {
            let line = serving.wait_for("rules loaded: 0 in 0 domains; nothing is limited");
            assert!(line.contains(" WARN "), "{line}");
            let line = serving.wait_for("1 limit gone");
            assert!(line.contains(" INFO "), "{line}");
        }
        assert_eq!(serving.ask("POST /v1/check", check).0, after);
        std::fs::write(&file, rules).expect("a file below target");
        serving.signal("HUP");
        serving.wait_for("rules loaded: 1 in 1 domain");
        assert_eq!(serving.ask("POST /v1/check", check).0, 429, "what was spent is spent");
    }
}

#[test]
fn the_log_is_text_or_json_and_warns_of_what_is_not_honoured() {
    let environment = [("TRACING_ENABLED", "true"), ("HOME", "/")];
    let (serving, begun) = serve("", &["--log-format", "json"], &environment);
    let line: serde_json::Value = serde_json::from_str(&begun[0]).expect("JSON");
    assert_eq!(line["level"], "WARN");
    let expected = "TRACING_ENABLED is set and is not honoured yet: there are no traces";
    assert_eq!(line["message"], expected);
    let loaded: serde_json::Value = serde_json::from_str(&begun[1]).expect("JSON");
    assert_eq!(loaded["message"], "rules loaded: 6 in 1 domain");
    serving.signal("TERM");
    serving.wait_for(r#""message":"stopping""#);
    let (serving, begun) = serve("", &[], &[("LOG_LEVEL", "INFO")]);
    assert!(begun[0].contains(" INFO ") && begun[0].ends_with("rules loaded: 6 in 1 domain"));
    serving.signal("TERM");
    serving.wait_for("stopping");
}

#[test]
fn a_reload_says_which_limits_keep_what_was_spent_and_which_do_not() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve_reload.yaml");
    let write = |requests: u32, algorithm: &str| {
        let text = format!(
            "domain: d\ndescriptors:\n  - key: user\n    rate_limit: \
             {{unit: day, requests_per_unit: {requests}, algorithm: {algorithm}}}\n"
        );
        std::fs::write(&path, text).expect("a file below target");
    };
    write(5, "gcra");
    let (serving, _) = serve_rules(path.to_str().expect("a path"), "", &[], &[]);
    write(9, "gcra, mode: soft 20%");
    serving.signal("HUP");
    let line = serving.wait_for("limit changed");
    assert!(line.contains(" INFO ") && line.ends_with("; what was spent stays spent"), "{line}");
    assert!(line.contains("d.user: gcra 5/d is now gcra 9/d soft 20%"), "{line}");
    write(9, "sliding-log");
    serving.signal("HUP");
    let line = serving.wait_for("limit changed");
    assert!(
        line.contains(" WARN ") && line.contains(" and begins anew: sliding-log 9/d"),
        "{line}"
    );
}

/// Each metric has a text that says what it means, and when to worry.
#[test]
fn every_metric_is_explained_to_operators() {
    let state = concat!(env!("CARGO_TARGET_TMPDIR"), "/explained_state");
    let (serving, _) = serve("", &["--state", state], &[]);
    let (_, page) = serving.ask("GET /metrics", "");
    let names = page.lines().filter_map(|line| line.strip_prefix("# HELP tollgate_"));
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() >= 16, "{names:?}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/production.md");
    let guide = std::fs::read_to_string(file).expect("the page is there");
    for name in names {
        // Which names of counters end in, as the guide says at its head.
        let name = name.strip_suffix("_total").unwrap_or(name);
        assert!(guide.contains(&format!("| `{name}`")), "docs/production.md: what is {name}?");
    }
}

/// Row 98: a system without free file descriptors has some again later.
#[test]
fn row_98_a_server_that_cannot_accept_goes_on_when_it_can() {
    let (serving, _) = serve("ulimit -n 64;", &[], &[]);
    let open: Vec<TcpStream> =
        (0..200).map_while(|_| TcpStream::connect(serving.http).ok()).collect();
    assert!(open.len() > 64, "more than it can accept");
    drop(open);
    assert_eq!(serving.ask("GET /healthcheck", "").0, 200);
}

/// Rows 126 and 127: denied traffic logs nothing, and its contents are in no line.
#[test]
fn row_126_and_127_requests_write_no_line_whatever_they_say() {
    let (serving, _) = serve("", &[], &[]);
    let evil = r#"{"domain": "shop", "descriptors": [{"user": "\u001b[31mevil\r\n"}], "cost": 40}"#;
    let mut denied = 0;
    for _ in 0..300 {
        denied += u32::from(serving.ask("POST /v1/check", evil).0 == 429);
        // No request at all, and one that cannot be parsed.
        serving.ask("POST /json", "}\u{1b}[31m");
    }
    assert!(denied > 290, "{denied}");
    serving.signal("TERM");
    // After the address, there is one line until the end.
    let next = serving.lines.recv_timeout(PATIENCE).expect("a line");
    assert!(next.ends_with("stopping"), "{next}");
}

#[test]
fn rules_in_redis_are_named_without_their_password_and_polled_often() {
    let address = "redis://me:secret@10.0.0.7/2#shop:rules";
    let (ended_well, printed, _) = run(&["--rules", address, "--print-config"], &[]);
    assert!(ended_well && !printed.contains("secret"), "{printed}");
    let shown = "redis://10.0.0.7:6379/2#shop:rules".to_owned();
    assert_eq!(setting(&printed, "rules"), (shown, "--rules".to_owned()));
    assert_eq!(setting(&printed, "poll"), ("5s".to_owned(), "default".to_owned()));
    let (_, printed, _) = run(&["--rules", "here", "--print-config"], &[]);
    assert_eq!(setting(&printed, "poll"), ("30s".to_owned(), "default".to_owned()));
    let (_, printed, _) = run(&["--rules", address, "--poll", "60", "--print-config"], &[]);
    assert_eq!(setting(&printed, "poll"), ("60s".to_owned(), "--poll".to_owned()));
    let (ended_well, _, error) = run(&["--rules", "redis://:secret@10.0.0.7/x"], &[]);
    assert!(!ended_well && !error.contains("secret"), "{error}");
    assert!(error.contains("the address of the rules is not understood: "), "{error}");
}
