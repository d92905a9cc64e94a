//! The log formats that `tollgate replay` reads, each by a sample of it in `tests/logs`.
//!
//! Every sample has the same eight requests in the words of its server, and a line that was cut off. There are four
//! clients. One of them has two addresses in one /64, and each client's port changes.

use std::fs;
use std::path::Path;

use crate::common::{Run, Scratch, line};
use serde_json::Value;

/// A sample, the format that it is found to have, and the times of its first and last request.
type Sample = (&'static str, &'static str, &'static str, &'static str);

const SAMPLES: [Sample; 23] = [
    ("alb.log", "alb", "10:00:01.180641Z", "10:01:05.187641Z"),
    ("apache-common.log", "common", "10:00:01Z", "10:01:05Z"),
    ("apache-vhost.log", "vhost", "10:00:01Z", "10:01:05Z"),
    ("apache.log", "combined", "10:00:01Z", "10:01:05Z"),
    ("app.logfmt", "logfmt", "10:00:01Z", "10:01:05Z"),
    ("app.jsonl", "json", "10:00:01Z", "10:01:05Z"),
    ("caddy.jsonl", "caddy", "10:00:01.025Z", "10:01:05.725Z"),
    ("cloudfront.log", "w3c", "10:00:01Z", "10:01:05Z"),
    ("elb.log", "elb", "10:00:01.94395Z", "10:01:05.943957Z"),
    ("envoy.jsonl", "envoy-json", "10:00:01Z", "10:01:05.007Z"),
    ("envoy.log", "envoy", "10:00:01Z", "10:01:05.007Z"),
    ("gcp.jsonl", "gcp", "10:00:01.12345Z", "10:01:05.123457Z"),
    ("haproxy.log", "haproxy", "10:00:01.65Z", "10:01:05.657Z"),
    ("iis.log", "w3c", "10:00:01Z", "10:01:05Z"),
    ("ingress-nginx.log", "ingress-nginx", "10:00:01Z", "10:01:05Z"),
    ("istio.log", "istio", "10:00:01Z", "10:01:05.007Z"),
    ("nginx.jsonl", "json", "10:00:01Z", "10:01:05.007Z"),
    ("nginx-proxy-manager.log", "nginx-proxy-manager", "10:00:01Z", "10:01:05Z"),
    ("nginx.log", "combined", "10:00:01Z", "10:01:05Z"),
    ("s3.log", "s3", "10:00:01Z", "10:01:05Z"),
    ("squid.log", "squid", "10:00:01Z", "10:01:05Z"),
    ("traefik.jsonl", "traefik", "10:00:01.1Z", "10:01:05.107Z"),
    ("traefik.log", "traefik", "10:00:01Z", "10:01:05Z"),
];

/// The formats that have no name, as the server's configuration writes them.
const CUSTOM: [(&str, &str); 2] = [
    (
        "apache-custom.log",
        r#"%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\" %D %{ms}T"#,
    ),
    (
        "nginx-custom.log",
        "$time_iso8601 $host $remote_addr $request_method $request_uri $status $request_time",
    ),
];

fn sample(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name);
    fs::read(path).expect("a sample")
}

/// Replays a sample as JSON, and as the first policy reports it.
fn replay(scratch: &Scratch, name: &str, args: &[&str]) -> (Run, Value) {
    scratch.file(name, sample(name));
    let policy = ["--json", "--policy", "fixed-window 2/m"];
    let run = scratch.replay(&[&[name], args, &policy[..]].concat());
    assert_eq!(run.code, Some(0), "{name}: {}", run.err);
    let report = run.json();
    (run, report)
}

/// Returns the counts of a report that are compared.
fn counts(report: &Value) -> [u64; 6] {
    let policy = &report["policies"][0];
    let number = |value: &Value| value.as_u64().expect("a number");
    [
        number(&report["lines"]),
        number(&report["bad_lines"]),
        number(&policy["keys"]),
        number(&policy["admitted"]),
        number(&policy["refused"]),
        number(&policy["keys_refused"]),
    ]
}

#[track_caller]
fn assert_read(scratch: &Scratch, name: &str, args: &[&str], format: &str, span: [&str; 2]) {
    let (run, report) = replay(scratch, name, args);
    assert_eq!(report["formats"], serde_json::json!([format]), "{name}");
    for (at, expected) in ["first", "last"].into_iter().zip(span) {
        assert_eq!(report[at], format!("2024-03-05T{expected}"), "{name}");
    }
    // 192.0.2.10 and the network send three requests within a minute, the others one.
    assert_eq!(counts(&report), [9, 1, 4, 6, 2, 2], "{name}");
    let worst = report["policies"][0]["worst"].as_array().expect("a list");
    let worst: Vec<_> = worst.iter().filter_map(|key| key["key"].as_str()).collect();
    assert_eq!(worst, ["192.0.2.10", "2001:db8:1:2::/64"], "{name}");
    let bad = run.err.lines().next().expect("the bad line is named");
    let number = bad.split(':').nth(1).and_then(|number| number.parse::<u64>().ok());
    let heads = [("cloudfront.log", 2), ("iis.log", 4)];
    let head = heads.iter().find(|(of, _)| *of == name).map_or(0, |(_, lines)| *lines);
    assert_eq!(number, Some(5 + head), "{bad}");
}

#[test]
fn every_sample_is_read_as_what_it_is_with_its_name_or_without() {
    let scratch = Scratch::new("every_sample_is_read_as_what_it_is");
    for (name, format, first, last) in SAMPLES {
        assert_read(&scratch, name, &[], format, [first, last]);
        assert_read(&scratch, name, &["--format", format], format, [first, last]);
    }
    for (name, alias, format) in [
        ("nginx.log", "nginx", "combined"),
        ("apache.log", "apache", "combined"),
        ("iis.log", "iis", "w3c"),
        ("cloudfront.log", "cloudfront", "w3c"),
    ] {
        assert_read(&scratch, name, &["--format", alias], format, ["10:00:01Z", "10:01:05Z"]);
    }
    // Formats of a configuration have no names.
    for (name, format) in CUSTOM {
        assert_read(&scratch, name, &["--format", format], "custom", ["10:00:01Z", "10:01:05Z"]);
    }
    // Lines of TCP have clients and no requests.
    for format in ["auto", "haproxy", "tcplog"] {
        let span = ["10:00:01Z", "10:01:05Z"];
        assert_read(&scratch, "haproxy-tcp.log", &["--format", format], "haproxy", span);
    }
}

#[test]
fn method_status_and_path_are_found_in_every_format() {
    let scratch = Scratch::new("method_status_and_path_are_found_in_every_format");
    for (name, format) in SAMPLES.map(|(name, ..)| (name, "auto")).into_iter().chain(CUSTOM) {
        let format = ["--format", format];
        let (_, report) = replay(&scratch, name, &[&format[..], &["--key", "ip, method"]].concat());
        // 192.0.2.10 sends requests with GET and with POST, so only the network sends three with one method.
        assert_eq!(counts(&report), [9, 1, 5, 7, 1, 1], "{name}");
        let worst = &report["policies"][0]["worst"][0]["key"];
        assert_eq!(worst, "2001:db8:1:2::/64, GET", "{name}");
        let conditions = ["--where", "status=200", "--where", "path~^/index", "--key", "path"];
        let (_, report) = replay(&scratch, name, &[&format[..], &conditions].concat());
        assert_eq!(counts(&report)[2..], [1, 2, 0, 0], "{name}");
        assert_eq!(report["left_out_lines"], 6, "{name}");
    }
}

#[test]
fn columns_in_quotes_are_one_column() {
    let scratch = Scratch::new("columns_in_quotes_are_one_column");
    let columns = "#Fields: date time cs(User-Agent) cs(Referer) c-ip cs-method";
    let row = r#"2024-03-05 10:00:01 "a ""b"" c" "-" 192.0.2.10 GET"#;
    scratch.file("iis.log", format!("{columns}\n{row}\n{row}\n"));
    for (key, expected) in
        [("ip", "192.0.2.10"), ("user-agent", "a \"\"b\"\" c"), ("method", "GET")]
    {
        let args = ["iis.log", "--json", "--policy", "1/h", "--key", key];
        let report = scratch.replay(&args).json();
        assert_eq!(report["policies"][0]["worst"][0]["key"], expected, "{key}");
    }
}

/// Returns the lines of standard error that begin with `note: `, without this word.
fn notes(run: &Run) -> Vec<&str> {
    run.err.lines().filter_map(|line| line.strip_prefix("note: ")).collect()
}

#[test]
fn what_was_taken_for_the_client_is_told_where_it_may_be_a_proxy() {
    let scratch = Scratch::new("what_was_taken_for_the_client");
    let policy = ["--policy", "1/h"];
    let proxied =
        line("10.0.0.50", "10:00:00 +0000").repeat(19) + &line("192.0.2.1", "10:00:00 +0000");
    scratch.file("a.log", &proxied).file("b.log", line("192.0.2.1", "10:00:00 +0000").repeat(20));
    let told = "95 % of the lines of a.log have the client 10.0.0.50, an address of a private network; if that is a \
                proxy, its own log or --trusted-proxies tells clients apart, and --key another field";
    assert_eq!(notes(&scratch.replay(&[&["a.log"], &policy[..]].concat())), [told]);
    assert_eq!(notes(&scratch.replay(&[&["a.log", "--stream"], &policy[..]].concat())), [told]);
    assert_eq!(
        notes(&scratch.replay(&[&["a.log", "--key", "ip,method"], &policy[..]].concat())),
        [told]
    );
    assert_eq!(notes(&scratch.replay(&[&["b.log"], &policy[..]].concat())), [""; 0]);
    scratch.file("c.jsonl", "{\"ts\":1431856800,\"xff\":\"192.0.2.1, 10.0.0.50\"}\n".repeat(2));
    let run = scratch.replay(&[&["c.jsonl", "--key", "xff"], &policy[..]].concat());
    let told = "keys of c.jsonl are chains of addresses, such as \"192.0.2.1, 10.0.0.50\", and each different chain is a \
                key of its own; --trusted-proxies finds the client in an X-Forwarded-For";
    assert_eq!(notes(&run), [told]);
}

#[test]
fn local_times_without_a_zone_are_told() {
    let scratch = Scratch::new("local_times_without_a_zone_are_told");
    let (run, _) = replay(&scratch, "haproxy.log", &[]);
    let told = "note: the times of haproxy.log are local and do not tell their zone; they are read as UTC\n";
    assert!(run.err.ends_with(told), "{}", run.err);
}

#[test]
fn the_report_names_the_format_of_each_file_and_what_was_left_out() {
    let scratch = Scratch::new("formats_of_files");
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000").repeat(2));
    scratch.file("b.jsonl", "{\"time\":1431856860,\"ip\":\"192.0.2.1\",\"method\":\"PUT\"}\n");
    let files = ["a.log", "b.jsonl", "--policy", "9/m"];
    let run = scratch.replay(&files);
    let expected =
        "3 lines, 0 bad, 2015-05-17T10:00:00Z to 2015-05-17T10:01:00Z, read as common, json\n";
    assert!(run.out.starts_with(expected), "{run:?}");
    let run = scratch.replay(&[&files[..], &["--where", "method!=GET", "--stream"]].concat());
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(
        run.err,
        "tollgate: nothing to replay in a.log: --where leaves out all of its 2 lines\n"
    );
    let run = scratch.replay(&[&files[1..], &["--where", "method!=GET", "--stream"]].concat());
    let expected = "1 lines, 0 bad, 0 left out, 0 late, 2015-05-17T10:01:00Z to";
    assert!(run.out.starts_with(expected), "{run:?}");
}

#[test]
fn rules_take_the_fields_of_any_format() {
    let scratch = Scratch::new("formats_rules");
    scratch.file("a.log", sample("haproxy.log"));
    let rules = "domain: shop\ndescriptors:\n  - key: address\n    rate_limit: {unit: minute, requests_per_unit: 2}\n";
    scratch.file("rules/shop.yaml", rules);
    let args = ["a.log", "--json", "--rules", "rules", "--descriptor", "address={ip}"];
    for more in [&[][..], &["--stream"]] {
        let run = scratch.replay(&[&args[..], &["--where", "status!=404"], more].concat());
        let report = run.json();
        assert_eq!(report["left_out_lines"], 1, "{run:?}");
        assert_eq!(report["formats"], serde_json::json!(["haproxy"]), "{run:?}");
    }
}
