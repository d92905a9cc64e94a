//! Policies as text: what is read, what is printed, and what the errors say.

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
        ("leaking-bucket 100/minute hard", "gcra 1/m burst 100"),
        ("enforced-average 5 per second", "gcra 5/s burst 1"),
        ("fixed-window-counter 100 per minute", "fixed-window 100/m"),
        ("sliding-window-counter 100/Minute", "sliding-window 100/m"),
        ("sliding-tail 100/hours exact", "sliding-window 100/h exact"),
        ("sliding-window-log 100 per 10 minutes", "sliding-log 100/10m"),
        ("Token Bucket 100/s burst 20", "gcra 100/s burst 20"),
        ("leaking bucket 100/m hard", "gcra 1/m burst 100"),
        ("sliding window log 100/m", "sliding-log 100/m"),
        ("sliding window 100/m exact", "sliding-window 100/m exact"),
        ("generic cell rate algorithm 10 per second", "gcra 10/s"),
        ("calendar month 10000", "calendar-month 10000"),
        ("sliding_log 7/2days", "sliding-log 7/2d"),
        ("100 per minute burst 20 soft 50%", "gcra 100/m burst 20 soft 50%"),
        ("100 per 1500ms", "gcra 100/1500ms"),
        ("1/s count-denied 2minutes", "gcra 1/s count-denied 2m"),
        ("leaky-bucket 100/60s soft", "gcra 100/m"),
        ("leaky-bucket 100/60s hard", "gcra 1/m burst 100"),
        ("spaced 5/s", "gcra 5/s burst 1"),
        ("GCRA 10/M Burst 5", "gcra 10/m burst 5"),
        ("sliding_window 10/m round_down", "sliding-window 10/m"),
        ("fixed-window 100/1m", "fixed-window 100/m"),
        ("fixed-window 100/m aligned", "fixed-window 100/m"),
        ("fixed-window 100/m from-first", "fixed-window 100/m from-first"),
        ("sliding-window 100/m round-up", "sliding-window 100/m exact"),
        ("sliding-window 100/m exact", "sliding-window 100/m exact"),
        ("sliding-window 100/m", "sliding-window 100/m"),
        ("sliding-window 100/m strict", "sliding-window 100/m strict"),
        ("segmented-window 100/m x6", "segmented-window 100/m x6"),
        ("calendar-month 10000", "calendar-month 10000"),
        ("Calendar_Month 10000 soft 5%", "calendar-month 10000 soft 5%"),
        ("calendar-month 9 count-denied", "calendar-month 9 count-denied"),
        ("500/m soft 5%", "gcra 500/m soft 5%"),
        ("500/m soft 0.50%", "gcra 500/m soft 0.5%"),
        ("50000/m burst 50000 soft 12.25%", "gcra 50000/m soft 12.25%"),
        ("leaky-bucket 100/60s soft soft 5%", "gcra 100/m soft 5%"),
        ("leaky-bucket 100/60s hard soft 5%", "gcra 1/m burst 100 soft 5%"),
        ("leaky-bucket 100/60s soft 5%", "gcra 100/m soft 5%"),
        ("10/m count_denied", "gcra 10/m count-denied"),
        ("10/m count-denied 30s burst 5", "gcra 10/m burst 5 count-denied 30s"),
        ("10/m count-denied m", "gcra 10/m count-denied 1m"),
        ("10/m count-denied 0ms", "gcra 10/m count-denied 0s"),
        ("10/m penalty 600s after 3", "gcra 10/m penalty 10m after 3"),
        ("10/m penalty h after 3 extended", "gcra 10/m penalty 1h after 3 extended"),
        (
            "sliding-window 100/m penalty 2m after 1 round-up count-denied soft 5%",
            "sliding-window 100/m exact soft 5% count-denied penalty 2m after 1",
        ),
        (
            "segmented-window 20/m x6 penalty 1m after 9",
            "segmented-window 20/m x6 penalty 1m after 9",
        ),
    ];
    for (text, printed) in forms {
        let policy: Policy = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(policy.to_string(), printed);
        assert_eq!(printed.parse::<Policy>().as_ref(), Ok(&policy));
    }
}

#[test]
fn every_slip_is_named_with_what_would_be_right() {
    let algorithms = "gcra, token-bucket, leaky-bucket, spaced, fixed-window, sliding-window, \
                      segmented-window, calendar-month or sliding-log";
    let slips = [
        ("", "it is empty; write a quota such as 100/s, or gcra 100/s burst 20"),
        (
            "gcra",
            &format!("after \"gcra\" a quota such as 100/s is missing (algorithms: {algorithms})"),
        ),
        ("bucket 10/s", &format!("there is no algorithm \"bucket\"; use {algorithms}")),
        (
            "slidingwindow 10/s",
            &format!(
                "there is no algorithm \"slidingwindow\" (did you mean \"sliding-window\"?); use {algorithms}"
            ),
        ),
        (
            "rolling window 10/s",
            "there is no algorithm \"rolling-window\"; use sliding-log, of each time, or sliding-window, of two \
             counts",
        ),
        (
            "leaky bucket as a queue 5/s",
            "there is no algorithm \"leaky-bucket-as-a-queue\"; use a quota and its places, as in gcra 5/s burst 1 \
             queue 50",
        ),
        (
            "rolling-windows 10/s",
            &format!(
                "there is no algorithm \"rolling-windows\" (did you mean \"rolling-window\"?); use {algorithms}"
            ),
        ),
        (
            "10 per fortnight",
            "period \"fortnight\" is not understood; write a number and one of ns us ms s m h d, as in 250ms, 10s, \
             15m, 3h or d",
        ),
        (
            "10 per",
            "period \"\" is not understood; write a number and one of ns us ms s m h d, as in 250ms, 10s, 15m, 3h \
             or d",
        ),
        (
            "calendar-month 10 per month",
            "calendar-month takes a count without a period, as in calendar-month 10000, not \"10/month\"",
        ),
        ("gcra ten/s", "count \"ten\" is not a whole number in digits alone, as in 10000"),
        ("gcra -1/s", "count \"-1\" is not a whole number in digits alone, as in 10000"),
        ("gcra 1e3/s", "count \"1e3\" is not a whole number in digits alone, as in 10000"),
        ("gcra 10", "\"10\" has no period; write <count>/<period> without spaces, as in 100/s"),
        ("10", "\"10\" has no period; write <count>/<period> without spaces, as in 100/s"),
        ("10 / m", "\"10\" has no period; write <count>/<period> without spaces, as in 100/s"),
        (
            "10/m bursts 5",
            "gcra has no option \"bursts\" (did you mean \"burst\"?); it takes only burst <n>",
        ),
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
            "sliding-window has no option \"up\"; use exact, round-up, round-down, strict, or none",
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
            "calendar-month 10/30d",
            "calendar-month takes a count without a period, as in calendar-month 10000, not \"10/30d\"",
        ),
        ("calendar-month ten", "count \"ten\" is not a whole number in digits alone, as in 10000"),
        ("calendar-month 0", "count 0 would admit nothing; it must be at least 1"),
        ("calendar-month 10 strict", "calendar-month has no option \"strict\"; it takes none"),
        (
            "calendar-month 10 burst 10",
            "a window takes no burst: it admits its whole limit at once; leave the burst out, or use gcra",
        ),
        (
            "calendar-month 10 penalty 31d after 3",
            "calendar-month takes no penalty; leave it out, or use fixed-window 10000/31d",
        ),
        (
            "segmented-window 10/s x7",
            "a window of 1s is not 7 segments of whole nanoseconds; use x5 or x8",
        ),
        (
            "sliding-window 1000000/s exact",
            "the counts and the window number need 72 bits; 64 are there; \
             in this window a limit up to 65535 fits, or use gcra",
        ),
        ("10/m soft 5", "the share \"5\" after soft needs its percent sign, as in soft 5%"),
        (
            "10/m soft five%",
            "the share \"five%\" after soft is not understood; write 0.01% to 100% with at most two \
             decimals, as in soft 5% or soft 0.25%",
        ),
        (
            "1000/m soft 0.125%",
            "the share \"0.125%\" after soft is not understood; write 0.01% to 100% with at most two \
             decimals, as in soft 5% or soft 0.25%",
        ),
        ("10/m soft", "gcra has no option \"soft\"; it takes only burst <n>"),
        ("10/m soft 0%", "0% is no share to soften a limit by; use 0.01% to 100%, as in soft 5%"),
        (
            "10/m soft 101%",
            "101% is no share to soften a limit by; use 0.01% to 100%, as in soft 5%",
        ),
        ("10/m soft 5%", "5% of a limit of 10 is not one unit; use at least 10%"),
        ("3/m soft 33.33%", "33.33% of a limit of 3 is not one unit; use at least 33.34%"),
        ("30/m soft 5% soft 6%", "soft is given twice"),
        (
            "fixed-window 10/m count-denied 30s",
            "a window has no longest wait for denied requests: its count stops at the limit; \
             write count-denied alone, or use gcra",
        ),
        (
            "10/m count-denied 30",
            "wait of count-denied \"30\" is not understood; write a number and one of ns us ms s m h d, \
             as in 250ms, 10s, 15m, 3h or d",
        ),
        ("10/m count-denied count-denied", "count-denied is given twice"),
        (
            "10/m penalty",
            "penalty needs a length and a number of denials, as in penalty 10m after 3",
        ),
        (
            "10/m penalty 10m 3",
            "penalty 10m is followed by \"3\", not by after, as in penalty 10m after 3",
        ),
        (
            "10/m penalty 10m",
            "penalty 10m is followed by the end, not by after, as in penalty 10m after 3",
        ),
        (
            "10/m penalty 10m after",
            "penalty 10m after needs a number of denials, as in penalty 10m after 3",
        ),
        (
            "10/m penalty 10m after three",
            "the number of denials \"three\" is not a whole number in digits alone, as in 10000",
        ),
        (
            "10/m penalty 10m after 4294967296",
            "penalty after 4294967296 denials is above 4294967295",
        ),
        (
            "10/m penalty 10m after 0",
            "a penalty after 0 denials would refuse everything; use at least 1",
        ),
        (
            "10/m penalty 59s after 1",
            "a penalty of 59s would end before what was admitted has ceased to count; \
             use at least 60s",
        ),
        ("10/m penalty 1m after 1 penalty 1m after 2", "penalty is given twice"),
        ("10/m extended", "\"extended\" belongs to a penalty, as in penalty 10m after 3 extended"),
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
    assert_eq!(
        "20/m soft 5%".parse::<Quota>().unwrap_err().to_string(),
        "in policy \"20/m soft 5%\": a quota does not say what happens at its limit; \
         write <count>/<period> [burst <n>]"
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
    for text in ["\"calendar-month 10000\"", "\"calendar-month 9 soft 50%\""] {
        let policy: Policy = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&policy).unwrap(), text);
    }
    let text = "\"gcra 10/m soft 10% count-denied 30s penalty 10m after 3\"";
    let policy: Policy = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&policy).unwrap(), text);
    let error = serde_json::from_str::<Policy>("\"10/never\"").unwrap_err().to_string();
    assert!(
        error.starts_with("in policy \"10/never\": period \"never\" is not understood"),
        "{error}"
    );
}
