//! `tollgate replay --rules`: the answers of rules to a log, and how two sets of them differ.

use crate::common::{Run, Scratch, assert_prints};

/// Two clients. Under OLD the third line is one too many for 192.0.2.1 and the fifth one too many for `/search`; the
/// last line is in the next minute.
fn log() -> String {
    let line = |second, client, path| {
        let (minute, second) = (second / 60, second % 60);
        format!(
            "{client} - - [17/May/2015:10:{minute:02}:{second:02} +0000] \"GET {path}?q=1 HTTP/1.1\" 200 5\n"
        )
    };
    let (one, two) = ("192.0.2.1", "198.51.100.2");
    [
        line(0, one, "/search"),
        line(1, one, "/search"),
        line(2, one, "/"),
        line(3, two, "/search"),
        line(4, two, "/search"),
        line(5, two, "/"),
        line(60, one, "/"),
    ]
    .concat()
}

const OLD: &str = "\
domain: shop
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: path
    value: /search
    rate_limit: {unit: minute, requests_per_unit: 3, name: searches}
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1}
";

/// Under NEW the second, fourth and fifth line are one too many for `/search`, and the third is not.
const NEW: &str = "\
domain: shop
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: path
    value: /search
    rate_limit: {unit: minute, requests_per_unit: 1, name: searches}
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1}
";

const DESCRIPTORS: [&str; 4] =
    ["--descriptor", "remote_address={ip}", "--descriptor", "path={path}"];

fn scratch(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    scratch.file("a.log", log()).file("old.yaml", OLD).file("new.yaml", NEW);
    scratch
}

fn replay(scratch: &Scratch, args: &[&str]) -> Run {
    scratch.replay(&[&["a.log"], &DESCRIPTORS[..], args].concat())
}

#[test]
fn rules_are_reported_one_by_one_and_all_together() {
    let run = replay(&scratch("rules_one_by_one"), &["--rules", "old.yaml"]);
    assert_prints(
        &run,
        "\
7 lines, 0 bad, 2015-05-17T10:00:00Z to 2015-05-17T10:01:00Z, read as common
domain shop: 0 requests that no rule speaks of, 0 lines without a descriptor

rule                                                requests  admitted  refused  share refused  keys  keys refused  longest wait  peak admitted/s
all rules                                                  7         5        2        28.57 %     4             2           58s                1
shop.remote_address: fixed-window 2/m                      7         6        1        14.29 %     2             1           58s                1
shop.path_/search: fixed-window 3/m named searches         4         3        1        25.00 %     1             1           56s                1
shop.user: fixed-window 1/d                                0         0        0         0.00 %     0             0            0s                0

most refused by all rules

key                                        requests  refused  share refused
remote_address=192.0.2.1; path=/                  2        1        50.00 %
remote_address=198.51.100.2; path=/search         2        1        50.00 %

most refused by shop.remote_address: fixed-window 2/m

key                       requests  refused  share refused
remote_address=192.0.2.1         4        1        25.00 %

most refused by shop.path_/search: fixed-window 3/m named searches

key           requests  refused  share refused
path=/search         4        1        25.00 %

shop.user: fixed-window 1/d: nothing refused
",
    );
}

#[test]
fn the_report_in_json_is_that_of_policies_with_rules_in_their_place() {
    let args = ["--rules", "old.yaml", "--json", "--descriptor", "user={user}"];
    let run = scratch("rules_in_json").replay(&[&["a.log"][..], &args].concat());
    // No line has a user, so no line gives a descriptor.
    let none = concat!(
        r#"{"lines":7,"bad_lines":0,"first":"2015-05-17T10:00:00Z","last":"2015-05-17T10:01:00Z","formats":["common"],"#,
        r#""domain":"shop","unasked":7,"unmatched":0,"crowded_out":0,"#,
        r#""rules":[{"rule":"all rules","requests":0,"admitted":0,"refused":0,"keys":0,"#,
        r#""keys_refused":0,"longest_wait_ms":0,"peak_admitted_per_second":0,"worst":[]},"#,
    );
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert!(run.out.starts_with(none), "{}", run.out);
}

#[test]
fn a_request_that_no_rule_speaks_of_is_admitted_and_counted() {
    let args = ["--rules", "old.yaml", "--json", "--descriptor", "path={path}, method={method}"];
    let run = scratch("rules_unmatched").replay(&[&["a.log"][..], &args].concat());
    assert!(run.out.contains(r#""unasked":0,"unmatched":7,"#), "{}", run.out);
    assert!(run.out.contains(r#"{"rule":"all rules","requests":7,"admitted":7,"#), "{}", run.out);
}

#[test]
fn the_difference_of_two_sets_is_told_by_rule_key_and_request() {
    let run = replay(&scratch("rules_diff"), &["--rules", "old.yaml", "--diff", "new.yaml"]);
    let expected = "\
7 lines, 0 bad, 2015-05-17T10:00:00Z to 2015-05-17T10:01:00Z, read as common
domain shop

     requests  admitted  refused  share refused
old         7         5        2        28.57 %
new         7         4        3        42.86 %

rules that differ

remote_address: fixed-window 2/m -> fixed-window 3/m
  refuses 1 -> 0: 0 newly refused, 1 newly admitted
path_/search: fixed-window 3/m named searches -> fixed-window 1/m named searches
  refuses 1 -> 3: 2 newly refused, 0 newly admitted

newly refused: 2 requests, of keys: 1
newly admitted: 1 requests, of keys: 1

most changed keys

key                       newly refused  newly admitted
path=/search                          2               0
remote_address=192.0.2.1              0               1

first changed requests

2015-05-17T10:00:01Z  newly refused   remote_address=192.0.2.1; path=/search
2015-05-17T10:00:02Z  newly admitted  remote_address=192.0.2.1; path=/
2015-05-17T10:00:03Z  newly refused   remote_address=198.51.100.2; path=/search
";
    assert_eq!((run.out.as_str(), run.err.as_str(), run.code), (expected, "", Some(1)));
}

#[test]
fn rules_that_answer_alike_end_with_zero_and_what_is_added_is_named() {
    let scratch = scratch("rules_alike");
    scratch.file("more.yaml", format!("{OLD}  - key: page\n    rate_limit: {{unlimited: true}}\n"));
    let same = replay(&scratch, &["--rules", "old.yaml", "--diff", "old.yaml"]);
    assert_eq!(same.code, Some(0));
    assert!(
        same.out.ends_with("\nthe rules say the same\n\nno request is answered otherwise\n"),
        "{}",
        same.out
    );
    let more = replay(&scratch, &["--rules", "old.yaml", "--diff", "more.yaml"]);
    assert_eq!(more.code, Some(0));
    assert!(more.out.contains("\npage: not there -> unlimited\n"), "{}", more.out);
    let json = replay(&scratch, &["--rules", "more.yaml", "--diff", "old.yaml", "--json"]);
    let change = concat!(
        r#""newly_refused":{"requests":0,"keys":0},"newly_admitted":{"requests":0,"keys":0},"#,
        r#""rules":[{"rule":"page","old":"unlimited","new":null,"refused_by_old":0,"#,
        r#""refused_by_new":0,"newly_refused":0,"newly_admitted":0}],"keys":[],"requests":[]}"#,
    );
    assert!(json.out.trim_end().ends_with(change), "{}", json.out);
}

#[test]
fn within_one_second_the_order_of_the_lines_counts() {
    let scratch = Scratch::new("rules_order");
    let rules = "domain: d\ndescriptors:\n  - key: all\n    \
                 rate_limit: {unit: day, requests_per_unit: 1}\n";
    scratch.file("rules.yaml", rules);
    let (a, b) = ("192.0.2.1", "192.0.2.2");
    scratch.file(
        "forward.log",
        [a, b].map(|client| crate::common::line(client, "10:00:00 +0000")).concat(),
    );
    scratch.file(
        "reversed.log",
        [b, a].map(|client| crate::common::line(client, "10:00:00 +0000")).concat(),
    );
    let args = ["--rules", "rules.yaml", "--json", "--descriptor", "all=one"];
    // There are two descriptors, so that answers are reported by client. No rule matches the second.
    let refused = |logs: &[&str]| {
        let run = scratch.replay(&[logs, &args, &["--descriptor", "ip={ip}"]].concat());
        let worst = run.out.split("\"worst\":[").nth(1).expect("a row").to_owned();
        let key = worst.split("ip=").nth(1).expect("a key");
        key.split('"').next().map(str::to_owned)
    };
    assert_eq!(refused(&["forward.log"]).as_deref(), Some(b));
    assert_eq!(refused(&["reversed.log"]).as_deref(), Some(a));
    // The first line of the first file is admitted: b is refused once, a twice.
    assert_eq!(refused(&["reversed.log", "forward.log"]).as_deref(), Some(a));
}

#[test]
fn the_page_and_the_picture_are_of_rules_too() {
    let scratch = scratch("rules_page");
    let run = replay(&scratch, &["--rules", "old.yaml", "--html", "a.html", "--svg", "a.svg"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let page = scratch.read("a.html");
    assert!(page.contains("<th>rule</th>") && page.contains("domain shop: 0 requests"), "{page}");
    assert!(page.contains("<h2>shop.path_/search: fixed-window 3/m named searches</h2>"));
    roxmltree::Document::parse(&scratch.read("a.svg")).expect("a picture");
}

#[test]
fn what_is_asked_wrongly_is_refused_with_what_would_be_right() {
    let scratch = scratch("rules_refused");
    scratch.file("bad.yaml", "domain: [");
    let starts = |args: &[&str], expected: &str| {
        let run = replay(&scratch, args);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(run.err.starts_with(expected), "{args:?}: {}", run.err);
    };
    starts(
        &["--rules", "old.yaml", "--domain", "shops"],
        "tollgate: --domain shops: no such domain; the rules have shop\n",
    );
    starts(&["--rules", "bad.yaml"], "tollgate: bad.yaml:2:1: error loading config file: ");
    starts(&["--rules", "missing"], "tollgate: missing: cannot be read: ");
    starts(&["--rules", "old.yaml", "--diff", "bad.yaml"], "tollgate: bad.yaml:2:1: ");
    starts(
        &["--rules", "old.yaml", "--descriptor", "remote_address=ip"],
        "error: invalid value 'remote_address=ip' for '--descriptor <ENTRIES>': entry 1: ip is not what a line has \
         there; write remote_address={ip} for the ip of each line, or remote_address=\"ip\", in double quotes",
    );
    starts(&["--rules", "old.yaml", "--policy", "1/m"], "error: the argument '--");
    starts(&["--policy", "1/m", "--diff", "new.yaml"], "error: the argument '--");
    starts(&["--suggest", "99%"], "error: the argument '--");
    let run = scratch.replay(&["a.log", "--rules", "old.yaml"]);
    assert!(run.err.contains("--descriptor <ENTRIES>"), "{}", run.err);
}

#[test]
fn a_descriptor_that_makes_all_clients_one_is_named() {
    let scratch = scratch("constant_descriptors");
    let note = "note: --descriptor number 3 has no field in braces, as in {ip}: it is the same for all lines, so that all \
                clients share its limit\n";
    let asked = ["--rules", "old.yaml"];
    for more in [&[][..], &["--stream"], &["--diff", "old.yaml"]] {
        let run = replay(&scratch, &[&asked[..], &["--descriptor", "user=alice"], more].concat());
        assert_eq!((run.code, run.err.as_str()), (Some(0), note), "{more:?}");
    }
    // One entry may be the same for all lines if another entry is not.
    let run = replay(&scratch, &[&asked[..], &["--descriptor", "plan=\"user\", ip={ip}"]].concat());
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
}

#[test]
fn without_late_lines_a_stream_reports_what_the_log_does() {
    let scratch = scratch("rules_stream");
    // Within a second the order of the lines decides, in whatever way they are read.
    scratch.file("a.log", log() + &log().replace("10:01:00", "10:00:59"));
    for rules in [&["--rules", "old.yaml"][..], &["--rules", "old.yaml", "--diff", "new.yaml"]] {
        let whole = replay(&scratch, &[rules, &["--json"]].concat());
        let stream = replay(&scratch, &[rules, &["--json", "--stream"]].concat());
        assert_eq!((stream.code, stream.err.as_str()), (whole.code, ""));
        assert_eq!(stream.out, whole.out.replace("\"first\"", "\"late_lines\":0,\"first\""));
        assert!(whole.out.contains("\"lines\":14,"), "{}", whole.out);
        let text = replay(&scratch, &[rules, &["--stream"]].concat());
        assert!(
            text.out.starts_with("14 lines, 0 bad, 0 late, 2015-05-17T10:00:00Z to "),
            "{text:?}"
        );
    }
}

#[test]
fn a_late_line_is_decided_by_rules_when_it_is_seen_and_counted() {
    let scratch = scratch("rules_late");
    let client = "192.0.2.1";
    // The line of 10:01:30 makes the stream decide up to 10:01:20. So the line of 10:00:00 is late and is decided at
    // 10:01:20, in a minute that has one request already. After it there is no room for a third request.
    let times = ["10:01:10", "10:01:30", "10:00:00", "10:01:40"];
    let lines = times.map(|time| crate::common::line(client, &format!("{time} +0000")));
    scratch.file("a.log", lines.concat());
    let run = replay(&scratch, &["--rules", "old.yaml", "--json", "--stream", "--reorder", "10s"]);
    assert!(run.out.starts_with(r#"{"lines":4,"bad_lines":0,"late_lines":1,"#), "{run:?}");
    let rule =
        r#"{"rule":"shop.remote_address: fixed-window 2/m","requests":4,"admitted":2,"refused":2,"#;
    assert!(run.out.contains(rule), "{}", run.out);
}

#[test]
fn two_domains_have_to_be_told_apart() {
    let scratch = scratch("rules_two_domains");
    scratch.file("both/a.yaml", OLD).file("both/b.yaml", NEW.replace("shop", "other"));
    let run = replay(&scratch, &["--rules", "both"]);
    let expected = "tollgate: --domain is needed; the rules have other, shop\n";
    assert_eq!((run.code, run.err.as_str()), (Some(2), expected));
    let run = replay(&scratch, &["--rules", "both", "--domain", "other", "--json"]);
    assert!(run.out.contains(r#""rules":[{"rule":"all rules","requests":7,"admitted":4,"#));
    assert!(!run.out.contains("shop."), "{}", run.out);
}
