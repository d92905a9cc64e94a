//! Policies as text: what is read, what is printed, and what a slip is told.

use tollgate::{Algorithm, Policy, Quota};

#[test]
fn every_form_is_read_and_printed_in_one_way() {
    let forms = [
        ("100/s", "gcra 100/s"),
        ("100/1s", "gcra 100/s"),
        ("100/s burst 20", "gcra 100/s burst 20"),
        ("100/s burst 100", "gcra 100/s"),
        ("  gcra   10/m  burst 5 ", "gcra 10/m burst 5"),
        ("gcra 10/60s", "gcra 10/m"),
        ("gcra 10/90s", "gcra 10/90s"),
        ("gcra 10/250ms", "gcra 10/250ms"),
        ("gcra 10/15m", "gcra 10/15m"),
        ("gcra 10/180m", "gcra 10/3h"),
        ("gcra 10/24h", "gcra 10/d"),
        ("gcra 1/1500us", "gcra 1/1500us"),
        ("gcra 1/7ns", "gcra 1/7ns"),
        ("token-bucket 100/s burst 20", "gcra 100/s burst 20"),
        ("leaky-bucket 100/s burst 20", "gcra 100/s burst 20"),
        ("leaky-bucket 100/60s soft", "gcra 100/m"),
        ("leaky-bucket 100/60s hard", "gcra 1/m burst 100"),
        ("spaced 5/s", "gcra 5/s burst 1"),
        ("GCRA 10/M Burst 5", "gcra 10/m burst 5"),
        ("sliding_window 10/m round_down", "sliding-window 10/m round-down"),
        ("fixed-window 100/1m", "fixed-window 100/m"),
        ("fixed-window 100/m aligned", "fixed-window 100/m"),
        ("fixed-window 100/m from-first", "fixed-window 100/m from-first"),
        ("sliding-window 100/m", "sliding-window 100/m"),
        ("sliding-window 100/m exact", "sliding-window 100/m"),
        ("sliding-window 100/m round-down", "sliding-window 100/m round-down"),
        ("sliding-window 100/m strict", "sliding-window 100/m strict"),
        ("segmented-window 100/m x6", "segmented-window 100/m x6"),
    ];
    for (text, printed) in forms {
        let policy: Policy = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(policy.to_string(), printed);
        assert_eq!(printed.parse::<Policy>().as_ref(), Ok(&policy));
    }
}

#[test]
fn every_slip_is_named_with_what_would_be_right() {
    let algorithms = "gcra, token-bucket, leaky-bucket, spaced, fixed-window, sliding-window or \
                      segmented-window";
    let slips = [
        ("", "it is empty; write a quota such as 100/s, or gcra 100/s burst 20"),
        (
            "gcra",
            &format!("after \"gcra\" a quota such as 100/s is missing (algorithms: {algorithms})"),
        ),
        ("bucket 10/s", &format!("there is no algorithm \"bucket\"; use {algorithms}")),
        ("gcra ten/s", "count \"ten\" is not a whole number in digits alone, as in 10000"),
        ("gcra -1/s", "count \"-1\" is not a whole number in digits alone, as in 10000"),
        ("gcra 1e3/s", "count \"1e3\" is not a whole number in digits alone, as in 10000"),
        ("gcra 10", "\"10\" has no period; write <count>/<period> without spaces, as in 100/s"),
        ("10", "\"10\" has no period; write <count>/<period> without spaces, as in 100/s"),
        ("10 / m", "\"10\" has no period; write <count>/<period> without spaces, as in 100/s"),
        ("10/m bursts 5", "gcra has no option \"bursts\"; it takes only burst <n>"),
        ("10,000/m", "count \"10,000\" is not a whole number in digits alone, as in 10000"),
        ("10/s burst", "burst needs a number, as in burst 20"),
        ("10/s burst 5 burst 6", "burst is given twice"),
        ("10/s 5", "gcra has no option \"5\"; it takes only burst <n>"),
        ("10/s hard", "gcra has no option \"hard\"; it takes only burst <n>"),
        (
            "leaky-bucket 10/s hard burst 5",
            "leaky-bucket fixes its burst; leave it out, or use gcra",
        ),
        ("spaced 10/s burst 5", "spaced fixes its burst; leave it out, or use gcra"),
        (
            "fixed-window 10/s burst 10",
            "a window takes no burst: it admits its whole limit at once; leave the burst out, or use gcra",
        ),
        (
            "fixed-window 10/s x6",
            "fixed-window has no option \"x6\"; use aligned, from-first, or none",
        ),
        (
            "sliding-window 10/s up",
            "sliding-window has no option \"up\"; use exact, round-down, strict, or none",
        ),
        ("sliding-window 10/s strict exact", "\"exact\" is one option too many"),
        (
            "segmented-window 10/s",
            "segmented-window needs an option; write the number of segments as x2 to x64, as in x6",
        ),
        (
            "segmented-window 10/s x1",
            "a window cannot be cut into 1 segments; use 2 to 64, as in x6",
        ),
        (
            "segmented-window 10/s x7",
            "a window of 1s is not 7 segments of whole nanoseconds; use x5 or x8",
        ),
        (
            "sliding-window 1000000/s",
            "the counts and the window number need 72 bits; 64 are there; \
             in this window a limit up to 65535 fits, or use gcra",
        ),
        (
            "5000000000/s",
            "the rate is too high to be counted exactly; it must be at most 2.2e9 units per second",
        ),
    ];
    for (text, reason) in slips {
        let error = text.parse::<Policy>().expect_err(text);
        assert_eq!(error.to_string(), format!("in policy {text:?}: {reason}"));
    }
}

#[test]
fn a_quota_alone_names_no_algorithm() {
    assert_eq!("10/m burst 5".parse::<Quota>(), Ok(Quota::per_minute(10).burst(5)));
    assert_eq!(
        "spaced 10/m".parse::<Quota>().unwrap_err().to_string(),
        "in policy \"spaced 10/m\": a quota names no algorithm; write <count>/<period> [burst <n>]"
    );
}

#[test]
fn policies_are_built_in_code_as_in_text() {
    let built = Policy::new(Algorithm::SegmentedWindow { segments: 6 }, Quota::per_minute(100));
    assert_eq!(built.unwrap(), "segmented-window 100/m x6".parse().unwrap());
}

#[cfg(feature = "serde")]
#[test]
fn serde_reads_and_writes_the_text() {
    let policy: Policy = serde_json::from_str("\"10/m burst 5\"").unwrap();
    assert_eq!(serde_json::to_string(&policy).unwrap(), "\"gcra 10/m burst 5\"");
    let quota: Quota = serde_json::from_str("\"10/m burst 5\"").unwrap();
    assert_eq!(serde_json::to_string(&quota).unwrap(), "\"10/m burst 5\"");
    let error = serde_json::from_str::<Policy>("\"10/never\"").unwrap_err().to_string();
    assert!(
        error.starts_with("in policy \"10/never\": period \"never\" is not understood"),
        "{error}"
    );
}
