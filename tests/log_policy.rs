//! The policies of sliding logs as text: what is read, what is printed, and what the errors say.

use tollgate::{KeyedLogLimiter, LogLimiter, LogPolicy, Policy, Quota};

#[test]
fn every_form_is_read_and_printed_in_one_way() {
    for (text, printed) in [
        ("sliding-log 100/m", "sliding-log 100/m"),
        ("log 100/m", "sliding-log 100/m"),
        ("  Sliding_Log   100/60s ", "sliding-log 100/m"),
        ("LOG 10/250ms", "sliding-log 10/250ms"),
        ("log 1048576/d", "sliding-log 1048576/d"),
        ("log 1/7ns", "sliding-log 1/7ns"),
    ] {
        let policy: LogPolicy = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(policy.to_string(), printed);
        assert_eq!(printed.parse::<LogPolicy>().as_ref(), Ok(&policy));
    }
}

#[test]
fn a_slip_is_told_where_it_is_and_what_would_be_right() {
    for (text, reason) in [
        ("", "it is empty; write a log's quota, such as sliding-log 100/m"),
        ("   ", "it is empty; write a log's quota, such as sliding-log 100/m"),
        ("100/m", "it begins with \"100/m\"; the policy of a log begins with sliding-log"),
        ("gcra 100/m", "it begins with \"gcra\"; the policy of a log begins with sliding-log"),
        ("sliding-log", "after sliding-log a quota such as 100/m is missing"),
        (
            "sliding-log 100",
            "\"100\" has no period; write <count>/<period> without spaces, as in 100/s",
        ),
        ("sliding-log -1/m", "count \"-1\" is not a whole number in digits alone, as in 10000"),
        ("log 0/m", "count 0 would admit nothing; it must be at least 1"),
        ("log 1/0s", "period 0 would be an infinite rate; it must be at least 1ns"),
        (
            "log 1/fortnight",
            "period \"fortnight\" is not understood; write a number and one of ns us ms s m h d, \
             as in 250ms, 10s, 15m, 3h or d",
        ),
        (
            "sliding-log 100/m burst 100",
            "a log takes no \"burst\"; write sliding-log <count>/<period> and nothing else",
        ),
        (
            "sliding-log 100/m soft 5%",
            "a log takes no \"soft\"; write sliding-log <count>/<period> and nothing else",
        ),
        (
            "log 1048577/m",
            "a sliding log keeps a time for each of its 1048577 units, and at most 1048576 are \
             accepted; use gcra or a window",
        ),
        ("log 18446744073709551616/m", "count 18446744073709551616 is above 18446744073709551615"),
    ] {
        let error = text.parse::<LogPolicy>().expect_err(text);
        assert_eq!(error.to_string(), format!("in policy {text:?}: {reason}"));
    }
}

#[test]
fn a_policy_of_one_word_is_no_log() {
    for text in ["sliding-log 100/m", "log 100/m"] {
        assert_eq!(
            text.parse::<Policy>().expect_err(text).to_string(),
            format!(
                "in policy {text:?}: a sliding log does not fit in one word; it is a LogPolicy, for \
                 LogLimiter and KeyedLogLimiter"
            ),
        );
    }
}

#[test]
fn what_is_read_can_be_built() -> Result<(), Box<dyn std::error::Error>> {
    let policy: LogPolicy = "sliding-log 3/h".parse()?;
    assert_eq!(policy, LogPolicy::new(Quota::per_hour(3))?);
    let log = LogLimiter::new(policy.into())?;
    assert_eq!([log.check_n(3).is_allowed(), log.check().is_allowed()], [true, false]);
    let logs = KeyedLogLimiter::<str>::new(policy.into(), 10)?;
    assert_eq!(logs.entry("alice").peek(1).remaining(), 3);
    let large = LogPolicy::new(Quota::per_hour(1 << 21)).unwrap_err().to_string();
    assert!(
        large.contains("each of its 2097152 units, and at most 1048576 are accepted"),
        "{large}"
    );
    Ok(())
}

#[cfg(feature = "serde")]
#[test]
fn serde_reads_and_writes_the_text() {
    let policy: LogPolicy = serde_json::from_str("\"log 10/m\"").expect("a log");
    assert_eq!(serde_json::to_string(&policy).expect("a text"), "\"sliding-log 10/m\"");
    let error = serde_json::from_str::<LogPolicy>("\"10/m\"").expect_err("no log").to_string();
    assert!(error.starts_with("in policy \"10/m\": it begins with"), "{error}");
}
