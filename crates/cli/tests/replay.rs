//! The reports of `tollgate replay`, byte by byte.

use std::io::Write;

use crate::common::{Scratch, admitted, assert_prints, line};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Two clients, out of order. Under `1/m burst 2`, 192.0.2.1 is admitted twice at 10:00:00. Then it is told to wait 60
/// s, and later 30 s, and it is admitted at 10:01:00. 2001:db8::7 is admitted once.
fn sample() -> String {
    [
        line("192.0.2.1", "10:00:30 +0000"),
        line("192.0.2.1", "10:00:00 +0000"),
        line("192.0.2.1", "10:01:00 +0000"),
        line("2001:db8::7", "10:00:00 +0000"),
        line("192.0.2.1", "10:00:00 +0000"),
        line("192.0.2.1", "10:00:00 +0000"),
    ]
    .concat()
}

const SAMPLE_JSON: &str = concat!(
    r#"{"lines":6,"bad_lines":0,"first":"2015-05-17T10:00:00Z","last":"2015-05-17T10:01:00Z","formats":["common"],"#,
    r#""policies":[{"policy":"1/m burst 2","requests":6,"admitted":4,"refused":2,"keys":2,"#,
    r#""keys_refused":1,"longest_wait_ms":60000,"peak_admitted_per_second":3,"#,
    r#""worst":[{"key":"192.0.2.1","requests":5,"refused":2}]}]}"#,
    "\n"
);

const SAMPLE_ARGS: [&str; 3] = ["--json", "--policy", "1/m burst 2"];

fn gzip(members: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for member in members {
        let mut encoder = GzEncoder::new(&mut out, Compression::default());
        encoder.write_all(member.as_bytes()).expect("memory can be written");
        encoder.finish().expect("memory can be written");
    }
    out
}

#[test]
fn an_unordered_log_is_decided_in_the_order_of_time() {
    let scratch = Scratch::new("an_unordered_log");
    let run = scratch.file("a.log", sample()).replay(&[&["a.log"], &SAMPLE_ARGS[..]].concat());
    assert_prints(&run, SAMPLE_JSON);
}

#[test]
fn a_log_is_the_same_plain_or_gzip_in_files_or_on_standard_input() {
    let scratch = Scratch::new("ways_of_a_log");
    let text = sample();
    // A member may end inside a line.
    let (head, tail) = text.split_at(text.len() / 2);
    scratch.file("members.log", gzip(&[head, tail]));
    let (newer, older) = text.split_at(text.match_indices('\n').nth(2).expect("six lines").0 + 1);
    scratch.file("newer.log", newer).file("older.gz", gzip(&[older]));
    for (files, input) in [
        (&["members.log"][..], vec![]),
        (&["newer.log", "older.gz"], vec![]),
        (&["-"], text.clone().into_bytes()),
        (&["-"], gzip(&[&text])),
    ] {
        let run = scratch.replay_from(&[files, &SAMPLE_ARGS[..]].concat(), &input);
        assert_prints(&run, SAMPLE_JSON);
    }
}

#[test]
fn the_table_lines_policies_up_and_names_the_worst_keys() {
    let scratch = Scratch::new("the_table");
    scratch.file("a.log", sample());
    let policies = ["--policy", "1/m burst 2", "--policy", "fixed-window 100/h"];
    let run = scratch.replay(&[&["a.log"], &policies[..]].concat());
    assert_prints(
        &run,
        "\
6 lines, 0 bad, 2015-05-17T10:00:00Z to 2015-05-17T10:01:00Z, read as common

policy              requests  admitted  refused  share refused  keys  keys refused  longest wait  peak admitted/s
1/m burst 2                6         4        2        33.33 %     2             1            1m                3
fixed-window 100/h         6         6        0         0.00 %     2             0            0s                4

most refused by 1/m burst 2

key        requests  refused  share refused
192.0.2.1         5        2        40.00 %

fixed-window 100/h: nothing refused
",
    );
}

#[test]
fn zones_put_requests_at_the_same_instant() {
    let scratch = Scratch::new("zones");
    let log = [
        line("192.0.2.1", "10:00:00 +0000"),
        line("192.0.2.1", "12:00:00 +0200"),
        line("192.0.2.1", "01:15:00 -0845"),
        line("192.0.2.1", "10:01:00 +0000"),
    ];
    let run = scratch.file("a.log", log.concat()).replay(&[
        "a.log",
        "--policy",
        "fixed-window 2/m",
        "--json",
    ]);
    assert_prints(
        &run,
        concat!(
            r#"{"lines":4,"bad_lines":0,"first":"2015-05-17T10:00:00Z","#,
            r#""last":"2015-05-17T10:01:00Z","formats":["common"],"policies":[{"policy":"fixed-window 2/m","#,
            r#""requests":4,"admitted":3,"refused":1,"keys":1,"keys_refused":1,"#,
            r#""longest_wait_ms":60000,"peak_admitted_per_second":2,"#,
            r#""worst":[{"key":"192.0.2.1","requests":4,"refused":1}]}]}"#,
            "\n"
        ),
    );
}

#[test]
fn windows_of_the_calendar_are_those_of_the_log() {
    let scratch = Scratch::new("calendar_months");
    // Three requests come in February in UTC, and then one in March.
    let times = ["01/Feb/2015:00:00:00", "02/Feb/2015:12:00:00", "28/Feb/2015:23:59:59"];
    let line = |time: &str| format!("192.0.2.1 - - [{time} +0000] \"GET / HTTP/1.1\" 200 512\n");
    let log: String = times.into_iter().chain(["01/Mar/2015:00:00:00"]).map(line).collect();
    scratch.file("a.log", log);
    let policies = ["--policy", "calendar-month 2", "--policy", "fixed-window 2/30d"];
    let run = scratch.replay(&[&["a.log", "--json"], &policies[..]].concat());
    assert_eq!(admitted(&run.out), [3, 4]);
    // The first days of February 2015 and of March 2015 were Sundays. So each is the first day of a week that begins on
    // Sunday, and the last day of a week that begins on Monday.
    let policies = [
        "--policy",
        "calendar-week 1",
        "--policy",
        "calendar-week 1 from sunday",
        "--policy",
        "calendar-year 3",
    ];
    let run = scratch.replay(&[&["a.log", "--json"], &policies[..]].concat());
    assert_eq!(admitted(&run.out), [3, 3, 3]);
    let times = [
        "31/Jan/2015:12:00:00",
        "01/Feb/2015:00:00:00",
        "02/Feb/2015:00:00:00",
        "08/Feb/2015:00:00:00",
    ];
    scratch.file("b.log", times.map(line).concat());
    let run = scratch.replay(&[&["b.log", "--json"], &policies[..]].concat());
    assert_eq!(admitted(&run.out), [2, 3, 3]);
}

#[test]
fn json_lines_are_read_with_named_fields_and_fractions_of_seconds() {
    let scratch = Scratch::new("json_lines");
    let log = r#"{"at":1431857103.9995,"tenant":{"id":"a"},"ip":"192.0.2.1"}
{"at":"2015-05-17T12:05:04.000+02:00","tenant":{"id":"a"}}
{"at":1431857104000,"tenant":{"id":"b"}}
"#;
    let run = scratch.file("a.jsonl", log).replay(&[
        "a.jsonl",
        "--key",
        "tenant.id",
        "--time",
        "at",
        "--policy",
        "1/s",
        "--json",
    ]);
    assert_prints(
        &run,
        concat!(
            r#"{"lines":3,"bad_lines":0,"first":"2015-05-17T10:05:03.9995Z","#,
            r#""last":"2015-05-17T10:05:04Z","formats":["json"],"policies":[{"policy":"1/s","#,
            r#""requests":3,"admitted":2,"refused":1,"keys":2,"keys_refused":1,"#,
            r#""longest_wait_ms":1000,"peak_admitted_per_second":1,"#,
            r#""worst":[{"key":"a","requests":2,"refused":1}]}]}"#,
            "\n"
        ),
    );
}

#[test]
fn each_key_tells_requesters_apart_by_its_part_of_the_line() {
    let scratch = Scratch::new("each_key");
    let combined = |client: &str, user: &str, path: &str, referer: &str, agent: &str| {
        format!(
            "{client} - {user} [17/May/2015:10:05:03 +0000] \"GET {path} HTTP/1.1\" 200 5 \
             \"{referer}\" \"{agent}\"\n"
        )
    };
    let log = [
        combined("192.0.2.1", "-", "/a?x=1", "-", "curl"),
        combined("192.0.2.1:4711", "-", "/a?x=2", "http://example.org/", "curl"),
        combined("::ffff:192.0.2.2", "u1", "/a", "-", "curl"),
        combined("192.0.2.2", "u1", "/b", "-", "wget"),
    ];
    scratch.file("a.log", log.concat());
    let worst = |key: &str| {
        let report = scratch.replay(&["a.log", "--key", key, "--policy", "1/m", "--json"]).json();
        let worst = report["policies"][0]["worst"].as_array().expect("an array").iter();
        let text = |entry: &serde_json::Value| {
            format!("{} {}/{}", entry["key"], entry["refused"], entry["requests"])
        };
        worst.map(text).collect::<Vec<_>>()
    };
    assert_eq!(worst("ip"), [r#""192.0.2.1" 1/2"#, r#""192.0.2.2" 1/2"#]);
    assert_eq!(worst("user"), [r#""-" 1/2"#, r#""u1" 1/2"#]);
    assert_eq!(worst("path"), [r#""/a" 2/3"#]);
    assert_eq!(worst("referer"), [r#""-" 2/3"#]);
    assert_eq!(worst("user-agent"), [r#""curl" 2/3"#]);
}

#[test]
fn ten_worst_keys_are_named_by_refusals_then_requests_then_text() {
    let scratch = Scratch::new("ten_worst");
    // The limit is two per minute. In minute m, key k makes `in_minute` requests.
    let minute = |k: u32, m: u32, in_minute: usize| {
        line(&format!("192.0.2.{k}"), &format!("10:{m:02}:00 +0000")).repeat(in_minute)
    };
    let mut log: String = (10..22).map(|k| minute(k, 0, 3)).collect(); // one refused each
    log += &minute(21, 1, 1); // more requests, as many refused
    log += &minute(30, 0, 9); // seven refused
    log += &minute(31, 0, 2); // none refused
    scratch.file("a.log", log);
    let report = scratch.replay(&["a.log", "--policy", "fixed-window 2/m", "--json"]).json();
    let worst = report["policies"][0]["worst"].as_array().expect("an array");
    let keys: Vec<_> = worst.iter().map(|worst| worst["key"].as_str().expect("text")).collect();
    let expected = [30, 21, 10, 11, 12, 13, 14, 15, 16, 17].map(|k| format!("192.0.2.{k}"));
    assert_eq!(keys, expected);
    assert_eq!(report["policies"][0]["keys"], 14);
    assert_eq!(report["policies"][0]["keys_refused"], 13);
}

#[test]
fn waits_are_rounded_up_to_milliseconds() {
    let scratch = Scratch::new("waits");
    // 7/s burst 1: the second request waits 1/7 s = 142.857... ms.
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000").repeat(2));
    let run = scratch.replay(&["a.log", "--policy", "7/s burst 1", "--json"]);
    assert!(run.out.contains(r#""longest_wait_ms":143,"#), "{run:?}");
}

#[test]
fn a_log_of_many_blocks_is_counted_exactly() {
    let scratch = Scratch::new("many_blocks");
    // 60,000 lines, 4.3 MB, in descending order of time: 100 clients with 10 requests per minute.
    let mut log = String::new();
    for second in (0..3_600).rev().step_by(6) {
        for client in 0..100 {
            let time = format!("10:{:02}:{:02} +0000", second / 60, second % 60);
            log += &line(&format!("198.51.100.{client}"), &time);
        }
    }
    scratch.file("a.log", &log);
    let policies = ["--policy", "fixed-window 9/m", "--policy", "10/m burst 1"];
    let run = scratch.replay(&[&["a.log", "--json"], &policies[..]].concat());
    assert!(run.out.contains(r#""lines":60000,"bad_lines":0,"#), "{run:?}");
    assert_eq!(admitted(&run.out), [54_000, 60_000]);
    assert!(run.out.contains(r#""peak_admitted_per_second":100,"#), "{run:?}");
}

/// 300 clients of one /64 and one of another, one request each, at one moment.
fn of_one_network() -> String {
    let hosts = (0..300).map(|host| line(&format!("2001:db8:1:2::{host:x}"), "10:00:00 +0000"));
    hosts.chain([line("2001:db8:1:3::1", "10:00:00 +0000")]).collect()
}

#[test]
fn three_hundred_addresses_of_one_64_are_one_key() {
    let scratch = Scratch::new("one_64_is_one_key");
    scratch.file("a.log", of_one_network());
    let figures = |more: &[&str]| {
        let run = scratch.replay(&[&["a.log", "--json", "--policy", "100/h"], more].concat());
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
        let of = &run.json()["policies"][0];
        let figure = |name: &str| of[name].as_u64();
        (figure("keys"), figure("admitted"), of["worst"][0]["key"].as_str().map(str::to_owned))
    };
    let worst = Some("2001:db8:1:2::/64".to_owned());
    assert_eq!(figures(&[]), (Some(2), Some(101), worst.clone()));
    assert_eq!(figures(&["--stream"]), (Some(2), Some(101), worst));
    assert_eq!(figures(&["--prefix-v6", "128"]), (Some(301), Some(301), None));
    assert_eq!(figures(&["--prefix-v6", "48"]).0, Some(1));
}

#[test]
fn rules_count_the_addresses_of_one_64_as_one_client_and_compat_each() {
    let scratch = Scratch::new("one_64_is_one_client");
    scratch.file("a.log", of_one_network());
    let rules = "domain: d\ndescriptors:\n  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 100}}\n";
    scratch.file("rules/d.yaml", rules);
    let admitted = |more: &[&str]| {
        let args = ["a.log", "--json", "--rules", "rules", "--descriptor", "remote_address={ip}"];
        scratch.replay(&[&args, more].concat()).json()["rules"][0]["admitted"].as_u64()
    };
    assert_eq!(admitted(&[]), Some(101));
    assert_eq!(admitted(&["--compat"]), Some(301));
}

/// Two clients send sixty requests each in one second. For each client one leaves at once, fifty wait, and nine find no
/// place.
#[test]
fn a_queue_is_told_as_delays() {
    let scratch = Scratch::new("replay_queue_delays");
    let line = |client| format!("{{\"time\":1700000000,\"client\":\"{client}\"}}\n");
    scratch.file("a.log", [line("a").repeat(60), line("b").repeat(60)].concat());
    let fields = ["a.log", "--time", "time", "--key", "client"];
    let policies = ["--policy", "5/s burst 1 queue 50", "--policy", "5/s burst 1"];
    for more in [&[][..], &["--stream"]] {
        let report = scratch.replay(&[&fields, &policies[..], more, &["--json"]].concat()).json();
        let [queued, plain] = [&report["policies"][0], &report["policies"][1]];
        assert_eq!(
            (queued["admitted"].as_u64(), queued["refused"].as_u64()),
            (Some(102), Some(18))
        );
        let delays = serde_json::json!({"delayed": 100, "p50_ms": 5_000, "p99_ms": 10_000, "max_ms": 10_000});
        assert_eq!(queued["delays"], delays);
        assert_eq!(plain["admitted"].as_u64(), Some(2));
        assert_eq!(plain.get("delays"), None);
    }
    let text = scratch.replay(&[&fields, &policies[..]].concat());
    let told =
        "5/s burst 1 queue 50: 100 of 102 admitted waited for their turn: p50 5s, p99 10s, max 10s";
    assert!(text.out.lines().any(|line| line == told), "{}", text.out);
}
