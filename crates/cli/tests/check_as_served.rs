//! `tollgate check` refuses the rules that `tollgate serve` with the same flags refuses, in the same words. No Redis is
//! needed, because neither command asks Redis before it refuses them.

use std::io::{BufRead, BufReader};

use crate::common::Scratch;
use crate::serving::ANYWHERE;

/// Returns a rule with this limit.
fn rule(limit: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {{key: k, {limit}}}\n")
}

/// Returns the lines that `check` prints on standard error.
fn checked(scratch: &Scratch, flags: &[&str]) -> Vec<String> {
    let run = scratch.run(&[&["check", "rules.yaml"], flags].concat());
    let told: Vec<String> = run
        .err
        .lines()
        .filter_map(|line| line.strip_prefix("tollgate: "))
        .map(Into::into)
        .collect();
    assert_eq!(run.code, Some(if told.is_empty() { 0 } else { 2 }), "{run:?}");
    told
}

/// Returns the reason why `serve` does not start, or the rules that it refuses.
fn served(scratch: &Scratch, flags: &[&str]) -> Vec<String> {
    let rules = ["serve", "--rules", "rules.yaml"];
    let mut command = scratch.command(&[&rules[..], &ANYWHERE, flags].concat());
    // Otherwise variables of the machine would be settings of the service.
    let mut process = command.env_clear().spawn().expect("the binary was built");
    let lines =
        BufReader::new(process.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut told = Vec::new();
    for line in lines {
        if let Some((_, error)) = line.split_once("rules refused: ") {
            told.push(error.to_owned());
        } else if let Some(error) = line.strip_prefix("tollgate: ") {
            told.push(error.to_owned());
        } else if line.contains(" http ") {
            break;
        }
    }
    // The service may have ended already.
    let _ = process.kill();
    process.wait().expect("it has been started");
    told
}

#[test]
fn the_same_rules_are_refused_in_the_same_words() {
    let scratch = Scratch::new("the_same_rules_are_refused_in_the_same_words");
    let limit = |more: &str| rule(&format!("rate_limit: {{requests_per_unit: 5, {more}}}"));
    let files = [
        (rule("rate_limit: {unlimited: true}"), [0, 0, 0]),
        (limit("unit: minute"), [0, 0, 0]),
        (limit("unit: month, algorithm: calendar-month"), [0, 0, 0]),
        (limit("unit: year, algorithm: calendar-year"), [0, 0, 0]),
        (limit("unit: week, algorithm: calendar-week from-sunday"), [0, 0, 0]),
        (limit("unit: minute, algorithm: sliding-log"), [0, 1, 1]),
        (limit("unit: fortnight"), [1, 1, 1]),
        (
            rule(
                "cidr: 10.0.0.0/8, accuracy: exact, rate_limit: {unit: day, requests_per_unit: 5}",
            ),
            [0, 0, 0],
        ),
        (rule("value: 10.0.0.0/8"), [1, 1, 1]),
        (rule("regex: '(', rate_limit: {unit: day}"), [1, 1, 1]),
        (rule("capacity: 90000, rate_limit: {unit: day, requests_per_unit: 5}"), [0, 1, 1]),
        (
            rule("accuracy: async, rate_limit: {unit: year, requests_per_unit: 4294967295}"),
            [0, 1, 1],
        ),
        ("domain: [".to_owned(), [1, 1, 1]),
    ];
    let own = ["--table-bytes", "8000000", "--capacity", "65536"];
    let redis = [&["--redis", "redis://127.0.0.1:1/", "--nodes", "3"], &own[..]].concat();
    let flags = [&own[..], &redis, &[&redis[..], &["--compat"]].concat()];
    for (file, refused) in files {
        scratch.file("rules.yaml", &file);
        for (flags, refused) in flags.iter().zip(refused) {
            let told = checked(&scratch, flags);
            assert_eq!(told, served(&scratch, flags), "{file}{flags:?}");
            assert_eq!(told.len(), refused, "{file}{flags:?} {told:?}");
        }
    }
}

#[test]
fn flags_that_serve_refuses_are_refused() {
    let scratch = Scratch::new("flags_that_serve_refuses_are_refused");
    scratch.file("rules.yaml", rule("rate_limit: {unit: day, requests_per_unit: 5}"));
    for flags in [
        &["--nodes", "3"][..],
        &["--on-error", "deny"],
        &["--redis", "redis://127.0.0.1:1/", "--nodes", "0"],
        &["--redis", "http://127.0.0.1:1/"],
        &["--redis", "redis://127.0.0.1:1/", "--redis-deadline", "0"],
        &["--redis", "redis://127.0.0.1:1/", "--redis-prefix", "a:b"],
        &["--redis", "redis://127.0.0.1:1/", "--redis-keys", "envoyproxy"],
        &["--redis-keys", "envoyproxy", "--compat"],
        &["--redis", "rediss://127.0.0.1:1/", "--redis-tls-ca", "missing.pem"],
    ] {
        let told = checked(&scratch, flags);
        assert_eq!(told.len(), 1, "{flags:?} {told:?}");
        assert_eq!(told, served(&scratch, flags), "{flags:?}");
    }
}

#[test]
fn what_envoyproxy_does_not_know_is_refused_where_its_keys_are_counted_in() {
    let scratch = Scratch::new("what_envoyproxy_does_not_know_is_refused");
    let redis = ["--redis", "redis://127.0.0.1:1/", "--redis-keys", "envoyproxy"];
    let compat = [&redis[..], &["--compat"]].concat();
    let limit = "rate_limit: {unit: minute, requests_per_unit: 5";
    for (more, is_refused) in [("}", false), (", algorithm: gcra}", true)] {
        scratch.file("rules.yaml", rule(&format!("{limit}{more}")));
        let [checked, served] = [checked(&scratch, &compat), served(&scratch, &compat)];
        assert_eq!(checked, served, "{more}");
        assert_eq!(checked.len(), usize::from(is_refused), "{checked:?}");
        assert!(
            checked.iter().all(|error| error.starts_with("d.k: ") && error.contains("envoyproxy"))
        );
    }
}
