//! The figures that clients read from the headers of every generation, and the fields that they ignore.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};
use tollgate_http::headers::{Advice, LimitAdvice, PolicyAdvice};

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

/// The names of fields, one after the other.
fn unread(fields: &[HeaderName]) -> String {
    fields.iter().map(HeaderName::as_str).collect::<Vec<_>>().join(" ")
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
    for bad in ["\"default\";a=x;w=30", "\"default\";c=1"] {
        assert!(read(&[("ratelimit", bad)]).limits.is_empty(), "{bad}");
    }
    let advice = read(&[("ratelimit", "\"default\";a=1;w=x")]);
    assert_eq!(
        (advice.limits, unread(&advice.unread)),
        (vec![left("default", 1, None)], "ratelimit".into())
    );
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
        // The bounds from which a figure is read as a Unix time in seconds, and in milliseconds.
        ("999999999", secs(999_999_999)),
        ("1000000000", secs(0)),
        ("999999999999", Some(Advice::MAX_WAIT)),
        ("1000000000000", secs(0)),
        ("2026-09-21T14:13:50Z", secs(30)),
        ("30, 45", secs(45)),
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
        let missed = if expected.is_none() { "x-ratelimit-reset" } else { "" };
        assert_eq!(unread(&advice.unread), missed, "{reset}");
        assert_eq!(advice.wait(), expected.or(Some(Advice::UNREAD_WAIT)), "{reset}");
    }
}

#[test]
fn counts_are_read_as_servers_write_them() {
    for (limit, remaining, expected) in [
        // Headers of Reddit and of Docker Hub, several windows, and a server that counts denied requests.
        ("600", "595.0", (Some(600), 595)),
        ("100;w=21600", "76;w=21600", (Some(100), 76)),
        ("10, 500", "4, 0", (Some(10), 0)),
        ("60", "-3", (Some(60), 0)),
        ("99999999999999999999", "18446744073709551616", (Some(u64::MAX), u64::MAX)),
    ] {
        let advice = read(&[("x-ratelimit-limit", limit), ("x-ratelimit-remaining", remaining)]);
        let told: Vec<_> = advice.limits.iter().map(|it| (it.limit, it.remaining)).collect();
        assert_eq!(told, [expected], "{limit} {remaining}");
        assert_eq!(unread(&advice.unread), "", "{limit} {remaining}");
    }
}

#[test]
fn limits_whose_names_stand_in_those_of_their_fields_are_read() {
    let advice = read(&[
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-reset-tokens", "6m0s"),
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2026-09-21T14:13:50Z"),
    ]);
    let mut limits = advice.limits.clone();
    limits.sort_by_key(|limit| (limit.name.clone(), limit.reset));
    let told =
        |name, limit, remaining, reset| LimitAdvice { limit, ..left(name, remaining, reset) };
    let expected = [
        told("requests", Some(60), 59, secs(1)),
        told("tokens", None, 0, secs(30)),
        told("tokens", Some(150_000), 0, secs(360)),
    ];
    assert_eq!(limits, expected);
    assert_eq!((advice.wait(), unread(&advice.unread)), (secs(360), String::new()));
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
        ("1.5", Some(Duration::from_millis(1_500))),
        ("-1", None),
        ("tomorrow", None),
    ] {
        let advice = read(&[("retry-after", value), ("ratelimit", "\"a\";r=0;t=9000")]);
        assert_eq!(advice.retry_after, expected, "{value}");
        assert_eq!(advice.wait(), expected.or(secs(9_000)), "{value}");
        let missed = if expected.is_none() { "retry-after" } else { "" };
        assert_eq!(unread(&advice.unread), missed, "{value}");
        // A client also waits if the wait in the headers cannot be read.
        let alone = read(&[("retry-after", value)]);
        assert_eq!(alone.wait(), expected.or(Some(Advice::UNREAD_WAIT)), "{value}");
    }
}

#[test]
fn milliseconds_are_more_exact_and_of_several_lines_the_longest_counts() {
    for name in ["retry-after-ms", "x-ms-retry-after-ms"] {
        let advice = read(&[("retry-after", "1"), (name, "503")]);
        assert_eq!(advice.wait(), Some(Duration::from_millis(503)));
    }
    let advice = read(&[("retry-after-ms", "soon"), ("retry-after", "7")]);
    assert_eq!((advice.wait(), unread(&advice.unread)), (secs(7), "retry-after-ms".into()));
    let advice = read(&[("retry-after", "30"), ("retry-after", "60"), ("retry-after", "later")]);
    assert_eq!((advice.wait(), unread(&advice.unread)), (secs(60), "retry-after".into()));
    let advice = read(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-retry-after", "1m")]);
    assert_eq!(advice.wait(), secs(60));
}

#[test]
fn no_answer_has_a_wait_that_no_instant_can_take() {
    let nines = "9".repeat(40);
    for figure in [u64::MAX.to_string(), nines, "999999999999999".to_owned(), "1e300".to_owned()] {
        let of = |text: &str| text.replace('N', &figure);
        for lines in [
            vec![("retry-after", of("N"))],
            vec![("retry-after-ms", of("N"))],
            vec![("retry-after", of("N").replace("1e300", "9999999999999") + "h")],
            vec![("ratelimit", of("\"a\";r=0;t=N"))],
            vec![("ratelimit", of("limit=1, remaining=0, reset=N"))],
            vec![("x-ratelimit-remaining", of("0")), ("x-ratelimit-reset", of("N"))],
        ] {
            let lines: Vec<_> = lines.iter().map(|(name, text)| (*name, text.as_str())).collect();
            let wait = read(&lines).wait().unwrap();
            assert!(std::time::Instant::now().checked_add(wait).is_some(), "{lines:?}");
            assert_eq!(wait, Advice::MAX_WAIT, "{lines:?}");
        }
        let policies = read(&[("ratelimit-policy", &of("\"a\";q=1;w=N"))]).policies;
        assert_eq!(policies[0].window, Some(Advice::MAX_WAIT));
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
fn what_cannot_be_read_is_passed_over_and_named() {
    for value in [
        "quota;t=1",     // no r
        "\"a\";r=\"x\"", // not a number
        "\"a\";r=many",
        "\"a\";t=1",   // no r
        "(\"a\");r=1", // an inner list
        "\"a;r=1",     // an open quote
        "1;r=1",       // not a name
    ] {
        let advice = read(&[("ratelimit", value)]);
        assert_eq!((advice.limits.len(), advice.wait()), (0, None), "{value}");
        assert_eq!(unread(&advice.unread), "ratelimit", "{value}");
    }
    for value in ["\"a\";w=1", "\"a\";q=x", "a;qq=1", "()"] {
        let advice = read(&[("ratelimit-policy", value)]);
        assert_eq!((advice.policies.len(), advice.wait()), (0, None), "{value}");
        assert_eq!(unread(&advice.unread), "ratelimit-policy", "{value}");
    }
    let mut headers = HeaderMap::new();
    headers.insert("ratelimit", http::HeaderValue::from_bytes(b"\"\xff\";r=1").unwrap());
    assert_eq!(unread(&Advice::read(&headers, now()).unread), "ratelimit");
    assert_eq!(read(&[("ratelimit", " "), ("ratelimit-policy", "")]), Advice::default());
}

#[test]
fn one_bad_member_spoils_no_other() {
    for (field, names, is_whole) in [
        // Names that are tokens, as draft 8 has them.
        ("\"burst\";r=0;t=30, daily;r=10;t=4000", "burst daily", true),
        ("\"a\";r=1, b", "a", false),
        ("b;r=x, \"a\";r=1", "a", false),
        ("\"a\";r=1,", "a", true),
        ("\"a\";r=1;, \"b;,\\\"\";r=2;t=5;", "a b;,\"", true),
        ("\"a\";r=1;t=-1, \"b\";r=1;t=0.5", "a b", false),
        ("\"a\";r=1000000000000000, \"b\";r=1.5", "a b", true),
    ] {
        let advice = read(&[("ratelimit", field)]);
        let told: Vec<_> = advice.limits.iter().filter_map(|it| it.name.clone()).collect();
        assert_eq!(told.join(" "), names, "{field}");
        assert_eq!(advice.unread.is_empty(), is_whole, "{field}");
    }
    let policies = read(&[("ratelimit-policy", "\"a\";q=10;w=60, oops, 100;w=1, b;q=5")]).policies;
    assert_eq!(
        policies,
        [quota("a", 10, 60), quota("", 100, 1), PolicyAdvice { window: None, ..quota("b", 5, 0) }]
    );
    let advice = read(&[("ratelimit", "\"a\";r=0;t=x, \"b\";r=0;t=5")]);
    assert_eq!((advice.wait(), unread(&advice.unread)), (secs(5), "ratelimit".into()));
    let advice = read(&[("ratelimit", "\"a\";r=0;t=x")]);
    assert_eq!(advice.wait(), Some(Advice::UNREAD_WAIT));
}

#[test]
fn what_a_newer_style_does_not_say_an_older_one_does_and_the_newer_is_named() {
    let older = ("x-ratelimit-remaining", "3");
    let advice = read(&[("ratelimit", "?"), older]);
    assert_eq!(
        (advice.limits, unread(&advice.unread)),
        (vec![left("", 3, None)], "ratelimit".into())
    );
    let advice = read(&[("ratelimit", "limit=9, remaining=4"), ("x-ratelimit-remaining", "many")]);
    let told = LimitAdvice { limit: Some(9), ..left("", 4, None) };
    assert_eq!((advice.limits, unread(&advice.unread)), (vec![told], String::new()));
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
