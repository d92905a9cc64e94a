//! What clients read from the headers of every generation, and what they ignore.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};
use tollgate_tower::{Advice, LimitAdvice, PolicyAdvice};

const NOW_S: u64 = 1_790_000_000;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW_S)
}

fn read(lines: &[(&str, &str)]) -> Advice {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    Advice::read(&headers, now())
}

fn secs(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

fn quota(name: &str, quota: u64, window_s: u64) -> PolicyAdvice {
    let name = (!name.is_empty()).then(|| name.to_owned());
    PolicyAdvice { name, quota, unit: None, window: secs(window_s), partition_key: None }
}

fn left(name: &str, remaining: u64, reset: Option<Duration>) -> LimitAdvice {
    let name = (!name.is_empty()).then(|| name.to_owned());
    LimitAdvice { name, limit: None, remaining, reset, partition_key: None }
}

#[test]
fn draft_10_is_read() {
    let advice = read(&[
        ("ratelimit-policy", "\"burst\";q=100;w=60, \"daily\";q=1000;w=86400"),
        ("ratelimit", "\"default\";r=50;t=30"),
    ]);
    assert_eq!(advice.policies, [quota("burst", 100, 60), quota("daily", 1_000, 86_400)]);
    assert_eq!(advice.limits, [left("default", 50, secs(30))]);
    assert_eq!((advice.retry_after, advice.wait()), (None, None));
}

#[test]
fn units_and_partition_keys_are_read() {
    let advice = read(&[
        ("ratelimit-policy", "\"peruser\";q=65535;qu=\"content-bytes\";w=10;pk=:sdfjLJUOUH==:"),
        ("ratelimit", "\"default\";r=999;pk=:dHJpYWwxMjEzMjM=:"),
    ]);
    let policy = &advice.policies[0];
    assert_eq!((policy.quota, policy.unit.as_deref()), (65_535, Some("content-bytes")));
    // The draft's own example, in which the unused last bits are not zero.
    assert_eq!(policy.partition_key.as_ref().map(Vec::len), Some(7));
    assert_eq!(advice.limits[0].partition_key.as_deref(), Some(&b"trial121323"[..]));
    assert_eq!(advice.limits[0].reset, None);
}

#[test]
fn lines_are_one_list_and_spaces_mean_nothing() {
    let advice = read(&[
        ("ratelimit", "\"100-in-1min\"; r=50; t=30"),
        ("ratelimit", "\"day\";r=100;t=36000;acme-burst=7"),
    ]);
    assert_eq!(advice.limits, [left("100-in-1min", 50, secs(30)), left("day", 100, secs(36_000))]);
}

#[test]
fn what_the_working_group_calls_them_since_draft_10_is_read() {
    let advice = read(&[("ratelimit", "\"default\";a=50;w=30;c=1, \"day\";a=7")]);
    assert_eq!(advice.limits, [left("default", 50, secs(30)), left("day", 7, None)]);
    for bad in ["\"default\";a=x;w=30", "\"default\";a=1;w=x", "\"default\";c=1"] {
        assert!(read(&[("ratelimit", bad)]).limits.is_empty(), "{bad}");
    }
}

#[test]
fn draft_07_is_read() {
    let advice = read(&[
        ("ratelimit-policy", "100;w=60"),
        ("ratelimit", "limit=100, remaining=50, reset=30"),
    ]);
    assert_eq!(advice.policies, [quota("", 100, 60)]);
    assert_eq!(advice.limits, [LimitAdvice { limit: Some(100), ..left("", 50, secs(30)) }]);
}

#[test]
fn draft_06_is_read() {
    let advice = read(&[
        ("ratelimit-policy", "100;w=60"),
        ("ratelimit-limit", "100"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", "30"),
    ]);
    assert_eq!(advice.policies, [quota("", 100, 60)]);
    assert_eq!(advice.limits, [LimitAdvice { limit: Some(100), ..left("", 0, secs(30)) }]);
    assert_eq!(advice.wait(), secs(30));
}

#[test]
fn x_rate_limit_is_read_whatever_its_reset_counts() {
    for (reset, expected) in [
        ("30", secs(30)),
        ("1790000030", secs(30)),
        ("1790000030000", secs(30)),
        ("1789999999", secs(0)),
        // The bounds from which a figure is a Unix time, and a Unix time in milliseconds.
        ("999999999", secs(999_999_999)),
        ("1000000000", secs(0)),
        ("999999999999", secs(999_999_999_999 - NOW_S)),
        ("1000000000000", secs(0)),
        ("soon", None),
        ("+30", None),
    ] {
        let advice = read(&[
            ("x-ratelimit-limit", "60"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", reset),
        ]);
        let told = LimitAdvice { limit: Some(60), ..left("", 0, expected) };
        assert_eq!(advice.limits, [told], "{reset}");
    }
}

#[test]
fn policies_within_a_limit_are_read_as_envoy_writes_them() {
    let advice = read(&[
        ("x-ratelimit-limit", "10, 10;w=1;name=\"per-ip\", 1000;w=3600"),
        ("x-ratelimit-remaining", "9"),
        ("x-ratelimit-reset", "1"),
    ]);
    assert_eq!(advice.policies, [quota("per-ip", 10, 1), quota("", 1_000, 3_600)]);
    assert_eq!(advice.limits, [LimitAdvice { limit: Some(10), ..left("", 9, secs(1)) }]);
}

#[test]
fn retry_after_is_seconds_or_a_date_and_wins() {
    for (value, expected) in [
        ("120", secs(120)),
        (" 0 ", secs(0)),
        ("Mon, 21 Sep 2026 14:13:40 GMT", secs(20)),
        ("Mon, 21 Sep 2026 14:13:00 GMT", secs(0)),
        ("-1", None),
        ("1.5", None),
        ("99999999999999999999", None),
        ("tomorrow", None),
    ] {
        let advice = read(&[("retry-after", value), ("ratelimit", "\"a\";r=0;t=9000")]);
        assert_eq!(advice.retry_after, expected, "{value}");
        assert_eq!(advice.wait(), expected.or(secs(9_000)), "{value}");
    }
}

#[test]
fn the_newest_generation_is_believed() {
    let advice = read(&[
        ("x-ratelimit-limit", "1"),
        ("x-ratelimit-remaining", "1"),
        ("ratelimit-limit", "2"),
        ("ratelimit-remaining", "2"),
        ("ratelimit", "\"a\";r=3"),
    ]);
    assert_eq!(advice.limits, [left("a", 3, None)]);
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    for value in [
        "quota;t=1",      // a token, and no r: an example of the draft's, but not its grammar
        "\"a\";r=-1",     // a negative count
        "\"a\";r=1.5",    // not an integer
        "\"a\";r=\"1\"",  // not a number
        "\"a\";t=1",      // no r
        "\"a\";r=1, b",   // one bad member spoils the field
        "\"a\";r=1;t=-1", // a negative time
        "(\"a\");r=1",    // an inner list
        "\"a;r=1",        // an open quote
        "\"a\";r=1,",     // a comma too many
        "\"a\";r=1000000000000000", // more than 15 digits
    ] {
        assert_eq!(read(&[("ratelimit", value)]), Advice::default(), "{value}");
    }
    for value in ["\"a\";w=1", "\"a\";q=-1", "a;q=1", "\"a\";q=1;w=x", "1.5;w=1", "()"] {
        assert_eq!(read(&[("ratelimit-policy", value)]), Advice::default(), "{value}");
    }
    let mut headers = HeaderMap::new();
    headers.insert("ratelimit", http::HeaderValue::from_bytes(b"\"\xff\";r=1").unwrap());
    assert_eq!(Advice::read(&headers, now()), Advice::default());
}

#[test]
fn a_field_of_16_kib_is_read_and_of_one_byte_more_is_not() {
    let limits = |bytes: usize| {
        let text = format!("{:bytes$}", "\"a\";r=1");
        read(&[("ratelimit", &text)]).limits
    };
    assert_eq!(limits(16_384), [left("a", 1, None)]);
    assert_eq!(limits(16_385), []);
}

#[test]
fn a_window_of_no_seconds_is_none() {
    for policies in ["\"a\";q=1;w=0", "1;w=0;name=\"a\""] {
        let told = read(&[("ratelimit-policy", policies)]).policies;
        assert_eq!(told, [PolicyAdvice { window: None, ..quota("a", 1, 0) }], "{policies}");
    }
}
