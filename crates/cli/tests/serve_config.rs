//! The file of settings and the variables of `tollgate serve`: each flag has both, and bad ones are refused by their
//! place.

use std::fs;
use std::process::Command;

use crate::common::Scratch;
use crate::serving::{RULES, serve};

/// The names of the settings that have a value, and of those that have none.
#[derive(Debug, PartialEq)]
struct Printed {
    set: Vec<(String, String, String)>,
    idle: Vec<String>,
}

/// Runs it in a directory with these flags and only these variables.
fn run(scratch: &Scratch, flags: &[&str], environment: &[(&str, &str)]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear().envs(environment.iter().copied()).current_dir(scratch.path());
    let output = command.arg("serve").args(flags).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    match output.status.code() {
        Some(0) => Ok(text(output.stdout)),
        code => Err(format!("{code:?} {}", text(output.stderr))),
    }
}

/// The name, the value and the source of each setting that `--print-config` prints.
fn print(scratch: &Scratch, flags: &[&str], environment: &[(&str, &str)]) -> Printed {
    let flags = [flags, &["--print-config"]].concat();
    let text = run(scratch, &flags, environment).expect("good settings");
    let mut printed = Printed { set: Vec::new(), idle: Vec::new() };
    for line in text.lines().filter(|line| line.contains("; --")) {
        let (assigned, names) = line.split_once("  # ").expect("names");
        let (name, value) = assigned.trim_start_matches("# ").split_once(" = ").expect("a value");
        let source = names.split("; ").next().expect("a source");
        if assigned.starts_with("# ") && !value.contains("not shown") {
            printed.idle.push(name.to_owned());
        } else {
            printed.set.push((name.to_owned(), value.to_owned(), source.to_owned()));
        }
    }
    printed
}

fn source_of<'a>(printed: &'a Printed, name: &str) -> (&'a str, &'a str) {
    let row = printed.set.iter().find(|row| row.0 == name).expect("it is set");
    (&row.1, &row.2)
}

/// A line for every setting, none of them with its default.
const ALL: &str = r#"rules = "here"
poll = 7
http = "localhost:1"
http-socket = "h.sock"
http-tls-cert = "h.crt"
http-tls-key = "h.key"
http-tls-client-ca = "h.ca"
grpc = "[::1]:2"
grpc-socket = "g.sock"
grpc-tls-cert = "g.crt"
grpc-tls-key = "g.key"
grpc-tls-client-ca = "g.ca"
grpc-max-age = 8
grpc-max-age-grace = 9
resp = "127.0.0.1:3"
resp-password = "a secret"
admin = "127.0.0.1:4"
metrics = "127.0.0.1:5"
max-connections = 21
admin-host = ["a", "b"]
compat = true
shadow = true
quota-mode = true
merge-domains = true
response-headers = true
headers = "draft-3"
trusted-proxies = "10.0.0.0/8"
metadata = true
allow-empty = true
healthy-without-rules = true
linger-rules = 10
state = "state"
state-every = 11
capacity = 12
override-capacity = 13
table-bytes = 14
max-series = 19
near-limit-ratio = 0.15
log-level = "error"
log-format = "json"
metrics-names = "envoyproxy"
linger-stop = 16
redis = "redis://u:secret@127.0.0.1/"
nodes = 17
on-error = "deny"
redis-deadline = 18
redis-prefix = "p"
redis-keys = "envoyproxy"
redis-tls-ca = "r.ca"
redis-tls-cert = "r.crt"
redis-tls-key = "r.key"
log-denials = "gcra 10/s burst 50"
otlp = "http://collector:4317/v1/traces"
otlp-protocol = "http"
trace-sample = "0.25 of all"
statsd = "statsd:8125"
statsd-every = 20
statsd-style = "tagged"
statsd-tags = ["zone:eu", "app:shop"]
"#;

/// The lines of [`ALL`]: names and values.
fn all() -> Vec<(&'static str, &'static str)> {
    ALL.lines().map(|line| line.split_once(" = ").expect("a setting")).collect()
}

/// Returns whether a remark is printed in place of the value, because it may have a password.
fn is_secret(name: &str) -> bool {
    ["redis", "resp-password"].contains(&name)
}

#[test]
fn every_setting_can_be_given_in_the_file_and_is_printed_with_its_line() {
    let scratch = Scratch::new("serve_config_file");
    scratch.file("t.toml", ALL);
    let mut printed = print(&scratch, &["--config", "t.toml"], &[]);
    assert_eq!(printed.idle, [""; 0], "ALL has no line for these");
    let mut expected: Vec<_> = (1..)
        .zip(all())
        .map(|(line, (name, value))| {
            let value = if is_secret(name) { "(set, and not shown)" } else { value };
            (name.to_owned(), value.to_owned(), format!("t.toml:{line}"))
        })
        .collect();
    printed.set.sort();
    expected.sort();
    assert_eq!(printed.set, expected);
}

#[test]
fn every_setting_can_be_given_by_its_variable() {
    let scratch = Scratch::new("serve_config_variables");
    let variables: Vec<_> = all()
        .into_iter()
        .map(|(name, value)| {
            let value = value.replace("\", \"", ",").replace(['"', '[', ']'], "");
            let value = if name == "grpc" { "[::1]:2".to_owned() } else { value };
            (format!("TOLLGATE_{}", name.to_uppercase().replace('-', "_")), value)
        })
        .collect();
    let pairs: Vec<_> = variables.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let mut printed = print(&scratch, &[], &pairs);
    assert_eq!(printed.idle, [""; 0]);
    let mut expected: Vec<_> = all()
        .into_iter()
        .zip(&pairs)
        .map(|((name, value), (variable, _))| {
            let value = if is_secret(name) { "(set, and not shown)" } else { value };
            (name.to_owned(), value.to_owned(), (*variable).to_owned())
        })
        .collect();
    printed.set.sort();
    expected.sort();
    assert_eq!(printed.set, expected);
}

#[test]
fn the_help_shows_the_three_names_of_every_setting() {
    let scratch = Scratch::new("serve_config_help");
    let help = run(&scratch, &["--help"], &[]).expect("help");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, _) in all() {
        let variable = format!("TOLLGATE_{}", name.to_uppercase().replace('-', "_"));
        assert!(help.contains(&format!("--{name}")), "{name}");
        assert!(help.contains(&format!("[variable {variable}, key {name}]")), "{name}\n{help}");
    }
    assert!(help.contains("[variable TOLLGATE_CONFIG]"), "{help}");
    for heading in
        ["Rules:", "HTTP:", "gRPC:", "Decisions:", "Log and metrics:", "Over many nodes:"]
    {
        assert!(help.contains(&format!(" {heading} --")), "{heading}\n{help}");
    }
    // Options without a heading are shown first, and are no settings.
    assert!(help.contains("Options: -h, --help"), "{help}");
}

#[test]
fn a_flag_beats_a_variable_that_the_file_that_envoyproxys_and_that_the_default() {
    let scratch = Scratch::new("serve_config_order");
    scratch.file("t.toml", "poll = 1\nlog_level = 'warn'\ngrpc = 'a:1'\nadmin-host = ['x']\n");
    let own = [("TOLLGATE_POLL", "2"), ("TOLLGATE_CONFIG", "t.toml"), ("TOLLGATE_NODES", "")];
    let of_envoyproxy =
        [("LOG_LEVEL", "debug"), ("GRPC_PORT", "9"), ("HOST", "localhost"), ("PORT", "5")];
    let variables = [&own[..], &of_envoyproxy].concat();
    let printed = print(&scratch, &["--rules", "r", "--poll", "3"], &variables);
    assert_eq!(source_of(&printed, "poll"), ("3", "--poll"));
    assert_eq!(source_of(&printed, "log-level"), (r#""warn""#, "t.toml:2"));
    assert_eq!(source_of(&printed, "grpc"), (r#""a:1""#, "t.toml:3"));
    assert_eq!(source_of(&printed, "http"), (r#""localhost:5""#, "HOST, PORT"));
    assert_eq!(source_of(&printed, "linger-stop"), ("2", "default"));
    let printed = print(&scratch, &["--rules", "r"], &variables);
    assert_eq!(source_of(&printed, "poll"), ("2", "TOLLGATE_POLL"));
    let printed = print(&scratch, &["--rules", "r"], &variables[1..]);
    assert_eq!(source_of(&printed, "poll"), ("1", "t.toml:1"));
    // A list is taken as a whole from one place. A flag names another file.
    let flags = ["--rules", "r", "--admin-host", "y", "--admin-host", "z"];
    let printed = print(&scratch, &flags, &variables);
    assert_eq!(source_of(&printed, "admin-host"), (r#"["y", "z"]"#, "--admin-host"));
    scratch.file("other.toml", "");
    let printed = print(&scratch, &["--rules", "r", "--config", "other.toml"], &variables[1..]);
    assert_eq!(source_of(&printed, "poll"), ("30", "default"));
}

#[test]
fn what_is_printed_is_read_again_and_means_the_same() {
    let scratch = Scratch::new("serve_config_again");
    let given = ["--rules", "a \"b\" \\ c", "--poll", "9", "--print-config"];
    let environment = [("SHADOW_MODE", "1"), ("DEBUG_PORT", "5")];
    scratch.file("t.toml", run(&scratch, &given, &environment).expect("good settings"));
    let again = print(&scratch, &["--config", "t.toml"], &[]);
    let first = print(&scratch, &given[..4], &environment);
    let values = |printed: &Printed| -> Vec<_> {
        printed.set.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect()
    };
    assert_eq!((values(&again), &again.idle), (values(&first), &first.idle));
}

/// `examples/tollgate.toml` is what is printed without any other setting.
#[test]
fn the_example_has_every_setting_with_its_default() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tollgate.toml");
    let example = fs::read_to_string(path).expect("the example");
    let scratch = Scratch::new("serve_config_example");
    let flags = ["--rules", "/etc/tollgate/rules", "--print-config"];
    let printed = run(&scratch, &flags, &[]).expect("good settings");
    assert!(example == printed, "write what is printed into examples/tollgate.toml:\n{printed}");
    let printed = print(&scratch, &["--config", path], &[]);
    assert!(
        printed.set.iter().all(|(.., source)| source.contains("tollgate.toml:")),
        "{printed:?}"
    );
}

#[test]
fn a_bad_file_or_variable_is_refused_with_its_place_and_what_is_accepted() {
    let scratch = Scratch::new("serve_config_bad");
    for (text, says) in [
        ("poll = 1\nhtp = 'a:1'", "t.toml:2: there is no setting 'htp'; did you mean http?\n"),
        ("zzzzz = 1", "t.toml:1: there is no setting 'zzzzz'; keys are flags of tollgate serve"),
        ("print-config = true", "t.toml:1: there is no setting 'print-config'; "),
        ("config = 'u.toml'", "t.toml:1: there is no setting 'config'; "),
        ("help = true", "t.toml:1: there is no setting 'help'; "),
        ("\"a=b c\" = 1", "t.toml:1: there is no setting 'a=b c'; "),
        (
            "\npoll = 'soon'",
            "t.toml:2: poll is 'soon': invalid digit found in string; use what --poll takes: Seconds",
        ),
        ("poll = 0", "t.toml:1: poll is '0': 0 is not in 1..=65535; use what --poll takes: "),
        ("poll = -1", "t.toml:1: poll is '-1': -1 is not in 1..=65535; use what --poll takes: "),
        (
            "capacity = 99999999999999999999999999",
            "t.toml:1: capacity is '99999999999999999999999999': number too large to fit in target type; use ",
        ),
        ("shadow = 'perhaps'", "t.toml:1: shadow is 'perhaps'; use true or false\n"),
        (
            "log-level = 'loud'",
            "t.toml:1: log-level is 'loud'; use error or warn or info or debug or trace\n",
        ),
        (
            "grpc = '8081'",
            "t.toml:1: grpc is '8081': '8081' is no address; give an IP address or a host name",
        ),
        ("near-limit-ratio = nan", "t.toml:1: near-limit-ratio is 'nan': no share from 0 to 1"),
        ("admin-host = ['a', 'b/']", "t.toml:1: admin-host is 'b/': 'b/' is no name of a host"),
        ("poll = [1, 2]", "t.toml:1: poll is a list; give one value\n"),
        ("[http]\nport = 1", "t.toml:1: 'http' is a table or a date; "),
        ("trace-sample = 0.5", "trace-sample (t.toml:1) is given without --otlp; give both\n"),
        ("statsd-tags = 'a:b'", "statsd-tags (t.toml:1) is given without --statsd; give both\n"),
        (
            "otlp = 'http://a:1'\ntrace-sample = '2 of all'",
            "t.toml:2: trace-sample is '2 of all': no share from 0 to 1, as in 0.01 or",
        ),
        (
            "statsd = 'a:1'\nstatsd-tags = ['zone:eu', 'a b:c']",
            "t.toml:2: statsd-tags is 'a b:c': no tag: a name of letters, digits, _ and -, ",
        ),
        ("log-denials = 'many'", "t.toml:1: log-denials is 'many': "),
        ("otlp = 'collector:4317'", "t.toml:1: traces cannot be sent to collector:4317: "),
        ("state-every = 1", "state-every (t.toml:1) is given without --state; give both\n"),
        ("nodes = 2", "nodes (t.toml:1) is given without --redis; give both\n"),
        (
            "grpc-tls-key = 'k'",
            "grpc-tls-key (t.toml:1) is given without --grpc-tls-cert; give both\n",
        ),
        (
            "resp-password = 'secret'",
            "resp-password (t.toml:1) is given without --resp; give both\n",
        ),
        ("resp-password = 'secret", "t.toml:1: is no TOML: "),
    ] {
        scratch.file("t.toml", text);
        let error = run(&scratch, &["--rules", RULES, "--config", "t.toml"], &[]).expect_err(text);
        let begins = format!("Some(2) tollgate: {says}");
        assert!(error.starts_with(&begins) && !error.contains("secret"), "{text}\n{error}");
    }
    for (name, value, says) in [
        (
            "TOLLGATE_POLL",
            "0",
            "TOLLGATE_POLL is '0' in the environment: 0 is not in 1..=65535; use ",
        ),
        (
            "TOLLGATE_SHADOW",
            "yes",
            "TOLLGATE_SHADOW is 'yes' in the environment; use true or false",
        ),
        ("TOLLGATE_NODES", "2", "TOLLGATE_NODES is given without --redis; give both"),
        ("TOLLGATE_CONFIG", "no.toml", "no.toml: cannot be read: No such file or directory"),
    ] {
        let error = run(&scratch, &["--rules", RULES], &[(name, value)]).expect_err(name);
        assert!(error.starts_with(&format!("Some(2) tollgate: {says}")), "{error}");
    }
}

#[test]
fn a_variable_that_is_no_setting_is_a_warning_and_those_of_kubernetes_are_none() {
    let environment = [
        ("TOLLGATE_LOGLEVEL", "warn"),
        ("TOLLGATE_SERVICE_HOST", "10.0.0.1"),
        ("TOLLGATE_PORT", "tcp://a:1"),
    ];
    let (serving, begun) = serve("", &[], &environment);
    let expected = "TOLLGATE_LOGLEVEL is set and is no setting; did you mean TOLLGATE_LOG_LEVEL?";
    assert!(begun[0].contains(" WARN ") && begun[0].ends_with(expected), "{begun:?}");
    let more = begun[1..].iter().filter(|line| line.contains("is no setting")).count();
    assert_eq!((more, serving.ask("GET /healthcheck", "").0), (0, 200));
}

#[test]
fn a_host_name_is_listened_on_at_its_first_address_and_one_that_is_unknown_is_refused() {
    let (serving, begun) = serve("", &["--http", "localhost:0"], &[]);
    assert!(serving.http.ip().is_loopback(), "{begun:?}");
    assert_eq!(serving.ask("GET /healthcheck", "").0, 200);
    let scratch = Scratch::new("serve_config_names");
    let any = ["--rules", RULES, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let unknown = "there-is-no-such-name.invalid:80";
    scratch.file("t.toml", format!("grpc = '{unknown}'"));
    for (flags, environment, from) in [
        (vec!["--grpc", unknown], vec![], "--grpc"),
        (vec![], vec![("TOLLGATE_GRPC", unknown)], "TOLLGATE_GRPC"),
        (vec!["--config", "t.toml"], vec![], "t.toml:1"),
        (
            vec![],
            vec![("GRPC_HOST", "there-is-no-such-name.invalid"), ("GRPC_PORT", "80")],
            "GRPC_HOST, GRPC_PORT",
        ),
        (vec!["--grpc", "127.0.0.1:0", "--resp", unknown], vec![], "--resp"),
    ] {
        let error = run(&scratch, &[&any[..], &flags].concat(), &environment).expect_err(from);
        let begins = format!("Some(2) tollgate: {from}: {unknown} does not resolve: ");
        let ends = "; give a name that does, or an IP address with the port\n";
        assert!(error.starts_with(&begins) && error.ends_with(ends), "{error}");
    }
}
