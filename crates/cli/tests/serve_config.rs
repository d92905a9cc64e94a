//! The settings file and the environment variables of `tollgate serve`: each flag that takes a value can also be set in
//! the file and by a variable, and an error names the place of a bad value.

use clap::{Arg, ArgAction};

use crate::common::Scratch;
use crate::pages::{assert_page, assert_part};
use crate::serving::{RULES, assert_setting, serve, serve_to_end};

/// The names of the settings that have a value, and of those that have none.
#[derive(Debug, PartialEq)]
struct Printed {
    set: Vec<(String, String, String)>,
    idle: Vec<String>,
}

fn run(scratch: &Scratch, flags: &[&str], environment: &[(&str, &str)]) -> Result<String, String> {
    serve_to_end(scratch.path(), flags, environment)
}

/// Returns what `--print-config` prints.
fn text(scratch: &Scratch, flags: &[&str], environment: &[(&str, &str)]) -> String {
    let flags = [flags, &["--print-config"]].concat();
    run(scratch, &flags, environment).expect("good settings")
}

/// Returns the name, the value and the source of each setting that `--print-config` prints.
fn print(scratch: &Scratch, flags: &[&str], environment: &[(&str, &str)]) -> Printed {
    let text = text(scratch, flags, environment);
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

/// Returns the definition of `tollgate serve`.
fn definition() -> clap::Command {
    let mut command = tollgate_cli::command();
    command.build();
    command.find_subcommand("serve").expect("a command").clone()
}

/// Returns the settings: the flags that take a value, except for the one that names the file.
fn settings(command: &clap::Command) -> Vec<(&str, &Arg)> {
    let named = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    named.filter(|(name, arg)| *name != "config" && arg.get_action().takes_values()).collect()
}

/// Returns the word that the help has for the value of a setting.
fn kind(arg: &Arg) -> &str {
    &arg.get_value_names().expect("a word for the value")[0]
}

fn usual(arg: &Arg) -> Vec<String> {
    arg.get_default_values().iter().map(|text| text.to_string_lossy().into_owned()).collect()
}

fn words(arg: &Arg) -> Vec<String> {
    arg.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect()
}

fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn variable(name: &str) -> String {
    format!("TOLLGATE_{}", name.to_uppercase().replace('-', "_"))
}

/// Values that a setting accepts and that are not its default.
fn unusual(name: &str, arg: &Arg) -> Vec<String> {
    let usual = usual(arg);
    if let Some(word) = words(arg).into_iter().find(|word| !usual.contains(word)) {
        return vec![word];
    }
    let texts: &[&str] = match kind(arg) {
        "BYTES" | "CLIENTS" | "CONNECTIONS" | "KEYS" | "MS" | "NODES" | "SECONDS" | "SERIES" => {
            &["7"]
        }
        "ADDRESS" => &["localhost:9"],
        "DIR" | "FILE" | "PATH" => &["there/it is"],
        "LIMIT" => &["gcra 10/s burst 50"],
        "NAME" => &["a", "b"],
        "NAME:VALUE" => &["zone:eu", "app:shop"],
        "NETWORKS" => &["10.0.0.0/8"],
        "PASSWORD" => &["a secret"],
        "SHARE" => &["0.15"],
        "STYLES" => &["draft-3"],
        "TEXT" => &["a text"],
        "URL" => &["redis://user:secret@host/"],
        other => panic!("{name}: add a value that a setting of the kind {other} accepts"),
    };
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    assert_ne!(texts, usual, "{name}");
    texts
}

/// Returns the values as the file has them.
fn written(arg: &Arg, texts: &[String]) -> String {
    let is_bare = |text: &str| text.parse::<f64>().is_ok() || text.parse::<bool>().is_ok();
    let quoted = texts.iter().map(|text| match text {
        text if is_bare(text) => text.clone(),
        text => format!("{text:?}"),
    });
    let texts = quoted.collect::<Vec<_>>().join(", ");
    if is_list(arg) { format!("[{texts}]") } else { texts }
}

/// Returns the values as they are printed: a remark stands in place of one that may have a password.
fn shown(arg: &Arg, texts: &[String]) -> String {
    match kind(arg) {
        "PASSWORD" | "URL" => "(set, and not shown)".to_owned(),
        _ => written(arg, texts),
    }
}

/// `shown` decides by the kind of a value, so this test names the settings whose values must be hidden.
#[test]
fn values_that_may_have_a_password_are_hidden() {
    let command = definition();
    let is_hidden =
        |(_, arg): &(&str, &Arg)| shown(arg, &["x".to_owned()]) != written(arg, &["x".to_owned()]);
    let mut hidden: Vec<&str> =
        settings(&command).into_iter().filter(is_hidden).map(|(name, _)| name).collect();
    hidden.sort_unstable();
    assert_eq!(hidden, ["otlp", "redis", "resp-password"]);
}

#[test]
fn every_setting_can_be_given_in_the_file_and_is_printed_with_its_line() {
    let (scratch, command) = (Scratch::new("serve_config_file"), definition());
    let all = settings(&command);
    assert!(all.len() >= 50, "{} settings", all.len());
    let (mut file, mut expected) = (String::new(), Vec::new());
    for (line, (name, arg)) in (1..).zip(all) {
        let texts = unusual(name, arg);
        file += &format!("{name} = {}\n", written(arg, &texts));
        expected.push((name.to_owned(), shown(arg, &texts), format!("t.toml:{line}")));
    }
    scratch.file("t.toml", file);
    let printed = print(&scratch, &["--config", "t.toml"], &[]);
    assert_eq!(printed, Printed { set: expected, idle: Vec::new() });
}

#[test]
fn every_setting_can_be_given_by_its_variable() {
    let (scratch, command) = (Scratch::new("serve_config_variables"), definition());
    let (mut variables, mut expected) = (Vec::new(), Vec::new());
    for (name, arg) in settings(&command) {
        let texts = unusual(name, arg);
        variables.push((variable(name), texts.join(",")));
        expected.push((name.to_owned(), shown(arg, &texts), variable(name)));
    }
    let pairs: Vec<_> = variables.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let printed = print(&scratch, &[], &pairs);
    assert_eq!(printed, Printed { set: expected, idle: Vec::new() });
}

/// Returns a row of the page: the flag, the default, and the whole help text.
fn row(name: &str, arg: &Arg) -> String {
    let has_value = arg.get_num_args().is_none_or(|count| count.min_values() > 0);
    let value = if has_value { format!(" {}", kind(arg)) } else { String::new() };
    let help = arg.get_long_help().expect("a help text").to_string();
    let (help, names) = help.split_once("\n\n[variable ").expect("its names");
    assert_eq!(names, format!("{}, key {name}]", variable(name)));
    let mut sentences: Vec<String> = help.split("\n\n").map(str::to_owned).collect();
    // If the default is not a value but depends on other settings, the help text says it.
    let told = sentences[0].split_once(" [default: ").map(|(text, usual)| {
        (text.to_owned(), usual.strip_suffix(']').expect("the default is the end").to_owned())
    });
    let default = match (told, &usual(arg)[..]) {
        (Some((text, told)), []) => {
            sentences[0] = text;
            told
        }
        (None, []) => "none".to_owned(),
        (_, usual) => usual.join(","),
    };
    let words = words(arg);
    if has_value && !words.is_empty() {
        sentences.push(format!("One of {}", words.join(", ")));
    }
    let means = sentences.iter().map(|text| text.trim_end_matches('.'));
    let means = means.collect::<Vec<_>>().join(". ");
    let cells = [format!("`--{name}{value}`"), default, means];
    assert!(cells.iter().all(|cell| !cell.contains('|')), "{name}");
    format!("| {} |\n", cells.join(" | "))
}

#[test]
fn the_tables_of_the_page_are_the_help_texts_of_all_settings() {
    let (command, mut heading, mut made) = (definition(), None, String::new());
    for (name, arg) in settings(&command) {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            let heading = heading.expect("a heading");
            made += &format!("\n## {heading}\n\n| Flag | Default | Means |\n|---|---|---|\n");
        }
        made += &row(name, arg);
    }
    let begin = "<!-- A test makes the tables from the help texts of `tollgate serve`. -->\n";
    let end = "\n## What takes effect without a restart\n";
    assert_part("crates/service/docs/settings.md", begin, end, &made);
}

#[test]
fn a_flag_beats_a_variable_that_the_file_that_envoyproxys_and_that_the_default() {
    let scratch = Scratch::new("serve_config_order");
    scratch.file("t.toml", "poll = 1\nlog_level = 'warn'\ngrpc = 'a:1'\nadmin-host = ['x']\n");
    let own = [("TOLLGATE_POLL", "2"), ("TOLLGATE_CONFIG", "t.toml"), ("TOLLGATE_NODES", "")];
    let of_envoyproxy =
        [("LOG_LEVEL", "debug"), ("GRPC_PORT", "9"), ("HOST", "localhost"), ("PORT", "5")];
    let variables = [&own[..], &of_envoyproxy].concat();
    let listed = ["--rules", "r", "--admin-host", "y", "--admin-host", "z"];
    let other = ["--rules", "r", "--config", "other.toml"];
    scratch.file("other.toml", "");
    for (flags, variables, name, value, source) in [
        (&["--rules", "r", "--poll", "3"][..], &variables[..], "poll", "3", "--poll"),
        (&["--rules", "r"], &variables, "poll", "2", "TOLLGATE_POLL"),
        (&["--rules", "r"], &variables[1..], "poll", "1", "t.toml:1"),
        (&["--rules", "r"], &variables, "log-level", r#""warn""#, "t.toml:2"),
        (&["--rules", "r"], &variables, "grpc", r#""a:1""#, "t.toml:3"),
        (&["--rules", "r"], &variables, "http", r#""localhost:5""#, "HOST, PORT"),
        (&["--rules", "r"], &variables, "linger-stop", "2", "default"),
        // All values of a list come from one source. The flag `--config` beats the variable that names the file.
        (&listed, &variables, "admin-host", r#"["y", "z"]"#, "--admin-host"),
        (&other, &variables[1..], "poll", "30", "default"),
    ] {
        assert_setting(&text(&scratch, flags, variables), name, value, source);
    }
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
    let scratch = Scratch::new("serve_config_example");
    let flags = ["--rules", "/etc/tollgate/rules", "--print-config"];
    let printed = run(&scratch, &flags, &[]).expect("good settings");
    assert_page("examples/tollgate.toml", &printed);
    scratch.file("tollgate.toml", &printed);
    let printed = print(&scratch, &["--config", "tollgate.toml"], &[]);
    assert!(
        printed.set.iter().all(|(.., source)| source.starts_with("tollgate.toml:")),
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
