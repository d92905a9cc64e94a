//! Rates and keys as people write them. They are read as in policies, or refused with an error that quotes them and
//! says what to write.

use crate::common::{World, limit, refused, with};
use tollgate_rules::{RuleCache, RuleSettings, RuleText};

/// The policy of a limit, and the rule as text.
fn read(text: &str) -> (String, String) {
    let cache = RuleCache::new(RuleSettings::default());
    let rules = cache.load(&[RuleText::new("test.yaml", limit(text))]).expect("rules");
    let rule = &rules.rules()[0];
    let policy = rule.limits()[0].policy().expect("a policy");
    (policy.to_string(), rule.to_string())
}

#[test]
fn a_limit_is_read_as_its_words_are_and_shown_in_them() {
    for (text, policy, shown) in [
        ("rate: 100 req/min", "fixed-window 100/m", "fixed-window 100 req/min"),
        ("rate: 0.1/s, algorithm: gcra", "gcra 1/10s", "gcra 0.1/s"),
        ("rate: 9/month", "calendar-month 9", "fixed-window 9/month"),
        ("rate: 9/month, algorithm: Calendar Month", "calendar-month 9", "Calendar Month 9/month"),
        (
            "rate: 3/m, algorithm: Token Bucket, burst: 9",
            "gcra 3/m burst 9",
            "Token Bucket 3/m burst 9",
        ),
        (
            "unit: min, requests_per_unit: 3, algorithm: leaky bucket hard",
            "gcra 1/m burst 3",
            "leaky bucket hard 3/m",
        ),
        (
            "window: 15 minutes, requests_per_unit: 3",
            "fixed-window 3/15m",
            "fixed-window 3/15 minutes",
        ),
        ("window: 1h30m, requests_per_unit: 3", "fixed-window 3/90m", "fixed-window 3/1h30m"),
        (
            "unit: month, requests_per_unit: 3, algorithm: CalendarMonth",
            "calendar-month 3",
            "CalendarMonth 3",
        ),
        ("unit: month, requests_per_unit: 3", "fixed-window 3/30d", "fixed-window 3/30d"),
        ("rate: 9/year", "calendar-year 9", "fixed-window 9/year"),
        ("unit: year, requests_per_unit: 3", "fixed-window 3/365d", "fixed-window 3/365d"),
        (
            "unit: year, requests_per_unit: 3, algorithm: calendar year",
            "calendar-year 3",
            "calendar year 3",
        ),
        ("unit: week, requests_per_unit: 3", "fixed-window 3/7d", "fixed-window 3/7d"),
        (
            "unit: week, requests_per_unit: 3, algorithm: calendar-week",
            "calendar-week 3",
            "calendar-week 3",
        ),
        (
            "rate: 9 per week, algorithm: calendar-week from-sunday",
            "calendar-week 9 from-sunday",
            "calendar-week from-sunday 9 per week",
        ),
    ] {
        assert_eq!(read(text), (policy.to_owned(), format!("d.k: {shown}")), "{text}");
    }
    let world = World::new(&limit("rate: 2M per day"));
    assert_eq!(world.finds("d", &[("k", "x")]), Some(2_000_000));
    // The burst is not part of the rate in an answer.
    let world = World::new(&limit("rate: 60/m, algorithm: gcra, burst: 3"));
    assert_eq!(world.finds("d", &[("k", "x")]), Some(60));
}

#[test]
fn a_number_with_a_0_before_it_is_refused_as_it_has_two_values() {
    for (number, key) in
        [("010", "requests_per_unit"), ("00", "requests_per_unit"), ("09", "queue")]
    {
        let found = refused(limit(&format!("unit: day, {key}: {number}")));
        let expected = format!(
            "error checking config: {key} '{number}' is not understood; use a number without a 0 before it: YAML 1.1 \
             reads that in base 8, YAML 1.2 in base 10"
        );
        assert!(found.ends_with(&expected), "{found}");
    }
}

#[test]
fn a_dash_without_its_blank_is_named_wherever_the_parser_stumbles() {
    let entry = "rate_limit: {unit: day, requests_per_unit: 5}";
    for (rules, at, key) in [
        (format!("domain: d\ndescriptors:\n  -key: a\n    {entry}\n"), "3:3", "key"),
        (
            format!("domain: d\ndescriptors:\n  - key: a\n    {entry}\n  -key: b\n    {entry}\n"),
            "5:3",
            "key",
        ),
        ("domain: d\ndescriptors:\n-key: a\n".to_owned(), "3:1", "key"),
        (with("key: a\n    limits:\n      -unit: day\n       requests_per_unit: 5"), "5:7", "unit"),
    ] {
        let expected = format!(
            "test.yaml:{at}: config error, unknown key '-{key}'; did you mean '- {key}'? An entry of a list begins with a \
             dash and a blank"
        );
        assert_eq!(refused(rules.as_str()), expected, "{rules}");
    }
}

#[test]
fn a_key_of_another_file_is_answered_with_its_name_here() {
    for (key, here) in [
        ("count_denied: true", "count_rejected"),
        ("timeout: 2s", "wait"),
        ("soft: 5%", "mode: soft 5%"),
    ] {
        let found = refused(limit(&format!("unit: day, requests_per_unit: 5, {key}")));
        assert!(found.contains(&format!("; did you mean '{here}'? use one of ")), "{found}");
    }
    let found = refused(limit("unit: day, requests_per_unit: 5, mode: dynamic"));
    assert!(
        found.ends_with("or elastic, which borrows what others of its domain leave"),
        "{found}"
    );
}

#[test]
fn a_rate_is_quoted_as_it_was_written() {
    for (text, expected) in [
        (
            "unit: minute, requests_per_unit: 3, algorithm: Token Bukket",
            "3:26: in policy \"Token Bukket 3/m\": there is no algorithm \"Token Bukket\" (did you mean \
             \"token-bucket\"?); use gcra, token-bucket, leaky-bucket, spaced, fixed-window, sliding-window, \
             segmented-window, calendar-week, calendar-month, calendar-year or sliding-log",
        ),
        (
            "rate: 100 req/min burst 5",
            "3:33: error checking config: rate '100 req/min burst 5' is not understood; use a rate alone, as in 100/m, \
             and burst: beside it",
        ),
        ("rate: 100/m, unit: minute", "3:46: unit and rate exclude each other; leave one out"),
        (
            "rate: 5000M/d",
            "3:33: error checking config: rate '5000M/d' is not understood; use a rate of at most 4294967295, as in \
             100/m",
        ),
        (
            "rate: 9/month, algorithm: gcra",
            "3:26: in policy \"gcra 9/month\": a month has no fixed length; write 9/30d, or calendar-month 9",
        ),
    ] {
        assert_eq!(refused(limit(text)), format!("test.yaml:{expected}"), "{text}");
    }
}
