//! `tollgate serve` as a process: its log, its reloads, and a system without free file descriptors.

use std::net::TcpStream;

use crate::common::Scratch;
use crate::processes::PATIENCE;
use crate::serving::{OF_ALICE, serve, serve_rules};

#[test]
fn a_domain_that_becomes_empty_is_a_warning_and_allow_empty_takes_it() {
    let scratch = Scratch::new("serve_becomes_empty");
    let rules =
        "domain: d\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    for (flags, after) in [(&[][..], 429), (&["--allow-empty"][..], 200)] {
        scratch.file("rules/shop.yaml", rules);
        let (serving, _) = serve_rules(&scratch.at("rules"), "", flags, &[]);
        assert_eq!(serving.ask("POST /v1/check", OF_ALICE).0, 200);
        assert_eq!(serving.ask("POST /v1/check", OF_ALICE).0, 429);
        std::fs::remove_file(scratch.at("rules/shop.yaml")).expect("the file");
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
        assert_eq!(serving.ask("POST /v1/check", OF_ALICE).0, after);
        scratch.file("rules/shop.yaml", rules);
        serving.signal("HUP");
        serving.wait_for("rules loaded: 1 in 1 domain");
        assert_eq!(serving.ask("POST /v1/check", OF_ALICE).0, 429, "what was spent is spent");
    }
}

#[test]
fn the_log_is_text_or_json_and_warns_of_what_is_not_honoured() {
    let environment = [("RUNTIME_WATCH_ROOT", "true"), ("HOME", "/")];
    let (serving, begun) = serve("", &["--log-format", "json"], &environment);
    let line: serde_json::Value = serde_json::from_str(&begun[0]).expect("JSON");
    assert_eq!(line["level"], "WARN");
    let expected = "RUNTIME_WATCH_ROOT is set and means nothing here: a swapped link and changed files are both noticed";
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
    let scratch = Scratch::new("serve_reload");
    let write = |requests: u32, algorithm: &str| {
        let text = format!(
            "domain: d\ndescriptors:\n  - key: user\n    rate_limit: \
             {{unit: day, requests_per_unit: {requests}, algorithm: {algorithm}}}\n"
        );
        scratch.file("rules.yaml", text);
    };
    write(5, "gcra");
    let (serving, _) = serve_rules(&scratch.at("rules.yaml"), "", &[], &[]);
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

#[test]
fn rules_that_hold_no_budget_are_told_when_they_are_loaded_unless_they_or_the_mode_say_what_costs_are()
 {
    let scratch = Scratch::new("serve_budgets");
    let limit = "rate_limit: {unit: hour, requests_per_unit: 100}";
    let rule = |key: &str, own: &str| format!("  - {{key: {key}, {own}{limit}}}\n");
    let rules = [
        rule("a", "quota_mode: true, "),
        rule("b", ""),
        rule("c", ""),
        rule("d", "usage: true, "),
        rule("e", "usage: false, quota_mode: true, "),
    ];
    scratch.file("rules.yaml", format!("domain: ai\ndescriptors:\n{}", rules.concat()));
    let told = |flags: &[&str]| -> Vec<String> {
        let (_, begun) = serve_rules(&scratch.at("rules.yaml"), "", flags, &[]);
        let of_costs = begun.iter().filter_map(|line| line.split_once(" rules with"));
        let level = |head: &str| head.rsplit(' ').next().unwrap_or_default().to_owned();
        let count = |text: &str| text.split(';').next().unwrap_or_default().to_owned();
        of_costs.map(|(head, text)| format!("{} {}", level(head), count(text))).collect()
    };
    let expected = [
        "WARN  quota_mode that charge nothing for a denied cost: 1",
        "INFO out usage that charge nothing for a denied cost: 2",
    ];
    assert_eq!(told(&[]), expected);
    assert_eq!(told(&["--compat"]), Vec::<String>::new());
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
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../service/docs/metrics.md");
    let guide = std::fs::read_to_string(file).expect("the page is there");
    for name in names {
        // Names of counters end in `_total`. The guide says so at its head, and leaves out this suffix in its tables.
        let name = name.strip_suffix("_total").unwrap_or(name);
        assert!(
            guide.contains(&format!("| `{name}`")),
            "docs/metrics.md of the service: what is {name}?"
        );
    }
}

/// Row 98 of the bad inputs: a system has no free file descriptors, and has some again later.
#[test]
fn row_98_a_server_that_cannot_accept_goes_on_when_it_can() {
    let (serving, _) = serve("ulimit -n 64;", &[], &[]);
    let open: Vec<TcpStream> =
        (0..200).map_while(|_| TcpStream::connect(serving.http).ok()).collect();
    assert!(open.len() > 64, "more than it can accept");
    drop(open);
    assert_eq!(serving.ask("GET /healthcheck", "").0, 200);
}

/// Rows 126 and 127 of the bad inputs: denied traffic logs nothing, and its contents are in no line.
#[test]
fn row_126_and_127_requests_write_no_line_whatever_they_say() {
    let (serving, _) = serve("", &[], &[]);
    let evil = r#"{"domain": "shop", "descriptors": [{"user": "\u001b[31mevil\r\n"}], "cost": 40}"#;
    let mut denied = 0;
    for _ in 0..300 {
        denied += u32::from(serving.ask("POST /v1/check", evil).0 == 429);
        // This body cannot be parsed as a request.
        serving.ask("POST /json", "}\u{1b}[31m");
    }
    assert!(denied > 290, "{denied}");
    serving.signal("TERM");
    // After the line with the address, the log has only one more line.
    let next = serving.lines.recv_timeout(PATIENCE).expect("a line");
    assert!(next.ends_with("stopping"), "{next}");
}
