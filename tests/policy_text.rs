//! Policies as text: how they are read and printed.

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
        ("TokenBucket 100/s", "gcra 100/s"),
        ("slidingwindow 10/s", "sliding-window 10/s"),
        ("Sliding Window Log 10/s", "sliding-log 10/s"),
        ("leaky-bucket hard 100/m", "gcra 1/m burst 100"),
        ("Sliding Window Exact 100/m", "sliding-window 100/m exact"),
        ("segmented window x6 100/m", "segmented-window 100/m x6"),
        ("fixed-window 100000/month", "calendar-month 100000"),
        ("fixed window 100000 requests per month aligned", "calendar-month 100000"),
        ("calendar-month 10 per month", "calendar-month 10"),
        ("calendar-month 1M", "calendar-month 1000000"),
        ("fixed-window 100000/year", "calendar-year 100000"),
        ("calendar year 10 per year", "calendar-year 10"),
        ("Calendar_Year 90 soft 5%", "calendar-year 90 soft 5%"),
        ("calendar-year aligned 10k", "calendar-year 10000"),
        ("calendar-week 10", "calendar-week 10"),
        ("calendar-week 10 from-monday", "calendar-week 10"),
        (
            "CalendarWeek 10/week From Sunday count-denied",
            "calendar-week 10 from-sunday count-denied",
        ),
        ("calendar week from_saturday 10 per week", "calendar-week 10 from-saturday"),
        ("calendar-week from wednesday 10/7d debt 2x", "calendar-week 10 from-wednesday debt 2x"),
        ("calendar-week 90 soft 5% from tuesday", "calendar-week 90 from-tuesday soft 5%"),
        ("calendar-week 10 from-thursday", "calendar-week 10 from-thursday"),
        ("calendar-week 10 from-friday", "calendar-week 10 from-friday"),
        ("fixed-window 100/m from first", "fixed-window 100/m from-first"),
        ("10 / m", "gcra 10/m"),
        ("10 req / min", "gcra 10/m"),
        ("10 calls every 2 hours", "gcra 10/2h"),
        ("100 in 60 s", "gcra 100/m"),
        ("60 a minute", "gcra 60/m"),
        ("600 rpm", "gcra 600/m"),
        ("10krps", "gcra 10000/s"),
        ("1.5k requests/s", "gcra 1500/s"),
        ("0.25/s", "gcra 1/4s"),
        ("0.05 per 1.5s", "gcra 1/30s"),
        ("0.125/s", "gcra 1/8s"),
        ("1.0/s", "gcra 1/s"),
        ("1/1d12h", "gcra 1/36h"),
        ("1/1.5\u{b5}s", "gcra 1/1500ns"),
        ("3/w", "gcra 3/7d"),
        ("10/s burst 1_000", "gcra 10/s burst 1000"),
        ("10/m count-denied 30 seconds", "gcra 10/m count-denied 30s"),
        ("10/m penalty 10 minutes after 3", "gcra 10/m penalty 10m after 3"),
        ("10/m queue 5 wait 0.5s", "gcra 10/m queue 5 wait 500ms"),
        ("leaky-bucket 5/s queue 50", "gcra 5/s queue 50"),
        ("5/s wait 450ms burst 1", "gcra 5/s burst 1 wait 450ms"),
        ("sliding-window-log 5/s queue 5", "sliding-log 5/s queue 5"),
        ("spaced 5/s wait 2s queue 50 soft 100%", "gcra 5/s burst 1 soft 100% queue 50 wait 2s"),
        ("log 100/m", "sliding-log 100/m"),
        ("  Sliding_Log   100/60s ", "sliding-log 100/m"),
        ("LOG 10/250ms", "sliding-log 10/250ms"),
        ("log 1048576/d", "sliding-log 1048576/d"),
        ("log 1/7ns", "sliding-log 1/7ns"),
        ("log 100/m count-denied soft 5%", "sliding-log 100/m soft 5% count-denied"),
        ("log 100/m wait 2s queue 5", "sliding-log 100/m queue 5 wait 2s"),
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

/// The parts of the text between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_policy_on_the_page_of_the_language_is_read_or_refused_as_it_says() {
    let page = include_str!("../docs/policies.md");
    let (read, refused) = page.split_once("## What is refused").expect("both parts");
    let rows = |part: &'static str| {
        let rows = part.lines().filter(|line| line.starts_with("| `"));
        rows.map(|row| row.split('|').skip(1).take(2).collect::<Vec<_>>())
    };
    let mut texts = 0;
    for row in rows(read) {
        let printed = quoted(row[1]).next().expect("the policy's one text");
        for text in quoted(row[0]) {
            let policy: Policy = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(policy.to_string(), printed, "{text}");
            texts += 1;
        }
    }
    for row in rows(refused) {
        let text = quoted(row[0]).next().expect("a text");
        let error = text.parse::<Policy>().expect_err(text).to_string();
        let said = quoted(row[1]).next().expect("what the error says");
        assert!(error.contains(said), "{error}");
        texts += 1;
    }
    assert!(texts > 50, "{texts} texts");
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
    for text in [
        "\"calendar-week 9 from-sunday\"",
        "\"calendar-month 10000\"",
        "\"calendar-month 9 soft 50%\"",
        "\"sliding-log 10/m\"",
    ] {
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
