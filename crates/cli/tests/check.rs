//! `tollgate check` over good and bad rules.

use crate::common::{Scratch, assert_prints};

const GOOD: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 60}
    descriptors:
      - key: path
        value: /login*
        share_threshold: true
        limits:
          - {unit: second, requests_per_unit: 1, name: fast}
          - {window: 10m, requests_per_unit: 20, algorithm: gcra, burst: 5}
  - key: health
    rate_limit: {unlimited: true}
  - key: closed
    value: page
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 0}
";

#[test]
fn good_rules_are_printed_as_they_are_enforced() {
    let scratch = Scratch::new("good_rules_are_printed_as_they_are_enforced");
    scratch.file("shop.yaml", GOOD).file("notes.txt", "no rules").file(".hidden.yaml", "}{");
    let expected = "\
shop.user: fixed-window 60/m, for 65536 clients
shop.user.path_/login*: fixed-window 1/s named fast and gcra 20/10m burst 5, for 65536 clients
shop.health: unlimited
shop.closed_page: nothing passes, shadow, one for all
1 file, 1 domain, 4 rules; tables of 2894424 bytes
";
    assert_prints(&scratch.run(&["check", "."]), expected);
    assert_prints(&scratch.run(&["check", "shop.yaml"]), expected);
}

#[test]
fn the_same_is_told_in_json() {
    let scratch = Scratch::new("check_in_json");
    scratch.file("shop.yaml", GOOD);
    let limit = |name: &str, policy: &str| format!("{{\"name\":{name},\"policy\":{policy}}}");
    let rule = |path: &str, text: &str, limits: &[String], rest: &str| {
        let limits = limits.join(",");
        let text = format!("\"text\":\"shop.{path}: {text}\",\"limits\":[{limits}]");
        format!("{{\"domain\":\"shop\",\"path\":\"{path}\",{text},{rest}}}")
    };
    let of = |clients| format!("\"unlimited\":false,\"shadow\":false,\"clients\":{clients}");
    let rules = [
        rule("user", "fixed-window 60/m", &[limit("null", "\"fixed-window 60/m\"")], &of(65_536)),
        rule(
            "user.path_/login*",
            "fixed-window 1/s named fast and gcra 20/10m burst 5",
            &[limit("\"fast\"", "\"fixed-window 1/s\""), limit("null", "\"gcra 20/10m burst 5\"")],
            &of(65_536),
        ),
        rule("health", "unlimited", &[], "\"unlimited\":true,\"shadow\":false,\"clients\":null"),
        rule(
            "closed_page",
            "nothing passes, shadow",
            &[limit("null", "null")],
            "\"unlimited\":false,\"shadow\":true,\"clients\":1",
        ),
    ];
    let expected = format!(
        "{{\"files\":1,\"domains\":[\"shop\"],\"rules\":[{}],\"forwards\":[],\"table_bytes\":2894424}}\n",
        rules.join(",")
    );
    assert_prints(&scratch.run(&["check", "shop.yaml", "--json"]), &expected);
}

#[test]
fn a_rate_that_is_counted_lower_is_told_with_both_numbers() {
    let scratch = Scratch::new("a_rate_that_is_counted_lower");
    let limit = "rate_limit: {unit: second, requests_per_unit: 4294967295}";
    scratch.file("a.yaml", format!("domain: d\ndescriptors:\n  - key: k\n    {limit}\n"));
    for flags in [&[][..], &["--compat"]] {
        let run = scratch.run(&[&["check", "a.yaml"], flags].concat());
        let expected = "tollgate: a.yaml:4:17: 4294967295 in 1s is too many to be counted exactly: 2248262313 in 1s are \
                        counted, the most that can be\n";
        assert_eq!((run.code, run.err.as_str()), (Some(0), expected));
    }
}

#[test]
fn each_bad_file_is_named_with_its_place() {
    let scratch = Scratch::new("each_bad_file_is_named_with_its_place");
    let bad = GOOD.replace("second", "fortnight");
    scratch.file("a.yaml", bad).file("b.yaml", "domain: [").file("c.yaml", "domain: other");
    let run = scratch.run(&["check", "."]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("tollgate: ./a.yaml:10:20: invalid rate limit unit 'fortnight'; use"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with("tollgate: ./b.yaml:2:1: error loading config file: "),
        "{}",
        lines[1]
    );
}

#[test]
fn an_entry_that_can_never_match_is_refused_with_what_hides_it() {
    let scratch = Scratch::new("an_entry_that_can_never_match");
    let hidden =
        GOOD.replace("  - key: closed\n    value: page\n", "  - key: 'h*'\n  - key: 'heal*'\n");
    scratch.file("shop.yaml", hidden);
    let run = scratch.run(&["check", "shop.yaml"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    let lines: Vec<&str> = run.err.lines().collect();
    let told = "is tried before it and matches all that it would; write it before that one, make it an exact value, or \
                leave one out";
    assert_eq!(
        lines,
        [
            format!(
                "tollgate: shop.yaml:12:5: 'health' never matches, because 'h*' at 14:5 {told}"
            ),
            format!("tollgate: shop.yaml:15:5: 'heal*' never matches, because 'h*' at 14:5 {told}"),
        ]
    );
}

#[test]
fn a_path_without_rules_is_no_success() {
    let scratch = Scratch::new("a_path_without_rules_is_no_success");
    scratch.file("notes.txt", "no rules");
    let run = scratch.run(&["check", "."]);
    let expected = "tollgate: no rules in .: there is no file whose name ends in .yaml or .yml\n";
    assert_eq!((run.code, run.err.as_str()), (Some(2), expected));
    let run = scratch.run(&["check", "missing"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.starts_with("tollgate: missing: cannot be read: "), "{}", run.err);
}

#[test]
fn the_schema_is_printed_as_the_library_has_it() {
    let scratch = Scratch::new("the_schema_is_printed");
    assert_prints(&scratch.run(&["schema"]), tollgate_rules::RULES_SCHEMA);
}
